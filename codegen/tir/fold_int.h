// What an operator makes of two integers known at compile time.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/tir/expr.h"

namespace aipu::tir {

// Of scalars of type `dtype` (integers or bool), as the interpreter has it: counts of shifts modulo the width, the
// quotient that does not fit saturates. wrap_int() brings it to the result's type. nullopt: a division by 0.
std::optional<int64_t> fold_int(BinaryOp op, DType dtype, int64_t a, int64_t b);

}  // namespace aipu::tir
