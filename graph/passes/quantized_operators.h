// Private to integer_arithmetic.
#pragma once

#include "graph/ir/graph.h"

namespace aipu::graph {

// ONNX Runtime's quantised operators of the domain com.microsoft become the float operator between DequantizeLinear and
// QuantizeLinear; returns how many.
Result<int> expand_quantized_operators(Graph& graph);

}  // namespace aipu::graph
