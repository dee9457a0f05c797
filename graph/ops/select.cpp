// Ops whose output extent depends on data: NonZero, Compress, Unique, NonMaxSuppression. Each takes, as its last
// operand, the int64[1] result of a counting op over the same inputs (aipu::CountNonZero, aipu::CountUnique,
// aipu::CountNonMaxSuppression); the extent is a run symbol on that count. Once resolved the count is attribute
// `extent`.
#include "graph/ops/op_list.h"
#include "graph/ops/shape_operands.h"

namespace aipu::graph {
namespace {

Result<Dim> counted_extent(InferContext& ctx, size_t input) {
  if (ctx.attributes().has("extent")) return ctx.attributes().shape("extent").front();
  if (!ctx.has_input(input))
    return internal_error(str_cat("the counting operand (input ", input, ") is missing; see graph/ops/select.cpp"));
  AIPU_ASSIGN_OR_RETURN(const Shape count, shape_operand(ctx, input, "extent"));
  if (count.size() != 1)
    return invalid_model(str_cat("the count must have one element, found ", ctx.input(input).text()));
  return count.front();
}

std::function<Status(Graph&, NodeId)> resolve_count(size_t input) {
  return resolve_with({input}, [input](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(const Dim extent, counted_extent(ctx, input));
    attributes->set("extent", Shape{extent});
    return true;
  });
}

AttributeDef extent_attribute() { return attr::own_optional("extent", AttributeKind::kShape); }

Status infer_count(InferContext& ctx) {
  set_output(ctx, 0, DType::kI64, {1});
  return {};
}

Status infer_non_zero(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const Dim extent, counted_extent(ctx, 1));
  set_output(ctx, 0, DType::kI64, {ctx.input(0).rank(), extent});
  return {};
}

Status infer_compress(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 1));
  AIPU_ASSIGN_OR_RETURN(const Dim extent, counted_extent(ctx, 2));
  const TensorType& input = ctx.input(0);
  Shape shape{extent};
  if (ctx.attributes().has("axis")) {
    shape = input.shape;
    shape[static_cast<size_t>(ctx.attributes().i("axis"))] = extent;
  }
  set_output(ctx, 0, input.dtype, std::move(shape));
  return {};
}

Status infer_unique(InferContext& ctx) {
  const TensorType& input = ctx.input(0);
  AIPU_ASSIGN_OR_RETURN(const Dim extent, counted_extent(ctx, 1));
  Shape shape{extent};
  Dim inverse = element_count(input.shape);
  if (ctx.attributes().has("axis")) {
    const auto axis = static_cast<size_t>(ctx.attributes().i("axis"));
    shape = input.shape;
    shape[axis] = extent;
    inverse = input.shape[axis];
  }
  set_output(ctx, 0, input.dtype, std::move(shape));
  set_output(ctx, 1, DType::kI64, {extent});
  set_output(ctx, 2, DType::kI64, {inverse});
  set_output(ctx, 3, DType::kI64, {extent});
  return {};
}

Status check_boxes(const InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 3));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 3));
  AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(0).shape[2], 4, "the last extent of boxes"));
  AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(1).shape[0], ctx.input(0).shape[0], "the batch extent of scores"));
  return expect_equal(ctx.input(1).shape[2], ctx.input(0).shape[1], "the last extent of scores");
}

std::vector<OperandDef> box_operands() {
  return {operand("boxes", "f"), operand("scores", "f"), optional_operand("max_output_boxes_per_class", kIndex),
          optional_operand("iou_threshold", "f"), optional_operand("score_threshold", "f")};
}

OpDef count_non_zero_op() {
  OpDef def;
  def.name = "aipu::CountNonZero";
  def.inputs = {operand("X", "biuf")};
  def.outputs = {operand("count", "i")};
  def.infer = infer_count;
  def.axes = axes::mixed();
  return def;
}

OpDef non_zero_op() {
  OpDef def;
  def.name = "NonZero";
  def.inputs = {operand("X", "biuf"), optional_operand("count", kIndex)};
  def.outputs = {operand("Y", "i")};
  def.attributes = {extent_attribute()};
  def.infer = infer_non_zero;
  def.resolve = resolve_count(1);
  def.axes = axes::mixed();
  return def;
}

OpDef compress_op() {
  OpDef def;
  def.name = "Compress";
  def.inputs = {operand("input", "*"), operand("condition", "b"), optional_operand("count", kIndex)};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::optional("axis", AttributeKind::kInt), extent_attribute()};
  def.traits = kFaults;
  def.complete = complete_axis("axis");
  def.infer = infer_compress;
  def.resolve = resolve_count(2);
  def.axes = axes::along("axis");
  return def;
}

OpDef count_unique_op() {
  OpDef def;
  def.name = "aipu::CountUnique";
  def.inputs = {operand("X", "biuf")};
  def.outputs = {operand("count", "i")};
  def.attributes = {attr::optional("axis", AttributeKind::kInt)};
  def.complete = complete_axis("axis");
  def.infer = infer_count;
  def.axes = axes::mixed();
  return def;
}

OpDef unique_op() {
  OpDef def;
  def.name = "Unique";
  def.inputs = {operand("X", "biuf"), optional_operand("count", kIndex)};
  def.outputs = {operand("Y", "biuf"), optional_operand("indices", "i"), optional_operand("inverse_indices", "i"),
                 optional_operand("counts", "i")};
  def.attributes = {attr::optional("axis", AttributeKind::kInt), attr::i("sorted", 1), extent_attribute()};
  def.complete = complete_axis("axis");
  def.infer = infer_unique;
  def.resolve = resolve_count(1);
  def.axes = axes::mixed();
  return def;
}

// And the boxes that are kept of each batch and class, how many and which, of which NonMaxSuppression makes a list.
OpDef count_non_max_suppression_op() {
  OpDef def;
  def.name = "aipu::CountNonMaxSuppression";
  def.inputs = box_operands();
  def.outputs = {operand("count", "i"), optional_operand("kept", "i")};
  def.attributes = {attr::i("center_point_box", 0)};
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(check_boxes(ctx));
    const Shape& scores = ctx.input(1).shape;
    const auto limit = ctx.has_input(2) ? ctx.known_data(2) : std::vector<Dim>{Dim(0)};
    Dim most = scores[2];
    if (limit && limit->size() == 1 && limit->front().is_constant()) most = min(most, max(limit->front(), 0));
    set_output(ctx, 1, DType::kI32, {scores[0], scores[1], most + 1});
    return infer_count(ctx);
  };
  def.axes = axes::mixed();
  return def;
}

OpDef non_max_suppression_op() {
  static constexpr size_t kKept = 5;
  OpDef def;
  def.name = "NonMaxSuppression";
  def.inputs = box_operands();
  def.inputs.push_back(optional_operand("kept", "i"));
  def.inputs.push_back(optional_operand("count", kIndex));
  def.outputs = {operand("selected_indices", "i")};
  def.attributes = {attr::i("center_point_box", 0), extent_attribute()};
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(check_boxes(ctx));
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, kKept, 3));
    for (const size_t axis : {size_t{0}, size_t{1}})
      AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(kKept).shape[axis], ctx.input(1).shape[axis], "an extent of kept"));
    AIPU_ASSIGN_OR_RETURN(const Dim extent, counted_extent(ctx, kKept + 1));
    set_output(ctx, 0, DType::kI64, {extent, 3});
    return {};
  };
  def.resolve = resolve_count(kKept + 1);
  def.axes = axes::mixed();
  return def;
}

}  // namespace

std::vector<OpDef> select_ops() {
  return {count_non_zero_op(),     non_zero_op(), compress_op(),
          count_unique_op(),       unique_op(),   count_non_max_suppression_op(),
          non_max_suppression_op()};
}

}  // namespace aipu::graph
