// inline_control_flow: sub-graphs become part of the graph around them where that costs little, as ops have no effects
// but faults (op_def.h); those of nodes that the model would not run are none.
//
//   If         =>  a condition that has become known: that branch. Two branches of a few small nodes: both, and for
//                  each output Where(cond, then, else); outputs of unlike extents as one row of elements, of which the
//                  condition, as a run symbol, decides the slice
//   Loop, Scan =>  the body as many times as there are iterations, where that is a known number and the result stays
//                  small
//
//   %y = If(%c, %x) with then { Neg } else { Abs }        %a = Neg(%x)   %b = Abs(%x)   %y = Where(%c, %a, %b)
//
// What remains is run as it is, by programs of their own (gbuilder/plan/control_flow.cpp).
#include <algorithm>
#include <set>

#include "graph/ir/op_def.h"
#include "graph/ops/assumptions.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

constexpr int64_t kMostNodes = 8192;  // that one loop may become
// Of a branch that is computed although it may not be taken: less than running a program takes.
constexpr size_t kMostBranchNodes = 16;
constexpr int64_t kMostBranchElements = 1024;  // per value

size_t live_nodes(const Graph& graph) {
  size_t count = 0;
  for (size_t k = 0; k < graph.node_count(); ++k) count += graph.node(NodeId{static_cast<int32_t>(k)}).erased ? 0 : 1;
  return count;
}

bool has_subgraphs(const Graph& graph) {
  for (size_t k = 0; k < graph.node_count(); ++k) {
    const Node& node = graph.node(NodeId{static_cast<int32_t>(k)});
    if (!node.erased && !node.subgraphs.empty()) return true;
  }
  return false;
}

bool is_small_branch(const Graph& body) {
  const auto order = body.topological_order();
  return order.size() <= kMostBranchNodes && std::all_of(order.begin(), order.end(), [&](NodeId id) {
           const auto& outputs = body.node(id).outputs;
           return std::all_of(outputs.begin(), outputs.end(), [&](ValueId output) {
             if (!output.valid()) return true;
             const auto most = element_count(body.type(output).shape).upper_bound();
             return most && *most <= kMostBranchElements;
           });
         });
}

class Inliner {
 public:
  Inliner(Graph& graph, NodeId id) : graph_(graph), node_(std::as_const(graph).node(id)) {}

  // The values of the node's outputs; empty where it has to stay.
  Result<std::vector<ValueId>> run() {
    for (const auto& body : node_.subgraphs) {
      if (has_subgraphs(*body)) return std::vector<ValueId>();
    }
    if (node_.op == "If") return branches();
    if (node_.op == "Loop") return loop();
    return scan();
  }

 private:
  std::vector<ValueId> captured(size_t first, const Graph& body) const {
    const auto begin = node_.inputs.begin() + static_cast<ptrdiff_t>(first);
    return {begin, begin + body.captured_count};
  }

  std::optional<int64_t> known_number(ValueId value) const {
    const auto data = graph_.known_data(value);
    return data && data->size() == 1 ? data->front().constant() : std::nullopt;
  }

  Result<ValueId> emit(const std::string& op, Attributes attributes, std::vector<ValueId> inputs) {
    return graph_.emit(op, std::move(attributes), std::move(inputs), node_.origins, op);
  }

  // Whether a run may have no result for some node: by its data, or by extents that do not fit each other.
  static bool may_be_an_error(const Graph& body) {
    const auto order = body.topological_order();
    return std::any_of(order.begin(), order.end(), [&](NodeId id) {
      const Node& node = body.node(id);
      return may_fault(body, node) || !assumptions_of(body, node).empty();
    });
  }

  // Whether the condition holds, as a number, where that matters: a body with what may be an error must be left out of
  // the runs that do not want it. 1 where it does not.
  Result<Dim> as_number(ValueId condition, std::initializer_list<const Graph*> bodies) {
    if (std::none_of(bodies.begin(), bodies.end(), [](const Graph* body) { return may_be_an_error(*body); }))
      return Dim(1);
    auto number = graph_.require_data(condition);
    if (!number) {  // of extents that only a run knows
      AIPU_ASSIGN_OR_RETURN(const ValueId one, scalar(condition));
      number = graph_.require_data(one);
    }
    if (!number || number->size() != 1) return internal_error("the condition cannot be read as a run symbol");
    return number->front();
  }

  // The body's nodes on the given inputs; its outputs. `wanted` is 0 in runs that do not use them.
  Result<std::vector<ValueId>> inlined(const Graph& body, const std::vector<ValueId>& inputs, const Dim& wanted = 1) {
    std::vector<ValueId> mapped(body.value_count());
    const auto at = [&](ValueId id) -> ValueId& { return mapped[static_cast<size_t>(id.index)]; };
    for (size_t k = 0; k < body.inputs().size(); ++k) at(body.inputs()[k]) = inputs[k];
    const auto map_value = [&](ValueId id) {
      if (!id.valid()) return id;
      if (!at(id).valid() && body.constant(id) != nullptr)
        at(id) = graph_.add_constant(body.value(id).constant, body.value(id).name);
      return at(id);
    };
    // Symbols of the body are extents and elements of values that have another name here.
    bool unknown = false;
    const auto lookup = [&](const std::string& name) -> std::optional<Dim> {
      const Symbol* symbol = body.find_symbol(name);
      if (symbol == nullptr) return std::nullopt;
      const ValueId value = map_value(symbol->value);
      if (value.valid() && symbol->kind == Symbol::Kind::kInputExtent)
        return graph_.type(value).shape[static_cast<size_t>(symbol->index)];
      const auto data = graph_.require_data(value);
      if (data) return (*data)[static_cast<size_t>(symbol->index)];
      unknown = true;
      return std::nullopt;
    };
    std::set<ValueId> constant;  // of the body: what is known when converting, which is better folded
    const auto is_constant = [&](ValueId id) {
      return !id.valid() || body.constant(id) != nullptr || constant.contains(id);
    };
    for (const NodeId id : body.topological_order()) {
      const Node& node = body.node(id);
      if (std::all_of(node.inputs.begin(), node.inputs.end(), is_constant))
        constant.insert(node.outputs.begin(), node.outputs.end());
      Attributes attributes = node.attributes;
      const Dim inner = needed(node).substitute(lookup);
      for (const auto& [name, attribute] : node.attributes.all()) {
        const auto* shape = std::get_if<Shape>(&attribute);
        if (shape == nullptr) continue;
        Shape substituted;
        for (const Dim& dim : *shape) substituted.push_back(dim.substitute(lookup));
        attributes.set(name, std::move(substituted));
      }
      if (!(wanted == Dim(1)) && (may_fault(body, node) || !constant.contains(node.outputs.front())))
        attributes.set(std::string(kNeeded), Shape{select(wanted, inner, 0)});
      if (unknown)
        return internal_error(str_cat("a symbol of the body of ", node_.op, " cannot be read outside of it"));
      std::vector<ValueId> operands;
      for (const ValueId input : node.inputs) operands.push_back(map_value(input));
      std::vector<std::string> names;
      for (const ValueId output : node.outputs) names.push_back(output.valid() ? body.value(output).name : "");
      AIPU_ASSIGN_OR_RETURN(const NodeId copy, graph_.add_node(node.op, std::move(attributes), std::move(operands),
                                                               std::move(names), node.origins));
      const std::vector<ValueId>& made = std::as_const(graph_).node(copy).outputs;
      for (size_t k = 0; k < made.size(); ++k) {
        if (made[k].valid()) at(node.outputs[k]) = made[k];
      }
    }
    std::vector<ValueId> outputs;
    for (const Graph::Output& output : body.outputs()) outputs.push_back(map_value(output.value));
    return outputs;
  }

  Result<ValueId> scalar(ValueId value) { return reshaped(graph_, value, {}, node_.origins); }

  // One of two values of one rank; `condition` is a scalar.
  Result<ValueId> chosen(ValueId condition, ValueId yes, ValueId no) {
    if (yes == no) return yes;
    const Shape yes_shape = graph_.type(yes).shape;
    const Shape no_shape = graph_.type(no).shape;
    if (yes_shape == no_shape) return emit("Where", {}, {condition, yes, no});
    const auto number = graph_.require_data(condition);
    if (!number) return internal_error("the condition cannot be read as a run symbol");
    const auto pick = [&](const Dim& a, const Dim& b) { return a == b ? a : select(number->front(), a, b); };
    const Dim yes_count = element_count(yes_shape);
    const Dim no_count = element_count(no_shape);
    AIPU_ASSIGN_OR_RETURN(const ValueId yes_row, reshaped(graph_, yes, {yes_count}, node_.origins));
    AIPU_ASSIGN_OR_RETURN(const ValueId no_row, reshaped(graph_, no, {no_count}, node_.origins));
    Attributes along;
    along.set("axis", int64_t{0});
    AIPU_ASSIGN_OR_RETURN(const ValueId row, emit("Concat", std::move(along), {yes_row, no_row}));
    Shape shape;
    for (size_t k = 0; k < yes_shape.size(); ++k) shape.push_back(pick(yes_shape[k], no_shape[k]));
    Attributes part;
    part.set("starts", Shape{pick(0, yes_count)});
    part.set("steps", std::vector<int64_t>{1});
    part.set("extents", Shape{element_count(shape)});
    AIPU_ASSIGN_OR_RETURN(const ValueId taken, emit("Slice", std::move(part), {row}));
    return reshaped(graph_, taken, shape, node_.origins);
  }

  Result<std::vector<ValueId>> branches() {
    const Graph& then_body = *node_.subgraphs[0];
    const Graph& else_body = *node_.subgraphs[1];
    const auto then_inputs = captured(1, then_body);
    const auto else_inputs = captured(1 + then_inputs.size(), else_body);
    if (const auto condition = known_number(node_.inputs[0])) {
      return *condition != 0 ? inlined(then_body, then_inputs) : inlined(else_body, else_inputs);
    }
    if (!is_small_branch(then_body) || !is_small_branch(else_body) || extents_are_hidden())
      return std::vector<ValueId>();
    AIPU_ASSIGN_OR_RETURN(const Dim holds, as_number(node_.inputs[0], {&then_body, &else_body}));
    AIPU_ASSIGN_OR_RETURN(const auto yes, inlined(then_body, then_inputs, holds));
    AIPU_ASSIGN_OR_RETURN(const auto no, inlined(else_body, else_inputs, holds == Dim(1) ? holds : eq(holds, 0)));
    AIPU_ASSIGN_OR_RETURN(const ValueId condition, scalar(node_.inputs[0]));
    std::vector<ValueId> outputs;
    // The node may have fewer outputs than its branches have results, or one more, for their extents.
    for (size_t k = 0; k < std::min(node_.outputs.size(), yes.size()); ++k) {
      AIPU_ASSIGN_OR_RETURN(const ValueId output, chosen(condition, yes[k], no[k]));
      outputs.push_back(output);
    }
    return outputs;
  }

  // Whether there are results whose extents only a run of the node tells.
  bool extents_are_hidden() const {
    if (node_.outputs.size() <= node_.subgraphs[0]->outputs().size()) return false;
    return std::any_of(graph_.symbols().begin(), graph_.symbols().end(), [&](const Symbol& symbol) {
      return symbol.kind == Symbol::Kind::kTensorElement && symbol.value == node_.outputs.back();
    });
  }

  bool small_enough(int64_t trips, const Graph& body) const {
    return trips <= kMostNodes / std::max<int64_t>(1, static_cast<int64_t>(live_nodes(body)));
  }

  // One slice per iteration, stacked along a new axis.
  Result<ValueId> stacked(std::vector<ValueId> slices, int64_t axis, bool backwards) {
    if (backwards) std::reverse(slices.begin(), slices.end());
    for (ValueId& slice : slices) {
      Shape shape = graph_.type(slice).shape;
      shape.insert(shape.begin() + axis, Dim(1));
      AIPU_ASSIGN_OR_RETURN(slice, reshaped(graph_, slice, shape, node_.origins));
    }
    Attributes along;
    along.set("axis", axis);
    return emit("Concat", std::move(along), std::move(slices));
  }

  Result<std::vector<ValueId>> loop() {
    const Graph& body = *node_.subgraphs[0];
    const size_t states = body.inputs().size() - static_cast<size_t>(body.captured_count) - 2;
    const size_t stacks = body.outputs().size() - 1 - states;
    const auto most = known_number(node_.inputs[0]);
    if (!most || !small_enough(*most, body) || (*most <= 0 && stacks != 0)) return std::vector<ValueId>();
    // Iterations that data may end early are not computed in advance.
    if (node_.inputs[1].valid() && known_number(node_.inputs[1]) != 1) return std::vector<ValueId>();
    if (const ValueId again = body.outputs()[0].value; again != body.inputs()[1]) {
      const auto known = body.known_data(again);
      if (!known || known->size() != 1 || known->front().constant() != 1) return std::vector<ValueId>();
    }
    const auto outer = captured(2 + states, body);
    std::vector<ValueId> state(node_.inputs.begin() + 2, node_.inputs.begin() + 2 + static_cast<ptrdiff_t>(states));
    std::vector<std::vector<ValueId>> slices(stacks);
    const uint8_t yes = 1;
    for (int64_t trip = 0; trip < *most; ++trip) {
      std::vector<ValueId> inputs = {
          graph_.add_constant(Constant::of<int64_t>(DType::kI64, {}, {&trip, 1}), "iteration"),
          graph_.add_constant(Constant::of<uint8_t>(DType::kBool, {}, {&yes, 1}), "condition")};
      inputs.insert(inputs.end(), state.begin(), state.end());
      inputs.insert(inputs.end(), outer.begin(), outer.end());
      AIPU_ASSIGN_OR_RETURN(const auto results, inlined(body, inputs));
      for (size_t k = 0; k < states; ++k) state[k] = results[1 + k];
      for (size_t k = 0; k < stacks; ++k) slices[k].push_back(results[1 + states + k]);
    }
    for (auto& slice : slices) {
      AIPU_ASSIGN_OR_RETURN(const ValueId stack, stacked(std::move(slice), 0, false));
      state.push_back(stack);
    }
    return state;
  }

  Result<std::vector<ValueId>> scan() {
    const Graph& body = *node_.subgraphs[0];
    const auto sequences = static_cast<size_t>(node_.attributes.i("num_scan_inputs"));
    const size_t formal = body.inputs().size() - static_cast<size_t>(body.captured_count);
    const size_t states = formal - sequences;
    const size_t stacks = body.outputs().size() - states;
    const std::vector<int64_t> axes = node_.attributes.ints("scan_input_axes");
    const auto length = graph_.type(node_.inputs[states]).shape[static_cast<size_t>(axes[0])].constant();
    if (!length || *length < 1 || !small_enough(*length, body)) return std::vector<ValueId>();
    const auto outer = captured(formal, body);
    std::vector<ValueId> state(node_.inputs.begin(), node_.inputs.begin() + static_cast<ptrdiff_t>(states));
    std::vector<std::vector<ValueId>> slices(stacks);
    for (int64_t trip = 0; trip < *length; ++trip) {
      std::vector<ValueId> inputs = state;
      for (size_t k = 0; k < sequences; ++k) {
        const int64_t at = node_.attributes.ints("scan_input_directions")[k] != 0 ? *length - 1 - trip : trip;
        Attributes along;
        along.set("axis", axes[k]);
        const ValueId position = graph_.add_constant(Constant::of<int64_t>(DType::kI64, {}, {&at, 1}), "position");
        AIPU_ASSIGN_OR_RETURN(const ValueId element,
                              emit("Gather", std::move(along), {node_.inputs[states + k], position}));
        inputs.push_back(element);
      }
      inputs.insert(inputs.end(), outer.begin(), outer.end());
      AIPU_ASSIGN_OR_RETURN(const auto results, inlined(body, inputs));
      state.assign(results.begin(), results.begin() + static_cast<ptrdiff_t>(states));
      for (size_t k = 0; k < stacks; ++k) slices[k].push_back(results[states + k]);
    }
    for (size_t k = 0; k < stacks; ++k) {
      const bool backwards = node_.attributes.ints("scan_output_directions")[k] != 0;
      AIPU_ASSIGN_OR_RETURN(const ValueId stack,
                            stacked(std::move(slices[k]), node_.attributes.ints("scan_output_axes")[k], backwards));
      state.push_back(stack);
    }
    return state;
  }

  Graph& graph_;
  // A copy: adding nodes moves the node, but not its sub-graphs.
  struct Copy {
    explicit Copy(const Node& node)
        : op(node.op), attributes(node.attributes), inputs(node.inputs), outputs(node.outputs), origins(node.origins) {
      for (const auto& body : node.subgraphs) subgraphs.push_back(body.get());
    }
    std::string op;
    Attributes attributes;
    std::vector<ValueId> inputs;
    std::vector<ValueId> outputs;
    OriginSet origins;
    std::vector<const Graph*> subgraphs;
  } node_;
};

// What only a run of the node would have told about the extents of its results.
void tell_extents(Graph& graph, const std::vector<ValueId>& outputs, const std::vector<ValueId>& results) {
  if (outputs.size() != results.size() + 1) return;
  std::vector<Dim> extents;
  for (const ValueId result : results) {
    const Shape& shape = graph.type(result).shape;
    extents.insert(extents.end(), shape.begin(), shape.end());
  }
  graph.substitute_symbols([&](const std::string& name) -> std::optional<Dim> {
    const Symbol* symbol = graph.find_symbol(name);
    const bool is_told = symbol != nullptr && symbol->kind == Symbol::Kind::kTensorElement &&
                         symbol->value == outputs.back() && static_cast<size_t>(symbol->index) < extents.size();
    return is_told ? std::optional<Dim>(extents[static_cast<size_t>(symbol->index)]) : std::nullopt;
  });
}

// Sequences and stacked results of a Scan that stays, along their first axis: slices are pieces of memory then.
Result<int> bring_axes_to_front(Graph& graph, NodeId id) {
  const std::vector<int64_t> axes = std::as_const(graph).node(id).attributes.ints("scan_input_axes");
  const std::vector<int64_t> stack_axes = std::as_const(graph).node(id).attributes.ints("scan_output_axes");
  const auto is_first = [](int64_t axis) { return axis == 0; };
  if (std::all_of(axes.begin(), axes.end(), is_first) && std::all_of(stack_axes.begin(), stack_axes.end(), is_first))
    return 0;
  Node& node = graph.node(id);
  const OriginSet origins = node.origins;
  const std::vector<ValueId> outputs = node.outputs;
  std::vector<ValueId> inputs = node.inputs;
  Attributes attributes = node.attributes;
  attributes.set("scan_input_axes", std::vector<int64_t>(axes.size(), 0));
  attributes.set("scan_output_axes", std::vector<int64_t>(stack_axes.size(), 0));
  auto subgraphs = std::move(node.subgraphs);
  const Graph& body = *subgraphs[0];
  const size_t formal = body.inputs().size() - static_cast<size_t>(body.captured_count);
  const size_t states = formal - axes.size();
  const auto moved = [&](ValueId value, int64_t from, int64_t to) -> Result<ValueId> {
    if (from == to) return value;
    std::vector<int64_t> order;
    for (int64_t k = 0; k < graph.type(value).rank(); ++k) order.push_back(k);
    order.erase(order.begin() + from);
    order.insert(order.begin() + to, from);
    Attributes permutation;
    permutation.set("perm", std::move(order));
    return graph.emit("Transpose", std::move(permutation), {value}, origins);
  };
  for (size_t k = 0; k < axes.size(); ++k) {
    AIPU_ASSIGN_OR_RETURN(inputs[states + k], moved(inputs[states + k], axes[k], 0));
  }
  std::vector<std::string> names;
  for (const ValueId output : outputs) names.push_back(output.valid() ? graph.value(output).name : "");
  AIPU_ASSIGN_OR_RETURN(const NodeId copy, graph.add_node("Scan", std::move(attributes), std::move(inputs),
                                                          std::move(names), origins, std::move(subgraphs)));
  std::vector<ValueId> results = std::as_const(graph).node(copy).outputs;
  for (size_t k = 0; k < stack_axes.size(); ++k) {
    ValueId& result = results[states + k];
    if (result.valid()) {
      AIPU_ASSIGN_OR_RETURN(result, moved(result, 0, stack_axes[k]));
    }
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].valid()) AIPU_RETURN_IF_ERROR(graph.replace_uses(outputs[k], results[k]));
  }
  graph.erase_node(id);
  return 1;
}

}  // namespace

Result<int> inline_control_flow(Graph& graph, PassContext&) {
  int count = 0;
  bool types_changed = false;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = std::as_const(graph).node(id);
    if (node.op != "If" && node.op != "Loop" && node.op != "Scan") continue;
    const OriginSet origins = node.origins;
    const std::vector<ValueId> outputs = node.outputs;
    auto results = Inliner(graph, id).run();
    if (!results.ok()) return std::move(results).status().context(str_cat("node ", origins_text(origins)));
    if (results->empty()) {
      if (std::as_const(graph).node(id).op != "Scan") continue;
      AIPU_ASSIGN_OR_RETURN(const int moved, bring_axes_to_front(graph, id));
      count += moved;
      continue;
    }
    tell_extents(graph, outputs, *results);
    for (size_t k = 0; k < std::min(outputs.size(), results->size()); ++k) {
      if (!outputs[k].valid()) continue;
      types_changed = types_changed || !(graph.type(outputs[k]) == graph.type((*results)[k]));
      AIPU_RETURN_IF_ERROR(graph.replace_uses(outputs[k], (*results)[k]));
    }
    graph.erase_node(id);
    ++count;
  }
  if (types_changed) {
    for (const NodeId id : graph.topological_order()) AIPU_RETURN_IF_ERROR(graph.infer_node(id));
  }
  if (count != 0) graph.erase_dead_nodes();
  return count;
}

}  // namespace aipu::graph
