// Groups of the host beside a device: which memory values are in, and the copies between the two.
//
// A value is in the memory of the group that computes it. Where a group of the other side reads it, it gets a tensor of
// that memory, and a DMA command fills that as soon as the value is complete; who reads it later reads the same copy.
// Inputs of the model and constants are in both memories.
#include <algorithm>

#include "gbuilder/plan/planner.h"

namespace aipu::gbuilder {

using graph::Dim;
using graph::ValueId;

ExpressionId Planner::expr(const Dim& dim) {
  if (memory_ == Memory::kDevice) return plan_.expressions.add(dim);
  return plan_.expressions.add(dim.substitute([](const std::string& name) {
    return name == kernels::kTecCountSymbol ? std::optional(Dim::symbol(kHostTecCountSymbol)) : std::nullopt;
  }));
}

// `root` is no view.
bool Planner::is_on_host(ValueId root) const {
  const auto producer = producer_.find(root);
  return producer != producer_.end() && input_.groups[producer->second].group.target != 0;
}

Result<uint32_t> Planner::tensor_for(ValueId value, Memory memory) {
  const ValueMemory place = resolve(value);
  const graph::Value& root = graph_.value(place.root);
  const bool is_input = !root.producer.valid() && root.constant == nullptr;
  const bool is_everywhere = root.constant != nullptr || (is_input && !input_.is_body);
  const Memory home = is_on_host(place.root) ? Memory::kHost : Memory::kDevice;
  if (input_.host_target.empty() || is_everywhere || home == memory) return tensor_of(value);
  const Dim bytes = bytes_of(value);
  for (const Twin& twin : twins_[place.root]) {
    if (twin.offset == place.offset && twin.bytes == bytes) return twin.tensor;
  }
  AIPU_ASSIGN_OR_RETURN(const uint32_t source, tensor_of(value));
  const uint32_t tensor = add_tensor(graph_.value(value).name, graph_.type(value), TensorKind::kArena);
  plan_.tensors[tensor].memory = memory;
  twins_[place.root].push_back({place.offset, bytes, tensor});
  const size_t slot = slot_of(value);
  const ExpressionId zero = plan_.expressions.constant(0);
  Command command;
  command.origin = slot == 0 ? 0 : origin_of(input_.groups[order_[slot - 1]]);
  command.body = DmaBody{.destination = tensor,
                         .source = source,
                         .destination_offset = zero,
                         .source_offset = zero,
                         .width = plan_.tensors[tensor].size_bytes,
                         .times = plan_.expressions.constant(1),
                         .destination_stride = zero,
                         .source_stride = zero};
  slots_[slot].copies.push_back(std::move(command));
  return tensor;
}

// A launch or copy becomes a command of the host that does it.
void Planner::do_on_host(Command* command) {
  if (auto* tec = std::get_if<TecBody>(&command->body)) {
    plan_.host_launches.push_back(std::move(*tec));
    command->body = HostBody{.op = HostOp::kLaunch, .a = static_cast<uint32_t>(plan_.host_launches.size() - 1)};
  } else if (auto* dma = std::get_if<DmaBody>(&command->body)) {
    plan_.host_copies.push_back(*dma);
    command->body = HostBody{.op = HostOp::kCopy, .a = static_cast<uint32_t>(plan_.host_copies.size() - 1)};
  }
}

TecBody* Planner::launch_in(Command* command) {
  const auto* host = std::get_if<HostBody>(&command->body);
  if (host == nullptr) return std::get_if<TecBody>(&command->body);
  return host->op == HostOp::kLaunch ? &plan_.host_launches[host->a] : nullptr;
}

// What no command of the device reads need not be sent there. Reading a symbol works in both memories.
void Planner::keep_inputs_on_host() {
  if (input_.host_target.empty() || input_.is_body) return;
  for (const uint32_t input : plan_.inputs) plan_.tensors[input].memory = Memory::kHost;
  for (const Command& command : plan_.programs[0].commands) {
    const auto* host = std::get_if<HostBody>(&command.body);
    if (is_host_work(command) || (host != nullptr && host->op == HostOp::kBindSymbols)) continue;
    for (const Access& access : command_accesses(plan_, command)) {
      PlanTensor& root = plan_.tensors[root_tensor(plan_, access.tensor)];
      if (root.kind == TensorKind::kInput) root.memory = Memory::kDevice;
    }
  }
}

}  // namespace aipu::gbuilder
