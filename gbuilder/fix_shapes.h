// --shape for Compass IR; the ONNX importer does this itself, before it infers shapes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

// Gives extents of inputs, by name and axis (-1: stays as it is), the values that are asked for. An error names the
// input that is not there, or has another shape.
Status fix_shapes(const std::map<std::string, std::vector<int64_t>>& shapes, graph::Graph* graph);

}  // namespace aipu::gbuilder
