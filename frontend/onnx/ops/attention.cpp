// Attention, RotaryEmbedding and TensorScatter as compositions, as the ONNX specification describes them.
#include <cmath>
#include <limits>

#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

// [batch, length, heads * size] as [batch, length, heads, size].
ValueId split_heads(OpContext& c, ValueId x, int64_t heads) {
  return c.emit("Reshape", {}, {x, c.int64s({0, 0, heads, -1})});
}

// 0, 1, ... up to the extent of an axis.
ValueId positions_along(OpContext& c, ValueId x, int64_t axis) {
  return c.emit("Range", {}, {c.int64_scalar(0), c.squeeze(c.size_of(x, axis), {0}), c.int64_scalar(1)});
}

ValueId sliced(OpContext& c, ValueId x, int64_t begin, int64_t end) {
  return c.emit("Slice", {}, {x, c.int64s({begin}), c.int64s({end}), c.int64s({-1})});
}

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
  return {c.transpose(split_heads(c, x, heads), {0, 2, 1, 3}), heads};
}

// Each head `times` times, one after the other.
ValueId repeated_heads(OpContext& c, ValueId x, int64_t heads, int64_t times) {
  if (times == 1) return x;
  const ValueId copies = c.emit("Expand", {}, {c.unsqueeze(x, {2}), c.int64s({1, 1, times, 1, 1})});
  const ValueId shape = c.emit("Concat", {{"axis", int64_t{0}}},
                               {c.size_of(x, 0), c.int64s({heads * times}), c.size_of(x, 2), c.size_of(x, 3)});
  return c.emit("Reshape", {}, {copies, shape});
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

AttentionMask attention_mask(OpContext& c, ValueId q, ValueId keys, bool causal) {
  AttentionMask mask;
  if (c.has_input(3)) {
    const ValueId given = padded_mask(c, c.input(3), keys);
    (is_bool(c.dtype(given)) ? mask.allowed : mask.bias) = given;
  }
  // [batch,1,1,1]
  const ValueId lengths = c.has_input(6) ? c.unsqueeze(c.input(6), {1, 2, 3}) : ValueId();
  const ValueId key = causal || lengths.valid() ? positions_along(c, keys, 2) : ValueId();
  if (causal) {
    // Queries are the last of the keys that there are.
    ValueId query = c.unsqueeze(positions_along(c, q, 2), {1});
    if (lengths.valid()) {
      query = c.emit("Add", {}, {query, c.emit("Sub", {}, {lengths, c.size_of(q, 2)})});
    } else if (c.has_input(4)) {
      query = c.emit("Add", {}, {query, c.size_of(c.input(4), 2)});
    }
    mask.allowed = both(c, mask.allowed, c.emit("GreaterOrEqual", {}, {query, key}));
  }
  if (lengths.valid()) mask.allowed = both(c, mask.allowed, c.emit("Less", {}, {key, lengths}));
  mask.may_hide_all = c.has_input(3) || lengths.valid();
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
  const bool causal = c.take_int("is_causal", 0) != 0;
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
  if (mode < 0 || mode > 3) return c.fail_invalid(str_cat("qk_matmul_output_mode is ", mode));
  if (c.has_input(4) != c.has_input(5)) return c.fail_invalid("past_key and past_value come together");
  const Heads q = with_heads(c, 0, "q_num_heads", rank == 3);
  Heads k = with_heads(c, 1, "kv_num_heads", rank == 3);
  const int64_t kv_heads = k.count;
  if (!c.ok()) return;
  ValueId v = c.input(2);
  if (rank == 3) v = c.transpose(split_heads(c, v, kv_heads), {0, 2, 1, 3});
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
  const AttentionMask mask = attention_mask(c, q.value, keys, causal);
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
  if (rank == 3) y = c.emit("Reshape", {}, {c.transpose(y, {0, 2, 1, 3}), c.int64s({0, 0, -1})});
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
  const ValueId turning = rotated == *size.constant() ? x : sliced(c, x, 0, rotated);
  ValueId real;
  ValueId imaginary;
  if (interleaved) {
    const ValueId pairs = c.emit("Reshape", {}, {turning, c.int64s({0, 0, 0, rotated / 2, 2})});
    real = c.squeeze(sliced(c, pairs, 0, 1), {4});
    imaginary = c.squeeze(sliced(c, pairs, 1, 2), {4});
  } else {
    real = sliced(c, turning, 0, rotated / 2);
    imaginary = sliced(c, turning, rotated / 2, rotated);
  }
  const auto product = [&](ValueId a, ValueId b) { return c.emit("Mul", {}, {a, b}); };
  const ValueId new_real = c.emit("Sub", {}, {product(cosine, real), product(sine, imaginary)});
  const ValueId new_imaginary = c.emit("Add", {}, {product(sine, real), product(cosine, imaginary)});
  ValueId y;
  if (interleaved) {
    y = c.emit("Concat", {{"axis", int64_t{4}}}, {c.unsqueeze(new_real, {4}), c.unsqueeze(new_imaginary, {4})});
    y = c.emit("Reshape", {}, {y, c.int64s({0, 0, 0, rotated})});
  } else {
    y = c.emit("Concat", {{"axis", int64_t{3}}}, {new_real, new_imaginary});
  }
  if (rotated != *size.constant())
    y = c.emit("Concat", {{"axis", int64_t{3}}}, {y, sliced(c, x, rotated, *size.constant())});
  if (rank == 3) y = c.emit("Reshape", {}, {y, c.int64s({0, 0, -1})});
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
