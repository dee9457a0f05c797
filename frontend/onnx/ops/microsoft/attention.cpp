// Attention, QAttention, MultiHeadAttention and DecoderMaskedMultiHeadAttention.
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
    // Behind the ends, where each sentence begins in tokens that lie one behind the other: these do not.
    if (shape[0] == batch * Dim(3) + Dim(2)) {
      mask = c.emit("Slice", {}, {mask, c.int64s({0}), c.size_of(q, 0), c.int64s({0})});
    } else if (!begins && shape[0] != batch) {
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

// bool [queries, keys]: queries are the last of the keys, behind those of `past`, int64 [1].
ValueId causal_mask(OpContext& c, ValueId q, ValueId keys, ValueId past) {
  const ValueId query = add_if(c, c.unsqueeze(positions_along(c, q, 2), {1}), past);
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

// Attention of projected queries, keys and values that are one tensor, and its past, which is one too: all of it, or a
// buffer of which `past_length` rows are there and which takes the new ones.
void attend(OpContext& c, ValueId projected, const std::vector<int64_t>& sizes, const ScoreAttributes& a, ValueId mask,
            ValueId past, ValueId bias, ValueId past_length = {}) {
  ScaledAttention core = heads_of(c, projected, sizes, a);
  ValueId before;
  if (past.valid()) {
    const ValueId past_key = c.squeeze(slice(c, past, 0, 0, 1), {0});
    const ValueId past_value = c.squeeze(slice(c, past, 0, 1, 2), {0});
    if (past_length.valid()) {
      before = reshape(c, c.cast(past_length, DType::kI64), {1});
      core.k = with_rows_at(c, past_key, core.k, before);
      core.v = with_rows_at(c, past_value, core.v, before);
    } else {
      before = c.size_of(past_key, 2);
      core.k = concat(c, 2, {past_key, core.k});
      core.v = concat(c, 2, {past_value, core.v});
    }
  }
  if (c.wants_output(1)) c.set_output(1, concat(c, 0, {c.unsqueeze(core.k, {0}), c.unsqueeze(core.v, {0})}));
  if (past_length.valid()) {
    const ValueId end = add(c, before, c.size_of(core.q, 2));
    for (ValueId* rows : {&core.k, &core.v}) *rows = c.emit("Slice", {}, {*rows, c.int64s({0}), end, c.int64s({2})});
  }
  core.biases = {mask_bias(c, mask, core.q, core.k, a.mask_value), bias};
  if (a.causal) core.allowed = causal_mask(c, core.q, core.k, before);
  c.set_output(0, scaled_attention(c, core));
}

double lowest_of(DType dtype) {
  if (dtype == DType::kF16) return -65504;
  return dtype == DType::kF64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
}

void refuse_rotary(OpContext& c) {
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
  refuse_rotary(c);
  c.ignore("rotary_embedding_dim");
  const bool shares = c.take_int("past_present_share_buffer", 0) != 0;
  const auto sizes = take_sizes(c);
  if (!c.ok()) return;
  if (shares && !(c.has_input(4) && c.has_input(6)))
    return c.fail_invalid("past_present_share_buffer needs past and past_sequence_length");
  const ValueId projected = add_if(c, matmul(c, c.input(0), c.input(1)), c.input(2));
  attend(c, projected, sizes, a, c.input(3), c.input(4), c.input(5), shares ? c.input(6) : ValueId());
}

void q_attention(OpContext& c) {
  c.expect_inputs(5, 9);
  const ScoreAttributes a = take_score_attributes(c);
  refuse_rotary(c);
  if (c.take_int("past_present_share_buffer", 0) != 0) c.fail_unsupported("past_present_share_buffer is not supported");
  if (!c.ok()) return;
  const auto columns = c.rank(c.input(1)) == 2 ? c.type(c.input(1)).shape[1].constant() : std::nullopt;
  if (!columns)
    return c.fail_unsupported(str_cat("weights of the type ", c.type(c.input(1)).text(), " are not supported"));
  const ValueId projected =
      integer_product(c, {c.input(0), c.input(1), c.input(3), c.input(4), c.input(6), c.input(7), c.input(2)});
  attend(c, projected, std::vector<int64_t>(3, *columns / 3), a, c.input(5), c.input(8), {});
}

namespace {

// What MultiHeadAttention and DecoderMaskedMultiHeadAttention are given, at other places.
struct MultiHeadOperands {
  ValueId query, key, value, bias, mask, added;
  ValueId past_key, past_value;
  ValueId past_length;  // where past and present are one buffer: how many of its rows are keys
  ValueId beams;        // [sentences, beams, positions] of a buffer: of which beam a row is
};

// Queries, keys and values as [batch, heads, length, size]; keys and values may be of a cache, which have no bias then.
bool take_parts(OpContext& c, const MultiHeadOperands& o, int64_t heads, ScaledAttention* core) {
  ValueId parts[3] = {o.query, o.key, o.value};
  bool cached = false;
  const auto unpacked = [&](ValueId packed, int64_t place) {
    return c.squeeze(slice(c, packed, 3, place, place + 1), {3});
  };
  if (c.rank(parts[0]) == 5) {
    const ValueId packed = parts[0];
    for (int64_t i = 0; i < 3; ++i) parts[i] = unpacked(packed, i);
  } else {
    parts[0] = split_heads(c, parts[0], heads);
    if (!parts[1].valid()) {
      c.fail_invalid("needs a key, or queries, keys and values packed into one");
    } else if (c.rank(parts[1]) == 5) {
      const ValueId packed = parts[1];
      for (int64_t i = 0; i < 2; ++i) parts[i + 1] = unpacked(packed, i);
    } else if (!parts[2].valid()) {
      c.fail_invalid("needs a value");
    } else if (c.rank(parts[1]) == 4) {
      cached = true;
    } else {
      for (int i : {1, 2}) parts[i] = split_heads(c, parts[i], heads);
    }
  }
  int64_t begin = 0;
  for (int i = 0; i < 3 && c.ok(); ++i) {
    const bool is_cached = cached && i > 0;
    const auto size = c.type(parts[i]).shape[3].constant();
    if (o.bias.valid()) {
      if (!size) {
        c.fail_unsupported("a bias needs constant head sizes");
        return false;
      }
      const ValueId bias = reshape(c, slice(c, o.bias, 0, begin, begin + heads * *size), {heads, *size});
      begin += heads * *size;
      if (!is_cached) parts[i] = add(c, parts[i], bias);
    }
    if (!is_cached) parts[i] = c.transpose(parts[i], {0, 2, 1, 3});
  }
  core->q = parts[0], core->k = parts[1], core->v = parts[2];
  return c.ok();
}

// The rows that each beam has, of those of all beams of its sentence; its own from `first` on.
ValueId rows_of_beams(OpContext& c, ValueId cache, ValueId beams, ValueId first) {
  if (!c.ok()) return {};
  const Shape by_sentence = c.type(beams).shape, rows = c.type(cache).shape;
  const ValueId apart =
      c.emit("Reshape", {{"shape", Shape{by_sentence[0], by_sentence[1], rows[1], rows[2], rows[3]}}}, {cache});
  const ValueId own = c.unsqueeze(positions_along(c, beams, 1), {1});
  const ValueId filled =
      c.emit("Slice", {}, {c.cast(beams, DType::kI64), c.int64s({0}), c.size_of(cache, 2), c.int64s({2})});
  const ValueId is_old = c.emit("Less", {}, {positions_along(c, cache, 2), first});
  const ValueId from = c.unsqueeze(c.transpose(where(c, is_old, filled, own), {0, 2, 1}), {3});
  const ValueId picked = c.emit("GatherND", {{"batch_dims", int64_t{2}}}, {c.transpose(apart, {0, 3, 1, 2, 4}), from});
  return c.emit("Reshape", {{"shape", rows}}, {c.transpose(picked, {0, 2, 3, 1, 4})});
}

// Puts the past in front of keys and values, or these into it, and gives what there is then.
void take_past(OpContext& c, const MultiHeadOperands& o, ScaledAttention* core) {
  if (o.past_key.valid() != o.past_value.valid()) return c.fail_invalid("past_key and past_value come together");
  if (o.past_length.valid()) {
    if (!o.past_key.valid()) return c.fail_invalid("past_sequence_length needs past_key and past_value");
    const ValueId first = reshape(c, c.cast(o.past_length, DType::kI64), {1});
    const ValueId end = add(c, first, c.size_of(core->q, 2));
    size_t output = 1;
    for (ValueId* rows : {&core->k, &core->v}) {
      const ValueId buffer = with_rows_at(c, output == 1 ? o.past_key : o.past_value, *rows, first);
      if (c.wants_output(output)) c.set_output(output, buffer);
      *rows = c.emit("Slice", {}, {buffer, c.int64s({0}), end, c.int64s({2})});
      if (o.beams.valid()) *rows = rows_of_beams(c, *rows, o.beams, first);
      ++output;
    }
    return;
  }
  if (o.past_key.valid()) {
    core->k = concat(c, 2, {o.past_key, core->k});
    core->v = concat(c, 2, {o.past_value, core->v});
  }
  if (c.wants_output(1)) c.set_output(1, core->k);
  if (c.wants_output(2)) c.set_output(2, core->v);
}

void attend(OpContext& c, const MultiHeadOperands& o, const ScoreAttributes& a) {
  ScaledAttention core;
  if (!take_parts(c, o, a.heads, &core)) return;
  ValueId past = o.past_key.valid() ? c.size_of(o.past_key, 2) : ValueId();
  if (o.past_length.valid()) past = reshape(c, c.cast(o.past_length, DType::kI64), {1});
  take_past(c, o, &core);
  core.heads = core.key_heads = a.heads;
  core.scale = a.scale;
  core.biases = {mask_bias(c, o.mask, core.q, core.k, a.mask_value), o.added};
  if (a.causal) core.allowed = causal_mask(c, core.q, core.k, past);
  AttentionScores between;
  c.set_output(0, scaled_attention(c, core, &between));
  if (!c.wants_output(3) || !c.ok()) return;
  // The scores with all that is added to them; keys that are hidden have the lowest number.
  const ValueId lowest = c.scalar(c.dtype(core.q), lowest_of(c.dtype(core.q)));
  c.set_output(3, a.causal ? where(c, core.allowed, between.scores, lowest) : between.scores);
}

}  // namespace

void multi_head_attention(OpContext& c) {
  c.expect_inputs(1, 10);
  const ScoreAttributes a = take_score_attributes(c);
  if (!c.ok()) return;
  if (c.has_input(9) && !c.has_input(8)) return c.fail_invalid("cache_indirection needs past_sequence_length");
  attend(c,
         {c.input(0), c.input(1), c.input(2), c.input(3), c.input(4), c.input(5), c.input(6), c.input(7), c.input(8),
          c.input(9)},
         a);
}

// One query for each beam; its keys and values are new rows of a buffer, or (rank 4) those of an encoder.
void decoder_masked_multi_head_attention(OpContext& c) {
  c.expect_inputs(1, 11);
  const ScoreAttributes a = take_score_attributes(c);
  const bool shares = c.take_int("past_present_share_buffer", 0) != 0;
  const bool gives_scores = c.take_int("output_qk", 0) != 0;
  if (!c.ok()) return;
  if (c.wants_output(3) && !gives_scores) return c.fail_invalid("the output qk needs the attribute output_qk");
  const bool is_cross = c.has_input(1) && c.rank(c.input(1)) == 4;
  MultiHeadOperands o{c.input(0), c.input(1), c.input(2), c.input(10), c.input(3), c.input(4), {}, {}, {}, {}};
  if (!is_cross) {
    if (!c.has_input(5) || !c.has_input(6)) return c.fail_invalid("needs past_key and past_value");
    o.past_key = c.input(5), o.past_value = c.input(6);
    if (shares && !c.has_input(7)) return c.fail_invalid("past_present_share_buffer needs past_sequence_length");
    if (shares) o.past_length = c.input(7), o.beams = c.input(9);
    if (!shares && c.has_input(9)) return c.fail_invalid("cache_indirection needs past_present_share_buffer");
    // ONNX Runtime's kernel reads other columns there than the schema says.
    if (o.beams.valid() && o.added.valid())
      return c.fail_unsupported("attention_bias beside cache_indirection is not supported");
  }
  if (!c.has_input(1)) {
    const auto size = c.type(c.input(5)).rank() == 4 ? c.type(c.input(5)).shape[3].constant() : std::nullopt;
    if (is_cross || !size) return c.fail_unsupported("packed queries, keys and values need a constant head size");
    const int64_t width = a.heads * *size;
    o.query = slice(c, c.input(0), 2, 0, width);
    o.key = slice(c, c.input(0), 2, width, 2 * width);
    o.value = slice(c, c.input(0), 2, 2 * width, INT64_MAX);
  }
  attend(c, o, a);
}

}  // namespace aipu::frontend::microsoft
