// Prints lowered TIR as C.
#pragma once

#include <string>

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// The text of <compass/dsl.h> for a target: types, intrinsics, memory, the math functions.
std::string prelude(const Target& target);

// Joins the C of several kernels (each made `static`, entry names unique) into one translation unit with ABI wrappers
// and the module table (kernel_abi.h).
struct KernelSource {
  std::string symbol;  // unique in the module
  Module lowered;
};
Result<std::string> print_translation_unit(std::span<const KernelSource> kernels, const Target& target);

}  // namespace aipu::tir
