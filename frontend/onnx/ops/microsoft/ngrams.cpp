// Hashes of the n-grams that end with each token.
#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/packed_requests.h"

namespace aipu::frontend::microsoft {

namespace {

struct NGrams {
  int64_t most = 0, heads = 0, pad = 0;  // n-grams of 2 to `most` tokens, numbers for each n
  bool resets = false;                   // behind a token that is the end of a sentence
  ValueId end;                           // that token, a scalar; may be absent
  ValueId offsets;                       // of each number; may be absent
  ValueId fill;                          // what is where there is no token
};

// The operands of the token of the end and of the offsets.
NGrams take_ngrams(OpContext& c, size_t offsets, size_t end) {
  for (const char* name : {"max_ngram_size", "n_head_per_ngram", "pad_id"}) c.require_attribute(name);
  NGrams g;
  g.most = c.take_int("max_ngram_size", 0);
  g.heads = c.take_int("n_head_per_ngram", 0);
  g.pad = c.take_int("pad_id", 0);
  const bool resets = c.take_int("reset_on_eos", 0) != 0;
  constexpr int64_t kMost = 64;
  if (c.ok() && (g.most < 2 || g.most > kMost || g.heads < 1))
    c.fail_unsupported(str_cat("max_ngram_size ", g.most, " and n_head_per_ngram ", g.heads, " are not supported"));
  if (!c.ok()) return g;
  const DType dtype = c.dtype(c.input(0));
  g.offsets = c.input(offsets);
  if (c.has_input(end)) g.end = c.emit("Reshape", {{"shape", Shape{}}}, {c.input(end)});
  g.fill = g.end.valid() ? g.end : c.cast(c.int64_scalar(g.pad), dtype);
  g.resets = resets && g.end.valid();
  return g;
}

// Tokens, those in front of them and so on, of any one shape; and their segments, which may be none.
using Shifted = std::vector<ValueId>;

ValueId hashes(OpContext& c, const NGrams& g, const Shifted& tokens, const Shifted& segments) {
  if (!c.ok()) return {};
  ValueId cut;
  const auto cut_where = [&](ValueId flag) { cut = cut.valid() ? c.emit("Or", {}, {cut, flag}) : flag; };
  std::vector<ValueId> numbers;
  ValueId mix;
  for (int64_t k = 0; k < g.most; ++k) {
    const auto at = static_cast<size_t>(k);
    ValueId token = tokens[at];
    if (k > 0 && g.resets) cut_where(c.emit("Equal", {}, {token, g.end}));
    if (k > 0 && !segments.empty())
      cut_where(c.emit("Not", {}, {c.emit("Equal", {}, {segments[at], segments[at - 1]})}));
    if (cut.valid()) token = where(c, cut, g.fill, token);
    const ValueId factor = c.squeeze(slice(c, c.input(1), 0, k, k + 1), {0});
    const ValueId product = multiply(c, token, factor);
    mix = mix.valid() ? c.emit("BitwiseXor", {}, {mix, product}) : product;
    if (k == 0) continue;
    const ValueId sizes = slice(c, c.input(2), 0, (k - 1) * g.heads, k * g.heads);
    numbers.push_back(c.emit("Mod", {}, {c.unsqueeze(mix, {-1}), sizes}));
  }
  return add_if(c, concat(c, -1, std::move(numbers)), g.offsets);
}

}  // namespace

void ngram_hash_mapping(OpContext& c) {
  c.expect_inputs(3, 7);
  const NGrams g = take_ngrams(c, 4, 5);
  if (!c.ok()) return;
  const ValueId ids = c.input(0);
  if (c.rank(ids) != 2) return c.fail_invalid(str_cat("takes tokens [batch, length], found ", c.type(ids).text()));
  const int64_t before = g.most - 1;
  const ValueId shape = concat(c, 0, {c.size_of(ids, 0), c.int64s({before})});
  const auto extended = [&](ValueId past, ValueId x) { return concat(c, 1, {past, x}); };
  const auto shifted = [&](ValueId all) {
    Shifted parts;
    for (int64_t k = 0; k < g.most; ++k) parts.push_back(slice(c, all, 1, before - k, k == 0 ? INT64_MAX : -k));
    return parts;
  };
  const ValueId all = extended(c.has_input(3) ? c.input(3) : c.emit("Expand", {}, {g.fill, shape}), ids);
  Shifted segments;
  // Nothing ends in front of the first token.
  if (c.has_input(6))
    segments = shifted(extended(c.emit("Expand", {}, {slice(c, c.input(6), 1, 0, 1), shape}), c.input(6)));
  c.set_output(0, hashes(c, g, shifted(all), segments));
  if (c.wants_output(1)) c.set_output(1, slice(c, all, 1, -before, INT64_MAX));
}

void varlen_ngram_hash_mapping(OpContext& c) {
  c.expect_inputs(4, 10);
  const NGrams g = take_ngrams(c, 5, 6);
  if (!c.ok()) return;
  const ValueId ids = c.input(0);
  if (c.rank(ids) != 1) return c.fail_invalid(str_cat("takes a list of tokens, found ", c.type(ids).text()));
  const int64_t before = g.most - 1;
  const PackedRequests r = packed_requests(c, c.input(3), ids, before);
  const ValueId shape = concat(c, 0, {c.size_of(r.number, 0), c.int64s({before})});
  std::vector<ValueId> rows;
  for (int64_t k = 0; k < g.most; ++k) rows.push_back(rows_back(c, r, k));
  const auto shifted = [&](ValueId all) {
    Shifted parts;
    for (const ValueId row : rows) parts.push_back(gather(c, all, row));
    return parts;
  };
  const ValueId all = with_past(c, ids, c.has_input(4) ? c.input(4) : c.emit("Expand", {}, {g.fill, shape}));
  const bool has_segments = c.has_input(7);
  if (c.ok() && !has_segments && (c.has_input(8) || c.wants_output(2)))
    return c.fail_unsupported("past_segment_ids and present_segment_ids without segment_ids are not supported");
  ValueId segments;
  if (has_segments) {
    ValueId past = c.input(8);
    // Nothing ends in front of the first token.
    if (!past.valid()) past = c.emit("Expand", {}, {c.unsqueeze(gather(c, c.input(7), r.starts), {1}), shape});
    segments = with_past(c, c.input(7), past);
  }
  c.set_output(0, hashes(c, g, shifted(all), has_segments ? shifted(segments) : Shifted()));
  if (c.wants_output(1)) c.set_output(1, gather(c, all, last_rows(c, r)));
  if (c.wants_output(2)) c.set_output(2, gather(c, segments, last_rows(c, r)));
  const Captures captures = take_captures(c, r, 9, 3);
  if (!c.wants_output(3) || !c.ok()) return;
  // [capacity, before]: the places of what is known behind each token
  const auto range = [&](int64_t begin, int64_t end) {
    return c.emit("Range", {}, {c.int64_scalar(begin), c.int64_scalar(end), c.int64_scalar(1)});
  };
  const ValueId place = add(c, c.unsqueeze(range(0, captures.capacity), {1}), range(1 - before, 1));
  const ValueId most = subtract(c, c.unsqueeze(r.lengths, {1, 2}), c.int64_scalar(1));
  const ValueId kept = gather(c, all, rows_at(c, r, c.unsqueeze(r.number, {1, 2}), c.emit("Min", {}, {place, most})));
  const ValueId pad = c.cast(c.int64_scalar(g.pad), c.dtype(ids));
  c.set_output(3, where(c, c.unsqueeze(captures.wanted, {2}), kept, pad));
}

}  // namespace aipu::frontend::microsoft
