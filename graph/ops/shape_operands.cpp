#include "graph/ops/shape_operands.h"

#include <algorithm>

namespace aipu::graph {

Status resolve_operands(Graph& graph, NodeId node) {
  const OpDef* def = graph.find_op(graph.node(node).op);
  if (def == nullptr || def->resolve == nullptr) return {};
  return def->resolve(graph, node);
}

std::function<Status(Graph&, NodeId)> resolve_with(std::vector<size_t> operands, Normalise normalise) {
  return [operands = std::move(operands), normalise = std::move(normalise)](Graph& graph, NodeId id) -> Status {
    const auto present = [&](size_t i) {
      const auto& inputs = graph.node(id).inputs;
      return i < inputs.size() && inputs[i].valid();
    };
    if (std::none_of(operands.begin(), operands.end(), present)) return {};
    Attributes attributes = graph.node(id).attributes;
    InferContext ctx(graph, graph.node(id));
    AIPU_ASSIGN_OR_RETURN(const bool resolved, normalise(ctx, &attributes));
    if (!resolved) return {};
    Node& node = graph.node(id);
    node.attributes = std::move(attributes);
    for (const size_t i : operands) {
      if (i < node.inputs.size()) node.inputs[i] = ValueId();
    }
    while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
    return {};
  };
}

}  // namespace aipu::graph
