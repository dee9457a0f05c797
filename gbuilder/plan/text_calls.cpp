// Nodes that look into strings or encoded images: a command of the host, which hands them to a library.
#include "gbuilder/plan/planner.h"
#include "graph/ir/op_def.h"

namespace aipu::gbuilder {

// The operation has the name of the op, and is given the attributes that are texts and numbers in the order of the
// record.
Status Planner::record_text_call(size_t group, Slot* slot) {
  const PlannedGroup& planned = input_.groups[group];
  const graph::Node& node = graph_.node(planned.group.anchor);
  const graph::OpDef& def = *graph_.find_op(node.op);
  PlanTextCall call;
  if ((def.traits & graph::kOfImages) != 0) call.library = OperationLibrary::kImage;
  call.operation = node.op.substr(node.op.rfind(':') + 1);
  for (const graph::AttributeDef& attribute : def.attributes) {
    if (attribute.kind == graph::AttributeKind::kString) call.texts.push_back(node.attributes.s(attribute.name));
    if (attribute.kind == graph::AttributeKind::kInt) call.numbers.push_back(node.attributes.i(attribute.name));
  }
  for (const graph::ValueId input : node.inputs) {
    AIPU_ASSIGN_OR_RETURN(const uint32_t tensor, tensor_for(input, Memory::kDevice));
    call.inputs.push_back(tensor);
  }
  for (const graph::ValueId output : node.outputs) {
    AIPU_ASSIGN_OR_RETURN(const uint32_t tensor, tensor_of(output));
    call.outputs.push_back(tensor);
  }
  if (const graph::Dim needed = needed_by(group); !(needed == graph::Dim(1))) call.needed = expr(needed);
  Command command;
  command.origin = origin_of(planned);
  command.body = HostBody{.op = HostOp::kText, .a = static_cast<uint32_t>(plan_.text_calls.size())};
  plan_.text_calls.push_back(std::move(call));
  slot->commands.push_back(std::move(command));
  return {};
}

}  // namespace aipu::gbuilder
