// Linear quantisation: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, and ONNX Runtime's quantised operators
// of the domain com.microsoft.
#include <algorithm>

#include "graph/ops/op_list.h"

namespace aipu::graph {
namespace {

// The axis matters only when the scale is a vector (or, with block_size, of the input's rank); a scalar's is normalised
// to 0.
Status complete_quantization(const Graph& graph, Node* node) {
  const TensorType& input = graph.type(node->inputs[0]);
  const TensorType& scale = graph.type(node->inputs[1]);
  if (element_count(scale.shape).constant() == 1 && scale.rank() <= 1) {
    // An axis beyond the rank is harmless here; the default 1 meets 1-D inputs.
    node->attributes.set("axis", int64_t{0});
    return {};
  }
  return complete_axis_attribute(node, "axis", input.rank());
}

Status check_scale(InferContext& ctx) {
  const TensorType& input = ctx.input(0);
  const TensorType& scale = ctx.input(1);
  const int64_t block = ctx.attributes().i("block_size");
  if (ctx.has_input(2)) {
    const TensorType& zero = ctx.input(2);
    AIPU_RETURN_IF_ERROR(
        expect_equal(element_count(zero.shape), element_count(scale.shape), "the element count of the zero point"));
  }
  const auto axis = static_cast<size_t>(ctx.attributes().i("axis"));
  if (block > 0) {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, input.rank()));
    for (size_t k = 0; k < input.shape.size(); ++k) {
      AIPU_RETURN_IF_ERROR(expect_equal(scale.shape[k], k == axis ? ceildiv(input.shape[k], block) : input.shape[k],
                                        str_cat("extent ", k, " of the scale")));
    }
    return {};
  }
  if (element_count(scale.shape).constant() == 1) return {};
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 1));
  return expect_equal(scale.shape[0], input.shape[axis], "the extent of the scale");
}

Status infer_quantize(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(check_scale(ctx));
  const DType wanted = ctx.attributes().has("output_dtype") ? ctx.attributes().dtype("output_dtype") : DType::kVoid;
  const DType dtype = ctx.has_input(2) ? ctx.input(2).dtype : wanted != DType::kVoid ? wanted : DType::kU8;
  if (wanted != DType::kVoid && wanted != dtype) {
    return invalid_model(str_cat("output_dtype is ", dtype_name(wanted), ", the zero point ", dtype_name(dtype)));
  }
  set_output(ctx, 0, dtype, ctx.input(0).shape);
  return {};
}

Status infer_dequantize(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 2}));
  AIPU_RETURN_IF_ERROR(check_scale(ctx));
  set_output(ctx, 0, ctx.input(1).dtype, ctx.input(0).shape);
  return {};
}

// Scales and zero points belong to all elements, or to the positions of one axis.
std::optional<AxisMap> quantization_axes(const Graph& graph, const Node& node) {
  if (node.attributes.i_or("block_size", 0) != 0) return std::nullopt;
  AxisMapBuilder map(graph, node);
  map.link_leading(0, 0, map.output_rank(0));
  for (size_t input = 1; input < node.inputs.size(); ++input) {
    if (map.input_rank(input) == 1 && map.input_extent(input, 0) != Dim(1))
      map.link(0, static_cast<size_t>(node.attributes.i("axis")), input, 0);
  }
  return map.take();
}

OpDef quantize_linear_op() {
  OpDef def;
  def.name = "QuantizeLinear";
  def.inputs = {operand("x", "if"), operand("y_scale", "f"), optional_operand("y_zero_point", "iuq")};
  def.outputs = {operand("y", "iuq")};
  def.attributes = {attr::about(AttributeAxes::kAxis, attr::i("axis", 1)), attr::i("block_size", 0),
                    attr::i("saturate", 1), attr::optional("output_dtype", AttributeKind::kDType)};
  def.complete = complete_quantization;
  def.infer = infer_quantize;
  def.axes = quantization_axes;
  def.traits = kAnyAxisOrder;
  return def;
}

OpDef dequantize_linear_op() {
  OpDef def;
  def.name = "DequantizeLinear";
  def.inputs = {operand("x", "iuq"), operand("x_scale", "f"), optional_operand("x_zero_point", "iuq")};
  def.outputs = {operand("y", "f")};
  // `format`: of codes of floats, with block_size (block_quantized_products).
  def.attributes = {attr::about(AttributeAxes::kAxis, attr::i("axis", 1)), attr::i("block_size", 0),
                    attr::own_optional("format", AttributeKind::kDType)};
  def.complete = complete_quantization;
  def.infer = infer_dequantize;
  def.axes = quantization_axes;
  def.traits = kAnyAxisOrder;
  return def;
}

// What a function makes of each of the 256 bytes that an element can be, by the bits of the element as a number without
// a sign: made by tabulate_bytes.
OpDef byte_function_op() {
  OpDef def;
  def.name = "aipu::ByteFunction";
  def.inputs = {operand("x", "iu")};
  def.outputs = {operand("y", "iu")};
  def.attributes = {attr::required("table", AttributeKind::kConstant)};
  def.traits = kElementwise;
  def.infer = [](InferContext& ctx) -> Status {
    set_output(ctx, 0, ctx.attributes().constant("table")->dtype(), ctx.input(0).shape);
    return {};
  };
  def.verify = [](const Graph& graph, const Node& node) -> Status {
    const ConstantPtr& table = node.attributes.constant("table");
    if (dtype_bits(graph.type(node.inputs[0]).dtype) != 8)
      return invalid_model(str_cat("x is ", dtype_name(graph.type(node.inputs[0]).dtype), ", expected 8 bits"));
    if (!is_integer(table->dtype()) || dtype_bits(table->dtype()) != 8 || table->element_count() != 256)
      return invalid_model(str_cat("the table is ", table->type().text(), ", expected 256 integers of 8 bits"));
    return {};
  };
  return def;
}

OpDef dynamic_quantize_linear_op() {
  OpDef def;
  def.name = "DynamicQuantizeLinear";
  def.inputs = {operand("x", "f")};
  def.outputs = {operand("y", "u"), operand("y_scale", "f"), operand("y_zero_point", "u")};
  def.infer = [](InferContext& ctx) -> Status {
    set_output(ctx, 0, DType::kU8, ctx.input(0).shape);
    set_output(ctx, 1, ctx.input(0).dtype, {});
    set_output(ctx, 2, DType::kU8, {});
    return {};
  };
  def.axes = axes::mixed();
  return def;
}

// ONNX Runtime's, domain com.microsoft: rewritten by passes/quantized_operators.cpp and integer_arithmetic.
OpDef qlinear_binary_op(std::string name) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("A", "iu"),
                operand("A_scale", "f"),
                optional_operand("A_zero_point", "iu"),
                operand("B", "iu"),
                operand("B_scale", "f"),
                optional_operand("B_zero_point", "iu"),
                operand("C_scale", "f"),
                optional_operand("C_zero_point", "iu")};
  def.outputs = {operand("C", "iu")};
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 2, 3, 5, 7}));
    AIPU_ASSIGN_OR_RETURN(Shape shape, broadcast_inputs(ctx, {0, 3}));
    set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
    return {};
  };
  def.axes = axes::broadcast_of({0, 3});
  return def;
}

OpDef qlinear_unary_op(std::string name, std::vector<AttributeDef> attributes = {}) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("X", "iu"), operand("X_scale", "f"), optional_operand("X_zero_point", "iu"),
                operand("Y_scale", "f"), optional_operand("Y_zero_point", "iu")};
  def.outputs = {operand("Y", "iu")};
  def.attributes = std::move(attributes);
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 2, 4}));
    return infer_same_as_input(ctx);
  };
  def.axes = axes::broadcast_of({0});
  return def;
}

OpDef qlinear_global_average_pool_op() {
  OpDef def = qlinear_unary_op("com.microsoft::QLinearGlobalAveragePool", {attr::i("channels_last", 0)});
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 2, 4}));
    AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 2));
    Shape shape = ctx.input(0).shape;
    const size_t first = ctx.attributes().i("channels_last") != 0 ? 1 : 2;
    std::fill_n(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.size() - 2, Dim(1));
    set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
    return {};
  };
  def.axes = axes::images(axes::Channels::kMixed);
  return def;
}

OpDef qlinear_concat_op() {
  OpDef def;
  def.name = "com.microsoft::QLinearConcat";
  // The variadic operands are triples of a tensor, its scale and its zero point.
  def.inputs = {operand("Y_scale", "f"), operand("Y_zero_point", "iu"), variadic_operand("inputs", "iuf")};
  def.outputs = {operand("Y", "iu")};
  def.attributes = {attr::required("axis", AttributeKind::kInt)};
  def.complete = complete_axis("axis", 2);
  def.infer = [](InferContext& ctx) -> Status {
    const size_t count = ctx.node().inputs.size();
    if (count < 5 || count % 3 != 2)
      return invalid_model("the inputs must be triples of a tensor, a scale and a zero point");
    Shape shape = ctx.input(2).shape;
    const auto axis = static_cast<size_t>(ctx.attributes().i("axis"));
    for (size_t k = 5; k < count; k += 3) {
      AIPU_RETURN_IF_ERROR(expect_rank(ctx, k, static_cast<int>(shape.size())));
      shape[axis] = shape[axis] + ctx.input(k).shape[axis];
    }
    set_output(ctx, 0, ctx.input(1).dtype, std::move(shape));
    return {};
  };
  def.axes = axes::mixed();
  return def;
}

OpDef qgemm_op() {
  OpDef def;
  def.name = "com.microsoft::QGemm";
  def.inputs = {operand("A", "iu"),         operand("a_scale", "f"),          operand("a_zero_point", "iu"),
                operand("B", "iu"),         operand("b_scale", "f"),          operand("b_zero_point", "iu"),
                optional_operand("C", "i"), optional_operand("y_scale", "f"), optional_operand("y_zero_point", "iu")};
  def.outputs = {operand("Y", "iuf")};
  def.attributes = {attr::f("alpha", 1.0), attr::i("transA", 0), attr::i("transB", 0)};
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 2));
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 3, 2));
    const bool a_transposed = ctx.attributes().i("transA") != 0, b_transposed = ctx.attributes().i("transB") != 0;
    const Shape &a = ctx.input(0).shape, &b = ctx.input(3).shape;
    AIPU_RETURN_IF_ERROR(expect_equal(b[b_transposed ? 1 : 0], a[a_transposed ? 0 : 1], "the inner extent of B"));
    const DType dtype = ctx.has_input(8)   ? ctx.input(8).dtype
                        : ctx.has_input(7) ? ctx.input(0).dtype
                                           : ctx.input(1).dtype;
    set_output(ctx, 0, dtype, {a[a_transposed ? 1 : 0], b[b_transposed ? 0 : 1]});
    return {};
  };
  def.axes = axes::gemm(0, 3, 6);
  def.multiply_adds = work::gemm(0);
  return def;
}

}  // namespace

std::vector<OpDef> quantized_ops() {
  return {
      quantize_linear_op(),
      dequantize_linear_op(),
      byte_function_op(),
      dynamic_quantize_linear_op(),
      qlinear_binary_op("com.microsoft::QLinearAdd"),
      qlinear_binary_op("com.microsoft::QLinearMul"),
      qlinear_unary_op("com.microsoft::QLinearSigmoid"),
      qlinear_unary_op("com.microsoft::QLinearLeakyRelu", {attr::f("alpha", 0.01)}),
      qlinear_global_average_pool_op(),
      qlinear_concat_op(),
      qgemm_op(),
  };
}

}  // namespace aipu::graph
