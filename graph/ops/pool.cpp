// Pooling over windows and over whole images, MaxUnpool.
#include "graph/ops/op_list.h"
#include "graph/ops/shape_operands.h"
#include "graph/ops/spatial.h"

namespace aipu::graph {
namespace {

std::vector<AttributeDef> pool_attributes(std::vector<AttributeDef> more) {
  std::vector<AttributeDef> attributes = {attr::required("kernel_shape", AttributeKind::kInts),
                                          attr::s("auto_pad", "NOTSET"),
                                          attr::i("ceil_mode", 0),
                                          attr::optional("strides", AttributeKind::kInts),
                                          attr::optional("dilations", AttributeKind::kInts),
                                          attr::optional("pads", AttributeKind::kInts),
                                          attr::layout()};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return attributes;
}

Status complete_pool(const Graph& graph, Node* node) {
  return complete_window(graph, node, node->attributes.ints("kernel_shape"));
}

Status infer_pool(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const Shape spatial,
                        slide_window(ctx.graph(), ctx.node(), ctx.attributes().i("ceil_mode") != 0));
  const TensorType& input = ctx.input(0);
  const SpatialLayout layout(ctx.attributes(), input.rank());
  const Shape shape = layout.make(layout.batch(input.shape), layout.channels(input.shape), spatial);
  set_output(ctx, 0, input.dtype, shape);
  set_output(ctx, 1, DType::kI64, shape);
  return {};
}

OpDef pool_op(std::string name, const std::string& types, std::vector<AttributeDef> more, uint32_t traits) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("X", types)};
  def.outputs = {operand("Y", types)};
  def.attributes = pool_attributes(std::move(more));
  def.traits = kSpatial | kFloatInside | traits;
  def.complete = complete_pool;
  def.infer = infer_pool;
  def.axes = axes::images(axes::Channels::kApart);
  return def;
}

Status infer_global_pool(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 2));
  const TensorType& input = ctx.input(0);
  const SpatialLayout layout(ctx.attributes(), input.rank());
  const Shape ones(static_cast<size_t>(layout.spatial_rank()), Dim(1));
  set_output(ctx, 0, input.dtype, layout.make(layout.batch(input.shape), layout.channels(input.shape), ones));
  return {};
}

// ---- MaxUnpool: output_shape is full-rank

Status complete_max_unpool(const Graph& graph, Node* node) {
  const int rank = graph.type(node->inputs[0]).rank();
  if (rank < 3)
    return invalid_model(
        str_cat("the input must have a batch, a channel and spatial axes, found ", graph.type(node->inputs[0]).text()));
  const auto count = static_cast<size_t>(rank - 2);
  Attributes& a = node->attributes;
  if (!a.has("strides")) a.set("strides", std::vector<int64_t>(count, 1));
  if (!a.has("pads")) a.set("pads", std::vector<int64_t>(2 * count, 0));
  if (a.ints("kernel_shape").size() != count || a.ints("strides").size() != count ||
      a.ints("pads").size() != 2 * count) {
    return invalid_model(str_cat("kernel_shape, strides and pads must be for ", count, " spatial axes"));
  }
  return {};
}

Result<Shape> unpooled_shape(InferContext& ctx) {
  const Shape& input = ctx.input(0).shape;
  const Attributes& a = ctx.attributes();
  if (ctx.has_input(2) || a.has("output_shape")) {
    AIPU_ASSIGN_OR_RETURN(Shape shape, shape_operand(ctx, 2, "output_shape"));
    if (shape.size() != input.size())
      return invalid_model(str_cat("output_shape has ", shape.size(), " elements, expected ", input.size()));
    return shape;
  }
  Shape shape = input;
  const size_t count = input.size() - 2;
  for (size_t k = 0; k < count; ++k) {
    const Dim pads(a.ints("pads")[k] + a.ints("pads")[k + count]);
    shape[k + 2] = (input[k + 2] - 1) * Dim(a.ints("strides")[k]) + Dim(a.ints("kernel_shape")[k]) - pads;
  }
  return shape;
}

Status infer_max_unpool(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, ctx.input(0).rank()));
  AIPU_ASSIGN_OR_RETURN(Shape shape, unpooled_shape(ctx));
  set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
  return {};
}

// Indices are counted over all samples and channels.
AxisMap max_pool_axes(const Graph& graph, const Node& node) {
  AxisMap map = axes::images(axes::Channels::kApart)(graph, node).value();
  for (size_t k = 1; k < map.size(); ++k) {
    for (OutputAxis& axis : map[k]) axis.apart = false;
  }
  return map;
}

OpDef average_pool_op() { return pool_op("AveragePool", "f", {attr::i("count_include_pad", 0)}, kTakesRounded); }

OpDef max_pool_op() {
  OpDef def = pool_op("MaxPool", kNumeric, {attr::i("storage_order", 0)}, kTakesRounded);
  def.outputs.push_back(optional_operand("Indices", "i"));
  def.axes = max_pool_axes;
  return def;
}

OpDef lp_pool_op() { return pool_op("LpPool", "f", {attr::i("p", 2)}, 0); }

OpDef global_pool_op(std::string name, uint32_t traits, std::vector<AttributeDef> attributes = {}) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("X", "f")};
  def.outputs = {operand("Y", "f")};
  def.attributes = std::move(attributes);
  def.attributes.push_back(attr::layout());
  def.traits = kSpatial | kFloatInside | traits;
  def.infer = infer_global_pool;
  def.axes = axes::images(axes::Channels::kApart);
  return def;
}

OpDef max_unpool_op() {
  OpDef def;
  def.name = "MaxUnpool";
  def.inputs = {operand("X", "f"), operand("I", kIndex), optional_operand("output_shape", kIndex)};
  def.outputs = {operand("output", "f")};
  def.attributes = {attr::required("kernel_shape", AttributeKind::kInts),
                    attr::optional("strides", AttributeKind::kInts), attr::optional("pads", AttributeKind::kInts),
                    attr::own_optional("output_shape", AttributeKind::kShape)};
  def.complete = complete_max_unpool;
  def.infer = infer_max_unpool;
  def.resolve = resolve_with({2}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(Shape shape, unpooled_shape(ctx));
    attributes->set("output_shape", std::move(shape));
    return true;
  });
  def.axes = axes::mixed();  // positions are counted over all samples
  return def;
}

}  // namespace

std::vector<OpDef> pool_ops() {
  return {
      average_pool_op(),
      max_pool_op(),
      lp_pool_op(),
      global_pool_op("GlobalAveragePool", kTakesRounded),
      global_pool_op("GlobalMaxPool", kTakesRounded),
      global_pool_op("GlobalLpPool", 0, {attr::i("p", 2)}),
      max_unpool_op(),
  };
}

}  // namespace aipu::graph
