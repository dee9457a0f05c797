// Shape-like operands (shape, axes, starts, pads, repeats, sizes, k, ...) are inputs in ONNX, yet what kernels need
// from them is in the output's shape and a few numbers. OpDef::resolve moves them into attributes of normalised Dims or
// ints and drops the operand; the tensor then often is dead. The attribute of each op is listed in graph/ops/README.md.
#pragma once

#include <functional>
#include <vector>

#include "graph/ops/infer.h"

namespace aipu::graph {

// Resolves the node's shape-like operands if its op has such and they are known, or can be made known with run symbols.
// A node without any, or one whose operands have to stay (a Range over floats), is left alone. The output types do not
// change.
Status resolve_operands(Graph& graph, NodeId node);

// For op records: `normalise` adds attributes computed from the operands and returns true when `operands` may be
// dropped. Runs only while at least one of them is present.
using Normalise = std::function<Result<bool>(InferContext& ctx, Attributes* attributes)>;
std::function<Status(Graph&, NodeId)> resolve_with(std::vector<size_t> operands, Normalise normalise);

}  // namespace aipu::graph
