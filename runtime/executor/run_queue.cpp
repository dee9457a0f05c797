#include "runtime/executor/run_queue.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/base/fork_generation.h"
#include "runtime/base/guarded.h"

namespace aipu::runtime {
namespace {

Status lost() {
  return invalid_argument("the run was submitted before this process was forked, and is its parent's; submit it again");
}

// What the thread needs: the queue may be gone while it ends.
struct Player {
  std::shared_ptr<RunQueueState> state;
  std::function<Status(Run::Impl&)> play;
};

void finish(RunQueueState& state, Run& run, Status status) {
  Run::Impl& impl = run.impl();
  impl.status = std::move(status);
  {
    // In this order: who sees that a run is done may use its session at once.
    const std::lock_guard lock(state.mutex);
    state.in_flight.fetch_sub(1, std::memory_order_acq_rel);
    impl.is_done.store(true, std::memory_order_release);
  }
  state.changed.notify_all();
  if (const auto done = std::exchange(impl.done, nullptr); done != nullptr)
    static_cast<void>(guarded([&]() -> Status {
      done(run);
      return {};
    }));
}

void* serve(void* argument) {
  const std::unique_ptr<Player> player(static_cast<Player*>(argument));
  RunQueueState& state = *player->state;
  while (true) {
    std::shared_ptr<Run> run;
    bool closed = false;
    {
      std::unique_lock lock(state.mutex);
      state.changed.wait(lock, [&] { return state.closed || !state.waiting.empty(); });
      if (state.waiting.empty()) return nullptr;
      run = std::move(state.waiting.front());
      state.waiting.pop_front();
      closed = state.closed;
    }
    Status status = closed ? invalid_argument("the session was closed before this run began")
                           : guarded([&] { return player->play(run->impl()); });
    finish(state, *run, std::move(status));
  }
}

}  // namespace

RunQueueState::RunQueueState() : generation(fork_generation()) {}

bool RunQueueState::is_lost() const { return generation != fork_generation(); }

RunQueue::RunQueue(std::function<Status(Run::Impl&)> play)
    : play_(std::move(play)), state_(std::make_shared<RunQueueState>()) {}

RunQueue::~RunQueue() {
  if (state_->is_lost()) {
    // Never destroyed: nobody knows in what state its mutex is.
    static_cast<void>(new (std::nothrow) std::shared_ptr<RunQueueState>(std::move(state_)));
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
  }
  state_->changed.notify_all();
  if (!state_->has_thread) return;
  if (::pthread_equal(state_->thread, ::pthread_self()) != 0) {
    ::pthread_detach(state_->thread);  // in a callback: the thread ends the other runs when it is back from it
  } else {
    ::pthread_join(state_->thread, nullptr);
  }
}

// Needs the mutex.
Status RunQueue::start_thread() {
  if (state_->has_thread) return {};
  auto player = std::make_unique<Player>(Player{state_, play_});
  if (const int code = ::pthread_create(&state_->thread, nullptr, &serve, player.get()); code != 0)
    return out_of_range(str_cat("cannot start the thread for submitted runs: ", std::strerror(code)));
  static_cast<void>(player.release());  // the thread's now
  state_->has_thread = true;
  return {};
}

Result<std::shared_ptr<Run>> RunQueue::submit(std::unique_ptr<Run::Impl> impl) {
  if (state_->is_lost()) {
    static_cast<void>(new std::shared_ptr<RunQueueState>(std::move(state_)));
    state_ = std::make_shared<RunQueueState>();
  }
  impl->queue = state_;
  const std::shared_ptr<Run> run(new Run(std::move(impl)));
  {
    const std::lock_guard lock(state_->mutex);
    AIPU_RETURN_IF_ERROR(start_thread());
    state_->waiting.push_back(run);
    state_->in_flight.fetch_add(1, std::memory_order_acq_rel);
  }
  state_->changed.notify_all();
  return run;
}

Run::Run(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Run::~Run() = default;

bool Run::is_done() const { return impl_->is_done.load(std::memory_order_acquire); }

Status Run::wait() const {
  static_cast<void>(wait_for(INFINITY));
  return is_done() ? impl_->status : lost();
}

bool Run::wait_for(double seconds) const {
  if (is_done()) return true;
  RunQueueState& queue = *impl_->queue;
  if (queue.is_lost()) return false;
  std::unique_lock lock(queue.mutex);
  if (!(seconds < 1e9)) {
    queue.changed.wait(lock, [&] { return is_done(); });
    return true;
  }
  const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  return queue.changed.wait_for(lock, time, [&] { return is_done(); });
}

Result<TensorView> Run::output(size_t index) const {
  if (!is_done()) return invalid_argument("the run is not done yet; wait for it");
  if (!impl_->status.ok()) return impl_->status;
  if (index >= impl_->outputs.size()) return invalid_argument(str_cat("output ", index, " of ", impl_->outputs.size()));
  const Impl::Output& output = impl_->outputs[index];
  return TensorView{output.dtype, output.shape, output.data};
}

}  // namespace aipu::runtime
