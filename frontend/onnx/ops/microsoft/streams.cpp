// Hyper-connections, several streams of features side by side, and what language models with them compute: in float32
// whatever the type of the operands.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

ValueId wide(OpContext& c, ValueId x) { return c.cast(x, DType::kF32); }

ValueId normalized(OpContext& c, ValueId x, ValueId scale, double epsilon) {
  const ValueId y =
      c.emit("RMSNormalization", {{"axis", int64_t{-1}}, {"epsilon", epsilon}}, {x, c.scalar(DType::kF32, 1)});
  return multiply(c, y, wide(c, scale));
}

// Streams [..., streams, size]: given so, or flat. An invalid value after a failure.
ValueId grouped_streams(OpContext& c, int64_t branches) {
  const ValueId x = wide(c, c.input(0));
  if (!c.ok()) return {};
  if (branches < 0 || c.rank(x) < (branches > 0 ? 1 : 2)) {
    c.fail_invalid(str_cat("num_branches is ", branches, ", streams are ", c.type(x).text()));
    return {};
  }
  if (branches == 0) return x;
  std::vector<int64_t> split(static_cast<size_t>(c.rank(x)) + 1, 0);
  split[split.size() - 2] = branches;
  split.back() = -1;
  return reshape(c, x, split);
}

// A number for each stream, or for each element of it, as [..., streams, 1 or size].
ValueId factors_of(OpContext& c, ValueId given, ValueId streams) {
  const ValueId x = wide(c, given);
  if (!c.ok()) return {};
  const Shape& shape = c.type(streams).shape;
  if (c.rank(x) == static_cast<int>(shape.size())) return x;
  if (c.rank(x) != static_cast<int>(shape.size()) - 1) {
    c.fail_invalid(str_cat("the mix is ", c.type(given).text(), ", streams are ", c.type(streams).text()));
    return {};
  }
  if (c.type(x).shape.back() == shape[shape.size() - 2]) return c.unsqueeze(x, {-1});
  return c.emit("Reshape", {{"shape", shape}}, {x});
}

}  // namespace

void hyper_connection_pre_mix(OpContext& c) {
  c.expect_inputs(2, 2);
  const ValueId streams = grouped_streams(c, c.take_int("num_branches", 0));
  const double scale = c.take_float("reduction_scale", 1);
  const ValueId mixed = multiply(c, streams, factors_of(c, c.input(1), streams));
  const ValueId sum = c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {mixed, c.int64s({-2})});
  c.set_output(0, c.cast(scaled(c, sum, scale), c.dtype(c.input(0))));
}

void hyper_connection_post_mix(OpContext& c) {
  c.expect_inputs(3, 4);
  const ValueId streams = grouped_streams(c, c.take_int("num_branches", 0));
  if (!c.ok()) return;
  // [..., c, k]: stream c's part of stream k
  const ValueId mixed = c.has_input(3) ? matmul(c, swap_last_two(c, wide(c, c.input(3))), streams) : streams;
  const ValueId added = multiply(c, factors_of(c, c.input(2), streams), c.unsqueeze(wide(c, c.input(1)), {-2}));
  const ValueId y = add(c, mixed, added);
  if (c.ok())
    c.set_output(0, c.cast(c.emit("Reshape", {{"shape", c.type(c.input(0)).shape}}, {y}), c.dtype(c.input(0))));
}

// Both mixes around a block, whose gates are a network of low rank: each step is rounded to the operands' type.
void hyper_connection_low_rank_mix(OpContext& c) {
  c.expect_inputs(5, 7);
  c.require_attribute("num_branches");
  const int64_t branches = c.take_int("num_branches", 0);
  const double epsilon = c.take_float("epsilon", 1e-5), alpha = c.take_float("silu_alpha", 1);
  const double scale = c.take_float("reduction_scale", 1);
  const double gate_div = c.take_float("gate_div", 1), gate_mul = c.take_float("gate_mul", 1);
  if (!c.ok()) return;
  if (branches < 1 || gate_div == 0)
    return c.fail_invalid(str_cat("num_branches is ", branches, ", gate_div ", gate_div));
  if (c.has_input(5) != c.has_input(6)) return c.fail_invalid("prev_block_output and prev_post_gate come together");
  const DType dtype = c.dtype(c.input(0));
  const Shape flat = c.type(c.input(0)).shape;
  const auto rounded = [&](ValueId x) { return c.cast(x, dtype); };
  const auto flattened = [&](ValueId x) { return c.emit("Reshape", {{"shape", flat}}, {x}); };
  ValueId streams = grouped_streams(c, branches);
  if (c.has_input(5)) {
    const ValueId added = multiply(c, c.unsqueeze(wide(c, c.input(6)), {-1}), c.unsqueeze(wide(c, c.input(5)), {-2}));
    streams = wide(c, rounded(add(c, streams, added)));
  }
  if (c.wants_output(2)) c.set_output(2, rounded(flattened(streams)));
  const ValueId scales = reshape(c, wide(c, c.input(1)), {branches, -1});
  const ValueId y =
      c.emit("RMSNormalization", {{"axis", int64_t{-1}}, {"epsilon", epsilon}}, {streams, c.scalar(DType::kF32, 1)});
  const ValueId normed = rounded(flattened(multiply(c, y, scales)));
  const ValueId down = scaled(c, matmul(c, normed, c.input(2)), alpha);
  const ValueId hidden = multiply(c, down, c.emit("Sigmoid", {}, {down}));
  const ValueId gates = c.emit("Sigmoid", {}, {matmul(c, hidden, c.input(3))});
  if (c.wants_output(0)) {
    std::vector<int64_t> split(flat.size() + 1, 0);
    split[split.size() - 2] = branches;
    split.back() = -1;
    const ValueId mixed = reshape(c, multiply(c, wide(c, normed), wide(c, gates)), split);
    const ValueId sum = c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {mixed, c.int64s({-2})});
    c.set_output(0, rounded(scaled(c, sum, scale)));
  }
  if (c.wants_output(1)) {
    const ValueId inject = c.emit("Div", {}, {matmul(c, normed, c.input(4)), c.scalar(dtype, gate_div)});
    c.set_output(1, scaled(c, c.emit("Sigmoid", {}, {inject}), gate_mul));
  }
}

void engram_gate(OpContext& c) {
  c.expect_inputs(5, 6);
  const double epsilon = c.take_float("epsilon", 1e-5);
  if (!c.ok()) return;
  const ValueId key = wide(c, c.input(0));
  const auto size = c.rank(key) == 4 ? c.type(key).shape[3].constant() : std::nullopt;
  if (!size) return c.fail_unsupported(str_cat("keys of the type ", c.type(c.input(0)).text(), " are not supported"));
  if (c.wants_output(1) && !c.has_input(5)) return c.fail_invalid("the output gated_value_normed needs input 5");
  const DType dtype = c.dtype(c.input(0));
  const ValueId product =
      multiply(c, normalized(c, key, c.input(3), epsilon), normalized(c, wide(c, c.input(1)), c.input(4), epsilon));
  const ValueId dot =
      scaled(c, c.emit("ReduceSum", {}, {product, c.int64s({-1})}), 1 / std::sqrt(static_cast<double>(*size)));
  const ValueId size_of_root =
      c.emit("Sqrt", {}, {c.emit("Max", {}, {c.emit("Abs", {}, {dot}), c.scalar(DType::kF32, 1e-6)})});
  const ValueId gate = c.emit("Sigmoid", {}, {multiply(c, c.emit("Sign", {}, {dot}), size_of_root)});
  const ValueId y = multiply(c, gate, c.unsqueeze(wide(c, c.input(2)), {2}));
  c.set_output(0, c.cast(y, dtype));
  if (c.wants_output(1)) c.set_output(1, c.cast(normalized(c, y, c.input(5), epsilon), dtype));
}

// Logarithms of the sigmoids of those experts that are the best of the best groups; router_sentinel for the others.
void moe_group_router(OpContext& c) {
  c.expect_inputs(2, 3);
  const int64_t groups = c.take_int("n_group", 1), best_groups = c.take_int("topk_group", 1);
  const int64_t in_group = c.take_int("group_topk", 2), best = c.take_int("top_k", 0);
  const double sentinel = c.take_float("router_sentinel", -10000);
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  const auto experts = c.rank(c.input(1)) == 1 ? c.type(c.input(1)).shape[0].constant() : std::nullopt;
  if (c.rank(x) < 1 || !experts || groups < 1 || *experts % groups != 0 || best < 1 || best > *experts)
    return c.fail_invalid(
        str_cat("n_group is ", groups, ", top_k ", best, ", expert_bias ", c.type(c.input(1)).text()));
  ValueId logits = wide(c, reshape(c, x, {-1, c.has_input(2) ? c.type(x).shape.back().constant_or(-1) : *experts}));
  if (c.has_input(2)) logits = matmul(c, logits, c.transpose(wide(c, c.input(2)), {1, 0}));
  const ValueId weights = c.emit("Sigmoid", {}, {logits});
  const ValueId scores = add(c, weights, c.input(1));
  if (c.wants_output(1)) c.set_output(1, scores);
  if (c.wants_output(2)) c.set_output(2, weights);
  if (!c.wants_output(0)) return;
  const auto top = [&](ValueId of, int64_t k, const char* name) {
    Attributes order;
    order.set("axis", int64_t{-1});
    auto made = c.emit_named("TopK", std::move(order), {of, c.int64s({k})},
                             {str_cat(c.output_names[0], "/", name), str_cat(c.output_names[0], "/", name, "_at")});
    if (!c.ok()) made.resize(2);
    return made;
  };
  // 1 where one of them is, of [tokens, count]
  const auto marked = [&](ValueId at, ValueId like) {
    const ValueId none = c.emit("Expand", {}, {c.scalar(DType::kF32, 0), c.shape_of(like)});
    const ValueId ones = c.emit("Expand", {}, {c.scalar(DType::kF32, 1), c.shape_of(at)});
    const ValueId marks = c.emit("ScatterElements", {{"axis", int64_t{1}}}, {none, at, ones});
    return c.emit("Greater", {}, {marks, c.scalar(DType::kF32, 0)});
  };
  ValueId open = scores;
  const ValueId low = c.scalar(DType::kF32, -std::numeric_limits<double>::infinity());
  if (best_groups < groups) {
    const int64_t size = *experts / groups;
    const ValueId apart = reshape(c, scores, {-1, groups, size});
    const ValueId most = top(apart, std::min(in_group, size), "in_group")[0];
    const ValueId of_group = c.emit("ReduceSum", {{"keepdims", int64_t{0}}}, {most, c.int64s({-1})});
    const ValueId chosen = marked(top(of_group, best_groups, "groups")[1], of_group);
    open = reshape(c, where(c, c.unsqueeze(chosen, {2}), apart, low), {-1, *experts});
  }
  const ValueId chosen = marked(top(open, best, "experts")[1], open);
  const ValueId logs = c.emit("Log", {}, {c.emit("Max", {}, {weights, c.scalar(DType::kF32, 1e-20)})});
  c.set_output(0, c.cast(where(c, chosen, logs, c.scalar(DType::kF32, sentinel)), c.dtype(x)));
}

}  // namespace aipu::frontend::microsoft
