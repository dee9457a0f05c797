// What type rules take for granted of extents: that two are equal where only the shapes of a run can tell.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace aipu::graph {

// "`what` must be `expected`, found `found`".
struct Assumption {
  Dim found, expected;
  std::string what;
};

// Of a node whose types have been inferred. Kernels rely on them, so they are checked when a model runs.
std::vector<Assumption> assumptions_of(const Graph& graph, const Node& node);

}  // namespace aipu::graph
