// Rewrites the functions of a module to native vectors; the pass is align_vector_width() in passes.h. Private to
// codegen/compass_c.
//
// A value of any other number of lanes is held in parts: native vectors, the last one padded with lanes that are
// undefined (in masks: off or undefined). A variable of such a type is a private array of native vectors. The lanes of
// a mask belong to the values it is used with: 8, 16 or 32 of them to a part, whatever its own type says.
//
// Statements are appended to out_; what an expression needs before it (arrays for the results of functions,
// temporaries) goes there too. What can't be done sets failed_; the pass then leaves the module as it was.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/tir/stmt.h"

namespace aipu::tir::c_text {

constexpr int kVectorBits = 256;
inline int native_lanes(DType element) { return kVectorBits / dtype_bits(element); }
// Lanes of the smallest mask register that holds so many.
inline int mask_register_lanes(int lanes) { return lanes <= 8 ? 8 : lanes <= 16 ? 16 : 32; }
// Data of another number of lanes than a register has. Masks are judged by their use.
inline bool is_wide(const Type& type) {
  return type.is_vector() && !type.is_mask() && type.lanes != native_lanes(type.element);
}

// How functions pass values: registers as they are, everything else as an array of them that the caller has.
inline int passed_lanes(const Type& type) {
  return type.is_mask() ? mask_register_lanes(type.lanes) : native_lanes(type.element);
}
inline bool is_passed_in_parts(const Type& type) { return type.is_vector() && passed_lanes(type) != type.lanes; }

class VectorAligner {
 public:
  explicit VectorAligner(const Module& module) : module_(module) {}

  PrimFuncPtr run(const PrimFunc& function);
  bool failed() const { return failed_; }

 private:
  using Parts = std::vector<Expr>;

  Expr give_up();

  // ---- variables ----

  struct Array {
    VarPtr buffer;
    int lanes;  // of a part
    int count;
  };
  static VarPtr new_var(std::string name, Type type);
  Array allocate(const std::string& name, Type type, int lanes);
  const Array* array_of(const VarPtr& var) const;
  VarPtr renamed(const VarPtr& var) const;
  static Type lowered(Type type);  // of a pointer to vectors that are no registers: to their elements
  Expr bind(const Expr& value);    // a value that may be mentioned several times
  Expr named(const Expr& value);   // a variable with the value

  // How many lanes of each mask variable are a part.
  void choose_groups(const PrimFunc& function);
  // 0: as many as wanted.
  int group_of(const Expr& mask) const;
  int part_lanes(const Expr& e, int wanted = 0) const;
  bool in_parts(const Expr& e) const;

  // ---- statements ----

  void statements(const Stmt& stmt, std::vector<Stmt>& into);
  Stmt body_of(const Stmt& stmt);
  void statement(const Stmt& stmt);
  void emit(decltype(StmtNode::node) node);
  void store_parts(const Array& array, Parts parts, bool may_overlap);
  // Whether computing the parts reads what storing to `pointer` may write.
  bool may_overlap(const Parts& values, const Expr& pointer) const;
  void store_to_memory(const Expr& value, const Expr& pointer, const Expr& stride, const Expr& mask);
  void lane_write(const LaneWrite& n);
  void call_into(const FunctionCall& n, const Array& array);
  std::vector<Expr> arguments(const FunctionCall& n);

  // ---- expressions ----

  // Runs `make` with statements going to `into`.
  template <typename F>
  auto aside(std::vector<Stmt>& into, F&& make) {
    std::vector<Stmt>* outer = std::exchange(out_, &into);
    auto result = make();
    out_ = outer;
    return result;
  }
  Expr logical(const Expr& e, const Binary& n);
  Expr whole_select(const Expr& e, const Select& n);
  Parts select_parts(const Expr& e, const Select& n, int lanes);
  Expr call(std::string_view name, std::vector<Expr> operands,
            std::vector<std::pair<std::string, int64_t>> attributes = {}, Expr mask = nullptr,
            Expr pass_through = nullptr);
  // A value that is no parts, whose operands may be.
  Expr whole(const Expr& e);
  Expr whole_intrinsic(const Expr& e, const IntrinsicCall& n);
  Expr lane_read(const Expr& e, const LaneRead& n);
  // The parts of `lanes` lanes (0: as the value has them).
  Parts parts(const Expr& e, int lanes = 0);
  Parts natural_parts(const Expr& e, int lanes);
  Parts intrinsic_parts(const Expr& e, const IntrinsicCall& n, int lanes);
  Parts registerwise_parts(const Expr& e, const IntrinsicCall& n, int lanes);
  // Empty: not one of these, or not in this form.
  Parts rearranged_parts(const Expr& e, const IntrinsicCall& n, int lanes);
  Parts reduced_parts(const Expr& e, const IntrinsicCall& n, int lanes);
  Parts gather_parts(const Expr& e, const IntrinsicCall& n, int lanes);
  void scatter_parts(const IntrinsicCall& n);
  Expr index_part(const Parts& indices, size_t i, int lanes);
  Parts load_parts(const Expr& pointer, const Expr& stride, const Expr& mask, Type type);
  static bool has_conversion(DType from, DType to);
  Parts cast_parts(Type to, const Parts& operand, Type from, bool saturate);
  Parts array_parts(const Array& array);
  Parts regroup(const Parts& masks, int total, int lanes);
  // A mask of `lanes` lanes from `first` on, lane by lane.
  Expr mask_of_lanes(const Parts& masks, int total, int first, int lanes);
  // All lanes as one value, for what is defined on such only.
  Expr joined(const Expr& e);
  // A value of many lanes, computed as one, in parts.
  Parts spilled(const Expr& value);
  Expr extended(const Expr& value, DType to, int ratio, int part);
  Expr narrowed(const std::vector<Expr>& values, Type to, bool saturate);
  // Whether they are rounded float32 vectors on their way to narrower integers: rounding and converting to as many bits
  // is one instruction.
  static bool are_rounded(const std::vector<Expr>& values, Type to);
  Expr valid_mask(int lanes, int valid, const Expr& mask);
  Expr element_pointer(const Expr& pointer, DType element, const Expr& offset);
  Expr scaled(const Expr& index, int64_t lanes);

  const Module& module_;
  bool failed_ = false;
  std::vector<Stmt>* out_ = nullptr;
  SourceSpan span_;
  VarPtr result_;                              // where a result in parts goes
  std::unordered_set<const Var*> own_;         // arrays made here: nothing else points to them
  std::unordered_set<const Var*> parameters_;  // of the entry: taken to point to different memory
  std::unordered_map<const Var*, int> groups_;
  std::unordered_map<const Var*, Array> arrays_;
  std::unordered_map<const Var*, VarPtr> renamed_;
};

}  // namespace aipu::tir::c_text
