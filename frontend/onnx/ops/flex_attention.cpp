// FlexAttention: attention whose scores and probabilities pass through sub-graphs of the node's.
#include <cmath>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

// What a sub-graph with one input makes of `x`; `x` itself where the node has none of that name.
ValueId modified(OpContext& c, std::string_view name, ValueId x) {
  if (!c.ok() || !c.has_attribute(name)) return x;
  const std::vector<Item> made = c.inline_subgraph(c.take_graph(name), {Item{x, {}}});
  if (!c.ok()) return {};
  if (made.size() != 1 || !made[0].value.valid() || c.dtype(made[0].value) != c.dtype(x) ||
      c.rank(made[0].value) != c.rank(x)) {
    c.fail_invalid(str_cat("the sub-graph '", name, "' must make one tensor like ", c.type(x).text()));
    return {};
  }
  return made[0].value;
}

DType softmax_precision(OpContext& c, DType dtype) {
  const DType otherwise = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const DType precision = c.take_dtype("softmax_precision", otherwise);
  if (!is_floating(precision)) c.fail_invalid(str_cat("softmax_precision is ", dtype_name(precision)));
  return precision;
}

}  // namespace

void flex_attention(OpContext& c) {
  c.expect_inputs(3, 3);
  if (!c.ok()) return;
  const ValueId q = c.input(0);
  const DType dtype = c.dtype(q);
  const DType precision = softmax_precision(c, dtype);
  for (size_t i = 0; i < 3; ++i) {
    if (c.rank(c.input(i)) != 4 || c.dtype(c.input(i)) != dtype)
      return c.fail_invalid(str_cat("Q, K and V must have rank 4 and one type, found ", c.type(c.input(i)).text()));
  }
  const auto heads = c.type(q).shape[1].constant();
  const auto key_heads = c.type(c.input(1)).shape[1].constant();
  if (!heads || !key_heads) return c.fail_unsupported("a symbolic number of heads is not supported");
  if (*key_heads < 1 || *heads % *key_heads != 0)
    return c.fail_invalid(str_cat(*heads, " heads of queries do not divide by ", *key_heads, " heads of keys"));
  const Dim size = c.type(q).shape[3];
  if (!c.has_attribute("scale") && !size.is_constant())
    return c.fail_unsupported("a symbolic head size needs the attribute 'scale'");
  const double scale = c.take_float("scale", 1.0 / std::sqrt(static_cast<double>(size.constant_or(1))));
  if (!c.ok()) return;
  const ValueId keys = repeated_heads(c, c.input(1), *key_heads, *heads / *key_heads);
  const ValueId values = repeated_heads(c, c.input(2), *key_heads, *heads / *key_heads);
  // Both sides get the root of the scale, as the specification rounds; a negative one has none.
  const double root = scale > 0 ? std::sqrt(scale) : 1.0;
  ValueId scores = matmul(c, scaled(c, q, root), swap_last_two(c, scaled(c, keys, root)));
  if (scale <= 0) scores = scaled(c, scores, scale);
  scores = modified(c, "score_mod", c.cast(scores, precision));
  const ValueId weights = modified(c, "prob_mod", c.emit("Softmax", {{"axis", int64_t{-1}}}, {scores}));
  c.set_output(0, c.cast(matmul(c, weights, c.cast(values, precision)), dtype));
}

}  // namespace aipu::frontend
