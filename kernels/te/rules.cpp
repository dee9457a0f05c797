#include "kernels/te/rules.h"

#include <algorithm>

#include "kernels/te/rules_gpu.h"
#include "kernels/te/rules_reduction.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

// A compute without reductions, of one output: it can be inlined.
bool is_injective(const Operation& op) {
  const Compute* compute = op.compute();
  return compute != nullptr && compute->reduce_axis.empty() && op.output_count() == 1;
}

// Whether its elements take more than a few operations.
bool is_costly(const Operation& op) {
  bool calls = false;
  for (const Expr& body : op.compute()->body) {
    walk(body, [&](const Expr& e) {
      const Call* call = e->as<Call>();
      calls = calls || (call != nullptr && call->name != "if_then_else" && call->name != "likely");
    });
  }
  return calls;
}

// A choice between elements and something else, which rows of it can do without (padding.h).
bool is_padding(const Operation& op) {
  const Compute& compute = *op.compute();
  const Call* choice = compute.body.size() == 1 ? compute.body.front()->as<Call>() : nullptr;
  return choice != nullptr && choice->name == "if_then_else";
}

bool divides(const Operation& op) {
  bool found = false;
  walk(op.compute()->body.front(), [&](const Expr& e) {
    const Binary* n = e->as<Binary>();
    found = found || (n != nullptr && n->op == BinaryOp::kDiv && is_floating(e->type.element));
  });
  return found;
}

bool reads_its_own_place(const Operation& op) {
  const std::string first = op.tag.substr(0, op.tag.find(','));
  return first == "elemwise" || first == "broadcast" || first == "injective";
}

std::vector<OperationPtr> consumers_of(const Schedule& schedule, const OperationPtr& op) {
  std::vector<OperationPtr> consumers;
  for (const StagePtr& stage : schedule.stages) {
    const std::vector<Tensor> inputs = tensors_read(*stage->op);
    if (std::any_of(inputs.begin(), inputs.end(),
                    [&](const Tensor& t) { return t.op == op || schedule.find(t.op.get())->op == op; }))
      consumers.push_back(stage->op);
  }
  return consumers;
}

// Inlines what is cheap to compute again: where one consumer has it, or it reads what it is at its own place.
Status inline_producers(const Schedule& schedule) {
  for (const StagePtr& stage : schedule.stages) {
    const Operation& op = *stage->op;
    if (stage->is_output || !is_injective(op)) continue;
    bool whole = false, reduced = false;
    const std::vector<OperationPtr> consumers = consumers_of(schedule, stage->op);
    for (const OperationPtr& consumer : consumers) {
      const Compute* compute = consumer->compute();
      whole = whole || compute == nullptr;
      reduced = reduced || (compute != nullptr && !compute->reduce_axis.empty());
    }
    bool again = false;  // it would be computed for each element of a row
    for (const OperationPtr& consumer : consumers) {
      const Compute* compute = consumer->compute();
      again = again || (compute != nullptr && compute->axis.size() > op.compute()->axis.size());
    }
    const bool costly = is_costly(op) || (again && divides(op)) || (reduced && is_padding(op));
    if (whole || costly || (!reads_its_own_place(op) && (consumers.size() != 1 || reduced))) continue;
    AIPU_RETURN_IF_ERROR(stage->compute_inline());
  }
  return {};
}

// Deals a nest of data loops out to the threads, and makes vectors of the innermost one.
Status spread(Stage& stage, const std::vector<IterVarPtr>& axes, Machine machine, const Knobs& knobs) {
  if (axes.empty()) return {};
  if (machine != Machine::kGpu && axes.size() > 1 && is_padding(*stage.op)) {
    AIPU_ASSIGN_OR_RETURN(const IterVarPtr rows, stage.fuse_all({axes.begin(), axes.end() - 1}));
    return stage.annotate(rows, IterKind::kParallelized);
  }
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr fused, stage.fuse_all(axes));
  if (machine == Machine::kGpu) {
    AIPU_ASSIGN_OR_RETURN(const auto parts, stage.split(fused, make_int(knobs.threads), nullptr));
    AIPU_RETURN_IF_ERROR(bind_to(stage, parts.first, "blockIdx.x"));
    return bind_to(stage, parts.second, "threadIdx.x");
  }
  AIPU_ASSIGN_OR_RETURN(const auto parts, stage.split(fused, make_int(knobs.chunk), nullptr));
  AIPU_RETURN_IF_ERROR(stage.annotate(parts.first, IterKind::kParallelized));
  if (machine == Machine::kCompass) return stage.annotate(parts.second, IterKind::kVectorized);
  AIPU_ASSIGN_OR_RETURN(const auto vectors, stage.split(parts.second, make_int(knobs.lanes), nullptr));
  return stage.annotate(vectors.second, IterKind::kVectorized);
}

}  // namespace

std::optional<Machine> find_machine(std::string_view name) {
  constexpr std::string_view kNames[] = {"cpu", "compass", "gpu"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Machine>(found - std::begin(kNames));
}

std::vector<Knob> knobs_of(Machine machine) {
  if (machine == Machine::kGpu) return {{"threads", &Knobs::threads, {32, 64, 128, 256, 512}}};
  return {{"lanes", &Knobs::lanes, {4, 8, 16, 32, 64}},
          {"chunk", &Knobs::chunk, {32, 64, 128, 256, 1024, 4096}},
          {"sums", &Knobs::sums, {4, 8, 12, 16, 24, 28}}};
}

Knobs default_knobs(Machine machine) {
  switch (machine) {
    case Machine::kCpu:
      return {.lanes = 16, .chunk = 64 * 16, .sums = 28, .panels = 8};
    case Machine::kCompass:
      return {.lanes = 8, .chunk = 8 * 8, .sums = 16, .panels = 4, .blocks = 4};
    case Machine::kGpu:
      return {.threads = 256};
  }
  return {};
}

Result<SchedulePtr> schedule_by_rules(const std::vector<OperationPtr>& outputs, Machine machine, const Knobs& knobs) {
  for (const Knob& knob : knobs_of(machine)) {
    if (knobs.*knob.value < 1) return invalid_argument(str_cat("rules: ", knob.name, " has to be positive"));
  }
  SchedulePtr schedule = Schedule::create(outputs);
  AIPU_RETURN_IF_ERROR(inline_producers(*schedule));
  AIPU_ASSIGN_OR_RETURN(std::set<const Stage*> done, schedule_rows(*schedule, machine, knobs));
  for (const StagePtr& stage : std::vector<StagePtr>(schedule->stages)) {
    const Compute* compute = stage->op->compute();
    if (compute == nullptr || compute->reduce_axis.empty() || done.contains(stage.get())) continue;
    AIPU_ASSIGN_OR_RETURN(const auto more, machine == Machine::kGpu
                                               ? schedule_reduction_on_gpu(*schedule, stage, knobs)
                                               : schedule_reduction(*schedule, stage, machine, knobs));
    done.insert(more.begin(), more.end());
    if (more.empty()) AIPU_RETURN_IF_ERROR(spread(*stage, compute->axis, machine, knobs));
  }
  for (const StagePtr& stage : schedule->stages) {
    const Compute* compute = stage->op->compute();
    if (compute == nullptr || stage->attach == Attach::kInline || done.contains(stage.get())) continue;
    if (!compute->reduce_axis.empty()) continue;
    AIPU_RETURN_IF_ERROR(spread(*stage, compute->axis, machine, knobs));
  }
  return schedule;
}

}  // namespace aipu::te
