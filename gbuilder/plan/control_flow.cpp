// Nodes with sub-graphs: a command of the host runs the bodies, others fetch their results once the extents of these
// are known.
#include <algorithm>

#include "gbuilder/plan/planner.h"
#include "graph/ir/op_def.h"

namespace aipu::gbuilder {

using graph::ValueId;

namespace {

std::vector<bool> flags(const std::vector<int64_t>& numbers) {
  std::vector<bool> result;
  for (const int64_t number : numbers) result.push_back(number != 0);
  return result;
}

}  // namespace

Status Planner::record_call(size_t group, Slot* slot) {
  const PlannedGroup& planned = input_.groups[group];
  const graph::Node& node = graph_.node(planned.group.anchor);
  PlanCall call;
  HostOp op = HostOp::kBranch;
  size_t operand = 0;
  const auto take = [&](uint32_t* tensor) -> Status {
    if (const ValueId value = node.inputs[operand++]; value.valid()) {
      AIPU_ASSIGN_OR_RETURN(*tensor, tensor_for(value, Memory::kDevice));
    }
    return {};
  };
  const graph::Graph& body = *node.subgraphs[0];
  const auto formal = static_cast<uint32_t>(body.inputs().size()) - static_cast<uint32_t>(body.captured_count);
  if (node.op == "Scan") {
    op = HostOp::kScan;
    call.sequences = static_cast<uint32_t>(node.attributes.i("num_scan_inputs"));
    call.states = formal - call.sequences;
    call.backward_sequences = flags(node.attributes.ints("scan_input_directions"));
    call.backward_stacks = flags(node.attributes.ints("scan_output_directions"));
  } else {
    if (node.op == "Loop") {
      op = HostOp::kLoop;
      call.states = formal - 2;
      AIPU_RETURN_IF_ERROR(take(&call.trip_count));
    }
    AIPU_RETURN_IF_ERROR(take(&call.condition));
  }
  while (operand < node.inputs.size()) AIPU_RETURN_IF_ERROR(take(&call.inputs.emplace_back(kNone)));

  const auto is_output = [&](ValueId value) {
    const auto& outputs = planned.group.outputs;
    return value.valid() && std::find(outputs.begin(), outputs.end(), value) != outputs.end();
  };
  // Behind its results a node may have an output for their extents.
  const size_t results = body.outputs().size() - (op == HostOp::kLoop ? 1 : 0);
  if (node.outputs.size() > results && is_output(node.outputs[results])) {
    AIPU_ASSIGN_OR_RETURN(call.extents, tensor_of(node.outputs[results]));
  }
  const auto number = static_cast<uint32_t>(plan_.calls.size());
  for (Plan& plan : input_.bodies.at(planned.group.anchor)) {
    std::vector<ExpressionId>& given = call.given.emplace_back();
    for (const std::string& symbol : plan.given_symbols) given.push_back(expr(graph::Dim::symbol(symbol)));
    call.bodies.push_back(static_cast<uint32_t>(plan_.bodies.size()));
    plan_.bodies.push_back(std::move(plan));
  }
  plan_.calls.push_back(std::move(call));
  Command run;
  run.origin = origin_of(planned);
  run.body = HostBody{.op = op, .a = number};
  slot->commands.push_back(std::move(run));
  for (size_t i = 0; i < std::min(results, node.outputs.size()); ++i) {
    if (!is_output(node.outputs[i])) continue;
    AIPU_ASSIGN_OR_RETURN(const uint32_t tensor, tensor_of(node.outputs[i]));
    Command fetch;
    fetch.origin = origin_of(planned);
    fetch.body = HostBody{.op = HostOp::kFetch, .a = number, .b = static_cast<uint32_t>(i), .c = tensor};
    slot->fetches.push_back(std::move(fetch));
  }
  return {};
}

}  // namespace aipu::gbuilder
