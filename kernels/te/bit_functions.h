// Functions of expressions that are made of the bits of their operands. Rows of the table of functions use them.
#pragma once

#include <vector>

#include "kernels/te/expr.h"

namespace aipu::te {

Expr expand_popcount(const std::vector<Expr>& args);
Expr expand_copysign(const std::vector<Expr>& args);
Expr expand_nextafter(const std::vector<Expr>& args);
Expr expand_ldexp(const std::vector<Expr>& args);  // the second operand is an int32
Expr expand_atan2(const std::vector<Expr>& args);

}  // namespace aipu::te
