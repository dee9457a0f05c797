// How the attention operators of this domain are written down. Private to this folder.
#pragma once

#include "frontend/onnx/ops/attention_parts.h"

namespace aipu::frontend::microsoft {

// What all of them say about the scores.
struct ScoreAttributes {
  int64_t heads = 0;
  bool causal = false;
  double mask_value = 0;
  std::optional<double> scale;
};
ScoreAttributes take_score_attributes(OpContext& c);

// How many columns of the weights, operand 1, are for queries, keys and values.
std::vector<int64_t> take_sizes(OpContext& c);

// Queries, keys and values of the sizes, which are one tensor.
ScaledAttention heads_of(OpContext& c, ValueId projected, const std::vector<int64_t>& sizes, const ScoreAttributes& a);

}  // namespace aipu::frontend::microsoft
