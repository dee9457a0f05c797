// The functions of expressions: one row each says what it takes and how it is computed.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/tir/stmt.h"
#include "kernels/te/expr.h"

namespace aipu::te {

enum class Operands : uint8_t {
  kFloat,      // floats
  kRounding,   // floats; integers pass unchanged
  kClassify,   // floats, result bool; what integers give is in the row
  kIntegers,   // integers
  kScaled,     // a float and an int32
  kNumber,     // anything that is counted with
  kStructure,  // made by the front end alone: if_then_else, likely, broadcast, reinterpret
};

struct MathFunction {
  std::string_view name;
  int arity;
  Operands operands;
  std::string_view intrinsic;  // S.<name> of TIR; empty: `expand` says it by others, or it is a function of TIR
  Expr (*expand)(const std::vector<Expr>& args) = nullptr;
  bool of_integers = false;                     // of kClassify
  tir::PrimFuncPtr (*helper)(DType) = nullptr;  // of float32 and float64
};

const MathFunction* find_function(std::string_view name);
const MathFunction* find_function_of_intrinsic(std::string_view intrinsic);
std::vector<std::string_view> function_names();  // those that take operands

// A call, its operands brought to one type. Errors name the function and the types.
Result<Expr> call(std::string_view name, std::vector<Expr> args);

// The same bits as another type of the same size.
Expr make_reinterpret(Type type, Expr value);
Result<Expr> reinterpret(Type type, Expr value);  // checked

// The chosen side alone is evaluated. A constant condition is folded.
Result<Expr> if_then_else(Expr condition, Expr a, Expr b);

}  // namespace aipu::te
