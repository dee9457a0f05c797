#include "runtime/executor/device_queues.h"

#include <utility>

namespace aipu::runtime {
namespace {

uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// A command that moves so many bytes in one row.
aipu_device_command row_of(uint32_t kind, size_t bytes) {
  aipu_device_command command = {};
  command.kind = kind;
  command.width = bytes;
  command.rows = 1;
  return command;
}

}  // namespace

Result<std::unique_ptr<DeviceQueues>> DeviceQueues::open(Device& device, bool only_transfers) {
  std::unique_ptr<DeviceQueues> queues(new DeviceQueues(device));
  if (!only_transfers) {
    AIPU_RETURN_IF_ERROR(queues->open_queue(device.launch_engine()));
    if (device.launch_engine() != device.copy_engine()) AIPU_RETURN_IF_ERROR(queues->open_queue(device.copy_engine()));
  }
  AIPU_RETURN_IF_ERROR(queues->open_queue(device.copy_engine()));
  return queues;
}

Status DeviceQueues::open_queue(uint32_t engine) {
  Queue& queue = queues_[count_];
  aipu_device_error error = {};
  const int code = device_.driver().open_queue(device_.handle(), engine, &queue.handle, &queue.number, &error);
  if (code != 0) return device_.status(code, error);
  ++count_;
  return {};
}

DeviceQueues::~DeviceQueues() {
  for (size_t q = 0; q < count_ && device_.is_ours(); ++q) device_.driver().close_queue(queues_[q].handle);
}

Result<aipu_device_event> DeviceQueues::add(Kind kind, aipu_device_command command,
                                            std::span<const aipu_device_event> waits) {
  Queue& own = queue(kind);
  command.waits = nullptr;
  command.wait_count = 0;
  for (const aipu_device_event& event : waits) {
    if (event.command == 0 || event.queue == own.number) continue;  // a queue is played in order
    for (size_t q = 0; q < count_; ++q) {
      if (queues_[q].number == event.queue && event.command > queues_[q].submitted)
        AIPU_RETURN_IF_ERROR(submit(queues_[q]));
    }
    own.waits.push_back(event);
    ++command.wait_count;
  }
  own.commands.push_back(command);
  return aipu_device_event{own.number, 0, ++own.added};
}

Status DeviceQueues::submit(Queue& queue) {
  if (queue.commands.empty()) return {};
  const aipu_device_event* waits = queue.waits.data();
  for (aipu_device_command& command : queue.commands) {
    command.waits = waits;
    waits += command.wait_count;
  }
  const auto count = static_cast<uint32_t>(queue.commands.size());
  aipu_device_error error = {};
  const int code =
      device_.driver().submit(queue.handle, queue.commands.data(), count, sizeof(aipu_device_command), &error);
  queue.commands.clear();
  queue.waits.clear();
  if (code != 0) {
    queue.added = queue.submitted;
    return device_.status(code, error);
  }
  queue.submitted = queue.added;
  return {};
}

Status DeviceQueues::submit_all() {
  for (size_t q = 0; q < count_; ++q) AIPU_RETURN_IF_ERROR(submit(queues_[q]));
  return {};
}

DeviceQueues::Outcome DeviceQueues::wait_for(aipu_device_event event, int64_t deadline_ns) {
  Outcome outcome;
  outcome.status = submit_all();
  if (!outcome.status.ok() || event.command == 0) return outcome;
  aipu_device_error error = {};
  const int code = device_.driver().wait(device_.handle(), event, deadline_ns, &outcome.failed, &error);
  if (code == AIPU_DEVICE_NOT_YET) {
    outcome.is_late = true;
  } else if (code != 0) {
    outcome.status = Status(static_cast<ErrorCode>(code), error.message);
  }
  return outcome;
}

bool DeviceQueues::is_done(aipu_device_event event) const {
  aipu_device_event failed = {};
  aipu_device_error error = {};
  return device_.driver().wait(device_.handle(), event, 0, &failed, &error) == 0;
}

DeviceQueues::Outcome DeviceQueues::wait_for_all(int64_t deadline_ns) {
  Outcome all;
  for (size_t q = 0; q < count_ && all.status.ok() && !all.is_late; ++q) {
    // What was left out after an error has been told as that error.
    if (queues_[q].added != queues_[q].cancelled) all = wait_for({queues_[q].number, 0, queues_[q].added}, deadline_ns);
  }
  return all;
}

void DeviceQueues::cancel() {
  for (size_t q = 0; q < count_; ++q) {
    Queue& queue = queues_[q];
    queue.commands.clear();
    queue.waits.clear();
    queue.added = queue.cancelled = queue.submitted;
    device_.driver().cancel(queue.handle);
  }
}

aipu_device_command DeviceQueues::transfer_in(std::byte* destination, const void* source, size_t bytes) {
  aipu_device_command command = row_of(AIPU_DEVICE_COPY_IN, bytes);
  command.destination = address_of(destination);
  command.host_source = source;
  return command;
}

aipu_device_command DeviceQueues::transfer_out(void* destination, const std::byte* source, size_t bytes) {
  aipu_device_command command = row_of(AIPU_DEVICE_COPY_OUT, bytes);
  command.source = address_of(source);
  command.host_destination = destination;
  return command;
}

aipu_device_command DeviceQueues::fill(std::byte* destination, size_t bytes) {
  aipu_device_command command = row_of(AIPU_DEVICE_FILL, bytes);
  command.destination = address_of(destination);
  return command;
}

Status DeviceQueues::run_alone(const aipu_device_command& command, int64_t deadline_ns) {
  if (command.width == 0) return {};
  AIPU_ASSIGN_OR_RETURN(const aipu_device_event event, add(kTransfers, command, {}));
  Outcome outcome = wait_for(event, deadline_ns);
  if (outcome.status.ok() && outcome.is_late) outcome.status = out_of_range("a copy was not done in time");
  if (!outcome.status.ok()) cancel();
  return std::move(outcome.status);
}

Status DeviceQueues::put(std::byte* destination, const void* source, size_t bytes, int64_t deadline_ns) {
  return run_alone(transfer_in(destination, source, bytes), deadline_ns);
}

Status DeviceQueues::get(void* destination, const std::byte* source, size_t bytes, int64_t deadline_ns) {
  return run_alone(transfer_out(destination, source, bytes), deadline_ns);
}

Status DeviceQueues::move(std::byte* destination, const std::byte* source, size_t bytes, int64_t deadline_ns) {
  aipu_device_command command = row_of(AIPU_DEVICE_COPY, bytes);
  command.source = address_of(source);
  command.destination = address_of(destination);
  return run_alone(command, deadline_ns);
}

}  // namespace aipu::runtime
