// Ops that move elements to computed places: Transpose, Concat, Split, Slice, Pad, DepthToSpace, SpaceToDepth, Trilu,
// ReverseSequence.
#include <algorithm>

#include "graph/ops/op_list.h"
#include "graph/ops/shape_operands.h"
#include "graph/ops/spatial.h"

namespace aipu::graph {
namespace {

// ---- Transpose

Status complete_transpose(const Graph& graph, Node* node) {
  const int rank = graph.type(node->inputs[0]).rank();
  std::vector<int64_t> perm;
  if (node->attributes.has("perm")) {
    perm = node->attributes.ints("perm");
  } else {
    for (int axis = rank; axis-- > 0;) perm.push_back(axis);
  }
  if (static_cast<int>(perm.size()) != rank)
    return invalid_model(str_cat("perm has ", perm.size(), " elements for an input of rank ", rank));
  for (int64_t& axis : perm) {
    AIPU_ASSIGN_OR_RETURN(axis, normal_axis(axis, rank));
  }
  AIPU_RETURN_IF_ERROR(normal_axes(perm, rank).status());
  node->attributes.set("perm", std::move(perm));
  return {};
}

Status infer_transpose(InferContext& ctx) {
  const auto& perm = ctx.attributes().ints("perm");
  const TensorType& input = ctx.input(0);
  if (static_cast<int>(perm.size()) != input.rank())
    return invalid_model(str_cat("perm has ", perm.size(), " elements for ", input.text()));
  Shape shape;
  for (const int64_t axis : perm) shape.push_back(input.shape[static_cast<size_t>(axis)]);
  set_output(ctx, 0, input.dtype, shape);
  const auto data = data_of(ctx, 0);
  const auto to = static_shape(shape);
  if (!data || !to) return {};
  const auto strides = strides_of(*static_shape(input.shape));
  Data result;
  for_each_index(*to, [&](int64_t, const std::vector<int64_t>& index) {
    int64_t offset = 0;
    for (size_t k = 0; k < index.size(); ++k) offset += index[k] * strides[static_cast<size_t>(perm[k])];
    result.push_back((*data)[static_cast<size_t>(offset)]);
  });
  set_data(ctx, 0, std::move(result));
  return {};
}

// ---- Concat, Split

Status infer_concat(InferContext& ctx) {
  const auto axis = static_cast<size_t>(ctx.attributes().i("axis"));
  const TensorType& first = ctx.input(0);
  Shape shape = first.shape;
  for (size_t i = 1; i < ctx.node().inputs.size(); ++i) {
    const TensorType& input = ctx.input(i);
    AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, i}));
    if (input.rank() != first.rank())
      return invalid_model(str_cat("operands must have one rank, found ", first.text(), " and ", input.text()));
    for (size_t k = 0; k < shape.size(); ++k) {
      if (k == axis) {
        shape[k] += input.shape[k];
        continue;
      }
      AIPU_RETURN_IF_ERROR(expect_equal(input.shape[k], shape[k], str_cat("extent ", k, " of operand ", i)));
      if (input.shape[k].is_constant()) shape[k] = input.shape[k];
    }
  }
  set_output(ctx, 0, first.dtype, std::move(shape));
  if (axis != 0) return {};
  Data result;
  for (size_t i = 0; i < ctx.node().inputs.size(); ++i) {
    const auto data = data_of(ctx, i);
    if (!data || result.size() + data->size() > kDataLimit) return {};
    result.insert(result.end(), data->begin(), data->end());
  }
  set_data(ctx, 0, std::move(result));
  return {};
}

// The type of `past`, into which `added` is written behind the first `at` elements of the axis.
Status infer_cache_update(InferContext& ctx) {
  const auto axis = static_cast<size_t>(ctx.attributes().i("axis"));
  const TensorType &past = ctx.input(0), &added = ctx.input(1);
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1}));
  if (added.rank() != past.rank() || axis >= past.shape.size() || ctx.attributes().shape("at").size() != 1)
    return invalid_model(str_cat("cannot write ", added.text(), " into ", past.text()));
  for (size_t k = 0; k < past.shape.size(); ++k) {
    if (k != axis) AIPU_RETURN_IF_ERROR(expect_equal(added.shape[k], past.shape[k], str_cat("extent ", k)));
  }
  set_output(ctx, 0, past.dtype, past.shape);
  return {};
}

Status complete_split(const Graph& graph, Node* node) {
  AIPU_RETURN_IF_ERROR(complete_axis_attribute(node, "axis", graph.type(node->inputs[0]).rank()));
  const bool sized = node->attributes.has("split") || (node->inputs.size() > 1 && node->inputs[1].valid());
  if (!sized && !node->attributes.has("num_outputs"))
    node->attributes.set("num_outputs", static_cast<int64_t>(node->outputs.size()));
  return {};
}

Result<Shape> split_extents(InferContext& ctx) {
  const auto axis = static_cast<size_t>(ctx.attributes().i("axis"));
  const Dim& total = ctx.input(0).shape[axis];
  const size_t count = ctx.node().outputs.size();
  Shape extents;
  if (ctx.has_input(1) || ctx.attributes().has("split")) {
    AIPU_ASSIGN_OR_RETURN(extents, shape_operand(ctx, 1, "split"));
    if (extents.size() != count)
      return invalid_model(str_cat("split has ", extents.size(), " elements for ", count, " outputs"));
    Dim sum;
    for (const Dim& extent : extents) sum += extent;
    AIPU_RETURN_IF_ERROR(expect_equal(sum, total, "the sum of split"));
    return extents;
  }
  const auto parts = static_cast<int64_t>(count);
  if (ctx.attributes().i("num_outputs") != parts) {
    return invalid_model(
        str_cat("num_outputs is ", ctx.attributes().i("num_outputs"), ", but the node has ", parts, " outputs"));
  }
  const Dim chunk = ceildiv(total, parts);
  for (int64_t k = 0; k < parts; ++k) {
    extents.push_back(chunk * Dim(parts) == total ? chunk : min(chunk, max(total - chunk * Dim(k), 0)));
  }
  return extents;
}

Status infer_split(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const Shape extents, split_extents(ctx));
  const auto axis = static_cast<size_t>(ctx.attributes().i("axis"));
  const auto data = ctx.input(0).rank() == 1 ? data_of(ctx, 0) : std::nullopt;
  size_t offset = 0;
  bool known = data.has_value();
  for (size_t i = 0; i < extents.size(); ++i) {
    Shape shape = ctx.input(0).shape;
    shape[axis] = extents[i];
    set_output(ctx, i, ctx.input(0).dtype, std::move(shape));
    const auto size = extents[i].constant();
    known = known && size && *size >= 0 && offset + static_cast<size_t>(*size) <= data->size();
    if (!known) continue;
    const auto begin = data->begin() + static_cast<std::ptrdiff_t>(offset);
    set_data(ctx, i, Data(begin, begin + *size));
    offset += static_cast<size_t>(*size);
  }
  return {};
}

// ---- Slice

struct SliceGeometry {
  Shape starts;  // full rank, in [0, extent)
  std::vector<int64_t> steps;
  Shape extents;
};

// Exporters write "to the end" as INT32_MAX or about INT64_MAX, "from the beginning" as their negatives or one less.
// Other large numbers are positions, on axes that are long enough.
bool is_far(int64_t position, const Dim& extent) {
  return position >= INT64_MAX / 2 || (position == INT32_MAX && !extent.is_constant());
}
bool is_far_back(int64_t position, const Dim& extent) {
  return position <= INT64_MIN / 2 || ((position == -INT32_MAX || position == INT32_MIN) && !extent.is_constant());
}

Dim from_the_end(const Dim& position, const Dim& extent) {
  if (position.lower_bound().value_or(-1) >= 0) return position;
  if (position.upper_bound().value_or(0) < 0) return position + extent;
  return select(lt(position, 0), position + extent, position);
}

void slice_axis(const Dim& extent, const Dim& start, const Dim& end, int64_t step, Dim* first, Dim* size) {
  const auto s = start.constant();
  const auto e = end.constant();
  if (step > 0) {
    const Dim last = e && is_far(*e, extent)        ? extent
                     : e && is_far_back(*e, extent) ? Dim(0)
                                                    : max(min(from_the_end(end, extent), extent), 0);
    if (s && *s < 0 && last == extent) {
      // The last -s elements, fewer if there are not that many.
      const Dim tail = is_far_back(*s, extent) ? extent : min(extent, Dim(-*s));
      *first = extent - tail;
      *size = ceildiv(tail, step);
      return;
    }
    const Dim begin = s && is_far_back(*s, extent) ? Dim(0) : max(from_the_end(start, extent), 0);
    *first = min(begin, extent);
    *size = max(ceildiv(last - begin, step), 0);  // `begin` beyond the extent gives a negative difference, so 0
    return;
  }
  const Dim top = extent - 1;
  const Dim begin = s && (is_far(*s, extent) || *s == -1) ? top
                    : s && is_far_back(*s, extent)        ? min(0, top)
                                                          : min(max(from_the_end(start, extent), 0), top);
  const Dim last = e && is_far_back(*e, extent) ? Dim(-1)
                   : e && is_far(*e, extent)    ? top
                                                : min(max(from_the_end(end, extent), -1), top);
  *first = max(begin, 0);
  *size = max(ceildiv(begin - last, -step), 0);
}

Result<SliceGeometry> slice_geometry(InferContext& ctx) {
  const TensorType& input = ctx.input(0);
  const auto rank = static_cast<size_t>(input.rank());
  SliceGeometry g;
  if (ctx.attributes().has("extents")) {
    g = {ctx.attributes().shape("starts"), ctx.attributes().ints("steps"), ctx.attributes().shape("extents")};
    if (g.starts.size() != rank || g.steps.size() != rank || g.extents.size() != rank) {
      return invalid_model(str_cat("starts, steps and extents must have one element per axis of ", input.text()));
    }
    return g;
  }
  AIPU_ASSIGN_OR_RETURN(const Shape starts, shape_operand(ctx, 1, "starts"));
  AIPU_ASSIGN_OR_RETURN(const Shape ends, shape_operand(ctx, 2, "ends"));
  AIPU_ASSIGN_OR_RETURN(const auto given_axes, constant_ints(ctx, 3, "axes"));
  AIPU_ASSIGN_OR_RETURN(const auto given_steps, constant_ints(ctx, 4, "steps"));
  const size_t count = starts.size();
  if (ends.size() != count || (given_axes && given_axes->size() != count) ||
      (given_steps && given_steps->size() != count) || count > rank) {
    return invalid_model(str_cat("starts, ends, axes and steps must have equally many elements, at most ", rank));
  }
  g = {Shape(rank, Dim(0)), std::vector<int64_t>(rank, 1), input.shape};
  std::vector<bool> seen(rank, false);
  for (size_t k = 0; k < count; ++k) {
    AIPU_ASSIGN_OR_RETURN(const int64_t axis,
                          normal_axis(given_axes ? (*given_axes)[k] : static_cast<int64_t>(k), input.rank()));
    const auto a = static_cast<size_t>(axis);
    if (seen[a]) return invalid_model(str_cat("axis ", axis, " is listed twice"));
    seen[a] = true;
    const int64_t step = given_steps ? (*given_steps)[k] : 1;
    if (step == 0 || step == INT64_MIN) return invalid_model(str_cat("step ", step, " on axis ", axis));
    g.steps[a] = step;
    slice_axis(input.shape[a], starts[k], ends[k], step, &g.starts[a], &g.extents[a]);
  }
  return g;
}

Status infer_slice(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const SliceGeometry g, slice_geometry(ctx));
  set_output(ctx, 0, ctx.input(0).dtype, g.extents);
  const auto data = data_of(ctx, 0);
  const auto to = static_shape(g.extents);
  const auto starts = static_shape(g.starts);
  if (!data || !to || !starts) return {};
  const auto strides = strides_of(*static_shape(ctx.input(0).shape));
  Data result;
  for_each_index(*to, [&](int64_t, const std::vector<int64_t>& index) {
    int64_t offset = 0;
    for (size_t k = 0; k < index.size(); ++k) offset += ((*starts)[k] + index[k] * g.steps[k]) * strides[k];
    result.push_back((*data)[static_cast<size_t>(offset)]);
  });
  set_data(ctx, 0, std::move(result));
  return {};
}

// ---- Pad

Result<Shape> pad_amounts(InferContext& ctx) {
  const auto rank = static_cast<size_t>(ctx.input(0).rank());
  if (!ctx.has_input(1) && ctx.attributes().has("pads")) return ctx.attributes().shape("pads");
  AIPU_ASSIGN_OR_RETURN(const Shape given, shape_operand(ctx, 1, "pads"));
  AIPU_ASSIGN_OR_RETURN(const auto axes, constant_ints(ctx, 3, "axes"));
  const size_t count = axes ? axes->size() : rank;
  if (given.size() != 2 * count)
    return invalid_model(str_cat("pads has ", given.size(), " elements, expected ", 2 * count));
  Shape pads(2 * rank, Dim(0));
  for (size_t k = 0; k < count; ++k) {
    AIPU_ASSIGN_OR_RETURN(const int64_t axis,
                          normal_axis(axes ? (*axes)[k] : static_cast<int64_t>(k), ctx.input(0).rank()));
    pads[static_cast<size_t>(axis)] = given[k];
    pads[static_cast<size_t>(axis) + rank] = given[count + k];
  }
  return pads;
}

Status infer_pad(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 2}));
  AIPU_ASSIGN_OR_RETURN(const Shape pads, pad_amounts(ctx));
  Shape shape = ctx.input(0).shape;
  if (pads.size() != 2 * shape.size())
    return invalid_model(str_cat("pads has ", pads.size(), " elements for ", ctx.input(0).text()));
  for (size_t k = 0; k < shape.size(); ++k) {
    shape[k] = shape[k] + pads[k] + pads[k + shape.size()];
    if (shape[k].constant_or(0) < 0)
      return invalid_model(str_cat("pads remove more than axis ", k, " of ", ctx.input(0).text(), " has"));
  }
  set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
  return {};
}

// ---- DepthToSpace, SpaceToDepth

Status infer_block(InferContext& ctx, bool to_space) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 4));
  const SpatialLayout layout(ctx.attributes(), 4);
  const Shape& input = ctx.input(0).shape;
  const int64_t block = ctx.attributes().i("blocksize");
  if (block < 1 || block > 32768) return invalid_model(str_cat("blocksize is ", block));
  Dim channels = layout.channels(input);
  Shape extents = layout.spatial(input);
  const Dim divisor(block * block);
  if (to_space) {
    if (channels.constant() && *channels.constant() % (block * block) != 0) {
      return invalid_model(str_cat(channels.text(), " channels do not divide by blocksize squared, ", block * block));
    }
    channels = floordiv(channels, divisor);
    for (Dim& extent : extents) extent *= block;
  } else {
    channels *= divisor;
    for (Dim& extent : extents) {
      if (extent.constant() && *extent.constant() % block != 0)
        return invalid_model(str_cat("extent ", extent.text(), " does not divide by ", block));
      extent = floordiv(extent, block);
    }
  }
  set_output(ctx, 0, ctx.input(0).dtype, layout.make(layout.batch(input), channels, extents));
  return {};
}

Status infer_matrix_operand(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 2));
  return infer_same_as_input(ctx);
}

AxisMap transpose_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const auto& perm = node.attributes.ints("perm");
  for (size_t k = 0; k < perm.size(); ++k) map.link(0, k, 0, static_cast<size_t>(perm[k])).apart(0, k);
  return map.take();
}

AxisMap concat_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  for (size_t input = 0; input < node.inputs.size(); ++input) map.link_leading(0, input, map.output_rank(0));
  return map.apart(0, static_cast<size_t>(node.attributes.i("axis")), false).take();
}

// Axes that are taken whole are apart.
std::optional<AxisMap> slice_axes(const Graph& graph, const Node& node) {
  const Attributes& a = node.attributes;
  AxisMapBuilder map(graph, node);
  const size_t rank = map.output_rank(0);
  if (!a.has("starts") || !a.has("steps") || !a.has("extents") || a.shape("starts").size() != rank ||
      a.ints("steps").size() != rank)
    return std::nullopt;
  map.link_leading(0, 0, rank);
  for (size_t k = 0; k < rank; ++k) {
    map.apart(
        0, k,
        a.shape("starts")[k] == Dim(0) && a.ints("steps")[k] == 1 && map.input_extent(0, k) == map.output_extent(0, k));
  }
  return map.take();
}

std::optional<AxisMap> pad_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const size_t rank = map.output_rank(0);
  if (!node.attributes.has("pads") || node.attributes.shape("pads").size() != 2 * rank) return std::nullopt;
  const Shape& pads = node.attributes.shape("pads");
  map.link_leading(0, 0, rank);
  for (size_t k = 0; k < rank; ++k) map.apart(0, k, pads[k] == Dim(0) && pads[rank + k] == Dim(0));
  return map.take();
}

// All but the matrices' axes.
AxisMap trilu_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const size_t rank = map.output_rank(0);
  map.link_leading(0, 0, rank);
  for (size_t k = 1; k <= std::min<size_t>(rank, 2); ++k) map.apart(0, rank - k, false);
  return map.take();
}

AxisMap reverse_sequence_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  map.link_leading(0, 0, map.output_rank(0));
  map.apart(0, static_cast<size_t>(node.attributes.i("time_axis")), false);
  return map.link(0, static_cast<size_t>(node.attributes.i("batch_axis")), 1, 0).take();
}

OpDef transpose_op() {
  OpDef def;
  def.name = "Transpose";
  def.inputs = {operand("data", "*")};
  def.outputs = {operand("transposed", "*")};
  def.attributes = {attr::optional("perm", AttributeKind::kInts)};
  def.traits = kTakesRounded;
  def.complete = complete_transpose;
  def.infer = infer_transpose;
  def.axes = transpose_axes;
  return def;
}

OpDef concat_op() {
  OpDef def;
  def.name = "Concat";
  def.inputs = {variadic_operand("inputs", "*")};
  def.outputs = {operand("concat_result", "*")};
  def.attributes = {attr::about(AttributeAxes::kAxis, attr::required("axis", AttributeKind::kInt))};
  def.traits = kAnyAxisOrder | kTakesRounded;
  def.complete = complete_axis("axis");
  def.infer = infer_concat;
  def.axes = concat_axes;
  return def;
}

OpDef cache_update_op() {
  OpDef def;
  def.name = "aipu::CacheUpdate";
  def.inputs = {operand("past", "*"), operand("added", "*")};
  def.outputs = {operand("present", "*")};
  def.attributes = {attr::required("axis", AttributeKind::kInt), attr::required("at", AttributeKind::kShape)};
  def.infer = infer_cache_update;
  def.axes = axes::mixed();
  return def;
}

OpDef split_op() {
  OpDef def;
  def.name = "Split";
  def.inputs = {operand("input", "*"), optional_operand("split", kIndex)};
  def.outputs = {variadic_operand("outputs", "*")};
  def.attributes = {attr::about(AttributeAxes::kAxis, attr::i("axis", 0)),
                    attr::optional("num_outputs", AttributeKind::kInt),
                    attr::own_optional("split", AttributeKind::kShape)};
  def.complete = complete_split;
  def.infer = infer_split;
  def.resolve = resolve_with({1}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(Shape extents, split_extents(ctx));
    attributes->set("split", std::move(extents));
    return true;
  });
  def.traits = kAnyAxisOrder | kTakesRounded;
  def.axes = axes::along("axis");
  return def;
}

OpDef slice_op() {
  OpDef def;
  def.name = "Slice";
  def.inputs = {operand("data", "*"), optional_operand("starts", kIndex), optional_operand("ends", kIndex),
                optional_operand("axes", kIndex), optional_operand("steps", kIndex)};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::about(AttributeAxes::kPerAxis, attr::own_optional("starts", AttributeKind::kShape)),
                    attr::about(AttributeAxes::kPerAxis, attr::own_optional("steps", AttributeKind::kInts)),
                    attr::about(AttributeAxes::kPerAxis, attr::own_optional("extents", AttributeKind::kShape))};
  def.infer = infer_slice;
  def.resolve = resolve_with({1, 2, 3, 4}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(SliceGeometry g, slice_geometry(ctx));
    attributes->set("starts", std::move(g.starts));
    attributes->set("steps", std::move(g.steps));
    attributes->set("extents", std::move(g.extents));
    return true;
  });
  def.traits = kAnyAxisOrder | kTakesRounded;
  def.axes = slice_axes;
  return def;
}

OpDef pad_op() {
  OpDef def;
  def.name = "Pad";
  def.inputs = {operand("data", "*"), optional_operand("pads", kIndex), optional_operand("constant_value", "*"),
                optional_operand("axes", kIndex)};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::s("mode", "constant"),
                    attr::about(AttributeAxes::kPerEnd, attr::own_optional("pads", AttributeKind::kShape))};
  def.infer = infer_pad;
  def.resolve = resolve_with({1, 3}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(Shape pads, pad_amounts(ctx));
    attributes->set("pads", std::move(pads));
    return true;
  });
  def.verify = [](const Graph&, const Node& node) {
    return expect_choice(node, "mode", {"constant", "reflect", "edge", "wrap"});
  };
  def.traits = kAnyAxisOrder | kTakesRounded;
  def.axes = pad_axes;
  return def;
}

OpDef depth_to_space_op() {
  OpDef def;
  def.name = "DepthToSpace";
  def.inputs = {operand("input", "*")};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::required("blocksize", AttributeKind::kInt), attr::s("mode", "DCR"), attr::layout()};
  def.traits = kSpatial | kTakesRounded;
  def.infer = [](InferContext& ctx) { return infer_block(ctx, true); };
  def.verify = [](const Graph&, const Node& node) { return expect_choice(node, "mode", {"DCR", "CRD"}); };
  def.axes = axes::images(axes::Channels::kMixed);
  return def;
}

OpDef space_to_depth_op() {
  OpDef def;
  def.name = "SpaceToDepth";
  def.inputs = {operand("input", "*")};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::required("blocksize", AttributeKind::kInt), attr::layout()};
  def.traits = kSpatial | kTakesRounded;
  def.infer = [](InferContext& ctx) { return infer_block(ctx, false); };
  def.axes = axes::images(axes::Channels::kMixed);
  return def;
}

OpDef trilu_op() {
  OpDef def;
  def.name = "Trilu";
  def.inputs = {operand("input", "*"), optional_operand("k", kIndex)};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::i("upper", 1)};
  def.infer = infer_matrix_operand;
  def.axes = trilu_axes;
  return def;
}

OpDef reverse_sequence_op() {
  OpDef def;
  def.name = "ReverseSequence";
  def.inputs = {operand("input", "*"), operand("sequence_lens", kIndex)};
  def.outputs = {operand("Y", "*")};
  def.attributes = {attr::i("batch_axis", 1), attr::i("time_axis", 0)};
  def.traits = kFaults;
  def.infer = infer_matrix_operand;
  def.verify = [](const Graph&, const Node& node) -> Status {
    const int64_t batch = node.attributes.i("batch_axis");
    const int64_t time = node.attributes.i("time_axis");
    if (batch + time == 1 && batch * time == 0) return {};
    return invalid_model(
        str_cat("batch_axis and time_axis must be 0 and 1 in some order, found ", batch, " and ", time));
  };
  def.axes = reverse_sequence_axes;
  return def;
}

}  // namespace

std::vector<OpDef> movement_ops() {
  return {transpose_op(), concat_op(),         cache_update_op(),   split_op(), slice_op(),
          pad_op(),       depth_to_space_op(), space_to_depth_op(), trilu_op(), reverse_sequence_op()};
}

}  // namespace aipu::graph
