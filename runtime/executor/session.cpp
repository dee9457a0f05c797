#include "runtime/session.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "runtime/base/checked_math.h"
#include "runtime/base/fault.h"
#include "runtime/base/guarded.h"
#include "runtime/base/meter.h"
#include "runtime/executor/run_queue.h"
#include "runtime/executor/running_kernel.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {
namespace {

int64_t machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(pages) * page;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What a command that is left out gives: the same in every run.
void write_zeros(const Call& call) {
  for (uint32_t i = 0; i < call.step.word_count; ++i) {
    if (call.writable[i] != 0) std::memset(reinterpret_cast<void*>(call.words[i]), 0, call.extents[i]);
  }
}

// Kernels get an address for an empty tensor too.
alignas(64) std::byte nothing[64];

}  // namespace

Session::Impl::~Impl() {
  if (parent != nullptr) return;
  if (host_session != nullptr) state.whole->host_kernels.backend->close(host_session);
  if (backend_session != nullptr) state.backend->close(backend_session);
}

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

Status Session::Impl::open() {
  if (options.cycles && options.overlap)
    return invalid_argument(
        "SessionOptions::cycles keeps virtual time while one command is played after the other; it cannot go together "
        "with SessionOptions::overlap");
  pool =
      options.pool ? options.pool : std::make_shared<WorkerPool>(static_cast<uint32_t>(std::max(options.threads, 0)));
  if (options.memory_limit_bytes <= 0) {
    const bool survives = (state.capabilities & AIPU_BACKEND_CHECKS_BOUNDS) != 0;
    options.memory_limit_bytes = survives ? kUntrustedBytes : machine_memory();
  }
  options.plan_cache = std::max(options.plan_cache, 1);
  if (state.has_strings) {
    own_strings = std::make_unique<StringPool>(root);
    strings = own_strings.get();
    held_bytes += strings->bytes();
  }
  open_services();
  AIPU_RETURN_IF_ERROR(open_host_kernels());
  if (device != nullptr) return open_on_device();
  const int code = state.backend->open(state.module, &services, &backend_session, &backend_error);
  if (code != 0)
    return Status(static_cast<ErrorCode>(code),
                  str_cat("back end '", state.backend_name, "': ", backend_error.message));

  tecs = state.backend->tec_count(backend_session);
  if (host_session == nullptr) host_tecs = tecs;
  open_virtual_time();
  if (options.overlap && time == nullptr) {
    own_beside = std::make_unique<WorkerPool>(2);
    if (own_beside->size() == 2) beside = own_beside.get();  // else there is one CPU
  }
  // Samples side by side would share the clocks.
  lanes.resize(can_launch_alone(*state.backend) && time == nullptr ? std::min(tecs, pool->size()) : 1);
  open_tables();
  return {};
}

void Session::Impl::open_services() {
  services.self = pool.get();
  services.worker_count = pool->size();
  // In what was padding, so that back ends of before find the rest where it was.
  static_assert(offsetof(aipu_backend_services, run) == sizeof(void*) + 2 * sizeof(uint32_t));
  services.struct_bytes = sizeof services;
  services.run = [](void* self, uint32_t count, void (*body)(void*, uint32_t), void* argument) {
    static_cast<WorkerPool*>(self)->run(count, body, argument);
  };
  services.run_independent = [](void* self, uint32_t count, void (*body)(void*, uint32_t), void* argument) {
    static_cast<WorkerPool*>(self)->run_independent(count, body, argument);
  };
  services.print = [](void*, const char* text, size_t size) { std::fwrite(text, 1, size, stdout); };
  services.running = [](void*) { return static_cast<const void*>(running_kernel); };
  services.run_as = [](void*, const void* running) { running_kernel = static_cast<const RunningKernel*>(running); };
}

Status Session::Impl::open_host_kernels() {
  const detail::HostKernels& host = state.whole->host_kernels;
  if (host.backend == nullptr) return {};
  const int code = host.backend->open(host.module, &services, &host_session, &backend_error);
  if (code != 0) return Status(static_cast<ErrorCode>(code), backend_error.message).context("the host's part");
  host_tecs = host.backend->tec_count(host_session);
  return {};
}

void Session::Impl::open_tables() {
  if (time != nullptr) {
    for (uint32_t p = 0; p < state.tables.programs.size(); ++p) {
      const fb::Program& buffers = *items(root.programs())[p];
      ends.emplace_back();
      ends.back()[static_cast<size_t>(fb::Engine::kTec)].resize(items(buffers.tec()).size());
      ends.back()[static_cast<size_t>(fb::Engine::kDma)].resize(items(buffers.dma()).size());
      ends.back()[static_cast<size_t>(fb::Engine::kHost)].resize(items(buffers.host()).size());
    }
  }
  inputs.resize(state.inputs.size());
  outputs.resize(state.outputs.size());
  if (is_staged()) staged_inputs.resize(inputs.size());
  if (device != nullptr) open_device_tables();
  const uint32_t stages = state.tables.stage_count;
  layout = {static_cast<uint32_t>(inputs.size()), static_cast<uint32_t>(outputs.size()), stages};
  roots.assign(layout.count(), nullptr);
  roots[layout.constants()] = const_cast<std::byte*>(state.constants);
  roots[layout.host_constants()] =
      const_cast<std::byte*>(state.whole->file->section(fb::SectionKind::kConstants).data());
  arenas.resize(stages);
  host_arenas.resize(stages);
  plans.resize(stages);
  active.assign(stages, nullptr);
  const auto all_symbols = items(root.symbols());
  symbols.resize(all_symbols.size());
  for (uint32_t i = 0; i < all_symbols.size(); ++i) {
    if (all_symbols[i]->kind() == fb::SymbolKind::kTensorElement) run_symbols.push_back(i);
  }
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].shape.resize(state.outputs[i].shape.size());
  const auto all_calls = items(root.calls());
  for (uint32_t i = 0; i < all_calls.size(); ++i) {
    CallState& call = calls.emplace_back();
    const auto bodies = items(all_calls[i]->bodies());
    for (uint32_t b = 0; b < bodies.size(); ++b) {
      call.bodies.push_back(std::make_unique<Impl>(*this, *state.bodies[bodies[b]]));
      call.bodies.back()->lanes.resize(lanes.size());
      call.bodies.back()->open_tables();
    }
  }
}

// Gives the symbols that are known before a run their values, and checks the inputs' extents against what the model
// says.
Status Session::Impl::bind_shapes() {
  const auto input_tensors = items(root.inputs());
  const auto tensors = items(root.tensors());
  const auto all_symbols = items(root.symbols());
  for (uint32_t s = 0; s < all_symbols.size(); ++s) {
    symbols[s] = {};
    if (all_symbols[s]->kind() == fb::SymbolKind::kGiven) symbols[s] = {given[all_symbols[s]->index()], true};
    if (all_symbols[s]->kind() == fb::SymbolKind::kTecCount) {
      symbols[s] = {std::max<int64_t>(1, tecs), true};
    }
    if (all_symbols[s]->kind() == fb::SymbolKind::kHostTecCount) symbols[s] = {std::max<int64_t>(1, host_tecs), true};
    if (all_symbols[s]->kind() != fb::SymbolKind::kInputExtent) continue;
    const Input& input = inputs[state.tables.input_of_tensor[all_symbols[s]->tensor()]];
    symbols[s] = {input.shape[all_symbols[s]->index()], true};
  }
  const ExpressionValues values = values_now();
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    const auto shape = items(tensors[input_tensors[i]]->shape());
    for (uint32_t axis = 0; axis < shape.size(); ++axis) {
      const std::string where =
          str_cat("input '", state.inputs[i].name, "' ", shape_text(inputs[i].shape), ", axis ", axis);
      if (!values.has_value(shape[axis])) return values.error(shape[axis]).context(where);
      const int64_t expected = values.value_or_zero(shape[axis]);
      const int64_t found = inputs[i].shape[axis];
      if (expected == found) continue;
      std::string why;
      const fb::Expression& extent = *items(root.expressions())[shape[axis]];
      if (extent.op() == fb::ExpressionOp::kSymbol && all_symbols[extent.a()]->kind() == fb::SymbolKind::kInputExtent) {
        const fb::Symbol& symbol = *all_symbols[extent.a()];
        why = str_cat(" (", text(symbol.name()), ", as axis ", symbol.index(), " of input '",
                      text(tensors[symbol.tensor()]->name()), "')");
      }
      return invalid_argument(str_cat(where, ": expected ", expected, why, ", found ", found));
    }
  }
  return {};
}

// The caller's memory for an output, once its size is known, must be nobody else's.
Status Session::Impl::check_overlaps(size_t index) const {
  const Output& output = outputs[index];
  const BoundMemory memory = {"output", state.outputs[index], output.data, output.size};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorSpec& spec = state.inputs[i];
    AIPU_RETURN_IF_ERROR(check_overlap(memory, {"input", spec, inputs[i].data, inputs[i].bytes(spec.dtype)}));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& other = outputs[i];
    if (i != index && other.known)
      AIPU_RETURN_IF_ERROR(check_overlap(memory, {"output", state.outputs[i], other.data, other.size}));
  }
  return {};
}

// Everything before the first command.
Status Session::Impl::begin() {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].bound)
      return invalid_argument(
          str_cat("input '", state.inputs[i].name, "' has no value; the model takes ", state.inputs[i].text()));
  }
  if (shapes_changed) {
    for (Output& output : outputs) output.known = false;
    std::fill(active.begin(), active.end(), nullptr);
    AIPU_RETURN_IF_ERROR(bind_shapes());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    // An output whose size depends on data is unknown again until it has been computed.
    if (state.tables.tensor_stage[items(root.outputs())[static_cast<uint32_t>(i)]] > 0) outputs[i].known = false;
  }
  for (const uint32_t s : run_symbols) symbols[s] = {};
  if (own_strings != nullptr) AIPU_RETURN_IF_ERROR(number_inputs());
  if (stages_pieces()) AIPU_RETURN_IF_ERROR(stage_pieces());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const void* data = inputs[i].memory() == nullptr ? nothing : inputs[i].memory();
    const auto input = static_cast<uint32_t>(i);
    roots[layout.input(input)] = roots[layout.host_input(input)] = static_cast<std::byte*>(const_cast<void*>(data));
    if (!is_staged_input(input)) continue;
    const int64_t bytes = inputs[i].bytes(state.inputs[i].dtype);
    const bool has_piece = stages_pieces() && bytes > 0;
    AIPU_RETURN_IF_ERROR(hold(staged_inputs[i], has_piece ? 0 : bytes));
    roots[layout.input(input)] = has_piece ? on_piece(data) : staged_inputs[i].data();
  }
  current_stage = 0;
  bound_at = 0;
  stages_evaluated = 0;
  for (uint32_t stage = 1; stage < active.size(); ++stage) active[stage] = nullptr;
  AIPU_RETURN_IF_ERROR(activate(0));
  shapes_changed = false;
  return {};
}

// Each expression is evaluated once in a run, in the stage that gives the last of its symbols a value; not at all where
// all plans are known.
const ExpressionValues& Session::Impl::values_until(uint32_t stage) {
  if (stages_evaluated == 0) values.start(root);
  for (; stages_evaluated <= stage; ++stages_evaluated)
    values.evaluate(state.tables.stage_expressions[stages_evaluated], symbols);
  return values;
}

// Finds or makes the plan of a stage for the present values of the symbols, and has memory for it.
Status Session::Impl::activate(uint32_t stage) {
  auto& cached = plans[stage];
  const auto last = std::find_if(active.rend() - stage, active.rend(), [](const StagePlan* plan) { return plan; });
  const uint64_t after = last == active.rend() ? 0 : (*last)->id;
  const auto& known = state.tables.stage_symbols[stage];  // what was known before is what plan `after` is for
  const auto fits = [&](const std::unique_ptr<StagePlan>& plan) {
    return plan->after == after &&
           std::equal(known.begin(), known.end(), plan->symbols.begin(), plan->symbols.end(),
                      [&](uint32_t s, const SymbolValue& value) { return symbols[s] == value; });
  };
  const auto found = std::find_if(cached.begin(), cached.end(), fits);
  if (found != cached.end()) {
    std::rotate(cached.begin(), found, found + 1);
  } else {
    Meter meter("the plan for these shapes",
                options.plan_budget.bytes > 0 ? options.plan_budget.bytes : kUntrustedBytes,
                "--plan-memory-limit, SessionOptions::plan_budget", options.plan_budget.seconds,
                "--plan-time-limit, SessionOptions::plan_budget");
    AIPU_ASSIGN_OR_RETURN(std::unique_ptr<StagePlan> plan,
                          make_stage_plan(state, stage, symbols, values_until(stage), std::span(active).first(stage),
                                          options.memory_limit_bytes, static_cast<uint32_t>(lanes.size()), meter));
    plan->id = ++last_plan_id;
    plan->after = after;
    if (cached.size() >= static_cast<size_t>(options.plan_cache)) {
      held_bytes -= cached.back()->bytes;
      cached.pop_back();
    }
    AIPU_RETURN_IF_ERROR(hold_more(plan->bytes));
    cached.insert(cached.begin(), std::move(plan));
    held_bytes += cached.front()->bytes;
  }
  StagePlan& plan = *cached.front();
  active[stage] = &plan;
  current_stage = stage;
  AIPU_RETURN_IF_ERROR(hold(arenas[stage], plan.arena_bytes));
  roots[layout.arena(stage)] = arenas[stage].data();
  if (plan.host_arena_bytes > 0) {
    AIPU_RETURN_IF_ERROR(hold(host_arenas[stage], plan.host_arena_bytes, nullptr));
    roots[layout.host_arena(stage)] = host_arenas[stage].data();
  }
  for (const auto& [index, size, shape] : plan.outputs) {
    Output& output = outputs[index];
    output.shape.assign(shape.begin(), shape.end());
    output.size = size;
    output.known = true;
    if (output.data != nullptr) {
      AIPU_RETURN_IF_ERROR(check_capacity(state.outputs[index], output.shape, size, output.capacity));
      if (!options.arguments_of_a_kernel) AIPU_RETURN_IF_ERROR(check_overlaps(index));
      output.result = static_cast<std::byte*>(output.data);
    } else {
      AIPU_RETURN_IF_ERROR(hold(output.own, size, is_staged() ? nullptr : device));
      output.result = output.own.data();
    }
    const bool has_piece = stages_pieces() && output.data != nullptr && size > 0;
    const bool is_elsewhere = is_staged_output(index);
    if (is_elsewhere) AIPU_RETURN_IF_ERROR(hold(output.staged, has_piece ? 0 : size));
    roots[layout.output(index)] = has_piece      ? on_piece(output.data)
                                  : is_elsewhere ? output.staged.data()
                                                 : output.result;
  }
  plan.patch(roots);
  return {};
}

Status Session::Impl::hold_more(int64_t bytes) const {
  if (bytes <= options.memory_limit_bytes - held_bytes) return {};
  return out_of_range(str_cat("this run needs ", checked_add(held_bytes, bytes).value_or(INT64_MAX),
                              " bytes of memory; the limit is ", options.memory_limit_bytes,
                              " (--run-memory-limit, SessionOptions::memory_limit_bytes)"));
}

// Has at least so much memory in the buffer.
Status Session::Impl::hold(TensorBuffer& buffer, int64_t bytes, Device* where) {
  const int64_t before = buffer.size();
  if (bytes > before) AIPU_RETURN_IF_ERROR(hold_more(bytes - before));
  Status status = buffer.reserve(bytes, where);
  held_bytes += buffer.size() - before;
  return status;
}

Status Session::Impl::check_time() const {
  if (deadline_ns == Meter::kNoLimit || steady_now_ns() < deadline_ns) return {};
  return out_of_range(str_cat("the run takes longer than ", Meter::text_of(options.run_seconds),
                              " s; raise the limit (--run-time-limit, SessionOptions::run_seconds) if it is to go on"));
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
    // By sample, which is how they would have come one after the other.
    // A lane has its samples in ascending order.
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
  if (options.profile) event.start_ns = now_ns() - profile_start_ns;
  event.operations = step.operations;
  event.bytes = bytes_of(program, command, call);
  AIPU_RETURN_IF_ERROR(time != nullptr ? run_in_virtual_time(program, command, plan, step, context, call, &event)
                                       : carry_out(program, command, plan, step, context, call, &event.threads));
  if (!options.profile) return {};
  event.duration_ns = now_ns() - profile_start_ns - event.start_ns;
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
  return {};
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

// The one way a run ends early for the sake of the data: says which node of the model cannot do what with which value.
Status Session::Impl::fault_status(uint32_t program, const ModelTables::ScheduledCommand& command,
                                   const aipu_fault_record& found) const {
  ExpressionValues values;
  values.evaluate(root, symbols);
  const LaunchRow launch = launch_row(root, program, command);
  const auto faults = items(launch.rows->faults());
  for (uint32_t i = 0; i < faults.size(); ++i) {
    const fb::Fault& row = *faults[i];
    if (row.command() != launch.index || 1 + int64_t{row.code()} != found.code) continue;
    if (row.needed() != kNone && values.has_value(row.needed()) && values.value_or_zero(row.needed()) == 0) return {};
    return invalid_argument(fault_text(text(items(root.strings())[row.message()]), found.value, found.limit))
        .context(text(items(root.origins())[row.origin()]));
  }
  if (found.code == 1 + int64_t{AIPU_FAULT_NEGATIVE_PARAMETER}) {
    return invalid_argument(str_cat("a parameter that the kernel divides by shifts is negative: ", found.value))
        .context(command_text(state, program, command));
  }
  return invalid_argument(str_cat("the kernel reports fault ", found.code - 1, " (value ", found.value, ", limit ",
                                  found.limit, "), for which the model has no words"))
      .context(command_text(state, program, command));
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

std::shared_ptr<WorkerPool> make_worker_pool(int threads) {
  return std::make_shared<WorkerPool>(static_cast<uint32_t>(std::max(threads, 0)));
}

Session::Session(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model,
                                                 const SessionOptions& options) try {
  refill_error_reserve();
  std::unique_ptr<Session> session(new Session(std::move(model)));
  session->queue_ = std::make_unique<RunQueue>([self = session.get()](Run::Impl& run) {
    return self->sandbox_ ? play_in_sandbox(*self->sandbox_, run) : self->impl_->play(run);
  });
  if (const auto& sandbox = session->model_->state().sandbox; sandbox != nullptr) {
    AIPU_ASSIGN_OR_RETURN(session->sandbox_, sandbox::Session::create(*sandbox, options));
    return session;
  }
  session->impl_ = std::make_unique<Impl>(session->model_);
  session->impl_->options = options;
  AIPU_RETURN_IF_ERROR(session->impl_->open());
  return session;
} catch (...) {
  return current_exception_status();
}

const Model& Session::model() const { return *model_; }
int Session::threads() const { return sandbox_ ? 1 : static_cast<int>(impl_->pool->size()); }

// One that has been checked: by bind_input(), or by the loader, which compares types and ranks of what bodies get.
void Session::Impl::take_input(uint32_t index, const void* data, std::span<const int64_t> shape) {
  Input& input = inputs[index];
  if (!std::equal(shape.begin(), shape.end(), input.shape.begin(), input.shape.end())) {
    input.shape.assign(shape.begin(), shape.end());
    shapes_changed = true;
  }
  input.data = data;
  input.bound = true;
}

Status Session::Impl::bind_input(size_t index, const TensorView& tensor) {
  inputs[index].bound = false;  // a bind that fails does not leave the value of an earlier one behind
  AIPU_RETURN_IF_ERROR(check_input(state.inputs[index], tensor, options.arguments_of_a_kernel));
  take_input(static_cast<uint32_t>(index), tensor.data, tensor.shape);
  return {};
}

Status Session::bind_input(size_t index, const TensorView& tensor) try {
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->bind_input(index, tensor);
  const std::unique_lock use(impl_->in_use, std::try_to_lock);
  if (!use) return used_by_another_thread();
  if (index >= impl_->inputs.size()) return invalid_argument(str_cat("input ", index, " of ", impl_->inputs.size()));
  return impl_->bind_input(index, tensor);
} catch (...) {
  return current_exception_status();
}

Status Session::bind_output(size_t index, void* data, size_t bytes) try {
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->bind_output(index, data, bytes);
  const std::unique_lock use(impl_->in_use, std::try_to_lock);
  if (!use) return used_by_another_thread();
  if (index >= impl_->outputs.size()) return invalid_argument(str_cat("output ", index, " of ", impl_->outputs.size()));
  const TensorSpec& spec = impl_->state.outputs[index];
  AIPU_RETURN_IF_ERROR(check_output_type(spec, data));
  if (!impl_->options.arguments_of_a_kernel) AIPU_RETURN_IF_ERROR(check_output_memory(spec, data, bytes));
  Impl::Output& output = impl_->outputs[index];
  output.data = data;
  output.capacity =
      static_cast<int64_t>(std::min<size_t>(bytes, static_cast<size_t>(std::numeric_limits<int64_t>::max())));
  return {};
} catch (...) {
  return current_exception_status();
}

Status Session::prepare() try {
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->prepare();
  const std::unique_lock use(impl_->in_use, std::try_to_lock);
  return use ? impl_->begin() : used_by_another_thread();
} catch (...) {
  return current_exception_status();
}

// Needs `in_use`.
Status Session::Impl::run_bound() {
  const auto exclusive = pool->acquire();
  std::unique_lock<std::mutex> copies;
  if (beside != nullptr) copies = beside->acquire();
  if (!pool->is_complete() || (beside != nullptr && !beside->is_complete()))
    return out_of_range("the session's threads are gone with fork(), and the system has no others for this process");
  pool->wake();
  if (beside != nullptr) beside->wake();
  if (options.profile && profile_start_ns == 0) profile_start_ns = now_ns();
  deadline_ns = options.run_seconds > 0 && options.run_seconds < 9e9
                    ? steady_now_ns() + static_cast<int64_t>(options.run_seconds * 1e9)
                    : Meter::kNoLimit;
  last_cycles.reset();
  AIPU_RETURN_IF_ERROR(begin());
  if (time != nullptr) time->begin_run();
  AIPU_RETURN_IF_ERROR(run_program(0));
  if (time != nullptr) last_cycles = time->makespan();
  return own_strings != nullptr ? tell_texts() : Status();
}

Status Session::run() try {
  refill_error_reserve();
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->run();
  const std::unique_lock use(impl_->in_use, std::try_to_lock);
  return use ? impl_->run_bound() : used_by_another_thread();
} catch (...) {
  return current_exception_status();
}

Result<std::span<const int64_t>> Session::output_shape(size_t index) const try {
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->output_shape(index);
  const std::unique_lock use(impl_->in_use, std::try_to_lock);
  if (!use) return used_by_another_thread();
  if (index >= impl_->outputs.size()) return invalid_argument(str_cat("output ", index, " of ", impl_->outputs.size()));
  const Impl::Output& output = impl_->outputs[index];
  if (!output.known)
    return invalid_argument(str_cat("the shape of output '", impl_->state.outputs[index].name,
                                    "' is not known before it has been computed"));
  return std::span<const int64_t>(output.shape);
} catch (...) {
  return current_exception_status();
}

Result<TensorView> Session::output(size_t index) const try {
  AIPU_RETURN_IF_ERROR(check_idle());
  if (sandbox_) return sandbox_->output(index);
  AIPU_ASSIGN_OR_RETURN(const auto shape, output_shape(index));
  return TensorView{impl_->state.outputs[index].dtype, shape, impl_->outputs[index].shown()};
} catch (...) {
  return current_exception_status();
}

int64_t Session::arena_bytes() const {
  if (sandbox_) return 0;
  const std::lock_guard use(impl_->in_use);
  return impl_->all_arena_bytes();
}

std::vector<Session::ProfileRow> Session::profile() const {
  if (sandbox_) return {};
  const std::lock_guard use(impl_->in_use);
  return profile_rows(impl_->events);
}

std::optional<int64_t> Session::cycles() const {
  if (sandbox_) return std::nullopt;
  const std::lock_guard use(impl_->in_use);
  return impl_->last_cycles;
}

void Session::clear_profile() {
  if (sandbox_) return;
  const std::lock_guard use(impl_->in_use);
  impl_->events.clear();
  impl_->profile_start_ns = 0;
}

Status Session::write_profile(const std::string& path) const try {
  if (sandbox_) return unsupported("there are no profiles from within a sandbox");
  return write_trace(path, model_->state(), profile());
} catch (...) {
  return current_exception_status();
}

}  // namespace aipu::runtime
