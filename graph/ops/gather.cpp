// Ops that read or write at indices held in a tensor.
#include "graph/ops/op_list.h"

namespace aipu::graph {
namespace {

// Given: a negative index is outside of the axis, too. Not in ONNX; for what other ops are made of.
AttributeDef from_start() { return attr::own_optional("from_start", AttributeKind::kInt); }

Status infer_gather(InferContext& ctx) {
  const TensorType& data = ctx.input(0);
  const TensorType& indices = ctx.input(1);
  const int64_t axis = ctx.attributes().i("axis");
  Shape shape(data.shape.begin(), data.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), data.shape.begin() + axis + 1, data.shape.end());
  set_output(ctx, 0, data.dtype, std::move(shape));

  const auto elements = data_of(ctx, 0);
  const auto positions = data_of(ctx, 1);
  if (axis != 0 || !elements || !positions) return {};
  const int64_t extent = data.shape[0].constant_or(0);
  if (extent == 0) return {};
  const auto row = static_cast<int64_t>(elements->size()) / extent;
  Data result;
  for (const Dim& position : *positions) {
    auto index = position.constant();
    if (!index) return {};
    if (*index < -extent || *index >= extent)
      return invalid_model(str_cat("index ", *index, " is out of range for ", data.text()));
    if (*index < 0) *index += extent;
    const auto begin = elements->begin() + *index * row;
    result.insert(result.end(), begin, begin + row);
  }
  set_data(ctx, 0, std::move(result));
  return {};
}

Status infer_gather_elements(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, ctx.input(0).rank()));
  set_output(ctx, 0, ctx.input(0).dtype, ctx.input(1).shape);
  return {};
}

// The length of the index tuples: the last extent of `indices`.
Result<int64_t> tuple_length(const InferContext& ctx, int limit) {
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 1, 1));
  const auto length = ctx.input(1).shape.back().constant();
  if (!length) return unsupported(str_cat("the last extent of indices must be static, found ", ctx.input(1).text()));
  if (*length < 1 || *length > limit)
    return invalid_model(str_cat("index tuples have ", *length, " elements, expected 1 to ", limit));
  return *length;
}

Status infer_gather_nd(InferContext& ctx) {
  const TensorType& data = ctx.input(0);
  const Shape& indices = ctx.input(1).shape;
  const int64_t batch = ctx.attributes().i("batch_dims");
  if (batch < 0 || batch >= data.rank() || batch >= static_cast<int64_t>(indices.size()))
    return invalid_model(str_cat("batch_dims is ", batch));
  AIPU_ASSIGN_OR_RETURN(const int64_t length, tuple_length(ctx, data.rank() - static_cast<int>(batch)));
  for (int64_t k = 0; k < batch; ++k) {
    const auto a = static_cast<size_t>(k);
    AIPU_RETURN_IF_ERROR(expect_equal(indices[a], data.shape[a], str_cat("batch extent ", k, " of indices")));
  }
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.shape.begin() + batch + length, data.shape.end());
  set_output(ctx, 0, data.dtype, std::move(shape));
  return {};
}

Status infer_scatter_elements(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 2}));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, ctx.input(0).rank()));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 2, ctx.input(0).rank()));
  for (size_t k = 0; k < ctx.input(1).shape.size(); ++k) {
    AIPU_RETURN_IF_ERROR(
        expect_equal(ctx.input(2).shape[k], ctx.input(1).shape[k], str_cat("extent ", k, " of updates")));
  }
  return infer_same_as_input(ctx);
}

Status infer_scatter_nd(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 2}));
  const TensorType& data = ctx.input(0);
  const Shape& indices = ctx.input(1).shape;
  AIPU_ASSIGN_OR_RETURN(const int64_t length, tuple_length(ctx, data.rank()));
  Shape expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), data.shape.begin() + length, data.shape.end());
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 2, static_cast<int>(expected.size())));
  for (size_t k = 0; k < expected.size(); ++k) {
    AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(2).shape[k], expected[k], str_cat("extent ", k, " of updates")));
  }
  return infer_same_as_input(ctx);
}

Status verify_reduction(const Graph&, const Node& node) {
  return expect_choice(node, "reduction", {"none", "add", "mul", "min", "max"});
}

// The indices' axes stand where the data's axis was.
AxisMap gather_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const auto axis = static_cast<size_t>(node.attributes.i("axis"));
  const size_t data_rank = map.input_rank(0), indices_rank = map.input_rank(1);
  map.link_leading(0, 0, axis);
  for (size_t k = 0; k < indices_rank; ++k) map.link(0, axis + k, 1, k).apart(0, axis + k);
  for (size_t k = axis + 1; k < data_rank; ++k) {
    const size_t place = k + indices_rank - 1;
    map.link(0, place, 0, k).apart(0, place);
  }
  // A list of indices leaves the data's axes in their order, and may take any part of this one.
  if (indices_rank == 1) map.link(0, axis, 0, axis).apart(0, axis, false);
  return map.take();
}

// Indices may have smaller extents than the data: then positions do not face each other.
AxisMap gather_elements_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const auto axis = static_cast<size_t>(node.attributes.i("axis"));
  for (size_t k = 0; k < map.output_rank(0); ++k) {
    map.link(0, k, 1, k);
    if (k != axis) map.link(0, k, 0, k);
    map.apart(0, k, k == axis || map.input_extent(0, k) == map.input_extent(1, k));
  }
  return map.take();
}

AxisMap gather_nd_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const auto batch = static_cast<size_t>(node.attributes.i("batch_dims"));
  map.link_leading(0, 0, batch);
  for (size_t k = 0; k + 1 < map.input_rank(1); ++k) map.link(0, k, 1, k).apart(0, k);
  return map.take();
}

AxisMap scatter_elements_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const auto axis = static_cast<size_t>(node.attributes.i("axis"));
  for (size_t k = 0; k < map.output_rank(0); ++k) {
    for (const size_t input : {0, 1, 2}) map.link(0, k, input, k);
    map.apart(0, k, k != axis && map.input_extent(0, k) == map.input_extent(1, k));
  }
  return map.take();
}

// Slices that indices name are updated as a whole: the axes behind the named ones are apart.
AxisMap scatter_nd_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const size_t rank = map.output_rank(0), updates_rank = map.input_rank(2);
  const size_t behind = updates_rank - std::min(updates_rank, map.input_rank(1) - 1);
  for (size_t k = 1; k <= behind; ++k) map.link(0, rank - k, 2, updates_rank - k).apart(0, rank - k);
  for (size_t k = 0; k < rank; ++k) map.link(0, k, 0, k);
  return map.take();
}

OpDef gather_op() {
  OpDef def;
  def.name = "Gather";
  def.inputs = {operand("data", "*"), operand("indices", kIndex)};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::about(AttributeAxes::kAxis, attr::i("axis", 0)), from_start()};
  def.traits = kFaults | kAnyAxisOrder;
  def.complete = complete_axis("axis");
  def.infer = infer_gather;
  def.axes = gather_axes;
  return def;
}

OpDef gather_elements_op() {
  OpDef def = gather_op();
  def.name = "GatherElements";
  def.infer = infer_gather_elements;
  def.traits = kFaults;
  def.attributes.front().axes = AttributeAxes::kNone;
  def.axes = gather_elements_axes;
  return def;
}

OpDef gather_nd_op() {
  OpDef def;
  def.name = "GatherND";
  def.inputs = {operand("data", "*"), operand("indices", kIndex)};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::i("batch_dims", 0)};
  def.traits = kFaults;
  def.infer = infer_gather_nd;
  def.axes = gather_nd_axes;
  return def;
}

OpDef scatter_elements_op() {
  OpDef def;
  def.name = "ScatterElements";
  def.inputs = {operand("data", "*"), operand("indices", kIndex), operand("updates", "*")};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::i("axis", 0), attr::s("reduction", "none"), from_start()};
  def.traits = kFaults;
  def.complete = complete_axis("axis");
  def.infer = infer_scatter_elements;
  def.verify = verify_reduction;
  def.axes = scatter_elements_axes;
  return def;
}

OpDef scatter_nd_op() {
  OpDef def;
  def.name = "ScatterND";
  def.inputs = {operand("data", "*"), operand("indices", kIndex), operand("updates", "*")};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::s("reduction", "none")};
  def.traits = kFaults;
  def.infer = infer_scatter_nd;
  def.verify = verify_reduction;
  def.axes = scatter_nd_axes;
  return def;
}

}  // namespace

std::vector<OpDef> gather_ops() {
  return {gather_op(), gather_elements_op(), gather_nd_op(), scatter_elements_op(), scatter_nd_op()};
}

}  // namespace aipu::graph
