// Attention, QAttention and MultiHeadAttention.
#include <limits>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/attention_heads.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/quantized.h"

namespace aipu::frontend::microsoft {

ScoreAttributes take_score_attributes(OpContext& c) {
  ScoreAttributes a;
  a.heads = c.take_int("num_heads", 0);
  a.causal = c.take_int("unidirectional", 0) != 0;
  a.mask_value = c.take_float("mask_filter_value", -10000.0);
  if (c.has_attribute("scale")) a.scale = c.take_float("scale", 0);
  if (a.scale == 0) a.scale.reset();
  if (c.ok() && a.heads < 1) c.fail_invalid(str_cat("num_heads is ", a.heads));
  return a;
}

namespace {

// What a mask adds to the scores [batch, heads, queries, keys]: `hidden` where it is 0 or, as one or two numbers for
// each sentence, where a key is not below its end (and not from its beginning on).
ValueId mask_bias(OpContext& c, ValueId mask, ValueId q, ValueId keys, double hidden) {
  if (!mask.valid() || !c.ok()) return {};
  const Shape shape = c.type(mask).shape;
  const Dim batch = c.type(q).shape[0];
  ValueId visible;
  if (shape.size() == 1) {
    const ValueId key = positions_along(c, keys, 2);
    const bool begins = shape[0] == batch * Dim(2);
    if (!begins && shape[0] != batch) {
      c.fail_unsupported(
          str_cat("a mask of the type ", c.type(mask).text(), " for ", batch.text(), " sentences is not supported"));
      return {};
    }
    const auto numbers = [&](int64_t row) {
      const ValueId rows = begins ? reshape(c, mask, {2, -1}) : reshape(c, mask, {1, -1});
      return c.cast(c.unsqueeze(c.squeeze(slice(c, rows, 0, row, row + 1), {0}), {1, 2, 3}), DType::kI64);
    };
    visible = c.emit("Less", {}, {key, numbers(0)});
    if (begins) visible = c.emit("And", {}, {visible, c.emit("GreaterOrEqual", {}, {key, numbers(1)})});
  } else if (shape.size() == 2 || shape.size() == 3) {
    visible = c.unsqueeze(mask, shape.size() == 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1});
    visible = c.emit("Greater", {}, {visible, c.scalar(c.dtype(mask), 0)});
  } else {
    c.fail_unsupported(str_cat("a mask of the type ", c.type(mask).text(), " is not supported"));
    return {};
  }
  const DType dtype = c.dtype(q);
  return c.emit("Where", {}, {visible, c.scalar(dtype, 0), c.scalar(dtype, hidden)});
}

// bool [queries, keys]: queries are the last of the keys.
ValueId causal_mask(OpContext& c, ValueId q, ValueId keys, ValueId past) {
  ValueId query = c.unsqueeze(positions_along(c, q, 2), {1});
  if (past.valid()) query = add(c, query, c.size_of(past, 2));
  return c.emit("GreaterOrEqual", {}, {query, positions_along(c, keys, 2)});
}

}  // namespace

ScaledAttention heads_of(OpContext& c, ValueId projected, const std::vector<int64_t>& sizes, const ScoreAttributes& a) {
  ScaledAttention core;
  core.heads = core.key_heads = a.heads;
  core.scale = a.scale;
  int64_t begin = 0;
  for (ValueId* part : {&core.q, &core.k, &core.v}) {
    const int64_t size = sizes[static_cast<size_t>(part == &core.q ? 0 : part == &core.k ? 1 : 2)];
    if (size % a.heads != 0) c.fail_invalid(str_cat(size, " elements do not divide by ", a.heads, " heads"));
    *part = heads_in_front(c, slice(c, projected, -1, begin, begin + size), a.heads);
    begin += size;
  }
  return core;
}

namespace {

// Attention of projected queries, keys and values that are one tensor, and its past, which is one too.
void attend(OpContext& c, ValueId projected, const std::vector<int64_t>& sizes, const ScoreAttributes& a, ValueId mask,
            ValueId past, ValueId bias) {
  ScaledAttention core = heads_of(c, projected, sizes, a);
  ValueId past_key;
  if (past.valid()) {
    past_key = c.squeeze(slice(c, past, 0, 0, 1), {0});
    core.k = concat(c, 2, {past_key, core.k});
    core.v = concat(c, 2, {c.squeeze(slice(c, past, 0, 1, 2), {0}), core.v});
  }
  if (c.wants_output(1)) c.set_output(1, concat(c, 0, {c.unsqueeze(core.k, {0}), c.unsqueeze(core.v, {0})}));
  core.biases = {mask_bias(c, mask, core.q, core.k, a.mask_value), bias};
  if (a.causal) core.allowed = causal_mask(c, core.q, core.k, past_key);
  c.set_output(0, scaled_attention(c, core));
}

double lowest_of(DType dtype) {
  if (dtype == DType::kF16) return -65504;
  return dtype == DType::kF64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
}

void refuse_shared_buffers(OpContext& c) {
  if (c.take_int("past_present_share_buffer", 0) != 0) c.fail_unsupported("past_present_share_buffer is not supported");
  if (c.take_int("do_rotary", 0) != 0) c.fail_unsupported("do_rotary is not supported");
}

}  // namespace

std::vector<int64_t> take_sizes(OpContext& c) {
  auto sizes = c.take_ints("qkv_hidden_sizes").value_or(std::vector<int64_t>());
  if (!c.ok()) return sizes;
  const auto columns = c.rank(c.input(1)) == 2 ? c.type(c.input(1)).shape[1].constant() : std::nullopt;
  if (!columns) {
    c.fail_unsupported(str_cat("weights of the type ", c.type(c.input(1)).text(), " are not supported"));
    return sizes;
  }
  if (sizes.empty()) sizes.assign(3, *columns / 3);
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != *columns)
    c.fail_invalid(str_cat("qkv_hidden_sizes do not add up to the ", *columns, " columns of the weights"));
  return sizes;
}

void attention(OpContext& c) {
  c.expect_inputs(2, 7);
  const ScoreAttributes a = take_score_attributes(c);
  refuse_shared_buffers(c);
  c.ignore("rotary_embedding_dim");
  const auto sizes = take_sizes(c);
  if (!c.ok()) return;
  if (c.has_input(6)) return c.fail_unsupported("past_sequence_length is not supported");
  const ValueId projected = add_if(c, matmul(c, c.input(0), c.input(1)), c.input(2));
  attend(c, projected, sizes, a, c.input(3), c.input(4), c.input(5));
}

void q_attention(OpContext& c) {
  c.expect_inputs(5, 9);
  const ScoreAttributes a = take_score_attributes(c);
  refuse_shared_buffers(c);
  if (!c.ok()) return;
  const auto columns = c.rank(c.input(1)) == 2 ? c.type(c.input(1)).shape[1].constant() : std::nullopt;
  if (!columns)
    return c.fail_unsupported(str_cat("weights of the type ", c.type(c.input(1)).text(), " are not supported"));
  const ValueId projected =
      integer_product(c, {c.input(0), c.input(1), c.input(3), c.input(4), c.input(6), c.input(7), c.input(2)});
  attend(c, projected, std::vector<int64_t>(3, *columns / 3), a, c.input(5), c.input(8), {});
}

void multi_head_attention(OpContext& c) {
  c.expect_inputs(1, 10);
  const ScoreAttributes a = take_score_attributes(c);
  if (!c.ok()) return;
  if (c.has_input(8) || c.has_input(9))
    return c.fail_unsupported("past_sequence_length and cache_indirection are not supported");
  // Each of q, k and v as [batch, length, heads, size], or, of a cache, [batch, heads, length, size].
  ValueId parts[3] = {c.input(0), c.input(1), c.input(2)};
  bool cached = false;
  const auto unpacked = [&](ValueId packed, int64_t place) {
    return c.squeeze(slice(c, packed, 3, place, place + 1), {3});
  };
  if (c.rank(parts[0]) == 5) {
    const ValueId packed = parts[0];
    for (int64_t i = 0; i < 3; ++i) parts[i] = unpacked(packed, i);
  } else {
    parts[0] = split_heads(c, parts[0], a.heads);
    if (!c.has_input(1)) return c.fail_invalid("needs a key, or queries, keys and values packed into one");
    if (c.rank(parts[1]) == 5) {
      const ValueId packed = parts[1];
      for (int64_t i = 0; i < 2; ++i) parts[i + 1] = unpacked(packed, i);
    } else if (!c.has_input(2)) {
      return c.fail_invalid("needs a value");
    } else if (c.rank(parts[1]) == 4) {
      cached = true;
    } else {
      for (int i : {1, 2}) parts[i] = split_heads(c, parts[i], a.heads);
    }
  }
  if (!c.ok()) return;
  int64_t begin = 0;
  for (int i = 0; i < 3; ++i) {
    const bool is_cached = cached && i > 0;
    const auto size = c.type(parts[i]).shape[3].constant();
    if (c.has_input(3)) {
      if (!size) return c.fail_unsupported("a bias needs constant head sizes");
      const ValueId bias = reshape(c, slice(c, c.input(3), 0, begin, begin + a.heads * *size), {a.heads, *size});
      begin += a.heads * *size;
      if (!is_cached) parts[i] = add(c, parts[i], bias);
    }
    if (!is_cached) parts[i] = c.transpose(parts[i], {0, 2, 1, 3});
  }
  if (c.has_input(6) != c.has_input(7)) return c.fail_invalid("past_key and past_value come together");
  if (c.has_input(6)) {
    parts[1] = concat(c, 2, {c.input(6), parts[1]});
    parts[2] = concat(c, 2, {c.input(7), parts[2]});
  }
  if (c.wants_output(1)) c.set_output(1, parts[1]);
  if (c.wants_output(2)) c.set_output(2, parts[2]);
  ScaledAttention core;
  core.q = parts[0], core.k = parts[1], core.v = parts[2];
  core.heads = core.key_heads = a.heads;
  core.scale = a.scale;
  core.biases = {mask_bias(c, c.input(4), core.q, core.k, a.mask_value), c.input(5)};
  if (a.causal) core.allowed = causal_mask(c, core.q, core.k, c.input(6));
  AttentionScores between;
  c.set_output(0, scaled_attention(c, core, &between));
  if (!c.wants_output(3) || !c.ok()) return;
  // The scores with all that is added to them; keys that are hidden have the lowest number.
  const ValueId lowest = c.scalar(c.dtype(core.q), lowest_of(c.dtype(core.q)));
  c.set_output(3, a.causal ? where(c, core.allowed, between.scores, lowest) : between.scores);
}

}  // namespace aipu::frontend::microsoft
