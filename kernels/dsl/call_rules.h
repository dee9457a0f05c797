// What a call is refused for beyond the type rule of its intrinsic, by the facts of its row: a target without the
// instruction, scalars that nothing computes with, and, in programs that have to run on other implementations of the
// language too ("strict"), our extensions.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/intrinsics/intrinsic_table.h"
#include "runtime/base/status.h"

namespace aipu::dsl {

inline constexpr std::string_view kNoBf16Scalars =
    "There isn't any compute instruction for bfloat16 scalar, please convert it to float32 first.";

// Whether S.<name> is there for a program: not where only another construct may call the intrinsic, and not where it is
// an extension and the program is strict. True for names that are no intrinsics.
bool is_exposed(std::string_view name, bool strict);

// bfloat16 scalars may be stored, printed and broadcast, but not computed with; beside a vector they are broadcast.
// `operands`: as they are given, null where one is left out.
Status check_bf16_scalars(const tir::Intrinsic& row, const std::vector<tir::Expr>& operands);

// A strict program: the vector widths, element and index types that the reference gives for the function. `call`:
// operands as the type rule left them.
Status check_strict_call(const tir::IntrinsicCall& call);
// `target`: a name such as "X3P_1304"; "" when it is not known, which refuses nothing.
Status check_target_call(const tir::IntrinsicCall& call, std::string_view target);

}  // namespace aipu::dsl
