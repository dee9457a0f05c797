// Plays the commands of a run, in order or a batch loop's sample by sample.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/base/guarded.h"
#include "runtime/base/meter.h"
#include "runtime/executor/running_kernel.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {
namespace {

// What a command that is left out gives: the same in every run.
void write_zeros(const Call& call) {
  for (uint32_t i = 0; i < call.step.word_count; ++i) {
    if (call.writable[i] != 0) std::memset(reinterpret_cast<void*>(call.words[i]), 0, call.extents[i]);
  }
}

}  // namespace

int64_t Session::Impl::bytes_of(uint32_t program, const ModelTables::ScheduledCommand& command,
                                const ::aipu::runtime::Call& call) const {
  if (command.engine == fb::Engine::kDma) return 2 * static_cast<int64_t>(call.words[2] * call.words[3]);
  if (!launch_row(root, program, command)) return 0;
  int64_t bytes = 0;
  for (uint32_t i = 0; i < call.step.word_count; ++i) {
    const bool seen =
        std::any_of(call.words, call.words + i, [&](unsigned long long word) { return word == call.words[i]; });
    if (call.extents[i] != 0 && !seen) bytes += static_cast<int64_t>(call.extents[i]);
  }
  return bytes;
}

Status Session::Impl::run_program(uint32_t program) {
  if (on_device != nullptr) return run_on_device(program);
  const auto& commands = state.tables.programs[program];
  uint32_t alone_until = 0;  // a position: only one engine has commands before it
  for (uint32_t position = 0; position < commands.size(); ++position) {
    const auto& command = commands[position];
    if (command.stage != current_stage) AIPU_RETURN_IF_ERROR(activate(command.stage));
    StagePlan& plan = *active[command.stage];
    StagePlan::Loop* loop = program == 0 ? plan.loop_with(position) : nullptr;
    if (beside != nullptr && position >= alone_until) {
      bool has_both = false;
      const uint32_t end = stretch_end(program, position, plan, &has_both);
      if (has_both) {
        AIPU_RETURN_IF_ERROR(run_stretch(program, position, end, plan));
        position = end - 1;
        continue;
      }
      alone_until = end;
    }
    if (loop != nullptr) {
      AIPU_RETURN_IF_ERROR(run_loop(plan, *loop));
      position = loop->last;
    } else {
      AIPU_RETURN_IF_ERROR(run_command(program, command, plan, plan.steps[command.slot],
                                       {plan.words.data(), 0, 0, 0, 1, backend_error, fault, events}));
    }
  }
  return {};
}

Status Session::Impl::run_loop(StagePlan& plan, StagePlan::Loop& loop) {
  for (Lane& lane : lanes) {
    lane.status = {};
    lane.events.clear();
  }
  struct Samples {
    Impl& session;
    StagePlan& plan;
    StagePlan::Loop& loop;
    std::atomic<int64_t> next_sample{0};
  } run{*this, plan, loop};
  const auto body = [](void* argument, uint32_t lane) {
    Samples& r = *static_cast<Samples*>(argument);
    // On a thread of the pool, which no exception may leave.
    Status& status = r.session.lanes[lane].status;
    status = guarded([&] { return r.session.run_lane(r.plan, r.loop, lane, r.next_sample); });
    if (!status.ok()) r.next_sample = r.loop.samples;
  };
  if (loop.lanes == 1) {
    body(&run, 0);
  } else {
    pool->run_independent(loop.lanes, body, &run);
  }
  if (options.profile) {
    // By sample, which is how they would have come one after the other; a lane has its samples in ascending order.
    size_t left = 0;
    for (const Lane& lane : lanes) left += lane.events.size();
    std::vector<size_t> taken(lanes.size());
    for (uint32_t sample = 0; left > 0; ++sample) {
      for (size_t l = 0; l < lanes.size(); ++l) {
        const std::vector<TraceEvent>& own = lanes[l].events;
        for (; taken[l] < own.size() && own[taken[l]].sample == sample; --left) events.push_back(own[taken[l]++]);
      }
    }
  }
  for (Lane& lane : lanes) AIPU_RETURN_IF_ERROR(std::move(lane.status));
  return {};
}

Status Session::Impl::run_lane(StagePlan& plan, StagePlan::Loop& loop, uint32_t lane,
                               std::atomic<int64_t>& next_sample) {
  std::vector<unsigned long long>& words = loop.lane_words[lane];
  std::copy_n(plan.words.begin() + loop.first_word, loop.word_count, words.begin());
  const auto advance = [&](const std::vector<StagePlan::Loop::Stride>& strides, int64_t count) {
    for (const auto& stride : strides) words[stride.word] += static_cast<unsigned long long>(stride.bytes * count);
  };
  advance(loop.lane_strides, lane);
  int64_t at = 0;
  std::optional<VirtualTime::Scope> samples;
  if (time != nullptr) samples.emplace(*time, 0);
  for (int64_t sample = next_sample++; sample < loop.samples; sample = next_sample++) {
    advance(loop.sample_strides, sample - at);
    at = sample;
    if (samples && sample > 0) time->barrier();
    const Context context = {
        words.data(),      loop.first_word,   static_cast<uint32_t>(sample), lane, loop.lanes, lanes[lane].error,
        lanes[lane].fault, lanes[lane].events};
    const Step* step = loop.steps.data();
    for (uint32_t position = loop.first; position <= loop.last; ++position, ++step) {
      Status status = run_command(0, state.tables.programs[0][position], plan, *step, context);
      if (!status.ok()) {
        next_sample = loop.samples;
        return status;
      }
    }
  }
  return {};
}

Call Session::Impl::call_of(const StagePlan& plan, const Step& step, const unsigned long long* words,
                            aipu_fault_record* to) const {
  return {step,
          words,
          plan.extents.data() + step.first_word,
          plan.writable.data() + step.first_word,
          to,
          kernel_memory_limit(),
          deadline_ns};
}

Status Session::Impl::run_command(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan,
                                  const Step& step, const Context& context) {
  if (step.error != Step::kFine) return Status(plan.errors[step.error]).context(command_text(state, program, command));
  AIPU_RETURN_IF_ERROR(check_time());
  const Call call = call_of(plan, step, context.words + (step.first_word - context.first_word), &context.fault);
  uint32_t threads = 1;
  if (!options.profile && time == nullptr) return carry_out(program, command, plan, step, context, call, &threads);
  TraceEvent event = {&state, program, &command, context.sample, context.lanes, threads, 0, 0, 0, 0, context.lane};
  const ProfileCounters& counters = options.counters;
  const bool is_counted = counters.count > 0 && context.lanes == 1 && !options.overlap;
  if (is_counted) counters.read(counters.self, event.counts.data());
  if (options.profile) event.start_ns = steady_now_ns() - profile_start_ns;
  event.operations = step.operations;
  event.bytes = bytes_of(program, command, call);
  AIPU_RETURN_IF_ERROR(time != nullptr ? run_in_virtual_time(program, command, plan, step, context, call, &event)
                                       : carry_out(program, command, plan, step, context, call, &event.threads));
  if (!options.profile) return {};
  event.duration_ns = steady_now_ns() - profile_start_ns - event.start_ns;
  if (is_counted) end_counts(&event);
  context.events.push_back(event);
  return {};
}

void Session::Impl::end_counts(TraceEvent* event) const {
  std::array<int64_t, ProfileCounters::kMost> now = {};
  options.counters.read(options.counters.self, now.data());
  event->count_count = options.counters.count;
  for (uint32_t i = 0; i < event->count_count; ++i) event->counts[i] = now[i] - event->counts[i];
}

Status Session::Impl::carry_out(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan,
                                const Step& step, const Context& context, const Call& call, uint32_t* threads) {
  switch (command.engine) {
    case fb::Engine::kTec:
      return launch({*state.backend, backend_session}, program, command, step, context, call, threads);
    case fb::Engine::kDma:
      *threads = run_dma(context.lanes > 1 || context.is_beside ? nullptr : pool.get(), call);
      if (options.inspect) return show_written(program, command, step, call);
      break;
    case fb::Engine::kHost:
      AIPU_RETURN_IF_ERROR(run_host(program, command, plan, step));
      break;
  }
  return {};
}

Status Session::Impl::launch(Launcher launcher, uint32_t program, const ModelTables::ScheduledCommand& command,
                             const Step& step, const Context& context, const Call& call, uint32_t* threads) {
  if (step.left_out) {
    write_zeros(call);
    return {};
  }
  const bool alone = context.lanes > 1;
  const RunningKernel running = {&state, &*launch_row(root, program, command)};
  const RunningScope scope(&running);
  const int code = alone ? run_tec_alone(launcher.backend, launcher.session, call, context.lane, &context.error)
                         : run_tec(launcher.backend, launcher.session, call, &context.error);
  if (context.fault.code != 0) AIPU_RETURN_IF_ERROR(fault_status(program, command, std::exchange(context.fault, {})));
  if (code != 0) {
    Status status(static_cast<ErrorCode>(code), context.error.message);
    if (Status late = check_time(); !late.ok()) status = std::move(late);
    return std::move(status).context(command_text(state, program, command));
  }
  if (!alone) *threads = std::min(step.max_tecs, launcher.backend.tec_count(launcher.session));
  return options.inspect ? show_written(program, command, step, call) : Status();
}

// kLaunch, kCopy: by the session's workers, in the host's memory.
Status Session::Impl::run_host_work(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan,
                                    const Step& step) {
  const unsigned long long* const words = plan.words.data() + step.first_word;
  const Call call = call_of(plan, step, words, &fault);
  if (!launch_row(root, program, command)) {
    run_dma(pool.get(), call);
    return {};
  }
  uint32_t threads = 1;
  const Context context = {words, step.first_word, 0, 0, 1, backend_error, fault, events};
  const Launcher launcher = host_session != nullptr ? Launcher{*state.whole->host_kernels.backend, host_session}
                                                    : Launcher{*state.backend, backend_session};
  return launch(launcher, program, command, step, context, call, &threads);
}

Status Session::Impl::run_host(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan,
                               const Step& step) {
  const fb::HostCommand& host = *items(items(root.programs())[program]->host())[command.index];
  switch (host.op()) {
    case fb::HostOp::kBindSymbols:
      return bind_run_symbols(host, plan, step);
    case fb::HostOp::kCheck:
      if (plan.words[step.first_word] != 0) return {};
      return check_status(state, values_now(), program, command);
    case fb::HostOp::kIf: {
      uint8_t condition = 0;
      AIPU_RETURN_IF_ERROR(get(&condition, reinterpret_cast<const void*>(plan.words[step.first_word]), 1));
      return run_program(condition != 0 ? host.b() : host.c());  // nesting is bounded by kMaxProgramDepth
    }
    case fb::HostOp::kLoop:
    case fb::HostOp::kScan:
    case fb::HostOp::kBranch:
      return run_call(host, plan, step);
    case fb::HostOp::kFetch:
      return fetch(host, plan, step);
    case fb::HostOp::kText:
      return run_text(host, plan, step);
    case fb::HostOp::kLaunch:
    case fb::HostOp::kCopy:
      return run_host_work(program, command, plan, step);
  }
  return internal_error("a host command that check_model() refuses has been reached");
}

}  // namespace aipu::runtime
