// How an op runs on transposed operands: the knowledge shared by assign_layout and sink_transposes.
#pragma once

#include <optional>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {

// op(x...) = Transpose(op'(Transpose(x, perm)...), inverse of output_perms[k])
struct Relayout {
  enum class Operand : uint8_t {
    kKeep,       // as it is
    kPermuted,   // Transpose(operand, perm)
    kBroadcast,  // the same after padding with leading extents of 1; one element is kept as it is
  };
  Attributes attributes;
  std::vector<Operand> operands;          // per input
  std::vector<Permutation> output_perms;  // per output; identity where the order of the axes does not change
};

// `perm` belongs to the rank of input 0 (elementwise ops: of the output). Nullopt if the op depends on the order of its
// axes, or its shape-like operands have not been resolved.
std::optional<Relayout> relayout(const Graph& graph, const Node& node, const Permutation& perm);

// NCHW -> NHWC for a rank: 0, 2, 3, ..., 1.
Permutation to_channels_last(size_t rank);

// Whether a kBroadcast operand needs no transposition: it has one element.
bool has_one_element(const TensorType& type);

}  // namespace aipu::graph
