#include "graph/ops/dim_rules.h"

#include <algorithm>
#include <cmath>

namespace aipu::graph {
namespace {

bool at_least(const Dim& value, int64_t bound) {
  const auto low = value.lower_bound();
  return low && *low >= bound;
}

Dim negate(const Dim& a) { return Dim(0) - a; }
Dim logical_not(const Dim& a) { return eq(a, 0); }

}  // namespace

std::optional<Dim> truncating_div(const Dim& a, const Dim& b) {
  if (at_least(a, 0) && at_least(b, 0)) {
    if (b.constant() == 0) return std::nullopt;
    return floordiv(a, b);
  }
  const auto divisor = b.constant();
  if (!divisor || *divisor == 0) return std::nullopt;
  if (*divisor == INT64_MIN) return std::nullopt;
  const Dim magnitude(*divisor < 0 ? -*divisor : *divisor);
  const Dim quotient = select(lt(a, 0), negate(floordiv(negate(a), magnitude)), floordiv(a, magnitude));
  return *divisor < 0 ? negate(quotient) : quotient;
}

std::optional<Dim> apply_binary(std::string_view op, const Dim& a, const Dim& b, bool floating) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Min") return min(a, b);
  if (op == "Max") return max(a, b);
  if (op == "Equal") return eq(a, b);
  if (op == "Less") return lt(a, b);
  if (op == "Greater") return lt(b, a);
  if (op == "LessOrEqual") return logical_not(lt(b, a));
  if (op == "GreaterOrEqual") return logical_not(lt(a, b));
  if (op == "And") return a * b;
  if (op == "Or") return max(a, b);
  if (op == "Xor") return logical_not(eq(a, b));
  if (op == "Div" && !floating) return truncating_div(a, b);
  if (op == "Div") {
    // Exact quotients only.
    const auto divisor = b.constant();
    if (!divisor || *divisor == 0) return std::nullopt;
    const Dim quotient = floordiv(a, b);
    if (quotient * b == a) return quotient;
    return std::nullopt;
  }
  if (op == "Mod" && !floating) {
    if (b.constant() == 0 || !(at_least(b, 1) || b.is_constant())) return std::nullopt;
    return mod(a, b);
  }
  if (op == "Pow") {
    const auto exponent = b.constant();
    if (!exponent || *exponent < 0 || *exponent > 4) return std::nullopt;
    Dim result(1);
    for (int64_t k = 0; k < *exponent; ++k) result = result * a;
    return result;
  }
  return std::nullopt;
}

std::optional<Dim> apply_unary(std::string_view op, const Dim& a) {
  if (op == "Identity" || op == "Floor" || op == "Ceil" || op == "Round") return a;
  if (op == "Neg") return negate(a);
  if (op == "Abs") return at_least(a, 0) ? a : max(a, negate(a));
  if (op == "Relu") return max(a, 0);
  if (op == "Sign") return lt(0, a) - lt(a, 0);
  if (op == "Not") return logical_not(a);
  return std::nullopt;
}

bool tracked(DType dtype) {
  return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kBool || dtype == DType::kF32 ||
         dtype == DType::kF64;
}

bool fits(const Dim& element, DType dtype) {
  const auto value = element.constant();
  if (!value) return tracked(dtype);
  if (is_bool(dtype)) return *value == 0 || *value == 1;
  if (dtype == DType::kF64) return std::abs(static_cast<double>(*value)) <= 0x1p53;
  if (dtype == DType::kF32) return std::abs(static_cast<double>(*value)) <= 0x1p24;
  if (is_floating(dtype)) return std::abs(static_cast<double>(*value)) <= (dtype == DType::kF16 ? 0x1p11 : 0x1p8);
  const int bits = dtype_bits(dtype);
  if (is_signed_int(dtype))
    return bits == 64 || (*value >= -(int64_t{1} << (bits - 1)) && *value < (int64_t{1} << (bits - 1)));
  if (is_unsigned_int(dtype)) return *value >= 0 && (bits == 64 || *value < (int64_t{1} << bits));
  return false;
}

std::optional<Data> checked_elements(std::optional<Data> data, DType dtype) {
  if (!data || !std::all_of(data->begin(), data->end(), [&](const Dim& d) { return fits(d, dtype); }))
    return std::nullopt;
  return data;
}

namespace {

std::optional<Fraction> fraction_of_double(double value) {
  for (int shift = 0; shift <= 24; ++shift) {
    const double scaled = std::ldexp(value, shift);
    if (scaled == std::trunc(scaled)) {
      if (std::abs(scaled) > 0x1p40) return std::nullopt;
      return Fraction{Dim(static_cast<int64_t>(scaled)), Dim(int64_t{1} << shift)};
    }
  }
  return std::nullopt;
}

std::optional<std::vector<Fraction>> broadcast_fractions(const Graph& graph, ValueId from,
                                                         const std::vector<Fraction>& elements,
                                                         const std::vector<int64_t>& to) {
  const auto shape = static_shape(graph.type(from).shape);
  if (!shape) return std::nullopt;
  Data numerators;
  Data denominators;
  for (const Fraction& element : elements) {
    numerators.push_back(element.numerator);
    denominators.push_back(element.denominator);
  }
  numerators = broadcast_data(numerators, *shape, to);
  denominators = broadcast_data(denominators, *shape, to);
  std::vector<Fraction> result;
  for (size_t k = 0; k < numerators.size(); ++k) result.push_back({numerators[k], denominators[k]});
  return result;
}

}  // namespace

std::optional<std::vector<Fraction>> fractions_of(const Graph& graph, ValueId value, bool any_divisor, int depth) {
  if (depth <= 0 || !value.valid()) return std::nullopt;
  const TensorType& type = graph.type(value);
  const auto shape = static_shape(type.shape);
  if (!shape || count_of(*shape) > kDataLimit) return std::nullopt;
  std::vector<Fraction> result;
  if (const auto data = data_of(graph, value)) {
    for (const Dim& element : *data) result.push_back({element, Dim(1)});
    return result;
  }
  if (const Constant* constant = graph.constant(value)) {
    if (!is_floating(type.dtype)) return std::nullopt;
    for (const double element : constant->to_doubles()) {
      const auto fraction = std::isfinite(element) ? fraction_of_double(element) : std::nullopt;
      if (!fraction) return std::nullopt;
      result.push_back(*fraction);
    }
    return result;
  }
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid()) return std::nullopt;
  const Node& node = graph.node(producer);
  if (!is_floating(type.dtype)) return std::nullopt;
  if (node.op == "Cast" || node.op == "Identity" || node.op == "Reshape" || node.op == "Squeeze" ||
      node.op == "Unsqueeze") {
    if (!is_floating(graph.type(node.inputs[0]).dtype)) return std::nullopt;
    return fractions_of(graph, node.inputs[0], any_divisor, depth - 1);
  }
  if (node.op == "Concat" && shape->size() == 1) {
    for (const ValueId part : node.inputs) {
      const auto fractions = fractions_of(graph, part, any_divisor, depth - 1);
      if (!fractions) return std::nullopt;
      result.insert(result.end(), fractions->begin(), fractions->end());
    }
    return result;
  }
  if (node.op != "Mul" && node.op != "Div") return std::nullopt;
  const auto a = fractions_of(graph, node.inputs[0], any_divisor, depth - 1);
  const auto b = fractions_of(graph, node.inputs[1], any_divisor, depth - 1);
  if (!a || !b) return std::nullopt;
  const auto left = broadcast_fractions(graph, node.inputs[0], *a, *shape);
  const auto right = broadcast_fractions(graph, node.inputs[1], *b, *shape);
  if (!left || !right) return std::nullopt;
  for (size_t k = 0; k < left->size(); ++k) {
    const Fraction& x = (*left)[k];
    Fraction y = (*right)[k];
    if (node.op == "Div") {
      // A divisor must be provably positive; a symbolic extent is only known to be >= 0.
      if (!any_divisor && !at_least(y.numerator, 1)) return std::nullopt;
      std::swap(y.numerator, y.denominator);
    }
    result.push_back({x.numerator * y.numerator, x.denominator * y.denominator});
  }
  return result;
}

}  // namespace aipu::graph
