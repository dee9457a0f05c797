#include <fmt/format.h>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/type_rules.h"

// Not all of the helpers are used here.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "codegen/intrinsics/math_functions.h"

namespace aipu::tir {
namespace {

using namespace rules;

Result<Type> infer_unary(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr x, operand(in, 0));
  if (x->type.pointer) return refused(fmt::format("Unexpect \"{}\" pointer as argument.", type_text(x->type)));
  if (!is_floating(x->type.element)) return refused("Only support floating input.");
  if (x->type.is_scalar() && x->type.element == DType::kBF16) {
    return refused("There isn't any compute instruction for bfloat16 scalar, please convert it to float32 first.");
  }
  return x->type;
}

template <float (*kFloat)(float), double (*kDouble)(double)>
Status run_unary(const LaneCall& c) {
  with_float_type(c.operands[0].type.element, [&]<typename T>(T) {
    map1<T, T>(c, [](auto x) {
      if constexpr (std::is_same_v<decltype(x), double>)
        return kDouble(x);
      else
        return kFloat(x);
    });
  });
  return {};
}

Result<Type> infer_pow(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, true));
  if (!is_floating(type.element)) return refused("Only support floating instruction.");
  return type;
}

Status run_pow(const LaneCall& c) {
  with_float_type(c.operands[0].type.element,
                  [&]<typename T>(T) { map2<T, T>(c, [](auto x, auto y) { return aipu_math_pow(x, y); }); });
  return {};
}

}  // namespace

void add_math_rows(std::vector<Intrinsic>& rows) {
#define AIPU_UNARY(name_text, function, cost_class)                             \
  rows.push_back({.name = name_text,                                            \
                  .params = {value("x")},                                       \
                  .infer = infer_unary,                                         \
                  .run = run_unary<aipu_math_##function, aipu_math_##function>, \
                  .cost = CostClass::cost_class})
  AIPU_UNARY("exp", exp, kTranscendental);
  AIPU_UNARY("exp2", exp2, kTranscendental);
  AIPU_UNARY("log", log, kTranscendental);
  AIPU_UNARY("tanh", tanh, kTranscendental);
  AIPU_UNARY("erf", erf, kTranscendental);
  AIPU_UNARY("sin", sin, kTranscendental);
  AIPU_UNARY("cos", cos, kTranscendental);
  AIPU_UNARY("sqrt", sqrt, kTranscendental);
  AIPU_UNARY("rsqrt", rsqrt, kTranscendental);
  AIPU_UNARY("floor", floor, kArithmetic);
  AIPU_UNARY("ceil", ceil, kArithmetic);
  // Extensions.
  AIPU_UNARY("trunc", trunc, kArithmetic);
  AIPU_UNARY("round", rint, kArithmetic);  // ties to even, like rint, without a mask
  AIPU_UNARY("tan", tan, kTranscendental);
  AIPU_UNARY("asin", asin, kTranscendental);
  AIPU_UNARY("acos", acos, kTranscendental);
  AIPU_UNARY("atan", atan, kTranscendental);
  AIPU_UNARY("sinh", sinh, kTranscendental);
  AIPU_UNARY("cosh", cosh, kTranscendental);
  AIPU_UNARY("asinh", asinh, kTranscendental);
  AIPU_UNARY("acosh", acosh, kTranscendental);
  AIPU_UNARY("atanh", atanh, kTranscendental);
  AIPU_UNARY("log2", log2, kTranscendental);
  AIPU_UNARY("log10", log10, kTranscendental);
  AIPU_UNARY("sigmoid", sigmoid, kTranscendental);
#undef AIPU_UNARY
  rows.push_back({.name = "pow",
                  .params = {value("x"), value("exponent")},
                  .infer = infer_pow,
                  .run = run_pow,
                  .cost = CostClass::kTranscendental});
}

}  // namespace aipu::tir
