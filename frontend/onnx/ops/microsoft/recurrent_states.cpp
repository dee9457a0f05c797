// LinearAttention, GatedDeltaNet and CausalConvWithState: layers of language models whose memory has one size.
#include <algorithm>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"
#include "frontend/onnx/ops/linear_attention.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

// States before the last one, for those who take steps back.
void refuse_windows(OpContext& c) {
  if (c.take_int("state_window", 0) != 0) c.fail_unsupported("state_window is not supported");
}

void refuse_captures(OpContext& c) {
  if (c.take_int("state_update_capacity", 0) != 0 || c.wants_output(2))
    c.fail_unsupported("the output state_update is not supported");
}

}  // namespace

void linear_attention(OpContext& c) {
  refuse_windows(c);
  if (c.ok()) frontend::linear_attention(c);
}

void causal_conv_with_state(OpContext& c) {
  refuse_windows(c);
  refuse_captures(c);
  const int64_t axes = c.take_int("ndim", 1);
  CausalConvolution rule;
  rule.dilation = c.take_int("dilation", 1);
  rule.channels_last = c.take_int("channels_last", 0) != 0;
  const bool own_slice = c.take_int("input_channels", 0) != 0 || c.take_int("input_channel_offset", 0) != 0;
  const bool own_state = c.take_int("state_channels_last", -1) != -1 || c.take_int("state_length", 0) != 0;
  if (!c.ok()) return;
  if (axes != 1) return c.fail_unsupported(str_cat("ndim ", axes, " is not supported"));
  if (own_slice || own_state)
    return c.fail_unsupported("slices of channels and states of another form are not supported");
  if (rule.dilation < 1) return c.fail_invalid(str_cat("dilation is ", rule.dilation));
  causal_convolution(c, rule);
}

namespace {

// Unit vectors along the last axis.
ValueId normalized(OpContext& c, ValueId x) {
  const ValueId squares = c.emit("ReduceSum", {}, {multiply(c, x, x), c.int64s({-1})});
  return c.emit("Div", {}, {x, c.emit("Sqrt", {}, {add(c, squares, c.scalar(DType::kF32, 1e-6))})});
}

// The logarithm of the decay from a projection. The bias has an element for each head, or for each of its elements.
ValueId activated_decay(OpContext& c, ValueId decay, const std::string& kind, double lower_bound) {
  if (kind == "none") return decay;
  if (!c.has_input(7) || !c.has_input(8)) {
    c.fail_invalid(str_cat("gate_activation '", kind, "' needs a_log and dt_bias"));
    return {};
  }
  const Shape shape = c.type(decay).shape;
  const ValueId rate = c.unsqueeze(c.emit("Exp", {}, {c.cast(c.input(7), DType::kF32)}), {1});
  ValueId bias = c.cast(c.input(8), DType::kF32);
  const bool per_head = c.rank(bias) == 1 && c.type(bias).shape[0] == shape[2];
  bias = per_head ? c.unsqueeze(bias, {1}) : c.emit("Reshape", {{"shape", Shape{shape[2], shape[3]}}}, {bias});
  const ValueId x = add(c, decay, bias);
  if (kind == "softplus" || kind == "qwen") return c.emit("Neg", {}, {multiply(c, rate, c.emit("Softplus", {}, {x}))});
  return multiply(c, c.emit("Sigmoid", {}, {multiply(c, rate, x)}), c.scalar(DType::kF32, lower_bound));
}

}  // namespace

// Tokens of all sentences in a row, or [batch, length]; the state has values in front of keys.
void gated_delta_net(OpContext& c) {
  c.expect_inputs(1, 11);
  LinearRule rule;
  rule.scale = c.take_float("scale", 0);
  const std::string gate = c.take_string("gate_activation", "none");
  const std::string beta = c.take_string("beta_activation", "none");
  const double lower_bound = c.take_float("gate_lower_bound", -5);
  const bool normalizes = c.take_int("qk_l2_norm", 0) != 0;
  c.ignore("chunk_size");
  refuse_captures(c);
  if (!take_update_rule(c, &rule)) return;
  const std::string gates[] = {"none", "softplus", "qwen", "sigmoid", "kda"};
  if (std::ranges::find(gates, gate) == std::end(gates))
    return c.fail_invalid(str_cat("gate_activation is '", gate, "'"));
  if (beta != "none" && beta != "sigmoid") return c.fail_invalid(str_cat("beta_activation is '", beta, "'"));
  if (gate == "none" && (c.has_input(7) || c.has_input(8)))
    return c.fail_invalid("a_log and dt_bias are for a gate_activation");
  if (c.has_input(3)) return c.fail_unsupported("cu_seqlens, sentences of different lengths, are not supported");
  if (c.has_input(1) != c.has_input(2)) return c.fail_invalid("key and value come together");
  if (!c.has_input(1)) return c.fail_unsupported("queries, keys and values in one are not supported");
  if (c.has_input(4) != rule.gated)
    return c.fail_invalid(str_cat("the update rule", rule.gated ? " needs" : " has no", " decay"));
  if (c.has_input(5) != rule.delta)
    return c.fail_invalid(str_cat("the update rule", rule.delta ? " needs" : " has no", " beta"));
  const int rank = c.rank(c.input(0));
  if ((rank != 3 && rank != 4) || c.rank(c.input(1)) != rank || c.rank(c.input(2)) != rank)
    return c.fail_invalid(str_cat("query, key and value must have rank 3 or 4, found ", c.type(c.input(0)).text()));
  if (rank == 3 && !c.has_input(6))
    return c.fail_invalid("needs initial_state, which says how many sentences there are");
  const auto heads = c.type(c.input(0)).shape.end()[-2].constant();
  const auto value_heads = c.type(c.input(2)).shape.end()[-2].constant();
  if (!heads || !value_heads || *heads < 1 || *value_heads < 1 || *value_heads % *heads != 0)
    return c.fail_invalid(str_cat("heads of queries and values do not fit: ", c.type(c.input(0)).text(), ", ",
                                  c.type(c.input(2)).text()));
  rule.heads = rule.key_heads = *value_heads;
  const ValueId batch = c.has_input(6) ? c.size_of(c.input(6), 0) : c.size_of(c.input(0), 0);
  // [batch, length, heads, size] in float32
  const auto in_sentences = [&](ValueId x, bool has_size) {
    x = c.cast(x, DType::kF32);
    if (!has_size) x = c.unsqueeze(x, {-1});
    if (rank == 4 || !c.ok()) return x;
    if (c.type(c.input(6)).shape[0] == Dim(1)) return c.unsqueeze(x, {0});
    const ValueId shape = concat(c, 0, {batch, c.int64s({-1}), c.size_of(x, 1), c.size_of(x, 2)});
    return c.emit("Reshape", {}, {x, shape});
  };
  LinearSequences sequences;
  sequences.q = in_sentences(c.input(0), true);
  sequences.k = in_sentences(c.input(1), true);
  sequences.v = in_sentences(c.input(2), true);
  if (normalizes) sequences.q = normalized(c, sequences.q), sequences.k = normalized(c, sequences.k);
  sequences.q = repeated_inner_heads(c, sequences.q, *heads, *value_heads / *heads);
  sequences.k = repeated_inner_heads(c, sequences.k, *heads, *value_heads / *heads);
  if (rule.gated) {
    sequences.decay = in_sentences(c.input(4), c.rank(c.input(4)) == rank);
    sequences.decay = activated_decay(c, sequences.decay, gate, lower_bound);
  }
  if (rule.delta) {
    sequences.rate = in_sentences(c.input(5), false);
    if (beta == "sigmoid") sequences.rate = c.emit("Sigmoid", {}, {sequences.rate});
  }
  ValueId state;
  if (c.has_input(6)) {
    state = c.transpose(c.cast(c.input(6), DType::kF32), {0, 1, 3, 2});
  } else {
    const ValueId shape =
        concat(c, 0, {batch, c.int64s({*value_heads}), c.size_of(sequences.k, 3), c.size_of(sequences.v, 3)});
    state = c.emit("Expand", {}, {c.scalar(DType::kF32, 0), shape});
  }
  const LinearResult made = recurrent_attention(c, rule, sequences, state);
  if (!c.ok()) return;
  if (c.wants_output(1)) c.set_output(1, c.transpose(made.state, {0, 1, 3, 2}));
  Shape shape = c.type(c.input(2)).shape;
  c.set_output(0, c.cast(c.emit("Reshape", {{"shape", shape}}, {made.y}), c.dtype(c.input(0))));
}

}  // namespace aipu::frontend::microsoft
