#include "kernels/parts/elementwise_expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "graph/ir/op_def.h"
#include "kernels/parts/bounded_expression.h"
#include "kernels/parts/elementwise_rows.h"

namespace aipu::kernels {

using namespace elementwise;
using graph::NodeId;

namespace {

constexpr size_t kMaxFusedNodes = 24;
constexpr size_t kMaxFusedOperands = 12;

}  // namespace

bool is_elementwise_expression(const Graph& graph, const Node& node) {
  return user_value(graph, node) != nullptr || row_of(node) != nullptr;
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

// Values that are float32 of less than 2^100 and never NaN, as long as few are added: a seed that is, what is made of
// bytes by a scale that is a constant, and their sums and larger ones.
class BoundedValues {
 public:
  BoundedValues(const Graph& graph, const std::vector<NodeId>& nodes, ValueId seed) : graph_(graph) {
    bounded_.insert(seed);
    for (const NodeId id : nodes) {
      const Node& node = graph.node(id);
      if (node.op == "DequantizeLinear") dequantized_.insert(node.inputs[0]);
      hides_zeros_ = hides_zeros_ && (is_sum(node) || node.op == "DequantizeLinear" || node.op == "QuantizeLinear");
    }
    hides_zeros_ = hides_zeros_ && !nodes.empty() && graph.node(nodes.back()).op == "QuantizeLinear";
  }
  void add(const Node& node) {
    bool is_bounded = false;
    if (node.op == "DequantizeLinear") {
      const graph::Constant* scale = graph_.constant(node.inputs[1]);
      is_bounded = scale != nullptr && graph_.type(node.outputs[0]).dtype == DType::kF32 &&
                   dtype_bits(graph_.type(node.inputs[0]).dtype) <= 16;
      if (is_bounded)
        for (const double factor : scale->to_doubles()) is_bounded = is_bounded && std::abs(factor) < 0x1p64;
    } else if (is_sum(node)) {
      is_bounded = std::all_of(node.inputs.begin(), node.inputs.end(),
                               [&](ValueId input) { return input.valid() && bounded_.count(input) > 0; });
    }
    if (is_bounded) bounded_.insert(node.outputs[0]);
  }
  // Whether a QuantizeLinear may convert at once: see Writer::converts.
  bool converts(const Node& node) const {
    return bounded_.count(node.inputs[0]) > 0 && dequantized_.count(node.outputs[0]) == 0;
  }
  // And whether it may round without a sum: see Writer::rounds.
  bool rounds(const Node& node) const {
    return hides_zeros_ && bounded_.count(node.inputs[0]) > 0 && dequantized_.count(node.outputs[0]) > 0;
  }

 private:
  static bool is_sum(const Node& node) {
    const elementwise::Row* row = elementwise::row_of(node);
    return row != nullptr && row->is_sum;
  }

  const Graph& graph_;
  std::set<ValueId> bounded_, dequantized_;
  bool hides_zeros_ = true;  // sums end as integers: nobody sees the sign of a zero
};

// How large values may be, by magnitude; those that have none are not known, or may be NaN.
class Magnitudes {
 public:
  Magnitudes(const Graph& graph, ValueId seed, std::optional<double> magnitude) : graph_(graph) {
    if (magnitude) known_[seed] = *magnitude;
  }
  void add(const Node& node) {
    if (known_.empty()) return;
    const auto x = of(node.inputs[0]);
    if (node.op == "DequantizeLinear") {
      const auto scale = number(node, 1);
      if (scale && dtype_bits(graph_.type(node.inputs[0]).dtype) == 8) known_[node.outputs[0]] = 255 * std::abs(*scale);
    } else if (node.op == "Add") {
      const auto y = of(node.inputs[1]);
      if (x && y) known_[node.outputs[0]] = *x + *y;
    } else if (node.op == "Relu" || node.op == "HardSwish") {
      if (x) known_[node.outputs[0]] = *x;
    } else if (node.op == "Clip" && node.inputs.size() == 3) {
      const auto low = number(node, 1), high = number(node, 2);
      if (x && low && high) known_[node.outputs[0]] = std::max({*x, std::abs(*low), std::abs(*high)});
    }
  }
  // Whether the node divides a number so that what it rounds is less than kMostPacked.
  bool packs(const Node& node) const {
    if (node.op != "QuantizeLinear" || dtype_bits(graph_.type(node.outputs[0]).dtype) != 8) return false;
    const auto x = of(node.inputs[0]), scale = number(node, 1);
    return x && scale && graph_.type(node.inputs[0]).dtype == DType::kF32 && *x < std::abs(*scale) * kMostPacked;
  }

 private:
  std::optional<double> of(ValueId value) const {
    const auto found = known_.find(value);
    return found != known_.end() ? std::optional(found->second) : std::nullopt;
  }
  // A constant of one element that the expression knows.
  std::optional<double> number(const Node& node, size_t i) const {
    const graph::Constant* constant = node.inputs[i].valid() ? graph_.constant(node.inputs[i]) : nullptr;
    if (constant == nullptr || constant->element_count() != 1 || !std::isfinite(constant->to_doubles()[0]))
      return std::nullopt;
    return constant->to_doubles()[0];
  }

  const Graph& graph_;
  std::map<ValueId, double> known_;
};

struct Fashion {
  bool numbers_in_source = false, seed_converts = false, in_pieces = false, has_fma = true;
  std::optional<double> magnitude = {};  // of the seed, where 8 bits are packed
};

// `packs`: as PackedExpression has it.
Result<FusedExpression> fuse(const Graph& graph, const std::vector<NodeId>& nodes, ValueId seed, const Fashion& fashion,
                             bool* packs = nullptr) {
  const auto [numbers_in_source, seed_converts, in_pieces, has_fma, magnitude] = fashion;
  FusedExpression fused;
  Magnitudes magnitudes(graph, seed, magnitude);
  BoundedValues bounded(graph, nodes, seed_converts ? seed : ValueId());
  std::map<ValueId, Expression> names;
  std::map<ValueId, Writer::Rounded> rounded;
  ExpressionFunction& function = fused.function;
  if (seed.valid()) {
    names[seed] = Expression::atom("v");
    function.parameters.emplace_back("v");
  }
  function.parameters.emplace_back("x");
  int serial = 0;
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    std::vector<Expression> operands;
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
        operands.push_back(Expression::atom(number_name(&fused, number_of(*constant))));
        continue;
      }
      if (literal && !(dtype_bits(constant->dtype()) == 64 && is_integer(constant->dtype()))) {
        operands.push_back(Writer::constant(constant->to_doubles()[0], compute_dtype(constant->dtype())));
        continue;
      }
      if (literal) {
        operands.push_back(Writer::vector_of(std::to_string(constant->to_int64s()[0]), constant->dtype()));
        continue;
      }
      names[input] = Expression::atom(fmt::format("x[{}]", fused.operands.size()));
      fused.operands.push_back(input);
      operands.push_back(names[input]);
    }
    const std::string name = fmt::format("t{}", serial);
    names[node.outputs[0]] = Expression::atom(name);
    fused.result = node.outputs[0];
    if (user_value(graph, node) != nullptr) {
      AIPU_ASSIGN_OR_RETURN(Expression value,
                            user_expression(graph, node, operands, fmt::format("user{}", serial++), &fused.functions));
      function.statements.push_back({name, std::move(value)});
      continue;
    }
    const Row* row = row_of(node);
    if (row == nullptr) return internal_error(fmt::format("no elementwise row for {}", node.op));
    const bool may_look_up =
        in_pieces && row->in_pieces && compute_dtype(graph.type(node.inputs[0]).dtype) == DType::kF32;
    if (const std::string_view pieces = may_look_up ? row->in_pieces(node) : ""; !pieces.empty()) {
      fused.functions.functions.try_emplace(std::string(pieces), built_in_file_function("pieces.py", pieces));
      function.statements.push_back({name, Expression::call_own(pieces, std::move(operands))});
      fused.looks_up = true;
      bounded.add(node);
      ++serial;
      continue;
    }
    Writer writer(graph, node, std::move(operands), numbers_in_source ? nullptr : &fused);
    writer.prefix = fmt::format("u{}", serial);
    writer.rounded = &rounded;
    writer.has_fma = has_fma;
    writer.converts = seed_converts && node.op == "QuantizeLinear" && bounded.converts(node);
    writer.rounds = seed_converts && node.op == "QuantizeLinear" && bounded.rounds(node);
    bounded.add(node);
    writer.tables = &fused.tables;
    writer.is_stored = id == nodes.back();
    writer.packs = id == nodes.back() && (magnitudes.packs(node) || (magnitude && node.op == "aipu::ByteFunction")) &&
                   (node.inputs.size() == 1 || is_literal(node, 1, graph.constant(node.inputs[1])));
    if (packs != nullptr) *packs = writer.packs;
    magnitudes.add(node);
    writer.first_fault = fused.faults.size();
    Expression expression = row->write(writer);
    if (!writer.error.empty()) return invalid_model(str_cat(graph::origins_text(node.origins), ": ", writer.error));
    for (std::string& message : writer.faults) fused.faults.push_back({std::move(message), id});
    if (writer.shifted) {
      rounded[node.outputs[0]] = {writer.shifted, writer.zero_text(), writer.low_byte, writer.shifted_is_number};
    }
    std::move(writer.statements.begin(), writer.statements.end(), std::back_inserter(function.statements));
    ++serial;
    function.statements.push_back({name, std::move(expression)});
  }
  std::vector<ExpressionFunction::Statement> arguments;
  size_t place = fused.operands.size();
  for (size_t k = 0; k < fused.tables.size(); ++k)
    arguments.push_back({fmt::format("table{}", k), Expression::atom(fmt::format("x[{}]", place++))});
  for (size_t k = 0; k < fused.numbers.size(); ++k)
    arguments.push_back({fmt::format("c{}", k), Expression::atom(fmt::format("x[{}]", place++))});
  function.statements.insert(function.statements.begin(), arguments.begin(), arguments.end());
  if (!fused.faults.empty()) function.parameters.emplace_back("active");
  function.result = names[fused.result];
  return fused;
}

}  // namespace

Result<FusedExpression> fuse_expression(const Graph& graph, const std::vector<NodeId>& nodes, ValueId seed,
                                        bool numbers_in_source, bool in_pieces, bool has_fma) {
  return fuse(graph, nodes, seed, {.numbers_in_source = numbers_in_source, .in_pieces = in_pieces, .has_fma = has_fma});
}

Result<FusedExpression> fuse_bounded_expression(const Graph& graph, const std::vector<NodeId>& nodes, ValueId seed,
                                                bool numbers_in_source, bool has_fma) {
  return fuse(graph, nodes, seed, {.numbers_in_source = numbers_in_source, .seed_converts = true, .has_fma = has_fma});
}

Result<PackedExpression> fuse_packed_expression(const Graph& graph, const std::vector<NodeId>& nodes, ValueId seed,
                                                double magnitude, bool numbers_in_source, bool in_pieces) {
  const Fashion fashion{.numbers_in_source = numbers_in_source, .in_pieces = in_pieces, .magnitude = magnitude};
  PackedExpression packed;
  AIPU_ASSIGN_OR_RETURN(packed.fused, fuse(graph, nodes, seed, fashion, &packed.packs));
  return packed;
}

bool elementwise_reports(const Graph& graph, NodeId node) {
  if (!graph::may_fault(graph, graph.node(node))) return false;
  const auto fused = fuse_expression(graph, {node});
  return !fused.ok() || !fused->faults.empty();
}

bool leaves_group(const Graph& graph, ValueId value, std::span<const NodeId> group) {
  const std::vector<NodeId> users = graph.users(value);
  return graph.is_graph_output(value) || users.empty() || std::any_of(users.begin(), users.end(), [&](NodeId user) {
           return std::find(group.begin(), group.end(), user) == group.end();
         });
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
  const auto escapes = [&](ValueId value) { return leaves_group(graph, value, group); };
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
