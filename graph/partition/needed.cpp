#include "graph/partition/needed.h"

#include "graph/ir/op_def.h"

namespace aipu::graph {

Dim needed_together(const Graph& graph, std::span<const NodeId> nodes) {
  Dim first = nodes.empty() ? Dim(1) : needed(graph.node(nodes.front()));
  for (const NodeId id : nodes) {
    if (!(needed(graph.node(id)) == first)) return 1;
  }
  return first;
}

}  // namespace aipu::graph
