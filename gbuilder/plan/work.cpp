#include "gbuilder/plan/work.h"

#include "graph/ir/op_def.h"

namespace aipu::gbuilder {

using graph::Dim;

Dim arithmetic_operations(const graph::Graph& graph, const graph::Group& group) {
  Dim sum = 0;
  for (const graph::NodeId id : group.nodes) {
    const graph::Node& node = graph.node(id);
    const graph::OpDef* def = graph.find_op(node.op);
    if (def == nullptr || !def->multiply_adds || node.outputs.empty() || !node.outputs[0].valid()) continue;
    sum = sum + Dim(2) * def->multiply_adds(graph, node);
  }
  return sum;
}

}  // namespace aipu::gbuilder
