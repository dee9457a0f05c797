// Traits of ops (OpTrait in op_def.h) that say what they may compute with.
#pragma once

#include "graph/ir/op_def.h"

namespace aipu::graph {

// Output 0 sums products of elements of inputs 0 and 1. Of bfloat16 they are summed in float32.
constexpr uint32_t kSumsProducts = 1u << 7;
// Floats of 16 bits are computed with in float32 and rounded where they are stored, as elementwise ops do.
constexpr uint32_t kFloatInside = 1u << 8;

}  // namespace aipu::graph
