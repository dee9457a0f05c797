// Attention whose memory is a state of one size, and the convolution in front of it; for the operators of ONNX and of
// com.microsoft. Private to frontend/onnx.
#pragma once

#include <string_view>

#include "frontend/onnx/op_context.h"

namespace aipu::frontend {

// One step, in float32: see linear_step().
struct LinearRule {
  bool gated = false;
  bool delta = false;
  int64_t heads = 0, key_heads = 0;  // the first is a multiple of the second
  double scale = 0;                  // 0: 1 / sqrt(key size)
};

// Reads an attribute 'update_rule'; false after a failure.
bool take_update_rule(OpContext& c, LinearRule* rule);

// Float32, [batch, length, heads, size] each.
struct LinearSequences {
  ValueId q, k, v;
  ValueId decay;  // of a gated rule: size 1 or that of keys
  ValueId rate;   // of a delta rule: size 1
};
struct LinearResult {
  ValueId state;  // [batch, key heads, key size, value size]
  ValueId y;      // [batch, length, key heads, heads / key heads, value size]
};
LinearResult recurrent_attention(OpContext& c, LinearRule rule, const LinearSequences& sequences, ValueId state);

// [batch, length, heads, size], each head `times` times in a row.
ValueId repeated_inner_heads(OpContext& c, ValueId x, int64_t heads, int64_t times);

struct CausalConvolution {
  int64_t dilation = 1;
  bool channels_last = false;  // the input and the states; channels may be several axes then
};
// CausalConvWithState with these rules.
void causal_convolution(OpContext& c, const CausalConvolution& rule);

}  // namespace aipu::frontend
