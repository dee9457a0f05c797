// parse_kernel() for who schedules the blocks of a kernel.
#pragma once

#include "codegen/tir/block_marks.h"
#include "kernels/dsl/environment.h"

namespace aipu::dsl {

// The TIR of a function that an embedder has parsed, and in `marks` what its schedulable blocks are there.
Result<tir::Module> parse_blocks(const CapturedFunction& entry, tir::BlockMarks* marks);

}  // namespace aipu::dsl
