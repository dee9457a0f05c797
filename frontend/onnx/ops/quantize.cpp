// QuantizeLinear and DequantizeLinear with a scale for each block of an axis: as arithmetic on scales spread over it.
#include <cmath>
#include <limits>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"

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

// The type that an attribute names, or `otherwise`.
DType taken_dtype(OpContext& c, const char* attribute, DType otherwise) {
  const int64_t number = c.take_int(attribute, 0);
  if (number == 0) return otherwise;
  const auto dtype = number > 0 && number < 1000 ? dtype_from_onnx(static_cast<int>(number)) : std::nullopt;
  if (!dtype)
    c.fail_unsupported(str_cat("element type number ", number, " in attribute '", attribute, "' is not supported"));
  return dtype.value_or(otherwise);
}

struct Range {
  double least = 0, greatest = 0;
};

std::optional<Range> range_of(DType dtype) {
  if (!is_integer(dtype) || dtype_bits(dtype) > 16) return std::nullopt;
  const int bits = dtype_bits(dtype);
  if (is_signed_int(dtype)) return Range{-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
  return Range{0, std::ldexp(1.0, bits) - 1};
}

}  // namespace

void dequantize_linear(OpContext& c) {
  if (!has_blocks(c)) return pass(c);
  c.expect_inputs(2, 3);
  const Blocks blocks = take_blocks(c);
  const DType dtype = taken_dtype(c, "output_dtype", c.dtype(c.input(1)));
  const ValueId x = c.input(0);
  const auto spread = [&](size_t i) {
    return c.cast(spread_over_blocks(c, c.input(i), blocks.axis, blocks.size, x), DType::kF32);
  };
  ValueId centred = c.cast(x, DType::kF32);
  if (c.has_input(2)) centred = subtract(c, centred, spread(2));
  c.set_output(0, c.cast(multiply(c, centred, spread(1)), dtype));
}

void quantize_linear(OpContext& c) {
  if (!has_blocks(c)) return pass(c);
  c.expect_inputs(2, 3);
  c.ignore("saturate");  // of 8-bit floats
  c.ignore("precision");
  const Blocks blocks = take_blocks(c);
  const DType dtype = taken_dtype(c, "output_dtype", c.has_input(2) ? c.dtype(c.input(2)) : DType::kU8);
  const auto range = range_of(dtype);
  if (c.ok() && !range) return c.fail_unsupported(str_cat("blocks of ", dtype_name(dtype), " are not supported"));
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  const auto spread = [&](size_t i) {
    return c.cast(spread_over_blocks(c, c.input(i), blocks.axis, blocks.size, x), DType::kF32);
  };
  ValueId y = c.emit("Round", {}, {c.emit("Div", {}, {c.cast(x, DType::kF32), spread(1)})});
  if (c.has_input(2)) y = add(c, y, spread(2));
  y = c.emit("Clip", {}, {y, c.scalar(DType::kF32, range->least), c.scalar(DType::kF32, range->greatest)});
  c.set_output(0, c.cast(y, dtype));
}

}  // namespace aipu::frontend
