// What each group gives the engines to do.
#include <algorithm>
#include <set>

#include "gbuilder/plan/argument_words.h"
#include "gbuilder/plan/planner.h"
#include "gbuilder/plan/work.h"
#include "graph/ir/op_def.h"
#include "graph/ops/text.h"
#include "graph/partition/needed.h"
#include "runtime/base/fault.h"

namespace aipu::gbuilder {

using graph::Dim;
using graph::ValueId;

uint32_t Planner::string_id(const std::string& text) {
  const auto [it, is_new] = strings_.try_emplace(text, static_cast<uint32_t>(plan_.strings.size()));
  if (is_new) plan_.strings.push_back(text);
  return it->second;
}

uint32_t Planner::origin_of(const PlannedGroup& planned) {
  graph::OriginSet origins;
  for (const graph::NodeId node : planned.group.nodes) graph::merge_origins(&origins, graph_.node(node).origins);
  return origin_id(origins);
}

uint32_t Planner::origin_id(const graph::OriginSet& origins) {
  const std::string text = graph::origins_text(origins);
  const auto [it, is_new] = origins_.try_emplace(text, static_cast<uint32_t>(plan_.origins.size()));
  if (is_new) plan_.origins.push_back(text);
  return it->second;
}

// What is known of the size of an operand; the rest is checked when the shapes are bound.
Status Planner::check_reach(size_t group, const PlanKernel& kernel, size_t i, const PlanArgument& argument) const {
  const uint64_t reach = i < kernel.addressable_bytes.size() ? kernel.addressable_bytes[i] : 0;
  const PlanTensor& tensor = plan_.tensors[argument.index];
  const auto size = plan_.expressions.constant_value(tensor.size_bytes);
  const auto offset = plan_.expressions.constant_value(argument.offset);
  if (reach == 0 || !size || !offset || *offset > *size || static_cast<uint64_t>(*size - *offset) <= reach) return {};
  return unsupported(str_cat(describe(group), ": kernel '", kernel.symbol,
                             "' computes positions in 32 bits and reaches ", reach, " bytes of argument ", i,
                             ", tensor '", tensor.name, "', which has ", *size - *offset,
                             "; its positions need int64"));
}

Status Planner::record_launch(size_t group, const kernels::KernelLaunch& launch, uint32_t kernel,
                              std::vector<uint32_t>* workspaces, Command* command) {
  const PlanKernel& row = plan_.kernels[kernel];
  if (launch.arguments.size() != row.argument_count) {
    return internal_error(str_cat(describe(group), ": kernel '", row.symbol, "' has ", row.argument_count,
                                  " parameters, the launch gives ", launch.arguments.size()));
  }
  TecBody body;
  body.kernel = kernel;
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    PlanArgument argument;
    const kernels::KernelArgument& given = launch.arguments[i];
    if (std::holds_alternative<kernels::PointerArgument>(given) != row.pointer_arguments[i]) {
      return internal_error(str_cat(describe(group), ": kernel '", row.symbol, "': argument ", i, " must be a ",
                                    row.pointer_arguments[i] ? "pointer" : "scalar"));
    }
    if (const auto* pointer = std::get_if<kernels::PointerArgument>(&given)) {
      argument.kind = PlanArgument::Kind::kTensor;
      AIPU_ASSIGN_OR_RETURN(argument.index, tensor_of(group, pointer->tensor, workspaces));
      argument.writes = i < launch.writes.size() ? launch.writes[i] : true;
      argument.offset = expr(argument.writes ? pointer->byte_offset : read_offset(group, pointer->byte_offset));
      AIPU_RETURN_IF_ERROR(check_reach(group, row, i, argument));
      if (argument.writes) {
        const TensorKind kind = plan_.tensors[root_tensor(plan_, argument.index)].kind;
        if (kind == TensorKind::kInput || kind == TensorKind::kConstant) {
          return internal_error(str_cat(describe(group), ": kernel '", row.symbol, "' writes argument ", i,
                                        ", tensor '", plan_.tensors[argument.index].name, "', which is read-only"));
        }
      }
    } else if (const auto* scalar = std::get_if<kernels::ScalarArgument>(&given)) {
      if (const auto value = scalar->value.constant()) {
        const tir::Type type = row.module->entry().params[i]->type;
        const DType dtype = type.pointer ? DType::kU64 : type.element;  // a null pointer of the DSL
        const auto word = integer_word(*value, dtype);
        if (!word) {
          return out_of_range(str_cat(describe(group), ": kernel '", row.symbol, "': argument ", i, " is ", *value,
                                      ", beyond ", dtype_name(dtype)));
        }
        argument.word = *word;
      } else {
        argument.kind = PlanArgument::Kind::kExpression;
        argument.index = expr(scalar->value);
      }
    } else {
      const auto& number = std::get<kernels::FloatArgument>(given);
      argument.word = float_word(number.value, row.module->entry().params[i]->type.element);
    }
    body.arguments.push_back(argument);
  }
  const bool in_one_core =
      input_.core_count > 1 && memory_ == Memory::kDevice && (row.uses_barrier || row.shared_bytes > 0);
  body.max_tecs =
      expr(in_one_core ? graph::min(launch.max_tecs, int64_t{input_.tec_count / input_.core_count}) : launch.max_tecs);
  if (const Dim needed = needed_by(group); !(needed == Dim(1))) body.needed = expr(needed);
  if (row.reports_faults) body.faults = faults_of(group);
  command->body = std::move(body);
  return {};
}

Dim Planner::read_offset(size_t group, const Dim& offset) const {
  if (offset == Dim(0)) return offset;
  Dim count = 0;
  for (const ValueId output : input_.groups[group].group.outputs)
    count += graph::element_count(graph_.type(output).shape);
  if (count.constant() == 0) return 0;
  if (offset.is_constant() || count.lower_bound().value_or(0) > 0) return offset;
  return graph::select(graph::eq(count, 0), 0, offset);
}

Dim Planner::needed_by(size_t group) const { return graph::needed_together(graph_, input_.groups[group].group.nodes); }

std::vector<PlanFault> Planner::faults_of(size_t group) {
  std::vector<PlanFault> faults;
  for (const kernels::Fault& fault : input_.groups[group].faults) {
    const auto code = static_cast<uint32_t>(faults.size());
    const graph::Node& node = graph_.node(fault.node);
    const Dim needed = graph::needed(node);
    faults.push_back(
        {code, string_id(fault.message), origin_id(node.origins), needed == Dim(1) ? kNone : expr(needed)});
  }
  return faults;
}

Status Planner::record_copy(size_t group, const kernels::CopyLaunch& copy, std::vector<uint32_t>* workspaces,
                            Command* command) {
  DmaBody body;
  AIPU_ASSIGN_OR_RETURN(body.destination, tensor_of(group, copy.destination.tensor, workspaces));
  AIPU_ASSIGN_OR_RETURN(body.source, tensor_of(group, copy.source.tensor, workspaces));
  const TensorKind kind = plan_.tensors[root_tensor(plan_, body.destination)].kind;
  if (kind == TensorKind::kInput || kind == TensorKind::kConstant) {
    return internal_error(
        str_cat(describe(group), ": copies into '", plan_.tensors[body.destination].name, "', which is read-only"));
  }
  body.destination_offset = expr(copy.destination.byte_offset);
  body.source_offset = expr(read_offset(group, copy.source.byte_offset));
  body.width = expr(copy.width_bytes);
  const Dim needed = needed_by(group);
  body.times = expr(needed == Dim(1) ? copy.times : graph::select(needed, copy.times, 0));
  body.destination_stride = expr(copy.destination_stride_bytes);
  body.source_stride = expr(copy.source_stride_bytes);
  command->body = body;
  return {};
}

Status Planner::record_group(size_t g) {
  const PlannedGroup& planned = input_.groups[g];
  const kernels::Implementation& implementation = planned.implementation;
  Slot& slot = slots_[1 + position_[g]];
  memory_ = planned.group.target == 0 ? Memory::kDevice : Memory::kHost;
  AIPU_RETURN_IF_ERROR(record_checks(g));
  std::vector<uint32_t> workspaces(implementation.workspace_bytes.size(), kNone);
  std::set<uint32_t> written;
  for (size_t i = 0; i < implementation.launches.size(); ++i) {
    Command command;
    command.origin = origin_of(planned);
    if (const auto* kernel = std::get_if<kernels::KernelLaunch>(&implementation.launches[i])) {
      AIPU_RETURN_IF_ERROR(record_launch(g, *kernel, input_.kernel_of[g][i], &workspaces, &command));
    } else {
      AIPU_RETURN_IF_ERROR(
          record_copy(g, std::get<kernels::CopyLaunch>(implementation.launches[i]), &workspaces, &command));
    }
    if (memory_ == Memory::kHost) do_on_host(&command);
    for (const Access& access : command_accesses(plan_, command)) {
      if (access.writes) written.insert(root_tensor(plan_, access.tensor));
    }
    slot.commands.push_back(std::move(command));
  }
  if (input_.bodies.contains(planned.group.anchor)) {
    AIPU_RETURN_IF_ERROR(record_call(g, &slot));
    for (const Command& fetch : slot.fetches) written.insert(root_tensor(plan_, std::get<HostBody>(fetch.body).c));
    if (plan_.calls.back().extents != kNone) written.insert(plan_.calls.back().extents);
  }
  if (graph::is_of_library(graph_, graph_.node(planned.group.anchor))) {
    AIPU_RETURN_IF_ERROR(record_text_call(g, &slot));
    for (const uint32_t output : plan_.text_calls.back().outputs) written.insert(root_tensor(plan_, output));
  }
  // The last kernel stands for the group: those before it prepare its operands.
  const Dim operations = arithmetic_operations(graph_, planned.group);
  for (auto command = slot.commands.rbegin(); command != slot.commands.rend() && operations != Dim(0); ++command) {
    TecBody* const tec = launch_in(&*command);
    if (tec == nullptr) continue;
    tec->operations = expr(operations);
    break;
  }
  for (const ValueId output : planned.group.outputs) {
    if (views_.contains(output) || graph::element_count(graph_.type(output).shape) == Dim(0)) continue;
    AIPU_ASSIGN_OR_RETURN(const uint32_t tensor, tensor_of(output));
    const auto& elsewhere = implementation.written_elsewhere;
    if (!written.contains(root_tensor(plan_, tensor)) &&
        std::find(elsewhere.begin(), elsewhere.end(), output) == elsewhere.end()) {
      return internal_error(str_cat(describe(g), ": nothing writes its output '", graph_.value(output).name, "'"));
    }
  }
  for (const auto& [output, in] : implementation.in_place) {
    if (!output.valid() || !in.valid() || !tensor_of_value_.contains(output) || !tensor_of_value_.contains(in))
      continue;
    hints_.push_back({tensor_of_value_.at(output), tensor_of_value_.at(in), in});
  }
  memory_ = Memory::kDevice;
  return {};
}

Status Planner::record_checks(size_t g) {
  for (const kernels::ShapeCheck& check : input_.groups[g].implementation.checks)
    AIPU_RETURN_IF_ERROR(record_check(g, check, nullptr, nullptr));
  for (const kernels::ValueCheck& check : input_.groups[g].value_checks)
    AIPU_RETURN_IF_ERROR(record_check(g, check.check, &check.value, &check.limit));
  return {};
}

namespace {

// Whatever the symbols are: what became too long for an expression is floordiv(1, 0) (graph/ir/dim.h).
bool has_no_value(const Dim& dim) {
  const std::vector<Dim>& operands = dim.operands();
  if (dim.op() == graph::DimOp::kFloorDiv && operands[1].constant() == 0) return true;
  if (dim.op() == graph::DimOp::kSelect)
    return has_no_value(operands[0]) || (has_no_value(operands[1]) && has_no_value(operands[2]));
  return std::any_of(operands.begin(), operands.end(), has_no_value);
}

}  // namespace

// A check that depends on input extents alone is made at the start, once; others right before the group that asked.
Status Planner::record_check(size_t g, const kernels::ShapeCheck& check, const Dim* value, const Dim* limit) {
  Dim must_be_nonzero = check.must_be_nonzero;
  if (const Dim needed = needed_by(g); !(needed == Dim(1))) must_be_nonzero = graph::select(needed, must_be_nonzero, 1);
  if (const auto holds = must_be_nonzero.constant()) {
    if (*holds != 0) return {};
    const bool known = value != nullptr && value->is_constant() && limit->is_constant();
    return invalid_model(str_cat(
        describe(g), ": ", known ? fault_text(check.message, *value->constant(), *limit->constant()) : check.message));
  }
  if (has_no_value(must_be_nonzero)) {
    return unsupported(str_cat(describe(g), ": the extents of its operands are no expression of those of the inputs ",
                               "that is short enough to be kept; say what the inputs' extents are (--shape)"));
  }
  Command command;
  command.origin = origin_of(input_.groups[g]);
  HostBody body{.op = HostOp::kCheck, .a = expr(must_be_nonzero), .b = string_id(check.message)};
  std::vector<std::string> names;
  must_be_nonzero.collect_symbols(&names);
  if (value != nullptr) {
    body.c = 1 + expr(*value);
    body.d = 1 + expr(*limit);
    value->collect_symbols(&names);
    limit->collect_symbols(&names);
  }
  command.body = body;
  const bool at_start = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    const graph::Symbol* symbol = graph_.find_symbol(name);
    return symbol == nullptr || symbol->kind == graph::Symbol::Kind::kInputExtent;
  });
  const size_t slot = at_start ? 0 : 1 + position_[g];
  if (known_checks_.emplace(slot, body.a, body.b, body.c, body.d).second)
    slots_[slot].checks.push_back(std::move(command));
  return {};
}

size_t Planner::slot_of(ValueId value) const {
  size_t slot = 0;
  // A view is complete when what it views is; its own group comes later, though, and orders before what needs it.
  for (;;) {
    if (const auto it = producer_.find(value); it != producer_.end()) slot = std::max(slot, 1 + position_[it->second]);
    const auto view = views_.find(value);
    if (view == views_.end()) return slot;
    value = view->second.root;
  }
}

void Planner::record_output_copies() {
  for (const size_t i : copied_outputs_) {
    const graph::Graph::Output& output = graph_.outputs()[i];
    const auto source = tensor_of(output.value);
    if (!source.ok()) continue;  // assign_outputs() has made sure that it is
    const size_t slot = slot_of(output.value);
    Command command;
    command.origin = slot == 0 ? 0 : origin_of(input_.groups[order_[slot - 1]]);
    const ExpressionId zero = plan_.expressions.constant(0);
    command.body = DmaBody{.destination = plan_.outputs[i],
                           .source = source.value(),
                           .destination_offset = zero,
                           .source_offset = zero,
                           .width = plan_.tensors[plan_.outputs[i]].size_bytes,
                           .times = plan_.expressions.constant(1),
                           .destination_stride = zero,
                           .source_stride = zero};
    if (plan_.tensors[plan_.outputs[i]].memory == Memory::kHost) do_on_host(&command);
    slots_[slot].copies.push_back(std::move(command));
  }
}

}  // namespace aipu::gbuilder
