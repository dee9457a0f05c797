// Runs on a device with memory and queues of its own (backends/device_api.h): copies of the engine dma and launches of
// the engine tec go into queues with what they wait for. A command of the host waits for the events of those that it
// says, no others; what comes behind it and does not wait for it is submitted before it. The session waits for all at
// the end. Inputs are copied to the device beside the commands that do not read them, outputs back from it.
//
// Batch loops are run for all samples at once, as the commands stand: what they are for is the caches of a CPU. The
// body of a loop or a branch ends when its own commands have, as each iteration takes over the memory of the one before
// it.
#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "runtime/base/guarded.h"
#include "runtime/executor/device_queues.h"
#include "runtime/executor/running_kernel.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {

// Of a session, its bodies included.
struct Session::Impl::DeviceRun {
  std::unique_ptr<DeviceQueues> queues;
  // A command that has been submitted, or one of the host that has been carried out, in the order of the file; the
  // device fills in the first three.
  struct Record {
    aipu_device_fault fault;
    aipu_device_times times;
    CommandCycles cycles;
    RunningKernel running;
    Impl* session;
    TraceEvent trace;
    aipu_device_event event;  // none: of the host
    bool is_launch() const { return trace.command->engine == fb::Engine::kTec; }
  };
  std::deque<Record> records;  // whose addresses stay
  size_t used = 0;
  size_t looked = 0;    // so many of them have no fault, or are no launches
  uint64_t clears = 0;  // how often all of them have been taken
  bool is_under_way = false;

  Record& next(Impl* session, const TraceEvent& trace) {
    if (used == records.size()) records.emplace_back();
    Record& record = records[used++];
    const LaunchRow launch = launch_row(trace.model->root(), trace.program, *trace.command);
    record = {{}, {}, {-1}, {trace.model, launch ? &*launch : nullptr}, session, trace, {}};
    return record;
  }
  void forget(size_t first) {
    used = first;
    looked = std::min(looked, first);
  }
  void clear() {
    forget(0);
    ++clears;
  }
};

void Session::Impl::CloseDeviceRun::operator()(DeviceRun* run) const { delete run; }

Status Session::Impl::open_on_device() {
  own_on_device.reset(new DeviceRun);
  on_device = own_on_device.get();
  AIPU_ASSIGN_OR_RETURN(on_device->queues, DeviceQueues::open(*device));
  if (host_session == nullptr) pool = std::make_shared<WorkerPool>(1);
  const uint32_t wanted = root.tec_count();
  tecs = wanted == 0 ? device->tecs() : std::min(wanted, device->tecs());
  open_virtual_time();
  open_tables();
  return {};
}

// Bodies have their own commands.
void Session::Impl::open_device_tables() {
  for (const auto& commands : state.tables.programs) {
    auto& buffers = device_buffers.emplace_back();
    for (const ModelTables::ScheduledCommand& command : commands) {
      if (command.engine != fb::Engine::kHost) buffers[static_cast<size_t>(command.engine)].push_back({&command, {}});
    }
  }
  sent.resize(inputs.size() + outputs.size());
}

Status Session::Impl::run_on_device(uint32_t program) {
  if (!device->is_ours()) return invalid_argument("a session on a device cannot be used in a child made by fork()");
  const bool is_all = program == 0 && parent == nullptr;
  // A run that memory ran out of has left what it had submitted.
  if (is_all && std::exchange(on_device->is_under_way, true)) {
    on_device->queues->cancel();
    on_device->clear();
  }
  const size_t first = on_device->used;
  const uint64_t clears = on_device->clears;
  Status status = is_all ? send_inputs() : Status();
  if (status.ok()) status = play_on_device(program);
  if (status.ok() && !is_all && time == nullptr) return settle_since(clears == on_device->clears ? first : 0);
  if (status.ok() && is_all) status = fetch_outputs();
  // What has been submitted before is what fails first.
  Status submitted = settle();
  if (is_all) on_device->is_under_way = false;
  return submitted.ok() ? std::move(status) : std::move(submitted);
}

// What no kernel writes of the caller's outputs stays as it was, as where the device shares the caller's memory.
Status Session::Impl::send_inputs() {
  if (stages_pieces()) return send_pieces();
  const auto send = [&](uint32_t root, const void* data, int64_t bytes) -> Status {
    sent[root] = {};
    if (data == nullptr || bytes == 0) return {};
    const auto command = DeviceQueues::transfer_in(roots[root], data, static_cast<size_t>(bytes));
    AIPU_ASSIGN_OR_RETURN(sent[root], on_device->queues->add(DeviceQueues::kCopies, command, {}));
    return {};
  };
  for (uint32_t i = 0; i < inputs.size(); ++i)
    AIPU_RETURN_IF_ERROR(
        send(layout.input(i), inputs[i].memory(), is_staged_input(i) ? inputs[i].bytes(state.inputs[i].dtype) : 0));
  for (uint32_t i = 0; i < outputs.size(); ++i)
    AIPU_RETURN_IF_ERROR(
        send(layout.output(i), outputs[i].data, is_staged_output(i) && outputs[i].known ? outputs[i].size : 0));
  return {};
}

Status Session::Impl::fetch_outputs() {
  DeviceQueues& queues = *on_device->queues;
  const aipu_device_event computed[] = {queues.last(DeviceQueues::kLaunches)};
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    if (!output.known || output.size == 0 || !is_staged_output(i)) continue;
    const auto command =
        DeviceQueues::transfer_out(output.result, roots[layout.output(i)], static_cast<size_t>(output.size));
    AIPU_RETURN_IF_ERROR(queues.add(DeviceQueues::kCopies, command, computed).status());
  }
  return {};
}

// What touches or overlaps is one piece. There are as many as a kernel has arguments: few.
Status Session::Impl::stage_pieces() {
  pieces.clear();
  const auto take = [&](const void* data, int64_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(data);
    if (data == nullptr || bytes <= 0) return;
    pieces.push_back({begin, begin + bytes});
    for (size_t i = pieces.size(); i-- > 1 && pieces[i].begin < pieces[i - 1].begin;)
      std::swap(pieces[i], pieces[i - 1]);
  };
  for (size_t i = 0; i < inputs.size(); ++i) take(inputs[i].data, inputs[i].bytes(state.inputs[i].dtype));
  for (const Output& output : outputs) take(output.data, output.capacity);
  size_t count = 0;
  for (const Piece& piece : pieces) {
    if (count > 0 && piece.begin <= pieces[count - 1].end) {
      pieces[count - 1].end = std::max(pieces[count - 1].end, piece.end);
    } else {
      pieces[count++] = piece;
    }
  }
  pieces.resize(count);
  if (staged_pieces.size() < count) staged_pieces.resize(count);
  // Aligned as the caller's memory is.
  for (size_t k = 0; k < count; ++k) {
    const auto apart = static_cast<int64_t>(reinterpret_cast<uintptr_t>(pieces[k].begin) % 64);
    AIPU_RETURN_IF_ERROR(hold(staged_pieces[k], apart + (pieces[k].end - pieces[k].begin)));
  }
  return {};
}

std::byte* Session::Impl::on_piece(const void* data) const {
  const auto* const at = static_cast<const std::byte*>(data);
  size_t k = 0;
  while (at >= pieces[k].end) ++k;
  return staged_pieces[k].data() + reinterpret_cast<uintptr_t>(pieces[k].begin) % 64 + (at - pieces[k].begin);
}

Status Session::Impl::send_pieces() {
  for (const Piece& piece : pieces) {
    const auto command =
        DeviceQueues::transfer_in(on_piece(piece.begin), piece.begin, static_cast<size_t>(piece.end - piece.begin));
    AIPU_RETURN_IF_ERROR(on_device->queues->add(DeviceQueues::kCopies, command, {}).status());
  }
  return settle();
}

Status Session::Impl::play_on_device(uint32_t program) {
  Turns turns = {};
  for (const auto& command : state.tables.programs[program]) {
    uint32_t& turn = turns[static_cast<size_t>(command.engine)];
    if (command.index < turn) continue;  // submitted before its turn
    if (command.stage != current_stage) AIPU_RETURN_IF_ERROR(activate(command.stage));
    // In virtual time nothing is gained by that.
    if (command.engine == fb::Engine::kHost && time == nullptr) AIPU_RETURN_IF_ERROR(submit_ahead(program, turns));
    AIPU_RETURN_IF_ERROR(play_command(program, command));
    turn = command.index + 1;
  }
  return {};
}

Status Session::Impl::play_command(uint32_t program, const ModelTables::ScheduledCommand& command) {
  StagePlan& plan = *active[command.stage];
  const Step& step = plan.steps[command.slot];
  if (step.error != Step::kFine) return Status(plan.errors[step.error]).context(command_text(state, program, command));
  AIPU_RETURN_IF_ERROR(check_time());
  collect_waits(program, command, plan, step);
  if (command.engine == fb::Engine::kHost) return run_host_on_device(program, command, plan, step);
  AIPU_RETURN_IF_ERROR(enqueue(program, command, plan, step));
  if (!options.inspect) return {};
  AIPU_RETURN_IF_ERROR(settle());
  return show_written(program, command, step, call_of(plan, step, plan.words.data() + step.first_word, nullptr));
}

// Of each engine, the commands that do not wait for one of the host that is still to come.
Status Session::Impl::submit_ahead(uint32_t program, Turns& turns) {
  const auto may_go = [&](const ModelTables::ScheduledCommand& command) {
    if (command.stage != current_stage || active[current_stage]->steps[command.slot].error != Step::kFine) return false;
    bool all = true;
    for_each_wait(root, program, command,
                  [&](const fb::Wait& wait) { all &= wait.command() < turns[static_cast<size_t>(wait.engine())]; });
    return all;
  };
  for (bool more = true; more;) {
    more = false;
    for (size_t engine = 0; engine < device_buffers[program].size(); ++engine) {
      const auto& buffer = device_buffers[program][engine];
      for (uint32_t& turn = turns[engine]; turn < buffer.size() && may_go(*buffer[turn].command); ++turn, more = true)
        AIPU_RETURN_IF_ERROR(play_command(program, *buffer[turn].command));
    }
  }
  return {};
}

// What the host does, it does at once: those of its commands that are waited for are done, as are those before them.
void Session::Impl::collect_waits(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan,
                                  const Step& step) {
  waits.clear();
  for_each_wait(root, program, command, [&](const fb::Wait& wait) {
    if (wait.engine() != fb::Engine::kHost)
      waits.push_back(device_buffers[program][static_cast<size_t>(wait.engine())][wait.command()].event);
  });
  if (parent != nullptr || stages_pieces()) return;  // all is there
  if (const uint32_t last = last_sent(plan, step); last > 0) waits.push_back(sent[last - 1]);
}

// It waits for what it says, while the queues go on with what has been submitted. In virtual time nothing is gained by
// that, and all that comes before it has to be known.
Status Session::Impl::run_host_on_device(uint32_t program, const ModelTables::ScheduledCommand& command,
                                         StagePlan& plan, const Step& step) {
  AIPU_RETURN_IF_ERROR(time != nullptr ? settle() : await_waits());
  TraceEvent trace = {&state, program, &command, 0, 1, 1, 0, 0, 0, 0, 0};
  if (options.profile) {
    trace.start_ns = steady_now_ns() - profile_start_ns;
    trace.operations = step.operations;
    trace.bytes = bytes_of(program, command, call_of(plan, step, plan.words.data() + step.first_word, nullptr));
  }
  const Context context = {plan.words.data(), 0, 0, 0, 1, backend_error, fault, events};
  AIPU_RETURN_IF_ERROR(
      time != nullptr ? run_in_virtual_time(program, command, plan, step, context,
                                            call_of(plan, step, plan.words.data() + step.first_word, &fault), &trace)
                      : run_host(program, command, plan, step));
  if (options.profile) trace.duration_ns = steady_now_ns() - profile_start_ns - trace.start_ns;
  on_device->next(this, trace);
  return {};
}

Status Session::Impl::await_waits() {
  AIPU_RETURN_IF_ERROR(on_device->queues->submit_all());
  for (const aipu_device_event& event : waits) {
    const DeviceQueues::Outcome outcome = on_device->queues->wait_for(event, deadline_ns);
    if (!outcome.status.ok() || outcome.is_late) return settle();  // says what it was
  }
  return check_faults();
}

// What a kernel could not compute with ends the run, before the host looks at what it left. Launches are done in order.
Status Session::Impl::check_faults() {
  for (; on_device->looked < on_device->used; ++on_device->looked) {
    const DeviceRun::Record& record = on_device->records[on_device->looked];
    if (!record.is_launch() || record.event.command == 0) continue;
    if (!on_device->queues->is_done(record.event)) return {};
    if (record.fault.code != 0) return settle();
  }
  return {};
}

// 1 + the last input or output of a step that has been sent, as it comes to the device after the others; 0: none.
uint32_t Session::Impl::last_sent(StagePlan& plan, const Step& step) const {
  if (plan.callers_roots.empty()) {
    plan.callers_roots.assign(plan.words.size(), 0);
    for (const StagePlan::Patch& patch : plan.patches) {
      if (patch.root < sent.size()) plan.callers_roots[patch.word] = patch.root + 1;
    }
  }
  uint32_t last = 0;
  for (uint32_t i = 0; i < step.word_count; ++i) {
    const uint32_t next = plan.callers_roots[step.first_word + i];
    if (next > last && sent[next - 1].command != 0) last = next;
  }
  return last;
}

Status Session::Impl::enqueue(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan,
                              const Step& step) {
  const Call call = call_of(plan, step, plan.words.data() + step.first_word, nullptr);
  const bool is_launch = command.engine == fb::Engine::kTec;
  TraceEvent trace = {&state, program, &command, 0, 1, 1, 0, 0, 0, 0, 0};
  if (is_launch && !step.left_out) trace.threads = std::min(step.max_tecs, tecs);
  trace.operations = is_launch ? step.operations : 0;
  if (options.profile || time != nullptr) trace.bytes = bytes_of(program, command, call);
  aipu_device_event& event = device_buffers[program][static_cast<size_t>(command.engine)][command.index].event;
  if (is_launch && step.left_out) return enqueue_zeros(call, trace, &event);
  aipu_device_command row = is_launch ? launch_of(call) : copy_of(call);
  if (!is_launch && row.rows == 0) row.width = 0;  // nothing to do, but others may wait for it
  return add(row, trace, &event);
}

// What a command that is left out gives.
Status Session::Impl::enqueue_zeros(const Call& call, const TraceEvent& trace, aipu_device_event* event) {
  for (uint32_t i = 0; i < call.step.word_count; ++i) {
    if (call.writable[i] == 0 || call.extents[i] == 0) continue;
    auto* const address = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(call.words[i]));
    AIPU_RETURN_IF_ERROR(add(DeviceQueues::fill(address, static_cast<size_t>(call.extents[i])), trace, event));
  }
  return {};
}

// After `waits`, with a record of it.
Status Session::Impl::add(aipu_device_command row, const TraceEvent& trace, aipu_device_event* event) {
  DeviceRun::Record& record = on_device->next(this, trace);
  row.module = state.module;
  row.fault = &record.fault;
  row.running = &record.running;
  if (options.profile) row.times = &record.times;
  if (time != nullptr) {
    row.cycles = &record.cycles.all;
    row.compute_cycles = &record.cycles.compute;
    row.dma_cycles = &record.cycles.dma;
    row.bytes = trace.bytes;
  }
  AIPU_ASSIGN_OR_RETURN(
      *event, on_device->queues->add(record.is_launch() ? DeviceQueues::kLaunches : DeviceQueues::kCopies, row, waits));
  record.event = *event;
  return {};
}

aipu_device_command Session::Impl::launch_of(const Call& call) const {
  aipu_device_command row = {};
  row.kind = AIPU_DEVICE_LAUNCH;
  row.kernel = call.step.kernel;
  row.max_tecs = call.step.max_tecs;
  row.words = call.words;
  row.extents = call.extents;
  row.writable = call.writable;
  row.operations = call.step.operations;
  row.memory_limit_bytes = call.memory_limit_bytes;
  row.deadline_ns = call.deadline_ns;
  return row;
}

aipu_device_command Session::Impl::copy_of(const Call& call) {
  const auto pointer = [&](int word) { return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(call.words[word])); };
  if (call.step.to_host) return DeviceQueues::transfer_out(pointer(0), pointer(1), call.words[2]);
  if (call.step.from_host) return DeviceQueues::transfer_in(pointer(0), pointer(1), call.words[2]);
  aipu_device_command row = {};
  row.kind = AIPU_DEVICE_COPY;
  row.destination = call.words[0];
  row.source = call.words[1];
  row.width = call.words[2];
  row.rows = call.words[3];
  row.destination_stride = static_cast<int64_t>(call.words[4]);
  row.source_stride = static_cast<int64_t>(call.words[5]);
  row.overlaps = call.step.overlaps ? 1 : 0;
  return row;
}

// Waits for all that has been submitted. Of several problems the one counts that playing in order would have met.
Status Session::Impl::settle() {
  DeviceQueues& queues = *on_device->queues;
  DeviceQueues::Outcome outcome = queues.wait_for_all(deadline_ns);
  Status status = std::move(outcome.status);
  if (outcome.is_late || !status.ok()) {
    if (Status late = check_time(); !late.ok()) status = std::move(late);
  }
  const bool failed = !status.ok();
  if (failed) queues.cancel();
  for (size_t i = 0; failed && !outcome.is_late && i < on_device->used; ++i) {
    const DeviceRun::Record& record = on_device->records[i];
    if (record.event.queue != outcome.failed.queue || record.event.command != outcome.failed.command) continue;
    status = std::move(status).context(command_text(*record.trace.model, record.trace.program, *record.trace.command));
  }
  Status fault = take_records(0);
  if (fault.ok()) return status;
  if (!failed) queues.cancel();
  return fault;
}

// Waits for what has been submitted since there were so many records, for nothing else unless there is an error.
Status Session::Impl::settle_since(size_t first) {
  AIPU_RETURN_IF_ERROR(on_device->queues->submit_all());
  waits.clear();
  for (size_t i = on_device->used; i-- > first;) {
    const aipu_device_event& event = on_device->records[i].event;
    const auto same_queue = [&](const aipu_device_event& later) { return later.queue == event.queue; };
    if (event.command != 0 && std::none_of(waits.begin(), waits.end(), same_queue)) waits.push_back(event);
  }
  for (const aipu_device_event& event : waits) {
    const DeviceQueues::Outcome outcome = on_device->queues->wait_for(event, deadline_ns);
    if (!outcome.status.ok() || outcome.is_late) return settle();  // says what it was
  }
  const bool has_fault = std::any_of(on_device->records.begin() + static_cast<std::ptrdiff_t>(first),
                                     on_device->records.begin() + static_cast<std::ptrdiff_t>(on_device->used),
                                     [](const DeviceRun::Record& record) { return record.fault.code != 0; });
  return has_fault ? settle() : take_records(first);
}

// What the device has written about commands that are done: faults, which end it, and times.
Status Session::Impl::take_records(size_t first) {
  const int64_t offset = options.profile ? steady_now_ns() - device->driver().clock_ns(device->handle()) : 0;
  Status fault;
  for (size_t i = first; i < on_device->used && fault.ok(); ++i) {
    DeviceRun::Record& record = on_device->records[i];
    TraceEvent& trace = record.trace;
    if (record.fault.code != 0) {
      const aipu_fault_record found = {record.fault.code, record.fault.value, record.fault.limit};
      fault = record.session->fault_status(trace.program, *trace.command, found);
      if (!fault.ok()) break;
    }
    if (record.event.command != 0 && time != nullptr) {
      Impl& session = *record.session;
      const int64_t start = session.ready_at(trace.program, *trace.command);
      trace.cycles = record.cycles;
      if (!record.is_launch()) trace.cycles = {record.cycles.all, 0, record.cycles.all};
      session.end_at(trace.program, *trace.command, start, start + std::max<int64_t>(record.cycles.all, 0), &trace);
    }
    if (record.times.end_ns != 0) {
      trace.start_ns = record.times.begin_ns + offset - profile_start_ns;
      trace.duration_ns = record.times.end_ns - record.times.begin_ns;
    }
    if (options.profile && (record.event.command == 0 || record.times.end_ns != 0)) events.push_back(trace);
  }
  first == 0 ? on_device->clear() : on_device->forget(first);
  return fault;
}

Status Session::Impl::get(void* destination, const void* source, size_t bytes) const {
  if (on_device != nullptr)
    return on_device->queues->get(destination, static_cast<const std::byte*>(source), bytes, deadline_ns);
  if (bytes > 0) std::memcpy(destination, source, bytes);
  return {};
}

Status Session::Impl::put(void* destination, const void* source, size_t bytes) const {
  if (on_device != nullptr)
    return on_device->queues->put(static_cast<std::byte*>(destination), source, bytes, deadline_ns);
  if (bytes > 0) std::memcpy(destination, source, bytes);
  return {};
}

Status Session::Impl::move(void* destination, const void* source, size_t bytes) const {
  if (on_device != nullptr)
    return on_device->queues->move(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes,
                                   deadline_ns);
  if (bytes > 0) std::memcpy(destination, source, bytes);
  return {};
}

// The words of a BindSymbols command are where its elements are.
Status Session::Impl::bind_run_symbols(const fb::HostCommand& command, const StagePlan& plan, const Step& step) {
  const unsigned long long* words = plan.words.data() + step.first_word;
  if (on_device == nullptr) {
    bind_symbols(root, {words, step.word_count}, command.a(), symbols);
    return {};
  }
  std::vector<uint64_t> elements(step.word_count);
  std::vector<unsigned long long> here(step.word_count);
  aipu_device_event last = {};
  for (uint32_t i = 0; i < step.word_count; ++i) {
    const fb::Symbol& symbol = *items(root.symbols())[command.a() + i];
    const size_t bytes = dtype_bytes(static_cast<DType>(items(root.tensors())[symbol.tensor()]->dtype()));
    here[i] = words[i];
    if (is_on_host(state.tables.tensor_root[symbol.tensor()])) continue;
    here[i] = reinterpret_cast<uintptr_t>(&elements[i]);
    const auto* const source = reinterpret_cast<const std::byte*>(static_cast<uintptr_t>(words[i]));
    AIPU_ASSIGN_OR_RETURN(last, on_device->queues->add(DeviceQueues::kTransfers,
                                                       DeviceQueues::transfer_out(&elements[i], source, bytes), {}));
  }
  waits.assign(1, last);
  AIPU_RETURN_IF_ERROR(await_waits());
  bind_symbols(root, here, command.a(), symbols);
  return {};
}

}  // namespace aipu::runtime
