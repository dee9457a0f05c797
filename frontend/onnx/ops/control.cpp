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

// Imports a body whose first `leading` inputs have fixed types and whose next inputs are carried from one iteration to
// the next: input leading + k gets what output first_carried + k gave. Extents that an iteration changes become symbols
// of the body.
ImportedSubgraph import_body(OpContext& c, const onnx::GraphProto* proto, std::vector<TensorType> formals,
                             size_t leading, size_t carried, size_t first_carried) {
  std::vector<Dim> changing;  // the symbols made here, one per changing extent; such an extent may become anything
  while (true) {
    ImportedSubgraph body = c.import_subgraph(proto, formals);
    if (!c.ok()) return {};
    if (body.graph->outputs().size() < first_carried + carried) {
      c.fail_invalid(str_cat("the body has ", body.graph->outputs().size(), " outputs, at least ",
                             first_carried + carried, " are needed"));
      return {};
    }
    bool changed = false;
    for (size_t k = 0; k < carried; ++k) {
      TensorType& in = formals[leading + k];
      const TensorType& out = body.graph->type(body.graph->outputs()[first_carried + k].value);
      if (in.dtype != out.dtype) {
        c.fail_invalid(str_cat("carried value ", k, " is ", in.text(), " and becomes ", out.text()));
        return {};
      }
      if (in.rank() != out.rank()) {
        c.fail_unsupported(str_cat("carried value ", k, " changes its rank, from ", in.text(), " to ", out.text()));
        return {};
      }
      for (size_t axis = 0; axis < in.shape.size(); ++axis) {
        if (in.shape[axis] == out.shape[axis] || std::ranges::find(changing, in.shape[axis]) != changing.end())
          continue;
        in.shape[axis] = c.fresh_symbol(str_cat("carried_", k, "_", axis));
        changing.push_back(in.shape[axis]);
        changed = true;
      }
    }
    if (!changed) return body;
  }
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

void if_op(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto* then_graph = c.take_graph("then_branch");
  const auto* else_graph = c.take_graph("else_branch");
  // A decided If is the branch it takes. The other one need not even fit the shapes: exporters write "if this axis is
  // 1, squeeze it".
  if (const auto condition = c.constant_ints(c.input(0)); condition && condition->size() == 1) {
    const auto outputs = c.inline_subgraph(condition->front() != 0 ? then_graph : else_graph);
    if (c.ok() && outputs.size() < c.output_names.size()) {
      return c.fail_invalid(str_cat("has ", c.output_names.size(), " outputs, its branch ", outputs.size()));
    }
    for (size_t i = 0; i < outputs.size(); ++i) c.set_output(i, outputs[i]);
    return;
  }
  ImportedSubgraph then_branch = c.import_subgraph(then_graph, {});
  ImportedSubgraph else_branch = c.import_subgraph(else_graph, {});
  if (!c.ok() || squeezes_if_it_can(c, then_branch, else_branch)) return;
  std::vector<ValueId> inputs{c.input(0)};
  append(&inputs, then_branch.captures);
  append(&inputs, else_branch.captures);
  std::vector<std::unique_ptr<Graph>> subgraphs;
  subgraphs.push_back(std::move(then_branch.graph));
  subgraphs.push_back(std::move(else_branch.graph));
  const size_t results = subgraphs[0]->outputs().size();
  emit_control_flow(c, "If", {}, inputs, results, std::move(subgraphs));
}

void loop(OpContext& c) {
  const auto* proto = c.take_graph("body");
  if (!c.ok()) return;
  std::vector<ValueId> inputs = c.inputs;
  if (inputs.size() < 2) inputs.resize(2);
  std::vector<TensorType> formals{{DType::kI64, {}}, {DType::kBool, {}}};
  for (size_t i = 2; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) return c.fail_invalid(str_cat("carried value ", i - 2, " has no initial value"));
    formals.push_back(c.type(inputs[i]));
  }
  ImportedSubgraph body = import_body(c, proto, formals, 2, inputs.size() - 2, 1);
  if (!c.ok()) return;
  // A condition handed on unchanged is the body's own input, without the Identity that ONNX wants in between.
  auto& condition = body.graph->mutable_outputs()[0].value;
  while (body.graph->value(condition).producer.valid()) {
    const graph::Node& producer = std::as_const(*body.graph).node(body.graph->value(condition).producer);
    if (producer.op != "Identity") break;
    condition = producer.inputs[0];
  }
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
  std::vector<TensorType> formals;
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
    formals.push_back(std::move(type));
  }
  ImportedSubgraph body = import_body(c, proto, formals, 0, states, 0);
  auto attributes = c.pass_attributes("Scan");
  if (!c.ok()) return;
  std::vector<ValueId> inputs = c.inputs;
  append(&inputs, body.captures);
  std::vector<std::unique_ptr<Graph>> subgraphs;
  subgraphs.push_back(std::move(body.graph));
  const size_t results = subgraphs[0]->outputs().size();
  emit_control_flow(c, "Scan", std::move(attributes), inputs, results, std::move(subgraphs));
}

// Scan-8 has a batch axis in front of everything and optional sequence lengths as input 0. A batch of one is today's
// Scan.
void scan_before_9(OpContext& c) {
  if (c.has_input(0)) return c.fail_unsupported("sequence_lens (Scan of opset 8) is not supported");
  if (c.inputs.empty()) return c.fail_invalid("has no inputs");
  c.inputs.erase(c.inputs.begin());
  for (auto& input : c.inputs) {
    if (!input.valid() || c.rank(input) < 1) return c.fail_invalid("needs a batch axis in every input");
    if (c.type(input).shape[0] != Dim(1))
      return c.fail_unsupported(
          str_cat("a batch other than 1 (Scan of opset 8) is not supported, found ", c.type(input).text()));
    input = c.squeeze(input, {0});
  }
  if (const auto directions = c.take_ints("directions")) {
    OnnxAttribute renamed;
    renamed.kind = OnnxAttribute::Kind::kInts;
    renamed.ints = *directions;
    c.attributes.emplace("scan_input_directions", std::move(renamed));
  }
  const auto names = c.output_names;
  for (auto& name : c.output_names) name = name.empty() ? "" : name + "/unbatched";
  scan(c);
  c.output_names = names;
  if (!c.ok()) return;
  const auto made = c.results;
  for (size_t i = 0; i < made.size(); ++i) {
    if (made[i].valid()) c.set_output(i, c.unsqueeze(made[i], {0}));
  }
}

}  // namespace aipu::frontend
