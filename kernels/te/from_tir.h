// Kernels of the DSL as functions of blocks.
#pragma once

#include "codegen/tir/block_marks.h"
#include "kernels/te/block.h"

namespace aipu::te {

// The entry of a module whose body is loops around schedulable blocks over buffers. Errors name the line of what is
// anything else.
Result<BlockFunction> block_function(const tir::Module& module, const tir::BlockMarks& marks);

}  // namespace aipu::te
