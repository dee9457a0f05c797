#include "gbuilder/plan/in_place_outputs.h"

#include <map>
#include <set>

namespace aipu::gbuilder {

namespace {

struct Touches {
  size_t inputs = 0;        // commands that read the input
  uint32_t output = kNone;  // of the only one: what it copies all of it to
};

bool is_zero(const Plan& plan, ExpressionId id) { return plan.expressions.constant_value(id) == 0; }

// The output that a command copies the input to, all of it; kNone: it does something else.
uint32_t copies_to(const Plan& plan, const Command& command, uint32_t input) {
  const DmaBody* copy = copy_of(plan, command);
  if (copy == nullptr || is_host_work(command) || copy->source != input) return kNone;
  const uint32_t output = root_tensor(plan, copy->destination);
  const PlanTensor &from = plan.tensors[input], &to = plan.tensors[output];
  const bool whole = is_zero(plan, copy->source_offset) && is_zero(plan, copy->destination_offset) &&
                     plan.tensors[copy->destination].size_bytes == to.size_bytes && copy->width == from.size_bytes &&
                     plan.expressions.constant_value(copy->times) == 1 &&
                     copy->destination_stride == copy->source_stride;
  const bool alike = to.kind == TensorKind::kOutput && from.dtype == to.dtype && from.shape == to.shape &&
                     from.size_bytes == to.size_bytes && from.memory == to.memory;
  return whole && alike ? output : kNone;
}

}  // namespace

void find_outputs_in_place(Plan* plan) {
  if (plan->is_body || plan->programs.empty()) return;
  std::map<uint32_t, Touches> inputs;
  for (const uint32_t input : plan->inputs) inputs[input];
  // Elements that symbols are read from.
  for (const PlanSymbol& symbol : plan->symbols) {
    if (symbol.kind != SymbolKind::kTensorElement) continue;
    if (const auto it = inputs.find(root_tensor(*plan, symbol.tensor)); it != inputs.end()) ++it->second.inputs;
  }
  std::set<uint32_t> touched;
  for (const Program& program : plan->programs) {
    for (const Command& command : program.commands) {
      std::set<uint32_t> roots;
      for (const Access& access : command_accesses(*plan, command)) roots.insert(root_tensor(*plan, access.tensor));
      for (const uint32_t root : roots) {
        const auto it = inputs.find(root);
        if (it == inputs.end()) continue;
        const uint32_t output = copies_to(*plan, command, root);
        ++it->second.inputs;
        it->second.output = touched.contains(output) ? kNone : output;
      }
      touched.insert(roots.begin(), roots.end());
    }
  }
  std::set<uint32_t> taken;
  for (const uint32_t input : plan->inputs) {
    const Touches& found = inputs.at(input);
    if (found.inputs != 1 || found.output == kNone || !taken.insert(found.output).second) continue;
    plan->tensors[found.output].in_place_of = input;
  }
}

}  // namespace aipu::gbuilder
