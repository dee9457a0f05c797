// Normalisations: Batch, Instance, Group, Layer, RMS, Lp, MeanVariance, LRN; Dropout in inference.
#include "graph/ops/op_list.h"
#include "graph/ops/spatial.h"

namespace aipu::graph {
namespace {

// Inputs `from`.. are vectors with one element per channel.
Status expect_channel_vectors(const InferContext& ctx, size_t from, const Dim& channels) {
  for (size_t i = from; i < ctx.node().inputs.size(); ++i) {
    if (!ctx.has_input(i)) continue;
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, i, 1));
    AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(i).shape[0], channels, str_cat("the extent of input ", i)));
  }
  return {};
}

Status infer_per_channel(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 2));
  const SpatialLayout layout(ctx.attributes(), ctx.input(0).rank());
  AIPU_RETURN_IF_ERROR(expect_channel_vectors(ctx, 1, layout.channels(ctx.input(0).shape)));
  return infer_same_as_input(ctx);
}

// The axes from `axis` on are needed as a whole; scale and bias are broadcast.
AxisMap layer_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const auto first = static_cast<size_t>(node.attributes.i("axis"));
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    for (size_t input = 0; input < node.inputs.size(); ++input) map.link_trailing(k, input);
    for (size_t axis = first; axis < map.output_rank(k); ++axis) map.apart(k, axis, false);
  }
  return map.take();
}

OpDef normalization(std::string name, std::vector<OperandDef> inputs, std::vector<AttributeDef> attributes,
                    uint32_t traits, AxisRule axes, std::function<Status(InferContext&)> infer) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = std::move(inputs);
  def.outputs = {operand("Y", "f")};
  def.attributes = std::move(attributes);
  if ((traits & kSpatial) != 0) def.attributes.push_back(attr::layout());
  def.traits = traits;
  def.infer = std::move(infer);
  def.axes = std::move(axes);
  return def;
}

// Scale and bias broadcast into the axes from `axis` on.
Status infer_layer_normalization(InferContext& ctx) {
  const TensorType& input = ctx.input(0);
  for (size_t i = 1; i < ctx.node().inputs.size(); ++i) {
    if (!ctx.has_input(i)) continue;
    const Shape shapes[2] = {input.shape, ctx.input(i).shape};
    AIPU_ASSIGN_OR_RETURN(const Shape shape, broadcast_shapes(shapes));
    if (static_cast<int>(shape.size()) != input.rank()) {
      return invalid_model(str_cat("input ", i, ", ", ctx.input(i).text(), ", does not broadcast to ", input.text()));
    }
    assume_broadcast(ctx.input(i).shape, input.shape);
  }
  set_output(ctx, 0, input.dtype, input.shape);
  Shape statistics = input.shape;
  for (auto k = static_cast<size_t>(ctx.attributes().i("axis")); k < statistics.size(); ++k) statistics[k] = 1;
  for (const size_t i : {1, 2}) set_output(ctx, i, ctx.attributes().dtype("stash_type"), statistics);
  return {};
}

Status infer_group_normalization(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(infer_per_channel(ctx));
  const SpatialLayout layout(ctx.attributes(), ctx.input(0).rank());
  const int64_t groups = ctx.attributes().i("num_groups");
  const Dim& channels = layout.channels(ctx.input(0).shape);
  if (groups < 1 || channels.constant_or(0) % groups != 0) {
    return invalid_model(str_cat(channels.text(), " channels do not divide into ", groups, " groups"));
  }
  return {};
}

OpDef batch_normalization_op() {
  return normalization("BatchNormalization",
                       {operand("X", "f"), operand("scale", "f"), operand("B", "f"), operand("input_mean", "f"),
                        operand("input_var", "f")},
                       {attr::f("epsilon", 1e-5)}, kSpatial, axes::images(axes::Channels::kApart), infer_per_channel);
}

OpDef instance_normalization_op() {
  return normalization("InstanceNormalization", {operand("input", "f"), operand("scale", "f"), operand("B", "f")},
                       {attr::f("epsilon", 1e-5)}, kSpatial, axes::images(axes::Channels::kApart), infer_per_channel);
}

OpDef group_normalization_op() {
  return normalization("GroupNormalization", {operand("X", "f"), operand("scale", "f"), operand("bias", "f")},
                       {attr::f("epsilon", 1e-5), attr::required("num_groups", AttributeKind::kInt),
                        attr::dtype("stash_type", DType::kF32)},
                       kSpatial, axes::images(axes::Channels::kMixed), infer_group_normalization);
}

OpDef layer_normalization_op() {
  OpDef def =
      normalization("LayerNormalization", {operand("X", "f"), operand("Scale", "f"), optional_operand("B", "f")},
                    {attr::i("axis", -1), attr::f("epsilon", 1e-5), attr::dtype("stash_type", DType::kF32)},
                    kFloatInside, layer_axes, infer_layer_normalization);
  def.outputs.push_back(optional_operand("Mean", "f"));
  def.outputs.push_back(optional_operand("InvStdDev", "f"));
  def.complete = complete_axis("axis");
  return def;
}

OpDef rms_normalization_op() {
  OpDef def = normalization("RMSNormalization", {operand("X", "f"), operand("scale", "f")},
                            {attr::i("axis", -1), attr::f("epsilon", 1e-5), attr::dtype("stash_type", DType::kF32)},
                            kFloatInside, layer_axes, infer_layer_normalization);
  def.complete = complete_axis("axis");
  return def;
}

OpDef lp_normalization_op() {
  OpDef def = normalization("LpNormalization", {operand("input", "f")},
                            {attr::about(AttributeAxes::kAxis, attr::i("axis", -1)), attr::i("p", 2)}, kAnyAxisOrder,
                            axes::along("axis"), infer_same_as_input);
  def.complete = complete_axis("axis");
  def.verify = [](const Graph&, const Node& node) -> Status {
    const int64_t p = node.attributes.i("p");
    if (p == 1 || p == 2) return {};
    return invalid_model(str_cat("p is ", p, ", expected 1 or 2"));
  };
  return def;
}

OpDef mean_variance_normalization_op() {
  OpDef def = normalization("MeanVarianceNormalization", {operand("X", "f")}, {attr::ints("axes", {0, 2, 3})}, 0,
                            axes::along("axes"), infer_same_as_input);
  def.complete = [](const Graph& graph, Node* node) -> Status {
    AIPU_ASSIGN_OR_RETURN(auto axes, normal_axes(node->attributes.ints("axes"), graph.type(node->inputs[0]).rank()));
    node->attributes.set("axes", std::move(axes));
    return {};
  };
  return def;
}

OpDef lrn_op() {
  OpDef def = normalization("LRN", {operand("X", "f")},
                            {attr::f("alpha", 1e-4), attr::f("beta", 0.75), attr::f("bias", 1.0),
                             attr::required("size", AttributeKind::kInt)},
                            kSpatial, axes::images(axes::Channels::kMixed), [](InferContext& ctx) -> Status {
                              AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 2));
                              return infer_same_as_input(ctx);
                            });
  def.verify = [](const Graph&, const Node& node) -> Status {
    if (node.attributes.i("size") >= 1) return {};
    return invalid_model(str_cat("size is ", node.attributes.i("size")));
  };
  return def;
}

OpDef dropout_op() {
  OpDef def;
  def.name = "Dropout";
  def.inputs = {operand("data", "f"), optional_operand("ratio", "f"), optional_operand("training_mode", "b")};
  def.outputs = {operand("output", "f"), optional_operand("mask", "b")};
  def.attributes = {attr::i("seed", 0)};
  def.infer = [](InferContext& ctx) -> Status {
    if (ctx.has_input(2)) {
      const auto training = data_of(ctx, 2);
      if (!training || training->size() != 1 || training->front().constant() != 0) {
        return unsupported(
            "training_mode must be false when compiling: this is for inference, random masks are not made");
      }
    }
    AIPU_RETURN_IF_ERROR(infer_same_as_input(ctx));
    set_output(ctx, 1, DType::kBool, ctx.input(0).shape);
    return {};
  };
  def.axes = axes::broadcast_of({0});
  return def;
}

}  // namespace

std::vector<OpDef> normalization_ops() {
  return {
      batch_normalization_op(),
      instance_normalization_op(),
      group_normalization_op(),
      layer_normalization_op(),
      rms_normalization_op(),
      lp_normalization_op(),
      mean_variance_normalization_op(),
      lrn_op(),
      dropout_op(),
  };
}

}  // namespace aipu::graph
