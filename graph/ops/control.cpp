// If, Loop, Scan. Operands of the node: the op's own, then the values captured by the first sub-graph, then those
// captured by the second (the records list the op's own only).
#include <algorithm>

#include "graph/ops/op_list.h"

namespace aipu::graph {
namespace {

// A sub-graph's run symbols are bound inside it and mean nothing outside.
bool visible_outside(const Graph& body, const Dim& d) {
  std::vector<std::string> names;
  d.collect_symbols(&names);
  return std::none_of(names.begin(), names.end(), [&](const std::string& name) {
    const Symbol* symbol = body.find_symbol(name);
    return symbol != nullptr && symbol->kind == Symbol::Kind::kTensorElement;
  });
}

Status expect_visible(const Graph& body, const TensorType& type, size_t output) {
  for (const Dim& extent : type.shape) {
    if (!visible_outside(body, extent)) {
      return unsupported(str_cat("output ", output, " of the sub-graph has the extent ", extent.text(),
                                 ", which only data inside the sub-graph decides"));
    }
  }
  return {};
}

// Formal inputs of a sub-graph, without the captured ones.
size_t formal_count(const Graph& body) { return body.inputs().size() - static_cast<size_t>(body.captured_count); }

Status check_captures(const Node& node, size_t own_operands) {
  size_t captured = 0;
  for (const auto& body : node.subgraphs) captured += static_cast<size_t>(body->captured_count);
  if (node.inputs.size() == own_operands + captured) return {};
  return internal_error(str_cat("the node has ", node.inputs.size(), " operands, expected ", own_operands, " and ",
                                captured, " captured values"));
}

std::optional<Data> visible_data(const Graph& body, ValueId value) {
  auto data = data_of(body, value);
  if (data && !std::all_of(data->begin(), data->end(), [&](const Dim& d) { return visible_outside(body, d); }))
    return std::nullopt;
  return data;
}

// ---- If

Status infer_if_branch(InferContext& ctx, const Graph& branch) {
  for (size_t i = 0; i < branch.outputs().size(); ++i) {
    const ValueId value = branch.outputs()[i].value;
    AIPU_RETURN_IF_ERROR(expect_visible(branch, branch.type(value), i));
    set_output(ctx, i, branch.type(value).dtype, branch.type(value).shape);
    set_data(ctx, i, visible_data(branch, value));
  }
  return {};
}

Status infer_if(InferContext& ctx) {
  const Node& node = ctx.node();
  if (node.subgraphs.size() != 2)
    return invalid_model(str_cat("expected a then and an else branch, found ", node.subgraphs.size()));
  AIPU_RETURN_IF_ERROR(check_captures(node, 1));
  if (element_count(ctx.input(0).shape).constant_or(1) != 1)
    return invalid_model(str_cat("the condition must have one element, found ", ctx.input(0).text()));
  const Graph& then_branch = *node.subgraphs[0];
  const Graph& else_branch = *node.subgraphs[1];
  if (then_branch.outputs().size() != else_branch.outputs().size() ||
      then_branch.outputs().size() < node.outputs.size()) {
    return invalid_model(str_cat("the branches have ", then_branch.outputs().size(), " and ",
                                 else_branch.outputs().size(), " outputs, the node ", node.outputs.size()));
  }
  const auto condition = data_of(ctx, 0);
  if (condition && condition->front().is_constant())
    return infer_if_branch(ctx, condition->front().constant() != 0 ? then_branch : else_branch);

  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId a_value = then_branch.outputs()[i].value;
    const ValueId b_value = else_branch.outputs()[i].value;
    const TensorType& a = then_branch.type(a_value);
    const TensorType& b = else_branch.type(b_value);
    if (a.dtype != b.dtype)
      return invalid_model(str_cat("output ", i, " is ", a.text(), " in one branch and ", b.text(), " in the other"));
    if (a.rank() != b.rank()) {
      return unsupported(str_cat("output ", i, " is ", a.text(), " in one branch and ", b.text(),
                                 " in the other; the rank must not depend on data"));
    }
    AIPU_RETURN_IF_ERROR(expect_visible(then_branch, a, i));
    AIPU_RETURN_IF_ERROR(expect_visible(else_branch, b, i));
    Shape shape;
    for (size_t k = 0; k < a.shape.size(); ++k) {
      if (a.shape[k] == b.shape[k]) {
        shape.push_back(a.shape[k]);
        continue;
      }
      const auto chosen = ctx.require_data(0);
      if (!chosen) return internal_error("the condition cannot be read as a run symbol");
      shape.push_back(select(chosen->front(), a.shape[k], b.shape[k]));
    }
    set_output(ctx, i, a.dtype, std::move(shape));
    const auto a_data = visible_data(then_branch, a_value);
    const auto b_data = visible_data(else_branch, b_value);
    if (!a_data || !b_data || a_data->size() != b_data->size()) continue;
    Data data;
    for (size_t k = 0; k < a_data->size() && (condition || (*a_data)[k] == (*b_data)[k]); ++k) {
      data.push_back(condition ? select(condition->front(), (*a_data)[k], (*b_data)[k]) : (*a_data)[k]);
    }
    set_data(ctx, i, std::move(data));
  }
  return {};
}

// ---- Loop: M, cond, states..., captured; body: iteration, cond, states... -> cond, states..., scans...

Status expect_state_type(const Graph& body, size_t state, const TensorType& initial, const TensorType& inside,
                         const TensorType& result) {
  if (initial.dtype != inside.dtype || inside.dtype != result.dtype) {
    return invalid_model(str_cat("state ", state, " is ", initial.text(), " initially, ", inside.text(),
                                 " in the body, and becomes ", result.text()));
  }
  if (inside.shape != result.shape || inside.rank() != initial.rank()) {
    return unsupported(
        str_cat("state ", state, " changes its shape from ", inside.text(), " to ", result.text(), " while looping"));
  }
  for (size_t k = 0; k < inside.shape.size(); ++k) {
    AIPU_RETURN_IF_ERROR(
        expect_equal(initial.shape[k], inside.shape[k], str_cat("extent ", k, " of the initial state ", state)));
  }
  return expect_visible(body, result, state);
}

Status infer_loop(InferContext& ctx) {
  const Node& node = ctx.node();
  if (node.subgraphs.size() != 1) return invalid_model(str_cat("expected one body, found ", node.subgraphs.size()));
  const Graph& body = *node.subgraphs[0];
  const size_t formal = formal_count(body);
  if (formal < 2 || body.outputs().size() < formal - 1) return invalid_model("the body has too few inputs or outputs");
  const size_t states = formal - 2;
  AIPU_RETURN_IF_ERROR(check_captures(node, 2 + states));
  if (body.outputs().size() - 1 < node.outputs.size())
    return invalid_model("the node has more outputs than its body gives");
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType& result = body.type(body.outputs()[i + 1].value);
    if (i < states) {
      AIPU_RETURN_IF_ERROR(expect_state_type(body, i, ctx.input(2 + i), body.type(body.inputs()[2 + i]), result));
      set_output(ctx, i, result.dtype, result.shape);
      continue;
    }
    // Stacked outputs: one slice per trip, so the trip count must be known before the loop runs.
    AIPU_RETURN_IF_ERROR(expect_visible(body, result, i));
    const auto body_condition = data_of(body, body.outputs()[0].value);
    const auto first_condition = ctx.has_input(1) ? data_of(ctx, 1) : std::optional<Data>(Data{Dim(1)});
    const auto always = [](const std::optional<Data>& data) {
      return data && data->size() == 1 && data->front().constant() == 1;
    };
    const bool passes_on = body.outputs()[0].value == body.inputs()[1];
    if (!ctx.has_input(0) || !always(first_condition) || !(passes_on || always(body_condition))) {
      return unsupported(
          str_cat("output ", i, " stacks one slice per iteration, and only the data decides how many there are"));
    }
    AIPU_ASSIGN_OR_RETURN(const Shape trips, shape_operand(ctx, 0, "M"));
    Shape shape = result.shape;
    shape.insert(shape.begin(), max(trips.front(), 0));
    set_output(ctx, i, result.dtype, std::move(shape));
  }
  return {};
}

// ---- Scan: states..., sequences..., captured; body: states..., elements... -> states..., elements...

Status complete_scan(const Graph& graph, Node* node) {
  if (node->subgraphs.size() != 1) return invalid_model(str_cat("expected one body, found ", node->subgraphs.size()));
  const Graph& body = *node->subgraphs[0];
  const int64_t sequences = node->attributes.i("num_scan_inputs");
  const auto formal = static_cast<int64_t>(formal_count(body));
  if (sequences < 1 || sequences > formal)
    return invalid_model(str_cat("num_scan_inputs is ", sequences, ", the body has ", formal, " inputs"));
  const int64_t states = formal - sequences;
  const int64_t stacked = static_cast<int64_t>(body.outputs().size()) - states;
  if (stacked < 0) return invalid_model("the body has fewer outputs than states");
  AIPU_RETURN_IF_ERROR(check_captures(*node, static_cast<size_t>(formal)));
  Attributes& a = node->attributes;
  const auto fill = [&](const char* name, int64_t count) -> Status {
    if (!a.has(name)) a.set(name, std::vector<int64_t>(static_cast<size_t>(count), 0));
    if (static_cast<int64_t>(a.ints(name).size()) == count) return {};
    return invalid_model(str_cat(name, " has ", a.ints(name).size(), " elements, expected ", count));
  };
  AIPU_RETURN_IF_ERROR(fill("scan_input_axes", sequences));
  AIPU_RETURN_IF_ERROR(fill("scan_input_directions", sequences));
  AIPU_RETURN_IF_ERROR(fill("scan_output_axes", stacked));
  AIPU_RETURN_IF_ERROR(fill("scan_output_directions", stacked));
  std::vector<int64_t> axes = a.ints("scan_input_axes");
  for (size_t k = 0; k < axes.size(); ++k) {
    AIPU_ASSIGN_OR_RETURN(axes[k],
                          normal_axis(axes[k], graph.type(node->inputs[static_cast<size_t>(states) + k]).rank()));
  }
  a.set("scan_input_axes", std::move(axes));
  axes = a.ints("scan_output_axes");
  for (size_t k = 0; k < axes.size(); ++k) {
    AIPU_ASSIGN_OR_RETURN(
        axes[k], normal_axis(axes[k], body.type(body.outputs()[static_cast<size_t>(states) + k].value).rank() + 1));
  }
  a.set("scan_output_axes", std::move(axes));
  return {};
}

Status infer_scan(InferContext& ctx) {
  const Node& node = ctx.node();
  const Graph& body = *node.subgraphs[0];
  const auto sequences = static_cast<size_t>(ctx.attributes().i("num_scan_inputs"));
  const size_t states = formal_count(body) - sequences;
  const auto& input_axes = ctx.attributes().ints("scan_input_axes");
  const auto& output_axes = ctx.attributes().ints("scan_output_axes");
  Dim length;
  for (size_t k = 0; k < sequences; ++k) {
    Shape shape = ctx.input(states + k).shape;
    const auto position = shape.begin() + input_axes[k];
    if (k == 0) length = *position;
    AIPU_RETURN_IF_ERROR(expect_equal(*position, length, str_cat("the length of sequence ", k)));
    shape.erase(position);
    const TensorType& element = body.type(body.inputs()[states + k]);
    if (element.dtype != ctx.input(states + k).dtype || element.rank() != static_cast<int>(shape.size())) {
      return invalid_model(
          str_cat("the body takes ", element.text(), " from sequence ", k, ", ", ctx.input(states + k).text()));
    }
    for (size_t d = 0; d < shape.size(); ++d)
      AIPU_RETURN_IF_ERROR(
          expect_equal(shape[d], element.shape[d], str_cat("extent ", d, " of an element of sequence ", k)));
  }
  if (body.outputs().size() < node.outputs.size())
    return invalid_model("the node has more outputs than its body gives");
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType& result = body.type(body.outputs()[i].value);
    if (i < states) {
      AIPU_RETURN_IF_ERROR(expect_state_type(body, i, ctx.input(i), body.type(body.inputs()[i]), result));
      set_output(ctx, i, result.dtype, result.shape);
      continue;
    }
    AIPU_RETURN_IF_ERROR(expect_visible(body, result, i));
    Shape shape = result.shape;
    shape.insert(shape.begin() + output_axes[i - states], length);
    set_output(ctx, i, result.dtype, std::move(shape));
  }
  return {};
}

}  // namespace

OpDef if_op() {
  OpDef def;
  def.name = "If";
  def.inputs = {operand("cond", "b")};
  def.outputs = {variadic_operand("outputs", "*")};
  def.infer = infer_if;
  def.axes = axes::mixed();
  return def;
}

OpDef loop_op() {
  OpDef def;
  def.name = "Loop";
  def.inputs = {optional_operand("M", kIndex), optional_operand("cond", "b"), variadic_operand("states", "*")};
  def.inputs.back().optional = true;
  def.outputs = {variadic_operand("outputs", "*")};
  def.infer = infer_loop;
  def.axes = axes::mixed();
  return def;
}

OpDef scan_op() {
  OpDef def;
  def.name = "Scan";
  def.inputs = {variadic_operand("states_and_sequences", "*")};
  def.outputs = {variadic_operand("outputs", "*")};
  def.attributes = {attr::required("num_scan_inputs", AttributeKind::kInt),
                    attr::optional("scan_input_axes", AttributeKind::kInts),
                    attr::optional("scan_input_directions", AttributeKind::kInts),
                    attr::optional("scan_output_axes", AttributeKind::kInts),
                    attr::optional("scan_output_directions", AttributeKind::kInts)};
  def.complete = complete_scan;
  def.infer = infer_scan;
  def.axes = axes::mixed();
  return def;
}

}  // namespace aipu::graph
