// Private to integer_arithmetic.
#pragma once

#include "graph/ir/graph.h"

namespace aipu::graph {

// ONNX Runtime's quantised operators of the domain com.microsoft become the float operator between DequantizeLinear and
// QuantizeLinear; returns how many.
Result<int> expand_quantized_operators(Graph& graph);

// ConvTranspose of bytes by constant bytes whose windows lie side by side (kernel = stride) becomes a 1x1 Conv with the
// weights of all phases, and DepthToSpace; returns how many. Others stay in float32.
Result<int> transposed_convolutions_as_products(Graph& graph);

}  // namespace aipu::graph
