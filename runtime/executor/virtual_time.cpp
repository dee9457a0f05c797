// What a run takes on a device, kept beside the run itself.
#include "runtime/executor/virtual_time.h"

#include "runtime/executor/session_impl.h"

namespace aipu::runtime {

void Session::Impl::open_virtual_time() {
  if (!options.cycles || copy_cycles(*state.backend, backend_session, 0, 0) < 0) return;
  own_time = std::make_unique<VirtualTime>();
  time = own_time.get();
}

Status Session::Impl::run_in_virtual_time(uint32_t program, const ModelTables::ScheduledCommand& command,
                                          StagePlan& plan, const Step& step, const Context& context,
                                          ::aipu::runtime::Call call, TraceEvent* event) {
  auto& ended = ends[program];
  int64_t ready = bound_at;
  for_each_wait(root, program, command, [&](const fb::Wait& wait) {
    ready = std::max(ready, ended[static_cast<size_t>(wait.engine())][wait.command()]);
  });
  const auto engine = static_cast<size_t>(command.engine);
  const int64_t start = time->start(engine, ready);
  int64_t end = start, cycles = 0;
  if (command.engine == fb::Engine::kHost) {
    const VirtualTime::Scope scope(*time, start);
    AIPU_RETURN_IF_ERROR(carry_out(program, command, plan, step, context, call, &event->threads));
    end = scope.end();
    if (items(items(root.programs())[program]->host())[command.index]->op() == fb::HostOp::kBindSymbols) bound_at = end;
  } else {
    call.cycles = &cycles;
    call.bytes = event->bytes;
    AIPU_RETURN_IF_ERROR(carry_out(program, command, plan, step, context, call, &event->threads));
    // Who needs no kernel gets zeros, a fill. A copy has its width and how often.
    const bool fills = command.engine == fb::Engine::kTec && step.left_out;
    if (fills) cycles = copy_cycles(*state.backend, backend_session, 1, call.bytes);
    if (command.engine == fb::Engine::kDma) {
      cycles = copy_cycles(*state.backend, backend_session, static_cast<int64_t>(call.words[3]),
                           static_cast<int64_t>(call.words[2]));
    }
    end = start + std::max<int64_t>(cycles, 0);
  }
  ended[engine][command.index] = end;
  time->finish(engine, end);
  event->start_cycles = start;
  event->cycles = end - start;
  return {};
}

}  // namespace aipu::runtime
