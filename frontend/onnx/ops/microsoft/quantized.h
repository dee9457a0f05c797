// Shared by the quantised operators. Private to this folder.
#pragma once

#include <span>

#include "frontend/onnx/op_context.h"

namespace aipu::frontend::microsoft {

// a_scale * b_scale * (a - a_zero) (b - b_zero) + bias, of 8-bit integers, in the scales' type
struct IntegerProduct {
  ValueId a, b, a_scale, b_scale, a_zero, b_zero, bias;  // the last three may be absent
};
ValueId integer_product(OpContext& c, const IntegerProduct& p);

// (x - zero) * scale; `zero` may be absent. Scales of rank 1 are for the last axis unless `axis` says another.
ValueId dequantized(OpContext& c, ValueId x, ValueId scale, ValueId zero, int64_t axis = -1);
// round(x / scale) + zero, saturated to the type of `zero` or, without it, `type`
ValueId quantized(OpContext& c, ValueId x, ValueId scale, ValueId zero, DType type);

// The last axis of uint8 as 8 / bits elements for each byte, the lowest bits first.
ValueId unpacked_bits(OpContext& c, ValueId packed, int64_t bits);
// The same of rows that begin with a byte, as a constant: uint8 [rows, columns].
ConstantPtr unpacked_constant(std::span<const std::byte> packed, int64_t bits, int64_t rows, int64_t columns);
// The constant with another shape, which it must have the elements for.
ConstantPtr shaped(OpContext& c, ValueId value, std::vector<int64_t> shape);

}  // namespace aipu::frontend::microsoft
