// What attention operators of all domains are made of. Private to frontend/onnx.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend {

// [batch, length, heads * size] as [batch, length, heads, size].
ValueId split_heads(OpContext& c, ValueId x, int64_t heads);
// [batch, length, heads * size] as [batch, heads, length, size], and back.
ValueId heads_in_front(OpContext& c, ValueId x, int64_t heads);
ValueId heads_behind(OpContext& c, ValueId x);
// Each of the `heads` of [batch, heads, length, size] `times` times, one after the other.
ValueId repeated_heads(OpContext& c, ValueId x, int64_t heads, int64_t times);
// int64: 0, 1, ... up to the extent of an axis.
ValueId positions_along(OpContext& c, ValueId x, int64_t axis);

// The cache [batch, heads, length, size] with the rows `added` of each sentence from `first` on: int64, [batch] or [1].
ValueId with_rows_at(OpContext& c, ValueId cache, ValueId added, ValueId first);

// Rotates pairs of the first `rotated` elements of the last axis of a rank 4 value; `cosine` and `sine` broadcast to
// the half of them. Pairs are neighbours if `interleaved`, halves otherwise.
ValueId rotate_pairs(OpContext& c, ValueId x, ValueId cosine, ValueId sine, int64_t rotated, bool interleaved);

// softmax(scale * q k^T + bias) v
struct ScaledAttention {
  ValueId q;  // [batch, heads, queries, size]
  ValueId k;  // [batch, key heads, keys, size]; each head serves heads / key heads of q
  ValueId v;  // [batch, key heads, keys, value size]
  int64_t heads = 0, key_heads = 0;
  std::optional<double> scale;  // absent: 1 / sqrt(size)
  double softcap = 0;           // 0: none
  std::vector<ValueId> biases;  // added to the scores; invalid ones are skipped
  ValueId allowed;              // bool, broadcast to the scores; false is -infinity
  ValueId sink;                 // [heads]: one more score, for a key without a value
  // Heads of queries that share keys are rows of one head: keys and values are read once for all of them, and copied
  // for none. Neither biases nor a sink then, and `allowed` is for rows_of_group() queries.
  bool in_groups = false;
};
// What operators may give beside the result: [batch, heads, queries, keys], before `allowed` hides any, and after the
// softmax.
struct AttentionScores {
  ValueId scores, weights;
};
// [batch, 1, queries, n] as often as there are heads of queries to one of keys, [batch, 1, times * queries, n].
ValueId rows_of_group(OpContext& c, const ScaledAttention& a, ValueId x);
// [batch, queries, heads * value size]
ValueId scaled_attention(OpContext& c, const ScaledAttention& a, AttentionScores* between = nullptr);

}  // namespace aipu::frontend
