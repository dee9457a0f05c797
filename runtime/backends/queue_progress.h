// For who writes a device (device_api.h) in this process: how far its queues are, what has stopped them, and waiting
// for their events. All of it under the device's mutex.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>

#include "runtime/backends/device_api.h"
#include "runtime/base/status.h"

namespace aipu::runtime {

inline int tell(const Status& status, aipu_device_error* error) {
  std::snprintf(error->message, sizeof error->message, "%s", status.message().c_str());
  return static_cast<int>(status.code());
}

inline int tell_left_out(aipu_device_error* error) {
  std::snprintf(error->message, sizeof error->message, "the command was left out");
  return static_cast<int>(ErrorCode::kInvalidArgument);
}

struct QueueProgress {
  explicit QueueProgress(uint32_t its_number) : number(its_number) {}
  const uint32_t number;
  uint64_t submitted = 0, done = 0;
  uint64_t left_out_first = 1, left_out_last = 0;  // by the last cancel()
  int code = 0;                                    // of the error that has stopped it
  aipu_device_error error = {};
  aipu_device_event failed = {};  // where that was

  bool left_out(uint64_t command) const { return command >= left_out_first && command <= left_out_last; }

  // The command after those that are done.
  void stop(const Status& status) {
    code = tell(status, &error);
    failed = {number, 0, done + 1};
  }
  // It waits for one of that queue, which has failed or was left out.
  void stop_as(const QueueProgress& other) {
    const bool has_error = other.code != 0;
    if (has_error) error = other.error;
    code = has_error ? other.code : tell_left_out(&error);
    failed = has_error ? other.failed : aipu_device_event{number, 0, done + 1};
  }
  void cancel() {
    if (done < submitted) {
      left_out_first = done + 1;
      left_out_last = submitted;
    }
    done = submitted;
    code = 0;
  }
};

// By number; a queue that is not there has been closed, and all of it is done.
struct QueueTable {
  std::map<uint32_t, QueueProgress*> queues;
  uint32_t last_number = 0;

  enum class State { kPending, kDone, kFailed };
  // Of which queue: `of`.
  State state(const aipu_device_event& event, const QueueProgress** of) const {
    const auto found = queues.find(event.queue);
    if (event.command == 0 || found == queues.end()) return State::kDone;
    const QueueProgress& queue = *found->second;
    *of = &queue;
    if (queue.left_out(event.command)) return State::kFailed;
    if (event.command <= queue.done) return State::kDone;
    return queue.code != 0 ? State::kFailed : State::kPending;
  }

  // What the driver's wait() does.
  int wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, const aipu_device_event& event,
           int64_t deadline_ns, aipu_device_event* failed, aipu_device_error* error) const {
    const QueueProgress* of = nullptr;
    auto now = State::kPending;
    const auto is_over = [&] { return (now = state(event, &of)) != State::kPending; };
    if (deadline_ns == INT64_MAX) {
      changed.wait(lock, is_over);
    } else {
      const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline_ns)};
      if (!changed.wait_until(lock, until, is_over)) return AIPU_DEVICE_NOT_YET;
    }
    if (now == State::kDone) return 0;
    *failed = of->code != 0 ? of->failed : event;
    if (of->code == 0) return tell_left_out(error);
    *error = of->error;
    return of->code;
  }
};

}  // namespace aipu::runtime
