// The C of kernels and of whole translation units, in the dialect of their target: that of native_c for hosts,
// Compass C for Compass NPUs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/targets/target.h"
#include "codegen/tir/on_chip_memory.h"
#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

struct KernelSource {
  std::string symbol;  // unique in the module
  Module lowered;
  // For Compass NPUs: what the text shows (compass_c_module()). Without it, that of `lowered`.
  std::optional<Module> shown = {};
  std::vector<std::string> disabled_passes = {};  // of the text
};
// With all that the target needs; fails where the passes do.
Result<KernelSource> kernel_source(std::string symbol, const Module& parsed, Module lowered, const Target& target,
                                   std::vector<std::string> disabled_passes = {});

// What a launch needs; the ABI's aipu_kernel_info.
struct LaunchNeeds {
  OnChipMemory memory;
  bool uses_barrier = false;
  bool uses_context = false;  // the prelude's __tec must be set
  bool reports_faults = false;
};
LaunchNeeds launch_needs(const Module& module);
// Fails where it can be printed, but not run: more memory than a core has, the vendor's fixed-function unit.
Status check_runs(const Module& module, const LaunchNeeds& needs, const Target& target);

// One kernel with its ABI wrapper: a function `aipu_entry_<symbol>` of type aipu_kernel_entry, hidden from other
// modules, and what its row in the module table says.
struct KernelText {
  std::string c;
  std::string entry;      // the wrapper's name
  std::string table_row;  // an initializer of aipu_kernel_info
  bool reports_faults = false;
};
std::string table_row(std::string_view symbol, std::string_view entry, size_t arguments, const LaunchNeeds& needs);

// `line_marks`: with #line directives, so that a compiler's message names the line of the kernel's file. What is
// compiled has none: it, and its place in the cache, do not depend on where a kernel stands.
Result<KernelText> print_kernel(const KernelSource& kernel, const Target& target, bool line_marks = false);

// Joins the C of several kernels into one translation unit with the module table (kernel_abi.h).
Result<std::string> print_translation_unit(std::span<const KernelSource> kernels, const Target& target);

// The row list with `aipu_kernel_module_v1`; `declare` when the wrappers are in other translation units.
std::string print_module_table(std::span<const KernelText> kernels, bool declare);

// What all units of a target include as <compass/dsl.h>: types, intrinsics, memory, the math functions.
std::string prelude(const Target& target);
// What all units start with: that include.
std::string unit_header();

}  // namespace aipu::tir
