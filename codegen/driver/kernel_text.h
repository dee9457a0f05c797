// The C of kernels and of whole translation units, as the code generator of their target prints it
// (code_generator.h).
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
  // What the text shows (CodeGenerator::shown()). Without it, that of `lowered`.
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
  bool uses_tiles = false;    // the prelude's __tile_scope must be there while the kernel runs
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
// Words of a prelude, beside __hidden (not visible to other modules).
struct WrapperWords {
  std::string_view argument;  // a template: argument<T>(unsigned long long) is a parameter of type T from its word
  std::string_view context;   // a variable, the TEC's context
};
// `functions`, the text of a kernel whose entry is called `function` there, with the wrapper around that.
KernelText wrap_kernel(std::string_view symbol, std::string_view function, const Module& printed,
                       const LaunchNeeds& needs, std::string functions, const WrapperWords& words);
std::string table_row(std::string_view symbol, std::string_view entry, size_t arguments, const LaunchNeeds& needs);

// `line_marks`: with #line directives, so that a compiler's message names the line of the kernel's file. What is
// compiled has none: it, and its place in the cache, do not depend on where a kernel stands.
Result<KernelText> print_kernel(const KernelSource& kernel, const Target& target, bool line_marks = false);

// Joins the C of several kernels into one translation unit with the module table (kernel_abi.h).
Result<std::string> print_translation_unit(std::span<const KernelSource> kernels, const Target& target);

// The row list with `aipu_kernel_module_v1`; `declare` when the wrappers are in other translation units.
std::string print_module_table(std::span<const KernelText> kernels, bool declare);

// What all units start with: the include of the prelude.
std::string unit_header();

}  // namespace aipu::tir
