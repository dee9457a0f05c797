// Images sampled where data says: RoiAlign, MaxRoiPool, GridSample, DeformConv; and Col2Im.
#include "graph/ops/op_list.h"
#include "graph/ops/shape_operands.h"
#include "graph/ops/spatial.h"

namespace aipu::graph {
namespace {

// ---- regions

Status infer_regions(InferContext& ctx, int columns, const Dim& height, const Dim& width) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1}));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 4));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 2));
  AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(1).shape[1], columns, "the second extent of rois"));
  const SpatialLayout layout(ctx.attributes(), 4);
  set_output(ctx, 0, ctx.input(0).dtype,
             layout.make(ctx.input(1).shape[0], layout.channels(ctx.input(0).shape), {height, width}));
  return {};
}

Status infer_roi_align(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 2, 1));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 2));
  AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(2).shape[0], ctx.input(1).shape[0], "the extent of batch_indices"));
  const int64_t height = ctx.attributes().i("output_height");
  const int64_t width = ctx.attributes().i("output_width");
  if (height < 1 || width < 1)
    return invalid_model(str_cat("output_height and output_width are ", height, " and ", width));
  return infer_regions(ctx, 4, height, width);
}

Status infer_max_roi_pool(InferContext& ctx) {
  const std::vector<int64_t>& pooled = ctx.attributes().ints("pooled_shape");
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1)
    return invalid_model("pooled_shape must be two positive numbers");
  return infer_regions(ctx, 5, pooled[0], pooled[1]);
}

// ---- GridSample

Status infer_grid_sample(InferContext& ctx) {
  const TensorType& input = ctx.input(0);
  const TensorType& grid = ctx.input(1);
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 3));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, input.rank()));
  AIPU_RETURN_IF_ERROR(expect_equal(grid.shape[0], input.shape[0], "the grid's batch extent"));
  AIPU_RETURN_IF_ERROR(expect_equal(grid.shape.back(), input.rank() - 2, "the grid's last extent"));
  const SpatialLayout layout(ctx.attributes(), input.rank());
  set_output(
      ctx, 0, input.dtype,
      layout.make(input.shape[0], layout.channels(input.shape), Shape(grid.shape.begin() + 1, grid.shape.end() - 1)));
  return {};
}

// ---- DeformConv

constexpr int64_t kWindowLimit = int64_t{1} << 31;

Status complete_deform_window(Node* node, const std::vector<int64_t>& kernel) {
  Attributes& a = node->attributes;
  if (a.has("kernel_shape") && a.ints("kernel_shape") != kernel)
    return invalid_model("kernel_shape differs from the weight's extents");
  a.set("kernel_shape", kernel);
  if (!a.has("strides")) a.set("strides", std::vector<int64_t>(2, 1));
  if (!a.has("dilations")) a.set("dilations", std::vector<int64_t>(2, 1));
  if (!a.has("pads")) a.set("pads", std::vector<int64_t>(4, 0));
  for (const char* name : {"kernel_shape", "strides", "dilations", "pads"}) {
    const std::vector<int64_t>& values = a.ints(name);
    const bool pads = std::string_view(name) == "pads";
    if (values.size() != (pads ? 4u : 2u))
      return invalid_model(str_cat(name, " has ", values.size(), " elements, expected ", pads ? 4 : 2));
    for (const int64_t value : values) {
      if (value < (pads ? 0 : 1) || value >= kWindowLimit) return invalid_model(str_cat(name, " has element ", value));
    }
  }
  if (a.i("offset_group") < 1) return invalid_model(str_cat("offset_group is ", a.i("offset_group")));
  return {};
}

// The output's rows and columns; checks offset and mask, operands `offset` and `mask`, against them.
Result<Shape> deform_extents(InferContext& ctx, const SpatialLayout& layout, size_t offset, size_t mask) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 4));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, offset, 4));
  const Attributes& a = ctx.attributes();
  const std::vector<int64_t>& kernel = a.ints("kernel_shape");
  Shape extents = layout.spatial(ctx.input(0).shape);
  for (size_t k = 0; k < 2; ++k) {
    const Dim reach((kernel[k] - 1) * a.ints("dilations")[k] + 1);
    extents[k] =
        floordiv(extents[k] + Dim(a.ints("pads")[k] + a.ints("pads")[k + 2]) - reach, Dim(a.ints("strides")[k])) + 1;
    AIPU_RETURN_IF_ERROR(
        expect_equal(ctx.input(offset).shape[k + 2], extents[k], str_cat("extent ", k + 2, " of offset")));
  }
  const Dim taps = a.i("offset_group") * kernel[0] * kernel[1];
  AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(offset).shape[1], taps * Dim(2), "the second extent of offset"));
  if (ctx.has_input(mask)) {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, mask, 4));
    AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(mask).shape[1], taps, "the second extent of mask"));
  }
  const Dim& channels = layout.channels(ctx.input(0).shape);
  if (channels.is_constant() && *channels.constant() % a.i("offset_group") != 0) {
    return invalid_model(str_cat(channels.text(), " channels do not divide by offset_group ", a.i("offset_group")));
  }
  return extents;
}

Status infer_deform_conv(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1, 2, 3, 4}));
  const SpatialLayout layout(ctx.attributes(), 4);
  AIPU_ASSIGN_OR_RETURN(Shape shape, deform_extents(ctx, layout, 2, 4));
  const Shape& weight = ctx.input(1).shape;
  AIPU_RETURN_IF_ERROR(
      expect_equal(ctx.input(0).shape[1], weight[1] * Dim(ctx.attributes().i("group")), "the number of channels"));
  shape.insert(shape.begin(), {ctx.input(0).shape[0], weight[0]});
  set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
  return {};
}

Status infer_deform_columns(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1, 2}));
  const SpatialLayout layout(ctx.attributes(), 4);
  AIPU_ASSIGN_OR_RETURN(const Shape extents, deform_extents(ctx, layout, 1, 2));
  const std::vector<int64_t>& kernel = ctx.attributes().ints("kernel_shape");
  const Shape& input = ctx.input(0).shape;
  set_output(ctx, 0, ctx.input(0).dtype,
             layout.make(layout.batch(input), layout.channels(input) * Dim(kernel[0] * kernel[1]), extents));
  return {};
}

std::vector<AttributeDef> deform_attributes() {
  return {attr::optional("kernel_shape", AttributeKind::kInts), attr::optional("strides", AttributeKind::kInts),
          attr::optional("dilations", AttributeKind::kInts), attr::optional("pads", AttributeKind::kInts),
          attr::i("offset_group", 1)};
}

// ---- Col2Im

struct ImageAndBlock {
  Shape image, block;
};

Result<ImageAndBlock> image_and_block(InferContext& ctx) {
  ImageAndBlock g;
  AIPU_ASSIGN_OR_RETURN(g.image, shape_operand(ctx, 1, "image_shape"));
  AIPU_ASSIGN_OR_RETURN(g.block, shape_operand(ctx, 2, "block_shape"));
  if (g.image.empty() || g.block.size() != g.image.size()) {
    return invalid_model(str_cat("image_shape has ", g.image.size(), " elements, block_shape ", g.block.size()));
  }
  for (const Dim& extent : g.block) {
    AIPU_RETURN_IF_ERROR(expect_equal(extent, max(extent, 1), "an element of block_shape"));
    if (extent.constant_or(1) >= kWindowLimit) return invalid_model(str_cat("block_shape has element ", extent.text()));
  }
  return g;
}

Status infer_col2im(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 3));
  AIPU_ASSIGN_OR_RETURN(const ImageAndBlock g, image_and_block(ctx));
  const size_t count = g.image.size();
  Dim taps = 1;
  for (const Dim& extent : g.block) {
    if (taps.is_constant() && extent.is_constant() && *extent.constant() > kWindowLimit / *taps.constant())
      return invalid_model("block_shape is too large");
    taps *= extent;
  }
  const TensorType& input = ctx.input(0);
  const Dim channels = floordiv(input.shape[1], taps);
  AIPU_RETURN_IF_ERROR(
      expect_equal(input.shape[1], channels * taps, str_cat("the second extent, in blocks of ", taps.text(), ",")));
  for (const auto& [name, expected, low] :
       {std::tuple("strides", count, int64_t{1}), std::tuple("dilations", count, int64_t{1}),
        std::tuple("pads", 2 * count, int64_t{0})}) {
    if (!ctx.attributes().has(name)) continue;
    const std::vector<int64_t>& values = ctx.attributes().ints(name);
    if (values.size() != expected)
      return invalid_model(str_cat(name, " has ", values.size(), " elements, expected ", expected));
    for (const int64_t value : values) {
      if (value < low || value >= kWindowLimit) return invalid_model(str_cat(name, " has element ", value));
    }
  }
  Dim positions = 1;
  for (size_t k = 0; k < count; ++k) {
    const auto value = [&](const char* name, size_t at, int64_t otherwise) {
      return ctx.attributes().has(name) ? ctx.attributes().ints(name)[at] : otherwise;
    };
    const Dim reach = (g.block[k] - 1) * Dim(value("dilations", k, 1)) + 1;
    const Dim padded = g.image[k] + Dim(value("pads", k, 0) + value("pads", k + count, 0));
    positions *= floordiv(padded - reach, Dim(value("strides", k, 1))) + 1;
  }
  AIPU_RETURN_IF_ERROR(expect_equal(input.shape[2], positions, "the number of blocks"));
  Shape shape = {input.shape[0], channels};
  shape.insert(shape.end(), g.image.begin(), g.image.end());
  set_output(ctx, 0, input.dtype, std::move(shape));
  return {};
}

// Regions are apart: output [regions, C, height, width], operands behind the images [regions, ...].
AxisMap region_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  for (size_t input = 1; input < node.inputs.size(); ++input) map.link(0, 0, input, 0);
  return map.apart(0, 0).take();
}

// Images that a grid or offsets sample: samples of the operands kBatched, [N, ...] each, are apart.
template <size_t... kBatched>
AxisMap batched_operands(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  (map.link(0, 0, kBatched, 0), ...);
  return map.apart(0, 0).take();
}

OpDef roi_align_op() {
  OpDef def;
  def.name = "RoiAlign";
  def.inputs = {operand("X", "f"), operand("rois", "f"), operand("batch_indices", kIndex)};
  def.outputs = {operand("Y", "f")};
  def.attributes = {attr::s("coordinate_transformation_mode", "half_pixel"),
                    attr::s("mode", "avg"),
                    attr::i("output_height", 1),
                    attr::i("output_width", 1),
                    attr::i("sampling_ratio", 0),
                    attr::f("spatial_scale", 1.0),
                    attr::layout()};
  def.traits = kSpatial | kFaults;
  def.infer = infer_roi_align;
  def.verify = [](const Graph&, const Node& node) -> Status {
    AIPU_RETURN_IF_ERROR(expect_choice(node, "mode", {"avg", "max"}));
    return expect_choice(node, "coordinate_transformation_mode", {"half_pixel", "output_half_pixel"});
  };
  def.axes = region_axes;
  return def;
}

OpDef max_roi_pool_op() {
  OpDef def;
  def.name = "MaxRoiPool";
  def.inputs = {operand("X", "f"), operand("rois", "f")};
  def.outputs = {operand("Y", "f")};
  def.attributes = {attr::required("pooled_shape", AttributeKind::kInts), attr::f("spatial_scale", 1.0),
                    attr::layout()};
  def.traits = kSpatial | kFaults;
  def.infer = infer_max_roi_pool;
  def.axes = region_axes;
  return def;
}

OpDef grid_sample_op() {
  OpDef def;
  def.name = "GridSample";
  def.inputs = {operand("X", kNumeric), operand("grid", "f")};
  def.outputs = {operand("Y", kNumeric)};
  def.attributes = {attr::i("align_corners", 0), attr::s("mode", "linear"), attr::s("padding_mode", "zeros"),
                    attr::layout()};
  def.traits = kSpatial;
  def.infer = infer_grid_sample;
  def.verify = [](const Graph&, const Node& node) -> Status {
    AIPU_RETURN_IF_ERROR(expect_choice(node, "mode", {"linear", "nearest", "cubic"}));
    return expect_choice(node, "padding_mode", {"zeros", "border", "reflection"});
  };
  def.axes = batched_operands<0, 1>;
  return def;
}

OpDef deform_conv_op() {
  OpDef def;
  def.name = "DeformConv";
  def.inputs = {operand("X", "f"), operand("W", "f"), operand("offset", "f"), optional_operand("B", "f"),
                optional_operand("mask", "f")};
  def.outputs = {operand("Y", "f")};
  def.attributes = deform_attributes();
  def.attributes.push_back(attr::i("group", 1));
  def.complete = [](const Graph& graph, Node* node) -> Status {
    const TensorType& weight = graph.type(node->inputs[1]);
    if (weight.rank() != 4)
      return unsupported(str_cat("only images of two dimensions are supported, the weight is ", weight.text()));
    AIPU_ASSIGN_OR_RETURN(const auto kernel, kernel_extents(weight));
    return complete_deform_window(node, kernel);
  };
  def.infer = infer_deform_conv;
  def.axes = batched_operands<0, 2, 4>;
  def.multiply_adds = work::convolution(1);
  return def;
}

// The first half of a DeformConv: for each channel the values at its window's taps, as channels (tap innermost) of an
// image of the output's extents, [N, C * taps, ...]. What remains is a convolution of 1x1 (passes/decompose_image.cpp).
OpDef deform_columns_op() {
  OpDef def;
  def.name = "aipu::DeformColumns";
  def.inputs = {operand("X", "f"), operand("offset", "f"), optional_operand("mask", "f")};
  def.outputs = {operand("columns", "f")};
  def.attributes = deform_attributes();
  def.attributes.push_back(attr::layout());
  def.traits = kSpatial;
  def.complete = [](const Graph&, Node* node) -> Status {
    if (!node->attributes.has("kernel_shape")) return invalid_model("needs kernel_shape");
    return complete_deform_window(node, node->attributes.ints("kernel_shape"));
  };
  def.infer = infer_deform_columns;
  def.axes = batched_operands<0, 1, 2>;
  return def;
}

OpDef col2im_op() {
  OpDef def;
  def.name = "Col2Im";
  def.inputs = {operand("input", kNumeric), optional_operand("image_shape", kIndex),
                optional_operand("block_shape", kIndex)};
  def.outputs = {operand("output", kNumeric)};
  def.attributes = {attr::optional("strides", AttributeKind::kInts), attr::optional("dilations", AttributeKind::kInts),
                    attr::optional("pads", AttributeKind::kInts),
                    attr::own_optional("image_shape", AttributeKind::kShape),
                    attr::own_optional("block_shape", AttributeKind::kShape)};
  def.infer = infer_col2im;
  def.resolve = resolve_with({1, 2}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(ImageAndBlock g, image_and_block(ctx));
    attributes->set("image_shape", std::move(g.image));
    attributes->set("block_shape", std::move(g.block));
    return true;
  });
  def.axes = axes::images(axes::Channels::kMixed);
  return def;
}

}  // namespace

std::vector<OpDef> sampling_ops() {
  return {roi_align_op(), max_roi_pool_op(), grid_sample_op(), deform_conv_op(), deform_columns_op(), col2im_op()};
}

}  // namespace aipu::graph
