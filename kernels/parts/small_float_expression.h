// Floats of 8 bits and less as expressions on vectors: between their codes and the bits of float32. Everything but the
// steps is in the type's row (runtime/base/stored_type.h).
#pragma once

#include <functional>
#include <string_view>

#include "kernels/parts/expression.h"
#include "runtime/base/stored_type.h"

namespace aipu::kernels {

// Gives a value a name, so that it is computed once.
using Let = std::function<Expression(Expression)>;

// Codes as int32 vectors, from the bits of float32 as such. Rounds to nearest, ties to even; beyond the greatest number
// comes that number (`saturate`), or infinity or NaN.
Expression encode_small_float(const SmallFloat& type, bool saturate, const Expression& bits, const Let& let);
// The same for the type of powers of two, which has no sign: that of the value does not count. `rounding` is one of
// Cast's: up, down, nearest (ties up).
Expression encode_power_of_two(const SmallFloat& type, bool saturate, std::string_view rounding, const Expression& bits,
                               const Let& let);
// float32 vectors from int32 vectors of codes.
Expression decode_small_float(const SmallFloat& type, const Expression& code, const Let& let);

}  // namespace aipu::kernels
