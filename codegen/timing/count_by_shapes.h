// What an instrumented kernel would count, without running it: from its numbers, whatever is in its tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codegen/timing/timing_model.h"

namespace aipu::tir {

// The counters for estimate(). `arguments`: those of the kernel without the counters; nullopt: a pointer, or a number
// that is not known. Scalar integers are computed as in a run; a loop whose turns count the same is taken once, or
// twice where it changes variables, and the rest follows. unsupported(): data decides how a loop or a branch goes.
Result<std::vector<int64_t>> count_by_shapes(const InstrumentedKernel& kernel, int tecs,
                                             std::span<const std::optional<int64_t>> arguments);

}  // namespace aipu::tir
