#include <fmt/format.h>

#include <cmath>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

using namespace rules;

bool same_types(const LaneCall& c) { return c.operands[0].type.element == c.operands[1].type.element; }

// vadd, vsub: modulo 2^bits, or clamped from the exact result.
Result<Type> infer_add(InferInput& in) {
  const Sign sign = attribute(in, "out_sign") != 0 ? Sign::kMayDiffer : Sign::kMustAgree;
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false, sign));
  if (is_bool(type.element)) return refused("Only support integer and floating instruction.");
  if (is_floating(type.element) && attribute(in, "saturate") != 0)
    return refused("Saturate is meaningless for floating.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  const Type result = with_out_sign(type, in);
  AIPU_RETURN_IF_ERROR(finish_pass_through(in, result));
  return result;
}

template <bool kSubtract>
Status run_add(const LaneCall& c) {
  const bool saturate = c.attribute("saturate") != 0;
  if (saturate || !same_types(c)) {
    map_wide(c, saturate, [&](int i) {
      const Wide x = wide_lane(c.operands[0], i), y = wide_lane(c.operands[1], i);
      return kSubtract ? x - y : x + y;
    });
    return {};
  }
  with_number_type(c.operands[0].type.element, [&]<typename T>(T) {
    map2<T, T>(c, [](auto x, auto y) { return kSubtract ? wrapping_sub(x, y) : wrapping_add(x, y); });
  });
  return {};
}

Result<Type> infer_mul(InferInput& in) {
  const Sign sign = attribute(in, "out_sign") != 0 ? Sign::kMayDiffer : Sign::kMustAgree;
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false, sign));
  if (dtype_bits(type.element) == 8) return refused("The 8bit equal-width multiply is meaningless.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  const Type result = with_out_sign(type, in);
  AIPU_RETURN_IF_ERROR(finish_pass_through(in, result));
  return result;
}

Status run_mul(const LaneCall& c) {
  // The low bits of a product do not depend on the signs.
  with_number_type(c.operands[0].type.element,
                   [&]<typename T>(T) { map2<T, T>(c, [](auto x, auto y) { return wrapping_mul(x, y); }); });
  return {};
}

Result<Type> infer_div(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false));
  if (!is_integer(type.element) && type.element != DType::kF32 && type.element != DType::kF64) {
    return refused("Only support integer and float32 instruction.");
  }
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

Status run_div(const LaneCall& c) {
  with_number_type(c.operands[0].type.element,
                   [&]<typename T>(T) { map2<T, T>(c, [](auto x, auto y) { return lane_div(x, y); }); });
  return {};
}

Result<Type> infer_mod(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false));
  if (!is_integer(type.element)) return refused("Only support integer instruction.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

Status run_mod(const LaneCall& c) {
  with_int_type(c.operands[0].type.element,
                [&]<typename T>(T) { map2<T, T>(c, [](auto x, auto y) { return lane_mod(x, y); }); });
  return {};
}

Result<Type> infer_abs(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0}, true));
  if (is_bool(type.element)) return refused("Only support integer and floating instruction.");
  if (attribute(in, "saturate") != 0) {
    if (is_floating(type.element)) return refused("Saturate is meaningless for floating.");
    if (type.is_scalar()) return refused("Currently can't support saturate in scalar scenario.");
  }
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

Status run_abs(const LaneCall& c) {
  const bool saturate = c.attribute("saturate") != 0;
  with_number_type(c.operands[0].type.element, [&]<typename T>(T) {
    map1<T, T>(c, [&](auto x) {
      using C = decltype(x);
      if constexpr (std::is_floating_point_v<C>) {
        return std::fabs(x);
      } else {
        if (saturate && std::is_signed_v<C> && x == std::numeric_limits<C>::min()) return std::numeric_limits<C>::max();
        return x < 0 ? wrapping_sub(C{0}, x) : x;
      }
    });
  });
  return {};
}

// A bound of clip in the type of x.
Status convert_bound(InferInput& in, size_t index, std::string_view name, Type type) {
  AIPU_ASSIGN_OR_RETURN(Expr bound, operand(in, index));
  const auto unsafe = [&] {
    return refused(fmt::format("Can't cast the arg \"{}\" to \"{}\" safely.", name, type_text(type)));
  };
  if (bound->type == type) return {};
  if (!bound->type.is_scalar()) return unsafe();
  const bool is_literal = index < in.is_literal.size() && in.is_literal[index];
  if (is_literal && is_integer(type.element) && bound->as<IntImm>()) {
    // Literal bounds are narrowed to the range of the element.
    const int64_t value = bound->as<IntImm>()->value;
    const int bits = dtype_bits(type.element);
    int64_t low = 0, high = std::numeric_limits<int64_t>::max();
    if (is_signed_int(type.element)) {
      low = bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits - 1));
      high = bits == 64 ? high : (int64_t{1} << (bits - 1)) - 1;
    } else if (bits < 64) {
      high = (int64_t{1} << bits) - 1;
    }
    (*in.operands)[index] = broadcast(int_imm(std::min(std::max(value, low), high), type.element), type.lanes);
    return {};
  }
  // A floating literal takes the type of x, whatever its own.
  if (is_literal && is_floating(type.element) && bound->as<FloatImm>()) {
    (*in.operands)[index] = broadcast(float_imm(bound->as<FloatImm>()->value, type.element), type.lanes);
    return {};
  }
  if (!convert_operand(in, index, type).ok() || (*in.operands)[index]->type != type) return unsafe();
  return {};
}

Result<Type> infer_clip(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr x, operand(in, 0));
  const Type type = x->type;
  if (type.pointer) return refused(fmt::format("Unexpect \"{}\" pointer as argument.", type_text(type)));
  if (is_bool(type.element)) return refused("Only support integer and floating instruction.");
  AIPU_RETURN_IF_ERROR(convert_bound(in, 1, "min_val", type));
  AIPU_RETURN_IF_ERROR(convert_bound(in, 2, "max_val", type));
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

Status run_clip(const LaneCall& c) {
  const bool is_vector = c.result.type.is_vector();
  with_number_type(c.operands[0].type.element, [&]<typename T>(T) {
    map3<T>(c, [&](auto x, auto low, auto high) {
      using C = decltype(x);
      if (std::is_floating_point_v<C> && is_vector) {
        const C raised = x < low ? low : x;
        return raised > high ? high : raised;
      }
      return lane_max(lane_min(x, high), low);
    });
    if (c.mask == nullptr) return;
    for (int i = 0; i < c.result.type.lanes; ++i) {
      if (!c.active(i)) lanes_of<T>(c.result)[i] = lanes_of<T>(c.operands[0])[i];
    }
  });
  return {};
}

Result<Type> infer_fma(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1, 2}, true));
  // fp64 and fp16 are extensions.
  if (type.element != DType::kF32 && type.element != DType::kF64 && type.element != DType::kF16)
    return refused("Only support float32 instruction.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

Status strict_fma(const IntrinsicCall& call) {
  return call.args[0]->type.element == DType::kF32 ? Status() : refused("Only support float32 instruction.");
}

Status run_fma(const LaneCall& c) {
  with_float_type(c.operands[0].type.element, [&]<typename T>(T) {
    map3<T>(c, [](auto acc, auto x, auto y) {
      if constexpr (std::is_same_v<decltype(x), double>)
        return __builtin_fma(x, y, acc);
      else
        return __builtin_fmaf(x, y, acc);
    });
    if (c.mask == nullptr) return;
    for (int i = 0; i < c.result.type.lanes; ++i) {
      if (!c.active(i)) lanes_of<T>(c.result)[i] = lanes_of<T>(c.operands[0])[i];
    }
  });
  return {};
}

Result<Type> infer_rint(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0}, true));
  if (!is_floating(type.element)) return refused("Only support floating input.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

Status run_rint(const LaneCall& c) {
  with_float_type(c.operands[0].type.element, [&]<typename T>(T) {
    map1<T, T>(c, [](auto x) {
      if constexpr (std::is_same_v<decltype(x), double>)
        return __builtin_rint(x);
      else
        return __builtin_rintf(x);
    });
  });
  return {};
}

// trunc((x + y - 1) / y), the sum wrapping.
Result<Type> infer_ceildiv(InferInput& in) {
  for (const size_t i : {0, 1}) {
    AIPU_ASSIGN_OR_RETURN(const Expr e, operand(in, i));
    if (!e->type.is_scalar() || !is_integer(e->type.element))
      return refused(fmt::format("The {} arg expect an integer scalar.", ordinal(i)));
  }
  return match_operands(in, {0, 1}, true);
}

Status run_ceildiv(const LaneCall& c) {
  bool by_zero = false;
  with_int_type(c.operands[0].type.element, [&]<typename T>(T) {
    map2<T, T>(c, [&](auto x, auto y) {
      by_zero |= y == 0;
      return lane_div(wrapping_sub(wrapping_add(x, y), static_cast<T>(1)), y);
    });
  });
  return by_zero ? invalid_argument("The 2nd arg can't be zero.") : Status();
}

}  // namespace

void add_arithmetic_rows(std::vector<Intrinsic>& rows) {
  const std::vector<IntrinsicParam> add = {value("x"),       value("y"), mask(),
                                           flag("saturate"), out_sign(), pass_through()};
  const std::vector<IntrinsicParam> plain = {value("x"), value("y"), mask()};
  rows.push_back({.name = "vadd", .params = add, .infer = infer_add, .run = run_add<false>, .commutative = true});
  rows.push_back({.name = "vsub", .params = add, .infer = infer_add, .run = run_add<true>});
  rows.push_back({.name = "vmul",
                  .params = {value("x"), value("y"), mask(), out_sign(), pass_through()},
                  .infer = infer_mul,
                  .run = run_mul,
                  .commutative = true});
  rows.push_back({.name = "vdiv", .params = plain, .infer = infer_div, .run = run_div, .cost = CostClass::kDivide});
  rows.push_back({.name = "vmod", .params = plain, .infer = infer_mod, .run = run_mod, .cost = CostClass::kDivide});
  rows.push_back({.name = "abs", .params = {value("x"), mask(), flag("saturate")}, .infer = infer_abs, .run = run_abs});
  rows.push_back({.name = "clip",
                  .params = {value("x"), value("min_val"), value("max_val"), mask()},
                  .infer = infer_clip,
                  .run = run_clip});
  rows.push_back({.name = "fma",
                  .params = {value("acc"), value("x"), value("y"), mask()},
                  .infer = infer_fma,
                  .run = run_fma,
                  .strict = strict_fma});
  rows.push_back({.name = "rint", .params = {value("x"), mask()}, .infer = infer_rint, .run = run_rint});
  rows.push_back({.name = "ceildiv",
                  .params = {value("x"), value("y")},
                  .infer = infer_ceildiv,
                  .run = run_ceildiv,
                  .cost = CostClass::kDivide});
}

}  // namespace aipu::tir
