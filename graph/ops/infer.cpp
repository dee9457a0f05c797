#include "graph/ops/infer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/ops/assumptions.h"
#include "runtime/base/checked_math.h"

namespace aipu::graph {

namespace attr {
AttributeDef i(std::string name, int64_t value) {
  return {std::move(name), AttributeKind::kInt, false, AttributeValue(value)};
}
AttributeDef f(std::string name, double value) {
  return {std::move(name), AttributeKind::kFloat, false, AttributeValue(value)};
}
AttributeDef s(std::string name, std::string value) {
  return {std::move(name), AttributeKind::kString, false, AttributeValue(std::move(value))};
}
AttributeDef ints(std::string name, std::vector<int64_t> value) {
  return {std::move(name), AttributeKind::kInts, false, AttributeValue(std::move(value))};
}
AttributeDef dtype(std::string name, DType value) {
  return {std::move(name), AttributeKind::kDType, false, AttributeValue(value)};
}
AttributeDef optional(std::string name, AttributeKind kind) { return {std::move(name), kind, false, std::nullopt}; }
AttributeDef required(std::string name, AttributeKind kind) { return {std::move(name), kind, true, std::nullopt}; }
AttributeDef layout() { return own(s("layout", "NCHW")); }
AttributeDef about(AttributeAxes axes, AttributeDef attribute) {
  attribute.axes = axes;
  return attribute;
}
AttributeDef own(AttributeDef attribute) {
  attribute.own = true;
  return attribute;
}
AttributeDef own_optional(std::string name, AttributeKind kind) { return own(optional(std::move(name), kind)); }
}  // namespace attr

OperandDef operand(std::string name, std::string types) { return {std::move(name), std::move(types), false, false}; }
OperandDef optional_operand(std::string name, std::string types) {
  return {std::move(name), std::move(types), true, false};
}
OperandDef variadic_operand(std::string name, std::string types) {
  return {std::move(name), std::move(types), false, true};
}

void set_output(InferContext& ctx, size_t i, DType dtype, Shape shape) {
  if (i < ctx.output_types.size()) ctx.output_types[i] = TensorType{dtype, std::move(shape)};
}

Status same_dtype(const InferContext& ctx, std::initializer_list<size_t> inputs) {
  const TensorType* first = nullptr;
  for (const size_t i : inputs) {
    if (!ctx.has_input(i)) continue;
    if (first == nullptr) {
      first = &ctx.input(i);
    } else if (first->dtype != ctx.input(i).dtype) {
      return invalid_model(str_cat("operands must have one element type, found ", dtype_name(first->dtype), " and ",
                                   dtype_name(ctx.input(i).dtype)));
    }
  }
  return {};
}

Status expect_rank(const InferContext& ctx, size_t i, int rank) {
  if (ctx.input(i).rank() == rank) return {};
  return invalid_model(str_cat("input ", i, " must have rank ", rank, ", found ", ctx.input(i).text()));
}

Status expect_rank_at_least(const InferContext& ctx, size_t i, int rank) {
  if (ctx.input(i).rank() >= rank) return {};
  return invalid_model(str_cat("input ", i, " must have rank ", rank, " or more, found ", ctx.input(i).text()));
}

bool provably_different(const Dim& a, const Dim& b) {
  if (a == b) return false;
  const auto a_low = a.lower_bound();
  const auto a_high = a.upper_bound();
  const auto b_low = b.lower_bound();
  const auto b_high = b.upper_bound();
  return (a_low && b_high && *a_low > *b_high) || (b_low && a_high && *b_low > *a_high);
}

namespace {
// Where expect_equal() of this thread leaves what it cannot decide; null: nobody asks.
thread_local std::vector<Assumption>* assumptions = nullptr;
}  // namespace

namespace {

// Symbols that have got a value since the node was added are replaced in its types as they stand: max(S, T) is
// max(1, T) then, where [1] beside [T] is T. They differ for no elements. What the node itself tells is checked when
// its results are fetched.
void assume_same_extents(const Graph& graph, const Node& node, const InferContext& context,
                         std::vector<Assumption>* found) {
  const auto is_known = [&](const Dim& extent) {
    bool known = true;
    (void)extent.substitute([&](const std::string& name) -> std::optional<Dim> {
      const Symbol* symbol = graph.find_symbol(name);
      known = known && symbol != nullptr &&
              std::find(node.outputs.begin(), node.outputs.end(), symbol->value) == node.outputs.end();
      return std::nullopt;
    });
    return known;
  };
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const Shape &taken = graph.type(node.outputs[i]).shape, &inferred = context.output_types[i].shape;
    for (size_t k = 0; k < taken.size() && taken.size() == inferred.size(); ++k) {
      if (taken[k] == inferred[k] || !is_known(inferred[k]) || !is_known(taken[k])) continue;
      found->push_back(
          {eq(taken[k], inferred[k]), "an axis of {value} elements was taken to have {limit}", inferred[k], taken[k]});
    }
  }
}

}  // namespace

std::vector<Assumption> assumptions_of(const Graph& graph, const Node& node) {
  std::vector<Assumption> found;
  const OpDef* def = graph.find_op(node.op);
  const auto is_open = [&](ValueId value) {
    if (!value.valid()) return false;
    const Shape& shape = graph.type(value).shape;
    return std::any_of(shape.begin(), shape.end(), [](const Dim& extent) { return !extent.is_constant(); });
  };
  // Shape-like operands that have become attributes, as that of Expand.
  const auto& attributes = node.attributes.all();
  const bool open = std::any_of(node.inputs.begin(), node.inputs.end(), is_open) ||
                    std::any_of(attributes.begin(), attributes.end(), [](const auto& attribute) {
                      const auto* shape = std::get_if<Shape>(&attribute.second);
                      return shape != nullptr && !is_static(*shape);
                    });
  if (def == nullptr || !def->infer || !open) return found;
  // As in verify_graph(): what a type rule could add to the graph has been there since the node was added.
  InferContext context(const_cast<Graph&>(graph), node);
  std::vector<Assumption>* const outer = std::exchange(assumptions, &found);
  const Status status = def->infer(context);
  assumptions = outer;
  if (!status.ok()) return {};
  assume_same_extents(graph, node, context, &found);
  return found;
}

void assume_equal(const Dim& found, const Dim& expected, std::string message) {
  if (assumptions != nullptr && found != expected)
    assumptions->push_back({eq(found, expected), std::move(message), found, expected});
}

void assume_different(const Dim& found, const Dim& unwanted, std::string message) {
  if (assumptions != nullptr && !provably_different(found, unwanted))
    assumptions->push_back({select(eq(found, unwanted), 0, 1), std::move(message), found, unwanted});
}

Status expect_equal(const Dim& found, const Dim& expected, std::string_view what) {
  if (!provably_different(found, expected)) {
    assume_equal(found, expected, str_cat(what, " must be {limit}, found {value}"));
    return {};
  }
  return invalid_model(str_cat(what, " must be ", expected.text(), ", found ", found.text()));
}

void assume_broadcast(const Shape& shape, const Shape& to) {
  if (assumptions == nullptr || shape.size() > to.size()) return;
  for (size_t k = 0; k < shape.size(); ++k) {
    const Dim& extent = shape[k];
    const Dim& wide = to[to.size() - shape.size() + k];
    if (extent == Dim(1) || extent == wide) continue;
    assumptions->push_back({select(eq(extent, 1), 1, eq(extent, wide)),
                            "an axis of {value} elements cannot be broadcast to {limit}", extent, wide});
  }
}

Result<Shape> broadcast_operands(std::span<const Shape> shapes) {
  AIPU_ASSIGN_OR_RETURN(Shape result, broadcast_shapes(shapes));
  for (const Shape& shape : shapes) assume_broadcast(shape, result);
  return result;
}

Result<Shape> broadcast_inputs(InferContext& ctx, std::initializer_list<size_t> inputs) {
  std::vector<Shape> shapes;
  for (const size_t i : inputs) {
    if (ctx.has_input(i)) shapes.push_back(ctx.input(i).shape);
  }
  return broadcast_operands(shapes);
}

Status expect_choice(const Node& node, std::string_view attribute, std::initializer_list<std::string_view> choices) {
  const std::string& value = node.attributes.s(attribute);
  std::string list;
  for (const std::string_view choice : choices) {
    if (value == choice) return {};
    list += str_cat(list.empty() ? "" : ", ", choice);
  }
  return invalid_model(str_cat(attribute, " is '", value, "', expected one of: ", list));
}

Result<int64_t> normal_axis(int64_t axis, int rank, bool inclusive) {
  const int64_t end = rank + (inclusive ? 1 : 0);
  if (axis < -static_cast<int64_t>(rank) || axis >= end) {
    return invalid_model(str_cat("axis ", axis, " is out of range for rank ", rank));
  }
  return axis < 0 ? axis + rank : axis;
}

Result<std::vector<int64_t>> normal_axes(const std::vector<int64_t>& axes, int rank) {
  std::vector<int64_t> result;
  for (const int64_t axis : axes) {
    AIPU_ASSIGN_OR_RETURN(const int64_t normal, normal_axis(axis, rank));
    result.push_back(normal);
  }
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end()) return invalid_model("an axis is listed twice");
  return result;
}

Status complete_axis_attribute(Node* node, std::string_view attribute, int rank, bool inclusive) {
  if (!node->attributes.has(attribute)) return {};
  auto axis = normal_axis(node->attributes.i(attribute), rank, inclusive);
  if (!axis.ok()) return std::move(axis).status().context(attribute);
  node->attributes.set(attribute, *axis);
  return {};
}

std::function<Status(const Graph&, Node*)> complete_axis(std::string attribute, size_t input, bool inclusive) {
  return [attribute = std::move(attribute), input, inclusive](const Graph& graph, Node* node) -> Status {
    return complete_axis_attribute(node, attribute, graph.type(node->inputs[input]).rank(), inclusive);
  };
}

Result<Shape> shape_operand(InferContext& ctx, size_t input, std::string_view attribute) {
  if (const AttributeValue* value = ctx.attributes().find(attribute)) {
    if (const auto* shape = std::get_if<Shape>(value)) return *shape;
    if (const auto* ints = std::get_if<std::vector<int64_t>>(value)) return Shape(ints->begin(), ints->end());
    if (const auto* number = std::get_if<int64_t>(value)) return Shape{Dim(*number)};
  }
  if (!ctx.has_input(input)) return invalid_model(str_cat("operand '", attribute, "' is missing"));
  auto data = ctx.require_data(input);
  if (!data) {
    return unsupported(
        str_cat("operand '", attribute, "' is ", ctx.input(input).text(),
                ": its elements become extents, so it must have a small, static number of integer elements"));
  }
  return *std::move(data);
}

Result<std::vector<int64_t>> to_int64s(const Shape& elements, std::string_view what) {
  std::vector<int64_t> result;
  for (const Dim& element : elements) {
    const auto value = element.constant();
    if (!value)
      return unsupported(str_cat("operand '", what, "' must be known when compiling, found element ", element.text()));
    result.push_back(*value);
  }
  return result;
}

Result<std::optional<std::vector<int64_t>>> constant_ints(InferContext& ctx, size_t input, std::string_view attribute) {
  if (!ctx.attributes().has(attribute) && !ctx.has_input(input)) return std::optional<std::vector<int64_t>>();
  // Not require_data: a run symbol could not help here, and would keep the tensor alive.
  if (!ctx.attributes().has(attribute)) {
    const auto data = ctx.known_data(input);
    if (!data) {
      return unsupported(
          str_cat("operand '", attribute, "' must be known when compiling; give the model with a constant there"));
    }
    AIPU_ASSIGN_OR_RETURN(auto ints, to_int64s(*data, attribute));
    return std::optional(std::move(ints));
  }
  AIPU_ASSIGN_OR_RETURN(const Shape elements, shape_operand(ctx, input, attribute));
  AIPU_ASSIGN_OR_RETURN(auto ints, to_int64s(elements, attribute));
  return std::optional(std::move(ints));
}

std::optional<Data> data_of(const Graph& graph, ValueId value) {
  if (!value.valid()) return std::nullopt;
  const TensorType& type = graph.type(value);
  const auto count = element_count(type.shape).constant();
  if (!count || *count > kDataLimit) return std::nullopt;
  const Constant* constant = graph.constant(value);
  if (constant == nullptr || !is_floating(type.dtype)) return graph.known_data(value);
  Data data;
  for (const double element : constant->to_doubles()) {
    if (element != std::trunc(element) || std::abs(element) > 0x1p24) return std::nullopt;
    data.emplace_back(static_cast<int64_t>(element));
  }
  return data;
}

std::optional<Data> data_of(const InferContext& ctx, size_t input) {
  if (!ctx.has_input(input)) return std::nullopt;
  return data_of(const_cast<InferContext&>(ctx).graph(), ctx.node().inputs[input]);
}

void set_data(InferContext& ctx, size_t i, std::optional<Data> data) {
  // Elements of stored types will be codes.
  if (!data || i >= ctx.output_types.size() || !is_computed(ctx.output_types[i].dtype)) return;
  const auto count = element_count(ctx.output_types[i].shape).constant();
  if (!count || *count != static_cast<int64_t>(data->size()) || *count > kDataLimit) return;
  ctx.output_data[i] = std::move(data);
}

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent == 0) return 0;
    count = checked_mul(count, extent).value_or(INT64_MAX);
  }
  return count;
}

std::vector<int64_t> strides_of(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t k = shape.size(); k-- > 1;) strides[k - 1] = strides[k] * shape[k];
  return strides;
}

void for_each_index(const std::vector<int64_t>& shape,
                    const std::function<void(int64_t, const std::vector<int64_t>&)>& visit) {
  const int64_t count = count_of(shape);
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t flat = 0; flat < count; ++flat) {
    visit(flat, index);
    for (size_t k = shape.size(); k-- > 0;) {
      if (++index[k] < shape[k]) break;
      index[k] = 0;
    }
  }
}

Data broadcast_data(const Data& data, const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  Data result;
  const auto strides = strides_of(from);
  const size_t lead = to.size() - from.size();
  for_each_index(to, [&](int64_t, const std::vector<int64_t>& index) {
    int64_t offset = 0;
    for (size_t k = 0; k < from.size(); ++k) {
      if (from[k] != 1) offset += index[lead + k] * strides[k];
    }
    result.push_back(data[static_cast<size_t>(offset)]);
  });
  return result;
}

Status infer_same_as_input(InferContext& ctx) {
  set_output(ctx, 0, ctx.input(0).dtype, ctx.input(0).shape);
  return {};
}

}  // namespace aipu::graph
