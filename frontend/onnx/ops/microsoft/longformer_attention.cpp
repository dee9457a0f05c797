// LongformerAttention: tokens attend to their neighbours and to a few global tokens, which attend to all.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/attention_heads.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

// The weights and biases of queries, keys and values, for local and for global tokens.
struct Projections {
  ValueId weights[6], biases[6];
};

// Of two forms. Merged: weights [size, 3 * size] and biases of all three, for local and for global tokens. Stacked:
// weights [3, size, size], one bias for all but the global queries.
Projections take_projections(OpContext& c) {
  Projections p;
  if (!c.ok()) return p;
  const bool stacked = c.rank(c.input(1)) == 3;
  const auto size = c.rank(c.input(0)) == 3 ? c.type(c.input(0)).shape[2].constant() : std::nullopt;
  if (!size || (!stacked && c.rank(c.input(1)) != 2) || c.rank(c.input(4)) != c.rank(c.input(1))) {
    c.fail_unsupported(str_cat("an input ", c.type(c.input(0)).text(), " with weights ", c.type(c.input(1)).text(),
                               " is not supported"));
    return p;
  }
  for (int64_t i = 0; i < 6; ++i) {
    const ValueId weights = c.input(i < 3 ? 1 : 4), biases = c.input(i < 3 ? 2 : 5);
    const int64_t part = i % 3;
    p.weights[i] = stacked ? c.squeeze(slice(c, weights, 0, part, part + 1), {0})
                           : slice(c, weights, 1, part * *size, (part + 1) * *size);
    if (stacked && i != 3) {
      const int64_t row = i < 3 ? i : i - 1;
      p.biases[i] = slice(c, c.input(2), 0, row * *size, (row + 1) * *size);
    } else {
      p.biases[i] = stacked ? biases : slice(c, biases, 0, part * *size, (part + 1) * *size);
    }
  }
  return p;
}

ScaledAttention projected(OpContext& c, const Projections& p, int first, int64_t heads) {
  ScaledAttention core;
  core.heads = core.key_heads = heads;
  for (ValueId* part : {&core.q, &core.k, &core.v}) {
    *part = heads_in_front(c, add(c, matmul(c, c.input(0), p.weights[first]), p.biases[first]), heads);
    ++first;
  }
  return core;
}

}  // namespace

void longformer_attention(OpContext& c) {
  c.expect_inputs(7, 7);
  for (const char* name : {"num_heads", "window"}) c.require_attribute(name);
  const int64_t heads = c.take_int("num_heads", 0), window = c.take_int("window", 0);
  if (c.ok() && (heads < 1 || window < 1)) return c.fail_invalid(str_cat("num_heads is ", heads, ", window ", window));
  const Projections p = take_projections(c);
  if (!c.ok()) return;
  const ValueId mask = c.input(3);  // below 0 where a token is masked
  if (c.rank(mask) != 2 || c.rank(c.input(6)) != 2)
    return c.fail_unsupported(str_cat("a mask of the type ", c.type(mask).text(), " is not supported"));
  const ValueId is_global = c.cast(c.input(6), DType::kBool);  // [batch, length]

  ScaledAttention local = projected(c, p, 0, heads), global = projected(c, p, 3, heads);
  const ValueId place = positions_along(c, local.q, 2);
  const ValueId distance = c.emit("Abs", {}, {subtract(c, place, c.unsqueeze(place, {1}))});
  const ValueId is_near = c.emit("LessOrEqual", {}, {distance, c.int64_scalar(window)});
  local.allowed = c.emit("Or", {}, {is_near, c.unsqueeze(is_global, {1, 2})});
  local.biases = global.biases = {c.unsqueeze(mask, {1, 2})};
  const ValueId y = where(c, c.unsqueeze(is_global, {2}), scaled_attention(c, global), scaled_attention(c, local));
  // A masked token is zeros, as in the model that the operator was made for.
  const ValueId zero = c.scalar(c.dtype(mask), 0);
  const ValueId is_masked = c.unsqueeze(c.emit("Less", {}, {mask, zero}), {2});
  c.set_output(0, where(c, is_masked, c.scalar(c.dtype(y), 0), y));
}

}  // namespace aipu::frontend::microsoft
