// TIR expressions: immutable, typed, shared.
//
// Semantics (the interpreter is their definition in code, codegen/intrinsics/lanes.* that of every lane):
//  - Integers wrap modulo 2^bits. Shifts take the left operand's type; scalar counts are taken modulo 32 (64), narrower
//    scalars shifted as int32. Vector counts are unsigned; one >= width gives 0 (-1 for negative values shifted right).
//  - kDiv and kMod on integers truncate toward zero; vector division by zero gives 0 and MIN / -1 gives MAX.
//  - Scalar integer division by zero is an error of the program (the interpreter reports it).
//  - kMin and kMax on floats: if one operand is NaN the other one; of equal operands (+0 and -0) the right one.
//  - A Cast follows intrinsics.md 7.1: int to int wraps; int to float16/bfloat16 and float64 to those go through
//    float32; float to int gives 0 for NaN, clamps to the int32 range (the range of int64 for 64-bit targets),
//    truncates and wraps; anything to bool is != 0.
//  - Floating operations round to the type of the node, to nearest, ties to even. Nothing is contracted or
//    reassociated: a fused multiply-add is written as the intrinsic "fma". fp16 and bf16 are computed in float32 and
//    rounded once per operation.
//  - Both operands of a Binary have the same type (the DSL front end has inserted casts and broadcasts); comparisons
//    give bool with the same lanes. Pointer + integer moves by whole pointees; pointers compare by address.
//  - kAnd/kOr short-circuit, on scalars only; kBitAnd/kBitOr/kBitXor also work on bools and masks.
//  - A Select has a scalar bool condition and evaluates one arm.
//  - A pointer element index is a signed integer of any width.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/tir/node_list.h"
#include "codegen/tir/type.h"

namespace aipu::tir {

struct ExprNode;
// A handle to an immutable expression; null means absent (an optional mask, for example).
using Expr = std::shared_ptr<const ExprNode>;

struct Intrinsic;  // a row of the intrinsic table, codegen/intrinsics/intrinsic_table.h

// A variable, parameter or buffer. Its address is its identity; the name is for display only.
struct Var {
  std::string name;
  Type type;                  // a buffer (the target of Alloc) has pointer type
  bool restrict_ = false;     // a pointer parameter known not to alias the others
  bool non_negative = false;  // an S.size_* variable: the simplifier may assume >= 0
  // Of a parameter that is a part of one in the source, how the source writes it: "extras[2]". Not in the text.
  std::string path = {};
  const std::string& source_name() const { return path.empty() ? name : path; }
};
using VarPtr = std::shared_ptr<const Var>;

struct SourceSpan {
  std::shared_ptr<const std::string> file;  // null for generated nodes
  int line = 0;                             // 1-based
  int column = 0;                           // 1-based
};

enum class UnaryOp : uint8_t { kNot, kBitNot };  // kNot: scalar bool; kBitNot: integers, bools, masks
enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kMin,
  kMax,
  kBitAnd,
  kBitOr,
  kBitXor,
  kShl,
  kShr,
  kAnd,
  kOr,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
};

inline bool is_comparison(BinaryOp op) { return op >= BinaryOp::kEq; }
std::string_view binary_op_symbol(BinaryOp op);  // "+", "<=", "min", ...

struct IntImm {
  int64_t value;
};  // scalar integer or bool; a uint64 is held as its bit pattern
struct FloatImm {
  double value;
};  // scalar float; already rounded to the node's type
struct StringImm {
  std::string value;
};  // argument of printf and asm only
struct VarRef {
  VarPtr var;
};
struct Unary {
  UnaryOp op;
  Expr operand;
};
struct Binary {
  BinaryOp op;
  Expr lhs, rhs;
};
struct Select {
  Expr condition, if_true, if_false;
};
// Value conversion to the node's type with equal lanes (intrinsics.md 7.1, part "all", no saturation), or pointer
// reinterpretation.
struct Cast {
  Expr operand;
};
struct Broadcast {
  Expr scalar;
};
struct VectorLiteral {
  std::vector<Expr> lanes;
};
struct Load {
  Expr pointer, index;
};  // one pointee
struct AddressOf {
  VarPtr var;
};  // private pointer to a scalar or vector variable
struct LaneRead {
  Expr vector, index;
};
// A row of the intrinsic table applied to operands. `mask` (null: all lanes) has the lanes of the operands;
// `pass_through` gives inactive result lanes where the intrinsic has such an operand (`r`). Attributes are the
// compile-time arguments, by the names of intrinsics.md.
struct IntrinsicCall {
  const Intrinsic* intrinsic;
  std::vector<Expr> args;
  Expr mask;
  Expr pass_through;
  std::vector<std::pair<std::string, int64_t>> attributes;  // sorted by name

  int64_t attribute(std::string_view name, int64_t default_value = 0) const {
    for (const auto& [key, value] : attributes) {
      if (key == name) return value;
    }
    return default_value;
  }
};
struct FunctionCall {
  std::string function;
  std::vector<Expr> args;
};  // another PrimFunc of the same Module

struct ExprNode {
  Type type;
  SourceSpan span;
  std::variant<AIPU_EXPR_TYPES> node;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&node);
  }
};

// Builders. They check their operands' types in debug builds and fold nothing.
Expr make_expr(Type type, decltype(ExprNode::node) node, SourceSpan span = {});
Expr int_imm(int64_t value, DType dtype = DType::kI32);
Expr float_imm(double value, DType dtype = DType::kF32);  // rounds value to dtype
Expr bool_imm(bool value);
Expr var_ref(const VarPtr& var);
Expr binary(BinaryOp op, Expr lhs, Expr rhs, SourceSpan span = {});
Expr cast(Type type, Expr operand, SourceSpan span = {});  // returns operand itself when the type is already right
Expr broadcast(Expr scalar, int lanes);
Expr load(Expr pointer, Expr index, SourceSpan span = {});

// `value` modulo 2^bits, sign- or zero-extended as the type says; a bool becomes 0 or 1.
int64_t wrap_int(int64_t value, DType dtype);
// `value` rounded to a floating type.
double round_float(double value, DType dtype);
// The type of a Binary over operands of type `lhs`.
Type binary_type(BinaryOp op, Type lhs);

// The value of a scalar integer constant.
std::optional<int64_t> as_int(const Expr& expr);

bool structurally_equal(const Expr& a, const Expr& b);  // variables by identity; spans do not count

}  // namespace aipu::tir
