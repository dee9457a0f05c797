// GroupQueryAttention, whose cache grows by what is new, and RotaryEmbedding.
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
  ValueId at = c.unsqueeze(positions_along(c, added, 2), {1});
  at = add(c, at, c.unsqueeze(first, {1, 2, 3}));
  at = c.emit("Expand", {}, {at, c.shape_of(added)});
  return c.emit("ScatterElements", {{"axis", int64_t{2}}, {"from_start", int64_t{1}}}, {cache, at, added});
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
  c.ignore("kv_cache_bit_width");
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    if (c.take_string(name, "NONE") != "NONE") return c.fail_unsupported("a quantised cache is not supported");
  }
  if (c.take_int("sliding_window_cache", 0) != 0) return c.fail_unsupported("sliding_window_cache is not supported");
  if (c.take_int("qk_output", 0) != 0 || c.wants_output(3)) return c.fail_unsupported("output_qk is not supported");
  if (!c.ok()) return;
  if (core.heads < 1 || core.key_heads < 1) return c.fail_invalid("needs a positive num_heads and kv_num_heads");
  if (c.has_input(12) || c.has_input(13)) return c.fail_unsupported("a quantised cache is not supported");
  if (c.has_input(16)) return c.fail_unsupported("query_seqlens is not supported");
  if (!c.has_input(5) || !c.has_input(6)) return c.fail_invalid("needs seqlens_k and total_sequence_length");
  if (c.has_input(3) != c.has_input(4)) return c.fail_invalid("past_key and past_value come together");

  ValueId parts[3] = {c.input(0), c.input(1), c.input(2)};
  if (!c.has_input(1)) {
    const auto width = c.type(parts[0]).shape.empty() ? std::nullopt : c.type(parts[0]).shape.back().constant();
    const int64_t all = core.heads + 2 * core.key_heads;
    if (!width || *width % all != 0)
      return c.fail_invalid(str_cat("packed operands ", c.type(parts[0]).text(), " do not divide by ", all, " heads"));
    const int64_t size = *width / all;
    const ValueId packed = parts[0];
    parts[0] = slice(c, packed, -1, 0, core.heads * size);
    parts[1] = slice(c, packed, -1, core.heads * size, (core.heads + core.key_heads) * size);
    parts[2] = slice(c, packed, -1, (core.heads + core.key_heads) * size, *width);
  }
  core.q = heads_in_front(c, parts[0], core.heads);
  core.k = heads_in_front(c, parts[1], core.key_heads);
  core.v = heads_in_front(c, parts[2], core.key_heads);
  const auto normalized = [&](ValueId x, ValueId weight, double epsilon) {
    return weight.valid() ? c.emit("RMSNormalization", {{"axis", int64_t{-1}}, {"epsilon", epsilon}}, {x, weight}) : x;
  };
  core.q = normalized(core.q, c.input(14), q_epsilon);
  core.k = normalized(core.k, c.input(15), k_epsilon);
  if (!c.ok()) return;

  const auto total = c.graph().known_data(c.input(6));
  if (!total || total->size() != 1) {
    return c.fail_unsupported(str_cat("operand '", c.graph().value(c.input(6)).name,
                                      "' must be known when compiling, it is the extent of the outputs"));
  }
  const Dim past_length = c.has_input(3) ? c.type(c.input(3)).shape[2] : Dim(0);
  // A cache of a fixed length, to which the number of keys says how much of it there is, is a buffer that keeps its
  // length: new rows are written into it, those behind the last key are not looked at.
  const bool in_place = past_length.is_constant() && past_length != Dim(0) && !total->front().is_constant();
  const Dim length = in_place ? past_length : graph::max(past_length, total->front());
  // Of each sentence, the place of its first new key: all that there are but the new ones, 0 where these are padded.
  const ValueId counts = add(c, c.cast(reshape(c, c.input(5), {-1}), DType::kI64), c.int64_scalar(1));
  const ValueId first = c.emit("Max", {}, {subtract(c, counts, c.size_of(core.q, 2)), c.int64_scalar(0)});
  // [batch, queries]
  const ValueId at = add(c, c.unsqueeze(first, {1}), positions_along(c, core.q, 2));
  if (rotates) {
    if (!c.has_input(7) || !c.has_input(8)) return c.fail_invalid("do_rotary needs cos_cache and sin_cache");
    const ValueId positions = c.has_input(9) ? c.input(9) : at;
    const ValueId cosine = turns(c, c.input(7), positions, true);
    const ValueId sine = turns(c, c.input(8), positions, true);
    const int64_t rotated = rotated_elements(c, c.input(7));
    core.q = rotate_pairs(c, core.q, cosine, sine, rotated, interleaved);
    core.k = rotate_pairs(c, core.k, cosine, sine, rotated, interleaved);
  }
  core.k = extended(c, c.input(3), core.k, first, length);
  core.v = extended(c, c.input(4), core.v, first, length);
  if (c.wants_output(1)) c.set_output(1, core.k);
  if (c.wants_output(2)) c.set_output(2, core.v);
  if (in_place) {
    const ValueId keys = reshape(c, c.cast(c.input(6), DType::kI64), {1});
    for (ValueId* rows : {&core.k, &core.v}) *rows = c.emit("Slice", {}, {*rows, c.int64s({0}), keys, c.int64s({2})});
  }

  core.biases = {c.input(10)};
  if (c.has_input(11)) {
    core.sink = c.input(11);
  } else if (smooth) {
    core.sink = c.emit("Expand", {}, {c.scalar(c.dtype(core.q), 0), c.int64s({core.heads})});
  }
  const ValueId key = positions_along(c, core.k, 2);
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
