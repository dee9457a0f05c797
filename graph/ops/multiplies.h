// What a MatMul or Conv may multiply.
#pragma once

#include <string_view>

#include "graph/ir/graph.h"

namespace aipu::graph {

// An attribute of a MatMul or Conv of float32 numbers: the type (a DType) that its operands may be rounded to where
// that is faster. Types and sums stay float32; who does not know the attribute multiplies the operands as they are.
constexpr std::string_view kMultiplies = "multiplies";

// Whether such a product may multiply its operands as numbers of another type.
inline bool may_multiply(const Node& node, DType type) {
  return node.attributes.has(kMultiplies) && node.attributes.dtype(kMultiplies) == type;
}

}  // namespace aipu::graph
