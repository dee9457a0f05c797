// Rotations of queries and keys by their positions with what exporters put beside them.
#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

// Queries and keys, each with a copy whose halves are swapped already; angles [batch, length, size].
void gemma_rotary_embedding(OpContext& c) {
  c.expect_inputs(5, 5);
  if (!c.ok()) return;
  const DType dtype = c.dtype(c.input(1));
  const auto factor = [&](const char* function) {
    return c.unsqueeze(c.cast(c.emit(function, {}, {c.input(0)}), dtype), {1});
  };
  const ValueId sine = factor("Sin"), cosine = factor("Cos");
  for (size_t i = 0; i < 2; ++i) {
    const ValueId turned = multiply(c, c.input(2 * i + 2), sine);
    if (c.wants_output(i)) c.set_output(i, add(c, multiply(c, c.input(2 * i + 1), cosine), turned));
  }
}

namespace {

struct RotaryTurns {
  ValueId cosine, sine;  // [batch, length, 1, half]
  int64_t rotated = 0;
};

ValueId turned(OpContext& c, ValueId x, const RotaryTurns& turns, DType within) {
  return rotate_pairs(c, c.cast(x, within), c.cast(turns.cosine, within), c.cast(turns.sine, within), turns.rotated,
                      false);
}

}  // namespace

// Heads normalised and rotated: [batch, length, heads, stride], of which `input_width` elements from `input_start` on.
// Between the two steps, and within the second, numbers are bfloat16 where all operands are.
void rms_norm_rotary(OpContext& c) {
  c.expect_inputs(5, 6);
  c.require_attribute("rotary_embedding_dim");
  RotaryTurns turns;
  turns.rotated = c.take_int("rotary_embedding_dim", 0);
  const double epsilon = c.take_float("epsilon", 1e-6);
  const int64_t begin = c.take_int("input_start", 0), given_width = c.take_int("input_width", 0);
  const bool flattens = c.take_int("flatten_batch", 0) != 0;
  const bool is_wide = c.take_int("use_fp32_arithmetic", 1) != 0;
  const DType result = c.take_int("output_fp16", 0) != 0 ? DType::kF16 : DType::kBF16;
  if (!c.ok()) return;
  const ValueId x = c.input(0), at = c.input(2);
  const auto stride = c.rank(x) == 4 ? c.type(x).shape[3].constant() : std::nullopt;
  if (!stride) return c.fail_unsupported(str_cat("an input of the type ", c.type(x).text(), " is not supported"));
  const int64_t width = given_width == 0 ? *stride : given_width;
  if (begin < 0 || width < 1 || begin + width > *stride || turns.rotated < 2 || turns.rotated % 2 != 0 ||
      turns.rotated > width)
    return c.fail_invalid(str_cat("input_start ", begin, ", input_width ", given_width, " and rotary_embedding_dim ",
                                  turns.rotated, " do not fit the input ", c.type(x).text()));
  const Shape shape = c.type(x).shape;
  ValueId positions = c.cast(at, DType::kI64);
  if (graph::element_count(c.type(at).shape) == Dim(1)) {  // where all sentences begin
    if (flattens && shape[0] != Dim(1))
      return c.fail_unsupported("flatten_batch of several sentences needs a position for each token");
    positions = c.unsqueeze(add(c, reshape(c, positions, {1}), positions_along(c, x, 1)), {0});
  } else if (c.rank(at) != 2) {
    return c.fail_invalid(str_cat("position_ids is ", c.type(at).text(), ", expected one number or [batch, length]"));
  }
  const auto rows = [&](size_t cache) { return c.unsqueeze(gather(c, c.input(cache), positions), {2}); };
  turns.cosine = rows(3), turns.sine = rows(4);

  const ValueId used = begin == 0 && width == *stride ? x : slice(c, x, 3, begin, begin + width);
  ValueId y = c.emit("RMSNormalization", {{"axis", int64_t{-1}}, {"epsilon", epsilon}},
                     {c.cast(used, DType::kF32), c.input(1)});
  const bool rounds = c.dtype(x) == DType::kBF16 && result == DType::kBF16 && c.dtype(c.input(3)) == DType::kBF16;
  if (rounds) y = c.cast(y, DType::kBF16);
  if (c.wants_output(1)) c.set_output(1, c.cast(y, DType::kF32));
  if (!rounds) {
    y = turned(c, y, turns, DType::kF32);
  } else if (!c.has_input(5)) {
    y = turned(c, y, turns, is_wide ? DType::kF32 : DType::kBF16);
  } else {
    const ValueId narrow = turned(c, y, turns, DType::kBF16);
    const ValueId prefills = c.cast(reshape(c, c.input(5), {1}), DType::kBool);
    const ValueId otherwise = is_wide ? turned(c, y, turns, DType::kF32) : narrow;
    y = where(c, prefills, c.cast(narrow, result), c.cast(otherwise, result));
  }
  if (!c.ok()) return;
  const Shape flat = flattens ? Shape{Dim(1), shape[0] * shape[1], shape[2] * Dim(width)}
                              : Shape{shape[0], shape[1], shape[2] * Dim(width)};
  c.set_output(0, c.emit("Reshape", {{"shape", flat}}, {c.cast(y, result)}));
}

}  // namespace aipu::frontend::microsoft
