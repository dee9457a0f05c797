// Reductions, ArgMax and ArgMin, ops along one axis (Softmax, Hardmax, CumSum), TopK.
#include <algorithm>

#include "graph/ops/dim_rules.h"
#include "graph/ops/op_list.h"
#include "graph/ops/shape_operands.h"

namespace aipu::graph {
namespace {

// Explicit, sorted axes; an empty list reduces nothing.
Result<std::vector<int64_t>> reduced_axes(InferContext& ctx) {
  const int rank = ctx.input(0).rank();
  AIPU_ASSIGN_OR_RETURN(const auto given, constant_ints(ctx, 1, "axes"));
  if (given && (!given->empty() || ctx.attributes().i("noop_with_empty_axes") != 0)) return normal_axes(*given, rank);
  std::vector<int64_t> axes;
  if (ctx.attributes().i("noop_with_empty_axes") != 0) return axes;
  for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

Status complete_reduce(const Graph& graph, Node* node) {
  if (node->inputs.size() > 1 && node->inputs[1].valid()) return {};
  const int rank = graph.type(node->inputs[0]).rank();
  Attributes& a = node->attributes;
  std::vector<int64_t> axes = a.has("axes") ? a.ints("axes") : std::vector<int64_t>();
  if (axes.empty() && a.i("noop_with_empty_axes") == 0) {
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  AIPU_ASSIGN_OR_RETURN(axes, normal_axes(axes, rank));
  a.set("axes", std::move(axes));
  return {};
}

Shape reduced_shape(const Shape& input, const std::vector<int64_t>& axes, bool keep) {
  Shape shape;
  for (size_t k = 0; k < input.size(); ++k) {
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(k))) {
      shape.push_back(input[k]);
    } else if (keep) {
      shape.push_back(1);
    }
  }
  return shape;
}

Status infer_reduce(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const auto axes, reduced_axes(ctx));
  const TensorType& input = ctx.input(0);
  set_output(ctx, 0, input.dtype, reduced_shape(input.shape, axes, ctx.attributes().i("keepdims") != 0));

  const std::string& op = ctx.node().op;
  const char* combine = op == "ReduceProd"  ? "Mul"
                        : op == "ReduceSum" ? "Add"
                        : op == "ReduceMin" ? "Min"
                        : op == "ReduceMax" ? "Max"
                                            : nullptr;
  const auto data = data_of(ctx, 0);
  if (combine == nullptr || !data || !tracked(input.dtype)) return {};
  const auto from = *static_shape(input.shape);
  // Offsets with the reduced axes kept as 1 are the same as without them.
  std::vector<int64_t> kept = from;
  for (const int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
  const auto strides = strides_of(kept);
  std::vector<std::optional<Dim>> cells(static_cast<size_t>(count_of(kept)));
  bool failed = false;
  for_each_index(from, [&](int64_t flat, const std::vector<int64_t>& index) {
    int64_t offset = 0;
    for (size_t k = 0; k < index.size(); ++k) offset += kept[k] == 1 ? 0 : index[k] * strides[k];
    auto& cell = cells[static_cast<size_t>(offset)];
    const Dim& element = (*data)[static_cast<size_t>(flat)];
    if (!cell) {
      cell = element;
    } else if (const auto combined = apply_binary(combine, *cell, element, is_floating(input.dtype))) {
      cell = combined;
    } else {
      failed = true;
    }
  });
  if (failed) return {};
  Data result;
  for (auto& cell : cells) {
    if (!cell && (op == "ReduceMin" || op == "ReduceMax")) return {};
    result.push_back(cell ? *cell : Dim(op == "ReduceProd" ? 1 : 0));  // of nothing
  }
  set_data(ctx, 0, checked_elements(std::move(result), input.dtype));
  return {};
}

Status infer_arg(InferContext& ctx) {
  set_output(ctx, 0, DType::kI64,
             reduced_shape(ctx.input(0).shape, {ctx.attributes().i("axis")}, ctx.attributes().i("keepdims") != 0));
  return {};
}

Result<Dim> top_k_extent(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const Shape k, shape_operand(ctx, 1, "k"));
  if (k.size() != 1) return invalid_model(str_cat("K must have one element, found ", k.size()));
  if (k[0].constant_or(0) < 0) return invalid_model(str_cat("K is ", k[0].text()));
  const Dim& extent = ctx.input(0).shape[static_cast<size_t>(ctx.attributes().i("axis"))];
  if ((k[0] - extent).lower_bound().value_or(0) > 0)
    return invalid_model(str_cat("K is ", k[0].text(), ", the axis has ", extent.text()));
  return k[0];
}

Status infer_top_k(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const Dim k, top_k_extent(ctx));
  Shape shape = ctx.input(0).shape;
  shape[static_cast<size_t>(ctx.attributes().i("axis"))] = k;
  set_output(ctx, 0, ctx.input(0).dtype, shape);
  set_output(ctx, 1, DType::kI64, shape);
  return {};
}

Result<int64_t> cum_sum_axis(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const auto axis, constant_ints(ctx, 1, "axis"));
  if (!axis || axis->size() != 1) return invalid_model("axis must be one number");
  return normal_axis(axis->front(), ctx.input(0).rank());
}

// Axes that stay are apart; those reduced are needed as a whole.
AxisMap reduced_map(const Graph& graph, const Node& node, const std::vector<int64_t>& axes) {
  AxisMapBuilder map(graph, node);
  const bool keep = node.attributes.i("keepdims") != 0;
  size_t place = 0;
  for (size_t axis = 0; axis < map.input_rank(0); ++axis) {
    const bool gone = std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
    if (gone && !keep) continue;
    map.link(0, place, 0, axis).apart(0, place, !gone);
    ++place;
  }
  return map.take();
}

std::optional<AxisMap> reduce_axes(const Graph& graph, const Node& node) {
  if (!node.attributes.has("axes")) return std::nullopt;
  return reduced_map(graph, node, node.attributes.ints("axes"));
}

OpDef reduce_op(std::string name, const std::string& types = kNumeric) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("data", types), optional_operand("axes", kIndex)};
  def.outputs = {operand("reduced", types)};
  def.attributes = {attr::i("keepdims", 1), attr::i("noop_with_empty_axes", 0),
                    attr::about(AttributeAxes::kAxes, attr::own_optional("axes", AttributeKind::kInts))};
  def.complete = complete_reduce;
  def.infer = infer_reduce;
  def.resolve = resolve_with({1}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(auto axes, reduced_axes(ctx));
    attributes->set("axes", std::move(axes));
    return true;
  });
  def.traits = kAnyAxisOrder;
  def.axes = reduce_axes;
  return def;
}

OpDef arg_op(std::string name) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("data", kNumeric)};
  def.outputs = {operand("reduced", "i")};
  def.attributes = {attr::about(AttributeAxes::kAxis, attr::i("axis", 0)), attr::i("keepdims", 1),
                    attr::i("select_last_index", 0)};
  def.traits = kFaults | kAnyAxisOrder;
  def.complete = complete_axis("axis");
  def.infer = infer_arg;
  def.axes = [](const Graph& graph, const Node& node) { return reduced_map(graph, node, {node.attributes.i("axis")}); };
  return def;
}

OpDef along_axis_op(std::string name, int64_t default_axis) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("input", "f")};
  def.outputs = {operand("output", "f")};
  def.attributes = {attr::about(AttributeAxes::kAxis, attr::i("axis", default_axis))};
  def.complete = complete_axis("axis");
  def.infer = infer_same_as_input;
  def.traits = kAnyAxisOrder | kFloatInside;
  def.axes = axes::along("axis");
  return def;
}

OpDef top_k_op() {
  OpDef def;
  def.name = "TopK";
  def.inputs = {operand("X", kNumeric), optional_operand("K", kIndex)};
  def.outputs = {operand("Values", kNumeric), operand("Indices", "i")};
  def.attributes = {attr::about(AttributeAxes::kAxis, attr::i("axis", -1)), attr::i("largest", 1), attr::i("sorted", 1),
                    attr::own_optional("k", AttributeKind::kShape)};
  def.traits = kFaults | kAnyAxisOrder;
  def.complete = complete_axis("axis");
  def.infer = infer_top_k;
  def.resolve = resolve_with({1}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(const Dim k, top_k_extent(ctx));
    attributes->set("k", Shape{k});
    return true;
  });
  def.axes = axes::along("axis");
  return def;
}

// CumSum and CumProd.
OpDef cumulative_op(std::string name) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("x", kNumeric), optional_operand("axis", kIndex)};
  def.outputs = {operand("y", kNumeric)};
  def.attributes = {attr::i("exclusive", 0), attr::i("reverse", 0),
                    attr::about(AttributeAxes::kAxis, attr::own_optional("axis", AttributeKind::kInt))};
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(cum_sum_axis(ctx).status());
    return infer_same_as_input(ctx);
  };
  def.resolve = resolve_with({1}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(const int64_t axis, cum_sum_axis(ctx));
    attributes->set("axis", axis);
    return true;
  });
  def.traits = kAnyAxisOrder;
  def.axes = axes::along("axis");
  return def;
}

}  // namespace

std::vector<OpDef> reduce_ops() {
  return {
      reduce_op("ReduceL1"),
      reduce_op("ReduceL2"),
      reduce_op("ReduceLogSum"),
      reduce_op("ReduceLogSumExp"),
      reduce_op("ReduceMax", "biuf"),
      reduce_op("ReduceMean"),
      reduce_op("ReduceMin", "biuf"),
      reduce_op("ReduceProd"),
      reduce_op("ReduceSum"),
      reduce_op("ReduceSumSquare"),
      arg_op("ArgMax"),
      arg_op("ArgMin"),
      along_axis_op("Hardmax", -1),
      along_axis_op("LogSoftmax", -1),
      along_axis_op("Softmax", -1),
      cumulative_op("CumProd"),
      cumulative_op("CumSum"),
      top_k_op(),
  };
}

}  // namespace aipu::graph
