// The C of whole kernels and translation units, for the compiler driver.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "codegen/native_c/function_printer.h"

namespace aipu::tir {

// One kernel in the host dialect with its ABI wrapper: a function `aipu_entry_<symbol>` of type aipu_kernel_entry,
// hidden from other modules, and what its row in the module table says.
struct KernelText {
  std::string c;
  std::string entry;      // the wrapper's name
  std::string table_row;  // an initializer of aipu_kernel_info
  bool reports_faults = false;
};
// `line_marks`: with #line directives, so that a compiler's message names the line of the kernel's file. What is
// compiled has none: it, and its place in the cache, do not depend on where a kernel stands.
Result<KernelText> print_kernel(const KernelSource& kernel, const Target& target, bool line_marks = false);

// The row list with `aipu_kernel_module_v1`; `declare` when the wrappers are in other translation units.
std::string print_module_table(std::span<const KernelText> kernels, bool declare);

// What all units start with: the include of the prelude, or of the ABI header alone.
std::string unit_header();
std::string_view kernel_abi_text();

}  // namespace aipu::tir
