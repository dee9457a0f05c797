// QuantizeLinear and DequantizeLinear with a scale for each block of an axis: as arithmetic on scales spread over it.
#include <cmath>
#include <limits>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"
#include "runtime/base/stored_type.h"

namespace aipu::frontend {

namespace {

// Each element of `x` `block` times along the axis, as many as `like` has there.
ValueId spread_over_blocks(OpContext& c, ValueId x, int64_t axis, int64_t block, ValueId like) {
  if (!c.ok()) return {};
  if (c.rank(x) != c.rank(like)) {
    c.fail_invalid(str_cat("scales of blocks ", c.type(x).text(), " do not have the rank of ", c.type(like).text()));
    return {};
  }
  std::vector<int64_t> copies(static_cast<size_t>(c.rank(x)) + 1, 1);
  copies[static_cast<size_t>(axis) + 1] = block;
  Shape shape = c.type(x).shape;
  Dim& extent = shape[static_cast<size_t>(axis)];
  extent = extent * Dim(block);
  const Dim wanted = c.type(like).shape[static_cast<size_t>(axis)];
  const bool cut = extent != wanted;
  if (const Dim spare = extent - wanted; spare.is_constant() && (*spare.constant() < 0 || *spare.constant() >= block)) {
    c.fail_invalid(str_cat(c.type(x).text(), " scales of blocks of ", block, " do not fit ", c.type(like).text()));
    return {};
  }
  const ValueId repeated = c.emit("Expand", {}, {c.unsqueeze(x, {axis + 1}), c.int64s(copies)});
  const ValueId all = c.emit("Reshape", {{"shape", shape}}, {repeated});
  return cut ? c.emit("Slice", {}, {all, c.int64s({0}), c.size_of(like, axis), c.int64s({axis})}) : all;
}

struct Blocks {
  int64_t axis = 0, size = 0;
};

Blocks take_blocks(OpContext& c) {
  Blocks blocks;
  blocks.axis = c.take_axis("axis", 1, c.rank(c.input(0)));
  blocks.size = c.take_int("block_size", 0);
  return blocks;
}

bool has_blocks(OpContext& c) {
  const auto it = c.attributes.find("block_size");
  return it != c.attributes.end() && it->second.i > 0;
}

// Constant weights, which a product may take as they are (graph/passes/block_quantized_products.cpp).
bool is_matrix_of_codes(OpContext& c) {
  for (size_t i = 0; i < 3; ++i) {
    if (c.has_input(i) && c.graph().constant(c.input(i)) == nullptr) return false;
  }
  const DType type = c.dtype(c.input(0));
  const bool has_integers = type == DType::kI4 || type == DType::kU4 || type == DType::kI8 || type == DType::kU8;
  const bool has_floats = small_float(type) != nullptr && small_float(type)->is_signed && !c.has_input(2);
  return (has_integers || has_floats) && c.rank(c.input(0)) == 2 && c.rank(c.input(1)) == 2;
}

// Scales of a stored type (float8e8m0) as numbers, which they have to be where the weights stay codes.
void decode_scales(OpContext& c, DType dtype) {
  const graph::Constant* scales = c.graph().constant(c.input(1));
  if (scales == nullptr || dtype != DType::kF32 || is_computed(c.dtype(c.input(1)))) return;
  std::vector<float> numbers;
  for (const double scale : scales->to_doubles()) numbers.push_back(static_cast<float>(scale));
  c.inputs[1] = c.constant(graph::Constant::of<float>(DType::kF32, scales->shape(), std::span<const float>(numbers)));
}

struct Range {
  double least = 0, greatest = 0;
};

// Of integers of up to 16 bits.
std::optional<Range> range_of(DType dtype) {
  const int bits = dtype_bits(dtype);
  const DType held = held_as(dtype);
  if (!is_integer(held) || bits > 16 || small_float(dtype) != nullptr) return std::nullopt;
  if (is_signed_int(held)) return Range{-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
  return Range{0, std::ldexp(1.0, bits) - 1};
}

}  // namespace

namespace {

// The quotient of another precision than the scale's takes the place of the input, and 1 that of the scale.
void divide_first(OpContext& c, DType precision) {
  const int rank = c.rank(c.input(0));
  ValueId scale = c.cast(c.input(1), precision);
  if (c.rank(scale) == 1 && rank > 0) {
    const auto it = c.attributes.find("axis");
    const int64_t axis = it == c.attributes.end() ? 1 : it->second.i;
    std::vector<int64_t> behind;
    for (int64_t k = (axis < 0 ? axis + rank : axis) + 1; k < rank; ++k)
      behind.push_back(k - (axis < 0 ? axis + rank : axis));
    const bool is_one = c.type(scale).shape[0] == Dim(1);
    scale = is_one ? c.squeeze(scale, {0}) : c.unsqueeze(scale, std::move(behind));
  }
  c.inputs[0] = c.emit("Div", {}, {c.cast(c.input(0), precision), scale});
  // Of the shape that the zero point has.
  c.inputs[1] = c.rank(c.input(1)) == 0 ? c.scalar(precision, 1)
                                        : c.emit("Expand", {}, {c.scalar(precision, 1), c.shape_of(c.input(1))});
}

}  // namespace

void dequantize_linear(OpContext& c) {
  c.expect_inputs(2, 3);
  const DType scale_type = c.dtype(c.input(1));
  const DType dtype = c.take_dtype("output_dtype", scale_type);
  if (c.ok() && !is_floating(dtype)) return c.fail_invalid(str_cat("an output of ", dtype_name(dtype)));
  if (!c.ok()) return;
  if (!has_blocks(c)) {
    // The precision of the product is that of the result; that of what is wider where they differ.
    const bool is_plain = dtype == scale_type;
    if (is_plain) return pass(c);
    c.inputs[1] = c.cast(c.input(1), DType::kF32);
    const ValueId y = c.emit("DequantizeLinear", listed(c.pass_attributes("DequantizeLinear")), c.inputs);
    return c.set_output(0, c.cast(y, dtype));
  }
  if (is_matrix_of_codes(c)) decode_scales(c, dtype);
  if (is_matrix_of_codes(c) && dtype == c.dtype(c.input(1))) return pass(c);
  const Blocks blocks = take_blocks(c);
  const ValueId x = c.input(0);
  const auto spread = [&](size_t i) {
    return c.cast(spread_over_blocks(c, c.input(i), blocks.axis, blocks.size, x), DType::kF32);
  };
  ValueId centred = c.cast(x, DType::kF32);
  if (c.has_input(2)) centred = subtract(c, centred, spread(2));
  c.set_output(0, c.cast(multiply(c, centred, spread(1)), dtype));
}

void quantize_linear(OpContext& c) {
  c.expect_inputs(2, 3);
  const DType scale_type = c.dtype(c.input(1));
  const DType precision = c.take_dtype("precision", is_floating(scale_type) ? scale_type : DType::kF32);
  const DType wanted = c.take_dtype("output_dtype", DType::kVoid);
  const DType dtype = wanted == DType::kVoid && c.has_input(2) ? c.dtype(c.input(2))
                      : wanted == DType::kVoid                 ? DType::kU8
                                                               : wanted;
  if (c.ok() && !is_floating(precision))
    return c.fail_invalid(str_cat("a division of the precision of ", dtype_name(precision)));
  if (!c.ok()) return;
  if (!has_blocks(c)) {
    if (precision != scale_type) divide_first(c, precision);
    AttributeList attributes = listed(c.pass_attributes("QuantizeLinear"));
    attributes.emplace_back("output_dtype", dtype);
    return c.emit_output("QuantizeLinear", std::move(attributes), c.inputs);
  }
  const int64_t saturate = c.take_int("saturate", 1);
  const Blocks blocks = take_blocks(c);
  const auto range = range_of(dtype);
  if (c.ok() && !range && small_float(dtype) == nullptr)
    return c.fail_unsupported(str_cat("blocks of ", dtype_name(dtype), " are not supported"));
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  const auto spread = [&](size_t i, DType type) {
    return c.cast(spread_over_blocks(c, c.input(i), blocks.axis, blocks.size, x), type);
  };
  ValueId y = c.emit("Div", {}, {c.cast(x, precision), spread(1, precision)});
  y = c.cast(y, DType::kF32);
  if (range) y = c.emit("Round", {}, {y});
  if (c.has_input(2)) y = add(c, y, spread(2, DType::kF32));
  if (!range) return c.emit_output("Cast", {{"to", dtype}, {"saturate", saturate}}, {y});
  y = c.emit("Clip", {}, {y, c.scalar(DType::kF32, range->least), c.scalar(DType::kF32, range->greatest)});
  c.set_output(0, c.cast(y, dtype));
}

}  // namespace aipu::frontend
