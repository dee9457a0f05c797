// How wide a kernel computes positions.
//
// Index arithmetic is what a kernel does with scalar integers that come from its parameters: extents, strides,
// counters. Written with int32 it is right as long as no tensor comes near 2^31 elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"

namespace aipu::tir {

// The same kernel with its index arithmetic in 64 bits: int32 parameters, variables, loops and small private arrays of
// positions become int64. Parameters that only become lanes of vectors (zero points) keep their type, and so does what
// is loaded from tensors.
Module widen_indices(const Module& module);

// Some 32-bit arithmetic on run-time numbers, or a number that is cut to 32 bits, as text; empty: all index arithmetic
// has 64 bits. Errs towards 32 bits: what is loaded from memory counts as an index.
std::string find_narrow_index(const Module& module);

// Per parameter of the entry: how many bytes behind a pointer the kernel can address; 0: any number, or no pointer.
// See kNarrowIndexElements.
std::vector<uint64_t> addressable_bytes(const Module& module, const Target& target);

}  // namespace aipu::tir
