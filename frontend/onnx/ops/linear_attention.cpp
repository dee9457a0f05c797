// LinearAttention and CausalConvWithState: the recurrent relatives of attention, with the state they hand on.
#include "frontend/onnx/ops/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/control_flow.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

// One step, in float32. State [batch, key heads, key size, value size]; q, k, v [batch, heads, size]; decay [batch, key
// heads, 1 or key size]; rate [batch, 1 or key heads, 1].
//
//   S = exp(decay) * S
//   S = S + k (rate * (v - S^T k))^T     without the delta rule: S + k v^T
//   y = scale * S^T q                    [batch, key heads, heads / key heads, value size]
std::vector<ValueId> linear_step(OpContext& c, const LinearRule& rule, const std::vector<ValueId>& in) {
  ValueId state = in[0];
  const ValueId q = reshape(c, in[1], {0, rule.key_heads, rule.heads / rule.key_heads, -1});
  size_t next = 4;
  if (rule.gated) state = multiply(c, state, c.unsqueeze(c.emit("Exp", {}, {in[next++]}), {3}));
  ValueId update = c.unsqueeze(in[3], {2});
  if (rule.delta) {
    update = subtract(c, update, matmul(c, c.unsqueeze(in[2], {2}), state));
    update = multiply(c, c.unsqueeze(in[next], {3}), update);
  }
  state = add(c, state, multiply(c, c.unsqueeze(in[2], {3}), update));
  return {state, scaled(c, matmul(c, q, state), rule.scale)};
}

}  // namespace

bool take_update_rule(OpContext& c, LinearRule* rule) {
  const std::string name = c.take_string("update_rule", "gated_delta");
  if (c.ok() && name != "linear" && name != "gated" && name != "delta" && name != "gated_delta")
    c.fail_invalid(str_cat("update_rule is '", name, "', expected one of: linear, gated, delta, gated_delta"));
  rule->gated = name.starts_with("gated");
  rule->delta = name.ends_with("delta");
  return c.ok();
}

LinearResult recurrent_attention(OpContext& c, LinearRule rule, const LinearSequences& given, ValueId state) {
  if (!c.ok()) return {};
  if (rule.scale == 0) {
    const auto size = c.type(given.q).shape[3].constant();
    if (!size) {
      c.fail_unsupported("a symbolic head size needs the attribute 'scale'");
      return {};
    }
    rule.scale = 1.0 / std::sqrt(static_cast<double>(*size));
  }
  std::vector<ValueId> sequences{given.q, given.k, given.v};
  if (rule.gated) sequences.push_back(given.decay);
  if (rule.delta) sequences.push_back(given.rate);
  std::vector<ValueId> inputs{state};
  std::vector<TensorType> formals{c.type(state)};
  for (const ValueId sequence : sequences) {
    inputs.push_back(sequence);
    TensorType type = c.type(sequence);
    type.shape.erase(type.shape.begin() + 1);
    formals.push_back(std::move(type));
  }
  ImportedSubgraph body = c.write_body(
      formals, [&](OpContext& inner, const std::vector<ValueId>& in) { return linear_step(inner, rule, in); });
  if (!c.ok()) return {};
  std::vector<std::unique_ptr<Graph>> bodies;
  bodies.push_back(std::move(body.graph));
  Attributes attributes;
  attributes.set("num_scan_inputs", static_cast<int64_t>(sequences.size()));
  attributes.set("scan_input_axes", std::vector<int64_t>(sequences.size(), 1));
  attributes.set("scan_output_axes", std::vector<int64_t>{1});
  const std::string& name = c.output_names[0];
  const std::vector<ValueId> made =
      emit_parts(c, "Scan", std::move(attributes), inputs, {name + "/state", name + "/steps"}, std::move(bodies));
  if (!c.ok()) return {};
  return {made[0], made[1]};
}

ValueId repeated_inner_heads(OpContext& c, ValueId x, int64_t heads, int64_t times) {
  if (times == 1 || !c.ok()) return x;
  Shape merged = c.type(x).shape;
  merged[2] = Dim(heads * times);
  const ValueId apart = c.unsqueeze(x, {3});
  return c.emit("Reshape", {{"shape", merged}},
                {concat(c, 3, std::vector<ValueId>(static_cast<size_t>(times), apart))});
}

void linear_attention(OpContext& c) {
  c.expect_inputs(3, 6);
  c.ignore("chunk_size");  // of an implementation
  LinearRule rule;
  rule.heads = c.take_int("q_num_heads", 0);
  rule.key_heads = c.take_int("kv_num_heads", 0);
  rule.scale = c.take_float("scale", 0);
  if (!take_update_rule(c, &rule)) return;
  // There may be fewer heads of queries (in com.microsoft), which are those of several heads of keys then.
  const int64_t repeats = rule.heads > 0 && rule.key_heads > rule.heads ? rule.key_heads / rule.heads : 1;
  if (rule.key_heads < 1 || rule.heads < 1 || rule.heads * repeats % rule.key_heads != 0)
    return c.fail_invalid(
        str_cat("q_num_heads is ", rule.heads, ", it must be a multiple of kv_num_heads, ", rule.key_heads));
  if (c.has_input(4) != rule.gated)
    return c.fail_invalid(str_cat("the update rule", rule.gated ? " needs" : " has no", " decay"));
  if (c.has_input(5) != rule.delta)
    return c.fail_invalid(str_cat("the update rule", rule.delta ? " needs" : " has no", " beta"));
  for (size_t i = 0; i < 3; ++i) {
    if (c.rank(c.input(i)) != 3)
      return c.fail_invalid(str_cat("query, key and value must have rank 3, found ", c.type(c.input(i)).text()));
  }
  const DType dtype = c.dtype(c.input(0));
  const auto per_head = [&](size_t i, int64_t heads) { return split_heads(c, c.cast(c.input(i), DType::kF32), heads); };
  LinearSequences sequences;
  sequences.q = repeated_inner_heads(c, per_head(0, rule.heads), rule.heads, repeats);
  rule.heads *= repeats;
  sequences.k = per_head(1, rule.key_heads);
  sequences.v = per_head(2, rule.key_heads);
  if (rule.gated) sequences.decay = per_head(4, rule.key_heads);
  if (rule.delta) sequences.rate = c.unsqueeze(c.cast(c.input(5), DType::kF32), {3});
  ValueId state;
  DType state_dtype = dtype;
  if (c.has_input(3)) {
    state_dtype = c.dtype(c.input(3));
    state = c.cast(c.input(3), DType::kF32);
  } else {
    // The batch is that of all three; any of them may be the one that knows it.
    const auto knows_batch = [&](ValueId value) { return c.type(value).shape[0].is_constant(); };
    const auto batched = std::find_if(c.inputs.begin(), c.inputs.begin() + 3, knows_batch);
    const ValueId batch = c.size_of(batched != c.inputs.begin() + 3 ? *batched : c.input(0), 0);
    const ValueId shape =
        concat(c, 0, {batch, c.int64s({rule.key_heads}), c.size_of(sequences.k, 3), c.size_of(sequences.v, 3)});
    state = c.emit("Expand", {}, {c.scalar(DType::kF32, 0), shape});
  }
  const LinearResult made = recurrent_attention(c, rule, sequences, state);
  if (!c.ok()) return;
  if (c.wants_output(1)) c.set_output(1, c.cast(made.state, state_dtype));
  c.set_output(0, c.cast(reshape(c, made.y, {0, 0, -1}), dtype));
}

void causal_conv_with_state(OpContext& c) { causal_convolution(c, {}); }

// A depthwise convolution over the input and the (k - 1) * dilation values before it, which the next call gets.
void causal_convolution(OpContext& c, const CausalConvolution& rule) {
  c.expect_inputs(2, 4);
  const std::string activation = c.take_string("activation", "none");
  if (!c.ok()) return;
  if (activation != "none" && activation != "silu" && activation != "swish")
    return c.fail_invalid(str_cat("activation is '", activation, "', expected one of: none, silu, swish"));
  const ValueId weight = c.input(1);
  const int rank = c.rank(c.input(0));
  if ((rule.channels_last ? rank < 3 : rank != 3) || c.rank(weight) != 3) {
    return c.fail_invalid(str_cat("input and weight must have rank 3, found ", c.type(c.input(0)).text(), " and ",
                                  c.type(weight).text()));
  }
  const auto channels = c.type(weight).shape[0].constant();
  const auto taps = c.type(weight).shape[2].constant();
  if (!channels || !taps || *taps < 1)
    return c.fail_unsupported(str_cat("a weight of the type ", c.type(weight).text(), " is not supported"));
  // [batch, channels, length]
  const auto channels_first = [&](ValueId value) {
    if (!rule.channels_last) return value;
    if (rank > 3) value = reshape(c, value, {0, 0, *channels});
    return c.transpose(value, {0, 2, 1});
  };
  const auto as_given = [&](ValueId value) {
    if (!rule.channels_last || !c.ok()) return value;
    value = c.transpose(value, {0, 2, 1});
    Shape shape = c.type(value).shape;
    if (rank == 3) return value;
    shape.pop_back();
    const Shape& given = c.type(c.input(0)).shape;
    shape.insert(shape.end(), given.begin() + 2, given.end());
    return c.emit("Reshape", {{"shape", shape}}, {value});
  };
  const ValueId x = channels_first(c.input(0));
  const int64_t before = (*taps - 1) * rule.dilation;
  ValueId past;
  if (c.has_input(3)) {
    past = channels_first(c.input(3));
  } else {
    const ValueId shape = concat(c, 0, {c.size_of(x, 0), c.int64s({*channels, before})});
    past = c.emit("Expand", {}, {c.scalar(c.dtype(x), 0), shape});
  }
  const ValueId all = *taps > 1 ? concat(c, 2, {past, x}) : x;
  std::vector<ValueId> operands{all, weight};
  if (c.has_input(2)) operands.push_back(c.input(2));
  ValueId y = c.emit("Conv", {{"group", *channels}, {"dilations", std::vector<int64_t>{rule.dilation}}}, operands);
  if (activation != "none") y = c.emit("Swish", {}, {y});
  c.set_output(0, as_given(y));
  if (c.wants_output(1)) {
    const int64_t end = std::numeric_limits<int64_t>::max();
    c.set_output(1, as_given(*taps > 1 ? slice(c, all, 2, -before, end) : past));
  }
}

}  // namespace aipu::frontend
