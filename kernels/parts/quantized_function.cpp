#include "kernels/parts/quantized_function.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>

#include "kernels/parts/elementwise_rows.h"

namespace aipu::kernels {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr int kPieces = QuantizedFunction::kPieces;
// Where limits, factor and sum stand in the table, behind three coefficients of each piece.
constexpr int kLow = 3 * kPieces, kHigh = kLow + 1, kFactor = kLow + 2, kSum = kLow + 3, kStraight = kLow + 4;
// Adding it to a float32 rounds to an integer, and leaves that in the low bits; so does a fused multiply-add.
constexpr float kRounding = 12582912;  // 1.5 * 2^23

std::optional<double> number(const Graph& graph, ValueId value) {
  const graph::Constant* constant = value.valid() ? graph.constant(value) : nullptr;
  if (constant == nullptr || constant->element_count() != 1) return std::nullopt;
  return constant->to_doubles()[0];
}

// The nodes from `first` on as a function of one value: the steps of the quotient, before it is rounded and limited.
class Steps {
 public:
  static std::optional<Steps> of(const Graph& graph, const std::vector<NodeId>& nodes, size_t first, ValueId argument) {
    const Node& quantize = graph.node(nodes.back());
    const auto scale = number(graph, quantize.inputs[1]);
    const auto zero =
        quantize.inputs.size() > 2 && quantize.inputs[2].valid() ? number(graph, quantize.inputs[2]) : 0.0;
    if (!scale || !zero || !std::isnormal(static_cast<float>(*scale)) || *scale < 0) return std::nullopt;
    Steps steps(graph, argument, *scale, *zero);
    std::set<ValueId> known = {argument};
    bool is_costly = false;
    for (size_t k = first; k + 1 < nodes.size(); ++k) {
      const Node& node = graph.node(nodes[k]);
      const elementwise::Row* row = elementwise::row_of(node);
      if (row == nullptr || !row->value || graph.type(node.outputs[0]).dtype != DType::kF32) return std::nullopt;
      for (const ValueId input : node.inputs)
        if (!known.contains(input) && !number(graph, input)) return std::nullopt;
      known.insert(node.outputs[0]);
      is_costly = is_costly || row->is_transcendental;
      steps.nodes_.emplace_back(&node, row);
    }
    steps.result_ = quantize.inputs[0];
    if (!is_costly || !known.contains(steps.result_)) return std::nullopt;
    return steps;
  }

  double operator()(double t) const {
    std::map<ValueId, double> values = {{argument_, t}};
    for (const auto& [node, row] : nodes_) {
      std::vector<double> operands;
      for (const ValueId input : node->inputs) {
        const auto known = values.find(input);
        operands.push_back(known != values.end() ? known->second : *number(*graph_, input));
      }
      values[node->outputs[0]] = row->value(*node, operands);
    }
    return values[result_] / scale_ + zero_;
  }

 private:
  Steps(const Graph& graph, ValueId argument, double scale, double zero)
      : graph_(&graph), argument_(argument), scale_(scale), zero_(zero) {}

  const Graph* graph_;
  std::vector<std::pair<const Node*, const elementwise::Row*>> nodes_;
  ValueId argument_, result_;
  double scale_, zero_;
};

// Points of all magnitudes up to 2^96, an eightieth apart, from the far end of one side to 0.
std::vector<double> points_to_zero(double sign) {
  std::vector<double> points;
  for (int k = 80 * 67; k >= 0; --k) points.push_back(sign * std::expm1(k / 80.0));
  return points;
}

struct Limits {
  double low, high;
};

// Beyond which `limited` hardly changes: by most of the error that is allowed, as pieces are near where it is flat.
std::optional<Limits> limits_of(const std::function<double(double)>& limited) {
  std::array<double, 2> ends{};
  const std::array<double, 2> signs = {-1, 1};
  for (size_t side = 0; side < 2; ++side) {
    std::vector<double> points = points_to_zero(signs[side]);
    const std::vector<double> others = points_to_zero(-signs[side]);
    points.insert(points.end(), others.rbegin(), others.rend());
    const double last = limited(points[0]);
    if (!std::isfinite(last)) return std::nullopt;
    const auto is_last = [&](double t) { return std::abs(limited(t) - last) <= 0.9 * QuantizedFunction::kMostError; };
    const auto other = std::find_if_not(points.begin(), points.end(), is_last);
    if (other == points.begin() || other == points.end()) return std::nullopt;  // constant
    double inside = *other, outside = *(other - 1);
    for (int step = 0; step < 30; ++step) {
      const double middle = (inside + outside) / 2;
      (is_last(middle) ? outside : inside) = middle;
    }
    ends[side] = outside;
  }
  if (!(ends[0] < ends[1])) return std::nullopt;
  return Limits{ends[0], ends[1]};
}

// Pieces t * factor + sum, rounded: `sum` is an integer, and all pieces lie between the limits.
struct Grid {
  double factor = 0;
  int sum = 0;

  double edge(int piece, double side) const { return (piece + side - sum) / factor; }
};

Grid grid_between(const Limits& limits) {
  constexpr double kHalf = 0.499;  // a little less, so that limits round to the first and the last piece
  Grid best;
  for (int sum = -4 * kPieces; sum < 5 * kPieces; ++sum) {
    // limits.low * factor + sum >= -kHalf, limits.high * factor + sum <= kPieces - 1 + kHalf
    double least = 0, most = 1e30;
    const auto bound = [&](double t, double left) {  // t * factor <= left
      if (t > 0) most = std::min(most, left / t);
      if (t < 0) least = std::max(least, left / t);
      if (t == 0 && left < 0) most = -1;
    };
    bound(-limits.low, sum + kHalf);
    bound(limits.high, kPieces - 1 + kHalf - sum);
    if (least <= most && most > best.factor) best = {most, sum};
  }
  return best;
}

// The parabola that meets f where a Chebyshev polynomial is 0: near the one of the least greatest error.
std::array<double, 3> parabola(const Steps& f, double left, double right) {
  const double middle = (left + right) / 2, reach = (right - left) / 2 * std::cos(M_PI / 6);
  const double a = f(middle - reach), b = f(middle), c = f(middle + reach);
  const double slope = (c - a) / (2 * reach), bend = (c - 2 * b + a) / (2 * reach * reach);
  return {b + middle * (middle * bend - slope), slope - 2 * bend * middle, bend};
}

// What append_to() writes, without the limits of the integers.
float value_of(const QuantizedFunction& function, float t) {
  const std::vector<float>& table = function.table;
  t = std::min(std::max(t, table[kLow]), table[kHigh]);
  const float place = function.has_straight_end ? std::min(t, table[kStraight]) : t;
  const float shifted = std::fma(place, table[kFactor], table[kSum]);
  const auto piece = static_cast<size_t>(static_cast<int32_t>(shifted - kRounding) & (kPieces - 1));
  const float upper = std::fma(t, table[piece + 2 * kPieces], table[piece + kPieces]);
  return std::fma(t, upper, table[piece]);
}

// The straight line that f is from some place on: the place, and the line's coefficients.
struct StraightEnd {
  double from = 0;
  std::array<double, 3> line{};
};

StraightEnd straight_end(const Steps& f, const Limits& limits) {
  StraightEnd end{limits.high, {}};
  const double reach = limits.high - limits.low, near = limits.high - reach / 16;
  const double slope = (f(limits.high) - f(near)) / (limits.high - near);
  end.line = {f(near) - slope * near, slope, 0};
  constexpr int kPlaces = 1024;
  for (int k = 0; k < kPlaces; ++k) {
    const double t = limits.high - reach * k / kPlaces;
    if (std::abs(end.line[0] + slope * t - f(t)) > QuantizedFunction::kMostError / 2) break;
    end.from = t;
  }
  return end;
}

// Pieces of equal width up to the higher limit, or to where a straight line, the last piece, begins.
void make_pieces(const Steps& f, const Limits& limits, const StraightEnd* end, QuantizedFunction* function) {
  Limits bent = limits;
  if (end != nullptr) bent.high = end->from + (end->from - limits.low) / (kPieces - 2);
  const Grid grid = grid_between(bent);
  std::vector<float>& table = function->table;
  table.assign(kStraight + 1, 0);
  if (!(grid.factor > 0)) return;  // near nothing
  for (int piece = 0; piece < kPieces; ++piece) {
    std::array<double, 3> c{};
    if (end != nullptr && piece == kPieces - 1) {
      c = end->line;
    } else {
      c = parabola(f, std::max(grid.edge(piece, -0.5), limits.low), std::min(grid.edge(piece, 0.5), limits.high));
    }
    auto place = static_cast<size_t>(piece);
    for (const double coefficient : c) {
      table[place] = static_cast<float>(coefficient);
      place += kPieces;
    }
  }
  table[kLow] = static_cast<float>(limits.low);
  table[kHigh] = static_cast<float>(limits.high);
  table[kFactor] = static_cast<float>(grid.factor);
  table[kSum] = kRounding + static_cast<float>(grid.sum);
  table[kStraight] = static_cast<float>(bent.high);
  function->has_straight_end = end != nullptr;
}

// Whether it is near enough everywhere: between the limits at 64 places of each piece, beyond them at all magnitudes.
bool is_near(const std::function<double(double)>& limited, const Limits& limits, QuantizedFunction* function) {
  std::vector<double> places = points_to_zero(-1);
  const std::vector<double> others = points_to_zero(1);
  places.insert(places.end(), others.begin(), others.end());
  for (int k = 0; k <= 64 * kPieces; ++k)
    places.push_back(limits.low + (limits.high - limits.low) * k / (64.0 * kPieces));
  function->exceeds_limits = false;
  for (const double place : places) {
    const auto t = static_cast<float>(place);
    const double value = value_of(*function, t);
    if (!(std::abs(std::clamp(value, function->least, function->most) - limited(t)) <= QuantizedFunction::kMostError))
      return false;
    function->exceeds_limits =
        function->exceeds_limits || value < function->least - 0.4 || value > function->most + 0.4;
  }
  return true;
}

// Whether a value is a number far from the limits of float32, given the ones that are.
bool stays_number(const Graph& graph, const Node& node, const std::set<ValueId>& numbers) {
  const auto is_small = [](const graph::Constant* constant) {
    if (constant == nullptr) return false;
    const std::vector<double> values = constant->to_doubles();
    return std::all_of(values.begin(), values.end(), [](double value) { return std::abs(value) < 0x1p64; });
  };
  if (node.op == "DequantizeLinear")
    return dtype_bits(graph.type(node.inputs[0]).dtype) <= 16 && is_small(graph.constant(node.inputs[1]));
  return node.op == "Add" && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
           return numbers.contains(input) || is_small(graph.constant(input));
         });
}

}  // namespace

bool QuantizedFunction::pays_on(const tir::Target& target) { return target.float_table >= kPieces; }

std::optional<QuantizedFunction> fit_quantized_function(const Graph& graph, const std::vector<NodeId>& nodes,
                                                        ValueId seed) {
  if (nodes.size() < 2 || graph.node(nodes.back()).op != "QuantizeLinear") return std::nullopt;
  const DType type = graph.type(graph.node(nodes.back()).outputs[0]).dtype;
  if ((type != DType::kI8 && type != DType::kU8) || graph.type(seed).dtype != DType::kF32) return std::nullopt;
  QuantizedFunction result;
  result.argument = seed;
  std::set<ValueId> numbers = {seed};
  std::optional<Steps> steps;
  while (!(steps = Steps::of(graph, nodes, result.first, result.argument))) {
    if (result.first + 2 >= nodes.size()) return std::nullopt;
    const Node& node = graph.node(nodes[result.first++]);
    if (!stays_number(graph, node, numbers)) return std::nullopt;
    result.argument = node.outputs[0];
    numbers.insert(result.argument);
  }
  result.least = type == DType::kI8 ? -128 : 0;
  result.most = result.least + 255;
  const auto limited = [&](double t) { return std::clamp((*steps)(t), result.least, result.most); };
  const auto limits = limits_of(limited);
  if (!limits) return std::nullopt;
  make_pieces(*steps, *limits, nullptr, &result);
  if (is_near(limited, *limits, &result)) return result;
  const StraightEnd end = straight_end(*steps, *limits);
  make_pieces(*steps, *limits, &end, &result);
  if (is_near(limited, *limits, &result)) return result;
  return std::nullopt;
}

void QuantizedFunction::append_to(ExpressionFunction* function, const Expression& t, const std::string& table_name,
                                  DType type) const {
  const auto let = [&](std::string name, Expression value) {
    function->statements.push_back({name, std::move(value)});
    return Expression::atom(std::move(name));
  };
  const auto one = [&](int place) {
    return Expression::call("vbcast",
                            {Expression::atom(fmt::format("{}[{}]", table_name, place)), Expression::atom("lanes=VL")});
  };
  const auto bits = [](const Expression& x) {
    return Expression::call("reinterpret", {x, Expression::atom("f\"int32x{VL}\"")});
  };
  const Expression bounded = let("bounded", Expression::call("clip", {t, one(kLow), one(kHigh)}));
  const Expression place = has_straight_end ? Expression::call("min", {bounded, one(kStraight)}) : bounded;
  const Expression shifted = let("shifted", Expression::call("fma", {one(kSum), place, one(kFactor)}));
  const Expression piece = let("piece", bits(shifted) & elementwise::Writer::constant(kPieces - 1, DType::kI32));
  const auto coefficient = [&](int power) {
    return Expression::call("vload_gather", {Expression::atom(fmt::format("{} + {}", table_name, power * kPieces)),
                                             piece, Expression::atom(fmt::format("entries={}", kPieces))});
  };
  const Expression upper = let("upper", Expression::call("fma", {coefficient(1), bounded, coefficient(2)}));
  Expression value = Expression::call("fma", {coefficient(0), bounded, upper});
  if (exceeds_limits) {
    value = Expression::call(
        "min", {Expression::call("max", {std::move(value), elementwise::Writer::constant(least, DType::kF32)}),
                elementwise::Writer::constant(most, DType::kF32)});
  }
  // The low bits of the sum are the integer, ties to even.
  const Expression sum = let("sum", std::move(value) + elementwise::Writer::constant(kRounding, DType::kF32));
  function->result = Expression::call("cast", {bits(sum), Expression::atom(fmt::format("\"{}\"", dtype_name(type)))});
}

}  // namespace aipu::kernels
