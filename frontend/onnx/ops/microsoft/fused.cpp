// Products and convolutions with a transposition in front or an activation behind, as optimisers fuse them.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"
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

std::vector<std::optional<double>> take_activation_numbers(OpContext& c) {
  std::vector<std::optional<double>> numbers;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    numbers.push_back(c.has_attribute(name) ? std::optional(c.take_float(name, 0)) : std::nullopt);
  return numbers;
}

// [N, spatial..., C] as [N, C, spatial...], and back.
ValueId channels_first(OpContext& c, ValueId x) {
  const int64_t rank = c.rank(x);
  std::vector<int64_t> permutation{0, rank - 1};
  for (int64_t axis = 1; axis < rank - 1; ++axis) permutation.push_back(axis);
  return c.transpose(x, permutation);
}

ValueId channels_last(OpContext& c, ValueId x) {
  std::vector<int64_t> permutation{0};
  for (int64_t axis = 2; axis < c.rank(x); ++axis) permutation.push_back(axis);
  permutation.push_back(1);
  return c.transpose(x, permutation);
}

// Of what has channels last.
bool has_spatial_axes(OpContext& c, ValueId x) {
  if (c.ok() && c.rank(x) < 3) c.fail_invalid(str_cat("the input must have rank 3 or more, found ", c.type(x).text()));
  return c.ok();
}

}  // namespace

// FusedMatMul and, under its old name, TransposeMatMul; FusedMatMulActivation.
void fused_matmul(OpContext& c) {
  c.expect_inputs(2, 2);
  const double alpha = c.take_float("alpha", 1);
  const std::string activation = c.take_string("activation", "");
  const auto numbers = take_activation_numbers(c);
  int64_t softmax_axis = c.take_int("activation_axis", -1);
  ValueId operands[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::string side = i == 0 ? "A" : "B";
    ValueId x = c.input(i);
    const bool transposes = c.take_int("trans" + side, 0) != 0;
    if (c.take_int("transBatch" + side, 0) != 0 && c.rank(x) > 2) x = batch_transposed(c, x);
    operands[i] = transposes && c.rank(x) > 1 ? swap_last_two(c, x) : x;
  }
  const ValueId product = scaled(c, matmul(c, operands[0], operands[1]), alpha);
  if (activation == "Softmax") return c.emit_output("Softmax", {{"axis", softmax_axis}}, {product});
  c.set_output(0, activated(c, activation, numbers, product));
}

void fused_gemm(OpContext& c) {
  c.expect_inputs(2, 3);
  const std::string activation = c.take_string("activation", "");
  const auto numbers = take_activation_numbers(c);
  const ValueId y = product_and_addend(c);
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
  if (!has_spatial_axes(c, c.input(0))) return;
  AttributeList attributes = listed(c.pass_attributes("MaxPool"));
  c.set_output(0, channels_last(c, c.emit("MaxPool", std::move(attributes), {channels_first(c, c.input(0))})));
}

// NhwcConv, and NhwcFusedConv with the sum with Z and the activation of FusedConv.
void nhwc_conv(OpContext& c) {
  c.expect_inputs(2, 4);
  const std::string activation = c.take_string("activation", "");
  std::vector<std::optional<double>> numbers;
  for (const double number : c.take_floats("activation_params").value_or(std::vector<double>()))
    numbers.emplace_back(number);
  if (!has_spatial_axes(c, c.input(0))) return;
  AttributeList attributes = listed(c.pass_attributes("Conv"));
  std::vector<ValueId> operands{channels_first(c, c.input(0)), c.input(1)};
  if (c.has_input(2)) operands.push_back(c.input(2));
  const ValueId y = channels_last(c, c.emit("Conv", std::move(attributes), operands));
  c.set_output(0, activated(c, activation, numbers, add_if(c, y, c.input(3))));
}

void gemm_fast_gelu(OpContext& c) {
  c.expect_inputs(2, 3);
  const ValueId y = add_if(c, matmul(c, c.input(0), c.input(1)), c.input(2));
  c.emit_output("Gelu", {{"approximate", std::string("tanh")}}, {y});
}

// Pads that only a run knows are cut off (or, below 0, put around) what there is without; the bias comes behind that,
// as it is also where pads put something around.
void conv_transpose_with_dynamic_pads(OpContext& c) {
  c.expect_inputs(2, 4);
  if (!c.ok()) return;
  Attributes attributes = c.pass_attributes("ConvTranspose");
  std::vector<ValueId> operands{c.input(0), c.input(1)};
  const ValueId pads = c.input(2), bias = c.input(3);
  // Where these say how large the result is, pads follow from them.
  const bool decided = attributes.s_or("auto_pad", "NOTSET") != "NOTSET" ||
                       (attributes.has("output_shape") && !attributes.ints("output_shape").empty());
  const auto known = c.constant_ints(pads);
  if (known && !decided) attributes.set("pads", *known);
  if (known || decided || !pads.valid()) {
    if (bias.valid()) operands.push_back(bias);
    return c.set_output(0, c.emit("ConvTranspose", listed(attributes), operands));
  }
  const int64_t spatial = c.rank(c.input(0)) - 2;
  if (spatial < 1)
    return c.fail_invalid(str_cat("the input must have rank 3 or more, found ", c.type(c.input(0)).text()));
  if (c.type(pads).shape != Shape{Dim(2 * spatial)})
    return c.fail_invalid(str_cat("the pads must be ", 2 * spatial, " numbers, found ", c.type(pads).text()));
  attributes.set("pads", std::vector<int64_t>(static_cast<size_t>(2 * spatial), 0));
  const ValueId whole = c.emit("ConvTranspose", listed(attributes), operands);
  const ValueId none = c.int64s({0, 0}), added = c.emit("Neg", {}, {pads});
  const ValueId around =
      concat(c, 0, {none, slice(c, added, 0, 0, spatial), none, slice(c, added, 0, spatial, 2 * spatial)});
  std::vector<int64_t> per_channel{-1};
  per_channel.resize(static_cast<size_t>(spatial + 1), 1);
  c.set_output(0, add_if(c, c.emit("Pad", {}, {whole, around}), bias.valid() ? reshape(c, bias, per_channel) : bias));
}

}  // namespace aipu::frontend::microsoft
