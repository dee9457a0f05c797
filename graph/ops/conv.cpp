// Conv, ConvTranspose, ConvInteger, QLinearConv. The weight keeps ONNX's axis order in either layout.
#include "graph/ops/multiplies.h"
#include "graph/ops/op_list.h"
#include "graph/ops/spatial.h"

namespace aipu::graph {
namespace {

std::vector<AttributeDef> window_attributes() {
  return {attr::s("auto_pad", "NOTSET"),
          attr::i("group", 1),
          attr::optional("kernel_shape", AttributeKind::kInts),
          attr::optional("strides", AttributeKind::kInts),
          attr::optional("dilations", AttributeKind::kInts),
          attr::optional("pads", AttributeKind::kInts),
          attr::layout()};
}

std::function<Status(const Graph&, Node*)> complete_conv(size_t weight) {
  return [weight](const Graph& graph, Node* node) -> Status {
    AIPU_ASSIGN_OR_RETURN(const auto kernel, kernel_extents(graph.type(node->inputs[weight])));
    return complete_window(graph, node, kernel);
  };
}

Status check_channels(InferContext& ctx, size_t weight_index, size_t bias_index) {
  const TensorType& input = ctx.input(0);
  const TensorType& weight = ctx.input(weight_index);
  if (weight.rank() != input.rank())
    return invalid_model(str_cat("the weight ", weight.text(), " must have the input's rank, ", input.rank()));
  const int64_t group = ctx.attributes().i("group");
  if (group < 1) return invalid_model(str_cat("group is ", group));
  const SpatialLayout layout(ctx.attributes(), input.rank());
  AIPU_RETURN_IF_ERROR(
      expect_equal(layout.channels(input.shape), weight.shape[1] * Dim(group), "the input's channel count"));
  if (weight.shape[0].constant_or(0) % group != 0) {
    return invalid_model(str_cat(weight.shape[0].text(), " output channels do not divide into ", group, " groups"));
  }
  if (!ctx.has_input(bias_index)) return {};
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, bias_index, 1));
  return expect_equal(ctx.input(bias_index).shape[0], weight.shape[0], "the bias's extent");
}

Status infer_conv(InferContext& ctx, size_t weight, size_t bias, DType output) {
  AIPU_RETURN_IF_ERROR(check_channels(ctx, weight, bias));
  AIPU_ASSIGN_OR_RETURN(const Shape spatial, slide_window(ctx.graph(), ctx.node()));
  const Shape& input = ctx.input(0).shape;
  const SpatialLayout layout(ctx.attributes(), static_cast<int>(input.size()));
  set_output(ctx, 0, output, layout.make(layout.batch(input), ctx.input(weight).shape[0], spatial));
  return {};
}

Status infer_conv_transpose(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1, 2}));
  const TensorType& input = ctx.input(0);
  const TensorType& weight = ctx.input(1);
  const SpatialLayout layout(ctx.attributes(), input.rank());
  if (weight.rank() != input.rank())
    return invalid_model(str_cat("the weight ", weight.text(), " must have the input's rank, ", input.rank()));
  AIPU_RETURN_IF_ERROR(expect_equal(layout.channels(input.shape), weight.shape[0], "the input's channel count"));
  const int64_t group = ctx.attributes().i("group");
  if (group < 1 || weight.shape[0].constant_or(0) % group != 0) {
    return invalid_model(str_cat(weight.shape[0].text(), " input channels do not divide into ", group, " groups"));
  }
  const Dim channels = weight.shape[1] * Dim(group);
  if (ctx.has_input(2)) {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 2, 1));
    AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(2).shape[0], channels, "the bias's extent"));
  }
  Shape spatial = layout.spatial(input.shape);
  const Attributes& a = ctx.attributes();
  AIPU_ASSIGN_OR_RETURN(const Window window, window_of(ctx.graph(), ctx.node()));
  if (window.kernel.size() != spatial.size()) return invalid_model("the kernel and the input differ in spatial rank");
  const bool same = a.s("auto_pad") != "NOTSET";
  for (size_t k = 0; k < spatial.size(); ++k) {
    const Dim stride(window.strides[k]);
    if (a.has("output_shape")) {
      spatial[k] = a.ints("output_shape")[k];
    } else if (same) {
      spatial[k] = spatial[k] * stride;
    } else {
      spatial[k] = stride * (spatial[k] - 1) + Dim(a.ints("output_padding")[k]) + window.reach(k) -
                   window.pads_begin[k] - window.pads_end[k];
      if (spatial[k].constant_or(1) < 0)
        return invalid_model(str_cat("pads cut more than the output has on spatial axis ", k));
    }
  }
  set_output(ctx, 0, input.dtype, layout.make(layout.batch(input.shape), channels, spatial));
  return {};
}

// A scale or zero point of an operand: one element, or one for each of `channels`.
Status check_quantization(const InferContext& ctx, size_t i, const Dim* channels, const char* what) {
  if (!ctx.has_input(i)) return {};
  const auto count = element_count(ctx.input(i).shape);
  if (count.constant() == 1) return {};
  if (channels == nullptr) return invalid_model(str_cat(what, " must have one element, found ", ctx.input(i).text()));
  return expect_equal(count, *channels, what);
}

Status infer_conv_integer(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 2, nullptr, "x_zero_point"));
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 3, &ctx.input(1).shape[0], "w_zero_point"));
  return infer_conv(ctx, 1, SIZE_MAX, DType::kI32);
}

// x, w, zero points, scale of the accumulators, bias: what aipu::QuantizedConv and aipu::QuantizedMatMul have alike.
Status check_integer_product(const InferContext& ctx, const Dim& channels) {
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 2, nullptr, "x_zero_point"));
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 3, &channels, "w_zero_point"));
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 4, &channels, "scale"));
  for (const size_t k : {size_t{0}, size_t{1}}) {
    if (dtype_bits(ctx.input(k).dtype) != 8)
      return invalid_model(str_cat("8-bit operands are needed, found ", ctx.input(k).text()));
  }
  return {};
}

Status infer_quantized_conv(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(check_integer_product(ctx, ctx.input(1).shape[0]));
  return infer_conv(ctx, 1, 5, ctx.has_input(4) ? ctx.input(4).dtype : DType::kI32);
}

Status infer_qlinear_conv(InferContext& ctx) {
  const Dim& channels = ctx.input(3).shape[0];
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 1, nullptr, "x_scale"));
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 2, nullptr, "x_zero_point"));
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 4, &channels, "w_scale"));
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 5, &channels, "w_zero_point"));
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 6, nullptr, "y_scale"));
  AIPU_RETURN_IF_ERROR(check_quantization(ctx, 7, nullptr, "y_zero_point"));
  return infer_conv(ctx, 3, 8, ctx.input(7).dtype);
}

OpDef conv_op() {
  OpDef def;
  def.name = "Conv";
  def.inputs = {operand("X", "f"), operand("W", "f"), optional_operand("B", "f")};
  def.outputs = {operand("Y", "f")};
  def.attributes = window_attributes();
  def.attributes.push_back(attr::own_optional(std::string(kMultiplies), AttributeKind::kDType));
  def.traits = kSpatial | kSumsProducts;
  def.complete = complete_conv(1);
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1, 2}));
    return infer_conv(ctx, 1, 2, ctx.input(0).dtype);
  };
  def.axes = axes::images(axes::Channels::kMixed);
  def.multiply_adds = work::convolution(1);
  return def;
}

OpDef conv_transpose_op() {
  OpDef def;
  def.name = "ConvTranspose";
  def.inputs = {operand("X", "f"), operand("W", "f"), optional_operand("B", "f")};
  def.outputs = {operand("Y", "f")};
  def.attributes = window_attributes();
  def.attributes.push_back(attr::optional("output_padding", AttributeKind::kInts));
  def.attributes.push_back(attr::optional("output_shape", AttributeKind::kInts));
  def.traits = kSpatial;
  def.complete = [](const Graph& graph, Node* node) -> Status {
    AIPU_ASSIGN_OR_RETURN(const auto kernel, kernel_extents(graph.type(node->inputs[1])));
    return complete_transposed_window(graph, node, kernel);
  };
  def.infer = infer_conv_transpose;
  def.axes = axes::images(axes::Channels::kMixed);
  def.multiply_adds = work::transposed_convolution(1);
  return def;
}

OpDef conv_integer_op() {
  OpDef def;
  def.name = "ConvInteger";
  def.inputs = {operand("x", "iu"), operand("w", "iu"), optional_operand("x_zero_point", "iu"),
                optional_operand("w_zero_point", "iu")};
  def.outputs = {operand("y", "i")};
  def.attributes = window_attributes();
  def.traits = kSpatial;
  def.complete = complete_conv(1);
  def.infer = infer_conv_integer;
  def.axes = axes::images(axes::Channels::kMixed);
  def.multiply_adds = work::convolution(1);
  return def;
}

// What quantised graphs become (passes/integer_arithmetic.cpp): out = scale * (sum of (x - x_zero_point) * (w -
// w_zero_point) + bias) in the scale's dtype, or without a scale the int32 accumulators. 8-bit operands; zero point of
// w, scale and bias of one element or one per output channel (per column of the 2-D w).
OpDef quantized_conv_op() {
  OpDef def;
  def.name = "aipu::QuantizedConv";
  def.inputs = {operand("x", "iu"),
                operand("w", "iu"),
                optional_operand("x_zero_point", "iu"),
                optional_operand("w_zero_point", "iu"),
                optional_operand("scale", "f"),
                optional_operand("bias", "i")};
  def.outputs = {operand("y", "if")};
  def.attributes = window_attributes();
  def.traits = kSpatial;
  def.complete = complete_conv(1);
  def.infer = infer_quantized_conv;
  def.axes = axes::images(axes::Channels::kMixed);
  def.multiply_adds = work::convolution(1);
  return def;
}

OpDef qlinear_conv_op() {
  OpDef def;
  def.name = "QLinearConv";
  def.inputs = {operand("x", "iu"),      operand("x_scale", "f"),       operand("x_zero_point", "iu"),
                operand("w", "iu"),      operand("w_scale", "f"),       operand("w_zero_point", "iu"),
                operand("y_scale", "f"), operand("y_zero_point", "iu"), optional_operand("B", "i")};
  def.outputs = {operand("y", "iu")};
  def.attributes = window_attributes();
  def.traits = kSpatial;
  def.complete = complete_conv(3);
  def.infer = infer_qlinear_conv;
  def.axes = axes::images(axes::Channels::kMixed);
  def.multiply_adds = work::convolution(3);
  return def;
}

}  // namespace

std::vector<OpDef> conv_ops() {
  return {conv_op(), conv_transpose_op(), conv_integer_op(), qlinear_conv_op(), quantized_conv_op()};
}

}  // namespace aipu::graph
