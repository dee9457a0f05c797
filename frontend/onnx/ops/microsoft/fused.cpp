// Products and convolutions with a transposition in front or an activation behind, as optimisers fuse them.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

// [A, B, ..., M, K] with its first axis moved behind the other batch axes: [B, ..., A, M, K].
ValueId batch_transposed(OpContext& c, ValueId x) {
  std::vector<int64_t> permutation;
  const int64_t rank = c.rank(x);
  for (int64_t axis = 1; axis < rank - 1; ++axis) permutation.push_back(axis);
  permutation.push_back(0);
  permutation.push_back(rank - 1);
  return c.transpose(x, std::move(permutation));
}

// The activation of a fused operator; its numbers, by place, are `alpha` and `beta` of the ONNX operator.
ValueId activated(OpContext& c, const std::string& name, const std::vector<std::optional<double>>& numbers, ValueId x) {
  if (name.empty() || !c.ok()) return x;
  const auto number = [&](size_t i, double otherwise) {
    return i < numbers.size() && numbers[i] ? *numbers[i] : otherwise;
  };
  if (name == "Relu" || name == "Sigmoid" || name == "Tanh" || name == "Softplus" || name == "Softsign") {
    return c.emit(name, {}, {x});
  }
  if (name == "LeakyRelu" || name == "Elu" || name == "ThresholdedRelu") {
    return c.emit(name, {{"alpha", number(0, name == "LeakyRelu" ? 0.01 : 1.0)}}, {x});
  }
  if (name == "HardSigmoid") return c.emit(name, {{"alpha", number(0, 0.2)}, {"beta", number(1, 0.5)}}, {x});
  if (name == "Clip") {
    const DType dtype = c.dtype(x);
    return c.emit(
        "Clip", {},
        {x, c.scalar(dtype, number(0, -3.4028234663852886e38)), c.scalar(dtype, number(1, 3.4028234663852886e38))});
  }
  c.fail_unsupported(str_cat("the activation '", name, "' is not supported"));
  return {};
}

}  // namespace

// FusedMatMul and, under its old name, TransposeMatMul.
void fused_matmul(OpContext& c) {
  c.expect_inputs(2, 2);
  const double alpha = c.take_float("alpha", 1);
  ValueId operands[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::string side = i == 0 ? "A" : "B";
    ValueId x = c.input(i);
    const bool transposes = c.take_int("trans" + side, 0) != 0;
    if (c.take_int("transBatch" + side, 0) != 0 && c.rank(x) > 2) x = batch_transposed(c, x);
    operands[i] = transposes && c.rank(x) > 1 ? swap_last_two(c, x) : x;
  }
  c.set_output(0, scaled(c, matmul(c, operands[0], operands[1]), alpha));
}

void fused_gemm(OpContext& c) {
  c.expect_inputs(2, 3);
  const std::string activation = c.take_string("activation", "");
  std::vector<std::optional<double>> numbers;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    numbers.push_back(c.has_attribute(name) ? std::optional(c.take_float(name, 0)) : std::nullopt);
  }
  if (!c.ok()) return;
  const double alpha = c.take_float("alpha", 1);
  const double beta = c.take_float("beta", 1);
  const int64_t transposes_a = c.take_int("transA", 0);
  const int64_t transposes_b = c.take_int("transB", 0);
  const ValueId y =
      c.emit("Gemm", {{"alpha", alpha}, {"beta", beta}, {"transA", transposes_a}, {"transB", transposes_b}}, c.inputs);
  c.set_output(0, activated(c, activation, numbers, y));
}

// Conv, then the sum with Z, then the activation.
void fused_conv(OpContext& c) {
  c.expect_inputs(2, 4);
  const std::string activation = c.take_string("activation", "");
  std::vector<std::optional<double>> numbers;
  for (const double number : c.take_floats("activation_params").value_or(std::vector<double>()))
    numbers.emplace_back(number);
  const ValueId sum = c.input(3);
  AttributeList attributes = listed(c.pass_attributes("Conv"));
  std::vector<ValueId> operands{c.input(0), c.input(1)};
  if (c.has_input(2)) operands.push_back(c.input(2));
  const ValueId y = c.emit("Conv", std::move(attributes), operands);
  c.set_output(0, activated(c, activation, numbers, add_if(c, y, sum)));
}

void nhwc_max_pool(OpContext& c) {
  c.expect_inputs(1, 1);
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  if (c.ok() && rank < 3)
    return c.fail_invalid(str_cat("the input must have rank 3 or more, found ", c.type(x).text()));
  std::vector<int64_t> to_front{0, rank - 1};
  std::vector<int64_t> to_back{0};
  for (int64_t axis = 1; axis < rank - 1; ++axis) to_front.push_back(axis);
  for (int64_t axis = 2; axis < rank; ++axis) to_back.push_back(axis);
  to_back.push_back(1);
  AttributeList attributes = listed(c.pass_attributes("MaxPool"));
  c.set_output(0, c.transpose(c.emit("MaxPool", std::move(attributes), {c.transpose(x, to_front)}), to_back));
}

void conv_transpose_with_dynamic_pads(OpContext& c) {
  c.expect_inputs(2, 4);
  if (!c.ok()) return;
  Attributes attributes = c.pass_attributes("ConvTranspose");
  if (c.has_input(2)) {
    const auto pads = c.constant_ints(c.input(2));
    if (!pads) {
      return c.fail_unsupported(
          str_cat("operand '", c.graph().value(c.input(2)).name, "' must be known when compiling, it is the pads"));
    }
    attributes.set("pads", *pads);
  }
  std::vector<ValueId> operands{c.input(0), c.input(1)};
  if (c.has_input(3)) operands.push_back(c.input(3));
  c.set_output(0, c.emit("ConvTranspose", listed(attributes), operands));
}

}  // namespace aipu::frontend::microsoft
