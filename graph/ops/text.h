// Ops that look into strings. Strings are held as numbers (runtime/base/stored_type.h): tensors of them are strings
// before lower_stored_types and int64 behind it. There is no kernel for such an op: a command of the host hands it to
// the library of texts, whose operations (runtime/text/text_api.h) have the ops' names and take their attributes that
// are texts and integers, in the order of the record. Ops on encoded images are handed to their library in the same
// way.
#pragma once

#include <vector>

#include "graph/ir/op_def.h"

namespace aipu::graph {

std::vector<OpDef> text_ops();
// kOfTexts or kOfImages.
bool is_of_library(const Graph& graph, const Node& node);

}  // namespace aipu::graph
