// Other element types for products and for what lies between them: lower_precision, widen_halves.
//
// A node between is one that has a product before and a product behind it on some way, and computes the same whatever
// its floats are stored as. What only moves elements goes with its neighbours where these keep their type: a Cast
// between a Transpose and the op that reads it would keep that op's kernel from taking both.
#pragma once

#include <functional>
#include <string>

#include "graph/ir/graph.h"
#include "graph/ir/op_def.h"

namespace aipu::graph {

struct Retyping {
  std::string pass;                           // whose name the Casts bear
  DType from = DType::kF32;                   // of the floats of all nodes that may change
  std::function<DType(const Node&)> wanted;   // `from` where nothing changes
  std::function<bool(const Node&)> is_worth;  // of a sum of products that may: whether it shall
};

// Whether the elements of an op's results are elements of its operands, whatever their type.
bool only_moves(const OpDef& def);

// Returns how many nodes have changed.
Result<int> retype_products(Graph& graph, const Retyping& retyping);

}  // namespace aipu::graph
