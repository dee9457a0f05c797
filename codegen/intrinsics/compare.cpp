#include <fmt/format.h>

#include <cmath>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

using namespace rules;

Result<Type> infer_compare(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false));
  if (is_bool(type.element)) return refused("Only support integer and floating instruction.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type.with_element(DType::kBool);
}

template <BinaryOp kOp>
Status run_compare(const LaneCall& c) {
  with_number_type(c.operands[0].type.element,
                   [&]<typename T>(T) { map2<Bool, T>(c, [](auto x, auto y) { return lane_compare(kOp, x, y); }); });
  return {};
}

Result<Type> infer_classify(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr x, operand(in, 0));
  if (!in.is_literal.empty() && in.is_literal[0]) return refused("The 1st arg expect a variable.");
  if (x->type.pointer || !is_floating(x->type.element)) {
    return refused(fmt::format("The data type of the 1st arg expect floating, but got: \"{}\".", type_text(x->type)));
  }
  AIPU_RETURN_IF_ERROR(finish_mask(in, x->type));
  return x->type.with_element(DType::kBool);
}

enum class Class : uint8_t { kNan, kInf, kFinite };

template <Class kClass>
Status run_classify(const LaneCall& c) {
  with_float_type(c.operands[0].type.element, [&]<typename T>(T) {
    map1<Bool, T>(c, [](auto x) {
      switch (kClass) {
        case Class::kNan:
          return x != x;
        case Class::kInf:
          return std::fabs(x) == std::numeric_limits<decltype(x)>::infinity();
        default:
          return std::fabs(x) < std::numeric_limits<decltype(x)>::infinity();
      }
    });
  });
  return {};
}

// If one operand is NaN the result is the other one, as the device does; of +0 and -0 it is the second.
Result<Type> infer_extremum(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, true));
  if (is_bool(type.element)) return refused("Only support integer and floating instruction.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  AIPU_RETURN_IF_ERROR(finish_pass_through(in, type));
  return type;
}

template <bool kMax>
Status run_extremum(const LaneCall& c) {
  with_number_type(c.operands[0].type.element, [&]<typename T>(T) {
    map2<T, T>(c, [](auto x, auto y) { return kMax ? lane_max(x, y) : lane_min(x, y); });
  });
  return {};
}

// S.maximum, S.minimum (ours): as NumPy's, NaN if one operand is NaN.
template <bool kMax>
Status run_propagating_extremum(const LaneCall& c) {
  with_number_type(c.operands[0].type.element, [&]<typename T>(T) {
    map2<T, T>(c, [](auto x, auto y) { return kMax ? lane_maximum(x, y) : lane_minimum(x, y); });
  });
  return {};
}

Result<Type> infer_is_null(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr x, operand(in, 0));
  if (!x->type.pointer) return refused("The 1st arg expect a pointer.");
  return Type::scalar(DType::kBool);
}

Status run_is_null(const LaneCall& c) {
  c.result.set<uint8_t>(0, c.operands[0].get<Pointer>().region == 0 && c.operands[0].get<Pointer>().offset == 0);
  return {};
}

}  // namespace

void add_compare_rows(std::vector<Intrinsic>& rows) {
  const std::vector<IntrinsicParam> binary = {value("x"), value("y"), mask()};
  const std::vector<IntrinsicParam> unary = {value("x"), mask()};
  const std::vector<IntrinsicParam> extremum = {value("x"), value("y"), mask(), pass_through()};
  rows.push_back({.name = "vceq", .params = binary, .infer = infer_compare, .run = run_compare<BinaryOp::kEq>});
  rows.push_back({.name = "vcneq", .params = binary, .infer = infer_compare, .run = run_compare<BinaryOp::kNe>});
  rows.push_back({.name = "vcge", .params = binary, .infer = infer_compare, .run = run_compare<BinaryOp::kGe>});
  rows.push_back({.name = "vcgt", .params = binary, .infer = infer_compare, .run = run_compare<BinaryOp::kGt>});
  rows.push_back({.name = "vcle", .params = binary, .infer = infer_compare, .run = run_compare<BinaryOp::kLe>});
  rows.push_back({.name = "vclt", .params = binary, .infer = infer_compare, .run = run_compare<BinaryOp::kLt>});
  rows.push_back({.name = "isnan", .params = unary, .infer = infer_classify, .run = run_classify<Class::kNan>});
  rows.push_back({.name = "isinf", .params = unary, .infer = infer_classify, .run = run_classify<Class::kInf>});
  rows.push_back({.name = "isfinite", .params = unary, .infer = infer_classify, .run = run_classify<Class::kFinite>});
  rows.push_back(
      {.name = "max", .params = extremum, .infer = infer_extremum, .run = run_extremum<true>, .commutative = true});
  rows.push_back(
      {.name = "min", .params = extremum, .infer = infer_extremum, .run = run_extremum<false>, .commutative = true});
  rows.push_back({.name = "maximum",
                  .params = extremum,
                  .infer = infer_extremum,
                  .run = run_propagating_extremum<true>,
                  .exposure = Exposure::kExtension});
  rows.push_back({.name = "minimum",
                  .params = extremum,
                  .infer = infer_extremum,
                  .run = run_propagating_extremum<false>,
                  .exposure = Exposure::kExtension});
  // p.is_nullptr of the language.
  rows.push_back({.name = "is_nullptr",
                  .params = {value("pointer")},
                  .infer = infer_is_null,
                  .run = run_is_null,
                  .exposure = Exposure::kInternal});
}

}  // namespace aipu::tir
