// Text of expressions, as a reader of Python knows it.
#pragma once

#include <string>

#include "kernels/te/expr.h"

namespace aipu::te {

std::string to_text(const Expr& expr);

}  // namespace aipu::te
