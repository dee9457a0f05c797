// Ops that say or change a shape and nothing else: Reshape, Flatten, Squeeze, Unsqueeze, Shape, Size, Expand, Tile.
#include <algorithm>

#include "graph/ops/dim_rules.h"
#include "graph/ops/op_list.h"
#include "graph/ops/shape_operands.h"

namespace aipu::graph {
namespace {

Status infer_view(InferContext& ctx, Shape shape) {
  set_output(ctx, 0, ctx.input(0).dtype, std::move(shape));
  set_data(ctx, 0, data_of(ctx, 0));
  return {};
}

bool may_be_negative(const Dim& d) { return d.lower_bound().value_or(-1) < 0; }

// total / product(divisors), first cancelling extents that occur on both sides: [N,12] seen as [N,3,-1] divides 12 by 3
// whatever N is.
Dim quotient_of(Shape total, Shape divisors) {
  for (auto divisor = divisors.begin(); divisor != divisors.end();) {
    const auto same = std::find(total.begin(), total.end(), *divisor);
    if (same != total.end() && divisor->constant() != 0) {
      total.erase(same);
      divisor = divisors.erase(divisor);
    } else {
      ++divisor;
    }
  }
  const Dim product = element_count(divisors);
  return product.constant() == 1 ? element_count(total) : floordiv(element_count(total), product);
}

// Output extents of Reshape. An element that is an expression of extents stands for itself; one read from a tensor at
// run time follows ONNX's rules for 0 and -1 in a select().
Result<Shape> reshape_extents(InferContext& ctx) {
  if (ctx.attributes().has("shape")) return ctx.attributes().shape("shape");
  AIPU_ASSIGN_OR_RETURN(Shape wanted, shape_operand(ctx, 1, "shape"));
  const Shape& input = ctx.input(0).shape;
  const bool allow_zero = ctx.attributes().i("allowzero") != 0;
  int inferred = -1;
  bool open = false;  // some run-time element may be -1
  for (size_t k = 0; k < wanted.size(); ++k) {
    Dim& element = wanted[k];
    const auto value = element.constant();
    if (value == -1) {
      if (inferred >= 0) return invalid_model("shape has more than one -1");
      inferred = static_cast<int>(k);
      continue;
    }
    if (value && *value < -1) return invalid_model(str_cat("shape has element ", *value));
    if (value == 0 && !allow_zero) {
      if (k >= input.size()) {
        return invalid_model(str_cat("shape has a 0 at position ", k, ", but the input is ", ctx.input(0).text()));
      }
      element = input[k];
      continue;
    }
    if (value || !may_be_negative(element)) continue;
    if (!allow_zero && k < input.size()) element = select(eq(element, 0), input[k], element);
    open = true;
  }
  if (inferred >= 0) {
    Shape others = wanted;
    others.erase(others.begin() + inferred);
    const auto total = element_count(input).constant();
    const auto product = element_count(others).constant();
    if (total && product && (*product == 0 ? *total != 0 : *total % *product != 0)) {
      return invalid_model(str_cat("cannot reshape ", ctx.input(0).text(), " to ", shape_text(wanted)));
    }
    wanted[static_cast<size_t>(inferred)] = product == 0 ? Dim(0) : quotient_of(input, others);
    return wanted;
  }
  if (!open) return wanted;
  Shape magnitudes = wanted;
  for (Dim& d : magnitudes) {
    if (may_be_negative(d)) d = select(lt(d, 0), 1, d);
  }
  Shape result = wanted;
  for (size_t k = 0; k < wanted.size(); ++k) {
    if (!may_be_negative(wanted[k])) continue;
    Shape others = magnitudes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    result[k] = select(lt(wanted[k], 0), quotient_of(input, others), wanted[k]);
  }
  return result;
}

Status infer_reshape(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(Shape shape, reshape_extents(ctx));
  if (provably_different(element_count(ctx.input(0).shape), element_count(shape))) {
    return invalid_model(
        str_cat("cannot reshape ", ctx.input(0).text(), " to ", shape_text(shape), ": the element counts differ"));
  }
  assume_equal(element_count(shape), element_count(ctx.input(0).shape),
               "the new shape has another number of elements than the data: {value}, not {limit}");
  return infer_view(ctx, std::move(shape));
}

Result<std::vector<int64_t>> squeeze_axes(InferContext& ctx) {
  const TensorType& input = ctx.input(0);
  AIPU_ASSIGN_OR_RETURN(const auto given, constant_ints(ctx, 1, "axes"));
  std::vector<int64_t> axes;
  if (given) {
    AIPU_ASSIGN_OR_RETURN(axes, normal_axes(*given, input.rank()));
    for (const int64_t axis : axes) {
      AIPU_RETURN_IF_ERROR(
          expect_equal(input.shape[static_cast<size_t>(axis)], 1, str_cat("the extent of squeezed axis ", axis)));
    }
    return axes;
  }
  for (int axis = 0; axis < input.rank(); ++axis) {
    const Dim& extent = input.shape[static_cast<size_t>(axis)];
    if (extent.constant() == 1) {
      axes.push_back(axis);
      continue;
    }
    // The rank depends on it, so it is decided here: an axis of a symbolic extent stays.
    assume_different(extent, 1,
                     str_cat("axis ", axis,
                             " has the extent {value} in this run; a Squeeze without axes would remove "
                             "it, which is decided when converting: give the axes or the shape (--shape)"));
  }
  return axes;
}

Status infer_squeeze(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const auto axes, squeeze_axes(ctx));
  Shape shape;
  for (int axis = 0; axis < ctx.input(0).rank(); ++axis) {
    if (!std::binary_search(axes.begin(), axes.end(), axis))
      shape.push_back(ctx.input(0).shape[static_cast<size_t>(axis)]);
  }
  return infer_view(ctx, std::move(shape));
}

Result<std::vector<int64_t>> unsqueeze_axes(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const auto given, constant_ints(ctx, 1, "axes"));
  if (!given) return invalid_model("operand 'axes' is missing");
  return normal_axes(*given, ctx.input(0).rank() + static_cast<int>(given->size()));
}

Status infer_unsqueeze(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const auto axes, unsqueeze_axes(ctx));
  Shape shape = ctx.input(0).shape;
  for (const int64_t axis : axes) shape.insert(shape.begin() + axis, Dim(1));  // ascending: each lands at its place
  return infer_view(ctx, std::move(shape));
}

Status infer_flatten(InferContext& ctx) {
  const Shape& input = ctx.input(0).shape;
  const auto split = input.begin() + ctx.attributes().i("axis");
  return infer_view(ctx, {element_count(Shape(input.begin(), split)), element_count(Shape(split, input.end()))});
}

// ONNX clamps start and end into [0, rank].
Status complete_shape(const Graph& graph, Node* node) {
  const int64_t rank = graph.type(node->inputs[0]).rank();
  const auto clamp = [&](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + rank : position, 0, rank);
  };
  const int64_t start = clamp(node->attributes.i("start"));
  const int64_t end = clamp(node->attributes.i_or("end", rank));
  node->attributes.set("start", start);
  node->attributes.set("end", std::max(start, end));
  return {};
}

Status infer_shape(InferContext& ctx) {
  const Shape& input = ctx.input(0).shape;
  const Data elements(input.begin() + ctx.attributes().i("start"), input.begin() + ctx.attributes().i("end"));
  set_output(ctx, 0, DType::kI64, {Dim(static_cast<int64_t>(elements.size()))});
  set_data(ctx, 0, elements);
  return {};
}

Status infer_size(InferContext& ctx) {
  set_output(ctx, 0, DType::kI64, {});
  set_data(ctx, 0, Data{element_count(ctx.input(0).shape)});
  return {};
}

Status infer_expand(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const Shape wanted, shape_operand(ctx, 1, "shape"));
  const Shape shapes[2] = {ctx.input(0).shape, wanted};
  AIPU_ASSIGN_OR_RETURN(const Shape shape, broadcast_operands(shapes));
  set_output(ctx, 0, ctx.input(0).dtype, shape);
  if (!is_static(wanted)) return {};  // whether it is legal is for the run to say, so the node has to stay
  const auto to = static_shape(shape);
  const auto data = data_of(ctx, 0);
  if (to && data && count_of(*to) <= kDataLimit)
    set_data(ctx, 0, broadcast_data(*data, *static_shape(ctx.input(0).shape), *to));
  return {};
}

Result<Shape> tile_repeats(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(Shape repeats, shape_operand(ctx, 1, "repeats"));
  if (static_cast<int>(repeats.size()) != ctx.input(0).rank()) {
    return invalid_model(
        str_cat("repeats has ", repeats.size(), " elements for an input of rank ", ctx.input(0).rank()));
  }
  return repeats;
}

Status infer_tile(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const Shape repeats, tile_repeats(ctx));
  Shape shape = ctx.input(0).shape;
  for (size_t k = 0; k < shape.size(); ++k) shape[k] *= repeats[k];
  set_output(ctx, 0, ctx.input(0).dtype, shape);
  const auto data = data_of(ctx, 0);
  const auto to = static_shape(shape);
  if (!data || !to || count_of(*to) > kDataLimit) return {};
  const auto from = *static_shape(ctx.input(0).shape);
  const auto strides = strides_of(from);
  Data result;
  for_each_index(*to, [&](int64_t, const std::vector<int64_t>& index) {
    int64_t offset = 0;
    for (size_t k = 0; k < index.size(); ++k) offset += index[k] % from[k] * strides[k];
    result.push_back((*data)[static_cast<size_t>(offset)]);
  });
  set_data(ctx, 0, std::move(result));
  return {};
}

OpDef one_operand(std::string name, uint32_t traits, std::function<Status(InferContext&)> infer,
                  const char* output_types = "*") {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("data", "*")};
  def.outputs = {operand("output", output_types)};
  def.traits = traits;
  def.infer = std::move(infer);
  return def;
}

bool has_shape_operand(const Node& node) { return node.inputs.size() > 1 && node.inputs[1].valid(); }

// Leading axes of the same extents, those of 1 left out, and the first that differ: elements keep their order, so that
// equal parts of the first axis are equal parts of the memory.
std::optional<AxisMap> view_axes(const Graph& graph, const Node& node) {
  if (has_shape_operand(node)) return std::nullopt;
  AxisMapBuilder map(graph, node);
  size_t from = 0, to = 0;
  while (from < map.input_rank(0) && to < map.output_rank(0)) {
    const Dim& before = map.input_extent(0, from);
    const Dim& after = map.output_extent(0, to);
    if (!(before == after) && before == Dim(1)) {
      ++from;
    } else if (!(before == after) && after == Dim(1)) {
      ++to;
    } else {
      map.link(0, to, 0, from).apart(0, to);
      if (!(before == after)) break;
      ++from;
      ++to;
    }
  }
  return map.take();
}

std::optional<AxisMap> expand_axes(const Graph& graph, const Node& node) {
  if (!node.attributes.has("shape")) return std::nullopt;
  return AxisMapBuilder(graph, node).link_trailing(0, 0).take();
}

std::optional<AxisMap> tile_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const size_t rank = map.output_rank(0);
  if (!node.attributes.has("repeats") || node.attributes.shape("repeats").size() != rank) return std::nullopt;
  map.link_leading(0, 0, rank);
  for (size_t axis = 0; axis < rank; ++axis) map.apart(0, axis, node.attributes.shape("repeats")[axis] == Dim(1));
  return map.take();
}

OpDef reshape_op() {
  OpDef def = one_operand("Reshape", kView | kTakesRounded, infer_reshape);
  def.inputs.push_back(optional_operand("shape", kIndex));
  def.attributes = {attr::i("allowzero", 0),
                    attr::about(AttributeAxes::kViewAs, attr::own_optional("shape", AttributeKind::kShape))};
  def.resolve = resolve_with({1}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(Shape shape, reshape_extents(ctx));
    attributes->set("shape", std::move(shape));
    return true;
  });
  def.axes = view_axes;
  return def;
}

OpDef flatten_op() {
  OpDef def = one_operand("Flatten", kView | kTakesRounded, infer_flatten);
  def.attributes = {attr::i("axis", 1)};
  def.complete = complete_axis("axis", 0, /*inclusive=*/true);
  def.axes = view_axes;
  return def;
}

OpDef squeeze_op() {
  OpDef def = one_operand("Squeeze", kView | kTakesRounded, infer_squeeze);
  def.inputs.push_back(optional_operand("axes", kIndex));
  def.attributes = {attr::own_optional("axes", AttributeKind::kInts)};
  def.resolve = resolve_with({1}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(auto axes, squeeze_axes(ctx));
    attributes->set("axes", std::move(axes));
    return true;
  });
  def.axes = view_axes;
  return def;
}

OpDef unsqueeze_op() {
  OpDef def = one_operand("Unsqueeze", kView | kTakesRounded, infer_unsqueeze);
  def.inputs.push_back(optional_operand("axes", kIndex));
  def.attributes = {attr::own_optional("axes", AttributeKind::kInts)};
  def.resolve = resolve_with({1}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(auto axes, unsqueeze_axes(ctx));
    attributes->set("axes", std::move(axes));
    return true;
  });
  def.axes = view_axes;
  return def;
}

OpDef shape_op() {
  OpDef def = one_operand("Shape", 0, infer_shape, "i");
  def.attributes = {attr::i("start", 0), attr::optional("end", AttributeKind::kInt)};
  def.complete = complete_shape;
  def.axes = axes::mixed();
  return def;
}

OpDef size_op() {
  OpDef def = one_operand("Size", 0, infer_size, "i");
  def.axes = axes::mixed();
  return def;
}

OpDef expand_op() {
  OpDef def = one_operand("Expand", 0, infer_expand);
  def.inputs.push_back(optional_operand("shape", kIndex));
  def.attributes = {attr::about(AttributeAxes::kPerAxis, attr::own_optional("shape", AttributeKind::kShape))};
  def.resolve = resolve_with({1}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(const Shape wanted, shape_operand(ctx, 1, "shape"));
    const Shape shapes[2] = {ctx.input(0).shape, wanted};
    AIPU_ASSIGN_OR_RETURN(Shape shape, broadcast_shapes(shapes));
    // What is asked for stays, even where it must turn out to be the operand's extent: that is checked.
    const size_t added = shape.size() - wanted.size();
    for (size_t k = 0; k < wanted.size(); ++k) {
      if (wanted[k] != Dim(1)) shape[added + k] = wanted[k];
    }
    attributes->set("shape", std::move(shape));
    return true;
  });
  def.traits = kAnyAxisOrder | kTakesRounded;
  def.axes = expand_axes;
  return def;
}

OpDef tile_op() {
  OpDef def = one_operand("Tile", 0, infer_tile);
  def.inputs.push_back(optional_operand("repeats", kIndex));
  def.attributes = {attr::about(AttributeAxes::kPerAxis, attr::own_optional("repeats", AttributeKind::kShape))};
  def.resolve = resolve_with({1}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(Shape repeats, tile_repeats(ctx));
    attributes->set("repeats", std::move(repeats));
    return true;
  });
  def.traits = kAnyAxisOrder | kTakesRounded;
  def.axes = tile_axes;
  return def;
}

}  // namespace

std::vector<OpDef> reshape_ops() {
  return {reshape_op(), flatten_op(), squeeze_op(), unsqueeze_op(), shape_op(), size_op(), expand_op(), tile_op()};
}

}  // namespace aipu::graph
