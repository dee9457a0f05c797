// Attention, RotaryEmbedding and TensorScatter as compositions, as the ONNX specification describes them.
#include <cmath>
#include <limits>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

struct Heads {
  ValueId value;
  int64_t count = 0;
};

// An operand as [batch, heads, length, size].
Heads with_heads(OpContext& c, size_t input, const char* attribute, bool wanted) {
  const ValueId x = c.input(input);
  const int64_t heads = c.take_int(attribute, 0);
  if (!c.ok()) return {};
  if (!wanted) {
    const Dim& extent = c.type(x).shape[1];
    if (!extent.is_constant())
      c.fail_unsupported(str_cat("a symbolic number of heads, ", c.type(x).text(), ", is not supported"));
    return {x, extent.constant_or(0)};
  }
  if (heads < 1) {
    c.fail_invalid(str_cat("operands of rank 3 need a positive ", attribute));
    return {};
  }
  return {heads_in_front(c, x, heads), heads};
}

// What is added to the scores, -infinity where a query does not see a key; `allowed` instead while nothing else is
// added.
struct AttentionMask {
  ValueId allowed;  // bool
  ValueId bias;
  bool may_hide_all = false;  // the model's data may leave a query no key
};

ValueId both(OpContext& c, ValueId a, ValueId b) { return a.valid() ? c.emit("And", {}, {a, b}) : b; }

// A mask for fewer keys than there are hides the others.
ValueId padded_mask(OpContext& c, ValueId mask, ValueId keys) {
  const Shape& shape = c.type(mask).shape;
  if (!c.ok() || shape.empty()) return mask;
  const Dim missing = c.type(keys).shape[2] - shape.back();
  if (shape.back() == Dim(1) || missing.constant_or(0) <= 0) return mask;
  Shape pads(2 * shape.size(), Dim(0));
  pads.back() = missing;
  const double hidden = is_bool(c.dtype(mask)) ? 0 : -std::numeric_limits<double>::infinity();
  return c.emit("Pad", {{"pads", pads}}, {mask, ValueId(), c.scalar(c.dtype(mask), hidden)});
}

// How far a query sees, by positions: -1 is without end.
struct Window {
  bool causal = false;
  int64_t left = -1, right = -1;
  bool any() const { return causal || left >= 0 || right >= 0; }
};

AttentionMask attention_mask(OpContext& c, ValueId q, ValueId keys, const Window& window) {
  AttentionMask mask;
  if (c.has_input(3)) {
    const ValueId given = padded_mask(c, c.input(3), keys);
    (is_bool(c.dtype(given)) ? mask.allowed : mask.bias) = given;
  }
  // [batch,1,1,1]
  const ValueId lengths = c.has_input(6) ? c.unsqueeze(c.input(6), {1, 2, 3}) : ValueId();
  const ValueId key = window.any() || lengths.valid() ? positions_along(c, keys, 2) : ValueId();
  if (window.any()) {
    // Queries are the last of the keys that there are.
    ValueId query = c.unsqueeze(positions_along(c, q, 2), {1});
    if (lengths.valid()) {
      query = add(c, query, subtract(c, lengths, c.size_of(q, 2)));
    } else if (c.has_input(4)) {
      query = add(c, query, c.size_of(c.input(4), 2));
    }
    if (window.causal) mask.allowed = both(c, mask.allowed, c.emit("GreaterOrEqual", {}, {query, key}));
    if (window.left >= 0) {
      const ValueId first = subtract(c, query, c.int64_scalar(window.left));
      mask.allowed = both(c, mask.allowed, c.emit("GreaterOrEqual", {}, {key, first}));
    }
    if (window.right >= 0) {
      const ValueId last = add(c, query, c.int64_scalar(window.right));
      mask.allowed = both(c, mask.allowed, c.emit("GreaterOrEqual", {}, {last, key}));
    }
  }
  if (lengths.valid()) mask.allowed = both(c, mask.allowed, c.emit("Less", {}, {key, lengths}));
  // A window on the left may end before a query that has no key of its own.
  mask.may_hide_all = c.has_input(3) || lengths.valid() || window.left >= 0;
  if (mask.allowed.valid() && mask.bias.valid()) {
    const ValueId hidden = c.scalar(c.dtype(mask.bias), -std::numeric_limits<double>::infinity());
    mask.bias = c.emit("Where", {}, {mask.allowed, mask.bias, hidden});
    mask.allowed = ValueId();
  }
  return mask;
}

// Where a query sees no key: bool, with one element for all keys.
ValueId sees_nothing(OpContext& c, const AttentionMask& mask) {
  const ValueId most = c.emit("ReduceMax", {{"keepdims", int64_t{1}}},
                              {mask.allowed.valid() ? mask.allowed : mask.bias, c.int64s({-1})});
  if (mask.allowed.valid()) return c.emit("Not", {}, {most});
  return c.emit("Equal", {}, {most, c.scalar(c.dtype(mask.bias), -std::numeric_limits<double>::infinity())});
}

}  // namespace

void attention(OpContext& c) {
  c.expect_inputs(3, 7);
  Window window{c.take_int("is_causal", 0) != 0, c.take_int("left_window_size", -1),
                c.take_int("right_window_size", -1)};
  const bool has_scale = c.has_attribute("scale");
  const double given_scale = c.take_float("scale", 0);
  const double softcap = c.take_float("softcap", 0);
  const int64_t mode = c.take_int("qk_matmul_output_mode", 0);
  const int64_t precision = c.take_int("softmax_precision", 0);
  if (!c.ok()) return;
  const int rank = c.rank(c.input(0));
  if ((rank != 3 && rank != 4) || c.rank(c.input(1)) != rank || c.rank(c.input(2)) != rank) {
    return c.fail_invalid(str_cat("Q, K and V must all have rank 3 or 4, found ", c.type(c.input(0)).text(), ", ",
                                  c.type(c.input(1)).text(), " and ", c.type(c.input(2)).text()));
  }
  if (window.left < -1 || window.right < -1) {
    return c.fail_invalid(str_cat("left_window_size is ", window.left, ", right_window_size ", window.right));
  }
  if (mode < 0 || mode > 3) return c.fail_invalid(str_cat("qk_matmul_output_mode is ", mode));
  if (c.has_input(4) != c.has_input(5)) return c.fail_invalid("past_key and past_value come together");
  const Heads q = with_heads(c, 0, "q_num_heads", rank == 3);
  Heads k = with_heads(c, 1, "kv_num_heads", rank == 3);
  const int64_t kv_heads = k.count;
  if (!c.ok()) return;
  ValueId v = c.input(2);
  if (rank == 3) v = heads_in_front(c, v, kv_heads);
  if (kv_heads < 1 || q.count % kv_heads != 0) {
    return c.fail_invalid(str_cat(q.count, " heads of queries do not divide by ", kv_heads, " heads of keys"));
  }
  if (c.has_input(4)) {
    k.value = c.emit("Concat", {{"axis", int64_t{2}}}, {c.input(4), k.value});
    v = c.emit("Concat", {{"axis", int64_t{2}}}, {c.input(5), v});
  }
  if (c.wants_output(1)) c.set_output(1, k.value);
  if (c.wants_output(2)) c.set_output(2, v);
  if (!c.ok()) return;

  const DType dtype = c.dtype(q.value);
  const Dim size = c.type(q.value).shape[3];
  if (!has_scale && !size.is_constant()) return c.fail_unsupported("a symbolic head size needs the attribute 'scale'");
  const double scale = has_scale ? given_scale : 1.0 / std::sqrt(static_cast<double>(size.constant_or(1)));
  const ValueId keys = repeated_heads(c, k.value, kv_heads, q.count / kv_heads);
  const ValueId values = repeated_heads(c, v, kv_heads, q.count / kv_heads);
  const auto output_if = [&](int64_t wanted, ValueId scores) {
    if (mode == wanted && c.wants_output(3)) c.set_output(3, scores);
  };
  ValueId scores = c.emit("MatMul", {}, {q.value, c.transpose(keys, {0, 1, 3, 2})});
  scores = c.emit("Mul", {}, {scores, c.scalar(dtype, scale)});
  output_if(0, scores);
  // Before the mask, which would not stay infinite.
  if (softcap != 0) {
    const ValueId limit = c.scalar(dtype, softcap);
    scores = c.emit("Mul", {}, {c.emit("Tanh", {}, {c.emit("Div", {}, {scores, limit})}), limit});
    output_if(1, scores);
  }
  const AttentionMask mask = attention_mask(c, q.value, keys, window);
  if (mask.bias.valid()) scores = c.emit("Add", {}, {scores, mask.bias});
  if (mask.allowed.valid()) {
    scores = c.emit("Where", {}, {mask.allowed, scores, c.scalar(dtype, -std::numeric_limits<double>::infinity())});
  }
  if (softcap == 0) output_if(1, scores);
  output_if(2, scores);
  const auto softmax_dtype = precision > 0 && precision < 100 ? dtype_from_onnx(static_cast<int>(precision)) : dtype;
  if (!softmax_dtype || !is_floating(*softmax_dtype))
    return c.fail_unsupported(str_cat("softmax_precision ", precision, " is not supported"));
  const ValueId weights = c.cast(c.emit("Softmax", {{"axis", int64_t{-1}}}, {c.cast(scores, *softmax_dtype)}), dtype);
  ValueId y = c.emit("MatMul", {}, {weights, values});
  // A query that sees no key gives 0, not the 0 / 0 of its softmax. Decided on the mask, so that scores and softmax
  // stay one kernel.
  if (mask.may_hide_all) {
    const ValueId nothing = sees_nothing(c, mask);
    const auto guarded = [&](ValueId value) { return c.emit("Where", {}, {nothing, c.scalar(dtype, 0), value}); };
    y = guarded(y);
    if (mode == 3 && c.wants_output(3)) c.set_output(3, guarded(weights));
  } else {
    output_if(3, weights);
  }
  if (rank == 3) y = heads_behind(c, y);
  c.set_output(0, y);
}

void rotary_embedding(OpContext& c) {
  c.expect_inputs(3, 4);
  const bool interleaved = c.take_int("interleaved", 0) != 0;
  const int64_t heads = c.take_int("num_heads", 0);
  int64_t rotated = c.take_int("rotary_embedding_dim", 0);
  if (!c.ok()) return;
  ValueId x = c.input(0);
  const int rank = c.rank(x);
  if (rank != 3 && rank != 4)
    return c.fail_invalid(str_cat("the input must have rank 3 or 4, found ", c.type(x).text()));
  if (rank == 3) {
    if (heads < 1) return c.fail_invalid("an input of rank 3 needs a positive num_heads");
    x = split_heads(c, x, heads);  // [batch, length, heads, size]: no need to transpose
  }
  if (!c.ok()) return;
  const Dim size = c.type(x).shape[3];
  if (!size.is_constant())
    return c.fail_unsupported(str_cat("a symbolic head size, ", size.text(), ", is not supported"));
  if (rotated == 0) rotated = *size.constant();
  if (rotated < 2 || rotated % 2 != 0 || rotated > *size.constant()) {
    return c.fail_invalid(str_cat("rotary_embedding_dim is ", rotated, " of a head size of ", size.text()));
  }
  const auto angles = [&](size_t input) {
    ValueId cache = c.input(input);
    if (c.has_input(3))
      cache = c.emit("Gather", {{"axis", int64_t{0}}, {"from_start", int64_t{1}}}, {cache, c.input(3)});
    return c.unsqueeze(cache, {rank == 3 ? 2 : 1});
  };
  const ValueId cosine = angles(1);
  const ValueId sine = angles(2);
  ValueId y = rotate_pairs(c, x, cosine, sine, rotated, interleaved);
  if (rank == 3) y = reshape(c, y, {0, 0, -1});
  c.set_output(0, y);
}

// A cache whose positions write_indices[b], write_indices[b] + 1, ... along the axis take the update's values.
void tensor_scatter(OpContext& c) {
  c.expect_inputs(2, 3);
  const std::string mode = c.take_string("mode", "linear");
  const ValueId cache = c.input(0);
  const ValueId update = c.input(1);
  const int rank = c.rank(cache);
  const int64_t axis = c.take_axis("axis", -2, rank);
  if (!c.ok()) return;
  if (mode != "linear" && mode != "circular")
    return c.fail_invalid(str_cat("mode is '", mode, "', expected one of: linear, circular"));
  if (axis < 1 || axis >= rank)
    return c.fail_invalid(str_cat("axis ", axis, " of ", c.type(cache).text(), " is the batch or does not exist"));
  ValueId at = positions_along(c, update, axis);
  std::vector<int64_t> inner;
  for (int64_t k = axis + 1; k < rank; ++k) inner.push_back(k - axis);
  at = c.unsqueeze(at, inner);
  if (c.has_input(2)) {
    std::vector<int64_t> behind_batch;
    for (int64_t k = 1; k < rank; ++k) behind_batch.push_back(k);
    at = c.emit("Add", {}, {at, c.unsqueeze(c.cast(c.input(2), DType::kI64), behind_batch)});
  }
  if (mode == "circular") at = c.emit("Mod", {}, {at, c.size_of(cache, axis)});
  at = c.emit("Expand", {}, {at, c.shape_of(update)});
  c.emit_output("ScatterElements", {{"axis", axis}, {"from_start", int64_t{1}}}, {cache, at, update});
}

}  // namespace aipu::frontend
