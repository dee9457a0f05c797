// If, Loop, Scan: bodies become Graphs of their own. The node's inputs are ONNX's, then what each body captures from
// the graphs around it.
#include <algorithm>

#include "frontend/onnx/ops/control_flow.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

void append(std::vector<ValueId>* to, const std::vector<ValueId>& from) {
  to->insert(to->end(), from.begin(), from.end());
}

// Makes the type of carried value k fit what an iteration gives: extents that it changes become symbols of the body.
// Whether that changed anything. `changing`: the symbols of the body that were made so; such an extent may become
// anything.
bool widen(OpContext& c, const std::string& what, const std::string& hint, TensorType* in, const TensorType& out,
           std::vector<Dim>* changing) {
  if (in->dtype != out.dtype) {
    c.fail_invalid(str_cat("carried value ", what, " is ", in->text(), " and becomes ", out.text()));
    return false;
  }
  if (in->rank() != out.rank()) {
    c.fail_unsupported(str_cat("carried value ", what, " changes its rank, from ", in->text(), " to ", out.text()));
    return false;
  }
  bool changed = false;
  for (size_t axis = 0; axis < in->shape.size(); ++axis) {
    if (in->shape[axis] == out.shape[axis] || std::ranges::find(*changing, in->shape[axis]) != changing->end())
      continue;
    in->shape[axis] = c.fresh_symbol(str_cat("carried_", hint, "_", axis));
    changing->push_back(in->shape[axis]);
    changed = true;
  }
  return changed;
}

// The operand of a Loop that hides how often it runs; "" if none does.
std::string hidden_operand(OpContext& c) {
  for (size_t i = 0; i < 2; ++i) {
    if (c.has_input(i) && !c.constant_ints(c.input(i))) return c.graph().value(c.input(i)).name;
  }
  return "";
}

// Whether the elements that a trip appends have an extent along axis 0 that only the body knows, and no other such.
bool differ_along_first_axis(OpContext& c, const ListValue& list, const Graph& body) {
  const auto is_inner = [&](const Dim& extent) {
    std::vector<std::string> symbols;
    extent.collect_symbols(&symbols);
    return std::ranges::any_of(symbols, [&](const std::string& symbol) {
      return body.find_symbol(symbol) != nullptr && c.graph().find_symbol(symbol) == nullptr;
    });
  };
  bool differ = false;
  for (const ValueId element : list.elements) {
    const Shape& shape = body.type(element).shape;
    if (shape.empty() || std::any_of(shape.begin() + 1, shape.end(), is_inner)) return false;
    differ |= is_inner(shape[0]);
  }
  return differ;
}

// The same for what may be a list. One whose number of elements changes is taken as one that is appended to, which the
// next import of the body shows.
bool adapt(OpContext& c, size_t k, Formal* in, const Item& out, const Graph& body, std::vector<Dim>* changing) {
  const std::string name = std::to_string(k);
  if (in->list == nullptr && out.list == nullptr)
    return widen(c, name, name, &in->type, body.type(out.value), changing);
  const auto text = [&](const ListPtr& list, const TensorType& type) { return list ? list_text(*list) : type.text(); };
  if (in->list == nullptr || out.list == nullptr) {
    c.fail_invalid(str_cat("carried value ", k, " is ", text(in->list, in->type), " and becomes ",
                           text(out.list, out.list ? TensorType() : body.type(out.value))));
    return false;
  }
  if (have_same_form(*in->list, *out.list) && in->list->grows.empty()) {
    bool changed = false;
    const std::vector<ValueId> parts = parts_of(*out.list);
    for (size_t i = 0; i < parts.size(); ++i)
      changed |=
          widen(c, str_cat(k, ", element ", i), str_cat(k, "_", i), &in->parts[i], body.type(parts[i]), changing);
    return changed;
  }
  const bool grows_on = !in->list->grows.empty() && out.list->grows == in->list->grows;
  if (grows_on && out.list->kind == in->list->kind) {
    if (!differ_along_first_axis(c, *out.list, body) || k >= c.output_names.size() ||
        !c.is_only_joined(c.output_names[k], 0))
      return false;
    // Carried as one tensor, which the next import of the body makes longer.
    TensorType whole = body.type(out.list->elements[0]);
    whole.shape[0] = c.fresh_symbol(str_cat("carried_", name, "_0"));
    changing->push_back(whole.shape[0]);
    ListValue carried = *in->list;
    carried.grows.clear();
    carried.end_to_end = true;
    carried.stacks.resize(1);
    in->list = std::make_shared<const ListValue>(std::move(carried));
    in->parts = {std::move(whole)};
    return true;
  }
  const bool may_grow = in->list->kind == PortList::Kind::kSequence && in->list->stacks.empty() &&
                        in->list->grows.empty() && out.list->kind == in->list->kind && out.list->grows.empty();
  if (!may_grow) {
    const std::string operand = hidden_operand(c);
    c.fail_unsupported(str_cat("carried value ", k, " is ", list_text(*in->list), " and becomes ", list_text(*out.list),
                               operand.empty() ? std::string(" in a way that is not supported")
                                               : str_cat(": operand '", operand, "' must be known when compiling")));
    return false;
  }
  ListValue grows;
  grows.dtype = in->parts.empty() ? in->list->dtype : in->parts[0].dtype;
  grows.grows = c.fresh_symbol("grows").symbol_name();
  grows.decided_by = hidden_operand(c);
  in->list = std::make_shared<const ListValue>(std::move(grows));
  in->parts.clear();
  return true;
}

// Imports a body whose first `leading` inputs have fixed types and whose next inputs are carried from one iteration to
// the next: input leading + k gets what output first_carried + k gave. `formals` are adapted to what it gives. Where a
// tensor changes its rank, this is an error, or nothing but what `changes_rank` says.
ImportedSubgraph import_body(OpContext& c, const onnx::GraphProto* proto, std::vector<Formal>* formals, size_t leading,
                             size_t carried, size_t first_carried, bool* changes_rank = nullptr) {
  std::vector<Dim> changing;
  while (true) {
    ImportedSubgraph body = c.import_subgraph(proto, *formals);
    if (!c.ok()) return {};
    if (body.results.size() < first_carried + carried) {
      c.fail_invalid(
          str_cat("the body has ", body.results.size(), " outputs, at least ", first_carried + carried, " are needed"));
      return {};
    }
    for (size_t k = 0; k < carried && changes_rank != nullptr; ++k) {
      const Item& out = body.results[first_carried + k];
      const Formal& in = (*formals)[leading + k];
      if (in.list != nullptr || out.list != nullptr || body.graph->type(out.value).rank() == in.type.rank()) continue;
      *changes_rank = true;
      return {};
    }
    bool changed = false;
    for (size_t k = 0; k < carried && c.ok(); ++k)
      changed |= adapt(c, k, &(*formals)[leading + k], body.results[first_carried + k], *body.graph, &changing);
    if (!c.ok()) return {};
    if (!changed) return body;
  }
}

bool are_tensors(const std::vector<Item>& items) {
  return std::all_of(items.begin(), items.end(), [](const Item& item) { return item.list == nullptr; });
}

// The names that the parts of output i get; none are asked for where it is not.
void add_names(const OpContext& c, size_t i, const Item& item, std::vector<std::string>* names) {
  const std::string name = c.wants_output(i) ? c.output_names[i] : "";
  const size_t parts = item.list ? parts_of(*item.list).size() : 1;
  for (size_t k = 0; k < parts; ++k)
    names->push_back(name.empty() || item.list == nullptr ? name : str_cat(name, "[", k, "]"));
}

// Takes the parts of an item like `item` from what a node has given.
Item taken(const Item& item, std::vector<ValueId>::const_iterator* at) {
  if (item.list == nullptr) return {*(*at)++, {}};
  const auto end = *at + static_cast<std::ptrdiff_t>(parts_of(*item.list).size());
  const std::vector<ValueId> parts(*at, end);
  *at = end;
  return {{}, with_parts(*item.list, parts)};
}

// What a branch gives: the value outside that its one output is, through Identity, or squeezes by `axes`. Invalid where
// it is something else.
ValueId passed_on(const ImportedSubgraph& branch, std::optional<std::vector<int64_t>>* axes) {
  const Graph& graph = *branch.graph;
  if (graph.outputs().size() != 1) return {};
  ValueId value = graph.outputs()[0].value;
  while (graph.value(value).producer.valid()) {
    const graph::Node& node = graph.node(graph.value(value).producer);
    if (node.op == "Squeeze" && !axes->has_value() && node.inputs.size() > 1 &&
        graph.constant(node.inputs[1]) != nullptr) {
      *axes = graph.constant(node.inputs[1])->to_int64s();
    } else if (node.op != "Identity") {
      return {};
    }
    value = node.inputs[0];
  }
  for (size_t k = 0; k < branch.captures.size(); ++k) {
    if (graph.inputs()[k] == value) return branch.captures[k];
  }
  return {};
}

// "If this axis is 1, squeeze it", with an extent that is known only when running: PyTorch exports every squeeze() so.
// The rank has to be known, so the axis is taken as squeezed, which the runtime checks; nothing else would fit what
// follows anyhow.
bool squeezes_if_it_can(OpContext& c, const ImportedSubgraph& then_branch, const ImportedSubgraph& else_branch) {
  std::optional<std::vector<int64_t>> then_axes;
  std::optional<std::vector<int64_t>> else_axes;
  const ValueId value = passed_on(then_branch, &then_axes);
  if (!value.valid() || value != passed_on(else_branch, &else_axes) || !then_axes || else_axes) return false;
  if (!c.graph().known_data(c.input(0))) return false;  // data decides, not an extent
  c.set_output(0, c.squeeze(value, *then_axes));
  return true;
}

// Whether the branch gives what stands outside, as it is, or constants; which values.
std::optional<std::vector<ValueId>> handed_on(OpContext& c, const ImportedSubgraph& branch) {
  const Graph& graph = *branch.graph;
  std::vector<ValueId> values;
  for (const Graph::Output& output : graph.outputs()) {
    ValueId value = output.value;
    while (graph.value(value).producer.valid()) {
      const graph::Node& node = graph.node(graph.value(value).producer);
      if (node.op != "Identity") return std::nullopt;
      value = node.inputs[0];
    }
    if (graph.constant(value) != nullptr) {
      values.push_back(c.constant(graph.value(value).constant));
      continue;
    }
    const auto capture = std::ranges::find(graph.inputs(), value);
    if (capture == graph.inputs().end()) return std::nullopt;
    values.push_back(branch.captures[static_cast<size_t>(capture - graph.inputs().begin())]);
  }
  return values;
}

bool have_same_ranks(const ImportedSubgraph& a, const ImportedSubgraph& b) {
  if (a.results.size() != b.results.size()) return true;  // an error of its own
  for (size_t i = 0; i < a.results.size(); ++i) {
    if (a.graph->type(a.results[i].value).rank() != b.graph->type(b.results[i].value).rank()) return false;
  }
  return true;
}

bool are_scalars(const OpContext& c, const std::vector<ValueId>& values) {
  return std::ranges::all_of(values, [&](ValueId value) { return c.rank(value) == 0; });
}

// Branches that give results of different ranks, of which one hands on what there is: the rank has to be known, so that
// one is taken, or the other one if it hands on numbers, which stand for what cannot be computed. A run in which the
// one that is not taken would be is an error: the result is element `condition` of a list of one.
bool hands_on_if_it_can(OpContext& c, const ImportedSubgraph& then_branch, const ImportedSubgraph& else_branch,
                        const onnx::GraphProto* then_graph, const onnx::GraphProto* else_graph) {
  const auto then_values = handed_on(c, then_branch), else_values = handed_on(c, else_branch);
  if (then_values.has_value() == else_values.has_value()) return false;
  std::vector<ValueId> values = then_values ? *then_values : *else_values;
  bool takes_then = then_values.has_value();
  if (are_scalars(c, values)) {
    takes_then = !takes_then;
    values.clear();
    for (const Item& item : c.inline_subgraph(takes_then ? then_graph : else_graph, {})) values.push_back(item.value);
  }
  const ValueId other = takes_then ? c.emit("Not", {}, {c.input(0)}) : c.input(0);
  const ValueId place = c.emit("Reshape", {{"shape", Shape()}}, {c.cast(other, DType::kI64)});
  for (size_t i = 0; i < values.size(); ++i)
    c.set_output(i, c.emit("Gather", {{"axis", int64_t{0}}}, {c.unsqueeze(values[i], {0}), place}));
  return true;
}

}  // namespace

void emit_control_flow(OpContext& c, std::string_view op, Attributes attributes, const std::vector<ValueId>& inputs,
                       size_t results, std::vector<std::unique_ptr<Graph>> subgraphs) {
  const std::vector<std::string> wanted = c.output_names;
  if (wanted.size() > results)
    return c.fail_invalid(str_cat("has ", wanted.size(), " outputs, its sub-graph gives ", results));
  c.output_names.resize(results);
  c.output_names.push_back(str_cat(wanted.empty() ? op : wanted[0], "/extents"));
  c.emit_outputs(op, std::move(attributes), inputs, std::move(subgraphs));
  c.output_names = wanted;
  if (c.ok()) c.results.resize(wanted.size());
}

std::vector<ValueId> emit_parts(OpContext& c, std::string_view op, Attributes attributes,
                                const std::vector<ValueId>& inputs, std::vector<std::string> names,
                                std::vector<std::unique_ptr<Graph>> subgraphs) {
  if (!c.ok()) return {};
  const size_t results = names.size();
  std::vector<ValueId> given = std::exchange(c.results, {});
  names.swap(c.output_names);
  emit_control_flow(c, op, std::move(attributes), inputs, results, std::move(subgraphs));
  names.swap(c.output_names);
  given.swap(c.results);
  return c.ok() ? given : std::vector<ValueId>();
}

namespace {

// Which branch is taken is known only when running: both have to give lists of the same form.
bool fit_together(OpContext& c, const ImportedSubgraph& then_branch, const ImportedSubgraph& else_branch) {
  if (then_branch.results.size() != else_branch.results.size()) {
    c.fail_invalid(
        str_cat("the branches have ", then_branch.results.size(), " and ", else_branch.results.size(), " outputs"));
    return false;
  }
  for (size_t i = 0; i < then_branch.results.size(); ++i) {
    const ListPtr& a = then_branch.results[i].list;
    const ListPtr& b = else_branch.results[i].list;
    if (a == nullptr && b == nullptr) continue;
    if (a != nullptr && b != nullptr && have_same_form(*a, *b)) continue;
    c.fail_unsupported(str_cat("operand '", c.graph().value(c.input(0)).name, "' must be known when compiling: output ",
                               i, " is ", a ? list_text(*a) : "a tensor", " in one branch and ",
                               b ? list_text(*b) : "a tensor", " in the other"));
    return false;
  }
  return true;
}

}  // namespace

void if_op(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto* then_graph = c.take_graph("then_branch");
  const auto* else_graph = c.take_graph("else_branch");
  // A decided If is the branch it takes. The other one need not even fit the shapes: exporters write "if this axis is
  // 1, squeeze it".
  if (const auto condition = c.constant_ints(c.input(0)); condition && condition->size() == 1) {
    const auto outputs = c.inline_subgraph(condition->front() != 0 ? then_graph : else_graph, {});
    if (c.ok() && outputs.size() < c.output_names.size()) {
      return c.fail_invalid(str_cat("has ", c.output_names.size(), " outputs, its branch ", outputs.size()));
    }
    for (size_t i = 0; i < outputs.size(); ++i) c.set_output(i, outputs[i]);
    return;
  }
  ImportedSubgraph then_branch = c.import_subgraph(then_graph, {});
  ImportedSubgraph else_branch = c.import_subgraph(else_graph, {});
  if (!c.ok()) return;
  const bool tensors = are_tensors(then_branch.results) && are_tensors(else_branch.results);
  if (tensors && squeezes_if_it_can(c, then_branch, else_branch)) return;
  if (tensors && !have_same_ranks(then_branch, else_branch) &&
      hands_on_if_it_can(c, then_branch, else_branch, then_graph, else_graph))
    return;
  if (!tensors && !fit_together(c, then_branch, else_branch)) return;
  std::vector<ValueId> inputs{c.input(0)};
  append(&inputs, then_branch.captures);
  append(&inputs, else_branch.captures);
  std::vector<std::unique_ptr<Graph>> subgraphs;
  subgraphs.push_back(std::move(then_branch.graph));
  subgraphs.push_back(std::move(else_branch.graph));
  if (tensors) {
    const size_t results = subgraphs[0]->outputs().size();
    return emit_control_flow(c, "If", {}, inputs, results, std::move(subgraphs));
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < then_branch.results.size(); ++i) add_names(c, i, then_branch.results[i], &names);
  const std::vector<ValueId> parts = emit_parts(c, "If", {}, inputs, std::move(names), std::move(subgraphs));
  auto at = parts.begin();
  for (size_t i = 0; c.ok() && i < then_branch.results.size(); ++i) c.set_output(i, taken(then_branch.results[i], &at));
}

namespace {

// A Loop whose iterations and conditions are known becomes its iterations one after the other: where it carries lists,
// or values that change their rank.
// False where it cannot: nothing has been given then, and what has been emitted is used by nobody.
bool unrolled(OpContext& c, const onnx::GraphProto* proto) {
  constexpr int64_t kMostIterations = 256;
  std::optional<std::vector<int64_t>> trips;
  if (c.has_input(0) && !(trips = c.constant_ints(c.input(0)))) return false;
  std::optional<std::vector<int64_t>> condition = std::vector<int64_t>{1};
  if (c.has_input(1)) condition = c.constant_ints(c.input(1));
  std::vector<Item> carried;
  for (size_t i = 2; i < c.inputs.size(); ++i) carried.push_back(c.item(i));
  std::vector<std::vector<ValueId>> stacked(c.output_names.size() - std::min(c.output_names.size(), carried.size()));
  for (int64_t k = 0;; ++k) {
    if (!condition || condition->size() != 1) return false;
    if (condition->front() == 0 || (trips && k >= trips->front())) break;
    if (k == kMostIterations) return false;
    std::vector<Item> arguments{{c.int64_scalar(k), {}}, {c.scalar(DType::kBool, 1), {}}};
    arguments.insert(arguments.end(), carried.begin(), carried.end());
    const std::vector<Item> made = c.inline_subgraph(proto, arguments);
    if (!c.ok()) return true;
    if (made.size() < 1 + carried.size() + stacked.size()) {
      c.fail_invalid(str_cat("has ", c.output_names.size(), " outputs, its body ", made.size()));
      return true;
    }
    condition = c.constant_ints(made[0].value);
    std::copy_n(made.begin() + 1, carried.size(), carried.begin());
    for (size_t i = 0; i < stacked.size(); ++i) {
      const Item& slice = made[1 + carried.size() + i];
      if (!slice.value.valid()) {
        c.fail_invalid(str_cat("output ", 1 + carried.size() + i, " of the body is no tensor"));
        return true;
      }
      stacked[i].push_back(c.unsqueeze(slice.value, {0}));
    }
  }
  if (std::any_of(stacked.begin(), stacked.end(), [](const auto& slices) { return slices.empty(); })) return false;
  for (size_t i = 0; i < carried.size(); ++i) c.set_output(i, carried[i]);
  for (size_t i = 0; i < stacked.size(); ++i)
    c.set_output(carried.size() + i, c.emit("Concat", {{"axis", int64_t{0}}}, stacked[i]));
  return true;
}

// A condition handed on unchanged is the body's own input, without the Identity that ONNX wants in between.
void skip_identities(Graph* body) {
  auto& condition = body->mutable_outputs()[0].value;
  while (body->value(condition).producer.valid()) {
    const graph::Node& producer = std::as_const(*body).node(body->value(condition).producer);
    if (producer.op != "Identity") break;
    condition = producer.inputs[0];
  }
}

// What a Loop's body begins with for the carried value of input i.
std::vector<ValueId> initial_parts(OpContext& c, const Formal& formal, size_t i) {
  if (c.list(i) == nullptr) return {c.input(i)};
  const ListValue& list = *c.list(i);
  if (!formal.list->end_to_end || list.end_to_end) return parts_of(list);
  if (list.elements.size() == 1) return {list.elements[0]};
  if (!list.elements.empty()) return {c.emit("Concat", {{"axis", int64_t{0}}}, list.elements)};
  Shape none = formal.parts[0].shape;
  none[0] = 0;
  return {c.emit("Expand", {{"shape", none}}, {c.scalar(formal.parts[0].dtype, 0)})};
}

// A Loop that carries lists. Lists that keep their form are carried element by element. What a trip appends to one that
// grows is stacked, as results behind all others.
void loop_with_lists(OpContext& c, const std::vector<Formal>& formals, ImportedSubgraph body) {
  const size_t carried = formals.size() - 2;
  std::vector<ValueId> inputs{c.input(0), c.input(1)};
  std::vector<Item> in_place;  // results whose parts are results of the node, in this order; then those that grow
  std::vector<size_t> places;
  std::vector<size_t> growing;
  const std::vector<Graph::Output> given = body.graph->outputs();
  std::vector<Graph::Output> outputs{given[0]}, behind;
  size_t at = 1;
  for (size_t i = 0; i + 1 < body.results.size(); ++i) {
    const Item& result = body.results[1 + i];
    const bool grows = result.list != nullptr && !result.list->grows.empty();
    const size_t parts = result.list != nullptr ? parts_of(*result.list).size() : 1;
    if (i < carried && !grows) append(&inputs, initial_parts(c, formals[2 + i], 2 + i));
    auto& to = grows ? behind : outputs;
    to.insert(to.end(), given.begin() + static_cast<std::ptrdiff_t>(at),
              given.begin() + static_cast<std::ptrdiff_t>(at + parts));
    at += parts;
    (grows ? growing : places).push_back(i);
  }
  outputs.insert(outputs.end(), behind.begin(), behind.end());
  body.graph->mutable_outputs() = outputs;
  append(&inputs, body.captures);
  std::vector<std::string> names;
  for (const auto* list : {&places, &growing}) {
    for (const size_t i : *list) add_names(c, i, body.results[1 + i], &names);
  }
  std::vector<std::unique_ptr<Graph>> subgraphs;
  subgraphs.push_back(std::move(body.graph));
  const std::vector<ValueId> parts = emit_parts(c, "Loop", {}, inputs, std::move(names), std::move(subgraphs));
  if (!c.ok()) return;
  auto part = parts.begin();
  for (const size_t i : places) c.set_output(i, taken(body.results[1 + i], &part));
  for (const size_t i : growing) {
    const ListPtr appended = taken(body.results[1 + i], &part).list;
    ListValue whole = *c.list(2 + i);
    whole.stacks = appended->elements;
    whole.decided_by = hidden_operand(c);
    c.set_output(i, Item{{}, std::make_shared<const ListValue>(std::move(whole))});
  }
}

}  // namespace

void loop(OpContext& c) {
  const auto* proto = c.take_graph("body");
  if (!c.ok()) return;
  if (c.inputs.size() < 2) c.inputs.resize(2);
  if (c.list(0) != nullptr || c.list(1) != nullptr) return c.fail_invalid("inputs 0 and 1 must be tensors");
  std::vector<Formal> formals{{{DType::kI64, {}}, {}, {}}, {{DType::kBool, {}}, {}, {}}};
  bool has_lists = false;
  for (size_t i = 2; i < c.inputs.size(); ++i) {
    const ListPtr list = c.list(i);
    if (list == nullptr && !c.has_input(i))
      return c.fail_invalid(str_cat("carried value ", i - 2, " has no initial value"));
    if (list != nullptr && !list->grows.empty())
      return c.fail_unsupported(str_cat("carried value ", i - 2, " is a sequence that an outer Loop appends to"));
    Formal formal{list == nullptr ? c.type(c.input(i)) : TensorType(), list, {}};
    if (list != nullptr) {
      has_lists = true;
      for (const ValueId part : parts_of(*list)) formal.parts.push_back(c.type(part));
    }
    formals.push_back(std::move(formal));
  }
  if (has_lists && unrolled(c, proto)) return;
  const std::vector<Formal> given = formals;
  bool changes_rank = false;
  ImportedSubgraph body = import_body(c, proto, &formals, 2, formals.size() - 2, 1, &changes_rank);
  if (changes_rank) {
    if (!has_lists && unrolled(c, proto)) return;
    formals = given;
    body = import_body(c, proto, &formals, 2, formals.size() - 2, 1);  // which says what is wrong
  }
  if (!c.ok()) return;
  for (size_t i = formals.size() - 1; i < body.results.size(); ++i) {
    if (body.results[i].list != nullptr) return c.fail_invalid(str_cat("output ", i, " of the body is no tensor"));
  }
  if (body.results[0].list != nullptr) return c.fail_invalid("output 0 of the body is no tensor");
  skip_identities(body.graph.get());
  if (has_lists) return loop_with_lists(c, formals, std::move(body));
  std::vector<ValueId> inputs = c.inputs;
  append(&inputs, body.captures);
  std::vector<std::unique_ptr<Graph>> subgraphs;
  subgraphs.push_back(std::move(body.graph));
  const size_t results = subgraphs[0]->outputs().size() - 1;
  emit_control_flow(c, "Loop", {}, inputs, results, std::move(subgraphs));
}

void scan(OpContext& c) {
  const auto* proto = c.take_graph("body");
  c.require_attribute("num_scan_inputs");
  if (!c.ok()) return;
  const auto& attribute = c.attributes.at("num_scan_inputs");
  const int64_t scan_inputs = attribute.kind == OnnxAttribute::Kind::kInt ? attribute.i : -1;
  if (scan_inputs < 1 || scan_inputs > static_cast<int64_t>(c.inputs.size())) {
    return c.fail_invalid(str_cat("num_scan_inputs is ", scan_inputs, " of ", c.inputs.size(), " inputs"));
  }
  const size_t states = c.inputs.size() - static_cast<size_t>(scan_inputs);
  std::vector<int64_t> axes(static_cast<size_t>(scan_inputs), 0);
  if (const auto it = c.attributes.find("scan_input_axes"); it != c.attributes.end()) {
    axes = it->second.ints;
    if (axes.size() != static_cast<size_t>(scan_inputs))
      return c.fail_invalid(str_cat("scan_input_axes has ", axes.size(), " of ", scan_inputs, " elements"));
  }
  std::vector<Formal> formals;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has_input(i)) return c.fail_invalid(str_cat("needs input ", i));
    TensorType type = c.type(c.input(i));
    if (i >= states) {
      int64_t& axis = axes[i - states];
      if (axis < 0) axis += type.rank();
      if (axis < 0 || axis >= type.rank())
        return c.fail_invalid(
            str_cat("scan input ", i - states, " is ", type.text(), ", its axis ", axis, " does not exist"));
      type.shape.erase(type.shape.begin() + axis);
    }
    formals.push_back({std::move(type), {}, {}});
  }
  ImportedSubgraph body = import_body(c, proto, &formals, 0, states, 0);
  if (c.ok() && !are_tensors(body.results)) return c.fail_invalid("an output of the body is no tensor");
  auto attributes = c.pass_attributes("Scan");
  if (!c.ok()) return;
  std::vector<ValueId> inputs = c.inputs;
  append(&inputs, body.captures);
  std::vector<std::unique_ptr<Graph>> subgraphs;
  subgraphs.push_back(std::move(body.graph));
  const size_t results = subgraphs[0]->outputs().size();
  emit_control_flow(c, "Scan", std::move(attributes), inputs, results, std::move(subgraphs));
}

namespace {

// Scan-8 of one example: the inputs without their batch axis, the first `length` steps where that is given. States,
// then scan outputs; these end with zeros up to as many steps as the inputs have.
std::vector<ValueId> scan_example(OpContext& c, const std::vector<ValueId>& inputs, int64_t example, size_t states,
                                  ValueId length) {
  OpContext inner = c.within(c.graph());
  inner.attributes = c.attributes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ValueId x =
        c.squeeze(c.emit("Slice", {}, {inputs[i], c.int64s({example}), c.int64s({example + 1}), c.int64s({0})}), {0});
    if (length.valid() && i >= states) x = c.emit("Slice", {}, {x, c.int64s({0}), length, c.int64s({0})});
    inner.inputs.push_back(x);
  }
  for (const auto& name : c.output_names) inner.output_names.push_back(str_cat(name, "/example_", example));
  if (!c.ok()) return {};
  scan(inner);
  if (!inner.ok()) {
    c.fail(inner.status());
    return {};
  }
  for (const auto& [name, attribute] : inner.attributes) {
    if (!attribute.taken) c.fail_unsupported(str_cat("attribute '", name, "' is not known"));
  }
  std::vector<ValueId> results = inner.results;
  const Dim steps = length.valid() ? c.type(inputs[states]).shape[1] : Dim();
  for (size_t i = states; length.valid() && i < results.size() && c.ok(); ++i) {
    Shape pads(2 * c.type(results[i]).shape.size(), Dim(0));
    pads[pads.size() / 2] = steps - c.type(results[i]).shape[0];
    results[i] = c.emit("Pad", {{"pads", pads}}, {results[i], ValueId(), c.scalar(c.dtype(results[i]), 0)});
  }
  return results;
}

}  // namespace

// Scan-8 has a batch axis in front of everything and optional sequence lengths as input 0: a Scan for each example.
void scan_before_9(OpContext& c) {
  if (c.inputs.size() < 2) return c.fail_invalid("has no inputs");
  c.require_attribute("num_scan_inputs");
  if (const auto directions = c.take_ints("directions")) {
    OnnxAttribute renamed;
    renamed.kind = OnnxAttribute::Kind::kInts;
    renamed.ints = *directions;
    c.attributes.emplace("scan_input_directions", std::move(renamed));
  }
  if (!c.ok()) return;
  const std::vector<ValueId> inputs(c.inputs.begin() + 1, c.inputs.end());
  const auto& scanned = c.attributes.at("num_scan_inputs");
  if (scanned.kind != OnnxAttribute::Kind::kInt || scanned.i < 1 || scanned.i > static_cast<int64_t>(inputs.size()))
    return c.fail_invalid(str_cat("num_scan_inputs is ", scanned.i, " of ", inputs.size(), " inputs"));
  const size_t states = inputs.size() - static_cast<size_t>(scanned.i);
  std::optional<int64_t> batch;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid() || c.rank(inputs[i]) < (i < states ? 1 : 2))
      return c.fail_invalid("needs a batch axis in every input");
    const auto extent = c.type(inputs[i]).shape[0].constant();
    if (extent && !batch) batch = extent;
    if (extent && *extent != *batch) return c.fail_invalid("inputs have different batches");
  }
  constexpr int64_t kMostExamples = 256;
  if (!batch || *batch < 1 || *batch > kMostExamples) {
    return c.fail_unsupported(str_cat("the batch (Scan of opset 8) must be known when compiling, from 1 to ",
                                      kMostExamples, ", found ", c.type(inputs.back()).text()));
  }
  std::vector<std::vector<ValueId>> parts;
  for (int64_t example = 0; example < *batch; ++example) {
    ValueId length;
    if (c.has_input(0))
      length = c.emit("Slice", {}, {c.input(0), c.int64s({example}), c.int64s({example + 1}), c.int64s({0})});
    for (ValueId& value : parts.emplace_back(scan_example(c, inputs, example, states, length)))
      value = value.valid() ? c.unsqueeze(value, {0}) : value;
    if (!c.ok()) return;
  }
  for (auto& [name, attribute] : c.attributes) attribute.taken = true;  // by each example's Scan
  for (size_t i = 0; i < parts[0].size(); ++i) {
    if (!parts[0][i].valid()) continue;
    std::vector<ValueId> together;
    for (const auto& part : parts) together.push_back(part[i]);
    c.set_output(i, together.size() == 1 ? together[0] : c.emit("Concat", {{"axis", int64_t{0}}}, together));
  }
}

}  // namespace aipu::frontend
