// Products with weights of 4- and 8-bit floating types, each block of which has a scale.
#include <array>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/quantized.h"
#include "runtime/base/stored_type.h"

namespace aipu::frontend::microsoft {

namespace {

// Scales [rows, blocks] for the elements [rows, depth].
ValueId of_elements(OpContext& c, ValueId scales, int64_t block, int64_t depth) {
  const ValueId rows = c.emit("Range", {}, {c.int64_scalar(0), c.int64_scalar(depth), c.int64_scalar(1)});
  return gather(c, scales, c.emit("Div", {}, {rows, c.int64_scalar(block)}), 1);
}

// The operand's second extent, where it has two; 0 after an error.
int64_t columns_of(OpContext& c, ValueId x) {
  if (!c.ok()) return 0;
  const auto columns = c.rank(x) == 2 ? c.type(x).shape[1].constant() : std::nullopt;
  if (!columns) c.fail_unsupported(str_cat("weights of the type ", c.type(x).text(), " are not supported"));
  return columns.value_or(0);
}

int64_t take_block(OpContext& c, int64_t otherwise) {
  const int64_t block = c.take_int("block_size", otherwise);
  if (c.ok() && block < 1) c.fail_invalid(str_cat("block_size is ", block));
  return block;
}

}  // namespace

// Pairs of float4e2m1 in bytes, scales of float8e4m3 as bytes, and one scale for all.
void matmul_fp4_weight(OpContext& c) {
  c.expect_inputs(4, 6);
  const int64_t block = take_block(c, 16), depth = 2 * columns_of(c, c.input(1));
  if (!c.ok()) return;
  std::array<float, 16> numbers{};
  for (size_t code = 0; code < numbers.size(); ++code)
    numbers[code] = value_of_code(*small_float(DType::kF4E2M1), static_cast<uint8_t>(code));
  const ValueId table = c.constant(graph::Constant::of<float>(DType::kF32, {16}, numbers));
  const ValueId elements = gather(c, table, c.cast(unpacked_bits(c, c.input(1), 4), DType::kI64));
  const ValueId coded = c.emit("BitCast", {{"to", DType::kF8E4M3FN}}, {c.input(2)});
  const ValueId scales = of_elements(c, c.cast(coded, DType::kF32), block, depth);
  const ValueId all = reshape(c, c.input(3), {1});
  const DType dtype = c.dtype(c.input(0));
  const ValueId weights = c.cast(multiply(c, multiply(c, elements, all), scales), dtype);
  c.set_output(0, add_if(c, matmul(c, c.input(0), c.transpose(weights, {1, 0})), c.input(5)));
}

// float8e4m3 as they are; with a scale of the left operand that one is rounded to such too.
void matmul_fp8_weight(OpContext& c) {
  c.expect_inputs(3, 5);
  const int64_t block = take_block(c, 128), depth = columns_of(c, c.input(1));
  if (!c.ok()) return;
  const DType dtype = c.dtype(c.input(0));
  ValueId a = c.cast(c.input(0), DType::kF32);
  if (c.has_input(3)) {
    const ValueId scale = reshape(c, c.input(3), {1});
    const ValueId rounded = c.cast(c.emit("Div", {}, {a, scale}), c.dtype(c.input(1)));
    a = multiply(c, c.cast(rounded, DType::kF32), scale);
  }
  const ValueId weights = multiply(c, c.cast(c.input(1), DType::kF32), of_elements(c, c.input(2), block, depth));
  ValueId y = matmul(c, a, c.transpose(weights, {1, 0}));
  if (c.has_input(4)) y = add(c, y, c.cast(c.input(4), DType::kF32));
  c.set_output(0, c.cast(y, dtype));
}

}  // namespace aipu::frontend::microsoft
