// One call of an intrinsic or operator on values that are already there: what the interpreter does within a program,
// for eager Python (PySim) outside of one. Knows nothing of Python.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/intrinsics/lanes.h"
#include "codegen/tir/expr.h"
#include "runtime/base/status.h"

namespace aipu::python {

// Memory that a pointer operand points into; owned by the caller and alive during the call.
struct EagerMemory {
  std::byte* data = nullptr;  // null: the null pointer
  int64_t bytes = 0;
  bool writable = true;
  int64_t offset = 0;  // of the pointer, in bytes
};

// An argument: nothing (left out), a literal (a bare Python number or string), or a typed value.
struct EagerOperand {
  std::variant<std::monostate, bool, int64_t, double, std::string> literal;
  tir::Type type;                    // of a typed value; void for literals
  const std::byte* lanes = nullptr;  // of a value that is no pointer
  EagerMemory memory;                // of a pointer

  bool is_literal() const { return literal.index() != 0; }
  bool is_typed() const { return type.pointer || !type.is_void(); }
};

// Which lanes of a result the language leaves undefined.
enum class UndefinedLanes : int { kNone, kMaskedOff, kAllButFirst, kAllButFirstTwo, kOdd };

class EagerCall final : private tir::MachineState {
 public:
  explicit EagerCall(const tir::Intrinsic& row) : row_(row) {}
  EagerCall(const EagerCall&) = delete;
  EagerCall& operator=(const EagerCall&) = delete;

  Status add(const EagerOperand& operand);
  // A mask or `r`; a literal mask comes as its bits, which may be fewer than the lanes.
  void set_mask(const EagerOperand& mask);
  void set_mask_bits(const std::vector<bool>& bits);
  Status set_pass_through(const EagerOperand& value);
  // Numbers as the rows of the table count them: choices by index, types by attribute_of_type().
  void set_attribute(std::string name, int64_t value) { attributes_.emplace_back(std::move(name), value); }

  // The type of the result (void: none) or the phrase of the type rule.
  Result<tir::Type> infer();
  // After infer(): writes the lanes of the result; `undefined` lanes get the bytes of `filler` (empty: stay 0).
  Status run(std::byte* result, UndefinedLanes undefined = UndefinedLanes::kNone, std::string_view filler = {});
  const std::string& printed() const { return printed_; }

 private:
  Result<tir::Expr> expr_of(const EagerOperand& operand);
  Result<tir::LaneRef> evaluate(const tir::Expr& expr);

  std::byte* access(tir::Pointer pointer, int64_t byte_offset, int64_t bytes, bool write) override;
  Status access_error(tir::Pointer pointer, int64_t byte_offset, int64_t bytes, bool write) const override;
  int tec_id() const override { return 0; }
  int tec_count() const override { return 1; }
  Status barrier() override { return unsupported("PySim runs barriers in Python"); }
  void print(std::string_view text) override { printed_ += text; }
  void report_fault(int, int64_t, int64_t) override {}  // an extension that Python kernels do not see
  uint64_t address_of(tir::Pointer pointer) override;
  tir::Pointer pointer_at(uint64_t) override { return {}; }
  Result<int> alloc_event() override { return unsupported("PySim keeps events in Python"); }
  Status free_event(int) override { return unsupported("PySim keeps events in Python"); }
  bool event_in_use(int) const override { return false; }

  const tir::Intrinsic& row_;
  std::vector<tir::Expr> operands_;
  std::vector<bool> is_literal_;
  tir::Expr mask_, pass_through_;
  std::vector<std::pair<std::string, int64_t>> attributes_;
  tir::Type result_;
  // the values given, by the variables that stand for them
  std::vector<std::pair<tir::VarPtr, tir::LaneRef>> variables_;
  std::vector<EagerMemory> memories_ = {EagerMemory{}};  // region 0 is the null pointer's
  std::deque<tir::LaneValue> temporaries_;
  std::string printed_;
};

// x op y with the operand matching of language.md 6.2; at least one operand is typed. Comparisons give bools.
Result<tir::LaneValue> eager_binary(tir::BinaryOp op, const EagerOperand& x, const EagerOperand& y);
// ~x of integers, bools and masks.
Result<tir::LaneValue> eager_invert(const EagerOperand& x);
// Conversion as by a store: to the element type, scalars broadcast. Float to int as intrinsics.md 7.1.
Result<tir::LaneValue> eager_convert(const EagerOperand& x, tir::Type to);

}  // namespace aipu::python
