// Epilogues of sums that are numbers: QuantizeLinear takes fewer instructions there.
#pragma once

#include <vector>

#include "kernels/parts/elementwise_expression.h"

namespace aipu::kernels {

// fuse_expression() of a seed that is a float32 of less than 2^96 and never NaN, for a target that has instructions to
// round and convert such numbers to integers, and to saturate these.
Result<FusedExpression> fuse_bounded_expression(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes,
                                                graph::ValueId seed, bool numbers_in_source);

}  // namespace aipu::kernels
