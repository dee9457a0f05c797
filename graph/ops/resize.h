// What is known of a Resize before its node is there.
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace aipu::graph {

// Whether the output extents of a Resize of x (in NCHW order) follow from the operand `scales`, one for each of `axes`:
// it is a constant, or computed from extents by exact fractions.
bool resize_scales_known(const Graph& graph, ValueId x, ValueId scales, const std::vector<size_t>& axes);

}  // namespace aipu::graph
