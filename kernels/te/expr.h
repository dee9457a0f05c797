// Expressions of tensors: immutable, typed, shared. What a user of `te` writes; lowered once, at the end, to TIR.
//
// What TIR does not have: floor division, elements of tensors with several indices, reductions. A variable is a node,
// and the node is its identity.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codegen/tir/type.h"
#include "runtime/base/status.h"

namespace aipu::te {

using tir::Type;

struct ExprNode;
using Expr = std::shared_ptr<ExprNode>;  // null means absent; nodes have no mutable part
struct IterVar;
using IterVarPtr = std::shared_ptr<IterVar>;
struct Operation;
using OperationPtr = std::shared_ptr<Operation>;

enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,  // of integers: toward zero
  kMod,
  kFloorDiv,
  kFloorMod,
  kMin,
  kMax,
  kBitAnd,
  kBitOr,
  kBitXor,
  kShl,
  kShr,
  kAnd,  // of scalar bools; the second is evaluated only where it decides
  kOr,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
};
inline bool is_comparison(BinaryOp op) { return op >= BinaryOp::kEq; }

// What is known about an operation between two expressions, by its enumerator.
struct BinaryRow {
  std::string_view node;    // the class of Python: "FloorDiv"
  std::string_view symbol;  // "//"; of functions the name
  bool infix;
};
const BinaryRow& binary_row(BinaryOp op);
std::optional<BinaryOp> find_binary(std::string_view node);

struct IntImm {
  int64_t value;
};  // also of type bool
struct FloatImm {
  double value;
};
struct StringImm {
  std::string value;
};
struct Var {
  std::string name;
  bool size;    // known to be at least 0
  uint64_t id;  // in the order of making, for texts that are the same every time
};
struct Binary {
  BinaryOp op;
  Expr a, b;
};
struct Not {
  Expr a;
};
// Both sides may be evaluated; the call "if_then_else" evaluates one.
struct Select {
  Expr condition, true_value, false_value;
};
struct Cast {
  Expr value;
};
// A row of the table of functions (functions.h).
struct Call {
  std::string name;
  std::vector<Expr> args;
};
// An element of a tensor.
struct Read {
  OperationPtr op;
  int value_index;
  std::vector<Expr> indices;
};

// How two values (or tuples of values) are combined: `result` is over the variables `lhs` and `rhs`.
struct Combiner {
  std::string name;
  std::vector<Expr> lhs, rhs, result, identity;
};
using CombinerPtr = std::shared_ptr<Combiner>;

// Only at the top of the expression of a tensor. `init` is empty or replaces the identities.
struct Reduce {
  CombinerPtr combiner;
  std::vector<Expr> source;
  std::vector<IterVarPtr> axis;
  Expr condition;  // never null
  int value_index;
  std::vector<Expr> init;
};

struct ExprNode {
  const Type type;
  const std::variant<IntImm, FloatImm, StringImm, Var, Binary, Not, Select, Cast, Call, Read, Reduce> node;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&node);
  }
};

struct Range {
  Expr min, extent;
};

enum class IterKind : uint8_t {  // the numbers are those that Python sees
  kDataPar = 0,
  kThreadIndex = 1,
  kCommReduce = 2,
  kOrdered = 3,
  kOpaque = 4,
  kUnrolled = 5,
  kVectorized = 6,
  kParallelized = 7,
  kTensorized = 8,
};

// An axis: a variable with a domain. Its address is its identity.
struct IterVar {
  Expr var;
  std::optional<Range> dom;
  IterKind kind = IterKind::kDataPar;
  std::string thread_tag = {};
  const std::string& name() const { return var->as<Var>()->name; }
};

// Without checks: types are right by construction.
Expr make_expr(Type type, decltype(ExprNode::node) node);
Expr make_int(int64_t value, Type type = Type::scalar(DType::kI32));
Expr make_float(double value, Type type = Type::scalar(DType::kF32));
Expr make_bool(bool value);
Expr make_var(std::string name, Type type = Type::scalar(DType::kI32), bool size = false);
// Folds constants and what neutral elements make trivial; operands have one type.
Expr make_binary(BinaryOp op, Expr a, Expr b);
Expr make_not(Expr a);
Expr make_cast(Type type, Expr value);        // folds constants
Expr make_and(const Expr& a, const Expr& b);  // null is true

inline Expr add(Expr a, Expr b) { return make_binary(BinaryOp::kAdd, std::move(a), std::move(b)); }
inline Expr sub(Expr a, Expr b) { return make_binary(BinaryOp::kSub, std::move(a), std::move(b)); }
inline Expr mul(Expr a, Expr b) { return make_binary(BinaryOp::kMul, std::move(a), std::move(b)); }
inline Expr floordiv(Expr a, Expr b) { return make_binary(BinaryOp::kFloorDiv, std::move(a), std::move(b)); }
inline Expr floormod(Expr a, Expr b) { return make_binary(BinaryOp::kFloorMod, std::move(a), std::move(b)); }
inline Expr less(Expr a, Expr b) { return make_binary(BinaryOp::kLt, std::move(a), std::move(b)); }

std::optional<int64_t> as_int(const Expr& expr);  // the value of an integer or bool constant
bool is_zero(const Expr& expr);
bool is_index(Type type);  // scalar, signed, 32 or 64 bits: what extents and indices are made of
// Brings two index expressions to one type, the wider.
void match_index_types(Expr& a, Expr& b);

// The checked forms: operands are brought to one type by the rules of binary operations; errors name the types.
Result<Expr> binary(BinaryOp op, Expr a, Expr b);
Result<Type> common_type(Type a, Type b);
Result<Expr> convert(Type type, Expr value);  // also broadcasts a scalar

// The type that `text` names: "float32", "int8x16", "handle", "void".
std::optional<Type> parse_type(std::string_view text);
std::string type_text(Type type);

// The finite limits of a type, as constants.
Expr min_value(Type type);
Expr max_value(Type type);

}  // namespace aipu::te
