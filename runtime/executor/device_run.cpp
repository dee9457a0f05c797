// Runs on a device with memory and queues of its own (backends/device_api.h): copies of the engine dma and launches of
// the engine tec go into queues with what they wait for, and the session waits only before commands of the host, which
// read what the device has computed, and at the end. Inputs are copied to the device beside the commands that do not
// read them, outputs back from it.
//
// Batch loops are run for all samples at once, as the commands stand: what they are for is the caches of a CPU. Bodies
// of loops and branches begin and end with empty queues, as each iteration takes over the memory of the one before it.
#include <algorithm>
#include <cstring>
#include <deque>

#include "runtime/base/guarded.h"
#include "runtime/executor/device_queues.h"
#include "runtime/executor/session_impl.h"

namespace aipu::runtime {

// Of a session, its bodies included.
struct Session::Impl::DeviceRun {
  std::unique_ptr<DeviceQueues> queues;
  // A command that has been submitted, in the order of the file; the device fills in the first two.
  struct Record {
    aipu_device_fault fault;
    aipu_device_times times;
    const Impl* session;
    uint32_t program;
    const ModelTables::ScheduledCommand* command;
    int64_t operations, bytes;
    aipu_device_event event;
  };
  std::deque<Record> records;  // whose addresses stay
  size_t used = 0;

  Record& next() {
    if (used == records.size()) records.emplace_back();
    Record& record = records[used++];
    record = {};
    return record;
  }
};

void Session::Impl::CloseDeviceRun::operator()(DeviceRun* run) const { delete run; }

Status Session::Impl::open_on_device() {
  own_on_device.reset(new DeviceRun);
  on_device = own_on_device.get();
  AIPU_ASSIGN_OR_RETURN(on_device->queues, DeviceQueues::open(*device));
  pool = std::make_shared<WorkerPool>(1);
  tecs = device->tecs();
  open_tables();
  return {};
}

// Bodies have their own commands.
void Session::Impl::open_device_tables() {
  for (uint32_t p = 0; p < state.tables.programs.size(); ++p) {
    const fb::Program& buffers = *items(root.programs())[p];
    device_events.emplace_back();
    device_events.back()[DeviceQueues::kLaunches].resize(items(buffers.tec()).size());
    device_events.back()[DeviceQueues::kCopies].resize(items(buffers.dma()).size());
  }
  input_events.resize(inputs.size());
}

Status Session::Impl::run_on_device(uint32_t program) {
  if (program != 0) return play_on_device(program);
  if (!device->is_ours()) return invalid_argument("a session on a device cannot be used in a child made by fork()");
  Status status = parent == nullptr ? send_inputs() : Status();
  if (status.ok()) status = play_on_device(0);
  if (status.ok() && parent == nullptr) status = fetch_outputs();
  // What has been submitted before is what fails first.
  Status submitted = settle();
  return submitted.ok() ? std::move(status) : std::move(submitted);
}

Status Session::Impl::send_inputs() {
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    const int64_t bytes = inputs[i].bytes(state.inputs[i].dtype);
    input_events[i] = {};
    if (bytes == 0) continue;
    const auto command = DeviceQueues::transfer_in(staged_inputs[i].data(), inputs[i].data, static_cast<size_t>(bytes));
    AIPU_ASSIGN_OR_RETURN(input_events[i], on_device->queues->add(DeviceQueues::kCopies, command, {}));
  }
  return {};
}

Status Session::Impl::fetch_outputs() {
  DeviceQueues& queues = *on_device->queues;
  const aipu_device_event computed[] = {queues.last(DeviceQueues::kLaunches)};
  for (const Output& output : outputs) {
    if (!output.known || output.size == 0) continue;
    const auto command =
        DeviceQueues::transfer_out(output.result, output.staged.data(), static_cast<size_t>(output.size));
    AIPU_RETURN_IF_ERROR(queues.add(DeviceQueues::kCopies, command, computed).status());
  }
  return {};
}

Status Session::Impl::play_on_device(uint32_t program) {
  for (const auto& command : state.tables.programs[program]) {
    if (command.stage != current_stage) AIPU_RETURN_IF_ERROR(activate(command.stage));
    StagePlan& plan = *active[command.stage];
    const Step& step = plan.steps[command.slot];
    if (step.error != Step::kFine)
      return Status(plan.errors[step.error]).context(command_text(state, program, command));
    AIPU_RETURN_IF_ERROR(check_time());
    if (command.engine == fb::Engine::kHost) {
      AIPU_RETURN_IF_ERROR(settle());
      TraceEvent event = {&state, program, &command, 0, 1, 1, 0, 0, 0, 0, 0};
      if (options.profile) event.start_ns = steady_now_ns() - profile_start_ns;
      AIPU_RETURN_IF_ERROR(run_host(program, command, plan, step));
      AIPU_RETURN_IF_ERROR(settle());
      event.duration_ns = steady_now_ns() - profile_start_ns - event.start_ns;
      if (options.profile) events.push_back(event);
    } else {
      AIPU_RETURN_IF_ERROR(enqueue(program, command, plan, step));
    }
  }
  return {};
}

// 1 + the last input that a step reads, which comes to the device after those before it; 0: none.
uint32_t Session::Impl::last_input(StagePlan& plan, const Step& step) const {
  if (plan.last_inputs.empty()) {
    plan.last_inputs.assign(plan.words.size(), 0);
    for (const StagePlan::Patch& patch : plan.patches) {
      if (patch.root < layout.output(0)) plan.last_inputs[patch.word] = patch.root + 1;
    }
  }
  const auto first = plan.last_inputs.begin() + step.first_word;
  return step.word_count == 0 ? 0 : *std::max_element(first, first + step.word_count);
}

Status Session::Impl::enqueue(uint32_t program, const ModelTables::ScheduledCommand& command, StagePlan& plan,
                              const Step& step) {
  DeviceQueues& queues = *on_device->queues;
  waits.clear();
  for_each_wait(root, program, command, [&](const fb::Wait& wait) {
    if (wait.engine() != fb::Engine::kHost)
      waits.push_back(device_events[program][static_cast<size_t>(wait.engine())][wait.command()]);
  });
  if (const uint32_t input = last_input(plan, step); input > 0 && parent == nullptr) {
    for (uint32_t i = input; i-- > 0;) {
      if (input_events[i].command == 0) continue;
      waits.push_back(input_events[i]);
      break;
    }
  }
  const Call call = {step,
                     plan.words.data() + step.first_word,
                     plan.extents.data() + step.first_word,
                     plan.writable.data() + step.first_word,
                     nullptr,
                     kernel_memory_limit(),
                     deadline_ns};
  const bool is_launch = command.engine == fb::Engine::kTec;
  DeviceRun::Record& record = on_device->next();
  record.session = this;
  record.program = program;
  record.command = &command;
  record.operations = is_launch ? step.operations : 0;
  if (options.profile) record.bytes = bytes_of(command, call);
  aipu_device_command row = is_launch ? launch_of(call, record.fault) : copy_of(call);
  row.times = options.profile ? &record.times : nullptr;
  aipu_device_event& event = device_events[program][static_cast<size_t>(command.engine)][command.index];
  if (is_launch && step.left_out) return enqueue_zeros(call, &event);
  if (!is_launch && row.rows == 0) {  // nothing to do, but others may wait for it
    row.width = 0;
  }
  AIPU_ASSIGN_OR_RETURN(event, queues.add(is_launch ? DeviceQueues::kLaunches : DeviceQueues::kCopies, row, waits));
  record.event = event;
  return {};
}

// What a command that is left out gives.
Status Session::Impl::enqueue_zeros(const Call& call, aipu_device_event* event) {
  DeviceQueues& queues = *on_device->queues;
  for (uint32_t i = 0; i < call.step.word_count; ++i) {
    if (call.writable[i] == 0 || call.extents[i] == 0) continue;
    auto* const address = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(call.words[i]));
    const auto command = DeviceQueues::fill(address, static_cast<size_t>(call.extents[i]));
    AIPU_ASSIGN_OR_RETURN(*event, queues.add(DeviceQueues::kLaunches, command, waits));
  }
  return {};
}

aipu_device_command Session::Impl::launch_of(const Call& call, aipu_device_fault& fault) const {
  aipu_device_command row = {};
  row.kind = AIPU_DEVICE_LAUNCH;
  row.module = state.module;
  row.kernel = call.step.kernel;
  row.max_tecs = call.step.max_tecs;
  row.words = call.words;
  row.extents = call.extents;
  row.writable = call.writable;
  row.fault = &fault;
  row.operations = call.step.operations;
  row.memory_limit_bytes = call.memory_limit_bytes;
  row.deadline_ns = call.deadline_ns;
  return row;
}

aipu_device_command Session::Impl::copy_of(const Call& call) {
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
  if (outcome.is_late) status = check_time();
  const bool failed = !status.ok();
  if (failed) queues.cancel();
  const int64_t offset = options.profile ? steady_now_ns() - device->driver().clock_ns(device->handle()) : 0;
  const auto same = [](const aipu_device_event& a, const aipu_device_event& b) {
    return a.queue == b.queue && a.command == b.command;
  };
  for (size_t i = 0; i < on_device->used; ++i) {
    const DeviceRun::Record& record = on_device->records[i];
    if (record.fault.code != 0) {
      const aipu_fault_record found = {record.fault.code, record.fault.value, record.fault.limit};
      if (Status fault = record.session->fault_status(record.program, *record.command, found); !fault.ok()) {
        if (!failed) queues.cancel();
        on_device->used = 0;
        return fault;
      }
    }
    if (failed && !outcome.is_late && record.event.command != 0 && same(record.event, outcome.failed))
      status = std::move(status).context(command_text(record.session->state, record.program, *record.command));
    if (options.profile && record.times.end_ns != 0) {
      events.push_back({&record.session->state, record.program, record.command, 0, 1, 1,
                        record.times.begin_ns + offset - profile_start_ns, record.times.end_ns - record.times.begin_ns,
                        record.operations, record.bytes, 0});
    }
  }
  on_device->used = 0;
  return status;
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
    here[i] = reinterpret_cast<uintptr_t>(&elements[i]);
    const auto* const source = reinterpret_cast<const std::byte*>(static_cast<uintptr_t>(words[i]));
    AIPU_ASSIGN_OR_RETURN(last, on_device->queues->add(DeviceQueues::kCopies,
                                                       DeviceQueues::transfer_out(&elements[i], source, bytes), {}));
  }
  AIPU_RETURN_IF_ERROR(settle());
  bind_symbols(root, here, command.a(), symbols);
  return {};
}

}  // namespace aipu::runtime
