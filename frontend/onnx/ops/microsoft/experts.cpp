// MoE: for each token a few of many small networks, the experts, weighted as a router says.
#include <algorithm>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

struct Activation {
  std::string name;
  double alpha = 1, beta = 0;
  std::optional<double> limit;
  int64_t fusion = 0;  // of the gate and what it opens: 0 separate, 1 in turn, 2 one behind the other
};

// Every second row, or one half of the rows.
ValueId half_of_rows(OpContext& c, ValueId x, int64_t which, int64_t fusion) {
  const auto rows = c.ok() ? c.type(x).shape[c.type(x).shape.size() - 2].constant() : std::nullopt;
  if (!rows || *rows % 2 != 0) {
    if (c.ok()) c.fail_unsupported(str_cat("gates and values do not share the rows of ", c.type(x).text()));
    return {};
  }
  if (fusion == 2) return slice(c, x, -2, which * *rows / 2, (which + 1) * *rows / 2);
  return c.emit("Slice", {}, {x, c.int64s({which}), c.int64s({*rows}), c.int64s({-2}), c.int64s({2})});
}

ValueId gated(OpContext& c, const Activation& a, ValueId gate, ValueId value) {
  if (a.limit) {
    const DType dtype = c.dtype(gate);
    gate = c.emit("Min", {}, {gate, c.scalar(dtype, *a.limit)});
    value = c.emit("Clip", {}, {value, c.scalar(dtype, -*a.limit), c.scalar(dtype, *a.limit)});
  }
  const ValueId open = c.emit("Swish", {{"alpha", a.alpha}}, {gate});
  return multiply(c, open, a.beta == 0 ? value : add(c, value, c.scalar(c.dtype(value), a.beta)));
}

ValueId activated(OpContext& c, const Activation& a, ValueId x) {
  if (a.name == "identity") return x;
  if (a.name == "relu") return c.emit("Relu", {}, {x});
  if (a.name == "gelu") return c.emit("Gelu", {{"approximate", std::string("tanh")}}, {x});
  return c.emit("Swish", {}, {x});
}

}  // namespace

// Tokens are columns, so that weights are operands as they lie. Where there are few tokens the weights of their experts
// are picked; otherwise all experts compute all tokens, and the router's weights of those that are not chosen are 0.
void mixture_of_experts(OpContext& c) {
  c.expect_inputs(3, 8);
  if (!c.has_input(4)) return c.fail_invalid("needs input 4");
  Activation a{c.take_string("activation_type", "relu"), c.take_float("activation_alpha", 1),
               c.take_float("activation_beta", 0), std::nullopt, c.take_int("swiglu_fusion", 0)};
  if (c.has_attribute("swiglu_limit")) a.limit = c.take_float("swiglu_limit", 0);
  const int64_t k = c.take_int("k", 1);
  const bool normalizes = c.take_int("normalize_routing_weights", 0) != 0;
  if (c.take_int("use_sparse_mixer", 0) != 0) return c.fail_unsupported("use_sparse_mixer is not supported");
  if (c.take_int("swiglu_limit_after_activation", 0) != 0)
    return c.fail_unsupported("swiglu_limit_after_activation is not supported");
  if (!c.ok()) return;
  const std::string names[] = {"relu", "gelu", "silu", "swiglu", "identity"};
  if (std::ranges::find(names, a.name) == std::end(names))
    return c.fail_unsupported(str_cat("the activation '", a.name, "' is not supported"));
  const ValueId x = c.input(0), scores = c.input(1);
  if (c.rank(scores) != 2 || c.rank(c.input(2)) != 3 || c.rank(c.input(4)) != 3 || c.rank(x) < 2)
    return c.fail_invalid("takes tokens, router_probs [tokens, experts] and weights of rank 3");
  const Shape& all = c.type(scores).shape;
  const auto tokens = all[0].constant(), experts = all[1].constant();
  if (!experts || k < 1 || k > *experts)
    return c.fail_invalid(str_cat("k is ", k, ", router_probs are ", c.type(scores).text()));
  if (a.fusion < 0 || a.fusion > 2) return c.fail_invalid(str_cat("swiglu_fusion is ", a.fusion));
  const bool fused = a.name == "swiglu" && a.fusion != 0;
  if (fused && c.has_input(6)) return c.fail_invalid("has fc3 beside fused gates");
  if (a.name == "swiglu" && !fused && !c.has_input(6)) return c.fail_invalid("needs input 6, the weights of fc3");

  // The chosen of each token with their weights: [tokens, k].
  Attributes order;
  order.set("axis", int64_t{-1});
  const auto top = c.emit_named("TopK", std::move(order), {scores, c.int64s({k})},
                                {c.output_names[0] + "/scores", c.output_names[0] + "/experts"});
  if (!c.ok()) return;
  const ValueId chosen = top[1];
  const ValueId weights = normalizes ? c.emit("Softmax", {{"axis", int64_t{-1}}}, {top[0]})
                                     : c.emit("GatherElements", {{"axis", int64_t{-1}}},
                                              {c.emit("Softmax", {{"axis", int64_t{-1}}}, {scores}), chosen});
  const bool picks = tokens && *tokens * k < *experts;
  const auto of_experts = [&](size_t i) {
    return picks && c.has_input(i) ? gather(c, c.input(i), chosen) : c.input(i);
  };
  const auto layer = [&](ValueId columns, size_t i) {
    const ValueId y = matmul(c, of_experts(i), columns);
    return c.has_input(i + 1) ? add(c, y, c.unsqueeze(of_experts(i + 1), {-1})) : y;
  };
  const ValueId rows = c.emit("Flatten", {{"axis", static_cast<int64_t>(c.rank(x) - 1)}}, {x});
  // [tokens, 1, size, 1], or [size, tokens]
  const ValueId columns = picks ? c.unsqueeze(rows, {1, 3}) : c.transpose(rows, {1, 0});
  ValueId inner = layer(columns, 2);
  if (fused) {
    inner = gated(c, a, half_of_rows(c, inner, 0, a.fusion), half_of_rows(c, inner, 1, a.fusion));
  } else if (a.name == "swiglu") {
    inner = gated(c, a, inner, layer(columns, 6));
  } else {
    inner = activated(c, a, inner);
    if (c.has_input(6)) inner = multiply(c, inner, layer(columns, 6));
  }
  const ValueId outer = layer(inner, 4);  // [tokens, k, size, 1], or [experts, size, tokens]
  ValueId y;
  if (picks) {
    y = c.emit("ReduceSum", {{"keepdims", int64_t{0}}},
               {multiply(c, outer, c.unsqueeze(weights, {2, 3})), c.int64s({1, 3})});
  } else {
    const ValueId none = c.emit("Expand", {}, {c.scalar(c.dtype(scores), 0), c.shape_of(scores)});
    const ValueId routed = c.emit("ScatterElements", {{"axis", int64_t{1}}}, {none, chosen, weights});
    const ValueId weighted = multiply(c, outer, c.unsqueeze(c.transpose(routed, {1, 0}), {1}));
    y = c.transpose(c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {weighted, c.int64s({0})}), {1, 0});
  }
  if (c.ok()) c.emit_output("Reshape", {{"shape", c.type(x).shape}}, {y});
}

}  // namespace aipu::frontend::microsoft
