#pragma once

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// Vectors of any width become registers: afterwards the lanes of every vector are a power of two and fit
// target.vector_bits.
//  - A wide variable becomes several (x -> x_0, x_1, ...); one whose address is taken lives in private memory.
//  - A wide parameter becomes several; a wide result is stored through an added pointer parameter.
//  - Pointers to vectors that no register holds become pointers to scalars, with scaled indices.
//  - Elementwise intrinsics are repeated; reductions combine registers first; rearrangements of lanes take a register
//    where it is the right one, and go through private memory where not.
//  - Vectors of more than 64 registers, all alike, live in private memory; loops over registers work on them.
//  - A register with one meaningful lane is padded to two; loads and stores of it are masked. So is the end of a vector
//    of float32 that has half a register of 512 bits or more.
// Fails for intrinsics that are only defined on native vectors when the target's registers are narrower.
Result<Module> split_vectors(const Module& module, const Target& target);

constexpr size_t kMostUnrolledRegisters = 64;
// The same with another number in place of 64.
Result<Module> split_vectors(const Module& module, const Target& target, size_t most_unrolled);

}  // namespace aipu::tir
