// What type rules take for granted of extents where only the shapes of a run can tell: that two are equal, or that one
// is broadcast to the other.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace aipu::graph {

struct Assumption {
  Dim holds;            // 0: it does not
  std::string message;  // of the error then, in which {value} and {limit} stand for the extents
  Dim value, limit;
};

// Of a node whose types have been inferred. Kernels rely on them, so they are checked when a model runs.
std::vector<Assumption> assumptions_of(const Graph& graph, const Node& node);

}  // namespace aipu::graph
