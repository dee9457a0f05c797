// c_code for a C++ compiler: what a user reads is what can be compiled, behind a prelude.
#pragma once

#include <string>
#include <string_view>

#include "codegen/targets/target.h"

namespace aipu::tir {

// <compass/dsl.h> for the text of compass_c_text(): that of the C that is compiled (c_printer.h) with the types and the
// functions of Compass C on top.
std::string compass_prelude(const Target& target);

// The text with the one form that no prelude can give a meaning: in C++ `(int8)(1,2,...)` is a cast of the last number.
// It becomes `int8(1,2,...)`; everything else stays as it is, lines included.
std::string cxx_of_compass_c(std::string_view c_code);

}  // namespace aipu::tir
