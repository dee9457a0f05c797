// S.printf (language.md 11.1).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "codegen/intrinsics/lanes.h"

namespace aipu::tir {

// Specifiers against argument types; the phrases of the language.
Status check_print_format(std::string_view format, std::span<const Type> arguments);

// `strings[i]` is the text of argument i where it is a string literal.
std::string format_print(std::string_view format, std::span<const LaneRef> arguments,
                         std::span<const std::string_view> strings, MachineState& machine);

}  // namespace aipu::tir
