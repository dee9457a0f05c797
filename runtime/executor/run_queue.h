// Runs that have been submitted to a session: played one after the other, in the order in which they came, by a thread
// of the queue.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/executor/device.h"
#include "runtime/session.h"

namespace aipu::runtime {

// What a queue and its runs share; runs may outlive the queue. In a child made by fork() all of it is lost: the thread
// is not there, and the mutex may be held by nobody.
struct RunQueueState {
  RunQueueState();
  bool is_lost() const;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Run>> waiting;
  std::atomic<size_t> in_flight{0};  // waiting or being played
  bool closed = false;
  bool has_thread = false;
  pthread_t thread = {};
  uint32_t generation;  // of the process that the thread is in
};

struct Run::Impl {
  struct Input {
    DType dtype;
    std::vector<int64_t> shape;
    const void* data;
  };
  struct Output {
    OutputMemory given;
    TensorBuffer own;
    DType dtype = DType::kVoid;
    std::vector<int64_t> shape;
    const void* data = nullptr;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::function<void(const Run&)> done;

  std::shared_ptr<RunQueueState> queue;
  std::atomic<bool> is_done{false};
  Status status;  // once it is done
};

class RunQueue {
 public:
  // `play` runs what was submitted, on the queue's thread.
  explicit RunQueue(std::function<Status(Run::Impl&)> play);
  // Runs that have not begun end with an error, the one that is being played ends as it does; callbacks have been
  // called when this returns, except within one of them.
  ~RunQueue();
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;

  Result<std::shared_ptr<Run>> submit(std::unique_ptr<Run::Impl> run);
  bool is_idle() const { return state_->is_lost() || state_->in_flight.load(std::memory_order_acquire) == 0; }

 private:
  Status start_thread();

  std::function<Status(Run::Impl&)> play_;
  std::shared_ptr<RunQueueState> state_;
};

namespace sandbox {
class Session;
}
// What a queue plays, where the session is in a sandbox.
Status play_in_sandbox(sandbox::Session& session, Run::Impl& run);

}  // namespace aipu::runtime
