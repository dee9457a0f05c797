// A value that can be read where it lies in the memory of one before it: what Transposes, Reshapes, Splits, Slices and
// Gathers of one index make of a contiguous tensor, as an offset and strides.
#pragma once

#include <optional>
#include <vector>

#include "graph/ir/graph.h"

namespace aipu::kernels {

// Strides and offset count elements.
struct StridedView {
  graph::Shape shape;
  std::vector<graph::Dim> strides;
  graph::Dim offset = 0;
};

StridedView whole_view(const graph::Shape& shape);

// What `output` of a node is, of whose first input `view` is where it lies; nullopt if the node does more than move
// elements, or if they are no strides away.
std::optional<StridedView> view_behind(const graph::Graph& graph, const graph::Node& node, graph::ValueId output,
                                       const StridedView& view);

}  // namespace aipu::kernels
