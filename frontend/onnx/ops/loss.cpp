// Losses as compositions, following the functions of the ONNX specification.
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

// input [N,C,d...], target [N,d...], optional weight [C].
ValueId nll(OpContext& c, ValueId input, ValueId target, ValueId weight, bool has_ignored, int64_t ignored,
            const std::string& reduction) {
  if (!c.ok()) return {};
  const DType dtype = c.dtype(input);
  const DType index = c.dtype(target);
  if (!is_integer(index)) c.fail_invalid(str_cat("target must be integers, found ", c.type(target).text()));
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    c.fail_invalid(str_cat("reduction is '", reduction, "', expected one of: none, sum, mean"));
  }
  if (!c.ok()) return {};
  ValueId skipped;
  if (has_ignored) {
    skipped = c.emit("Equal", {}, {target, c.scalar(index, static_cast<double>(ignored))});
    target = c.emit("Where", {}, {skipped, c.scalar(index, 0), target});  // any valid class
  }
  const ValueId picked =
      c.emit("GatherElements", {{"axis", int64_t{1}}, {"from_start", int64_t{1}}}, {input, c.unsqueeze(target, {1})});
  ValueId loss = c.emit("Neg", {}, {c.squeeze(picked, {1})});
  ValueId weights;
  if (weight.valid()) weights = c.emit("Gather", {{"axis", int64_t{0}}, {"from_start", int64_t{1}}}, {weight, target});
  if (has_ignored)
    weights = c.emit("Where", {}, {skipped, c.scalar(dtype, 0), weights.valid() ? weights : c.scalar(dtype, 1)});
  if (weights.valid()) loss = c.emit("Mul", {}, {loss, weights});
  if (reduction == "none") return loss;
  const AttributeList scalar{{"keepdims", int64_t{0}}};
  if (reduction == "sum") return c.emit("ReduceSum", scalar, {loss});
  if (!weights.valid()) return c.emit("ReduceMean", scalar, {loss});
  return c.emit("Div", {}, {c.emit("ReduceSum", scalar, {loss}), c.emit("ReduceSum", scalar, {weights})});
}

}  // namespace

void negative_log_likelihood_loss(OpContext& c) {
  c.expect_inputs(2, 3);
  const bool has_ignored = c.has_attribute("ignore_index");
  const int64_t ignored = c.take_int("ignore_index", 0);
  const std::string reduction = c.take_string("reduction", "mean");
  c.set_output(0, nll(c, c.input(0), c.input(1), c.input(2), has_ignored, ignored, reduction));
}

void softmax_cross_entropy_loss(OpContext& c) {
  c.expect_inputs(2, 3);
  const bool has_ignored = c.has_attribute("ignore_index");
  const int64_t ignored = c.take_int("ignore_index", 0);
  const std::string reduction = c.take_string("reduction", "mean");
  const ValueId log_probability = c.emit("LogSoftmax", {{"axis", int64_t{1}}}, {c.input(0)});
  c.set_output(0, nll(c, log_probability, c.input(1), c.input(2), has_ignored, ignored, reduction));
  if (c.wants_output(1)) c.set_output(1, log_probability);
}

}  // namespace aipu::frontend
