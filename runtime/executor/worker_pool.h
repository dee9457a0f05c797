// Persistent worker threads with a hand-off that costs a fraction of a microsecond while they are awake.
//
// Workers spin for a short time after each job, and longer within a run, and then sleep on a futex: a run wakes them
// once and kernels within it follow each other without system calls. A worker is woken on another CPU than its
// caller's: where the system puts both on one, which it does if the others are busy at that moment, they take turns
// there for milliseconds. There are never more workers than CPUs this process may use: a spinning thread without a CPU
// of its own would only be in the way. Where the system has no more threads to give, the pool is smaller. In a child
// made by fork() the workers are gone; acquire() starts others.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace aipu::runtime {

// CPUs that this process may use: affinity mask and cgroup quota (rounded up), at least 1.
uint32_t available_cpus();

struct RunningKernel;

class WorkerPool {
 public:
  using Body = void (*)(void* argument, uint32_t index);

  // `threads`: workers, the calling thread included; 0 means all available CPUs, more than those is cut down to them.
  explicit WorkerPool(uint32_t threads = 0);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  uint32_t size() const { return size_; }

  // Exclusive use, for a whole run; sessions that share a pool take turns.
  class Turn {
   public:
    void lock() {
      mutex_.lock();
      taken_.store(true, std::memory_order_relaxed);
    }
    void unlock() {
      taken_.store(false, std::memory_order_relaxed);
      mutex_.unlock();
    }
    bool is_taken() const { return taken_.load(std::memory_order_relaxed); }

   private:
    std::mutex mutex_;
    std::atomic<bool> taken_{false};
  };
  std::unique_lock<Turn> acquire();
  // Whether there are the size() - 1 workers that there were before fork(). Needs acquire().
  bool is_complete() const { return workers_.size() + 1 == size_; }

  // Both need acquire(). wake() only has an effect when workers sleep: a hint that work is coming.
  void wake();
  // body(argument, 0) on the caller and 1 .. count-1 on workers, concurrently; returns when all are done. 1 <= count <=
  // size().
  void run(uint32_t count, Body body, void* argument) { run(count, body, argument, false); }
  // The same for bodies that do not wait for each other: the caller also does what no worker has begun once it is done
  // with its own part.
  void run_independent(uint32_t count, Body body, void* argument) { run(count, body, argument, true); }

 private:
  struct Worker;
  void start_workers();
  void forget_workers();
  void work(Worker& worker);
  void run(uint32_t count, Body body, void* argument, bool independent);

  uint32_t size_ = 1;
  std::atomic<uint32_t> generation_;  // of the process that the workers are in
  Turn turn_;
  Body body_ = nullptr;
  void* argument_ = nullptr;
  const RunningKernel* running_ = nullptr;  // what the job is part of
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace aipu::runtime
