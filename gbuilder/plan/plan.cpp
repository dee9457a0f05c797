#include "gbuilder/plan/plan.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include "gbuilder/plan/argument_words.h"
#include "gbuilder/plan/batch_loops.h"
#include "gbuilder/plan/planner.h"
#include "gbuilder/plan/work.h"
#include "graph/ir/op_def.h"
#include "graph/ops/text.h"
#include "graph/partition/needed.h"
#include "runtime/base/fault.h"
#include "runtime/base/stored_type.h"

namespace aipu::gbuilder {

using graph::Dim;
using graph::ValueId;

Result<Plan> make_plan(PlanInput input) { return Planner(std::move(input)).run(); }

Result<Plan> Planner::run() {
  plan_.model_name = graph_.name;
  plan_.target = input_.target;
  plan_.tec_count = input_.tec_count;
  plan_.core_count = input_.core_count;
  plan_.host_target = input_.host_target;
  plan_.first_host_kernel = input_.first_host_kernel;
  plan_.is_body = input_.is_body;
  plan_.kernels = input_.kernels;
  plan_.origins.push_back("");  // commands that belong to no node
  origins_.emplace("", 0);
  for (size_t g = 0; g < input_.groups.size(); ++g) {
    for (const graph::NodeId node : input_.groups[g].group.nodes) {
      for (const ValueId output : graph_.node(node).outputs) {
        if (output.valid()) producer_.emplace(output, g);
      }
    }
  }
  AIPU_RETURN_IF_ERROR(schedule());
  slots_.resize(order_.size() + 1);
  AIPU_RETURN_IF_ERROR(collect_views());
  add_inputs();
  AIPU_RETURN_IF_ERROR(assign_outputs());
  for (const size_t group : order_) AIPU_RETURN_IF_ERROR(record_group(group));
  record_output_copies();
  AIPU_RETURN_IF_ERROR(record_binds());
  flatten();
  keep_inputs_on_host();
  plan_lifetimes(&plan_);
  apply_in_place();
  plan_waits(&plan_);
  Plan* const plans[] = {&plan_};
  lay_out_constants(plans);
  if (input_.batch_loops) plan_.batch_loops = find_batch_loops(plan_, graph_, input_.groups, group_of_command_);
  return std::move(plan_);
}

std::string Planner::describe(size_t group) const {
  const PlannedGroup& g = input_.groups[group];
  graph::OriginSet origins;
  for (const graph::NodeId node : g.group.nodes) graph::merge_origins(&origins, graph_.node(node).origins);
  return str_cat("node ", graph::origins_text(origins), ": plugin '",
                 g.group.owner != nullptr ? g.group.owner->name() : "?", "'");
}

// ---- schedule
// --------------------------------------------------------------------------------------------------

std::vector<std::string> Planner::symbols_needed(const PlannedGroup& planned) const {
  std::vector<std::string> names;
  const auto need = [&](const Dim& dim) { dim.collect_symbols(&names); };
  const auto need_value = [&](ValueId value) {
    for (const Dim& extent : graph_.type(value).shape) need(extent);
  };
  const auto need_argument = [&](const kernels::KernelArgument& argument) {
    if (const auto* pointer = std::get_if<kernels::PointerArgument>(&argument)) need(pointer->byte_offset);
    if (const auto* scalar = std::get_if<kernels::ScalarArgument>(&argument)) need(scalar->value);
  };
  for (const ValueId value : planned.group.inputs) need_value(value);
  for (const ValueId value : planned.group.outputs) need_value(value);
  const kernels::Implementation& implementation = planned.implementation;
  for (const kernels::Launch& launch : implementation.launches) {
    if (const auto* kernel = std::get_if<kernels::KernelLaunch>(&launch)) {
      for (const auto& argument : kernel->arguments) need_argument(argument);
      need(kernel->max_tecs);
    } else {
      const auto& copy = std::get<kernels::CopyLaunch>(launch);
      need_argument(copy.destination);
      need_argument(copy.source);
      for (const Dim* dim : {&copy.width_bytes, &copy.times, &copy.destination_stride_bytes, &copy.source_stride_bytes})
        need(*dim);
    }
  }
  need(graph::needed_together(graph_, planned.group.nodes));
  for (const kernels::View& view : implementation.views) need(view.byte_offset);
  for (const Dim& bytes : implementation.workspace_bytes) need(bytes);
  for (const kernels::ShapeCheck& check : implementation.checks) need(check.must_be_nonzero);
  if (const auto bodies = input_.bodies.find(planned.group.anchor); bodies != input_.bodies.end()) {
    for (const Plan& body : bodies->second)
      names.insert(names.end(), body.given_symbols.begin(), body.given_symbols.end());
  }
  for (const kernels::Fault& fault : planned.faults) need(graph::needed(graph_.node(fault.node)));
  for (const kernels::ValueCheck& check : planned.value_checks) {
    for (const Dim* dim : {&check.check.must_be_nonzero, &check.value, &check.limit}) need(*dim);
  }
  return names;
}

// Groups come in execution order, but a shape operand that was replaced by its run symbols is no data-flow edge any
// more: order by both, keeping the given order wherever possible.
Status Planner::schedule() {
  for (const std::string_view name : {kernels::kTecCountSymbol, kHostTecCountSymbol}) {
    if (graph_.find_symbol(name) != nullptr)
      return unsupported(str_cat("a symbol of the model is called '", name, "', which means the number of TECs here"));
  }
  const size_t count = input_.groups.size();
  std::vector<std::set<size_t>> users(count);
  std::vector<size_t> pending(count, 0);
  const auto add_edge = [&](size_t from, size_t to) {
    if (from != to && users[from].insert(to).second) ++pending[to];
  };
  for (size_t g = 0; g < count; ++g) {
    const auto& group = input_.groups[g].group;
    for (const ValueId value : group.inputs) {
      if (const auto it = producer_.find(value); it != producer_.end()) add_edge(it->second, g);
    }
    for (const std::string& name : symbols_needed(input_.groups[g])) {
      const graph::Symbol* symbol = graph_.find_symbol(name);
      if (name == kernels::kTecCountSymbol) continue;
      if (symbol == nullptr && input_.is_body) continue;
      if (symbol == nullptr)
        return internal_error(str_cat(describe(g), ": uses the symbol '", name, "', which nothing binds"));
      if (symbol->kind != graph::Symbol::Kind::kTensorElement) continue;
      const auto it = producer_.find(symbol->value);
      if (it == producer_.end()) continue;
      // What runs bodies tells the extents of its results, which are fetched when these are known.
      if (it->second == g && input_.bodies.contains(input_.groups[g].group.anchor)) continue;
      if (it->second == g) {
        return internal_error(
            str_cat(describe(g), ": needs '", name, "' to start, but is fused with the node that computes it"));
      }
      add_edge(it->second, g);
    }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t g = 0; g < count; ++g) {
    if (pending[g] == 0) ready.push(g);
  }
  position_.resize(count);
  while (!ready.empty()) {
    const size_t g = ready.top();
    ready.pop();
    position_[g] = order_.size();
    order_.push_back(g);
    for (const size_t user : users[g]) {
      if (--pending[user] == 0) ready.push(user);
    }
  }
  if (order_.size() != count) {
    for (size_t g = 0; g < count; ++g) {
      if (pending[g] != 0) return internal_error(str_cat(describe(g), ": waits for its own results through a shape"));
    }
  }
  return {};
}

// ---- tensors
// --------------------------------------------------------------------------------------------------

Status Planner::collect_views() {
  for (const size_t g : order_) {
    for (const kernels::View& view : input_.groups[g].implementation.views) {
      if (!views_.emplace(view.output, ValueMemory{view.input, view.byte_offset}).second) {
        return internal_error(str_cat(describe(g), ": declares '", graph_.value(view.output).name, "' a view twice"));
      }
    }
  }
  for (const auto& entry : views_) {
    size_t steps = 0;
    for (auto at = views_.find(entry.first); at != views_.end(); at = views_.find(at->second.root)) {
      if (++steps > views_.size())
        return internal_error(str_cat("'", graph_.value(entry.first).name, "' is a view of itself"));
    }
  }
  return {};
}

ValueMemory Planner::resolve(ValueId value) const {
  ValueMemory memory{value, 0};
  for (auto it = views_.find(value); it != views_.end(); it = views_.find(memory.root)) {
    memory.offset += it->second.offset;
    memory.root = it->second.root;
  }
  return memory;
}

namespace {

// Packed elements are inputs and outputs, or about to become some: everywhere else a byte holds one.
Dim size_of(const graph::TensorType& type) {
  const Dim count = graph::element_count(type.shape);
  if (is_packed(type.dtype)) return ceildiv(count * Dim(int64_t{dtype_bits(type.dtype)}), 8);
  return count * Dim(static_cast<int64_t>(dtype_bytes(type.dtype)));
}

}  // namespace

Dim Planner::bytes_of(ValueId value) const { return size_of(graph_.type(value)); }

uint32_t Planner::add_tensor(std::string name, const graph::TensorType& type, TensorKind kind) {
  PlanTensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = type.dtype;
  for (const Dim& extent : type.shape) tensor.shape.push_back(expr(extent));
  tensor.size_bytes = expr(size_of(type));
  tensor.kind = kind;
  plan_.tensors.push_back(std::move(tensor));
  return static_cast<uint32_t>(plan_.tensors.size() - 1);
}

uint32_t Planner::constant_tensor(const graph::ConstantPtr& constant, const std::string& name) {
  const auto [it, is_new] = constants_.try_emplace(constant->hash(), 0);
  if (is_new) {
    it->second = add_tensor(name, constant->type(), TensorKind::kConstant);
    plan_.tensors.back().constant = constant;
  }
  return it->second;
}

void Planner::add_inputs() {
  for (const ValueId input : graph_.inputs()) {
    const uint32_t tensor = add_tensor(graph_.value(input).name, graph_.type(input), TensorKind::kInput);
    tensor_of_value_.emplace(input, tensor);
    plan_.inputs.push_back(tensor);
  }
}

// Whether some group, an input or a constant gives the value bytes.
bool Planner::is_materialised(ValueId value) const {
  const graph::Value& v = graph_.value(value);
  if (v.constant != nullptr || tensor_of_value_.contains(value) || views_.contains(value)) return true;
  const auto it = producer_.find(value);
  if (it == producer_.end()) return false;
  const auto& outputs = input_.groups[it->second].group.outputs;
  return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
}

Result<uint32_t> Planner::tensor_of(ValueId value) {
  if (const auto it = tensor_of_value_.find(value); it != tensor_of_value_.end()) return it->second;
  const graph::Value& v = graph_.value(value);
  if (!is_materialised(value))
    return internal_error(str_cat("value '", v.name, "' is needed, but no group computes it"));
  uint32_t tensor = kNone;
  if (v.constant != nullptr) {
    tensor = constant_tensor(v.constant, v.name);
  } else {
    const ValueMemory memory = resolve(value);
    const auto promoted = promoted_.find(memory.root);
    if (memory.root != value || promoted != promoted_.end()) {
      uint32_t base = kNone;
      if (promoted != promoted_.end()) {
        base = promoted->second;
      } else {
        AIPU_ASSIGN_OR_RETURN(base, tensor_of(memory.root));
      }
      tensor = add_tensor(v.name, v.type, TensorKind::kView);
      plan_.tensors.back().base = base;
      plan_.tensors.back().view_offset = expr(memory.offset);
    } else {
      tensor = add_tensor(v.name, v.type, TensorKind::kArena);
      if (is_on_host(value)) plan_.tensors[tensor].memory = Memory::kHost;
    }
  }
  tensor_of_value_.emplace(value, tensor);
  return tensor;
}

Result<uint32_t> Planner::tensor_of(size_t group, const kernels::TensorRef& ref, std::vector<uint32_t>* workspaces) {
  const kernels::Implementation& implementation = input_.groups[group].implementation;
  const auto index = static_cast<size_t>(ref.index);
  switch (ref.kind) {
    case kernels::TensorRef::Kind::kValue:
      if (!ref.value.valid()) return internal_error(str_cat(describe(group), ": passes an absent operand to a kernel"));
      return tensor_for(ref.value, memory_);
    case kernels::TensorRef::Kind::kConstant:
      if (index >= implementation.constants.size()) break;
      return constant_tensor(implementation.constants[index], str_cat("const", plan_.tensors.size()));
    case kernels::TensorRef::Kind::kWorkspace:
      if (index >= implementation.workspace_bytes.size()) break;
      if ((*workspaces)[index] == kNone) {
        const graph::TensorType type{DType::kU8, {implementation.workspace_bytes[index]}};
        (*workspaces)[index] = add_tensor(str_cat("workspace", plan_.tensors.size()), type, TensorKind::kArena);
        plan_.tensors[(*workspaces)[index]].workspace = true;
        plan_.tensors[(*workspaces)[index]].memory = memory_;
      }
      return (*workspaces)[index];
  }
  return internal_error(str_cat(describe(group), ": refers to a constant or workspace that it did not add"));
}

// An output that a kernel computes lives in the caller's memory from the start, seen through whole-size views (a final
// Reshape) too. An output that is an input, a constant, a part of something or another output again is a copy.
Status Planner::assign_outputs() {
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const graph::Graph::Output& output = graph_.outputs()[i];
    const graph::TensorType& type = graph_.type(output.value);
    const uint32_t tensor = add_tensor(output.name, type, TensorKind::kOutput);
    plan_.outputs.push_back(tensor);
    if (!is_materialised(output.value))
      return internal_error(str_cat("output '", output.name, "' is computed by no group"));
    const ValueMemory memory = resolve(output.value);
    // Results of a body are on the device.
    const bool on_host = is_on_host(memory.root);
    if (on_host && !input_.is_body) plan_.tensors[tensor].memory = Memory::kHost;
    const bool own_memory = graph_.value(memory.root).constant == nullptr && !tensor_of_value_.contains(memory.root) &&
                            !promoted_.contains(memory.root) && !(on_host && input_.is_body);
    if (own_memory && memory.offset == Dim(0) && bytes_of(memory.root) == bytes_of(output.value)) {
      promoted_.emplace(memory.root, tensor);
      if (memory.root == output.value) tensor_of_value_.emplace(output.value, tensor);
    } else {
      copied_outputs_.push_back(i);
    }
  }
  return {};
}

// ---- commands
// --------------------------------------------------------------------------------------------------

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

// Every symbol that some expression uses gets a row; those read from tensors get a BindSymbols command after the
// tensor's producer. Tensors that are only read for their symbols may bring in further symbols through their shapes.
Status Planner::record_binds() {
  for (size_t done = 0; done < plan_.expressions.symbol_names().size(); ++done) {
    const std::string name = plan_.expressions.symbol_names()[done];
    if (name == kernels::kTecCountSymbol) {
      plan_.symbols.push_back({.name = name, .kind = SymbolKind::kTecCount, .tensor = 0});
      continue;
    }
    if (name == kHostTecCountSymbol) {
      plan_.symbols.push_back({.name = name, .kind = SymbolKind::kHostTecCount, .tensor = 0});
      continue;
    }
    const graph::Symbol* symbol = graph_.find_symbol(name);
    if (symbol == nullptr && input_.is_body) {
      const auto index = static_cast<uint32_t>(plan_.given_symbols.size());
      plan_.symbols.push_back({.name = name, .kind = SymbolKind::kGiven, .tensor = 0, .index = index});
      plan_.given_symbols.push_back(name);
      continue;
    }
    if (symbol == nullptr) return internal_error(str_cat("the symbol '", name, "' is used, but nothing binds it"));
    PlanSymbol row{.name = name, .index = static_cast<uint32_t>(symbol->index)};
    row.kind =
        symbol->kind == graph::Symbol::Kind::kInputExtent ? SymbolKind::kInputExtent : SymbolKind::kTensorElement;
    if (row.kind == SymbolKind::kInputExtent) {
      const auto it = tensor_of_value_.find(symbol->value);
      if (it == tensor_of_value_.end())
        return internal_error(str_cat("the symbol '", name, "' is an extent of something that is no input"));
      row.tensor = it->second;
    } else {
      auto tensor = tensor_of(symbol->value);
      if (!tensor.ok()) return std::move(tensor).status().context(str_cat("symbol '", name, "'"));
      row.tensor = *tensor;
    }
    plan_.symbols.push_back(std::move(row));
  }
  // Group the symbols of a tensor, extents of inputs first.
  std::vector<uint32_t> sorted(plan_.symbols.size());
  for (uint32_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t x, uint32_t y) {
    const PlanSymbol &a = plan_.symbols[x], &b = plan_.symbols[y];
    return std::tie(a.kind, a.tensor, a.index, x) < std::tie(b.kind, b.tensor, b.index, y);
  });
  std::vector<uint32_t> new_number(sorted.size());
  std::vector<PlanSymbol> symbols;
  for (uint32_t i = 0; i < sorted.size(); ++i) {
    new_number[sorted[i]] = i;
    symbols.push_back(plan_.symbols[sorted[i]]);
  }
  plan_.symbols = std::move(symbols);
  plan_.expressions.renumber_symbols(new_number);
  for (uint32_t i = 0; i < plan_.symbols.size();) {
    uint32_t end = i + 1;
    if (plan_.symbols[i].kind == SymbolKind::kTensorElement) {
      const auto of_same_tensor = [&](const PlanSymbol& other) {
        return other.kind == SymbolKind::kTensorElement && other.tensor == plan_.symbols[i].tensor;
      };
      while (end < plan_.symbols.size() && of_same_tensor(plan_.symbols[end])) ++end;
      const size_t slot = slot_of(graph_.find_symbol(plan_.symbols[i].name)->value);
      Command command;
      command.origin = slot == 0 ? 0 : origin_of(input_.groups[order_[slot - 1]]);
      command.body = HostBody{.op = HostOp::kBindSymbols, .a = i, .b = end - i};
      slots_[slot].binds.push_back(std::move(command));
    }
    i = end;
  }
  return {};
}

void Planner::flatten() {
  Program program;
  std::array<uint32_t, kEngineCount> counts{};
  for (size_t position = 0; position < slots_.size(); ++position) {
    Slot& slot = slots_[position];
    // A copy of an output whose size a symbol gives needs the symbol; one that a symbol's tensor is copied to does not
    // mind waiting.
    for (auto* commands : {&slot.checks, &slot.commands, &slot.binds, &slot.fetches, &slot.copies}) {
      for (Command& command : *commands) {
        command.sequence = static_cast<uint32_t>(program.commands.size());
        command.index = counts[static_cast<size_t>(command.engine())]++;
        group_of_command_.push_back(
            commands == &slot.commands && position > 0 ? static_cast<uint32_t>(order_[position - 1]) : kNone);
        program.commands.push_back(std::move(command));
      }
    }
  }
  plan_.programs.clear();
  plan_.programs.push_back(std::move(program));
}

void Planner::apply_in_place() {
  const auto& commands = plan_.programs[0].commands;
  std::set<uint32_t> taken;
  for (const InPlaceHint& hint : hints_) {
    const uint32_t root = root_tensor(plan_, hint.input);
    PlanTensor& output = plan_.tensors[hint.output];
    const PlanTensor& input = plan_.tensors[root];
    if (output.kind != TensorKind::kArena || input.kind != TensorKind::kArena || output.in_place_of != kNone ||
        taken.contains(root) || output.memory != input.memory)
      continue;
    if (output.first_use == kNone || output.first_use != input.last_use || output.size_bytes != input.size_bytes ||
        root == hint.output)
      continue;
    if (!(resolve(hint.input_value).offset == Dim(0))) continue;
    const Command& command = commands[output.first_use];
    if (launch_of(plan_, command) == nullptr) continue;
    // Another view of the same memory as an operand could be read out of step with the writes.
    const auto accesses = command_accesses(plan_, command);
    const bool aliased = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return root_tensor(plan_, access.tensor) == root && (access.tensor != hint.input || access.writes);
    });
    if (aliased) continue;
    output.in_place_of = root;
    taken.insert(root);
  }
}

namespace {

void lay_out(Plan* plan, std::map<Hash128, uint64_t>* places, uint64_t* end) {
  for (PlanTensor& tensor : plan->tensors) {
    if (tensor.kind != TensorKind::kConstant) continue;
    const auto [place, is_new] = places->try_emplace(tensor.constant->hash(), *end);
    tensor.offset_bytes = place->second;
    if (is_new) *end += (tensor.constant->byte_count() + 63) / 64 * 64;
  }
  for (Plan& body : plan->bodies) lay_out(&body, places, end);
}

}  // namespace

void lay_out_constants(std::span<Plan* const> plans) {
  std::map<Hash128, uint64_t> places;
  uint64_t end = 0;
  for (Plan* plan : plans) lay_out(plan, &places, &end);
  for (Plan* plan : plans) plan->constant_bytes = end;
}

}  // namespace aipu::gbuilder
