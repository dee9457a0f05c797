// Epilogues of sums that are numbers: QuantizeLinear takes fewer instructions there.
#pragma once

#include <vector>

#include "kernels/parts/elementwise_expression.h"

namespace aipu::kernels {

// fuse_expression() of a seed that is a float32 of less than 2^96 and never NaN, for a target that has instructions to
// round and convert such numbers to integers, and to saturate these.
Result<FusedExpression> fuse_bounded_expression(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes,
                                                graph::ValueId seed, bool numbers_in_source, bool has_fma);

struct PackedExpression {
  FusedExpression fused;
  bool packs = false;  // the result is int32, which whoever stores it saturates to its type
};
// fuse_expression() of a seed of at most that magnitude (never NaN), for a target that narrows and saturates integers
// of several vectors at once: a last QuantizeLinear to 8 bits is left to that where what it rounds is known not to be
// large.
Result<PackedExpression> fuse_packed_expression(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes,
                                                graph::ValueId seed, double magnitude, bool numbers_in_source,
                                                bool in_pieces);

}  // namespace aipu::kernels
