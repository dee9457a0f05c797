// c_code for a C++ compiler: what a user reads is what is compiled for Compass NPUs, behind a prelude.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/driver/kernel_text.h"
#include "codegen/targets/target.h"

namespace aipu::tir {

// <compass/dsl.h> for the text of compass_c_text(): that of the C that is compiled (c_printer.h) with the types and the
// functions of Compass C on top.
std::string compass_prelude(const Target& target);

// The text with the two forms that no prelude can give a meaning; everything else stays as it is, lines included:
//   (int8)(1,2,...)            int8(1,2,...)               in C++ a cast of the last number
//   __lsram half t[64];        __lsram half* t = __lsram_array<half>(0);   C++ knows no such memory; likewise __local.
//                              `array_offsets` has the places, in the order of the text
std::string cxx_of_compass_c(std::string_view c_code, const std::vector<int64_t>& array_offsets = {});

// One kernel with its ABI wrapper, as print_host_kernel() does it for hosts. Prints as those do, and says so in a
// comment, where a value of all lanes of an odd vector is needed and has no type in C.
Result<KernelText> print_compass_kernel(const KernelSource& kernel, const Target& target, bool line_marks = false);

}  // namespace aipu::tir
