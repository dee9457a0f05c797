// Axes that only a run knows: which axes of a tensor a list names, and what follows from it. Private to frontend/onnx.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend {

// The operand at `input` is there, and the compiler does not know its elements.
bool is_run_time(const OpContext& c, size_t input);

// int64[rank]: `elements` (one for each of `axes`, whose negative ones count from the end) at these axes, `otherwise`
// at the others. An axis that does not exist is an error of the run.
ValueId at_axes(OpContext& c, ValueId axes, int64_t rank, ValueId elements, int64_t otherwise);
// int64[rank]: 1 at the axes that are listed, 0 at the others.
ValueId axis_flags(OpContext& c, ValueId axes, int64_t rank);
// int64[count]: the axes whose flag is 0, in order. Fewer than `count` of them, as when an axis is listed twice, are an
// error of the run.
ValueId unflagged_axes(OpContext& c, ValueId flags, int64_t rank, int64_t count);
// x with the extents that an int64 list of static length has.
ValueId reshape_to(OpContext& c, ValueId x, ValueId extents);
// The one of `results`, which have one shape, that an axis known only to a run picks; negative ones count from `rank`.
ValueId of_axis(OpContext& c, const std::vector<ValueId>& results, ValueId axis, int64_t rank);
// The same for results of one rank and type whose shapes differ.
ValueId of_axis_with_shape(OpContext& c, const std::vector<ValueId>& results, ValueId axis, int64_t rank);
// How many axes a list names; fails unless its type says so.
int64_t listed_count(OpContext& c, ValueId axes);

}  // namespace aipu::frontend
