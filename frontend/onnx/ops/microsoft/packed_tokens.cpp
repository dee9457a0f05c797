// Sentences without their padding: rows of tokens, one sentence behind the other, and token_offset [batch, length],
// which begins with the places that they have in the padded sentences.
#include "frontend/onnx/ops/microsoft/packed_tokens.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/attention_heads.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

PackedTokens packed_tokens(OpContext& c, ValueId tokens, ValueId token_offset) {
  if (!c.ok()) return {};
  if (c.rank(token_offset) != 2 || c.rank(tokens) < 1) {
    c.fail_invalid(str_cat("takes token_offset [batch, length] of tokens, found ", c.type(token_offset).text(), " of ",
                           c.type(tokens).text()));
    return {};
  }
  const ValueId all = reshape(c, c.cast(token_offset, DType::kI64), {-1});
  const ValueId places = c.emit("Slice", {}, {all, c.int64s({0}), c.size_of(tokens, 0), c.int64s({0})});
  return {places, c.size_of(all, 0), c.type(token_offset).shape};
}

ValueId padded(OpContext& c, const PackedTokens& packed, ValueId tokens) {
  if (!c.ok()) return {};
  if (c.rank(tokens) != 2) {
    c.fail_invalid(str_cat("takes tokens [count, size], found ", c.type(tokens).text()));
    return {};
  }
  const ValueId blank =
      c.emit("Expand", {}, {c.scalar(c.dtype(tokens), 0), concat(c, 0, {packed.all, c.size_of(tokens, 1)})});
  const ValueId rows = c.emit("ScatterND", {}, {blank, c.unsqueeze(packed.places, {1}), tokens});
  if (!c.ok()) return {};
  const Shape shape = {packed.sentences[0], packed.sentences[1], c.type(tokens).shape[1]};
  return c.emit("Reshape", {{"shape", shape}}, {rows});
}

namespace {

// The tokens of [batch, length, size].
ValueId without_padding(OpContext& c, const PackedTokens& packed, ValueId x) {
  if (!c.ok()) return {};
  const Shape flat = {packed.sentences[0] * packed.sentences[1], c.type(x).shape.back()};
  return gather(c, c.emit("Reshape", {{"shape", flat}}, {x}), packed.places);
}

// Attention within each sentence; `ends` are where the sentences end, behind a 0.
ValueId attend_packed(OpContext& c, const PackedTokens& packed, ScaledAttention core, ValueId ends, ValueId bias) {
  if (c.ok() && c.rank(ends) != 1)
    c.fail_invalid(str_cat("takes cumulative lengths [batch + 1], found ", c.type(ends).text()));
  ends = c.cast(ends, DType::kI64);
  const ValueId lengths = subtract(c, slice(c, ends, 0, 1, INT64_MAX), slice(c, ends, 0, 0, -1));
  core.allowed = c.emit("Less", {}, {positions_along(c, core.k, 2), c.unsqueeze(lengths, {1, 2, 3})});
  core.biases = {bias};
  return without_padding(c, packed, scaled_attention(c, core));
}

// Keys behind the end of a sentence are hidden whatever mask_filter_value is.
ScoreAttributes take_packed_attributes(OpContext& c) {
  if (c.has_attribute("unidirectional")) c.fail_invalid("has no attribute unidirectional");
  return take_score_attributes(c);
}

}  // namespace

void packed_attention(OpContext& c) {
  c.expect_inputs(5, 6);
  const ScoreAttributes a = take_packed_attributes(c);
  const auto sizes = take_sizes(c);
  const ValueId projected = add_if(c, matmul(c, c.input(0), c.input(1)), c.input(2));
  const PackedTokens packed = packed_tokens(c, c.input(0), c.input(3));
  const ValueId sentences = padded(c, packed, projected);
  if (!c.ok()) return;
  c.set_output(0, attend_packed(c, packed, heads_of(c, sentences, sizes, a), c.input(4), c.input(5)));
}

// Queries, keys and values are tensors of their own, or one [tokens, heads, 3, size].
void packed_multi_head_attention(OpContext& c) {
  c.expect_inputs(1, 7);
  const ScoreAttributes a = take_packed_attributes(c);
  if (!c.ok()) return;
  if (!c.has_input(4) || !c.has_input(5)) return c.fail_invalid("needs token_offset and cumulative_sequence_length");
  if (c.has_input(1) != c.has_input(2)) return c.fail_invalid("key and value come together");
  ValueId parts[3] = {c.input(0), c.input(1), c.input(2)};
  if (!c.has_input(1)) {
    if (c.rank(parts[0]) != 4 || c.type(parts[0]).shape[1] != Dim(a.heads) || c.type(parts[0]).shape[2] != Dim(3))
      return c.fail_invalid(
          str_cat("queries, keys and values in one are [tokens, heads, 3, size], found ", c.type(parts[0]).text()));
    const ValueId together = parts[0];
    for (int64_t i = 0; i < 3; ++i) parts[i] = reshape(c, slice(c, together, 2, i, i + 1), {0, -1});
  }
  const PackedTokens packed = packed_tokens(c, c.input(0), c.input(4));
  ScaledAttention core;
  core.heads = core.key_heads = a.heads;
  core.scale = a.scale;
  int64_t begin = 0;
  for (int i = 0; c.ok() && i < 3; ++i) {
    if (c.rank(parts[i]) != 2)
      return c.fail_invalid(str_cat("takes tokens [count, size], found ", c.type(parts[i]).text()));
    const auto size = c.type(parts[i]).shape[1].constant();
    if (!size) return c.fail_unsupported(str_cat("a symbolic size, ", c.type(parts[i]).text(), ", is not supported"));
    if (*size % a.heads != 0) return c.fail_invalid(str_cat(*size, " elements do not divide by ", a.heads, " heads"));
    if (c.has_input(3)) parts[i] = add(c, parts[i], slice(c, c.input(3), 0, begin, begin + *size));
    begin += *size;
    (i == 0 ? core.q : i == 1 ? core.k : core.v) = heads_in_front(c, padded(c, packed, parts[i]), a.heads);
  }
  c.set_output(0, attend_packed(c, packed, core, c.input(5), c.input(6)));
}

// Padding is behind the words of a sentence; token_offset ends with the places of padding.
void remove_padding(OpContext& c) {
  c.expect_inputs(2, 2);
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  if (c.rank(x) != 3 || c.rank(c.input(1)) != 1)
    return c.fail_invalid(str_cat("takes sentences [batch, length, size] and a count for each, found ",
                                  c.type(x).text(), " and ", c.type(c.input(1)).text()));
  const DType dtype = c.dtype(c.input(1));
  const ValueId length = c.size_of(x, 1);
  const ValueId counts = c.emit("Min", {}, {c.cast(c.input(1), DType::kI64), length});
  const ValueId is_word = c.emit("Less", {}, {positions_along(c, x, 1), c.unsqueeze(counts, {1})});
  const ValueId flags = reshape(c, c.cast(is_word, DType::kI64), {-1});
  const ValueId total = c.emit("ReduceSum", {}, {counts, c.int64s({0})});
  // Where each place goes: words to the front, in order, padding behind all of them.
  const ValueId place = positions_along(c, flags, 0);
  const ValueId words_before = c.emit("CumSum", {{"exclusive", int64_t{1}}}, {flags, c.int64_scalar(0)});
  const ValueId rank =
      where(c, c.cast(flags, DType::kBool), words_before, add(c, total, subtract(c, place, words_before)));
  const ValueId offsets = c.emit("ScatterElements", {{"axis", int64_t{0}}}, {place, rank, place});
  if (!c.ok()) return;
  const Shape shape = c.type(x).shape;
  const ValueId rows = c.emit("Reshape", {{"shape", Shape{shape[0] * shape[1], shape[2]}}}, {x});
  c.set_output(0, gather(c, rows, c.emit("Slice", {}, {offsets, c.int64s({0}), total, c.int64s({0})})));
  if (c.wants_output(1))
    c.set_output(1, c.cast(c.emit("Reshape", {{"shape", Shape{shape[0], shape[1]}}}, {offsets}), dtype));
  if (c.wants_output(2)) {
    const ValueId ends = c.emit("CumSum", {}, {counts, c.int64_scalar(0)});
    c.set_output(2, c.cast(concat(c, 0, {c.int64s({0}), ends}), dtype));
  }
  if (c.wants_output(3)) c.set_output(3, c.cast(c.emit("ReduceMax", {}, {counts, c.int64s({0})}), dtype));
}

// Padding is zeros.
void restore_padding(OpContext& c) {
  c.expect_inputs(2, 2);
  c.set_output(0, padded(c, packed_tokens(c, c.input(0), c.input(1)), c.input(0)));
}

}  // namespace aipu::frontend::microsoft
