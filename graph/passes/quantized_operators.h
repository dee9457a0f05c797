// Private to integer_arithmetic and unsigned_bytes.
#pragma once

#include "graph/ir/graph.h"

namespace aipu::graph {

// ONNX Runtime's quantised operators of the domain com.microsoft become the float operator between DequantizeLinear and
// QuantizeLinear; returns how many.
Result<int> expand_quantized_operators(Graph& graph);

// How many leading operands of the op carry data that it only moves, or chooses from by size; 0: not such an op.
size_t moved_operands(const Node& node);

// ConvTranspose of bytes by constant bytes whose windows lie side by side (kernel = stride) becomes a 1x1 Conv with the
// weights of all phases, and DepthToSpace; returns how many. Others stay in float32.
Result<int> transposed_convolutions_as_products(Graph& graph);

}  // namespace aipu::graph
