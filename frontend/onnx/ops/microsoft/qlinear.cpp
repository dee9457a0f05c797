// Operators between quantised tensors: the operands as floats, the float operator, the result quantised. Passes make
// islands of integers of them where that gives the same.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "frontend/onnx/ops/microsoft/quantized.h"

namespace aipu::frontend::microsoft {

namespace {

// Operand i with its scale and zero point behind it.
ValueId real(OpContext& c, size_t i) { return dequantized(c, c.input(i), c.input(i + 1), c.input(i + 2)); }

// The result, of operand 0's type, with the scale i and the zero point i + 1.
void give(OpContext& c, ValueId y, size_t i) {
  c.set_output(0, quantized(c, y, c.input(i), c.input(i + 1), c.dtype(c.input(0))));
}

// x with the channel behind its first axis if it is the last one, and back.
ValueId channels_first(OpContext& c, ValueId x, bool last) {
  if (!last) return x;
  std::vector<int64_t> permutation{0, c.rank(x) - 1};
  for (int64_t axis = 1; axis < c.rank(x) - 1; ++axis) permutation.push_back(axis);
  return c.transpose(x, std::move(permutation));
}
ValueId channels_last(OpContext& c, ValueId x, bool last) {
  if (!last) return x;
  std::vector<int64_t> permutation{0};
  for (int64_t axis = 2; axis < c.rank(x); ++axis) permutation.push_back(axis);
  permutation.push_back(1);
  return c.transpose(x, std::move(permutation));
}

}  // namespace

// QLinearAdd, QLinearMul
void qlinear_binary(OpContext& c) {
  c.expect_inputs(2, 8);
  give(c, c.emit(c.op_type().substr(7), {}, {real(c, 0), real(c, 3)}), 6);
}

// QLinearSigmoid, QLinearLeakyRelu
void qlinear_unary(OpContext& c) {
  c.expect_inputs(2, 5);
  const std::string op = c.op_type().substr(7);
  give(c, c.emit(op, listed(c.pass_attributes(op)), {real(c, 0)}), 3);
}

// Before opset 13 the axes from `axis` on were one.
void qlinear_softmax(OpContext& c) {
  c.expect_inputs(5, 5);
  const int64_t opset = c.take_int("opset", 13);
  const ValueId x = dequantized(c, c.input(0), c.input(1), c.input(2));
  const int64_t axis = c.take_axis("axis", opset < 13 ? 1 : -1, c.rank(c.input(0)));
  if (!c.ok()) return;
  ValueId y;
  if (opset < 13 && axis != c.rank(x) - 1) {
    y = c.emit("Softmax", {{"axis", int64_t{1}}}, {c.emit("Flatten", {{"axis", axis}}, {x})});
    y = c.emit("Reshape", {{"shape", c.type(x).shape}}, {y});
  } else {
    y = c.emit("Softmax", {{"axis", axis}}, {x});
  }
  give(c, y, 3);
}

void qlinear_where(OpContext& c) {
  c.expect_inputs(9, 9);
  const ValueId y = c.emit("Where", {}, {c.input(0), real(c, 1), real(c, 4)});
  c.set_output(0, quantized(c, y, c.input(7), c.input(8), c.dtype(c.input(1))));
}

void qlinear_concat(OpContext& c) {
  c.expect_inputs(5, 1000000);
  c.require_attribute("axis");
  const int64_t axis = c.take_int("axis", 0);
  if (!c.ok()) return;
  if (c.inputs.size() % 3 != 2) return c.fail_invalid(str_cat("has ", c.inputs.size(), " inputs"));
  std::vector<ValueId> parts;
  for (size_t i = 2; i < c.inputs.size(); i += 3) parts.push_back(real(c, i));
  const ValueId y = concat(c, axis, std::move(parts));
  c.set_output(0, quantized(c, y, c.input(0), c.input(1), c.dtype(c.input(2))));
}

// QLinearAveragePool, QLinearGlobalAveragePool
void qlinear_pool(OpContext& c) {
  c.expect_inputs(2, 5);
  const bool last = c.take_int("channels_last", 0) != 0;
  const std::string op = c.op_type().substr(7);
  const ValueId y = c.emit(op, listed(c.pass_attributes(op)), {channels_first(c, real(c, 0), last)});
  give(c, channels_last(c, y, last), 3);
}

void qlinear_reduce_mean(OpContext& c) {
  c.expect_inputs(2, 5);
  const auto axes = c.take_ints("axes");
  const int64_t keep = c.take_int("keepdims", 1);
  std::vector<ValueId> operands{real(c, 0)};
  if (axes) operands.push_back(c.int64s(*axes));
  give(c, c.emit("ReduceMean", {{"keepdims", keep}}, std::move(operands)), 3);
}

// ONNX's, and channels last.
void qlinear_conv(OpContext& c) {
  c.expect_inputs(8, 9);
  const bool last = c.take_int("channels_last", 0) != 0;
  const auto attributes = c.pass_attributes("QLinearConv");
  if (!c.ok()) return;
  std::vector<ValueId> operands = c.inputs;
  operands[0] = channels_first(c, operands[0], last);
  c.set_output(0, channels_last(c, c.emit("QLinearConv", listed(attributes), std::move(operands)), last));
}

// alpha * A B + C, where C is int32 with the scale alpha * a_scale * b_scale; floats without a scale for the result
void q_gemm(OpContext& c) {
  c.expect_inputs(6, 9);
  const double alpha = c.take_float("alpha", 1);
  const bool transposes_a = c.take_int("transA", 0) != 0;
  const bool transposes_b = c.take_int("transB", 0) != 0;
  if (!c.ok()) return;
  ValueId a = c.input(0);
  ValueId b = c.input(3);
  if (transposes_a) a = c.transpose(a, {1, 0});
  if (transposes_b) b = c.transpose(b, {1, 0});
  ValueId sums = c.emit("MatMulInteger", {}, {a, b, c.input(2), c.input(5)});
  sums = add_if(c, sums, c.input(6));
  const ValueId scale = scaled(c, multiply(c, c.input(1), c.input(4)), alpha);
  const ValueId y = multiply(c, c.cast(sums, DType::kF32), scale);
  if (c.has_input(7)) {
    give(c, y, 7);
  } else {
    c.set_output(0, y);
  }
}

// QuantizeLinear and DequantizeLinear: an axis only where the scale has one.
void quantize_linear(OpContext& c) {
  c.expect_inputs(2, 3);
  c.emit_outputs(c.op_type(), c.pass_attributes(c.op_type()), c.inputs);
}

void q_embed_layer_normalization(OpContext& c) {
  c.expect_inputs(1, 18);
  if (!c.ok()) return;
  // The parameters as floats, in the places that EmbedLayerNormalization has for them.
  const auto parameter = [&](size_t value, size_t scale) {
    return c.has_input(value) ? dequantized(c, c.input(value), c.input(scale), c.input(scale + 5)) : ValueId();
  };
  const ValueId word = parameter(2, 8), position = parameter(3, 9), segment = parameter(4, 10);
  const ValueId gamma = parameter(5, 11), beta = parameter(6, 12);
  c.inputs = {c.input(0), c.input(1), word, position, segment, gamma, beta, c.input(7)};
  embed_layer_normalization(c);
}

}  // namespace aipu::frontend::microsoft
