#include "kernels/parts/elementwise_expression.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "graph/ir/op_def.h"
#include "kernels/parts/strided_map.h"
#include "runtime/base/fault.h"

namespace aipu::kernels {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr size_t kMaxFusedNodes = 24;
constexpr size_t kMaxFusedOperands = 12;
constexpr std::string_view kDivisionBy = "division by {value}";

// Whether the number goes into the expression; otherwise it is an operand. Scales and zero points differ from layer to
// layer, and a kernel for each would be compiled; those that don't are worth knowing.
bool is_literal(const Node& node, size_t input, const graph::Constant* constant) {
  if (constant == nullptr || constant->element_count() != 1) return false;
  if (node.op != "QuantizeLinear" && node.op != "DequantizeLinear") return true;
  const double value = constant->to_doubles()[0];
  return input == 1 ? value == 1 : input == 2 ? value == 0 || std::abs(value) == 128 : true;
}

// Whether such a number is an argument of the launch. What remains in the source: numbers of types that few models
// compute with, and those that make the operation a cheaper one.
bool is_argument(const Graph& graph, const Node& node, size_t input, const graph::Constant& constant) {
  const DType dtype = compute_dtype(constant.dtype());
  if (is_floating(dtype) && std::isnan(constant.to_doubles()[0])) return false;  // see Writer::is_number()
  if (dtype != DType::kF32 && dtype != DType::kF64 && dtype != DType::kI32 && dtype != DType::kI64) return false;
  if (node.op == "QuantizeLinear" || node.op == "DequantizeLinear" || node.op == "BitShift" || node.op == "Mod" ||
      node.op == "Cast" || node.op == "CastLike")
    return false;
  if (node.op == "Pow") return input == 0;
  if (node.op != "Div" || input == 0) return true;
  int exponent = 0;
  return is_floating(graph.type(node.outputs[0]).dtype) &&
         std::abs(std::frexp(constant.to_doubles()[0], &exponent)) != 0.5;  // a power of two is a product
}

// The variable that a number becomes in the source; equal ones are one.
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

// What a row sees while it writes one node.
class Writer {
 public:
  // `fused` gets the numbers that are arguments; null: all of them are in the source.
  Writer(const Graph& graph, const Node& node, std::vector<std::string> operands, FusedExpression* fused)
      : graph_(graph), node_(node), operands_(std::move(operands)), fused_(fused) {}

  const Node& node() const { return node_; }
  const std::string& in(size_t i) const { return operands_[i]; }
  size_t count() const { return operands_.size(); }
  bool has(size_t i) const { return i < node_.inputs.size() && node_.inputs[i].valid(); }
  DType stored_in(size_t i) const { return graph_.type(node_.inputs[i]).dtype; }
  DType stored_out() const { return graph_.type(node_.outputs[0]).dtype; }
  DType type_in(size_t i = 0) const { return compute_dtype(stored_in(i)); }
  DType type_out() const { return compute_dtype(stored_out()); }
  double f(std::string_view name) const { return node_.attributes.f(name); }
  int64_t i(std::string_view name) const { return node_.attributes.i(name); }
  // A constant vector of a compute dtype.
  static std::string constant(double value, DType dtype) {
    if (dtype == DType::kBool) return fmt::format("S.const_mask([{}] * VL)", value != 0 ? "True" : "False");
    std::string text;
    if (std::isinf(value)) {
      text = value > 0 ? "\"inf\"" : "\"-inf\"";
    } else if (std::isnan(value)) {
      text = "\"nan\"";
    } else if (is_floating(dtype)) {
      text = fmt::format("{:.17g}", value);
      if (text.find_first_of(".en") == std::string::npos) text += ".0";
    } else {
      text = fmt::format("{}", static_cast<int64_t>(value));
    }
    return fmt::format("S.cast({}, f\"{}x{{VL}}\")", text, dtype_name(dtype));
  }
  std::string k(double value) const { return constant(value, type_in()); }
  // A number that comes from an attribute. Those that leave no operation are in the source.
  std::string attribute(double value) const {
    const DType dtype = type_in();
    const bool is_argument = (dtype == DType::kF32 || dtype == DType::kF64) && !std::isnan(value);
    if (fused_ == nullptr || !is_argument || value == 0 || std::abs(value) == 1) return k(value);
    return number_name(fused_, {value, dtype});
  }
  std::string attribute(std::string_view name) const { return attribute(f(name)); }
  // The constant value of scalar operand i, if it is one.
  std::optional<double> scalar(size_t i) const {
    if (!has(i)) return std::nullopt;
    const graph::Constant* c = graph_.constant(node_.inputs[i]);
    if (!is_literal(node_, i, c)) return std::nullopt;
    return c->to_doubles()[0];
  }
  // Whether operand i is an argument of the launch by itself, and hence not NaN.
  bool is_number(size_t i) const {
    if (!has(i) || fused_ == nullptr) return false;
    const graph::Constant* c = graph_.constant(node_.inputs[i]);
    return is_literal(node_, i, c) && is_argument(graph_, node_, i, *c);
  }
  // Statements before the expression; returns the name of the new variable.
  std::string let(std::string expression) {
    const std::string name = fmt::format("{}_{}", prefix, serial_++);
    statements.push_back(fmt::format("{} = {}", name, expression));
    return name;
  }

  // Of QuantizeLinear: the variable that holds the rounded value, without the zero point, plus kRoundingShift.
  struct Rounded {
    std::string shifted;
    std::string zero;  // text of the zero point
  };
  std::string zero_text() const { return has(2) ? operands_[2] : std::string(); }
  std::string shifted_of(ValueId value) const {
    if (rounded == nullptr) return {};
    const auto found = rounded->find(value);
    return found != rounded->end() && zero_text() == found->second.zero ? found->second.shifted : std::string();
  }

  // The value of input i if it is a constant of any shape.
  const graph::Constant* constant_in(size_t i) const { return has(i) ? graph_.constant(node_.inputs[i]) : nullptr; }
  bool always_needed() const { return graph::needed(node_) == graph::Dim(1); }
  // What stands in the expression for the code of a fault of this node.
  std::string fault(std::string message) {
    faults.push_back(std::move(message));
    return fmt::format("FAULTS[{}]", first_fault + faults.size() - 1);
  }

  std::vector<std::string> statements;
  std::string prefix;
  std::vector<std::string> faults;                      // messages
  size_t first_fault = 0;                               // faults of the nodes before, in the same expression
  std::string error;                                    // what is wrong with the node, if anything
  std::string shifted;                                  // left by QuantizeLinear
  const std::map<ValueId, Rounded>* rounded = nullptr;  // of the nodes before, in the same expression

 private:
  const Graph& graph_;
  const Node& node_;
  std::vector<std::string> operands_;
  FusedExpression* fused_;
  int serial_ = 0;
};

using Row = std::function<std::string(Writer&)>;

std::string cast_text(const std::string& value, DType to) {
  return fmt::format("S.cast({}, \"{}\")", value, dtype_name(to));
}

// Value conversion between compute dtypes, through the intermediate types that intrinsics.md 7.1 demands.
std::string convert(const std::string& value, DType from, DType to) {
  if (from == to) return value;
  if (to == DType::kBool) return fmt::format("({} != {})", value, Writer::constant(0, from));
  if (from == DType::kBool)
    return fmt::format("S.vsel({}, {}, {})", Writer::constant(1, to), Writer::constant(0, to), value);
  const bool float_from = is_floating(from), float_to = is_floating(to);
  if (float_from && !float_to && to != DType::kI32 && to != DType::kI64)
    return cast_text(cast_text(value, DType::kI64), to);
  if (!float_from && float_to && (from == DType::kU32)) return cast_text(cast_text(value, DType::kI64), to);
  return cast_text(value, to);
}

// Cast as ONNX means it: the target's storage precision counts even when fp16 is computed in float32.
std::string cast_node(Writer& w) {
  std::string value = convert(w.in(0), w.type_in(), w.type_out());
  if (w.type_out() != w.stored_out() && w.stored_in(0) != w.stored_out()) {
    value = cast_text(cast_text(value, w.stored_out()), w.type_out());  // round to the 16-bit type
  }
  return value;
}

// The greater (smaller) of the value and the bound, NaN if one of them is. With the bound in front this is one
// instruction where the bound is a constant.
std::string at_least(const std::string& value, const std::string& bound) {
  return fmt::format("S.maximum({}, {})", bound, value);
}
std::string at_most(const std::string& value, const std::string& bound) {
  return fmt::format("S.minimum({}, {})", bound, value);
}

// The same, in one instruction for each bound; none of them is NaN, which the compiler does not know of arguments.
std::string between(Writer& w, const std::string& value, const std::string& low, const std::string& high) {
  return fmt::format("S.clip({}, {}, {})", value, low.empty() ? w.k(-INFINITY) : low,
                     high.empty() ? w.k(INFINITY) : high);
}

std::string extremum(Writer& w, bool greatest) {
  std::vector<size_t> order(w.count());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.size() > 1 && w.scalar(0) && !w.scalar(1)) std::swap(order[0], order[1]);
  std::string result = w.in(order[0]);
  for (size_t k = 1; k < order.size(); ++k) {
    const size_t i = order[k];
    if (w.is_number(i) && is_floating(w.type_in())) {
      result = greatest ? between(w, result, w.in(i), "") : between(w, result, "", w.in(i));
      continue;
    }
    const std::string& bound = w.scalar(i) ? w.in(i) : result;
    const std::string& value = w.scalar(i) ? result : w.in(i);
    result = greatest ? at_least(value, bound) : at_most(value, bound);
  }
  return result;
}

std::string narrow_multiply(const std::string& a, const std::string& b, DType type) {
  if (dtype_bits(type) != 8) return fmt::format("({} * {})", a, b);
  const DType wide = is_signed_int(type) ? DType::kI16 : DType::kU16;
  return cast_text(fmt::format("({} * {})", cast_text(a, wide), cast_text(b, wide)), type);
}

std::string negate(Writer& w) {
  return is_floating(w.type_in()) ? fmt::format("({} * {})", w.in(0), w.k(-1))
                                  : fmt::format("({} - {})", w.k(0), w.in(0));
}

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
  w.statements.push_back(fmt::format("check_divisor({}, {}, active)", w.fault(std::string(kDivisionBy)), w.in(1)));
  return {is_signed_int(w.type_in())};
}

// Python's modulo for integers (the sign of the divisor), C's fmod for fmod=1.
std::string modulo(Writer& w) {
  const std::string x = w.in(0), y = w.in(1);
  if (is_floating(w.type_in())) {
    return fmt::format("({0} - S.trunc({0} / {1}) * {1})", x, y);
  }
  check_divisor(w);
  const std::string r = w.let(fmt::format("S.vmod({}, {})", x, y));
  if (w.i("fmod") != 0 || is_unsigned_int(w.type_in())) return r;
  const std::string zero = w.k(0);
  const std::string wrong_sign = w.let(fmt::format("(({0} < {2}) ^ ({1} < {2})) & ({0} != {2})", r, y, zero));
  return fmt::format("S.vsel({0} + {1}, {0}, {2})", r, y, wrong_sign);
}

std::string power(Writer& w) {
  const DType base = w.type_in(0);
  if (const auto exponent = w.scalar(1)) {
    if (*exponent == 1) return w.in(0);
    if (*exponent == 2) return narrow_multiply(w.in(0), w.in(0), base);
    if (*exponent == 3 && dtype_bits(base) > 8) return fmt::format("({0} * {0} * {0})", w.in(0));
    if (*exponent == 0.5 && is_floating(base)) return fmt::format("S.sqrt({})", w.in(0));
    if (*exponent == -1 && is_floating(base)) return fmt::format("({} / {})", w.k(1), w.in(0));
  }
  if (is_floating(base)) return fmt::format("S.pow({}, {})", w.in(0), convert(w.in(1), w.type_in(1), base));
  const std::string result =
      fmt::format("S.pow({}, {})", convert(w.in(0), base, DType::kF64), convert(w.in(1), w.type_in(1), DType::kF64));
  return convert(result, DType::kF64, base);
}

std::string clip(Writer& w) {
  const auto is_free = [&](size_t i) { return !w.has(i) || w.is_number(i); };
  if (is_floating(w.type_in()) && is_free(1) && is_free(2))
    return between(w, w.in(0), w.has(1) ? w.in(1) : "", w.has(2) ? w.in(2) : "");
  std::string value = w.in(0);
  if (w.has(1)) value = at_least(value, w.in(1));
  if (w.has(2)) value = at_most(value, w.in(2));
  return value;
}

std::string divide(Writer& w) {
  if (is_floating(w.type_in())) return fmt::format("({} / {})", w.in(0), w.in(1));
  const std::string quotient = fmt::format("S.vdiv({}, {})", w.in(0), w.in(1));
  if (!check_divisor(w).may_be_minus_one) return quotient;
  // The one quotient that does not fit wraps, as NumPy's does; S.vdiv saturates.
  return fmt::format("S.vsel({} - {}, {}, {} == {})", w.k(0), w.in(0), quotient, w.in(1), w.k(-1));
}

// Adding it to a float32 of less than 2^22 rounds to an integer, ties to even, and leaves that integer in the low bits.
constexpr double kRoundingShift = 12582912;  // 1.5 * 2^23
constexpr int64_t kRoundingShiftBits = 0x4B400000;

std::string quantize(Writer& w) {
  const DType to = w.stored_out();
  const double low = is_signed_int(to) ? -std::ldexp(1.0, dtype_bits(to) - 1) : 0;
  const double high = std::ldexp(1.0, dtype_bits(to) - (is_signed_int(to) ? 1 : 0)) - 1;
  std::string value = convert(w.in(0), w.type_in(0), DType::kF32);
  if (w.scalar(1) != 1.0) value = fmt::format("({} / {})", value, convert(w.in(1), w.type_in(1), DType::kF32));
  if (dtype_bits(to) <= 16) {
    const auto zero = w.has(2) ? w.scalar(2) : std::optional<double>(0);
    std::string least = Writer::constant(low - zero.value_or(0), DType::kF32),
                most = Writer::constant(high - zero.value_or(0), DType::kF32);
    std::string offset = Writer::constant(static_cast<double>(kRoundingShiftBits) - zero.value_or(0), DType::kI32);
    if (!zero) {
      const std::string number = w.let(convert(w.in(2), w.type_in(2), DType::kF32));
      least = fmt::format("({} - {})", least, number);
      most = fmt::format("({} - {})", most, number);
      offset = fmt::format("({} - {})", offset, convert(w.in(2), w.type_in(2), DType::kI32));
    }
    // Clamped before it is rounded: the limits are integers. They are the second operands: a NaN becomes a number.
    value = fmt::format("S.min(S.max({}, {}), {})", value, least, most);
    w.shifted = w.let(fmt::format("{} + {}", value, Writer::constant(kRoundingShift, DType::kF32)));
    return cast_text(fmt::format("S.reinterpret({}, f\"int32x{{VL}}\") - {}", w.shifted, offset), to);
  }
  value = fmt::format("S.rint({})", value);
  if (w.has(2)) value = fmt::format("({} + {})", value, convert(w.in(2), w.type_in(2), DType::kF32));
  value = fmt::format("S.min(S.max({}, {}), {})", value, Writer::constant(low, DType::kF32),
                      Writer::constant(high, DType::kF32));
  return cast_text(cast_text(value, DType::kI32), to);
}

std::string dequantize(Writer& w) {
  const std::string scale = convert(w.in(1), w.type_in(1), w.type_out());
  const auto zero = w.has(2) ? w.scalar(2) : std::optional<double>(0);
  // What was rounded a moment ago need not become an integer and a float again.
  if (const std::string shifted = w.shifted_of(w.node().inputs[0]); !shifted.empty() && w.type_out() == DType::kF32) {
    return fmt::format("(({} - {}) * {})", shifted, Writer::constant(kRoundingShift, DType::kF32), scale);
  }
  std::string value = convert(w.in(0), w.type_in(0), DType::kI32);
  if (zero != 0.0) value = fmt::format("({} - {})", value, convert(w.in(2), w.type_in(2), DType::kI32));
  return fmt::format("({} * {})", convert(value, DType::kI32, w.type_out()), scale);
}

std::string softplus(const std::string& x, Writer& w) {
  return fmt::format("(S.max({0}, {1}) + S.log({2} + S.exp({1} - S.abs({0}))))", x, w.k(0), w.k(1));
}

std::string is_infinite(Writer& w) {
  const bool negative = w.node().attributes.i_or("detect_negative", 1) != 0,
             positive = w.node().attributes.i_or("detect_positive", 1) != 0;
  if (negative && positive) return fmt::format("S.isinf({})", w.in(0));
  if (!negative && !positive) return Writer::constant(0, DType::kBool);
  return fmt::format("({} == {})", w.in(0), w.k(positive ? INFINITY : -INFINITY));
}

// x where the condition text holds, else y.
std::string choose(const std::string& condition, const std::string& x, const std::string& y) {
  return fmt::format("S.vsel({}, {}, {})", x, y, condition);
}

std::string sign(Writer& w) {
  const std::string positive = fmt::format("S.vsel({}, {}, {} > {})", w.k(1), w.k(0), w.in(0), w.k(0));
  if (is_unsigned_int(w.type_in())) return positive;
  if (!is_floating(w.type_in())) return choose(fmt::format("{} < {}", w.in(0), w.k(0)), w.k(-1), positive);
  // What is neither is 0 of either sign or NaN, which stays.
  const std::string rest = fmt::format("{} + {}", w.in(0), w.k(0));
  const std::string negative = choose(fmt::format("{} < {}", w.in(0), w.k(0)), w.k(-1), rest);
  return choose(fmt::format("{} > {}", w.in(0), w.k(0)), w.k(1), negative);
}

Row unary(std::string_view pattern) {
  return [pattern](Writer& w) { return fmt::format(fmt::runtime(pattern), w.in(0)); };
}
Row binary(std::string_view symbol) {
  return [symbol](Writer& w) { return fmt::format("({} {} {})", w.in(0), symbol, w.in(1)); };
}

const std::map<std::string, Row, std::less<>>& rows() {
  static const std::map<std::string, Row, std::less<>> kRows = {
      {"Abs", [](Writer& w) { return is_unsigned_int(w.type_in()) ? w.in(0) : fmt::format("S.abs({})", w.in(0)); }},
      {"Acos", unary("S.acos({})")},
      {"Acosh", unary("S.acosh({})")},
      {"Asin", unary("S.asin({})")},
      {"Asinh", unary("S.asinh({})")},
      {"Atan", unary("S.atan({})")},
      {"Atanh", unary("S.atanh({})")},
      {"Ceil", unary("S.ceil({})")},
      {"Cos", unary("S.cos({})")},
      {"Cosh", unary("S.cosh({})")},
      {"Erf", unary("S.erf({})")},
      {"Exp", unary("S.exp({})")},
      {"Floor", unary("S.floor({})")},
      {"Identity", unary("{}")},
      {"IsInf", is_infinite},
      {"IsNaN", unary("S.isnan({})")},
      {"Log", unary("S.log({})")},
      {"Neg", negate},
      {"Not", unary("(~{})")},
      {"BitwiseNot", unary("(~{})")},
      {"Reciprocal", [](Writer& w) { return fmt::format("({} / {})", w.k(1), w.in(0)); }},
      {"Round", unary("S.rint({})")},
      {"Sigmoid", [](Writer& w) { return fmt::format("({0} / ({0} + S.exp({1} - {2})))", w.k(1), w.k(0), w.in(0)); }},
      {"Sign", sign},
      {"Sin", unary("S.sin({})")},
      {"Sinh", unary("S.sinh({})")},
      {"Softplus", [](Writer& w) { return softplus(w.in(0), w); }},
      {"Softsign", [](Writer& w) { return fmt::format("({0} / ({1} + S.abs({0})))", w.in(0), w.k(1)); }},
      {"Sqrt", unary("S.sqrt({})")},
      {"Tan", unary("S.tan({})")},
      {"Tanh", unary("S.tanh({})")},
      {"Relu", [](Writer& w) { return at_least(w.in(0), w.k(0)); }},
      {"HardSwish",
       [](Writer& w) {
         const std::string gate = fmt::format("{} * {} + {}", w.in(0), w.k(1.0 / 6), w.k(0.5));
         return fmt::format("({} * {})", w.in(0), at_least(at_most(gate, w.k(1)), w.k(0)));
       }},
      {"HardSigmoid",
       [](Writer& w) {
         const std::string slope = w.attribute("alpha"), at_zero = w.attribute("beta");
         const std::string line = fmt::format("{} * {} + {}", w.in(0), slope, at_zero);
         return at_least(at_most(line, w.k(1)), w.k(0));
       }},
      {"Mish",
       [](Writer& w) {
         // tanh(log(1 + e)) is n / (n + 2) with n = e * (e + 2); 1 within float64's rounding from exp(20) on.
         const std::string e = w.let(fmt::format("S.exp(S.min({}, {}))", w.in(0), w.k(20)));
         const std::string n = w.let(fmt::format("{0} * ({0} + {1})", e, w.k(2)));
         return fmt::format("({0} * ({1} / ({1} + {2})))", w.in(0), n, w.k(2));
       }},
      {"Gelu",
       [](Writer& w) {
         if (w.node().attributes.s_or("approximate", "none") == "tanh") {
           // (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 * u)): shorter, and exact where x is far below 0.
           const double slope = -2 * std::sqrt(2 / M_PI);
           return fmt::format("({0} / ({1} + S.exp({0} * ({2} + {3} * {0} * {0}))))", w.in(0), w.k(1), w.k(slope),
                              w.k(slope * 0.044715));
         }
         return fmt::format("({0} * {1} * ({2} + S.erf({0} * {3})))", w.in(0), w.k(0.5), w.k(1), w.k(M_SQRT1_2));
       }},
      {"Swish",
       [](Writer& w) {
         return fmt::format("({0} / ({1} + S.exp({0} * {2})))", w.in(0), w.k(1),
                            w.attribute(-w.node().attributes.f_or("alpha", 1)));
       }},
      {"Celu",
       [](Writer& w) {
         const std::string a = w.attribute("alpha");
         const std::string curve = fmt::format("{1} * (S.exp({0} / {1}) - {2})", w.in(0), a, w.k(1));
         return fmt::format("({} + {})", at_least(w.in(0), w.k(0)), at_most(curve, w.k(0)));
       }},
      {"Elu",
       [](Writer& w) {
         return choose(fmt::format("{} < {}", w.in(0), w.k(0)),
                       fmt::format("{} * (S.exp({}) - {})", w.attribute("alpha"), w.in(0), w.k(1)), w.in(0));
       }},
      {"LeakyRelu",
       [](Writer& w) {
         return choose(fmt::format("{} < {}", w.in(0), w.k(0)), fmt::format("{} * {}", w.attribute("alpha"), w.in(0)),
                       w.in(0));
       }},
      {"Selu",
       [](Writer& w) {
         const std::string alpha = w.attribute("alpha"), gamma = w.attribute("gamma");
         return choose(fmt::format("{} > {}", w.in(0), w.k(0)), fmt::format("{} * {}", gamma, w.in(0)),
                       fmt::format("{0} * (S.exp({1}) * {2} - {2})", gamma, w.in(0), alpha));
       }},
      {"Shrink",
       [](Writer& w) {
         const std::string from = w.attribute("lambd"), below = w.attribute(-w.f("lambd")), bias = w.attribute("bias");
         const std::string low =
             choose(fmt::format("{} < {}", w.in(0), below), fmt::format("{} + {}", w.in(0), bias), w.k(0));
         return choose(fmt::format("{} > {}", w.in(0), from), fmt::format("{} - {}", w.in(0), bias), low);
       }},
      {"ThresholdedRelu",
       [](Writer& w) { return choose(fmt::format("{} > {}", w.in(0), w.attribute("alpha")), w.in(0), w.k(0)); }},
      {"PRelu",
       [](Writer& w) {
         return choose(fmt::format("{} < {}", w.in(0), w.k(0)), narrow_multiply(w.in(0), w.in(1), w.type_in()),
                       w.in(0));
       }},
      {"Clip", clip},
      {"Cast", cast_node},
      {"CastLike", cast_node},
      {"Add", binary("+")},
      {"Sub", binary("-")},
      {"Mul", [](Writer& w) { return narrow_multiply(w.in(0), w.in(1), w.type_in()); }},
      {"Div", divide},
      {"Mod", modulo},
      {"Pow", power},
      {"And", binary("&")},
      {"Or", binary("|")},
      {"Xor", binary("^")},
      {"BitwiseAnd", binary("&")},
      {"BitwiseOr", binary("|")},
      {"BitwiseXor", binary("^")},
      {"BitShift",
       [](Writer& w) {
         return fmt::format("({} {} {})", w.in(0), w.node().attributes.s("direction") == "LEFT" ? "<<" : ">>", w.in(1));
       }},
      {"Equal",
       [](Writer& w) {
         return w.type_in() == DType::kBool ? fmt::format("(~({} ^ {}))", w.in(0), w.in(1))
                                            : fmt::format("({} == {})", w.in(0), w.in(1));
       }},
      {"Greater", binary(">")},
      {"GreaterOrEqual", binary(">=")},
      {"Less", binary("<")},
      {"LessOrEqual", binary("<=")},
      {"Max", [](Writer& w) { return extremum(w, true); }},
      {"Min", [](Writer& w) { return extremum(w, false); }},
      {"Sum",
       [](Writer& w) {
         std::string sum = w.in(0);
         for (size_t i = 1; i < w.count(); ++i) sum = fmt::format("({} + {})", sum, w.in(i));
         return sum;
       }},
      {"Mean",
       [](Writer& w) {
         std::string sum = w.in(0);
         for (size_t i = 1; i < w.count(); ++i) sum = fmt::format("({} + {})", sum, w.in(i));
         return fmt::format("({} * {})", sum, w.k(1.0 / static_cast<double>(w.count())));
       }},
      {"Where", [](Writer& w) { return choose(w.in(0), w.in(1), w.in(2)); }},
      {"QuantizeLinear", quantize},
      {"DequantizeLinear", dequantize},
  };
  return kRows;
}

// CastLike reads only the type of its second operand.
size_t operand_count(const Node& node) { return node.op == "CastLike" ? 1 : node.inputs.size(); }

}  // namespace

bool is_elementwise_expression(const Graph& graph, const Node& node) {
  return user_value(graph, node) != nullptr || rows().contains(node.op);
}

Status check_elementwise(const Graph& graph, const Node& node) {
  for (const ValueId input : node.inputs) {
    if (input.valid() && graph.type(input).dtype == DType::kString)
      return unsupported("string tensors are not supported");
  }
  if (graph.type(node.outputs[0]).dtype == DType::kString) return unsupported("string tensors are not supported");
  if ((node.op == "QuantizeLinear" || node.op == "DequantizeLinear") && node.attributes.i_or("block_size", 0) != 0) {
    return unsupported("blocked quantisation (block_size) is not supported");
  }
  if (user_value(graph, node) == nullptr && operand_count(node) > kMaxFusedOperands)
    return unsupported(fmt::format("{} operands; at most {} are supported", node.inputs.size(), kMaxFusedOperands));
  return {};
}

namespace {

bool is_expressible(const Graph& graph, const Node& node) {
  return is_elementwise_expression(graph, node) && check_elementwise(graph, node).ok();
}

}  // namespace

Result<FusedExpression> fuse_expression(const Graph& graph, const std::vector<NodeId>& nodes, ValueId seed,
                                        bool numbers_in_source) {
  FusedExpression fused;
  std::map<ValueId, std::string> names;
  std::map<ValueId, Writer::Rounded> rounded;
  std::string body;
  if (seed.valid()) names[seed] = "v";
  int serial = 0;
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    std::vector<std::string> operands;
    for (size_t i = 0; i < operand_count(node); ++i) {
      const ValueId input = node.inputs[i];
      if (!input.valid()) {
        operands.emplace_back();
        continue;
      }
      if (auto known = names.find(input); known != names.end()) {
        operands.push_back(known->second);
        continue;
      }
      const graph::Constant* constant = graph.constant(input);
      const bool literal = is_literal(node, i, constant);
      if (literal && !numbers_in_source && is_argument(graph, node, i, *constant)) {
        operands.push_back(number_name(&fused, number_of(*constant)));
        continue;
      }
      if (literal && !(dtype_bits(constant->dtype()) == 64 && is_integer(constant->dtype()))) {
        operands.push_back(Writer::constant(constant->to_doubles()[0], compute_dtype(constant->dtype())));
        continue;
      }
      if (literal) {
        operands.push_back(
            fmt::format("S.cast({}, f\"{}x{{VL}}\")", constant->to_int64s()[0], dtype_name(constant->dtype())));
        continue;
      }
      names[input] = fmt::format("x[{}]", fused.operands.size());
      fused.operands.push_back(input);
      operands.push_back(names[input]);
    }
    const std::string name = fmt::format("t{}", serial);
    names[node.outputs[0]] = name;
    fused.result = node.outputs[0];
    if (user_value(graph, node) != nullptr) {
      AIPU_ASSIGN_OR_RETURN(const std::string value,
                            user_expression(graph, node, operands, fmt::format("user{}", serial++), &fused.functions));
      body += fmt::format("    {} = {}\n", name, value);
      continue;
    }
    const auto row = rows().find(node.op);
    if (row == rows().end()) return internal_error(fmt::format("no elementwise row for {}", node.op));
    Writer writer(graph, node, std::move(operands), numbers_in_source ? nullptr : &fused);
    writer.prefix = fmt::format("u{}", serial);
    writer.rounded = &rounded;
    writer.first_fault = fused.faults.size();
    const std::string expression = row->second(writer);
    if (!writer.error.empty()) return invalid_model(str_cat(graph::origins_text(node.origins), ": ", writer.error));
    for (std::string& message : writer.faults) fused.faults.push_back({std::move(message), id});
    if (!writer.shifted.empty()) rounded[node.outputs[0]] = {writer.shifted, writer.zero_text()};
    for (const std::string& statement : writer.statements) body += "    " + statement + "\n";
    ++serial;
    body += fmt::format("    {} = {}\n", name, expression);
  }
  std::string numbers;
  for (size_t k = 0; k < fused.numbers.size(); ++k)
    numbers += fmt::format("    c{} = x[{}]\n", k, fused.operands.size() + k);
  fused.source = fmt::format("def compute({}{}):\n{}{}    return {}\n", seed.valid() ? "v, x" : "x",
                             fused.faults.empty() ? "" : ", active", numbers, body, names[fused.result]);
  return fused;
}

bool elementwise_reports(const Graph& graph, NodeId node) {
  if (!graph::may_fault(graph, graph.node(node))) return false;
  const auto fused = fuse_expression(graph, {node});
  return !fused.ok() || !fused->faults.empty();
}

std::vector<NodeId> grow_elementwise_group(const Graph& graph, NodeId anchor) {
  const graph::Shape& space = graph.type(graph.node(anchor).outputs[0]).shape;
  std::vector<NodeId> group = {anchor};
  std::set<ValueId> inside = {graph.node(anchor).outputs[0]};
  size_t closed = 1;  // the longest prefix whose only escaping value is its last node's output

  // A kernel reports its first fault, which must not be one that does not count while others do.
  const graph::Dim needed = graph::needed(graph.node(anchor));
  const auto faults_alike = [&](const Node& node) { return !may_fault(graph, node) || graph::needed(node) == needed; };
  const auto joins = [&](NodeId id) {
    const Node& node = graph.node(id);
    return is_expressible(graph, node) && node.outputs.size() == 1 && graph.type(node.outputs[0]).shape == space &&
           faults_alike(node);
  };
  const auto escapes = [&](ValueId value) {
    if (graph.is_graph_output(value)) return true;
    for (const NodeId user : graph.users(value)) {
      if (std::find(group.begin(), group.end(), user) == group.end()) return true;
    }
    return false;
  };
  // What becomes an operand of the expression: numbers are written into it, and what an accumulating anchor reads is
  // its own business.
  const bool anchor_counts = is_expressible(graph, graph.node(anchor));
  const auto operand_total = [&] {
    std::set<ValueId> outside;
    for (const NodeId id : group) {
      if (id == anchor && !anchor_counts) continue;
      for (const ValueId input : graph.node(id).inputs) {
        const bool number = is_literal(graph.node(id), static_cast<size_t>(&input - graph.node(id).inputs.data()),
                                       graph.constant(input));
        if (input.valid() && !number && !inside.contains(input)) outside.insert(input);
      }
    }
    return outside.size();
  };
  // A DequantizeLinear that only `user` reads: the integers are the cheaper operand. Nothing in the group can come
  // before it, as its input would be an escaping value.
  const auto side_input = [&](NodeId user) {
    for (const ValueId input : graph.node(user).inputs) {
      if (!input.valid() || inside.contains(input) || graph.is_graph_output(input)) continue;
      const NodeId producer = graph.value(input).producer;
      if (!producer.valid() || graph.node(producer).op != "DequantizeLinear" || !joins(producer)) continue;
      if (graph::element_count(graph.type(graph.node(producer).inputs[1]).shape) != graph::Dim(1)) continue;
      if (graph.users(input) == std::vector<NodeId>{user}) return producer;
    }
    return NodeId();
  };

  while (group.size() < kMaxFusedNodes) {
    // The next node: a user of something inside that only needs values from inside, from before, or from side inputs
    // that can come along.
    NodeId next;
    for (const NodeId member : group) {
      for (const NodeId user : graph.users(graph.node(member).outputs[0])) {
        if (std::find(group.begin(), group.end(), user) == group.end() && joins(user) && (!next.valid() || user < next))
          next = user;
      }
    }
    if (!next.valid()) break;
    for (NodeId side = side_input(next); side.valid(); side = side_input(next)) {
      group.push_back(side);
      inside.insert(graph.node(side).outputs[0]);
    }
    group.push_back(next);
    inside.insert(graph.node(next).outputs[0]);
    if (operand_total() > kMaxFusedOperands) break;
    size_t escaping = 0;
    for (const NodeId member : group) escaping += escapes(graph.node(member).outputs[0]) ? 1 : 0;
    if (escaping == 1 && escapes(graph.node(group.back()).outputs[0])) closed = group.size();
  }
  group.resize(closed);
  return group;
}

}  // namespace aipu::kernels
