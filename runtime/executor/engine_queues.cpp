// Engines side by side (SessionOptions::overlap): copies are played by a thread of their own, beside the kernels. Each
// engine takes its commands in order, and begins one when all that it waits for is done. That no two commands without
// an order between them touch the same memory is what the compiler has proved of the waits.
//
// This is done for stretches of commands between those of the host, which bind stages and run others, and batch loops,
// which have lanes instead. It is off unless asked for: on a CPU the engines share cores, memory and the threads that
// copies are spread over, so that a copy beside a kernel mostly takes from it what it gains. Measured on two CPUs
// (runtime/README.md): no model gained, and those of small kernels lost most, to the hand-overs between the threads.
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>

#include "runtime/base/guarded.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {
namespace {

constexpr int kSpins = 1000;  // before the CPU is given to others
constexpr size_t kQueues = 2;
static_assert(static_cast<size_t>(fb::Engine::kTec) == 0 && static_cast<size_t>(fb::Engine::kDma) == 1);

}  // namespace

struct Session::Impl::Stretch {
  Impl& session;
  uint32_t program;
  uint32_t first, end;  // positions
  StagePlan& plan;
  // Per engine: the command that is done next, by its index in the buffer.
  std::array<std::atomic<uint32_t>, kQueues> next = {};
  std::array<uint32_t, kQueues> failed_at = {};  // position, where there is an error
  std::atomic<bool> failed{false};

  // Whether it is done; else another queue has failed.
  bool wait_for(const fb::Wait& wait) const {
    if (wait.engine() == fb::Engine::kHost) return true;  // before the stretch
    const std::atomic<uint32_t>& done = next[static_cast<size_t>(wait.engine())];
    for (int spins = 0; done.load(std::memory_order_acquire) <= wait.command(); ++spins) {
      if (failed.load(std::memory_order_relaxed)) return false;
      if (spins >= kSpins) ::sched_yield();
    }
    return true;
  }

  Status play(size_t queue) {
    Lane& lane = session.queues[queue];
    const Context context = {plan.words.data(), 0, 0, 0, 1, lane.error, lane.fault, lane.events, queue != 0};
    for (uint32_t position = first; position < end; ++position) {
      const auto& command = session.state.tables.programs[program][position];
      if (static_cast<size_t>(command.engine) != queue) continue;
      bool ready = true;
      for_each_wait(session.root, program, command, [&](const fb::Wait& wait) { ready = ready && wait_for(wait); });
      if (!ready || failed.load(std::memory_order_relaxed)) return {};
      failed_at[queue] = position;
      AIPU_RETURN_IF_ERROR(session.run_command(program, command, plan, plan.steps[command.slot], context));
      next[queue].store(command.index + 1, std::memory_order_release);
    }
    return {};
  }
};

// Where the stretch ends that begins at `position`: there if only one engine has commands until then.
uint32_t Session::Impl::stretch_end(uint32_t program, uint32_t position, StagePlan& plan, bool* has_both) const {
  const auto& commands = state.tables.programs[program];
  std::array<bool, kQueues> has = {};
  uint32_t end = position;
  for (; end < commands.size(); ++end) {
    const auto& command = commands[end];
    if (command.stage != current_stage || command.engine == fb::Engine::kHost) break;
    if (program == 0 && plan.loop_with(end) != nullptr) break;
    has[static_cast<size_t>(command.engine)] = true;
  }
  *has_both = has[0] && has[1];
  return end;
}

Status Session::Impl::run_stretch(uint32_t program, uint32_t first, uint32_t end, StagePlan& plan) {
  Stretch stretch{*this, program, first, end, plan};
  for (uint32_t position = end; position-- > first;) {
    const auto& command = state.tables.programs[program][position];
    stretch.next[static_cast<size_t>(command.engine)] = command.index;
  }
  for (Lane& queue : queues) {
    queue.status = {};
    queue.events.clear();
  }
  beside->run(
      kQueues,
      [](void* argument, uint32_t queue) {
        Stretch& s = *static_cast<Stretch*>(argument);
        // On a thread of the pool, which no exception may leave.
        Status& status = s.session.queues[queue].status;
        status = guarded([&] { return s.play(queue); });
        if (!status.ok()) s.failed.store(true, std::memory_order_relaxed);
      },
      &stretch);
  const auto earlier = [](const TraceEvent& a, const TraceEvent& b) {
    return a.command->sequence < b.command->sequence;
  };
  std::merge(queues[0].events.begin(), queues[0].events.end(), queues[1].events.begin(), queues[1].events.end(),
             std::back_inserter(events), earlier);
  // Of two errors the one that playing in order would have met.
  size_t of = queues[0].status.ok() ? 1 : 0;
  if (!queues[0].status.ok() && !queues[1].status.ok()) of = stretch.failed_at[0] < stretch.failed_at[1] ? 0 : 1;
  return std::move(queues[of].status);
}

}  // namespace aipu::runtime
