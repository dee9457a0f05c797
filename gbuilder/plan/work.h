// How much arithmetic a group of nodes is, for profiles.
#pragma once

#include "graph/ir/graph.h"
#include "graph/partition/claim.h"

namespace aipu::gbuilder {

// Operations (two per multiply-add) of the convolutions, matrix products and recurrent layers of the group by their
// definition, padding taps counted; 0 for everything else, which memory bounds.
graph::Dim arithmetic_operations(const graph::Graph& graph, const graph::Group& group);

}  // namespace aipu::gbuilder
