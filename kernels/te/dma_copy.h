// Loop nests that copy between memories, as transfers. Private to kernels/te.
#pragma once

#include <optional>
#include <vector>

#include "kernels/te/vector_loop.h"

namespace aipu::te {

// A nest of serial loops that only moves elements between global memory and that on the chip: rows of consecutive
// elements, at any distance. Bounds of its loops (`base + i < n`) make it shorter. Absent for all others.
// `context.analyzer` gets to know the loops of the nest.
std::optional<std::vector<tir::Stmt>> dma_copy(const For& loop, const VectorContext& context);

}  // namespace aipu::te
