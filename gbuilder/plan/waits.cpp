// Lifetimes and cross-engine waits, computed on the finished order of commands.
#include <algorithm>

#include "gbuilder/plan/planner.h"

namespace aipu::gbuilder {

namespace {

// How far each engine is known to have come: the number of its commands that are done.
using Clock = std::array<uint32_t, kEngineCount>;

void raise(Clock* clock, const Clock& other) {
  for (size_t e = 0; e < clock->size(); ++e) (*clock)[e] = std::max((*clock)[e], other[e]);
}

size_t engine_of(const Command& command) { return static_cast<size_t>(command.engine()); }

}  // namespace

std::vector<uint32_t> memory_of_tensors(const Plan& plan) {
  std::vector<uint32_t> memory(plan.tensors.size(), kNone);
  std::vector<uint32_t> chain;
  for (uint32_t t = 0; t < memory.size(); ++t) {
    uint32_t first = t;
    chain.clear();
    // A plan read from a file may have circles.
    while (memory[first] == kNone && plan.tensors[first].in_place_of < memory.size() && chain.size() <= memory.size()) {
      chain.push_back(first);
      first = plan.tensors[first].in_place_of;
    }
    if (memory[first] == kNone) memory[first] = first;
    for (const uint32_t link : chain) memory[link] = memory[first];
  }
  return memory;
}

void plan_lifetimes(Plan* plan) {
  for (const Command& command : plan->programs[0].commands) {
    for (const Access& access : command_accesses(*plan, command)) {
      PlanTensor& tensor = plan->tensors[root_tensor(*plan, access.tensor)];
      if (tensor.kind != TensorKind::kArena) continue;
      if (tensor.first_use == kNone) tensor.first_use = command.sequence;
      tensor.last_use = command.sequence;
    }
  }
}

void plan_waits(Plan* plan) {
  auto& commands = plan->programs[0].commands;
  const size_t tensor_count = plan->tensors.size();

  // Clocks here count commands that must be done; 0 asks for nothing.
  std::vector<Clock> users(tensor_count, Clock{});  // of arena tensors, by root: everything that touches them
  for (const Command& command : commands) {
    for (const Access& access : command_accesses(*plan, command)) {
      auto& count = users[root_tensor(*plan, access.tensor)][engine_of(command)];
      count = std::max(count, command.index + 1);
    }
  }
  // frontier[t]: the users of all arena tensors that died before t is born, whose memory t may get.
  std::vector<uint32_t> by_birth, by_death;
  for (uint32_t t = 0; t < tensor_count; ++t) {
    if (plan->tensors[t].kind == TensorKind::kArena && plan->tensors[t].first_use != kNone) by_birth.push_back(t);
  }
  by_death = by_birth;
  std::stable_sort(by_birth.begin(), by_birth.end(),
                   [&](uint32_t a, uint32_t b) { return plan->tensors[a].first_use < plan->tensors[b].first_use; });
  std::stable_sort(by_death.begin(), by_death.end(),
                   [&](uint32_t a, uint32_t b) { return plan->tensors[a].last_use < plan->tensors[b].last_use; });
  std::vector<Clock> frontier(tensor_count, Clock{});
  std::array<Clock, 2> dead{};  // by memory
  const auto dead_in_memory_of = [&](uint32_t t) { return &dead[static_cast<size_t>(plan->tensors[t].memory)]; };
  size_t died = 0;
  for (const uint32_t t : by_birth) {
    for (; died < by_death.size() && plan->tensors[by_death[died]].last_use < plan->tensors[t].first_use; ++died)
      raise(dead_in_memory_of(by_death[died]), users[by_death[died]]);
    frontier[t] = *dead_in_memory_of(t);
  }

  std::vector<Clock> writers(tensor_count, Clock{}), readers(tensor_count, Clock{});  // by memory
  Clock last_host_gate{};  // the last BindSymbols or Check so far: nothing may run ahead of it
  const std::vector<uint32_t> memories = memory_of_tensors(*plan);
  const auto memory_of = [&](uint32_t tensor) { return memories[root_tensor(*plan, tensor)]; };
  std::array<Clock, kEngineCount> known{};             // what engine e knows before its next command
  std::array<std::vector<Clock>, kEngineCount> after;  // what is known once command i of engine e is done
  for (Command& command : commands) {
    const size_t self = engine_of(command);
    Clock needed = last_host_gate;
    const auto accesses = command_accesses(*plan, command);
    for (const Access& access : accesses) {
      const uint32_t memory = memory_of(access.tensor);
      raise(&needed, writers[memory]);
      if (access.writes) raise(&needed, readers[memory]);
      raise(&needed, frontier[root_tensor(*plan, access.tensor)]);
    }
    for (const Access& access : accesses) {
      auto& clocks = access.writes ? writers : readers;
      clocks[memory_of(access.tensor)][self] = command.index + 1;
    }
    Clock& clock = known[self];
    command.waits.clear();
    for (size_t e = 0; e < kEngineCount; ++e) {
      if (e == self || needed[e] <= clock[e]) continue;
      bool implied = false;  // by another wait of this command
      for (size_t f = 0; f < kEngineCount && !implied; ++f) {
        implied = f != self && f != e && needed[f] > clock[f] && after[f][needed[f] - 1][e] >= needed[e];
      }
      if (!implied) command.waits.push_back({static_cast<Engine>(e), needed[e] - 1});
    }
    for (const CommandId& wait : command.waits) raise(&clock, after[static_cast<size_t>(wait.engine)][wait.index]);
    clock[self] = command.index + 1;
    after[self].push_back(clock);
    if (const auto* host = std::get_if<HostBody>(&command.body);
        host != nullptr && (host->op == HostOp::kBindSymbols || host->op == HostOp::kCheck)) {
      last_host_gate[self] = command.index + 1;
    }
  }
}

}  // namespace aipu::gbuilder
