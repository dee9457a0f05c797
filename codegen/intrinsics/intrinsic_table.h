// The one table of intrinsics: every `S.*` computing function is declared once, with its names, its operands, the type
// rule, what it does to lanes (used by the interpreter, by constant folding and by eager Python calls) and how the
// generated C spells it.
//
// The table is assembled from one row list per family (arithmetic, bitwise, compare, convert, memory, permute, reduce,
// math, sync). The DSL front end binds arguments by `params`, resolves the result type with `infer`, and builds a
// tir::IntrinsicCall; it knows no intrinsic by name except the few that are syntax (ptr, alloc*, tec_range, grid, ...).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/tir/expr.h"
#include "runtime/base/status.h"

namespace aipu::tir {

struct LaneValue;    // codegen/intrinsics/lanes.h: the type and lanes of an evaluated operand
struct LaneCall;     // codegen/intrinsics/lanes.h: a call over lanes in memory, for the interpreter
class MachineState;  // codegen/intrinsics/lanes.h: memory, TEC id, barriers, for intrinsics with effects

enum class ParamKind : uint8_t {
  kOperand,      // a value: scalar, vector, mask or pointer expression
  kMask,         // the optional `mask`
  kPassThrough,  // the optional `r`
  // a compile-time int, bool, string or dtype, stored as int64 (strings through their index in `choices`)
  kAttribute,
};

// What an intrinsic does with the memory behind a pointer operand.
enum class Access : uint8_t { kNone, kRead, kWrite, kReadWrite, kDescriptor };
inline bool writes(Access access) { return access == Access::kWrite || access == Access::kReadWrite; }

// The part that an operand has in the size of a transfer: all such operands multiplied are the elements that are moved,
// those per row the rows.
enum class TransferExtent : uint8_t { kNone, kWithinRow, kRow };

struct IntrinsicParam {
  std::string_view name;
  ParamKind kind = ParamKind::kOperand;
  bool required = true;
  int64_t default_value = 0;
  std::vector<std::string_view> choices = {};  // allowed strings of an attribute
  Access access = Access::kNone;
  TransferExtent extent = TransferExtent::kNone;
  // Of the last one: it stands for any number of arguments, and the type rule says how few are too few.
  bool repeated = false;
};

// What the front end hands to a type rule: operands after conversion to expressions (literals are still marked),
// attributes by name.
struct InferInput {
  std::vector<Expr>* operands;   // the rule may insert casts and broadcasts
  std::vector<bool> is_literal;  // operand i was a bare Python number
  Expr* mask;
  Expr* pass_through;
  std::vector<std::pair<std::string, int64_t>>* attributes;
};

// How a call on vectors wider than a register is split (codegen/lower/split_vectors.cpp).
enum class Splitting : uint8_t {
  kElementwise,  // lane i of the result depends on lane i of operands, mask and pass-through alone: split anywhere
  kSpecial,      // has a rule of its own there
  kNone,         // only defined on (256-bit) registers
};

// What a call occupies, for the timing model.
enum class CostClass : uint8_t {
  kArithmetic,  // one operation of the scalar or vector unit
  kDivide,
  kTranscendental,
  kReduction,
  kMatrix,
  kMemory,  // one access; each lane's where addresses do not follow each other
  kTransfer,
  kBarrier,
  kEvent,
  kPrint,
  kFree,
};

// Who may call an intrinsic as S.<name>.
enum class Exposure : uint8_t {
  kLanguage,
  kExtension,  // ours: not for strict programs, which have to run on other implementations of the language too
  kInternal,   // nobody: it stands behind another construct, such as S.vsplit
};

struct Intrinsic {
  std::string_view name;  // as in S.<name>
  std::vector<IntrinsicParam> params;
  // The result type, or an error with the phrase of intrinsics.md. Also matches and broadcasts the operands.
  std::function<Result<Type>(InferInput&)> infer;
  // The value of the call, lane by lane. Pure intrinsics ignore the machine.
  std::function<Result<LaneValue>(const IntrinsicCall&, const Type& result, std::span<const LaneValue> operands,
                                  const LaneValue* mask, const LaneValue* pass_through, MachineState* machine)>
      evaluate;
  bool pure = true;  // no effect and no dependence on memory: may be folded, merged and dropped
  // Not pure but without effect, such as a load: may be dropped.
  bool droppable = false;
  Splitting splitting = Splitting::kElementwise;
  // What `evaluate` does, without copies: reads and writes lanes where they are.
  Status (*run)(const LaneCall& call) = nullptr;
  CostClass cost = CostClass::kArithmetic;
  bool asynchronous = false;  // goes on when the call has returned; its `event` tells when it is done
  bool asks_tec = false;      // of the TEC that runs it: its number, its barrier, where its output goes
  bool commutative = false;   // of its two operands
  // Defined on registers, of which every vector operand has as many as the result, whatever their lanes.
  bool registerwise = false;
  std::string_view reduces_by = {};  // of a reduction: the intrinsic that makes one lane of two
  BinaryOp reduces_with = {};        // and the same as an operator
  // Of an operation on neighbouring lanes: the intrinsic that makes one of two, saturating where it can.
  std::string_view pairs_by = {};
  Exposure exposure = Exposure::kLanguage;
  // Computes with its operands. What only moves or converts them takes scalars that nothing computes with (bfloat16).
  bool computes = true;
  // What a strict program is refused beyond the type rule: widths and types that the reference does not give. The
  // operands are as the type rule left them, the first one is there.
  Status (*strict)(const IntrinsicCall& call) = nullptr;
  // What NPUs of a generation do not have: "The \"vmml\"", or nothing.
  std::string (*lacks)(const IntrinsicCall& call, int generation) = nullptr;
};

// Types as attributes (the `dtype` of cast and reinterpret). Lanes 1 in a cast of a vector means "as the case says".
inline int64_t attribute_of_type(Type type) {
  return static_cast<int64_t>(type.element) | static_cast<int64_t>(type.pointer) << 8 |
         static_cast<int64_t>(type.scope) << 16 | static_cast<int64_t>(type.lanes) << 32;
}
inline Type type_of_attribute(int64_t value) {
  return {static_cast<DType>(value & 0xff), static_cast<int32_t>(value >> 32), (value >> 8 & 0xff) != 0,
          static_cast<Scope>(value >> 16 & 0xff)};
}

// Calls an intrinsic by name: runs `infer` on the operands and builds the call. For passes and tests.
Result<Expr> intrinsic_call(std::string_view name, std::vector<Expr> operands,
                            std::vector<std::pair<std::string, int64_t>> attributes = {}, Expr mask = nullptr,
                            Expr pass_through = nullptr, SourceSpan span = {});

// The operand that was given for a parameter; null where it was left out, or there is no such parameter.
const Expr* operand_of(const IntrinsicCall& call, std::string_view parameter);

// Null when there is none of that name.
const Intrinsic* find_intrinsic(std::string_view name);
std::span<const Intrinsic> all_intrinsics();

}  // namespace aipu::tir
