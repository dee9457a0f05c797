// Gates and the normalisations in front of them, as language models with recurrent states have them: computed in
// float32 whatever the type of the operands.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

ValueId wide(OpContext& c, ValueId x) { return c.dtype(x) == DType::kF64 ? x : c.cast(x, DType::kF32); }

ValueId sigmoid(OpContext& c, ValueId x) { return c.emit("Sigmoid", {}, {x}); }

// The mean of squares along the last axis is 1; no scale.
ValueId root_mean_square_normalized(OpContext& c, ValueId x, double epsilon) {
  return c.emit("RMSNormalization", {{"axis", int64_t{-1}}, {"epsilon", epsilon}}, {x, c.scalar(c.dtype(x), 1)});
}

}  // namespace

// X + Y * gate, a number for each row. With gate_weight, a product of rows in bfloat16, only CUDA has it.
void gated_add(OpContext& c) {
  c.expect_inputs(3, 4);
  if (c.has_input(3)) return c.fail_unsupported("the operand gate_weight is not supported");
  c.emit_output("Add", {}, {c.input(0), multiply(c, c.input(1), c.input(2))});
}

// The last axis is groups of as many elements as there are scales; each is normalised, scaled and gated.
void gated_rms_norm(OpContext& c) {
  c.expect_inputs(3, 3);
  const std::string activation = c.take_string("activation", "silu");
  const double epsilon = c.take_float("epsilon", 1e-5);
  if (!c.ok()) return;
  const ValueId x = c.input(0), scale = c.input(1);
  const auto group = c.rank(scale) == 1 ? c.type(scale).shape[0].constant() : std::nullopt;
  if (!group || *group < 1 || c.rank(x) < 1)
    return c.fail_unsupported(
        str_cat("scales ", c.type(scale).text(), " of the input ", c.type(x).text(), " are not supported"));
  if (activation != "silu" && activation != "swish" && activation != "sigmoid")
    return c.fail_invalid(str_cat("activation is '", activation, "', expected one of: silu, swish, sigmoid"));
  std::vector<int64_t> groups(static_cast<size_t>(c.rank(x)) + 1, 0);
  groups[groups.size() - 2] = -1;
  groups.back() = *group;
  const ValueId grouped = reshape(c, wide(c, x), groups);
  const ValueId normalized = multiply(c, root_mean_square_normalized(c, grouped, epsilon), wide(c, scale));
  const ValueId gate = wide(c, c.input(2));
  const ValueId open = activation == "sigmoid" ? sigmoid(c, gate) : c.emit("Swish", {}, {gate});
  const ValueId y = c.emit("Reshape", {{"shape", c.type(x).shape}}, {normalized});
  c.set_output(0, c.cast(multiply(c, y, open), c.dtype(x)));
}

// Each branch by itself: [..., branches, size], or with num_branches [..., branches * size].
void branchwise_rms_norm(OpContext& c) {
  c.expect_inputs(1, 2);
  const int64_t branches = c.take_int("num_branches", 0);
  const double epsilon = c.take_float("epsilon", 1e-5);
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  const int rank = c.rank(x);
  if (branches < 0 || rank < (branches > 0 ? 1 : 2))
    return c.fail_invalid(str_cat("num_branches is ", branches, ", the input ", c.type(x).text()));
  ValueId grouped = wide(c, x);
  if (branches > 0) {
    std::vector<int64_t> split(static_cast<size_t>(rank) + 1, 0);
    split[split.size() - 2] = branches;
    split.back() = -1;
    grouped = reshape(c, grouped, split);
  }
  ValueId y = root_mean_square_normalized(c, grouped, epsilon);
  if (c.has_input(1) && c.ok()) {
    ValueId scale = wide(c, c.input(1));
    const Shape& shape = c.type(grouped).shape;
    // All branches' scales in a row, or what broadcasts as it is.
    if (c.rank(scale) == 1 && c.type(scale).shape[0] != shape.back())
      scale = c.emit("Reshape", {{"shape", Shape{shape[shape.size() - 2], shape.back()}}}, {scale});
    y = multiply(c, y, scale);
  }
  if (branches > 0 && c.ok()) y = c.emit("Reshape", {{"shape", c.type(x).shape}}, {y});
  c.set_output(0, c.cast(y, c.dtype(x)));
}

void scaled_silu(OpContext& c) {
  c.expect_inputs(1, 2);
  const double alpha = c.take_float("alpha", 1);
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  const ValueId z = c.has_input(1) ? multiply(c, x, c.cast(c.input(1), c.dtype(x))) : scaled(c, x, alpha);
  c.set_output(0, c.emit("Swish", {}, {z}));
}

// How fast a state decays, and how much of what is new it takes.
void linear_attention_gate(OpContext& c) {
  c.expect_inputs(3, 4);
  if (!c.ok()) return;
  if (c.wants_output(1) && !c.has_input(3)) return c.fail_invalid("the output beta needs the operand b");
  const DType dtype = c.dtype(c.input(0));
  const ValueId steps = c.emit("Softplus", {}, {add(c, wide(c, c.input(0)), c.input(1))});
  c.set_output(0, c.cast(multiply(c, steps, c.input(2)), dtype));
  if (c.wants_output(1)) c.set_output(1, c.cast(sigmoid(c, wide(c, c.input(3))), dtype));
}

namespace {

struct ClampedSwiGlu {
  double alpha = 1, beta = 0;
  double limit = 0;     // none
  bool rounds = false;  // the activation to the operands' type, before it is a factor
};

ClampedSwiGlu take_swi_glu(OpContext& c) {
  ClampedSwiGlu rule;
  rule.alpha = c.take_float("activation_alpha", 1);
  rule.beta = c.take_float("activation_beta", 0);
  rule.limit = c.take_float("limit", 0);
  return rule;
}

ValueId gated(OpContext& c, ValueId gate, ValueId up, const ClampedSwiGlu& rule) {
  if (!c.ok()) return {};
  const DType dtype = c.dtype(gate);
  ValueId g = wide(c, gate), u = wide(c, up);
  if (rule.limit > 0) {
    const ValueId most = c.scalar(DType::kF32, rule.limit);
    g = c.emit("Min", {}, {g, most});
    u = c.emit("Clip", {}, {u, c.scalar(DType::kF32, -rule.limit), most});
  }
  ValueId y = c.emit("Swish", {{"alpha", rule.alpha}}, {g});
  if (rule.rounds) y = wide(c, c.cast(y, dtype));
  if (rule.beta != 0) u = add(c, u, c.scalar(DType::kF32, rule.beta));
  return c.cast(multiply(c, y, u), dtype);
}

// The columns of x from `begin` on, an even number, as two halves.
ValueId gated_halves(OpContext& c, ValueId x, int64_t begin, const ClampedSwiGlu& rule) {
  if (!c.ok()) return {};
  const auto columns = c.rank(x) < 1 ? std::nullopt : c.type(x).shape.back().constant();
  if (!columns || begin < 0 || *columns < begin || (*columns - begin) % 2 != 0) {
    c.fail_unsupported(
        str_cat("the last axis of ", c.type(x).text(), " does not split into halves behind ", begin, " columns"));
    return {};
  }
  const int64_t middle = (begin + *columns) / 2;
  return gated(c, slice(c, x, -1, begin, middle), slice(c, x, -1, middle, *columns), rule);
}

}  // namespace

// The gate and what it gates, or both as one operand.
void clamped_swi_glu(OpContext& c) {
  c.expect_inputs(1, 2);
  ClampedSwiGlu rule = take_swi_glu(c);
  rule.rounds = c.take_int("round_activation", 0) != 0;
  c.set_output(0, c.has_input(1) ? gated(c, c.input(0), c.input(1), rule) : gated_halves(c, c.input(0), 0, rule));
}

// One product: columns for the router of experts, and a gated pair for the expert that all tokens share.
void router_gate_up_projection(OpContext& c) {
  c.expect_inputs(2, 2);
  c.require_attribute("router_size");
  const int64_t router = c.take_int("router_size", 0);
  const std::string activation = c.take_string("activation", "swiglu");
  const ClampedSwiGlu rule = take_swi_glu(c);
  if (c.ok() && activation != "swiglu")
    return c.fail_unsupported(str_cat("activation '", activation, "' is not supported"));
  const ValueId y = matmul(c, c.input(0), c.input(1));
  const ValueId activated = gated_halves(c, y, router, rule);
  if (c.wants_output(0)) c.set_output(0, slice(c, y, -1, 0, router));
  if (c.wants_output(1)) c.set_output(1, activated);
}

}  // namespace aipu::frontend::microsoft
