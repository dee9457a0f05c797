// Groups of nodes that a run may leave out.
#pragma once

#include <span>

#include "graph/ir/graph.h"

namespace aipu::graph {

// What decides for all of the nodes together whether a run uses their results (needed() of each is the same): 0 if it
// does not. 1 where nothing does.
Dim needed_together(const Graph& graph, std::span<const NodeId> nodes);

}  // namespace aipu::graph
