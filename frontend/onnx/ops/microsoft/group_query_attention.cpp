// GroupQueryAttention, whose cache grows by what is new, SparseAttention, and RotaryEmbedding.
#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

// The half turns for each position, of rank 4: [batch, 1, length, size / 2] if heads come first.
ValueId turns(OpContext& c, ValueId cache, ValueId positions, bool heads_first) {
  const ValueId rows = c.emit("Gather", {{"axis", int64_t{0}}, {"from_start", int64_t{1}}}, {cache, positions});
  return c.unsqueeze(rows, {heads_first ? 1 : 2});
}

int64_t rotated_elements(OpContext& c, ValueId cache) {
  const auto half = c.rank(cache) == 2 ? c.type(cache).shape[1].constant() : std::nullopt;
  if (!half) c.fail_unsupported(str_cat("a cache of cosines of the type ", c.type(cache).text(), " is not supported"));
  return half.value_or(0) * 2;
}

// The cache with the new rows of each sentence from `first` on; as long as all keys there are.
ValueId extended(OpContext& c, ValueId past, ValueId added, ValueId first, const Dim& length) {
  ValueId cache;
  if (past.valid() && length == c.type(past).shape[2]) {
    cache = past;
  } else if (past.valid()) {
    Shape pads(8, Dim(0));
    pads[6] = length - c.type(past).shape[2];
    cache = c.emit("Pad", {{"pads", pads}}, {past, ValueId(), c.scalar(c.dtype(past), 0)});
  } else {
    const Shape shape = c.type(added).shape;
    cache = c.emit("Expand", {{"shape", Shape{shape[0], shape[1], length, shape[3]}}}, {c.scalar(c.dtype(added), 0)});
  }
  return with_rows_at(c, cache, added, first);
}

// A cache of the last `capacity` or fewer positions of each sentence: all while they fit, else as many as the
// operator's schema says, which drops capacity - window + 1 at once. Row i holds position T - L(T) + i of the T that
// there were:
//
//   G = capacity - window + 1;  L(T) = T - G * ceil(max(T - capacity, 0) / G)
//
// A step works on a longer copy, [old rows, new rows] behind one another, and keeps a piece of it.
class SlidingCache {
 public:
  // `before` and `after`: int64 [batch], how many positions each sentence had and has.
  SlidingCache(OpContext& c, int64_t capacity, int64_t window, ValueId before, ValueId after)
      : c_(c), capacity_(capacity), dropped_at_once_(capacity - window + 1), after_(after) {
    const ValueId first_before = subtract(c, before, kept(before)), first_after = subtract(c, after, kept(after));
    begin_ = kept(before);
    first_ = first_before;
    shift_ = subtract(c, first_after, first_before);
  }

  ValueId staged(ValueId past, ValueId added) {
    if (!c_.ok()) return {};
    return extended(c_, past, added, begin_, Dim(capacity_) + c_.type(added).shape[2]);
  }
  // What the next step gets: rows from `shift_` on; those behind the last position are anything.
  ValueId present(ValueId staged) {
    if (!c_.ok()) return {};
    const ValueId rows = c_.emit("Range", {}, {c_.int64_scalar(0), c_.int64_scalar(capacity_), c_.int64_scalar(1)});
    const ValueId last = subtract(c_, c_.size_of(staged, 2), c_.int64_scalar(1));
    ValueId at = c_.emit("Min", {}, {add(c_, c_.unsqueeze(shift_, {1, 2}), rows), last});
    const ValueId shape = concat(c_, 0, {c_.size_of(staged, 0), c_.size_of(staged, 1), c_.int64s({capacity_})});
    at = c_.unsqueeze(c_.emit("Expand", {}, {at, shape}), {3});
    return c_.emit("GatherND", {{"batch_dims", int64_t{2}}}, {staged, at});
  }
  // [batch, 1, 1, rows]: the positions of the staged rows.
  ValueId positions(ValueId staged) { return add(c_, positions_along(c_, staged, 2), c_.unsqueeze(first_, {1, 2, 3})); }
  // Values that nobody has written would make NaN of a weight of 0.
  ValueId written(ValueId values, ValueId positions) {
    const ValueId is_there = c_.emit("Less", {}, {positions, c_.unsqueeze(after_, {1, 2, 3})});
    return where(c_, c_.transpose(is_there, {0, 1, 3, 2}), values, c_.scalar(c_.dtype(values), 0));
  }
  // The columns of a bias, which has one for each position that there ever was, for the staged rows.
  ValueId columns(ValueId bias, ValueId positions) {
    if (!bias.valid() || !c_.ok()) return bias;
    const ValueId last = subtract(c_, c_.size_of(bias, 3), c_.int64_scalar(1));
    const ValueId at = c_.emit("Min", {}, {positions, last});
    const ValueId rows = concat(c_, 0, {c_.size_of(positions, 0), c_.size_of(bias, 1), c_.size_of(bias, 2)});
    const ValueId all = c_.emit("Expand", {}, {bias, concat(c_, 0, {rows, c_.int64s({1})})});
    const ValueId picked = c_.emit("Expand", {}, {at, concat(c_, 0, {rows, c_.int64s({1})})});
    return c_.emit("GatherElements", {{"axis", int64_t{3}}}, {all, picked});
  }

 private:
  ValueId kept(ValueId positions) {
    const ValueId over = c_.emit("Max", {}, {subtract(c_, positions, c_.int64_scalar(capacity_)), c_.int64_scalar(0)});
    const ValueId group = c_.int64_scalar(dropped_at_once_);
    const ValueId groups = c_.emit("Div", {}, {add(c_, over, c_.int64_scalar(dropped_at_once_ - 1)), group});
    return subtract(c_, positions, multiply(c_, groups, group));
  }

  OpContext& c_;
  const int64_t capacity_, dropped_at_once_;
  ValueId after_, begin_, first_, shift_;
};

// How keys or values lie in the cache: as they are, or as integers of 8 bits, or as pairs of such of 4 in bytes.
struct CacheFormat {
  ValueId scale;  // invalid: as they are
  DType dtype = DType::kVoid;
  int64_t size = 0;  // of a head
  bool in_pairs() const { return dtype == DType::kU8; }
};

CacheFormat take_cache_format(OpContext& c, const char* attribute, size_t cache, size_t scale, int64_t bits) {
  CacheFormat format;
  const std::string kind = c.take_string(attribute, "NONE");
  if (!c.ok() || kind == "NONE") {
    if (c.has_input(scale)) c.fail_invalid(str_cat("has a scale of the cache, but ", attribute, " is NONE"));
    return format;
  }
  if (kind != "PER_TENSOR" && kind != "PER_CHANNEL")
    c.fail_invalid(str_cat(attribute, " is '", kind, "', expected one of: NONE, PER_TENSOR, PER_CHANNEL"));
  if (!c.has_input(scale) || !c.has_input(cache)) {
    c.fail_invalid("a quantised cache needs past_key, past_value, k_scale and v_scale");
    return format;
  }
  format.scale = c.cast(c.input(scale), DType::kF32);
  format.dtype = c.dtype(c.input(cache));
  const bool fits = format.dtype == DType::kU8 ? bits == 4 : format.dtype == DType::kI8 && bits == 8;
  if (c.ok() && !fits) {
    c.fail_unsupported(str_cat("a cache of the type ", c.type(c.input(cache)).text(), " with kv_cache_bit_width ", bits,
                               " is not supported"));
  }
  return format;
}

ValueId to_cache(OpContext& c, ValueId x, const CacheFormat& format) {
  if (!format.scale.valid() || !c.ok()) return x;
  const double limit = format.in_pairs() ? 8 : 128;
  x = c.emit("Round", {}, {c.emit("Div", {}, {c.cast(x, DType::kF32), format.scale})});
  x = c.emit("Clip", {}, {x, c.scalar(DType::kF32, -limit), c.scalar(DType::kF32, limit - 1)});
  if (!format.in_pairs()) return c.cast(x, DType::kI8);
  const ValueId codes = c.cast(add(c, x, c.scalar(DType::kF32, limit)), DType::kU8);
  const ValueId pairs = reshape(c, codes, {0, 0, 0, format.size / 2, 2});
  const auto half = [&](int64_t k) { return c.squeeze(slice(c, pairs, 4, k, k + 1), {4}); };
  const ValueId high = c.emit("BitShift", {{"direction", std::string("LEFT")}}, {half(1), c.scalar(DType::kU8, 4)});
  return c.emit("BitwiseOr", {}, {half(0), high});
}

ValueId from_cache(OpContext& c, ValueId cache, const CacheFormat& format, DType dtype) {
  if (!format.scale.valid() || !c.ok()) return cache;
  ValueId x = cache;
  if (format.in_pairs()) {
    const ValueId low = c.emit("BitwiseAnd", {}, {x, c.scalar(DType::kU8, 15)});
    const ValueId high = c.emit("BitShift", {{"direction", std::string("RIGHT")}}, {x, c.scalar(DType::kU8, 4)});
    x = concat(c, 4, {c.unsqueeze(low, {4}), c.unsqueeze(high, {4})});
    x = subtract(c, c.cast(reshape(c, x, {0, 0, 0, format.size}), DType::kF32), c.scalar(DType::kF32, 8));
  }
  return c.cast(multiply(c, c.cast(x, DType::kF32), format.scale), dtype);
}

// Queries, keys and values as heads in front: three operands, or one that has them side by side.
bool take_heads(OpContext& c, ScaledAttention* core) {
  ValueId parts[3] = {c.input(0), c.input(1), c.input(2)};
  if (!c.has_input(1)) {
    const auto width = c.type(parts[0]).shape.empty() ? std::nullopt : c.type(parts[0]).shape.back().constant();
    const int64_t all = core->heads + 2 * core->key_heads;
    if (!width || *width % all != 0) {
      c.fail_invalid(str_cat("packed operands ", c.type(parts[0]).text(), " do not divide by ", all, " heads"));
      return false;
    }
    const int64_t size = *width / all;
    const ValueId packed = parts[0];
    parts[0] = slice(c, packed, -1, 0, core->heads * size);
    parts[1] = slice(c, packed, -1, core->heads * size, (core->heads + core->key_heads) * size);
    parts[2] = slice(c, packed, -1, (core->heads + core->key_heads) * size, *width);
  }
  core->q = heads_in_front(c, parts[0], core->heads);
  core->k = heads_in_front(c, parts[1], core->key_heads);
  core->v = heads_in_front(c, parts[2], core->key_heads);
  return c.ok();
}

// Turns queries and keys by their positions.
void rotate(OpContext& c, ScaledAttention* core, ValueId cosines, ValueId sines, ValueId positions, bool interleaved) {
  const ValueId cosine = turns(c, cosines, positions, true);
  const ValueId sine = turns(c, sines, positions, true);
  const int64_t rotated = rotated_elements(c, cosines);
  core->q = rotate_pairs(c, core->q, cosine, sine, rotated, interleaved);
  core->k = rotate_pairs(c, core->k, cosine, sine, rotated, interleaved);
}

}  // namespace

void group_query_attention(OpContext& c) {
  c.expect_inputs(1, 17);
  ScaledAttention core;
  core.heads = c.take_int("num_heads", 0);
  core.key_heads = c.take_int("kv_num_heads", 0);
  core.softcap = c.take_float("softcap", 0);
  if (const double scale = c.take_float("scale", 0); scale != 0) core.scale = scale;
  const bool causal = c.take_int("causal", 1) != 0;
  const bool rotates = c.take_int("do_rotary", 0) != 0;
  const bool interleaved = c.take_int("rotary_interleaved", 0) != 0;
  const bool smooth = c.take_int("smooth_softmax", 0) > 0;
  const int64_t window = c.take_int("local_window_size", -1);
  const double qk_epsilon = c.take_float("qk_norm_epsilon", 1e-6);
  const double q_epsilon = c.take_float("q_norm_epsilon", qk_epsilon);
  const double k_epsilon = c.take_float("k_norm_epsilon", qk_epsilon);
  const int64_t bits = c.take_int("kv_cache_bit_width", 0);
  CacheFormat key_format = take_cache_format(c, "k_quant_type", 3, 12, bits);
  CacheFormat value_format = take_cache_format(c, "v_quant_type", 4, 13, bits);
  const bool slides = c.take_int("sliding_window_cache", 0) != 0;
  const int64_t given_scores = c.take_int("qk_output", 0);
  if (!c.ok()) return;
  if (core.heads < 1 || core.key_heads < 1) return c.fail_invalid("needs a positive num_heads and kv_num_heads");
  if (given_scores < 0 || given_scores > 2) return c.fail_invalid(str_cat("qk_output is ", given_scores));
  if (c.wants_output(3) != (given_scores != 0))
    return c.fail_invalid("the output output_qk and the attribute qk_output come together");
  if (!c.has_input(5) || !c.has_input(6)) return c.fail_invalid("needs seqlens_k and total_sequence_length");
  if (c.has_input(3) != c.has_input(4)) return c.fail_invalid("past_key and past_value come together");
  const auto capacity = c.rank(c.input(3)) == 4 ? c.type(c.input(3)).shape[2].constant() : std::nullopt;
  if (slides) {
    if (!capacity) return c.fail_unsupported("sliding_window_cache needs a past_key whose length the model says");
    if (!causal || window < 1 || *capacity < window)
      return c.fail_invalid(str_cat("sliding_window_cache of ", *capacity, " rows needs causal attention and a ",
                                    "local_window_size that fits, found ", window));
    if (given_scores != 0) return c.fail_unsupported("qk_output beside sliding_window_cache is not supported");
  }

  if (!take_heads(c, &core)) return;
  for (CacheFormat* format : {&key_format, &value_format}) {
    const auto size = c.type(format == &key_format ? core.k : core.v).shape[3].constant();
    if (format->in_pairs() && (!size || *size % 2 != 0))
      return c.fail_unsupported("a cache of pairs of elements needs heads of a constant and even size");
    format->size = size.value_or(0);
  }
  const auto normalized = [&](ValueId x, ValueId weight, double epsilon) {
    return weight.valid() ? c.emit("RMSNormalization", {{"axis", int64_t{-1}}, {"epsilon", epsilon}}, {x, weight}) : x;
  };
  core.q = normalized(core.q, c.input(14), q_epsilon);
  core.k = normalized(core.k, c.input(15), k_epsilon);
  if (!c.ok()) return;

  const auto total = c.graph().require_data(c.input(6), 1);  // the extent of the outputs
  if (!total || total->size() != 1) return c.fail_invalid("total_sequence_length is one integer");
  const Dim past_length = c.has_input(3) ? c.type(c.input(3)).shape[2] : Dim(0);
  // A cache of a fixed length, to which the number of keys says how much of it there is, is a buffer that keeps its
  // length: new rows are written into it, those behind the last key are not looked at.
  const bool in_place = !slides && past_length.is_constant() && past_length != Dim(0) && !total->front().is_constant();
  const Dim length = in_place ? past_length : graph::max(past_length, total->front());
  // Of each sentence, the place of its first new key: all that there are but the new ones, 0 where these are padded.
  const ValueId counts = add(c, c.cast(reshape(c, c.input(5), {-1}), DType::kI64), c.int64_scalar(1));
  const ValueId added = c.has_input(16) ? c.cast(c.input(16), DType::kI64) : c.size_of(core.q, 2);
  const ValueId first = c.emit("Max", {}, {subtract(c, counts, added), c.int64_scalar(0)});
  // [batch, queries]
  const ValueId at = add(c, c.unsqueeze(first, {1}), positions_along(c, core.q, 2));
  if (rotates) {
    if (!c.has_input(7) || !c.has_input(8)) return c.fail_invalid("do_rotary needs cos_cache and sin_cache");
    rotate(c, &core, c.input(7), c.input(8), c.has_input(9) ? c.input(9) : at, interleaved);
  }
  const DType dtype = c.dtype(core.q);
  const ValueId new_keys = to_cache(c, core.k, key_format), new_values = to_cache(c, core.v, value_format);
  ValueId bias = c.input(10);
  ValueId key;  // positions
  if (slides) {
    SlidingCache cache(c, *capacity, window, first, counts);
    const ValueId keys = cache.staged(c.input(3), new_keys), values = cache.staged(c.input(4), new_values);
    if (c.wants_output(1)) c.set_output(1, cache.present(keys));
    if (c.wants_output(2)) c.set_output(2, cache.present(values));
    key = cache.positions(keys);
    core.k = from_cache(c, keys, key_format, dtype);
    core.v = cache.written(from_cache(c, values, value_format, dtype), key);
    bias = cache.columns(bias, key);
  } else {
    ValueId keys = extended(c, c.input(3), new_keys, first, length);
    ValueId values = extended(c, c.input(4), new_values, first, length);
    if (c.wants_output(1)) c.set_output(1, keys);
    if (c.wants_output(2)) c.set_output(2, values);
    if (in_place) {
      const ValueId filled = reshape(c, c.cast(c.input(6), DType::kI64), {1});
      for (ValueId* rows : {&keys, &values}) *rows = c.emit("Slice", {}, {*rows, c.int64s({0}), filled, c.int64s({2})});
    }
    core.k = from_cache(c, keys, key_format, dtype);
    core.v = from_cache(c, values, value_format, dtype);
    key = positions_along(c, core.k, 2);
  }

  core.biases = {bias};
  if (c.has_input(11)) {
    core.sink = c.input(11);
  } else if (smooth) {
    core.sink = c.emit("Expand", {}, {c.scalar(c.dtype(core.q), 0), c.int64s({core.heads})});
  }
  const bool alike =
      !c.has_input(10) && !core.sink.valid() && given_scores == 0;  // heads of queries with the same keys
  core.in_groups = alike && core.heads > core.key_heads;
  const ValueId query = rows_of_group(c, core, c.unsqueeze(at, {1, 3}));
  if (causal) {
    core.allowed = c.emit("GreaterOrEqual", {}, {query, key});
  } else {
    core.allowed = c.emit("Less", {}, {key, c.unsqueeze(counts, {1, 2, 3})});
  }
  if (window > 0) {
    const ValueId oldest = subtract(c, query, c.int64_scalar(window - 1));  // the window counts the query's own key
    core.allowed = c.emit("And", {}, {core.allowed, c.emit("GreaterOrEqual", {}, {key, oldest})});
  }
  AttentionScores between;
  c.set_output(0, scaled_attention(c, core, &between));
  if (given_scores == 2) c.set_output(3, between.weights);
  if (given_scores == 1) c.set_output(3, where(c, core.allowed, between.scores, c.scalar(dtype, 0)));
}

// Attention to those blocks of keys that a table of each head's layout has: rows of queries and columns of keys in
// compressed form. Keys and values lie in a cache of all positions.
void sparse_attention(OpContext& c) {
  c.expect_inputs(1, 11);
  ScaledAttention core;
  core.heads = c.take_int("num_heads", 0);
  core.key_heads = c.take_int("kv_num_heads", 0);
  const int64_t block = c.take_int("sparse_block_size", 0);
  if (const double scale = c.take_float("scale", 0); scale != 0) core.scale = scale;
  const bool rotates = c.take_int("do_rotary", 0) != 0;
  const bool interleaved = c.take_int("rotary_interleaved", 0) != 0;
  if (!c.ok()) return;
  if (core.heads < 1 || core.key_heads < 1 || block < 1)
    return c.fail_invalid("needs a positive num_heads, kv_num_heads and sparse_block_size");
  for (size_t i = 3; i < 9; ++i) {
    if (!c.has_input(i)) return c.fail_invalid(str_cat("needs input ", i));
  }
  const auto layouts = c.rank(c.input(5)) == 2 ? c.type(c.input(5)).shape[0].constant() : std::nullopt;
  const auto edges = layouts ? c.type(c.input(5)).shape[1].constant() : std::nullopt;
  const auto places = c.rank(c.input(6)) == 2 ? c.type(c.input(6)).shape[1].constant() : std::nullopt;
  if (!edges || !places || *layouts < 1 || *edges < 1 || core.heads % *layouts != 0) {
    return c.fail_invalid(str_cat("takes block_row_indices [layouts, blocks + 1] and block_col_indices, found ",
                                  c.type(c.input(5)).text(), " and ", c.type(c.input(6)).text()));
  }
  if (!take_heads(c, &core)) return;
  // Of each sentence, the place of its first new key; [batch, queries] of all.
  const ValueId counts = c.cast(reshape(c, c.input(8), {-1}), DType::kI64);
  const ValueId total = c.cast(reshape(c, c.input(7), {-1}), DType::kI64);
  const ValueId added = c.size_of(core.q, 2);
  // A prompt begins at 0, whatever padding it has behind.
  const ValueId first = where(c, c.emit("Equal", {}, {total, added}), c.int64_scalar(0), subtract(c, counts, added));
  const ValueId at = add(c, c.unsqueeze(first, {1}), positions_along(c, core.q, 2));
  if (rotates) {
    if (!c.has_input(9) || !c.has_input(10)) return c.fail_invalid("do_rotary needs cos_cache and sin_cache");
    rotate(c, &core, c.input(9), c.input(10), at, interleaved);
  }
  if (!c.ok()) return;
  const Dim length = c.type(c.input(3)).shape[2];
  core.k = extended(c, c.input(3), core.k, first, length);
  core.v = extended(c, c.input(4), core.v, first, length);
  if (c.wants_output(1)) c.set_output(1, core.k);
  if (c.wants_output(2)) c.set_output(2, core.v);

  // The table as [layouts, rows, columns]: place p of the columns is of the rows whose edges are around it.
  const int64_t rows = *edges - 1;
  const ValueId ends = c.cast(c.input(5), DType::kI64);
  const ValueId place = c.emit("Range", {}, {c.int64_scalar(0), c.int64_scalar(*places), c.int64_scalar(1)});
  const auto edge = [&](int64_t begin) { return c.unsqueeze(slice(c, ends, 1, begin, begin + rows), {2}); };
  const ValueId within = c.emit(
      "And", {}, {c.emit("GreaterOrEqual", {}, {place, edge(0)}), c.emit("Less", {}, {place, edge(1)})});  // [., ., p]
  const ValueId column = c.emit("Range", {}, {c.int64_scalar(0), c.int64_scalar(rows), c.int64_scalar(1)});
  const ValueId is_column =
      c.emit("Equal", {}, {c.unsqueeze(c.cast(c.input(6), DType::kI64), {2}), column});  // [layouts, p, columns]
  const ValueId table = matmul(c, c.cast(within, DType::kF32), c.cast(is_column, DType::kF32));
  // [layouts, batch, queries, columns], and of these the columns of all keys
  const ValueId query_block = c.emit("Div", {}, {at, c.int64_scalar(block)});
  const ValueId key = positions_along(c, core.k, 2);
  const ValueId key_block = c.emit("Div", {}, {key, c.int64_scalar(block)});
  ValueId seen = gather(c, gather(c, table, query_block, 1), key_block, 3);
  seen = c.transpose(c.emit("Greater", {}, {seen, c.scalar(DType::kF32, 0)}), {1, 0, 2, 3});
  if (core.heads != *layouts)
    seen = concat(c, 1, std::vector<ValueId>(static_cast<size_t>(core.heads / *layouts), seen));
  core.allowed = c.emit("And", {}, {seen, c.emit("GreaterOrEqual", {}, {c.unsqueeze(at, {1, 3}), key})});
  c.set_output(0, scaled_attention(c, core));
}

namespace {

// The cosines or sines of three positions at once (time, height, width), [3, batch, length], of which each column has
// one: in sections, or in turn (time, height, width, time, ...) as long as the sections last, and time behind.
ValueId multimodal_turns(OpContext& c, ValueId cache, ValueId positions, const std::vector<int64_t>& sections,
                         bool in_turn, bool heads_first) {
  const int64_t half = rotated_elements(c, cache) / 2;
  const ValueId rows = c.emit("Gather", {{"axis", int64_t{0}}, {"from_start", int64_t{1}}}, {cache, positions});
  ValueId chosen = c.squeeze(slice(c, rows, 0, 0, 1), {0});
  for (int64_t k = 1; k < 3; ++k) {
    std::vector<uint8_t> own(static_cast<size_t>(half));
    const int64_t begin = sections[0] + (k == 2 ? sections[1] : 0), count = sections[static_cast<size_t>(k)];
    for (int64_t column = 0; column < half; ++column) {
      own[static_cast<size_t>(column)] =
          in_turn ? column % 3 == k && column < count * 3 : column >= begin && column < begin + count;
    }
    const ValueId mask = c.constant(graph::Constant::of<uint8_t>(DType::kBool, {half}, own));
    chosen = where(c, mask, c.squeeze(slice(c, rows, 0, k, k + 1), {0}), chosen);
  }
  return c.unsqueeze(chosen, {heads_first ? 1 : 2});
}

}  // namespace

void multimodal_rotary_embedding(OpContext& c) {
  c.expect_inputs(4, 4);
  const auto sections = c.take_ints("mrope_section").value_or(std::vector<int64_t>());
  const int64_t layout = c.take_int("mrope_layout", 0);
  const bool interleaved = c.take_int("interleaved", 0) != 0;
  const int64_t heads = c.take_int("num_heads", 0);
  const double scale = c.take_float("scale", 1);
  c.ignore("rotary_embedding_dim");
  c.ignore("is_packed_batching");  // the positions say all there is to say
  if (!c.ok()) return;
  ValueId x = c.input(0);
  const int rank = c.rank(x);
  if ((rank != 3 && rank != 4) || c.rank(c.input(1)) != 3)
    return c.fail_invalid(str_cat("takes an input of rank 3 or 4 and positions of rank 3, found ", c.type(x).text(),
                                  " and ", c.type(c.input(1)).text()));
  const int64_t rotated = rotated_elements(c, c.input(2));
  if (!c.ok()) return;
  if (sections.size() != 3 || sections[0] + sections[1] + sections[2] != rotated / 2)
    return c.fail_invalid(str_cat("mrope_section must be three numbers whose sum is ", rotated / 2));
  if (layout != 0 && layout != 1) return c.fail_invalid(str_cat("mrope_layout is ", layout));
  if (rank == 3) x = heads > 0 ? split_heads(c, x, heads) : reshape(c, x, {0, 0, -1, rotated});
  const ValueId cosine = multimodal_turns(c, c.input(2), c.input(1), sections, layout == 1, rank == 4);
  const ValueId sine = multimodal_turns(c, c.input(3), c.input(1), sections, layout == 1, rank == 4);
  ValueId y = scaled(c, rotate_pairs(c, x, cosine, sine, rotated, interleaved), scale);
  if (rank == 3) y = reshape(c, y, {0, 0, -1});
  c.set_output(0, y);
}

void rotary_embedding(OpContext& c) {
  c.expect_inputs(4, 4);
  const bool interleaved = c.take_int("interleaved", 0) != 0;
  const int64_t heads = c.take_int("num_heads", 0);
  const int64_t given = c.take_int("rotary_embedding_dim", 0);
  const double scale = c.take_float("scale", 1);
  if (c.take_int("is_packed_batching", 0) != 0) return c.fail_unsupported("is_packed_batching is not supported");
  if (!c.ok()) return;
  ValueId x = c.input(0);
  const int rank = c.rank(x);
  if (rank != 3 && rank != 4)
    return c.fail_invalid(str_cat("the input must have rank 3 or 4, found ", c.type(x).text()));
  const int64_t rotated = rotated_elements(c, c.input(2));
  if (!c.ok()) return;
  if (given != 0 && given != rotated)
    return c.fail_invalid(str_cat("rotary_embedding_dim is ", given, ", the caches are for ", rotated));
  if (rank == 3) x = heads > 0 ? split_heads(c, x, heads) : reshape(c, x, {0, 0, -1, rotated});
  ValueId positions = c.input(1);
  // One number is the first position of all sentences.
  if (c.rank(positions) == 1)
    positions = c.unsqueeze(add(c, c.cast(positions, DType::kI64), positions_along(c, x, rank == 3 ? 1 : 2)), {0});
  const ValueId cosine = turns(c, c.input(2), positions, rank == 4);
  const ValueId sine = turns(c, c.input(3), positions, rank == 4);
  ValueId y = scaled(c, rotate_pairs(c, x, cosine, sine, rotated, interleaved), scale);
  if (rank == 3) y = reshape(c, y, {0, 0, -1});
  c.set_output(0, y);
}

}  // namespace aipu::frontend::microsoft
