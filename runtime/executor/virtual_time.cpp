// What a run takes on a device, kept beside the run itself.
#include "runtime/executor/virtual_time.h"

#include "runtime/base/npu_timing.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {

void Session::Impl::open_virtual_time() {
  if (!options.cycles) return;
  if (device != nullptr ? !device->has_cycles() : copy_cycles(*state.backend, backend_session, 0, 0) < 0) return;
  const auto numbers = items(state.outermost->cost_figures());
  const auto figures =
      npu_timing::Figures::from(numbers.size() == 0 ? nullptr : numbers.vector->data(), numbers.size());
  own_time = std::make_unique<VirtualTime>(static_cast<int64_t>(figures.host));
  time = own_time.get();
}

// When a command can begin, by what it waits for.
int64_t Session::Impl::ready_at(uint32_t program, const ModelTables::ScheduledCommand& command) const {
  int64_t ready = bound_at;
  for_each_wait(root, program, command, [&](const fb::Wait& wait) {
    ready = std::max(ready, ends[program][static_cast<size_t>(wait.engine())][wait.command()]);
  });
  return time->start(static_cast<size_t>(command.engine), ready);
}

void Session::Impl::end_at(uint32_t program, const ModelTables::ScheduledCommand& command, int64_t start, int64_t end,
                           TraceEvent* event) {
  const auto engine = static_cast<size_t>(command.engine);
  ends[program][engine][command.index] = end;
  time->finish(engine, end);
  event->start_cycles = start;
  event->cycles.all = end - start;
}

// Of a copy, which computes nothing.
static CommandCycles copied(int64_t cycles) { return {cycles, 0, cycles}; }

Status Session::Impl::run_in_virtual_time(uint32_t program, const ModelTables::ScheduledCommand& command,
                                          StagePlan& plan, const Step& step, const Context& context,
                                          ::aipu::runtime::Call call, TraceEvent* event) {
  const int64_t start = ready_at(program, command);
  int64_t end = start;
  if (command.engine == fb::Engine::kHost) {
    const VirtualTime::Scope scope(*time, start + time->host_cycles());
    AIPU_RETURN_IF_ERROR(carry_out(program, command, plan, step, context, call, &event->threads));
    end = scope.end();
    if (items(items(root.programs())[program]->host())[command.index]->op() == fb::HostOp::kBindSymbols) bound_at = end;
  } else {
    call.cycles = &event->cycles;
    call.bytes = event->bytes;
    AIPU_RETURN_IF_ERROR(carry_out(program, command, plan, step, context, call, &event->threads));
    // Who needs no kernel gets zeros, a fill. A copy has its width and how often.
    const bool fills = command.engine == fb::Engine::kTec && step.left_out;
    if (fills) event->cycles = copied(copy_cycles(*state.backend, backend_session, 1, call.bytes));
    if (command.engine == fb::Engine::kDma) {
      event->cycles = copied(copy_cycles(*state.backend, backend_session, static_cast<int64_t>(call.words[3]),
                                         static_cast<int64_t>(call.words[2])));
    }
    end = start + std::max<int64_t>(event->cycles.all, 0);
  }
  end_at(program, command, start, end, event);
  return {};
}

}  // namespace aipu::runtime
