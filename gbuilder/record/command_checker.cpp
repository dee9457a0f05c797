#include "gbuilder/record/command_checker.h"

#include <algorithm>
#include <map>

#include "runtime/base/checked_math.h"

namespace aipu::gbuilder {

Status CommandChecker::fail(const Command& command, const std::string& problem) const {
  return internal_error(str_cat("command ", print_command(plan_, command), ": ", problem));
}

Status CommandChecker::check(const Command& command) {
  AIPU_RETURN_IF_ERROR(check_order(command));
  AIPU_RETURN_IF_ERROR(check_indices(command));
  AIPU_RETURN_IF_ERROR(check_memory(command));
  AIPU_RETURN_IF_ERROR(check_ranges(command));
  AIPU_RETURN_IF_ERROR(check_symbols(command));
  commands_.push_back(&command);
  return {};
}

Status CommandChecker::check_order(const Command& command) {
  const auto self = static_cast<size_t>(command.engine());
  if (!commands_.empty() && command.sequence <= commands_.back()->sequence) {
    return fail(command, str_cat("sequence does not rise: the command before has ", commands_.back()->sequence));
  }
  if (command.index != count_[self]) return fail(command, str_cat("is number ", count_[self], " of its engine"));
  Clock clock{};
  if (command.index > 0) clock = start_[self][command.index - 1];
  clock[self] = command.index;
  for (const CommandId& wait : command.waits) {
    const auto engine = static_cast<size_t>(wait.engine);
    if (engine >= kEngineCount || engine == self) return fail(command, "waits for its own engine");
    if (wait.index >= count_[engine])
      return fail(command,
                  str_cat("waits for ", engine_name(wait.engine), "[", wait.index, "], which does not come before it"));
    const Clock& other = start_[engine][wait.index];
    for (size_t e = 0; e < clock.size(); ++e) clock[e] = std::max(clock[e], other[e]);
    clock[engine] = std::max(clock[engine], wait.index + 1);
  }
  start_[self].push_back(clock);
  ++count_[self];
  return {};
}

Status CommandChecker::check_indices(const Command& command) const {
  if (command.origin >= plan_.origins.size()) return fail(command, "origin out of range");
  if (is_host_work(command) && launch_of(plan_, command) == nullptr && copy_of(plan_, command) == nullptr)
    return fail(command, "the host's work is out of range");
  if (const auto* tec = launch_of(plan_, command)) {
    if (tec->kernel >= plan_.kernels.size()) return fail(command, "kernel out of range");
    if ((tec->kernel >= plan_.first_host_kernel) != is_host_work(command))
      return fail(command, "launches a kernel of the other target");
    const PlanKernel& kernel = plan_.kernels[tec->kernel];
    if (tec->arguments.size() != kernel.argument_count)
      return fail(command, str_cat("the kernel has ", kernel.argument_count, " parameters"));
    for (size_t i = 0; i < tec->arguments.size(); ++i) {
      const bool pointer = tec->arguments[i].kind == PlanArgument::Kind::kTensor;
      if (i < kernel.pointer_arguments.size() && kernel.pointer_arguments[i] != pointer)
        return fail(command, str_cat("argument ", i, " is of the wrong kind"));
    }
    for (const PlanFault& fault : tec->faults) {
      if (fault.message >= plan_.strings.size() || fault.origin >= plan_.origins.size())
        return fail(command, "the message of a fault is out of range");
    }
  }
  if (const auto* host = std::get_if<HostBody>(&command.body)) {
    if (host->op == HostOp::kBindSymbols) {
      if (host->b == 0 || uint64_t{host->a} + host->b > plan_.symbols.size())
        return fail(command, "symbols out of range");
      for (uint32_t i = host->a; i < host->a + host->b; ++i) {
        if (plan_.symbols[i].kind != SymbolKind::kTensorElement)
          return fail(command, str_cat("binds '", plan_.symbols[i].name, "', which is no element of a tensor"));
      }
    }
    if ((runs_bodies(host->op) || host->op == HostOp::kFetch) && host->a >= plan_.calls.size())
      return fail(command, "call out of range");
    if (host->op == HostOp::kText && host->a >= plan_.text_calls.size())
      return fail(command, "operation on texts out of range");
    if (host->op == HostOp::kCheck && host->b >= plan_.strings.size()) return fail(command, "message out of range");
  }
  for (const Access& access : command_accesses(plan_, command)) {
    if (access.tensor >= plan_.tensors.size()) return fail(command, str_cat("tensor ", access.tensor, " out of range"));
    const PlanTensor& tensor = plan_.tensors[access.tensor];
    if (tensor.kind == TensorKind::kView &&
        (tensor.base >= plan_.tensors.size() || plan_.tensors[tensor.base].kind == TensorKind::kView)) {
      return fail(command, str_cat("'", tensor.name, "' is a view of a view or of nothing"));
    }
    const PlanTensor& root = plan_.tensors[root_tensor(plan_, access.tensor)];
    if (access.writes && (root.kind == TensorKind::kInput || root.kind == TensorKind::kConstant)) {
      return fail(command, str_cat("writes '", tensor.name, "', which is read-only"));
    }
    if (root.kind == TensorKind::kArena &&
        (command.sequence < root.first_use || command.sequence > root.last_use || root.first_use == kNone)) {
      return fail(command, str_cat("uses '", tensor.name, "' outside its life"));
    }
  }
  for (const ExpressionId id : command_expressions(plan_, command)) {
    if (id >= plan_.expressions.size()) return fail(command, str_cat("expression ", id, " out of range"));
  }
  return {};
}

// Nobody touches memory of the other side's, but to copy between the two.
Status CommandChecker::check_memory(const Command& command) const {
  const auto* host = std::get_if<HostBody>(&command.body);
  if (host != nullptr && host->op == HostOp::kBindSymbols) return {};
  const bool on_host = is_host_work(command), crosses = command.engine() == Engine::kDma;
  size_t host_ends = 0;
  for (const Access& access : command_accesses(plan_, command)) {
    const PlanTensor& root = plan_.tensors[root_tensor(plan_, access.tensor)];
    const bool is_there = root.memory == Memory::kHost;
    host_ends += is_there ? 1 : 0;
    if (crosses || is_there == on_host || (on_host && is_on_both(plan_, root))) continue;
    return fail(command, str_cat("uses '", plan_.tensors[access.tensor].name, "', which is in the ",
                                 is_there ? "host's memory" : "device's"));
  }
  if (crosses && host_ends == 2) return fail(command, "copies within the host's memory");
  return {};
}

// What can be said where the numbers are constant; the runtime checks the rest when the shapes are bound.
Status CommandChecker::check_ranges(const Command& command) const {
  const auto constant = [&](ExpressionId id) { return plan_.expressions.constant_value(id); };
  const auto inside = [&](uint32_t tensor, std::optional<int64_t> begin, std::optional<int64_t> bytes) {
    const auto size = constant(plan_.tensors[tensor].size_bytes);
    if (begin && *begin < 0) return false;
    if (!begin || !bytes || !size) return true;
    const auto end = checked_add(*begin, *bytes);
    return *bytes >= 0 && end && *end <= *size;
  };
  for (const Access& access : command_accesses(plan_, command)) {
    const PlanTensor& tensor = plan_.tensors[access.tensor];
    if (tensor.kind == TensorKind::kView &&
        !inside(tensor.base, constant(tensor.view_offset), constant(tensor.size_bytes))) {
      return fail(command,
                  str_cat("the view '", tensor.name, "' reaches beyond '", plan_.tensors[tensor.base].name, "'"));
    }
  }
  if (const auto* tec = launch_of(plan_, command)) {
    for (const PlanArgument& argument : tec->arguments) {
      if (argument.kind != PlanArgument::Kind::kTensor || constant(plan_.tensors[argument.index].size_bytes) == 0)
        continue;  // a part of nothing, which the runtime takes for its beginning
      if (!inside(argument.index, constant(argument.offset), 0)) {
        return fail(command, str_cat("an offset is beyond '", plan_.tensors[argument.index].name, "'"));
      }
    }
  }
  if (const auto* dma = copy_of(plan_, command)) {
    const auto width = constant(dma->width), times = constant(dma->times);
    const auto covered = [&](ExpressionId stride_id) -> std::optional<int64_t> {
      const auto stride = constant(stride_id);
      if (!width || !times || !stride || *stride < 0) return std::nullopt;
      if (*times <= 0 || *width == 0) return 0;
      const auto steps = checked_mul(*times - 1, *stride);
      return steps ? checked_add(*steps, *width) : std::nullopt;
    };
    if (width && *width < 0) return fail(command, "copies a negative number of bytes");
    if (width == 0 || times == 0) return {};  // nothing, wherever it would be
    if (!inside(dma->source, constant(dma->source_offset), covered(dma->source_stride)))
      return fail(command, "reads beyond its source");
    if (!inside(dma->destination, constant(dma->destination_offset), covered(dma->destination_stride)))
      return fail(command, "writes beyond its destination");
  }
  return {};
}

Status CommandChecker::check_symbols(const Command& command) {
  for (const ExpressionId id : command_expressions(plan_, command)) {
    for (const uint32_t symbol : plan_.expressions.symbols_of(id)) {
      if (symbol >= plan_.symbols.size()) return fail(command, "symbol out of range");
      if (plan_.symbols[symbol].kind == SymbolKind::kTensorElement && !bound_symbols_.contains(symbol)) {
        return fail(command, str_cat("uses '", plan_.symbols[symbol].name, "' before it is bound"));
      }
    }
  }
  // Whoever uses a symbol is ordered after the command that binds it. The host's commands come one after the other: the
  // last one stands for those before.
  const Clock& clock = start_[static_cast<size_t>(command.engine())][command.index];
  if (gate_ != nullptr && command.engine() != Engine::kHost &&
      clock[static_cast<size_t>(Engine::kHost)] <= gate_->index) {
    return fail(command, str_cat("runs ahead of ", print_command(plan_, *gate_)));
  }
  if (const auto* host = std::get_if<HostBody>(&command.body); host != nullptr && host->op == HostOp::kBindSymbols) {
    for (uint32_t i = host->a; i < host->a + host->b; ++i) bound_symbols_.insert(i);
  }
  if (const auto* host = std::get_if<HostBody>(&command.body);
      host != nullptr && (host->op == HostOp::kBindSymbols || host->op == HostOp::kCheck)) {
    gate_ = &command;
  }
  return {};
}

bool CommandChecker::ordered(const Command& before, const Command& after) const {
  return start_[static_cast<size_t>(after.engine())][after.index][static_cast<size_t>(before.engine())] > before.index;
}

Status CommandChecker::prove() {
  if (proved_) return {};
  proved_ = true;
  AIPU_RETURN_IF_ERROR(prove_hazards());
  return prove_reuse();
}

bool CommandChecker::starts_after(const Command& command, const Clock& done) const {
  const Clock& clock = start_[static_cast<size_t>(command.engine())][command.index];
  for (size_t e = 0; e < done.size(); ++e) {
    if (clock[e] < done[e]) return false;
  }
  return true;
}

void CommandChecker::raise(Clock* done, const Command& command) {
  uint32_t& count = (*done)[static_cast<size_t>(command.engine())];
  count = std::max(count, command.index + 1);
}

Status CommandChecker::prove_hazards() const {
  struct Use {
    const Command* command;
    bool writes;
  };
  const std::vector<uint32_t> memories = memory_of_tensors(plan_);
  std::map<uint32_t, std::vector<Use>> uses;  // by memory
  for (const Command* command : commands_) {
    for (const Access& access : command_accesses(plan_, *command)) {
      std::vector<Use>& list = uses[memories[root_tensor(plan_, access.tensor)]];
      if (!list.empty() && list.back().command == command) {
        list.back().writes = list.back().writes || access.writes;
      } else {
        list.push_back({command, access.writes});
      }
    }
  }
  for (const auto& [memory, list] : uses) {
    Clock read{}, written{};  // everything before
    for (size_t later = 0; later < list.size(); ++later) {
      const Use& use = list[later];
      if (!starts_after(*use.command, written) || (use.writes && !starts_after(*use.command, read))) {
        for (size_t earlier = 0; earlier < later; ++earlier) {
          if ((!use.writes && !list[earlier].writes) || ordered(*list[earlier].command, *use.command)) continue;
          return fail(*use.command, str_cat("does not wait for ", print_command(plan_, *list[earlier].command),
                                            ", which uses '", plan_.tensors[memory].name, "' too"));
        }
      }
      raise(use.writes ? &written : &read, *use.command);
    }
  }
  return {};
}

Status CommandChecker::prove_reuse() const {
  std::map<uint32_t, std::vector<const Command*>> users;  // of arena tensors
  for (const Command* command : commands_) {
    for (const Access& access : command_accesses(plan_, *command)) {
      const uint32_t root = root_tensor(plan_, access.tensor);
      if (plan_.tensors[root].kind == TensorKind::kArena) users[root].push_back(command);
    }
  }
  std::vector<uint32_t> by_birth, by_death;
  for (const auto& [tensor, list] : users) by_birth.push_back(tensor);
  by_death = by_birth;
  std::sort(by_birth.begin(), by_birth.end(),
            [&](uint32_t a, uint32_t b) { return plan_.tensors[a].first_use < plan_.tensors[b].first_use; });
  std::sort(by_death.begin(), by_death.end(),
            [&](uint32_t a, uint32_t b) { return plan_.tensors[a].last_use < plan_.tensors[b].last_use; });
  const auto memory_of = [&](uint32_t tensor) { return static_cast<size_t>(plan_.tensors[tensor].memory); };
  std::array<Clock, 2> dead{};  // by memory: the users of all tensors that died before
  size_t died = 0;
  for (const uint32_t tensor : by_birth) {
    while (died < by_death.size() && plan_.tensors[by_death[died]].last_use < plan_.tensors[tensor].first_use) {
      for (const Command* command : users[by_death[died]]) raise(&dead[memory_of(by_death[died])], *command);
      ++died;
    }
    for (const Command* after : users[tensor]) {
      if (starts_after(*after, dead[memory_of(tensor)])) continue;
      for (size_t k = 0; k < died; ++k) {
        if (memory_of(by_death[k]) != memory_of(tensor)) continue;
        for (const Command* before : users[by_death[k]]) {
          if (ordered(*before, *after)) continue;
          return fail(*after, str_cat("does not wait for ", print_command(plan_, *before), ", although '",
                                      plan_.tensors[tensor].name, "' may get the memory of '",
                                      plan_.tensors[by_death[k]].name, "'"));
        }
      }
    }
  }
  return {};
}

Status check_program(const Plan& plan, const Program& program) {
  CommandChecker checker(plan);
  for (const Command& command : program.commands) AIPU_RETURN_IF_ERROR(checker.check(command));
  return checker.prove();
}

}  // namespace aipu::gbuilder
