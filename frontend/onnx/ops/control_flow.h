// Emits If, Loop and Scan. Private to frontend/onnx.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend {

// The node, with an output for each result of its sub-graphs and one for their extents, of which some may only be known
// once it has run (graph/ops/control.cpp).
void emit_control_flow(OpContext& c, std::string_view op, Attributes attributes, const std::vector<ValueId>& inputs,
                       size_t results, std::vector<std::unique_ptr<Graph>> subgraphs);
// The same with results of these names instead of the ONNX node's outputs; what they are, none after an error.
std::vector<ValueId> emit_parts(OpContext& c, std::string_view op, Attributes attributes,
                                const std::vector<ValueId>& inputs, std::vector<std::string> names,
                                std::vector<std::unique_ptr<Graph>> subgraphs);

}  // namespace aipu::frontend
