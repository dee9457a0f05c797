#include "frontend/onnx/ops/attention_parts.h"

#include <cmath>
#include <limits>

#include "frontend/onnx/ops/compose.h"

namespace aipu::frontend {

ValueId split_heads(OpContext& c, ValueId x, int64_t heads) { return reshape(c, x, {0, 0, heads, -1}); }

ValueId heads_in_front(OpContext& c, ValueId x, int64_t heads) {
  return c.transpose(split_heads(c, x, heads), {0, 2, 1, 3});
}

ValueId heads_behind(OpContext& c, ValueId x) { return reshape(c, c.transpose(x, {0, 2, 1, 3}), {0, 0, -1}); }

ValueId repeated_heads(OpContext& c, ValueId x, int64_t heads, int64_t times) {
  if (times == 1) return x;
  const ValueId copies = c.emit("Expand", {}, {c.unsqueeze(x, {2}), c.int64s({1, 1, times, 1, 1})});
  const ValueId shape = concat(c, 0, {c.size_of(x, 0), c.int64s({heads * times}), c.size_of(x, 2), c.size_of(x, 3)});
  return c.emit("Reshape", {}, {copies, shape});
}

ValueId positions_along(OpContext& c, ValueId x, int64_t axis) {
  return c.emit("Range", {}, {c.int64_scalar(0), c.squeeze(c.size_of(x, axis), {0}), c.int64_scalar(1)});
}

ValueId with_rows_at(OpContext& c, ValueId cache, ValueId added, ValueId first) {
  ValueId at = c.unsqueeze(positions_along(c, added, 2), {1});
  at = add(c, at, c.unsqueeze(first, {1, 2, 3}));
  at = c.emit("Expand", {}, {at, c.shape_of(added)});
  return c.emit("ScatterElements", {{"axis", int64_t{2}}, {"from_start", int64_t{1}}}, {cache, at, added});
}

ValueId rotate_pairs(OpContext& c, ValueId x, ValueId cosine, ValueId sine, int64_t rotated, bool interleaved) {
  if (!c.ok()) return {};
  const Dim size = c.type(x).shape[3];
  if (!size.is_constant()) {
    c.fail_unsupported(str_cat("a symbolic head size, ", size.text(), ", is not supported"));
    return {};
  }
  const int64_t all = *size.constant();
  const ValueId turning = rotated == all ? x : slice(c, x, 3, 0, rotated);
  ValueId real;
  ValueId imaginary;
  if (interleaved) {
    const ValueId pairs = reshape(c, turning, {0, 0, 0, rotated / 2, 2});
    real = c.squeeze(slice(c, pairs, 4, 0, 1), {4});
    imaginary = c.squeeze(slice(c, pairs, 4, 1, 2), {4});
  } else {
    real = slice(c, turning, 3, 0, rotated / 2);
    imaginary = slice(c, turning, 3, rotated / 2, rotated);
  }
  const ValueId new_real = subtract(c, multiply(c, cosine, real), multiply(c, sine, imaginary));
  const ValueId new_imaginary = add(c, multiply(c, sine, real), multiply(c, cosine, imaginary));
  ValueId y;
  if (interleaved) {
    y = concat(c, 4, {c.unsqueeze(new_real, {4}), c.unsqueeze(new_imaginary, {4})});
    y = reshape(c, y, {0, 0, 0, rotated});
  } else {
    y = concat(c, 3, {new_real, new_imaginary});
  }
  return rotated == all ? y : concat(c, 3, {y, slice(c, x, 3, rotated, all)});
}

ValueId rows_of_group(OpContext& c, const ScaledAttention& a, ValueId x) {
  if (!c.ok() || !a.in_groups) return x;
  const int64_t times = a.heads / a.key_heads;
  const ValueId copies = c.emit("Expand", {}, {c.unsqueeze(x, {2}), c.int64s({1, 1, times, 1, 1})});
  const ValueId rows = multiply(c, c.size_of(x, 2), c.int64_scalar(times));
  return c.emit("Reshape", {}, {copies, concat(c, 0, {c.size_of(x, 0), c.int64s({1}), rows, c.size_of(x, 3)})});
}

ValueId scaled_attention(OpContext& c, const ScaledAttention& a, AttentionScores* between) {
  if (!c.ok()) return {};
  if (a.heads < 1 || a.key_heads < 1 || a.heads % a.key_heads != 0) {
    c.fail_invalid(str_cat(a.heads, " heads of queries do not divide by ", a.key_heads, " heads of keys"));
    return {};
  }
  const DType dtype = c.dtype(a.q);
  const Dim size = c.type(a.q).shape[3];
  if (!a.scale && !size.is_constant()) {
    c.fail_unsupported("a symbolic head size needs the attribute 'scale'");
    return {};
  }
  const double scale = a.scale.value_or(1.0 / std::sqrt(static_cast<double>(size.constant_or(1))));
  const int64_t times = a.heads / a.key_heads;
  ValueId queries = a.q;
  if (a.in_groups) {
    const ValueId rows = multiply(c, c.size_of(a.q, 2), c.int64_scalar(times));
    const ValueId shape = concat(c, 0, {c.size_of(a.q, 0), c.int64s({a.key_heads}), rows, c.size_of(a.q, 3)});
    queries = c.emit("Reshape", {}, {queries, shape});
  }
  const ValueId keys = a.in_groups ? a.k : repeated_heads(c, a.k, a.key_heads, times);
  const ValueId values = a.in_groups ? a.v : repeated_heads(c, a.v, a.key_heads, times);
  ValueId scores = matmul(c, queries, c.transpose(keys, {0, 1, 3, 2}));
  scores = multiply(c, scores, c.scalar(dtype, scale));
  if (a.softcap != 0) {
    const ValueId limit = c.scalar(dtype, a.softcap);
    scores = multiply(c, c.emit("Tanh", {}, {c.emit("Div", {}, {scores, limit})}), limit);
  }
  for (const ValueId bias : a.biases) scores = add_if(c, scores, bias);
  const ValueId unmasked = scores;
  if (a.allowed.valid()) {
    scores = c.emit("Where", {}, {a.allowed, scores, c.scalar(dtype, -std::numeric_limits<double>::infinity())});
  }
  ValueId weights;
  if (a.sink.valid()) {
    const ValueId shape =
        concat(c, 0, {c.size_of(scores, 0), c.size_of(scores, 1), c.size_of(scores, 2), c.int64s({1})});
    const ValueId column = c.emit("Expand", {}, {c.unsqueeze(c.cast(a.sink, dtype), {0, 2, 3}), shape});
    weights = c.emit("Softmax", {{"axis", int64_t{-1}}}, {concat(c, 3, {scores, column})});
    weights = slice(c, weights, 3, 0, -1);
  } else {
    weights = c.emit("Softmax", {{"axis", int64_t{-1}}}, {scores});
  }
  if (between != nullptr) *between = {unmasked, weights};
  ValueId y = matmul(c, weights, values);
  if (a.in_groups) {
    const ValueId shape = concat(c, 0, {c.size_of(a.q, 0), c.int64s({a.heads}), c.size_of(a.q, 2), c.size_of(a.v, 3)});
    y = c.emit("Reshape", {}, {y, shape});
  }
  return heads_behind(c, y);
}

}  // namespace aipu::frontend
