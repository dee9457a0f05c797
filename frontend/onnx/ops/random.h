// Random numbers of a node (graph/ops/generate.cpp). Private to frontend/onnx.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend {

// The seed of a node that has none: it follows from the name of its output.
int64_t seed_of_name(const OpContext& c);
// An integer as a seed has it.
int64_t as_seed(int64_t value);
// float64 numbers of [0, 1), as many as an int64 list says.
ValueId uniform_numbers(OpContext& c, int64_t seed, ValueId shape);

}  // namespace aipu::frontend
