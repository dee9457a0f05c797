// Ops that make tensors from a few numbers: ConstantOfShape, Range, EyeLike, OneHot, aipu::RandomNumbers,
// aipu::Extents.
#include <cmath>
#include <utility>

#include "graph/ops/op_list.h"
#include "graph/ops/shape_operands.h"

namespace aipu::graph {
namespace {

// Operand 0, or the attribute that it becomes, says what shape the output has.
Result<Shape> wanted_shape(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(Shape shape, shape_operand(ctx, 0, "shape"));
  for (const Dim& extent : shape) {
    if (extent.constant_or(0) < 0) return invalid_model(str_cat("shape has element ", extent.text()));
  }
  return shape;
}

Result<bool> resolve_wanted_shape(InferContext& ctx, Attributes* attributes) {
  AIPU_ASSIGN_OR_RETURN(Shape shape, shape_operand(ctx, 0, "shape"));
  attributes->set("shape", std::move(shape));
  return true;
}

Status complete_constant_of_shape(const Graph&, Node* node) {
  if (!node->attributes.has("value")) {
    const float zero = 0;
    node->attributes.set("value", Constant::of<float>(DType::kF32, {1}, std::span(&zero, 1)));
  }
  const ConstantPtr& value = node->attributes.constant("value");
  if (value->element_count() != 1)
    return invalid_model(str_cat("value must have one element, found ", value->type().text()));
  return {};
}

Status infer_constant_of_shape(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(Shape shape, wanted_shape(ctx));
  const ConstantPtr& value = ctx.attributes().constant("value");
  set_output(ctx, 0, value->dtype(), shape);
  const auto count = element_count(shape).constant();
  if (!count || *count > kDataLimit || value->dtype() == DType::kString) return {};
  const double element = value->to_doubles().front();
  if (element != std::trunc(element) || std::abs(element) > 0x1p24) return {};
  set_data(ctx, 0, Data(static_cast<size_t>(*count), Dim(static_cast<int64_t>(element))));
  return {};
}

// ---- Range

Result<Dim> range_scalar(InferContext& ctx, size_t input, const char* name) {
  if (ctx.attributes().has(name)) return ctx.attributes().shape(name).front();
  if (!ctx.has_input(input)) return invalid_model(str_cat("operand '", name, "' is missing"));
  auto data = ctx.require_data(input);
  if (!data || data->size() != 1)
    return invalid_model(str_cat("operand '", name, "' must be a scalar, found ", ctx.input(input).text()));
  return data->front();
}

Dim range_extent(const Dim& start, const Dim& limit, const Dim& delta) {
  const auto upward = [&] { return max(ceildiv(limit - start, delta), 0); };
  const auto downward = [&] { return max(ceildiv(start - limit, Dim(0) - delta), 0); };
  if (delta.lower_bound().value_or(-1) >= 0) return upward();
  if (delta.upper_bound().value_or(0) < 0) return downward();
  return select(lt(delta, 0), downward(), upward());
}

// Over floats the extent is counted by ordinary nodes (operand `count`), or computed here from constants.
Result<Dim> float_range_extent(InferContext& ctx) {
  if (ctx.attributes().has("extent")) return ctx.attributes().shape("extent").front();
  if (ctx.has_input(3)) {
    AIPU_ASSIGN_OR_RETURN(const Shape count, shape_operand(ctx, 3, "extent"));
    if (count.size() != 1)
      return invalid_model(str_cat("the count must have one element, found ", ctx.input(3).text()));
    return max(count.front(), 0);
  }
  double values[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    const Constant* constant = ctx.has_input(i) ? ctx.graph().constant(ctx.node().inputs[i]) : nullptr;
    if (constant == nullptr || constant->element_count() != 1) {
      return unsupported(
          "over floats, start, limit and delta must be known when compiling, or counted: they give the output's "
          "extent");
    }
    values[i] = constant->to_doubles().front();
  }
  const double extent = std::max(std::ceil((values[1] - values[0]) / values[2]), 0.0);
  if (!(extent < 0x1p40)) return invalid_model("start, limit and delta give no finite number of elements");
  return Dim(static_cast<int64_t>(extent));
}

Status infer_range(InferContext& ctx) {
  if (ctx.attributes().has("extent") && ctx.attributes().has("start")) {
    set_output(ctx, 0, ctx.attributes().dtype("dtype"), ctx.attributes().shape("extent"));
  } else {
    AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1, 2}));
    if (!ctx.has_input(0) || !ctx.has_input(2)) return invalid_model("start, limit and delta must all be there");
    if (is_floating(ctx.input(0).dtype)) {
      AIPU_ASSIGN_OR_RETURN(const Dim extent, float_range_extent(ctx));
      set_output(ctx, 0, ctx.input(0).dtype, {extent});
      return {};
    }
  }
  AIPU_ASSIGN_OR_RETURN(const Dim start, range_scalar(ctx, 0, "start"));
  AIPU_ASSIGN_OR_RETURN(const Dim delta, range_scalar(ctx, 2, "delta"));
  if (delta.constant() == 0) return invalid_model("delta is 0");
  if (!ctx.attributes().has("extent")) {
    AIPU_ASSIGN_OR_RETURN(const Dim limit, range_scalar(ctx, 1, "limit"));
    set_output(ctx, 0, ctx.input(0).dtype, {range_extent(start, limit, delta)});
  }
  const auto count = ctx.output_types[0].shape[0].constant();
  if (!count || *count > kDataLimit) return {};
  Data data;
  for (int64_t k = 0; k < *count; ++k) data.push_back(start + delta * Dim(k));
  set_data(ctx, 0, std::move(data));
  return {};
}

// ---- OneHot

Result<Dim> one_hot_depth(InferContext& ctx) {
  if (ctx.attributes().has("depth")) return ctx.attributes().shape("depth").front();
  if (!ctx.has_input(1)) return invalid_model("operand 'depth' is missing");
  auto data = data_of(ctx, 1);
  if (!data && is_integer(ctx.input(1).dtype)) data = ctx.require_data(1);
  if (!data)
    return unsupported(
        str_cat("depth must be known when compiling unless it is an integer, found ", ctx.input(1).text()));
  if (data->size() != 1) return invalid_model(str_cat("depth must be a scalar, found ", ctx.input(1).text()));
  return data->front();
}

Status infer_one_hot(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(const Dim depth, one_hot_depth(ctx));
  Shape shape = ctx.input(0).shape;
  shape.insert(shape.begin() + ctx.attributes().i("axis"), depth);
  set_output(ctx, 0, ctx.input(2).dtype, std::move(shape));
  return {};
}

AxisMap one_hot_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  const auto axis = static_cast<size_t>(node.attributes.i("axis"));
  for (size_t k = 0; k < map.input_rank(0); ++k)
    map.link(0, k + (k < axis ? 0 : 1), 0, k).apart(0, k + (k < axis ? 0 : 1));
  return map.take();
}

OpDef constant_of_shape_op() {
  OpDef def;
  def.name = "ConstantOfShape";
  def.inputs = {optional_operand("shape", kIndex)};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::optional("value", AttributeKind::kConstant),
                    attr::own_optional("shape", AttributeKind::kShape)};
  def.complete = complete_constant_of_shape;
  def.infer = infer_constant_of_shape;
  def.resolve = resolve_with({0}, resolve_wanted_shape);
  def.axes = axes::mixed();
  return def;
}

OpDef range_op() {
  OpDef def;
  def.name = "Range";
  def.inputs = {optional_operand("start", kNumeric), optional_operand("limit", kNumeric),
                optional_operand("delta", kNumeric), optional_operand("count", kIndex)};
  def.outputs = {operand("output", kNumeric)};
  def.attributes = {
      attr::own_optional("start", AttributeKind::kShape), attr::own_optional("delta", AttributeKind::kShape),
      attr::own_optional("extent", AttributeKind::kShape), attr::own_optional("dtype", AttributeKind::kDType)};
  def.traits = kFaults;
  def.infer = infer_range;
  def.resolve = [](Graph& graph, NodeId id) -> Status {
    const Node& node = std::as_const(graph).node(id);
    if (!node.inputs.empty() && node.inputs[0].valid() && is_floating(graph.type(node.inputs[0]).dtype)) {
      return resolve_with({1, 3}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
        AIPU_ASSIGN_OR_RETURN(const Dim extent, float_range_extent(ctx));
        attributes->set("extent", Shape{extent});
        return true;
      })(graph, id);
    }
    return resolve_with({0, 1, 2, 3}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
      AIPU_ASSIGN_OR_RETURN(const Dim start, range_scalar(ctx, 0, "start"));
      AIPU_ASSIGN_OR_RETURN(const Dim limit, range_scalar(ctx, 1, "limit"));
      AIPU_ASSIGN_OR_RETURN(const Dim delta, range_scalar(ctx, 2, "delta"));
      attributes->set("dtype", ctx.input(0).dtype);
      attributes->set("start", Shape{start});
      attributes->set("delta", Shape{delta});
      attributes->set("extent", Shape{range_extent(start, limit, delta)});
      return true;
    })(graph, id);
  };
  def.axes = axes::mixed();
  return def;
}

OpDef eye_like_op() {
  OpDef def;
  def.name = "EyeLike";
  def.inputs = {operand("input", "*")};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::optional("dtype", AttributeKind::kDType), attr::i("k", 0)};
  def.complete = [](const Graph& graph, Node* node) -> Status {
    if (!node->attributes.has("dtype")) node->attributes.set("dtype", graph.type(node->inputs[0]).dtype);
    return {};
  };
  def.infer = [](InferContext& ctx) -> Status {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 2));
    set_output(ctx, 0, ctx.attributes().dtype("dtype"), ctx.input(0).shape);
    return {};
  };
  def.axes = axes::mixed();
  return def;
}

OpDef one_hot_op() {
  OpDef def;
  def.name = "OneHot";
  def.inputs = {operand("indices", kNumeric), optional_operand("depth", kNumeric), operand("values", "*")};
  def.outputs = {operand("output", "*")};
  def.attributes = {attr::i("axis", -1), attr::own_optional("depth", AttributeKind::kShape)};
  def.complete = [](const Graph& graph, Node* node) {
    return complete_axis_attribute(node, "axis", graph.type(node->inputs[0]).rank() + 1);
  };
  def.infer = infer_one_hot;
  def.resolve = resolve_with({1}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(const Dim depth, one_hot_depth(ctx));
    attributes->set("depth", Shape{depth});
    return true;
  });
  def.axes = one_hot_axes;
  return def;
}

// aipu::RandomNumbers(shape): float64 numbers of the generator MT19937 (Matsumoto and Nishimura, 1998), whose state
// init_genrand(seed) sets when the node begins. `uniform`: genrand_res53, in [0, 1). `normal`: of mean 0 and variance
// 1, by the polar method of Marsaglia, two for each pair of uniform ones, the second first. These are the numbers of
// numpy.random.RandomState(seed).
Status infer_random_numbers(InferContext& ctx) {
  const int64_t seed = ctx.attributes().i("seed");
  if (seed < 0 || seed > int64_t{0xffffffff}) return invalid_model(str_cat("seed is ", seed, ", it has 32 bits"));
  AIPU_ASSIGN_OR_RETURN(Shape shape, wanted_shape(ctx));
  set_output(ctx, 0, DType::kF64, std::move(shape));
  return {};
}

OpDef random_numbers_op() {
  OpDef def;
  def.name = "aipu::RandomNumbers";
  def.inputs = {optional_operand("shape", kIndex)};
  def.outputs = {operand("numbers", "f")};
  def.attributes = {attr::s("distribution", "uniform"), attr::required("seed", AttributeKind::kInt),
                    attr::own_optional("shape", AttributeKind::kShape)};
  def.traits = kNotFoldable;
  def.infer = infer_random_numbers;
  def.verify = [](const Graph&, const Node& node) {
    return expect_choice(node, "distribution", {"uniform", "normal"});
  };
  def.resolve = resolve_with({0}, resolve_wanted_shape);
  def.axes = axes::mixed();
  return def;
}

// aipu::Extents: a list of numbers as a tensor. Its elements are symbols of their own, whatever they are made of, so
// that expressions of them stay short.
Status infer_extents(InferContext& ctx) {
  const Shape& extents = ctx.attributes().shape("extents");
  set_output(ctx, 0, DType::kI64, {static_cast<int64_t>(extents.size())});
  std::vector<std::optional<Dim>> known;
  for (const Dim& extent : extents)
    known.push_back(extent.is_constant() ? std::optional<Dim>(extent) : std::optional<Dim>());
  set_data(ctx, 0, ctx.own_data(0, known));
  return {};
}

OpDef extents_op() {
  OpDef def;
  def.name = "aipu::Extents";
  def.outputs = {operand("extents", "i")};
  def.attributes = {attr::required("extents", AttributeKind::kShape)};
  def.traits = kNotFoldable;
  def.infer = infer_extents;
  def.axes = axes::mixed();
  return def;
}

}  // namespace

std::vector<OpDef> generate_ops() {
  return {
      random_numbers_op(), constant_of_shape_op(), range_op(), eye_like_op(), one_hot_op(), extents_op(),
  };
}

}  // namespace aipu::graph
