// eliminate_dead_nodes: what no output needs goes.
//
//   x ─ Relu ─ y (output)          x ─ Relu ─ y (output)
//    └─ Shape ─ s (unused)    =>
//
// Values that sub-graphs capture but do not use are dropped from both sides; captured constants become constants of the
// sub-graph.
#include "graph/passes/passes.h"

namespace aipu::graph {
namespace {

int trim_captures(Graph& graph, NodeId id) {
  const Node& node = std::as_const(graph).node(id);
  int changes = 0;
  // Captured values of all sub-graphs stand at the end of the inputs, first sub-graph first.
  size_t total = 0;
  for (const auto& subgraph : node.subgraphs) total += static_cast<size_t>(subgraph->captured_count);
  if (total > node.inputs.size()) return 0;
  size_t at = node.inputs.size() - total;
  std::vector<size_t> gone;
  for (const auto& subgraph : node.subgraphs) {
    const size_t formal = subgraph->inputs().size() - static_cast<size_t>(subgraph->captured_count);
    std::vector<ValueId> captured(subgraph->inputs().begin() + static_cast<std::ptrdiff_t>(formal),
                                  subgraph->inputs().end());
    for (const ValueId inner : captured) {
      const ValueId outer = node.inputs[at];
      if (const ConstantPtr constant = graph.value(outer).constant;
          constant != nullptr && subgraph->user_count(inner) != 0) {
        const ValueId local = subgraph->add_constant(constant, graph.value(outer).name);
        if (subgraph->replace_uses(inner, local).ok()) ++changes;
      }
      if (subgraph->user_count(inner) == 0 && subgraph->erase_captured_input(inner)) {
        gone.push_back(at);
        ++changes;
      }
      ++at;
    }
  }
  if (!gone.empty()) {
    std::vector<ValueId>& inputs = graph.node(id).inputs;
    for (size_t k = gone.size(); k-- > 0;) inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(gone[k]));
  }
  return changes;
}

}  // namespace

Result<int> eliminate_dead_nodes(Graph& graph, PassContext&) {
  int changes = 0;
  for (size_t index = 0; index < graph.node_count(); ++index) {
    const NodeId id{static_cast<int32_t>(index)};
    const Node& node = std::as_const(graph).node(id);
    if (!node.erased && !node.subgraphs.empty()) changes += trim_captures(graph, id);
  }
  return changes + static_cast<int>(graph.erase_dead_nodes());
}

}  // namespace aipu::graph
