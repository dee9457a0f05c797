#include "gbuilder/plan/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "gbuilder/plan/batch_loops.h"
#include "gbuilder/plan/in_place_outputs.h"
#include "gbuilder/plan/planner.h"
#include "gbuilder/plan/work.h"

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
  find_outputs_in_place(&plan_);
  plan_waits(&plan_);
  Plan* const plans[] = {&plan_};
  lay_out_constants(plans);
  if (input_.batch_loops) {
    for (const FoundBatchLoop& loop : find_batch_loops(plan_, graph_, input_.groups, group_of_command_)) {
      plan_.batch_loops.push_back(
          {loop.first, loop.last, loop.symbol, loop.condition ? plan_.expressions.add(*loop.condition) : kNone});
    }
  }
  return std::move(plan_);
}

std::string Planner::describe(size_t group) const {
  const PlannedGroup& g = input_.groups[group];
  graph::OriginSet origins;
  for (const graph::NodeId node : g.group.nodes) graph::merge_origins(&origins, graph_.node(node).origins);
  return str_cat("node ", graph::origins_text(origins), ": plugin '",
                 g.group.owner != nullptr ? g.group.owner->name() : "?", "'");
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
