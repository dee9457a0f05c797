#include <fmt/format.h>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

using namespace rules;

enum class BitOp : uint8_t { kAnd, kOr, kXor };

Result<Type> infer_binary_bits(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false));
  if (is_floating(type.element)) return refused("Only support integer and bool instruction.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

template <BitOp kOp>
Status run_binary_bits(const LaneCall& c) {
  with_lane_type(c.result.type.element, [&]<typename T>(T) {
    if constexpr (!kIsFloatLane<T>) {
      map2<T, T>(c, [](auto x, auto y) {
        return static_cast<decltype(x)>(kOp == BitOp::kAnd ? x & y : kOp == BitOp::kOr ? x | y : x ^ y);
      });
    }
  });
  return {};
}

Result<Type> infer_vinv(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0}, false));
  if (is_floating(type.element)) return refused("Only support integer and bool instruction.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

Status run_vinv(const LaneCall& c) {
  with_lane_type(c.result.type.element, [&]<typename T>(T) {
    if constexpr (std::is_same_v<T, Bool>)
      map1<T, T>(c, [](bool x) { return !x; });
    else if constexpr (!kIsFloatLane<T>)
      map1<T, T>(c, [](auto x) { return static_cast<decltype(x)>(~x); });
  });
  return {};
}

Result<Type> infer_all_any(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr x, operand(in, 0));
  if (!x->type.is_mask()) return refused("The arg \"mask\" expect a variable.");
  return Type::scalar(DType::kBool);
}

template <bool kAll>
Status run_all_any(const LaneCall& c) {
  const LaneRef& x = c.operands[0];
  bool result = kAll;
  for (int i = 0; i < x.type.lanes; ++i) {
    if ((x.data[i] != std::byte{0}) != kAll) result = !kAll;
  }
  c.result.set<uint8_t>(0, result);
  return {};
}

// ---- shifts: the count is a scalar or a vector of the same element width, read as unsigned ----

Status match_shift(InferInput& in, bool same_sign) {
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  const Type type = (*in.operands)[0]->type;
  if (!is_integer(type.element)) return refused("Only support integer instruction.");
  AIPU_ASSIGN_OR_RETURN(const Expr shift, operand(in, 1));
  if (shift->type.is_scalar()) {
    if (!is_integer(shift->type.element))
      return refused(fmt::format("Can't broadcast \"{}\" to any of \"{}\".", shift->type.text(), type.text()));
    const bool is_literal = in.is_literal.size() > 1 && in.is_literal[1];
    // Run-time counts of other types keep their low bits: a count that matters is small.
    if (is_literal) {
      AIPU_RETURN_IF_ERROR(convert_operand(in, 1, type));
      if ((*in.operands)[1]->type != type) (*in.operands)[1] = cast(type, (*in.operands)[1]);
    } else {
      (*in.operands)[1] = broadcast(cast(Type::scalar(type.element), shift, shift->span), type.lanes);
    }
    return {};
  }
  AIPU_ASSIGN_OR_RETURN(const Type ignored,
                        match_operands(in, {0, 1}, false, same_sign ? Sign::kMustAgree : Sign::kMayDiffer));
  (void)ignored;
  return {};
}

Result<Type> infer_shift(InferInput& in, bool left) {
  AIPU_RETURN_IF_ERROR(match_shift(in, !left));
  const Type type = (*in.operands)[0]->type;
  if (left && attribute(in, "saturate") != 0 && !is_signed_int(type.element))
    return refused("Only support input signed dtype if saturate.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  AIPU_RETURN_IF_ERROR(finish_pass_through(in, type));
  return type;
}
Result<Type> infer_vsl(InferInput& in) { return infer_shift(in, true); }
Result<Type> infer_vsr(InferInput& in) { return infer_shift(in, false); }

Result<Type> infer_vror(InferInput& in) {
  AIPU_RETURN_IF_ERROR(match_shift(in, true));
  const Type type = (*in.operands)[0]->type;
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

template <typename T>
uint64_t count_lane(const LaneCall& c, int i) {
  return lanes_of<std::make_unsigned_t<T>>(c.operands[1])[i];
}

template <typename Op>
Status run_shift(const LaneCall& c, Op op) {
  with_int_type(c.result.type.element, [&]<typename T>(T) {
    const T* x = lanes_of<T>(c.operands[0]);
    T* out = lanes_of<T>(c.result);
    for (int i = 0; i < c.result.type.lanes; ++i) out[i] = op(x[i], count_lane<T>(c, i));
    blend_inactive<T>(c);
  });
  return {};
}

Status run_vsl(const LaneCall& c) {
  if (c.attribute("saturate") == 0) {
    return run_shift(c, [](auto x, uint64_t count) { return lane_shl(x, count); });
  }
  return run_shift(c, []<typename T>(T x, uint64_t count) {
    if (x == 0) return T{0};
    const Wide exact = static_cast<Wide>(x) * (Wide{1} << std::min<uint64_t>(count, 63));
    return clamp_to<T>(exact);
  });
}

// x / 2^count rounded to nearest, ties to even, exact.
Wide rounding_shift_right(Wide x, uint64_t count) {
  if (count == 0) return x;
  if (count > 65) return 0;
  const Wide floor = x >> count;
  const Wide rest = x - floor * (Wide{1} << count);
  const Wide half = Wide{1} << (count - 1);
  return rest > half || (rest == half && (floor & 1) != 0) ? floor + 1 : floor;
}

Status run_vsr(const LaneCall& c) {
  if (c.attribute("with_round") == 0) {
    return run_shift(c, [](auto x, uint64_t count) { return lane_shr(x, count); });
  }
  return run_shift(c, []<typename T>(T x, uint64_t count) { return static_cast<T>(rounding_shift_right(x, count)); });
}

Status run_vror(const LaneCall& c) {
  return run_shift(c, []<typename T>(T x, uint64_t count) {
    using U = std::make_unsigned_t<T>;
    constexpr unsigned kBits = sizeof(T) * 8;
    const auto s = static_cast<unsigned>(count % kBits);
    const auto u = static_cast<U>(x);
    return s == 0 ? x : static_cast<T>(static_cast<U>(u >> s) | static_cast<U>(u << (kBits - s)));
  });
}

// ---- narrowing shifts ----

Result<Type> infer_vnsr(InferInput& in) {
  AIPU_RETURN_IF_ERROR(match_shift(in, false));
  const Type type = (*in.operands)[0]->type;
  const int bits = dtype_bits(type.element);
  if (bits != 16 && bits != 32) return refused("Only support 16/32 bits integer instruction.");
  const bool to_h = attribute(in, "to_h") != 0;
  if (to_h && bits != 32) return refused("The arg \"to_h\" only can be set for 32 bits instruction.");
  AIPU_RETURN_IF_ERROR(require_width(type, Widths::kNativeOrMultiple));
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  const bool is_signed = is_signed_int(with_out_sign(type, in).element);
  const DType narrow = with_sign(to_h ? DType::kI16 : DType::kI8, is_signed);
  return Type::vector(narrow, type.lanes * bits / dtype_bits(narrow));
}

Status vnsr(const LaneCall& c, bool saturate, bool with_round) {
  const LaneRef& x = c.operands[0];
  const int step = c.result.type.lanes / x.type.lanes;
  with_int_type(c.result.type.element, [&]<typename R>(R) {
    R* out = lanes_of<R>(c.result);
    std::fill(out, out + c.result.type.lanes, R{0});
    with_int_type(x.type.element, [&]<typename T>(T) {
      for (int i = 0; i < x.type.lanes; ++i) {
        if (!c.active(i)) continue;
        const T value = lanes_of<T>(x)[i];
        const uint64_t count = count_lane<T>(c, i);
        const Wide shifted =
            with_round ? rounding_shift_right(value, count) : static_cast<Wide>(lane_shr(value, count));
        out[i * step] = saturate ? clamp_to<R>(shifted) : static_cast<R>(shifted);
      }
    });
  });
  return {};
}
Status run_vnsr(const LaneCall& c) { return vnsr(c, c.attribute("saturate") != 0, c.attribute("with_round") != 0); }
Status run_vnsrsr(const LaneCall& c) { return vnsr(c, true, true); }

// ---- bit counts ----

Result<Type> infer_vcls(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0}, false));
  if (!is_signed_int(type.element))
    return refused(fmt::format("x expect signed dtype, but got: \"{}\".", type_text(type)));
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return with_out_sign(type, in);
}
Result<Type> infer_clz(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0}, true));
  if (!is_integer(type.element)) return refused("Only support integer input.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}
Result<Type> infer_bits(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0}, false));
  if (!is_integer(type.element)) return refused("Only support integer instruction.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return with_out_sign(type, in);
}

template <typename T>
int leading_zeros(T x) {
  using U = std::make_unsigned_t<T>;
  const auto u = static_cast<uint64_t>(static_cast<U>(x));
  return u == 0 ? static_cast<int>(sizeof(T)) * 8 : __builtin_clzll(u) - (64 - static_cast<int>(sizeof(T)) * 8);
}

template <typename Op>
Status run_bits(const LaneCall& c, Op op) {
  with_int_type(c.operands[0].type.element, [&]<typename T>(T) {
    // The result differs from the operand in sign at most.
    map1<T, T>(c, [&](T x) { return static_cast<T>(op(x)); });
  });
  return {};
}
Status run_vcls(const LaneCall& c) {
  return run_bits(c, []<typename T>(T x) { return leading_zeros(static_cast<T>(x < 0 ? ~x : x)) - 1; });
}
Status run_clz(const LaneCall& c) {
  return run_bits(c, [](auto x) { return leading_zeros(x); });
}
Status run_vbrevs(const LaneCall& c) {
  return run_bits(c, []<typename T>(T x) {
    using U = std::make_unsigned_t<T>;
    U reversed = 0;
    for (size_t bit = 0; bit < sizeof(T) * 8; ++bit)
      reversed = static_cast<U>(reversed << 1 | (static_cast<U>(x) >> bit & 1));
    return static_cast<T>(reversed);
  });
}
Status run_vpcnt(const LaneCall& c) {
  return run_bits(c, []<typename T>(T x) {
    return __builtin_popcountll(static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(x)));
  });
}

}  // namespace

void add_bitwise_rows(std::vector<Intrinsic>& rows) {
  const std::vector<IntrinsicParam> binary = {value("x"), value("y"), mask()};
  rows.push_back({.name = "vand",
                  .params = binary,
                  .infer = infer_binary_bits,
                  .run = run_binary_bits<BitOp::kAnd>,
                  .commutative = true});
  rows.push_back({.name = "vor",
                  .params = binary,
                  .infer = infer_binary_bits,
                  .run = run_binary_bits<BitOp::kOr>,
                  .commutative = true});
  rows.push_back({.name = "vxor",
                  .params = binary,
                  .infer = infer_binary_bits,
                  .run = run_binary_bits<BitOp::kXor>,
                  .commutative = true});
  rows.push_back({.name = "vinv", .params = {value("x"), mask()}, .infer = infer_vinv, .run = run_vinv});
  rows.push_back({.name = "vall",
                  .params = {value("mask")},
                  .infer = infer_all_any,
                  .splitting = Splitting::kSpecial,
                  .run = run_all_any<true>,
                  .cost = CostClass::kReduction});
  rows.push_back({.name = "vany",
                  .params = {value("mask")},
                  .infer = infer_all_any,
                  .splitting = Splitting::kSpecial,
                  .run = run_all_any<false>,
                  .cost = CostClass::kReduction});
  rows.push_back({.name = "vsl",
                  .params = {value("x"), value("shift"), mask(), flag("saturate"), pass_through()},
                  .infer = infer_vsl,
                  .run = run_vsl});
  rows.push_back({.name = "vsr",
                  .params = {value("x"), value("shift"), mask(), flag("with_round"), pass_through()},
                  .infer = infer_vsr,
                  .run = run_vsr});
  rows.push_back(
      {.name = "vror", .params = {value("x"), value("shift"), mask()}, .infer = infer_vror, .run = run_vror});
  rows.push_back(
      {.name = "vnsr",
       .params = {value("x"), value("shift"), mask(), flag("saturate"), out_sign(), flag("with_round"), flag("to_h")},
       .infer = infer_vnsr,
       .splitting = Splitting::kSpecial,
       .run = run_vnsr,
       .registerwise = true});
  rows.push_back({.name = "vnsrsr",
                  .params = {value("x"), value("shift"), mask(), out_sign(), flag("to_h")},
                  .infer = infer_vnsr,
                  .splitting = Splitting::kSpecial,
                  .run = run_vnsrsr,
                  .registerwise = true});
  rows.push_back({.name = "vcls", .params = {value("x"), mask(), out_sign()}, .infer = infer_vcls, .run = run_vcls});
  rows.push_back({.name = "clz", .params = {value("x"), mask()}, .infer = infer_clz, .run = run_clz});
  rows.push_back({.name = "vbrevs", .params = {value("x"), mask()}, .infer = infer_bits, .run = run_vbrevs});
  rows.push_back({.name = "vpcnt", .params = {value("x"), mask(), out_sign()}, .infer = infer_bits, .run = run_vpcnt});
}

}  // namespace aipu::tir
