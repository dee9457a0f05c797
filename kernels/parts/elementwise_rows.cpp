#include "kernels/parts/elementwise_rows.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <numeric>

#include "graph/ir/op_def.h"
#include "kernels/parts/small_float_expression.h"
#include "runtime/base/fault.h"

namespace aipu::kernels::elementwise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::string_view kDivisionBy = "division by {value}";

template <typename... Arguments>
Expression call(std::string_view function, Arguments... arguments) {
  return Expression::call(function, {std::move(arguments)...});
}

Expression is(const Expression& a, std::string_view relation, const Expression& b) {
  return Expression::binary(relation, a, b);
}

Expression cast_to(const Expression& value, DType to) {
  return call("cast", value, Expression::atom(fmt::format("\"{}\"", dtype_name(to))));
}

// Value conversion between compute dtypes, through the intermediate types that intrinsics.md 7.1 demands.
Expression convert(const Expression& value, DType from, DType to) {
  if (from == to) return value;
  if (to == DType::kBool) return is(value, "!=", Writer::constant(0, from));
  if (from == DType::kBool) return call("vsel", Writer::constant(1, to), Writer::constant(0, to), value);
  const bool float_from = is_floating(from), float_to = is_floating(to);
  if (float_from && !float_to && to != DType::kI32 && to != DType::kI64)
    return cast_to(cast_to(value, DType::kI64), to);
  if (!float_from && float_to && (from == DType::kU32)) return cast_to(cast_to(value, DType::kI64), to);
  return cast_to(value, to);
}

// Cast as ONNX means it: the target's storage precision counts even when fp16 is computed in float32.
Expression cast_node(Writer& w) {
  Expression value = convert(w.in(0), w.type_in(), w.type_out());
  if (w.type_out() != w.stored_out() && w.stored_in(0) != w.stored_out() && !w.is_stored) {
    value = cast_to(cast_to(value, w.stored_out()), w.type_out());  // round to the 16-bit type
  }
  return value;
}

// The greater (smaller) of the value and the bound, NaN if one of them is. With the bound in front this is one
// instruction where the bound is a constant.
Expression at_least(const Expression& value, const Expression& bound) { return call("maximum", bound, value); }
Expression at_most(const Expression& value, const Expression& bound) { return call("minimum", bound, value); }

// The same, in one instruction for each bound; none of them is NaN, which the compiler does not know of arguments.
Expression between(Writer& w, const Expression& value, const Expression& low, const Expression& high) {
  return call("clip", value, low ? low : w.k(-kInfinity), high ? high : w.k(kInfinity));
}

Expression extremum(Writer& w, bool greatest) {
  std::vector<size_t> order(w.count());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.size() > 1 && w.scalar(0) && !w.scalar(1)) std::swap(order[0], order[1]);
  Expression result = w.in(order[0]);
  for (size_t k = 1; k < order.size(); ++k) {
    const size_t i = order[k];
    if (w.is_number(i) && is_floating(w.type_in())) {
      result = greatest ? between(w, result, w.in(i), {}) : between(w, result, {}, w.in(i));
      continue;
    }
    const Expression& bound = w.scalar(i) ? w.in(i) : result;
    const Expression& value = w.scalar(i) ? result : w.in(i);
    result = greatest ? at_least(value, bound) : at_most(value, bound);
  }
  return result;
}

Expression narrow_multiply(const Expression& a, const Expression& b, DType type) {
  if (dtype_bits(type) != 8) return a * b;
  const DType wide = is_signed_int(type) ? DType::kI16 : DType::kU16;
  return cast_to(cast_to(a, wide) * cast_to(b, wide), type);
}

Expression negate(Writer& w) { return is_floating(w.type_in()) ? w.in(0) * w.k(-1) : w.k(0) - w.in(0); }

// What is to be known about the divisor of an integer division.
struct Divisor {
  bool may_be_minus_one = true;
};

// A divisor that is zero is an error, when converting where it is constant and otherwise at run time.
Divisor check_divisor(Writer& w) {
  const graph::Constant* constant = w.constant_in(1);
  if (constant != nullptr && w.always_needed()) {
    const std::vector<int64_t> values = constant->to_int64s();
    if (std::find(values.begin(), values.end(), 0) != values.end()) w.error = fault_text(kDivisionBy, 0, 0);
    return {is_signed_int(w.type_in()) && std::find(values.begin(), values.end(), -1) != values.end()};
  }
  const Expression fault = w.fault(std::string(kDivisionBy));
  w.statements.push_back({"", Expression::call_own("check_divisor", {fault, w.in(1), Expression::atom("active")})});
  return {is_signed_int(w.type_in())};
}

// x where the condition holds, else y.
Expression choose(const Expression& condition, const Expression& x, const Expression& y) {
  return call("vsel", x, y, condition);
}

// C's fmod, exactly: x is reduced by y * 2^e, with e from that of the greatest quotient down to 0. In each step the
// quotient has at most as many bits as the type, so that a fused product and sum leaves the rest without rounding.
Expression float_remainder(Writer& w) {
  const bool is_double = w.type_in() == DType::kF64;
  const int bits = is_double ? 53 : 24;
  const int steps = is_double ? 40 : 12;           // of the largest number by the smallest
  const int scale = is_double ? 19 * 53 : 5 * 24;  // the largest power of two per product that is a number
  const Expression x = w.in(0), y = w.in(1), zero = w.k(0);
  const auto scaled = [&](int e) {
    Expression by = y;
    for (; e > 0; e -= scale) by = by * w.k(std::ldexp(1.0, std::min(e, scale)));
    return by;
  };
  Expression rest = x;
  for (int step = steps; step-- > 0;) {
    const Expression by = w.let(scaled(step * bits));
    Expression quotient = call("trunc", rest / by);
    const Expression is_less = is(call("abs", rest), "<", call("abs", by));
    rest = w.let(choose(is_less, rest, call("fma", rest, quotient * w.k(-1), by)));
  }
  // A quotient that was rounded up has gone too far, by one.
  const Expression other_side = (is(rest, "<", zero) ^ is(x, "<", zero)) & is(rest, "!=", zero);
  const Expression back = choose(is(x, "<", zero) ^ is(y, "<", zero), y * w.k(-1), y);
  const Expression whole = w.let(choose(other_side, rest + back, rest));
  return w.let(choose(is(whole, "==", zero), x * zero, whole));
}

// Python's modulo (the sign of the divisor, also of a zero), C's fmod for fmod=1.
Expression modulo(Writer& w) {
  const Expression x = w.in(0), y = w.in(1);
  const bool floating = is_floating(w.type_in());
  if (!floating) check_divisor(w);
  Expression r = floating ? float_remainder(w) : w.let(call("vmod", x, y));
  if (w.i("fmod") != 0 || is_unsigned_int(w.type_in())) return r;
  const Expression zero = w.k(0);
  const Expression wrong_sign = w.let((is(r, "<", zero) ^ is(y, "<", zero)) & is(r, "!=", zero));
  Expression result = choose(wrong_sign, r + y, r);
  if (!floating) return result;
  return choose(is(r, "==", zero), choose(is(y, "<", zero), zero * w.k(-1), zero), result);
}

// Counts outside of the type's bits, negative ones among them, leave what the fill is: the sign to the right, else 0.
Expression bit_shift(Writer& w) {
  const bool left = w.node().attributes.s("direction") == "LEFT";
  return call(left ? "vsl" : "vsr", w.in(0), w.in(1));
}

Expression power(Writer& w) {
  const DType base = w.type_in(0);
  const Expression& x = w.in(0);
  if (const auto exponent = w.scalar(1)) {
    if (*exponent == 1) return x;
    if (*exponent == 2) return narrow_multiply(x, x, base);
    if (*exponent == 3 && dtype_bits(base) > 8) return x * x * x;
    if (*exponent == 0.5 && is_floating(base)) return call("sqrt", x);
    if (*exponent == -1 && is_floating(base)) return w.k(1) / x;
  }
  if (is_floating(base)) return call("pow", x, convert(w.in(1), w.type_in(1), base));
  const Expression result = call("pow", convert(x, base, DType::kF64), convert(w.in(1), w.type_in(1), DType::kF64));
  return convert(result, DType::kF64, base);
}

Expression clip(Writer& w) {
  const auto is_free = [&](size_t i) { return !w.has(i) || w.is_number(i); };
  if (is_floating(w.type_in()) && is_free(1) && is_free(2))
    return between(w, w.in(0), w.has(1) ? w.in(1) : Expression(), w.has(2) ? w.in(2) : Expression());
  Expression value = w.in(0);
  if (w.has(1)) value = at_least(value, w.in(1));
  if (w.has(2)) value = at_most(value, w.in(2));
  return value;
}

Expression divide(Writer& w) {
  if (is_floating(w.type_in())) return w.in(0) / w.in(1);
  Expression quotient = call("vdiv", w.in(0), w.in(1));
  if (!check_divisor(w).may_be_minus_one) return quotient;
  // The one quotient that does not fit wraps, as NumPy's does; S.vdiv saturates.
  return choose(is(w.in(1), "==", w.k(-1)), w.k(0) - w.in(0), quotient);
}

// Adding it to a float32 of less than 2^22 rounds to an integer, ties to even, and leaves that integer in the low bits.
constexpr double kRoundingShift = 12582912;  // 1.5 * 2^23
static_assert((std::bit_cast<int32_t>(static_cast<float>(kRoundingShift)) & 0xFFFF) == 0);

// What is added: the zero point too, where it is known and even, so that ties still go to even numbers.
double rounding_shift(std::optional<double> zero) {
  return kRoundingShift + (zero && std::fmod(*zero, 2) == 0 ? *zero : 0);
}

// x / divisor as a division rounds it where that is within -most to most, elsewhere something beyond: a product with
// the reciprocal and a correction by what is left over (Markstein's), a quarter of the time of a division.
Expression quotient(Writer& w, const Expression& x, float divisor, double most) {
  const auto number = [&](float value) { return w.number(value, DType::kF32); };
  const float reciprocal = 1 / divisor;
  if (int exponent = 0; std::frexp(divisor, &exponent) == 0.5f) return x * number(reciprocal);
  if (!w.has_fma) return x / number(divisor);
  // Infinity would be left over by itself. The limits are the second operands: a NaN becomes a number.
  const auto limit = static_cast<float>(most) * std::abs(divisor);
  const Expression dividend = w.let(w.packs ? x : call("min", call("max", x, number(-limit)), number(limit)));
  const Expression near = w.let(dividend * number(reciprocal));
  return call("fma", near, call("fma", dividend, near, number(-divisor)), number(reciprocal));
}

Expression quantize(Writer& w) {
  const DType to = w.stored_out();
  const double low = is_signed_int(to) ? -std::ldexp(1.0, dtype_bits(to) - 1) : 0;
  const double high = std::ldexp(1.0, dtype_bits(to) - (is_signed_int(to) ? 1 : 0)) - 1;
  Expression value = convert(w.in(0), w.type_in(0), DType::kF32);
  if (const auto scale = w.scalar(1); !scale) {
    value = value / convert(w.in(1), w.type_in(1), DType::kF32);
  } else if (*scale != 1.0) {
    value = quotient(w, value, static_cast<float>(*scale), high - low + 1);
  }
  if (dtype_bits(to) <= 16) {
    const auto zero = w.has(2) ? w.scalar(2) : std::optional<double>(0);
    if (w.packs) {
      constexpr auto kBits = static_cast<double>(std::bit_cast<int32_t>(static_cast<float>(kRoundingShift)));
      const Expression added = zero
                                   ? Writer::constant(*zero - kBits, DType::kI32)
                                   : convert(w.in(2), w.type_in(2), DType::kI32) - Writer::constant(kBits, DType::kI32);
      const Expression shifted = value + Writer::constant(kRoundingShift, DType::kF32);
      return call("reinterpret", shifted, Expression::atom("f\"int32x{VL}\"")) + added;
    }
    if (w.converts && zero == 0.0) {
      // An instruction rounds and converts, the next one saturates.
      const Expression number = cast_to(call("rint", value), DType::kI32);
      return call("cast", number, Expression::atom(fmt::format("f\"{}x{{VL}}\"", dtype_name(to))),
                  Expression::atom("\"all\""), Expression::atom("True"));
    }
    Expression least = Writer::constant(low - zero.value_or(0), DType::kF32),
               most = Writer::constant(high - zero.value_or(0), DType::kF32);
    const double shift = rounding_shift(zero);
    // What the bits that are kept, at most 16, lack then.
    const double offset = kRoundingShift + zero.value_or(0) - shift;
    Expression added = Writer::constant(offset, DType::kI32);
    if (!zero) {
      const Expression number = w.let(convert(w.in(2), w.type_in(2), DType::kF32));
      least = least - number;
      most = most - number;
      added = convert(w.in(2), w.type_in(2), DType::kI32);
    }
    // Clamped before it is rounded: the limits are integers. They are the second operands: a NaN becomes a number.
    value = call("min", call("max", value, least), most);
    if (w.rounds && zero) {
      w.shifted = w.let(call("rint", value));
      w.shifted_is_number = true;
      return cast_to(cast_to(w.shifted, DType::kI32) + Writer::constant(*zero, DType::kI32), to);
    }
    w.shifted = w.let(value + Writer::constant(shift, DType::kF32));
    const Expression bits = call("reinterpret", w.shifted, Expression::atom("f\"int32x{VL}\""));
    if (dtype_bits(to) == 8) w.low_byte = zero && offset == 0 ? bits : bits + added;
    return cast_to(zero && offset == 0 ? bits : bits + added, to);
  }
  value = call("rint", value);
  if (w.has(2)) value = value + convert(w.in(2), w.type_in(2), DType::kF32);
  value = call("min", call("max", value, Writer::constant(low, DType::kF32)), Writer::constant(high, DType::kF32));
  return cast_to(cast_to(value, DType::kI32), to);
}

// The bits of a float32 that rounds to what the value would: what does not fit is cut, and its last bit set.
Expression float32_bits(Writer& w) {
  const auto bits = [](const Expression& x) { return call("reinterpret", x, Expression::atom("f\"int32x{VL}\"")); };
  if (w.type_in() != DType::kF64) return bits(w.in(0));
  const auto count = [](const Expression& mask) { return convert(mask, DType::kBool, DType::kI32); };
  const Expression near = w.let(cast_to(w.in(0), DType::kF32));
  const Expression back = w.let(cast_to(near, DType::kF64));
  const Expression cut = bits(near) - count(is(call("abs", back), ">", call("abs", w.in(0))));
  return Expression::binary("|", cut, count(is(back, "!=", w.in(0))));
}

Expression encode(Writer& w) {
  const SmallFloat& type = *small_float(w.node().attributes.dtype("format"));
  const auto let = [&](Expression value) { return w.let(std::move(value)); };
  const Expression bits = w.let(float32_bits(w));
  const bool saturate = w.i("saturate") != 0;
  const Expression code = type.is_signed
                              ? encode_small_float(type, saturate, bits, let)
                              : encode_power_of_two(type, saturate, w.node().attributes.s("round_mode"), bits, let);
  return cast_to(code, DType::kU8);
}

Expression decode(Writer& w) {
  const Expression code = w.let(cast_to(w.in(0), DType::kI32));
  return decode_small_float(*small_float(w.node().attributes.dtype("format")), code,
                            [&](Expression value) { return w.let(std::move(value)); });
}

Expression dequantize(Writer& w) {
  const Expression scale = convert(w.in(1), w.type_in(1), w.type_out());
  const auto zero = w.has(2) ? w.scalar(2) : std::optional<double>(0);
  // What was rounded a moment ago need not become an integer and a float again.
  if (const Expression shifted = w.shifted_of(w.node().inputs[0]); shifted && w.type_out() == DType::kF32)
    return w.has_number_of(w.node().inputs[0])
               ? shifted * scale
               : (shifted - Writer::constant(rounding_shift(zero), DType::kF32)) * scale;
  Expression value = convert(w.in(0), w.type_in(0), DType::kI32);
  if (zero != 0.0) value = value - convert(w.in(2), w.type_in(2), DType::kI32);
  return convert(value, DType::kI32, w.type_out()) * scale;
}

Expression is_infinite(Writer& w) {
  const bool negative = w.node().attributes.i_or("detect_negative", 1) != 0,
             positive = w.node().attributes.i_or("detect_positive", 1) != 0;
  if (negative && positive) return call("isinf", w.in(0));
  if (!negative && !positive) return Writer::constant(0, DType::kBool);
  return is(w.in(0), "==", w.k(positive ? kInfinity : -kInfinity));
}

Expression sign(Writer& w) {
  const Expression &x = w.in(0), zero = w.k(0);
  Expression positive = choose(is(x, ">", zero), w.k(1), zero);
  if (is_unsigned_int(w.type_in())) return positive;
  if (!is_floating(w.type_in())) return choose(is(x, "<", zero), w.k(-1), positive);
  // What is neither is 0 of either sign or NaN, which stays.
  return choose(is(x, ">", zero), w.k(1), choose(is(x, "<", zero), w.k(-1), x + zero));
}

Expression hard_sigmoid(Writer& w, const Expression& slope, const Expression& at_zero) {
  return at_least(at_most(w.in(0) * slope + at_zero, w.k(1)), w.k(0));
}

Expression mish(Writer& w) {
  // tanh(log(1 + e)) is n / (n + 2) with n = e * (e + 2); 1 within float64's rounding from exp(20) on.
  const Expression e = w.let(call("exp", call("min", w.in(0), w.k(20))));
  const Expression n = w.let(e * (e + w.k(2)));
  return w.in(0) * (n / (n + w.k(2)));
}

Expression gelu(Writer& w) {
  const Expression& x = w.in(0);
  if (w.node().attributes.s_or("approximate", "none") != "tanh")
    return x * w.k(0.5) * (w.k(1) + call("erf", x * w.k(M_SQRT1_2)));
  // (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 * u)): shorter, and exact where x is far below 0.
  const double slope = -2 * std::sqrt(2 / M_PI);
  return x / (w.k(1) + call("exp", x * (w.k(slope) + w.k(slope * 0.044715) * x * x)));
}

// Without overflow: the exponential is at most 1.
Expression softplus(Writer& w) {
  const Expression& x = w.in(0);
  const Expression rest = call("exp", w.k(0) - call("abs", x));
  return call("max", x, w.k(0)) + call("log", w.k(1) + rest);
}

Expression shrink(Writer& w) {
  const Expression& x = w.in(0);
  const Expression from = w.attribute("lambd"), below = w.attribute(-w.f("lambd")), bias = w.attribute("bias");
  return choose(is(x, ">", from), x - bias, choose(is(x, "<", below), x + bias, w.k(0)));
}

Expression sum(Writer& w) {
  Expression total = w.in(0);
  for (size_t i = 1; i < w.count(); ++i) total = total + w.in(i);
  return total;
}

bool never_an_argument(const Graph&, const Node&, size_t, const graph::Constant&) { return false; }
constexpr Numbers kInSource = {.is_argument = never_an_argument};

// Scales and zero points differ from layer to layer, and a kernel for each would be compiled; those that don't are
// worth knowing.
bool is_common_quantization(size_t input, double value) {
  return input == 1 ? value == 1 : input == 2 ? value == 0 || std::abs(value) == 128 : true;
}
constexpr Numbers kDequantization = {.is_literal = is_common_quantization, .is_argument = never_an_argument};

// What QuantizeLinear divides by, where it is known: a division takes as long as ten products.
bool has_reciprocal(size_t input, double value) {
  if (input != 1) return is_common_quantization(input, value);
  const auto scale = static_cast<float>(value);
  constexpr float kMost = 1 << 17;  // more than a quotient of 16 bits, see quotient()
  // Of quotients from a half on what is left over has to be exact: 48 bits below the dividend's highest.
  constexpr float kLeast = 0x1p-100f;
  return std::abs(scale) >= kLeast && std::isnormal(1 / scale) && std::isnormal(scale * kMost);
}
constexpr Numbers kQuantization = {.is_literal = has_reciprocal, .is_argument = never_an_argument};

// Words of four bytes are looked up, and shifted so that the one that was asked for comes first: CPUs have instructions
// for tables of words in registers.
Expression byte_function(Writer& w) {
  const DType to = w.stored_out();
  const auto integer = [](int64_t value) { return Writer::constant(static_cast<double>(value), DType::kI32); };
  const Expression byte = w.let(w.low_byte_of(0));
  const std::string words = w.table(w.node().attributes.constant("table")) + ".as_ptr(\"int32\")";
  const Expression place = call("vsr", byte, integer(2)) & integer(63);
  const Expression word =
      Expression::call("vload_gather", {Expression::atom(words), w.let(place), Expression::atom("entries=64")});
  const Expression amount = call("vsl", byte, integer(3)) & integer(24);
  const Expression shifted = w.let(call("vsr", word, w.let(amount)));
  if (!w.packs) return cast_to(shifted, to);
  if (!is_signed_int(to)) return shifted & integer(255);
  return call("vsr", call("vsl", shifted, integer(24)), integer(24));
}

Row of_sum(Row row) {
  row.is_sum = true;
  return row;
}

// With what it gives of numbers, for functions that are fitted by others.
using Values = std::vector<double>;
template <typename Value>
Row with_value(Row row, Value value) {
  row.value = std::move(value);
  return row;
}
template <typename Value>
Row transcendental(Row row, Value value) {
  row = with_value(std::move(row), std::move(value));
  row.is_transcendental = true;
  return row;
}

template <typename Name>
Row with_pieces(Row row, Name name) {
  row.in_pieces = std::move(name);
  return row;
}

double softplus_of(double x) { return x > 40 ? x : std::log1p(std::exp(x)); }

double gelu_of(const Node& node, double x) {
  if (node.attributes.s_or("approximate", "none") != "tanh") return 0.5 * x * std::erfc(-x * M_SQRT1_2);
  return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

bool is_base(const Graph&, const Node&, size_t input, const graph::Constant&) { return input == 0; }

// Floats by which a division is no cheaper: by a power of two it is a product.
bool is_costly_divisor(const Graph& graph, const Node& node, size_t input, const graph::Constant& constant) {
  if (input == 0) return true;
  int exponent = 0;
  return is_floating(graph.type(node.outputs[0]).dtype) &&
         std::abs(std::frexp(constant.to_doubles()[0], &exponent)) != 0.5;
}

Row unary(std::string_view function) {
  return [function](Writer& w) { return call(function, w.in(0)); };
}
Row binary(std::string_view symbol) {
  return [symbol](Writer& w) { return Expression::binary(symbol, w.in(0), w.in(1)); };
}

const std::map<std::string, Row, std::less<>>& rows() {
  static const std::map<std::string, Row, std::less<>> kRows = {
      {"Abs", [](Writer& w) { return is_unsigned_int(w.type_in()) ? w.in(0) : call("abs", w.in(0)); }},
      {"Acos", unary("acos")},
      {"Acosh", unary("acosh")},
      {"Asin", unary("asin")},
      {"Asinh", unary("asinh")},
      {"Atan", unary("atan")},
      {"Atanh", unary("atanh")},
      {"Ceil", unary("ceil")},
      {"Cos", unary("cos")},
      {"Cosh", unary("cosh")},
      {"Erf", transcendental(unary("erf"), [](const Node&, const Values& x) { return std::erf(x[0]); })},
      {"Exp", unary("exp")},
      {"Floor", unary("floor")},
      {"Identity",
       with_value(of_sum([](Writer& w) { return w.in(0); }), [](const Node&, const Values& x) { return x[0]; })},
      {"IsInf", is_infinite},
      {"IsNaN", unary("isnan")},
      {"Log", unary("log")},
      {"Neg", negate},
      {"Not", [](Writer& w) { return ~w.in(0); }},
      {"BitwiseNot", [](Writer& w) { return ~w.in(0); }},
      {"Reciprocal", [](Writer& w) { return w.k(1) / w.in(0); }},
      {"Round", unary("rint")},
      {"Sigmoid", transcendental([](Writer& w) { return w.k(1) / (w.k(1) + call("exp", w.k(0) - w.in(0))); },
                                 [](const Node&, const Values& x) { return 1 / (1 + std::exp(-x[0])); })},
      {"Sign", sign},
      {"Sin", unary("sin")},
      {"Sinh", unary("sinh")},
      {"Softplus", transcendental(softplus, [](const Node&, const Values& x) { return softplus_of(x[0]); })},
      {"Softsign", [](Writer& w) { return w.in(0) / (w.k(1) + call("abs", w.in(0))); }},
      {"Sqrt", unary("sqrt")},
      {"Tan", unary("tan")},
      {"Tanh", transcendental(unary("tanh"), [](const Node&, const Values& x) { return std::tanh(x[0]); })},
      {"Relu", of_sum([](Writer& w) { return at_least(w.in(0), w.k(0)); })},
      {"HardSwish", [](Writer& w) { return w.in(0) * hard_sigmoid(w, w.k(1.0 / 6), w.k(0.5)); }},
      {"HardSigmoid",
       [](Writer& w) {
         const Expression slope = w.attribute("alpha"), at_zero = w.attribute("beta");
         return hard_sigmoid(w, slope, at_zero);
       }},
      {"Mish", transcendental(mish, [](const Node&, const Values& x) { return x[0] * std::tanh(softplus_of(x[0])); })},
      {"Gelu", with_pieces(transcendental(gelu, [](const Node& n, const Values& x) { return gelu_of(n, x[0]); }),
                           [](const Node& n) {
                             return n.attributes.s_or("approximate", "none") == "none" ? "gelu_in_pieces" : "";
                           })},
      {"Swish",
       with_pieces(
           transcendental(
               [](Writer& w) {
                 return w.in(0) / (w.k(1) + call("exp", w.in(0) * w.attribute(-w.node().attributes.f_or("alpha", 1))));
               },
               [](const Node& n, const Values& x) {
                 return x[0] / (1 + std::exp(-n.attributes.f_or("alpha", 1) * x[0]));
               }),
           [](const Node& n) { return n.attributes.f_or("alpha", 1) == 1 ? "silu_in_pieces" : ""; })},
      {"Celu",
       [](Writer& w) {
         const Expression a = w.attribute("alpha");
         return at_least(w.in(0), w.k(0)) + at_most(a * (call("exp", w.in(0) / a) - w.k(1)), w.k(0));
       }},
      {"Elu",
       [](Writer& w) {
         return choose(is(w.in(0), "<", w.k(0)), w.attribute("alpha") * (call("exp", w.in(0)) - w.k(1)), w.in(0));
       }},
      {"LeakyRelu",
       [](Writer& w) { return choose(is(w.in(0), "<", w.k(0)), w.attribute("alpha") * w.in(0), w.in(0)); }},
      {"Selu",
       [](Writer& w) {
         const Expression alpha = w.attribute("alpha"), gamma = w.attribute("gamma");
         return choose(is(w.in(0), ">", w.k(0)), gamma * w.in(0), gamma * (call("exp", w.in(0)) * alpha - alpha));
       }},
      {"Shrink", shrink},
      {"ThresholdedRelu", [](Writer& w) { return choose(is(w.in(0), ">", w.attribute("alpha")), w.in(0), w.k(0)); }},
      {"PRelu",
       [](Writer& w) {
         return choose(is(w.in(0), "<", w.k(0)), narrow_multiply(w.in(0), w.in(1), w.type_in()), w.in(0));
       }},
      {"Clip", clip},
      {"Cast", {cast_node, kInSource}},
      {"CastLike", {cast_node, kInSource}},
      {"Add", with_value(of_sum(binary("+")), [](const Node&, const Values& x) { return x[0] + x[1]; })},
      {"Sub", binary("-")},
      {"Mul", with_value([](Writer& w) { return narrow_multiply(w.in(0), w.in(1), w.type_in()); },
                         [](const Node&, const Values& x) { return x[0] * x[1]; })},
      {"Div", {divide, {.is_argument = is_costly_divisor}}},
      {"Mod", {modulo, kInSource}},
      {"Pow", {power, {.is_argument = is_base}}},
      {"And", binary("&")},
      {"Or", binary("|")},
      {"Xor", binary("^")},
      {"BitwiseAnd", binary("&")},
      {"BitwiseOr", binary("|")},
      {"BitwiseXor", binary("^")},
      {"BitShift", {bit_shift, kInSource}},
      {"Equal",
       [](Writer& w) { return w.type_in() == DType::kBool ? ~(w.in(0) ^ w.in(1)) : is(w.in(0), "==", w.in(1)); }},
      {"Greater", binary(">")},
      {"GreaterOrEqual", binary(">=")},
      {"Less", binary("<")},
      {"LessOrEqual", binary("<=")},
      {"Max", [](Writer& w) { return extremum(w, true); }},
      {"Min", [](Writer& w) { return extremum(w, false); }},
      {"Sum", sum},
      {"Mean", [](Writer& w) { return sum(w) * w.k(1.0 / static_cast<double>(w.count())); }},
      {"Where", [](Writer& w) { return choose(w.in(0), w.in(1), w.in(2)); }},
      {"QuantizeLinear", {quantize, kQuantization}},
      {"DequantizeLinear", {dequantize, kDequantization}},
      {"aipu::ByteFunction", {byte_function, kInSource}},
      {"aipu::EncodeFloat", {encode, kInSource}},
      {"aipu::DecodeFloat", {decode, kInSource}},
  };
  return kRows;
}

const Numbers& numbers_of(const Node& node) {
  static const Numbers kOfOthers;  // users' operators
  const Row* row = row_of(node);
  return row != nullptr ? row->numbers : kOfOthers;
}

}  // namespace

const Row* row_of(const Node& node) {
  const auto row = rows().find(node.op);
  return row != rows().end() ? &row->second : nullptr;
}

bool is_literal(const Node& node, size_t input, const graph::Constant* constant) {
  if (constant == nullptr || constant->element_count() != 1) return false;
  const auto by_row = numbers_of(node).is_literal;
  return by_row == nullptr || by_row(input, constant->to_doubles()[0]);
}

bool is_argument(const Graph& graph, const Node& node, size_t input, const graph::Constant& constant) {
  const DType dtype = compute_dtype(constant.dtype());
  if (is_floating(dtype) && std::isnan(constant.to_doubles()[0])) return false;  // see Writer::is_number()
  if (dtype != DType::kF32 && dtype != DType::kF64 && dtype != DType::kI32 && dtype != DType::kI64) return false;
  const auto by_row = numbers_of(node).is_argument;
  return by_row == nullptr || by_row(graph, node, input, constant);
}

std::string number_name(FusedExpression* fused, const FusedExpression::Number& number) {
  const auto bits = [](const FusedExpression::Number& n) {  // 0 and -0 are two
    const auto* real = std::get_if<double>(&n.value);
    return real != nullptr ? std::bit_cast<int64_t>(*real) : std::get<int64_t>(n.value);
  };
  const auto known = std::find_if(fused->numbers.begin(), fused->numbers.end(), [&](const FusedExpression::Number& n) {
    return n.dtype == number.dtype && bits(n) == bits(number);
  });
  const auto index = known - fused->numbers.begin();
  if (known == fused->numbers.end()) fused->numbers.push_back(number);
  return fmt::format("c{}", index);
}

FusedExpression::Number number_of(const graph::Constant& constant) {
  FusedExpression::Number number{0.0, compute_dtype(constant.dtype())};
  if (is_integer(number.dtype)) {
    number.value = constant.to_int64s()[0];
  } else {
    number.value = constant.to_doubles()[0];
  }
  return number;
}

}  // namespace aipu::kernels::elementwise
