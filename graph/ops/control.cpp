// If, Loop, Scan. Operands of the node: the op's own, then the values captured by the first sub-graph, then those
// captured by the second (the records list the op's own only). Outputs: ONNX's, and one more where there is one for
// every result: the extents of all of them.
#include <algorithm>

#include "graph/ops/op_list.h"

namespace aipu::graph {
namespace {

// An extent of a sub-graph's value as the graph around it knows it. Run symbols of the sub-graph are bound inside it
// and mean nothing outside, no more do the symbols `carried`.
std::optional<Dim> seen_outside(const Graph& body, const Dim& d, const std::vector<std::string>& carried = {}) {
  std::vector<std::string> names;
  d.collect_symbols(&names);
  const bool hidden = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const Symbol* symbol = body.find_symbol(name);
    return (symbol != nullptr && symbol->kind == Symbol::Kind::kTensorElement) ||
           std::find(carried.begin(), carried.end(), name) != carried.end();
  });
  return hidden ? std::nullopt : std::optional<Dim>(d);
}

using Extents = std::vector<std::optional<Dim>>;  // none: only a run of the node tells

Extents extents_outside(const Graph& body, const Shape& shape, const std::vector<std::string>& carried = {}) {
  Extents extents;
  for (const Dim& d : shape) extents.push_back(seen_outside(body, d, carried));
  return extents;
}

// The types of a node's results. Behind them it may have one more output: all extents of all results, one after the
// other, for those that only a run tells.
class ResultTypes {
 public:
  ResultTypes(InferContext& ctx, size_t results) : ctx_(ctx), results_(results) {}

  void add(DType dtype, Extents extents) {
    types_.push_back(dtype);
    ranks_.push_back(extents.size());
    extents_.insert(extents_.end(), extents.begin(), extents.end());
  }

  Status finish() {
    const bool told = ctx_.node().outputs.size() == results_ + 1 && ctx_.node().outputs.back().valid();
    const bool complete = std::all_of(extents_.begin(), extents_.end(), [](const auto& extent) { return extent; });
    if (!told && !complete)
      return unsupported(
          "the shape of a result depends on data inside of the sub-graph, which this node does not tell");
    Data all;
    if (told) {
      all = ctx_.own_data(results_, extents_);
    } else {
      for (const auto& extent : extents_) all.push_back(*extent);
    }
    auto at = all.begin();
    for (size_t i = 0; i < types_.size(); ++i) {
      const auto end = at + static_cast<std::ptrdiff_t>(ranks_[i]);
      set_output(ctx_, i, types_[i], Shape(at, end));
      at = end;
    }
    if (told) {
      set_output(ctx_, results_, DType::kI64, {Dim(static_cast<int64_t>(all.size()))});
      set_data(ctx_, results_, std::move(all));
    }
    return {};
  }

 private:
  InferContext& ctx_;
  const size_t results_;
  std::vector<DType> types_;
  std::vector<size_t> ranks_;
  Extents extents_;
};

// Results that the node has outputs for, the one for their extents left out.
size_t wanted_results(const Node& node, size_t results) { return std::min(node.outputs.size(), results); }

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
  if (data && !std::all_of(data->begin(), data->end(), [&](const Dim& d) { return seen_outside(body, d); }))
    return std::nullopt;
  return data;
}

// ---- If

void infer_if_branch(InferContext& ctx, const Graph& branch, ResultTypes* types) {
  for (size_t i = 0; i < branch.outputs().size(); ++i) {
    const ValueId value = branch.outputs()[i].value;
    types->add(branch.type(value).dtype, extents_outside(branch, branch.type(value).shape));
    if (i < wanted_results(ctx.node(), branch.outputs().size())) set_data(ctx, i, visible_data(branch, value));
  }
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
  const size_t results = then_branch.outputs().size();
  if (results != else_branch.outputs().size() || results + 1 < node.outputs.size()) {
    return invalid_model(str_cat("the branches have ", then_branch.outputs().size(), " and ",
                                 else_branch.outputs().size(), " outputs, the node ", node.outputs.size()));
  }
  ResultTypes types(ctx, results);
  const auto condition = data_of(ctx, 0);
  if (condition && condition->front().is_constant()) {
    infer_if_branch(ctx, condition->front().constant() != 0 ? then_branch : else_branch, &types);
    return types.finish();
  }

  for (size_t i = 0; i < results; ++i) {
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
    Extents extents;
    for (size_t k = 0; k < a.shape.size(); ++k) {
      const auto taken = seen_outside(then_branch, a.shape[k]);
      const auto otherwise = seen_outside(else_branch, b.shape[k]);
      if (!taken || !otherwise) {
        extents.push_back(std::nullopt);
      } else if (*taken == *otherwise) {
        extents.push_back(taken);
      } else {
        // Of a condition whose extents are symbols the run tells; it has one element then.
        const auto chosen = ctx.require_data(0);
        extents.push_back(chosen ? std::optional<Dim>(select(chosen->front(), *taken, *otherwise)) : std::nullopt);
      }
    }
    types.add(a.dtype, std::move(extents));
    if (i >= wanted_results(node, results)) continue;
    const auto a_data = visible_data(then_branch, a_value);
    const auto b_data = visible_data(else_branch, b_value);
    if (!a_data || !b_data || a_data->size() != b_data->size()) continue;
    Data data;
    for (size_t k = 0; k < a_data->size() && (condition || (*a_data)[k] == (*b_data)[k]); ++k) {
      data.push_back(condition ? select(condition->front(), (*a_data)[k], (*b_data)[k]) : (*a_data)[k]);
    }
    set_data(ctx, i, std::move(data));
  }
  return types.finish();
}

// ---- Loop: M, cond, states..., captured; body: iteration, cond, states... -> cond, states..., scans...

// Symbols of the body that stand for the extents that a state has in one iteration: those that the type of its initial
// value does not mention.
std::vector<std::string> carried_symbols(const InferContext& ctx, const Graph& body, size_t first_operand,
                                         size_t first_input, size_t states) {
  std::vector<std::string> carried;
  for (size_t i = 0; i < states; ++i) {
    const Shape& initial = ctx.input(first_operand + i).shape;
    const Shape& inside = body.type(body.inputs()[first_input + i]).shape;
    for (size_t k = 0; k < std::min(initial.size(), inside.size()); ++k) {
      if (inside[k].op() == DimOp::kSymbol && !(inside[k] == initial[k])) carried.push_back(inside[k].symbol_name());
    }
  }
  return carried;
}

Result<Extents> state_extents(const Graph& body, size_t state, const TensorType& initial, const TensorType& inside,
                              const TensorType& result, const std::vector<std::string>& carried) {
  if (initial.dtype != inside.dtype || inside.dtype != result.dtype) {
    return invalid_model(str_cat("state ", state, " is ", initial.text(), " initially, ", inside.text(),
                                 " in the body, and becomes ", result.text()));
  }
  if (inside.rank() != initial.rank() || inside.rank() != result.rank()) {
    return unsupported(
        str_cat("state ", state, " changes its rank, from ", initial.text(), " to ", result.text(), " while looping"));
  }
  Extents extents;
  for (size_t k = 0; k < inside.shape.size(); ++k) {
    const bool varies = !seen_outside(body, inside.shape[k], carried);
    if (!varies) {
      AIPU_RETURN_IF_ERROR(
          expect_equal(initial.shape[k], inside.shape[k], str_cat("extent ", k, " of the initial state ", state)));
      if (!(inside.shape[k] == result.shape[k])) {
        return unsupported(str_cat("state ", state, " changes its shape from ", inside.text(), " to ", result.text(),
                                   " while looping"));
      }
    }
    extents.push_back(varies ? std::nullopt : std::optional<Dim>(result.shape[k]));
  }
  return extents;
}

Status infer_loop(InferContext& ctx) {
  const Node& node = ctx.node();
  if (node.subgraphs.size() != 1) return invalid_model(str_cat("expected one body, found ", node.subgraphs.size()));
  const Graph& body = *node.subgraphs[0];
  const size_t formal = formal_count(body);
  if (formal < 2 || body.outputs().size() < formal - 1) return invalid_model("the body has too few inputs or outputs");
  const size_t states = formal - 2, results = body.outputs().size() - 1;
  AIPU_RETURN_IF_ERROR(check_captures(node, 2 + states));
  if (results + 1 < node.outputs.size()) return invalid_model("the node has more outputs than its body gives");
  const auto carried = carried_symbols(ctx, body, 2, 2, states);
  ResultTypes types(ctx, results);
  for (size_t i = 0; i < states; ++i) {
    const TensorType& result = body.type(body.outputs()[i + 1].value);
    AIPU_ASSIGN_OR_RETURN(Extents extents,
                          state_extents(body, i, ctx.input(2 + i), body.type(body.inputs()[2 + i]), result, carried));
    types.add(result.dtype, std::move(extents));
  }
  // Stacked outputs have a slice per iteration; how many there are is known before the loop where nothing ends it
  // early.
  const auto always = [](const std::optional<Data>& data) {
    return data && data->size() == 1 && data->front().constant() == 1;
  };
  const bool passes_on = body.outputs()[0].value == body.inputs()[1];
  const bool never_ends_early =
      (!ctx.has_input(1) || always(data_of(ctx, 1))) && (passes_on || always(data_of(body, body.outputs()[0].value)));
  std::optional<Dim> trips;
  if (never_ends_early && ctx.has_input(0) && results > states) {
    AIPU_ASSIGN_OR_RETURN(const Shape most, shape_operand(ctx, 0, "M"));
    trips = max(most.front(), 0);
  }
  for (size_t i = states; i < results; ++i) {
    const TensorType& result = body.type(body.outputs()[i + 1].value);
    Extents extents = extents_outside(body, result.shape, carried);
    extents.insert(extents.begin(), trips);
    types.add(result.dtype, std::move(extents));
  }
  return types.finish();
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
  const size_t results = body.outputs().size();
  if (results + 1 < node.outputs.size()) return invalid_model("the node has more outputs than its body gives");
  const auto carried = carried_symbols(ctx, body, 0, 0, states);
  ResultTypes types(ctx, results);
  for (size_t i = 0; i < results; ++i) {
    const TensorType& result = body.type(body.outputs()[i].value);
    if (i < states) {
      AIPU_ASSIGN_OR_RETURN(Extents extents,
                            state_extents(body, i, ctx.input(i), body.type(body.inputs()[i]), result, carried));
      types.add(result.dtype, std::move(extents));
      continue;
    }
    Extents extents = extents_outside(body, result.shape, carried);
    extents.insert(extents.begin() + output_axes[i - states], length);
    types.add(result.dtype, std::move(extents));
  }
  return types.finish();
}

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

}  // namespace

std::vector<OpDef> control_ops() {
  return {
      if_op(),
      loop_op(),
      scan_op(),
  };
}

}  // namespace aipu::graph
