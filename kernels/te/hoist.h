// What a loop computes again and again, computed before it. Private to kernels/te.
#pragma once

#include "codegen/tir/stmt.h"

namespace aipu::te {

// A serial loop, with vectors before it of which all lanes are an element of private memory that the loop reads and
// never writes: such as the mean that a normalisation subtracts. An NPU's compiler is not asked to find them.
tir::Stmt hoist_broadcasts(const tir::Stmt& loop);

}  // namespace aipu::te
