// Operators that move or pick elements.
#include <limits>
#include <numeric>
#include <utility>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/generation.h"

namespace aipu::frontend::microsoft {

void expand_dims(OpContext& c) {
  c.expect_inputs(2, 2);
  if (!c.ok()) return;
  const auto axis = c.constant_ints(c.input(1));
  if (!axis || axis->size() != 1) {
    return c.fail_unsupported(
        str_cat("operand '", c.graph().value(c.input(1)).name, "' must be known when compiling, it is the axis"));
  }
  c.emit_output("Unsqueeze", {}, {c.input(0), c.int64s(*axis)});
}

// BitmaskDropout, BitmaskBiasDropout: the mask, which training reads, is made of bits.
void bitmask_dropout(OpContext& c) {
  if (c.wants_output(1)) return c.fail_unsupported("the output mask is not supported");
  if (c.op_type() == "BitmaskDropout") return dropout(c);
  bias_dropout(c);
}

// An example of how operators are written.
void echo(OpContext& c) {
  c.expect_inputs(1, 1);
  c.emit_output("Identity", {}, {c.input(0)});
}

// A sparse initializer is a dense constant here.
void sparse_to_dense_matmul(OpContext& c) {
  c.expect_inputs(2, 2);
  const double alpha = c.take_float("alpha", 1);
  const bool turns_a = c.take_int("transA", 0) != 0, turns_b = c.take_int("transB", 0) != 0;
  const ValueId a = turns_a ? swap_last_two(c, c.input(0)) : c.input(0);
  const ValueId b = turns_b ? swap_last_two(c, c.input(1)) : c.input(1);
  c.set_output(0, scaled(c, matmul(c, a, b), alpha));
}

// What else it says is for training.
void torch_embedding(OpContext& c) {
  c.expect_inputs(2, 4);
  c.emit_output("Gather", {{"axis", int64_t{0}}}, {c.input(0), c.input(1)});
}

// In the order of first occurrence, without the places of these.
void unique(OpContext& c) {
  c.expect_inputs(1, 1);
  if (!c.ok()) return;
  const ValueId count = c.emit("aipu::CountUnique", {}, {c.input(0)});
  OpContext inner = c.within(c.graph());
  const std::string name = c.output_names[0];
  inner.output_names = {name, name + "/first", name + "/places", name + "/counts"};
  Attributes attributes;
  attributes.set("sorted", int64_t{0});
  inner.emit_outputs("Unique", std::move(attributes), {c.input(0), count});
  if (!inner.ok()) return c.fail(inner.status());
  const size_t from[] = {0, 2, 3};
  for (size_t i = 0; i < 3; ++i) {
    if (c.wants_output(i)) c.set_output(i, inner.results[from[i]]);
  }
}

// Samples along [y1, x1, y2, x2] of the image that batch_indices names, corner to corner; a place outside of the image
// is extrapolation_value.
void crop_and_resize(OpContext& c) {
  c.expect_inputs(4, 4);
  const std::string mode = c.take_string("mode", "bilinear");
  const double outside = c.take_float("extrapolation_value", 0);
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  const ValueId rois = c.input(1);
  const auto size = c.constant_ints(c.input(3));
  if (!size || size->size() != 2) {
    return c.fail_unsupported(str_cat("operand '", c.graph().value(c.input(3)).name,
                                      "' must be known when compiling, it is the crop's size"));
  }
  if (mode != "bilinear" && mode != "nearest")
    return c.fail_invalid(str_cat("mode is '", mode, "', expected one of: bilinear, nearest"));
  if (c.rank(x) != 4 || c.rank(rois) != 2)
    return c.fail_invalid(
        str_cat("X must have rank 4 and rois rank 2, found ", c.type(x).text(), " and ", c.type(rois).text()));
  const DType dtype = c.dtype(x);
  // Places along one axis: [rois, steps], in [-1, 1] over the image.
  const auto places = [&](int64_t column, int64_t steps) {
    const ValueId begin = slice(c, rois, 1, column, column + 1);
    const ValueId end = slice(c, rois, 1, column + 2, column + 3);
    if (steps == 1) return scaled(c, c.emit("Add", {}, {begin, subtract(c, end, c.scalar(dtype, 1))}), 1);
    std::vector<float> fractions;
    for (int64_t i = 0; i < steps; ++i) fractions.push_back(static_cast<float>(i) / static_cast<float>(steps - 1));
    const ValueId ramp = c.cast(
        c.constant(graph::Constant::of<float>(DType::kF32, {1, steps}, std::span<const float>(fractions))), dtype);
    const ValueId at = add(c, begin, multiply(c, subtract(c, end, begin), ramp));
    return subtract(c, scaled(c, at, 2), c.scalar(dtype, 1));
  };
  const int64_t height = (*size)[0], width = (*size)[1];
  if (height < 1 || width < 1) return c.fail_invalid("the crop's size must be positive");
  const ValueId shape = concat(c, 0, {c.size_of(rois, 0), c.int64s({height, width, 1})});
  const ValueId row = c.emit("Expand", {}, {c.unsqueeze(places(0, height), {2, 3}), shape});
  const ValueId column = c.emit("Expand", {}, {c.unsqueeze(places(1, width), {1, 3}), shape});
  const ValueId grid = concat(c, 3, {column, row});
  const ValueId images = gather(c, x, c.input(2));
  const ValueId samples = c.emit("GridSample",
                                 {{"align_corners", int64_t{1}},
                                  {"mode", std::string(mode == "bilinear" ? "linear" : "nearest")},
                                  {"padding_mode", std::string("border")}},
                                 {images, grid});
  const ValueId one = c.scalar(dtype, 1);
  const ValueId inside =
      c.emit("LessOrEqual", {},
             {c.emit("ReduceMax", {{"keepdims", int64_t{0}}}, {c.emit("Abs", {}, {grid}), c.int64s({3})}), one});
  c.emit_output("Where", {}, {c.unsqueeze(inside, {1}), samples, c.scalar(dtype, outside)});
}

ValueId without_repeated_ngrams(OpContext& c, ValueId ids, ValueId scores, int64_t n, double lowest) {
  // Column w is about the n-gram that begins with token w: its last token, and whether the others are the last ones.
  const ValueId tokens = slice(c, ids, 1, n - 1, INT64_MAX);
  ValueId repeats = c.emit("Equal", {}, {tokens, tokens});
  for (int64_t left = n - 1; left > 0; --left) {
    const ValueId earlier = slice(c, ids, 1, n - 1 - left, -left);
    const ValueId last = slice(c, ids, 1, -left, left == 1 ? INT64_MAX : 1 - left);
    repeats = c.emit("And", {}, {repeats, c.emit("Equal", {}, {earlier, last})});
  }
  const DType dtype = c.dtype(scores);
  const ValueId limits =
      where(c, repeats, c.scalar(dtype, lowest), c.scalar(dtype, std::numeric_limits<double>::infinity()));
  return c.emit("ScatterElements", {{"axis", int64_t{1}}, {"reduction", std::string("min")}}, {scores, tokens, limits});
}

// A token gets the score -infinity if with it the last n tokens would be ones that the sentence has already.
void ngram_repeat_block(OpContext& c) {
  c.expect_inputs(2, 2);
  c.require_attribute("ngram_size");
  const int64_t n = c.take_int("ngram_size", 0);
  if (!c.ok()) return;
  const ValueId ids = c.input(0), scores = c.input(1);
  if (n < 1) return c.fail_invalid(str_cat("ngram_size is ", n));
  if (c.rank(ids) != 2 || c.rank(scores) != 2)
    return c.fail_invalid(
        str_cat("takes tokens and scores of rank 2, found ", c.type(ids).text(), " and ", c.type(scores).text()));
  c.set_output(0, without_repeated_ngrams(c, ids, scores, n, -std::numeric_limits<double>::infinity()));
}

// How far each row of A is from each of B: by differences, so that near rows are told apart.
void cdist(OpContext& c) {
  c.expect_inputs(2, 2);
  const std::string metric = c.take_string("metric", "sqeuclidean");
  if (!c.ok()) return;
  if (metric != "euclidean" && metric != "sqeuclidean")
    return c.fail_unsupported(str_cat("metric '", metric, "' is not supported"));
  const ValueId a = c.input(0), b = c.input(1);
  if (c.rank(a) != 2 || c.rank(b) != 2)
    return c.fail_invalid(str_cat("takes tables of rows, found ", c.type(a).text(), " and ", c.type(b).text()));
  // |a - b|^2 = |a|^2 + |b|^2 - 2 a b, as a product, with the middle of b as the origin: far from it little would be
  // left of the differences. Where that is no number, the origin is 0.
  const DType dtype = c.dtype(a);
  const ValueId zero = c.scalar(dtype, 0);
  const ValueId middle = c.emit("ReduceMean", {}, {b, c.int64s({0})});
  const ValueId is_number = c.emit("Equal", {}, {subtract(c, middle, middle), zero});
  const ValueId origin = where(c, is_number, middle, zero);
  const ValueId left = subtract(c, a, origin), right = subtract(c, b, origin);
  const auto squares = [&](ValueId x) { return c.emit("ReduceSumSquare", {}, {x, c.int64s({1})}); };
  const ValueId product = matmul(c, left, scaled(c, c.transpose(right, {1, 0}), -2));
  const ValueId sum = add(c, add(c, product, c.transpose(squares(right), {1, 0})), squares(left));
  const ValueId y = c.emit("Max", {}, {sum, zero});
  c.set_output(0, metric == "euclidean" ? c.emit("Sqrt", {}, {y}) : y);
}

// Its record has the domain in its name.
void inverse(OpContext& c) {
  c.expect_inputs(1, 1);
  c.emit_output("com.microsoft::Inverse", {}, {c.input(0)});
}

// Windows of `size` elements along an axis, `step` apart; what they hold is the last axis of the result.
void unfold_tensor(OpContext& c) {
  c.expect_inputs(1, 1);
  const ValueId x = c.input(0);
  const int64_t size = c.take_int("size", 0), step = c.take_int("step", 1);
  if (!c.ok()) return;
  const int64_t axis = c.take_axis("dim", -1, c.rank(x));
  if (c.ok() && (size < 1 || step < 1)) return c.fail_invalid(str_cat("size is ", size, ", step is ", step));
  const ValueId end = c.emit("Sub", {}, {c.squeeze(c.size_of(x, axis), {0}), c.int64_scalar(size - 1)});
  const ValueId starts = c.emit("Range", {}, {c.int64_scalar(0), end, c.int64_scalar(step)});
  std::vector<int64_t> within(static_cast<size_t>(size));
  std::iota(within.begin(), within.end(), 0);
  const ValueId windows = gather(c, x, add(c, c.unsqueeze(starts, {1}), c.int64s(within)), axis);
  std::vector<int64_t> permutation;
  for (int64_t k = 0; k <= c.rank(x); ++k) {
    if (k != axis + 1) permutation.push_back(k);
  }
  permutation.push_back(axis + 1);
  c.set_output(0, c.transpose(windows, permutation));
}

}  // namespace aipu::frontend::microsoft
