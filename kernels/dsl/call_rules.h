// What a call is refused for beyond the type rule of its intrinsic: a target without the instruction, and, in programs
// that have to run on other implementations of the language too ("strict"), our extensions.
#pragma once

#include <string_view>

#include "codegen/tir/expr.h"
#include "runtime/base/status.h"

namespace aipu::dsl {

// Rows of the intrinsic table that only stand behind other constructs (S.vsplit, S.alloc_events, p.is_nullptr).
bool is_internal_intrinsic(std::string_view name);
// Functions of S that the language does not have.
bool is_extension(std::string_view name);

// A strict program: the vector widths, element and index types that the reference gives for the function. `call`:
// operands as the type rule left them.
Status check_strict_call(const tir::IntrinsicCall& call);
// `target`: a name such as "X3P_1304"; "" when it is not known, which refuses nothing.
Status check_target_call(const tir::IntrinsicCall& call, std::string_view target);

}  // namespace aipu::dsl
