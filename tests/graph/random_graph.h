// Small random graphs with inputs for them, for tests that compare what a graph computes before and after a rewrite.
//
// A graph has one to three inputs of rank 0 to 5 with extents of 0 to 3 (some symbolic), a few dozen nodes of all
// families at most, and outputs that need not be computed (an input, a constant, a value twice). Ops are tried on
// whatever values there are: a type rule that refuses one leaves it out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/ir/graph.h"

namespace aipu::graph {

struct RandomGraph {
  std::unique_ptr<Graph> graph;
  std::vector<ConstantPtr> inputs;
  // Computed without any rounding, as all numbers are small multiples of powers of two: then every order of summation
  // gives the same bits. Otherwise nothing in the graph jumps, so that small differences stay small.
  bool is_dyadic = false;
};

// The same seed gives the same graph.
RandomGraph random_graph(uint64_t seed);

}  // namespace aipu::graph
