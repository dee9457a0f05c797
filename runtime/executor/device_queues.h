// The queues of a session on a device: commands are collected in slices, submitted in an order in which nothing waits
// for what has not been submitted, and waited for where somebody needs what they give.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/executor/device.h"

namespace aipu::runtime {

class DeviceQueues {
 public:
  // The first two as fb::Engine. What the host reads and writes has a queue of its own, so that it does not wait for
  // copies that have nothing to do with it. Where one engine does all, the first two are one queue.
  enum Kind : size_t { kLaunches = 0, kCopies = 1, kTransfers = 2 };

  // `only_transfers`: without the other two.
  static Result<std::unique_ptr<DeviceQueues>> open(Device& device, bool only_transfers = false);
  ~DeviceQueues();
  DeviceQueues(const DeviceQueues&) = delete;
  DeviceQueues& operator=(const DeviceQueues&) = delete;

  Device& device() const { return device_; }

  // Puts a command into a queue, after all that `waits` say; its own list is set here. Gives its event.
  Result<aipu_device_event> add(Kind kind, aipu_device_command command, std::span<const aipu_device_event> waits);
  Status submit_all();

  // Until all that has been added is done, or something has failed, or time is over (is_late). The queues are empty
  // and without errors afterwards, except if that is told.
  struct Outcome {
    Status status;
    aipu_device_event failed = {};  // where there is an error of a command
    bool is_late = false;
  };
  Outcome wait_for_all(int64_t deadline_ns);
  // Until that one is.
  Outcome wait_for(aipu_device_event event, int64_t deadline_ns);
  // Whether it is, and there was no error.
  bool is_done(aipu_device_event event) const;
  // Leaves out what has not begun, after an error.
  void cancel();

  // One transfer by itself, now.
  Status put(std::byte* destination, const void* source, size_t bytes, int64_t deadline_ns);
  Status get(void* destination, const std::byte* source, size_t bytes, int64_t deadline_ns);
  Status move(std::byte* destination, const std::byte* source, size_t bytes, int64_t deadline_ns);
  static aipu_device_command transfer_in(std::byte* destination, const void* source, size_t bytes);
  static aipu_device_command transfer_out(void* destination, const std::byte* source, size_t bytes);
  static aipu_device_command fill(std::byte* destination, size_t bytes);

  aipu_device_event last(Kind kind) const { return {queue(kind).number, 0, queue(kind).added}; }

 private:
  struct Queue {
    void* handle = nullptr;
    uint32_t number = 0;
    uint64_t added = 0, submitted = 0;
    uint64_t cancelled = 0;                     // the last command when the queue was emptied after an error
    std::vector<aipu_device_command> commands;  // not submitted yet
    std::vector<aipu_device_event> waits;       // of these, one after the other
  };
  explicit DeviceQueues(Device& device) : device_(device) {}
  size_t place(Kind kind) const { return kind == kTransfers ? count_ - 1 : count_ == 2 ? kLaunches : kind; }
  Status open_queue(uint32_t engine);
  Queue& queue(Kind kind) { return queues_[place(kind)]; }
  const Queue& queue(Kind kind) const { return queues_[place(kind)]; }
  Status submit(Queue& queue);
  Status run_alone(const aipu_device_command& command, int64_t deadline_ns);

  Device& device_;
  std::array<Queue, 3> queues_;
  size_t count_ = 0;
};

}  // namespace aipu::runtime
