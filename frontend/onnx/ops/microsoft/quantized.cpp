// Products of integers, and of floats with weights of a few bits.
#include "frontend/onnx/ops/microsoft/quantized.h"

#include <utility>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

ValueId integer_product(OpContext& c, const IntegerProduct& p) {
  if (!c.ok()) return {};
  if (c.rank(p.a_scale) > 1 || (c.rank(p.a_scale) == 1 && c.type(p.a_scale).shape[0] != Dim(1))) {
    c.fail_unsupported(
        str_cat("a scale of the left operand for each row, ", c.type(p.a_scale).text(), ", is not supported"));
    return {};
  }
  std::vector<ValueId> operands{p.a, p.b};
  if (p.a_zero.valid() || p.b_zero.valid()) operands.push_back(p.a_zero);
  if (p.b_zero.valid()) operands.push_back(p.b_zero);
  const ValueId sums = c.emit("MatMulInteger", {}, std::move(operands));
  const ValueId a_scale = c.rank(p.a_scale) == 1 ? c.squeeze(p.a_scale, {0}) : p.a_scale;
  return add_if(c, multiply(c, c.cast(sums, c.dtype(p.a_scale)), multiply(c, a_scale, p.b_scale)), p.bias);
}

ValueId dequantized(OpContext& c, ValueId x, ValueId scale, ValueId zero, int64_t axis) {
  std::vector<ValueId> operands{x, scale};
  if (zero.valid()) operands.push_back(zero);
  return c.emit("DequantizeLinear", {{"axis", axis}}, std::move(operands));
}

ValueId quantized(OpContext& c, ValueId x, ValueId scale, ValueId zero, DType type) {
  return c.emit("QuantizeLinear", {}, {x, scale, zero.valid() ? zero : c.scalar(type, 0)});
}

void matmul_integer_to_float(OpContext& c) {
  c.expect_inputs(4, 7);
  c.set_output(
      0, integer_product(c, {c.input(0), c.input(1), c.input(2), c.input(3), c.input(4), c.input(5), c.input(6)}));
}

namespace {

struct DynamicallyQuantized {
  ValueId value, scale, zero;
};

// To uint8, over the range of all elements, as the node's operators do it.
DynamicallyQuantized dynamically_quantized(OpContext& c, ValueId x) {
  OpContext inner = c.within(c.graph());
  inner.output_names = {"quantized", "scale", "zero_point"};
  inner.emit_outputs("DynamicQuantizeLinear", {}, {x});
  if (!inner.ok()) c.fail(inner.status());
  if (!c.ok()) return {};
  return {inner.results[0], inner.results[1], inner.results[2]};
}

}  // namespace

void dynamic_quantize_matmul(OpContext& c) {
  c.expect_inputs(3, 5);
  if (!c.ok()) return;
  const DynamicallyQuantized a = dynamically_quantized(c, c.input(0));
  c.set_output(0, integer_product(c, {a.value, c.input(1), a.scale, c.input(2), a.zero, c.input(3), c.input(4)}));
}

// The weights are [directions, inputs, 4 * hidden], transposed to ONNX's. X is rounded as for a product of integers; so
// is the hidden state before each step, over the range that it has in all samples. Floats hold the integers, whose sums
// of products are exact up to 2^24.
void dynamic_quantize_lstm(OpContext& c) {
  c.expect_inputs(3, 12);
  if (!c.ok()) return;
  for (size_t i = 8; i < 12; ++i) {
    if (!c.has_input(i)) return c.fail_invalid(str_cat("needs input ", i));
  }
  const auto weights = [&](size_t value, size_t zero) {
    const ValueId per_direction =
        c.rank(c.input(zero)) == 1 ? c.unsqueeze(c.input(zero), {1, 2}) : c.unsqueeze(c.input(zero), {1});
    return c.transpose(subtract(c, c.cast(c.input(value), DType::kF32), c.cast(per_direction, DType::kF32)), {0, 2, 1});
  };
  // One for each direction, or for each row too.
  const auto scales = [&](size_t value, size_t scale) {
    const Shape& shape = c.type(c.input(value)).shape;
    if (c.rank(c.input(scale)) == 2) return c.input(scale);
    return c.emit("Expand", {{"shape", Shape{shape[0], shape[2]}}}, {c.unsqueeze(c.input(scale), {1})});
  };
  ValueId given = c.input(0);
  if (c.has_input(4)) {
    // Steps that no sequence has don't count in the range of the input.
    const ValueId longest = c.cast(c.emit("ReduceMax", {{"keepdims", int64_t{0}}}, {c.input(4)}), DType::kI64);
    const ValueId counts = c.emit("Less", {}, {positions_along(c, given, 0), longest});
    given = where(c, c.unsqueeze(counts, {1, 2}), given, c.scalar(c.dtype(given), 0));
  }
  const DynamicallyQuantized x = dynamically_quantized(c, given);
  const ValueId centred = dequantized(c, x.value, c.scalar(c.dtype(given), 1), x.zero);
  std::vector<ValueId> operands{centred, weights(1, 9), weights(2, 11)};
  for (size_t i = 3; i < 8; ++i) operands.push_back(c.input(i));
  for (const ValueId scale : {x.scale, scales(1, 8), scales(2, 10)}) operands.push_back(scale);
  c.emit_outputs("LSTM", c.pass_attributes("LSTM"), std::move(operands));
}

ValueId unpacked_bits(OpContext& c, ValueId packed, int64_t bits) {
  if (bits == 8 || !c.ok()) return packed;
  const ValueId mask = c.scalar(DType::kU8, static_cast<double>((1 << bits) - 1));
  std::vector<ValueId> parts;
  for (int64_t at = 0; at < 8; at += bits) {
    ValueId part = packed;
    if (at > 0) {
      const ValueId shift = c.scalar(DType::kU8, static_cast<double>(at));
      part = c.emit("BitShift", {{"direction", std::string("RIGHT")}}, {part, shift});
    }
    if (at + bits < 8) part = c.emit("BitwiseAnd", {}, {part, mask});
    parts.push_back(c.unsqueeze(part, {-1}));
  }
  const ValueId all = concat(c, -1, std::move(parts));
  if (!c.ok()) return {};
  Shape shape = c.type(packed).shape;
  shape.back() = shape.back() * Dim(8 / bits);
  return c.emit("Reshape", {{"shape", shape}}, {all});
}

ConstantPtr unpacked_constant(std::span<const std::byte> packed, int64_t bits, int64_t rows, int64_t columns) {
  const int64_t in_byte = 8 / bits, bytes = (columns + in_byte - 1) / in_byte;
  std::vector<uint8_t> codes;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < columns; ++k) {
      const auto byte = static_cast<uint8_t>(packed[static_cast<size_t>(row * bytes + k / in_byte)]);
      codes.push_back(static_cast<uint8_t>((byte >> (k % in_byte * bits)) & ((1 << bits) - 1)));
    }
  }
  return graph::Constant::of<uint8_t>(DType::kU8, {rows, columns}, std::span<const uint8_t>(codes));
}

ConstantPtr shaped(OpContext& c, ValueId value, std::vector<int64_t> shape) {
  const ConstantPtr& given = c.graph().value(value).constant;
  ConstantPtr result = graph::Constant::borrow(given->dtype(), std::move(shape), given->bytes(), given);
  if (result == nullptr || result->element_count() != given->element_count())
    c.fail_invalid(str_cat("operand '", c.graph().value(value).name, "' of the type ", given->type().text(),
                           " does not fit N, K and block_size"));
  return result;
}

namespace {

// What the codes of bitsandbytes' types stand for.
constexpr float kFp4[16] = {0.0F,  5.208333333e-03F,  0.66666667F,  1.0F,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
                            -0.0F, -5.208333333e-03F, -0.66666667F, -1.0F, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
constexpr float kNf4[16] = {-1.0F,
                            -0.6961928009986877F,
                            -0.5250730514526367F,
                            -0.39491748809814453F,
                            -0.28444138169288635F,
                            -0.18477343022823334F,
                            -0.09105003625154495F,
                            0.0F,
                            0.07958029955625534F,
                            0.16093020141124725F,
                            0.24611230194568634F,
                            0.33791524171829224F,
                            0.44070982933044434F,
                            0.5626170039176941F,
                            0.7229568362236023F,
                            1.0F};

}  // namespace

// A times the transposed B: elements [N, K] in a row, two to a byte, the first one in the higher bits; a number that
// each block of them is multiplied by.
void matmul_bnb4(OpContext& c) {
  c.expect_inputs(3, 3);
  const int64_t block = c.take_int("block_size", 0);
  const int64_t rows = c.take_int("N", 0);
  const int64_t depth = c.take_int("K", 0);
  const int64_t type = c.take_int("quant_type", -1);
  const int64_t is_transposed = c.take_int("transB", 1);
  c.ignore("training_mode");
  if (!c.ok()) return;
  if (block < 1 || rows < 1 || depth < 1) return c.fail_invalid("needs positive N, K and block_size");
  if (type != 0 && type != 1) return c.fail_invalid(str_cat("quant_type is ", type, ", expected 0 (FP4) or 1 (NF4)"));
  if (is_transposed != 1) return c.fail_unsupported("transB = 0 is not supported");
  const DType dtype = c.dtype(c.input(0));
  const int64_t count = rows * depth, blocks = (count + block - 1) / block;
  const ValueId table = c.constant(graph::Constant::of<float>(DType::kF32, {16}, type == 0 ? kFp4 : kNf4));
  const auto is_constant = [&](size_t i) { return c.graph().constant(c.input(i)) != nullptr; };
  // Blocks that end with the rows: the product reads the weights as they are, but with the first one of a byte lowest.
  if (is_constant(1) && is_constant(2) && depth % block == 0 && block % 16 == 0 && dtype_bits(dtype) <= 32 &&
      is_floating(c.dtype(c.input(2)))) {
    const ConstantPtr codes = shaped(c, c.input(1), {rows, depth / block, block / 2});
    const ConstantPtr scales = shaped(c, c.input(2), {rows, depth / block});
    if (!c.ok()) return;
    std::vector<uint8_t> turned;
    for (const std::byte byte : codes->bytes())
      turned.push_back(static_cast<uint8_t>(std::to_integer<int>(byte) >> 4 | std::to_integer<int>(byte) << 4));
    const auto first = std::span<const uint8_t>(turned);
    return c.emit_output("aipu::BlockQuantizedMatMul", {{"bits", int64_t{4}}, {"block_size", block}, {"K", depth}},
                         {c.input(0), c.constant(graph::Constant::of<uint8_t>(DType::kU8, codes->shape(), first)),
                          c.constant(scales), ValueId(), ValueId(), table});
  }
  const ValueId pairs = unpacked_bits(c, reshape(c, c.input(1), {(count + 1) / 2, 1}), 4);
  const ValueId codes = reshape(c, gather(c, pairs, c.int64s({1, 0}), 1), {-1});
  ValueId elements = gather(c, table, c.cast(slice(c, codes, 0, 0, count), DType::kI64));
  elements = c.emit("Pad", {}, {elements, c.int64s({0, blocks * block - count})});
  const ValueId factors = c.cast(reshape(c, c.input(2), {blocks, 1}), DType::kF32);
  const ValueId weights = reshape(c, multiply(c, reshape(c, elements, {blocks, block}), factors), {-1});
  const ValueId b = c.cast(reshape(c, slice(c, weights, 0, 0, count), {rows, depth}), dtype);
  c.set_output(0, matmul(c, c.input(0), c.transpose(b, {1, 0})));
}

namespace {

// Of elements that have a type of 4 bits: both axes are any.
void gather_blocks(OpContext& c, int64_t gather_axis, int64_t quantize_axis, int64_t block) {
  const ValueId indices = c.input(1);
  const DType dtype = c.dtype(c.input(2));
  const auto picked = [&](ValueId x) { return c.cast(gather(c, x, indices, gather_axis), dtype); };
  if (gather_axis == quantize_axis) {
    const ValueId zero = c.scalar(c.dtype(indices), 0);
    const ValueId extent = c.cast(c.size_of(c.input(0), gather_axis), c.dtype(indices));
    const ValueId places = where(c, c.emit("Less", {}, {indices, zero}), add(c, indices, extent), indices);
    const ValueId blocks = c.emit("Div", {}, {places, c.scalar(c.dtype(indices), static_cast<double>(block))});
    const auto of_block = [&](ValueId per_block) { return c.cast(gather(c, per_block, blocks, gather_axis), dtype); };
    ValueId values = picked(c.input(0));
    if (c.has_input(3)) values = subtract(c, values, of_block(c.input(3)));
    return c.set_output(0, multiply(c, values, of_block(c.input(2))));
  }
  const int64_t axis = quantize_axis > gather_axis ? quantize_axis + c.rank(indices) - 1 : quantize_axis;
  ValueId values = picked(c.input(0));
  const ValueId blocks = c.emit("Div", {}, {positions_along(c, values, axis), c.int64_scalar(block)});
  const auto spread = [&](ValueId per_block) { return gather(c, picked(per_block), blocks, axis); };
  if (c.has_input(3)) values = subtract(c, values, spread(c.input(3)));
  c.set_output(0, multiply(c, values, spread(c.input(2))));
}

}  // namespace

// Rows of bytes that hold elements of `bits`, with a scale for each block of the last axis.
void gather_block_quantized(OpContext& c) {
  c.expect_inputs(3, 4);
  const int64_t bits = c.take_int("bits", 4);
  const int64_t block = c.take_int("block_size", 128);
  const ValueId data = c.input(0);
  const int64_t rank = c.rank(data);
  const int64_t gather_axis = c.take_axis("gather_axis", 0, static_cast<int>(rank));
  const int64_t quantize_axis = c.take_axis("quantize_axis", 1, static_cast<int>(rank));
  if (!c.ok()) return;
  if (block < 1) return c.fail_invalid(str_cat("block_size is ", block));
  if (c.dtype(data) == DType::kI4 || c.dtype(data) == DType::kU4)
    return gather_blocks(c, gather_axis, quantize_axis, block);
  if (c.dtype(data) != DType::kU8)
    return c.fail_unsupported(str_cat("data of the type ", c.type(data).text(), " is not supported"));
  if (bits != 4 && bits != 8 && bits != 2) return c.fail_unsupported(str_cat(bits, " bits are not supported"));
  if (gather_axis != 0 || quantize_axis != rank - 1 || rank < 2)
    return c.fail_unsupported("gather_axis must be the first axis, quantize_axis the last");
  const auto blocks = c.type(c.input(2)).shape.empty() ? std::nullopt : c.type(c.input(2)).shape.back().constant();
  const auto bytes = c.type(data).shape.back().constant();
  if (!blocks || !bytes) return c.fail_unsupported("a symbolic number of blocks is not supported");
  const int64_t elements = *bytes * 8 / bits;
  const DType dtype = c.dtype(c.input(2));
  const ValueId indices = c.input(1);
  const auto spread = [&](ValueId per_block) {
    const int64_t axis = c.rank(per_block);
    if (!c.ok()) return ValueId();
    std::vector<int64_t> copies(static_cast<size_t>(axis) + 1, 1);
    copies.back() = block;
    Shape shape = c.type(per_block).shape;
    shape.back() = Dim(*blocks * block);
    const ValueId repeated = c.emit("Expand", {}, {c.unsqueeze(per_block, {axis}), c.int64s(copies)});
    const ValueId all = c.emit("Reshape", {{"shape", shape}}, {repeated});
    return *blocks * block == elements ? all : slice(c, all, axis - 1, 0, elements);
  };
  ValueId values = c.cast(unpacked_bits(c, gather(c, data, indices), bits), dtype);
  if (c.has_input(3)) {
    ValueId zeros = unpacked_bits(c, gather(c, c.input(3), indices), bits);
    zeros = slice(c, zeros, -1, 0, *blocks);
    values = subtract(c, values, c.cast(spread(zeros), dtype));
  } else {
    values = subtract(c, values, c.scalar(dtype, static_cast<double>(1 << (bits - 1))));
  }
  c.set_output(0, multiply(c, values, spread(gather(c, c.input(2), indices))));
}

}  // namespace aipu::frontend::microsoft
