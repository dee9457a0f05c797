// What rewrites are written with: looking at producers, replacing nodes, and building Transposes and Reshapes that
// vanish where they can.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace aipu::graph {

using Permutation = std::vector<int64_t>;  // of Transpose: output axis k is input axis perm[k]

// ---- looking

// The producer of `value` if its op is `op`; invalid otherwise.
NodeId producer_with_op(const Graph& graph, ValueId value, std::string_view op);
bool used_once(const Graph& graph, ValueId value);  // by one node, and not given out
// The value of every element, if they are all the same number (as a double, exactly).
std::optional<double> splat_of(const Graph& graph, ValueId value);
// A constant that broadcasts to a tensor of that rank as one number for each of the channels, or one for all.
std::optional<std::vector<double>> per_channel(const Graph& graph, ValueId value, size_t rank, size_t axis,
                                               size_t channels);
// With extents of 1 put in front until the rank is `rank`.
Shape padded_shape(const Shape& shape, size_t rank);

// ---- permutations

Permutation inverse(const Permutation& perm);
Permutation compose(const Permutation& first, const Permutation& second);  // Transpose(first), then Transpose(second)
bool is_identity(const Permutation& perm);
Shape permuted(const Shape& shape, const Permutation& perm);
// Whether transposing leaves all bytes where they are: only extents of 1 move.
bool moves_no_bytes(const Shape& shape, const Permutation& perm);

// ---- constants

ConstantPtr transpose_constant(const Constant& constant, const Permutation& perm);
ConstantPtr reshape_constant(const ConstantPtr& constant, std::vector<int64_t> shape);  // shares the bytes
// A floating constant of `dtype` from doubles.
ConstantPtr float_constant(DType dtype, std::vector<int64_t> shape, const std::vector<double>& elements);

// ---- building

// The value reshaped: itself, a constant, or a Reshape node with attribute `shape`.
Result<ValueId> reshaped(Graph& graph, ValueId value, const Shape& shape, const OriginSet& origins);
// The value transposed: itself, a constant, a Reshape where no bytes move, or a Transpose node.
Result<ValueId> transposed(Graph& graph, ValueId value, const Permutation& perm, const OriginSet& origins);

// ---- replacing

// All uses of the node's first output now use `by`; the node's origins are added to the producer of `by`; the node is
// erased if none of its outputs is used.
Status replace_node(Graph& graph, NodeId node, ValueId by);

}  // namespace aipu::graph
