#include "kernels/parts/small_float_expression.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "kernels/parts/elementwise_rows.h"

namespace aipu::kernels {

namespace {

constexpr int kMantissaBits = 23, kBias = 127;  // of float32
constexpr int64_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000, kNan = 0x7fc00000;

Expression integer(int64_t value) { return elementwise::Writer::vector_of(fmt::format("{}", value), DType::kI32); }
Expression power(int exponent) {
  return elementwise::Writer::vector_of(fmt::format("{:.17g}", std::ldexp(1.0, exponent)), DType::kF32);
}

Expression as_float(const Expression& bits) {
  return Expression::call("reinterpret", {bits, Expression::atom("f\"float32x{VL}\"")});
}
Expression as_bits(const Expression& value) {
  return Expression::call("reinterpret", {value, Expression::atom("f\"int32x{VL}\"")});
}
Expression left(const Expression& x, int amount) {
  return amount == 0 ? x : Expression::call("vsl", {x, integer(amount)});
}
Expression right(const Expression& x, int amount) {
  return amount == 0 ? x : Expression::call("vsr", {x, integer(amount)});
}
Expression either(const Expression& a, const Expression& b) { return Expression::binary("|", a, b); }
Expression when(const Expression& condition, const Expression& x, const Expression& y) {
  return Expression::call("vsel", {x, y, condition});
}
Expression is(const Expression& a, std::string_view relation, int64_t b) {
  return Expression::binary(relation, a, integer(b));
}

}  // namespace

Expression encode_small_float(const SmallFloat& type, bool saturate, const Expression& bits, const Let& let) {
  const int dropped = kMantissaBits - type.mantissa_bits;
  const Expression magnitude = let(bits & integer(kMagnitude));
  const Expression finite = let(Expression::call("min", {magnitude, integer(kInfinity)}));
  // Half of the last place, less one where that is even already: a carry goes on into the exponent.
  const Expression even = right(finite, dropped) & integer(1);
  const Expression rounded = right(finite + integer((1 << (dropped - 1)) - 1) + even, dropped);
  const Expression normal = rounded - integer(int64_t{kBias - type.bias} << type.mantissa_bits);
  // Below, the sum with a power of two whose last place is that of subnormals is rounded by the adder.
  const int shift = kMantissaBits + 1 - type.bias - type.mantissa_bits;
  const Expression sum = as_float(finite) + power(shift);
  const Expression subnormal = as_bits(sum) - integer(int64_t{kBias + shift} << kMantissaBits);
  const int64_t least_normal = int64_t{kBias + 1 - type.bias} << kMantissaBits;
  Expression code = let(when(is(finite, ">=", least_normal), normal, subnormal));
  const bool to_greatest = saturate || type.special == SmallFloat::Special::kNone;
  const int beyond = to_greatest                                  ? type.greatest()
                     : type.special == SmallFloat::Special::kIeee ? type.infinity()
                                                                  : type.nan();
  code = when(is(code, ">", type.greatest()), integer(beyond), code);
  code = let(when(is(magnitude, ">", kInfinity), integer(type.nan()), code));
  const Expression is_negative = is(bits, "<", 0);
  const Expression with_sign = when(is_negative, either(code, integer(type.sign_bit())), code);
  // Where -0 is NaN, 0 has no sign.
  return type.special == SmallFloat::Special::kNegativeZero ? when(is(code, "==", 0), code, with_sign) : with_sign;
}

Expression encode_power_of_two(const SmallFloat& type, bool saturate, std::string_view rounding, const Expression& bits,
                               const Let& let) {
  // The exponents are those of float32, whose subnormals hold the least power.
  constexpr int64_t kOne = int64_t{1} << kMantissaBits, kLeast = kOne / 2;
  const int64_t up_from = rounding == "nearest" ? kOne / 2 : 1;  // of the mantissa
  const int64_t added = rounding == "down" ? 0 : kOne - up_from;
  const Expression magnitude = let(bits & integer(kMagnitude));
  const Expression normal =
      right(Expression::call("min", {magnitude, integer(kInfinity)}) + integer(added), kMantissaBits);
  // Of the numbers between the least two powers, these become the greater one.
  const int64_t up_below = rounding == "down" ? kOne : rounding == "nearest" ? kLeast + kLeast / 2 : kLeast + 1;
  const Expression low = when(is(magnitude, ">=", up_below), integer(1), integer(0));
  Expression code = let(when(is(magnitude, "<", kOne), low, normal));
  code = when(is(code, ">", type.greatest()), integer(saturate ? type.greatest() : type.nan()), code);
  const Expression is_nan = is(magnitude, ">", kInfinity);
  if (saturate) return when(is_nan, integer(type.nan()), code);
  return when(Expression::binary("|", is_nan, is(magnitude, "<", kLeast)), integer(type.nan()), code);
}

Expression decode_small_float(const SmallFloat& type, const Expression& code, const Let& let) {
  const int rest = kMantissaBits - type.mantissa_bits;
  const Expression magnitude = let(code & integer((1 << type.magnitude_bits()) - 1));
  if (!type.is_signed) {
    const Expression number = when(is(magnitude, "==", 0), integer(int64_t{1} << (rest - 1)), left(magnitude, rest));
    return as_float(when(is(magnitude, "==", type.nan()), integer(kNan), number));
  }
  const Expression normal = left(magnitude, rest) + integer(int64_t{kBias - type.bias} << kMantissaBits);
  const Expression subnormal = Expression::call("cast", {magnitude, Expression::atom("\"float32\"")}) *
                               power(1 - type.bias - type.mantissa_bits);
  Expression bits = when(is(magnitude, ">=", 1 << type.mantissa_bits), normal, as_bits(subnormal));
  if (type.special == SmallFloat::Special::kIeee)
    bits = when(is(magnitude, ">", type.greatest()),
                when(is(magnitude, "==", type.infinity()), integer(kInfinity), integer(kNan)), bits);
  if (type.special == SmallFloat::Special::kAllOnes)
    bits = when(is(magnitude, ">", type.greatest()), integer(kNan), bits);
  const Expression sign = left(code & integer(type.sign_bit()), 31 - type.magnitude_bits());
  bits = either(let(bits), sign);
  if (type.special == SmallFloat::Special::kNegativeZero) bits = when(is(code, "==", type.nan()), integer(kNan), bits);
  return as_float(bits);
}

}  // namespace aipu::kernels
