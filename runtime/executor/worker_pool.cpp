#include "runtime/executor/worker_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <fstream>
#include <new>
#include <string>
#include <string_view>

#include "runtime/base/fork_generation.h"
#include "runtime/executor/running_kernel.h"

namespace aipu::runtime {
namespace {

constexpr auto kSpinBeforeSleep = std::chrono::microseconds(200);
// While a run goes on: longer than most of what a run does on one thread, such as planning new shapes.
constexpr auto kSpinWithinRun = std::chrono::milliseconds(2);
constexpr int kSpinsPerClockRead = 256;
constexpr int kSpinsBeforeYield = 4096;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool parse_number(std::string_view text, double* value) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  *value = static_cast<double>(number);
  return error == std::errc() && number > 0;
}

// CPUs' worth of time that the control group of this process, or one above it, may use; 0 means unlimited.
double cgroup_quota() {
  double quota = 0;
  const auto limit = [&](double numerator, double denominator) {
    const double value = numerator / denominator;
    quota = quota == 0 ? value : std::min(quota, value);
  };
  std::string line;
  std::string group;
  std::ifstream groups("/proc/self/cgroup");
  while (std::getline(groups, line)) {
    if (line.rfind("0::", 0) == 0) group = line.substr(3);
  }
  // Version 2: "max 100000" or "50000 100000".
  for (std::string path = group.empty() ? "/" : group;;) {
    std::ifstream file("/sys/fs/cgroup" + path + "/cpu.max");
    std::string allowed;
    std::string period;
    double numerator = 0;
    double denominator = 0;
    if (file >> allowed >> period && parse_number(allowed, &numerator) && parse_number(period, &denominator))
      limit(numerator, denominator);
    const size_t slash = path.find_last_of('/');
    if (path == "/" || slash == std::string::npos) break;
    path = slash == 0 ? "/" : path.substr(0, slash);
  }
  // Version 1.
  std::ifstream allowed_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double allowed = 0;
  double period = 0;
  if (allowed_file >> allowed && period_file >> period && allowed > 0 && period > 0) limit(allowed, period);
  return quota;
}

}  // namespace

uint32_t available_cpus() {
  static const uint32_t count = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    uint32_t cpus = 1;
    if (::sched_getaffinity(0, sizeof set, &set) == 0) {
      cpus = static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
    } else if (const long online = ::sysconf(_SC_NPROCESSORS_ONLN); online > 0) {
      cpus = static_cast<uint32_t>(online);
    }
    const double quota = cgroup_quota();
    if (quota > 0) cpus = std::min(cpus, static_cast<uint32_t>(std::max(1.0, quota + 0.999)));
    return cpus;
  }();
  return count;
}

// The caller writes `epoch`, the worker writes `done` and `asleep`: separate lines, so that neither spins on what the
// other writes needlessly. A job belongs to whoever moves `claimed` to its epoch: the worker, or the caller when the
// worker is late.
struct WorkerPool::Worker {
  alignas(128) std::atomic<uint32_t> epoch{0};
  alignas(128) std::atomic<uint32_t> done{0};
  std::atomic<uint32_t> asleep{0};
  alignas(128) std::atomic<uint32_t> claimed{0};
  alignas(128) std::atomic<bool> stop{false};
  std::atomic<bool> is_kept_away{false};  // until it has set its CPUs to `usual` again
  cpu_set_t usual = {};
  WorkerPool* pool = nullptr;
  uint32_t index = 0;
  // Not a std::thread: after fork() there is none to join, and failing to start one is no exception here.
  pthread_t thread = {};

  // Epochs only go forward: who is late by more than one job must not take an old one.
  bool claim(uint32_t job) {
    uint32_t last = claimed.load(std::memory_order_relaxed);
    while (static_cast<int32_t>(job - last) > 0) {
      if (claimed.compare_exchange_weak(last, job, std::memory_order_acq_rel, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  // For the caller, when it has seen that the worker sleeps or is about to.
  void rouse() {
    keep_away();
    asleep.store(0, std::memory_order_seq_cst);
    futex_wake(asleep);
  }
  // From the CPU of the caller, which is about to be busy. What the system refuses stays as it is.
  void keep_away() {
    if (is_kept_away.load(std::memory_order_acquire)) return;
    const int here = ::sched_getcpu();
    if (here < 0 || ::pthread_getaffinity_np(thread, sizeof usual, &usual) != 0) return;
    cpu_set_t others = usual;
    CPU_CLR(static_cast<size_t>(here), &others);
    if (CPU_COUNT(&others) == 0 || CPU_EQUAL(&others, &usual)) return;
    if (::pthread_setaffinity_np(thread, sizeof others, &others) == 0)
      is_kept_away.store(true, std::memory_order_release);
  }
  // The worker itself, once it runs.
  void come_back() {
    if (!is_kept_away.load(std::memory_order_acquire)) return;
    ::pthread_setaffinity_np(thread, sizeof usual, &usual);
    is_kept_away.store(false, std::memory_order_release);
  }
};

WorkerPool::WorkerPool(uint32_t threads) : generation_(fork_generation()) {
  const uint32_t cpus = available_cpus();
  size_ = threads == 0 ? cpus : std::min(threads, cpus);
  workers_.reserve(size_);
  start_workers();
  size_ = static_cast<uint32_t>(workers_.size()) + 1;
}

WorkerPool::~WorkerPool() {
  if (generation_.load(std::memory_order_relaxed) != fork_generation()) return;
  for (auto& worker : workers_) {
    worker->stop.store(true, std::memory_order_relaxed);
    worker->epoch.fetch_add(1, std::memory_order_seq_cst);
    worker->asleep.store(0, std::memory_order_seq_cst);
    futex_wake(worker->asleep);
    ::pthread_join(worker->thread, nullptr);
  }
}

void WorkerPool::start_workers() {
  while (!is_complete()) {
    std::unique_ptr<Worker> worker(new (std::nothrow) Worker);
    if (worker == nullptr) return;
    worker->pool = this;
    worker->index = static_cast<uint32_t>(workers_.size()) + 1;
    const auto enter = [](void* self) -> void* {
      static_cast<Worker*>(self)->pool->work(*static_cast<Worker*>(self));
      return nullptr;
    };
    if (::pthread_create(&worker->thread, nullptr, enter, worker.get()) != 0) return;
    workers_.push_back(std::move(worker));
  }
}

// In a child, several threads may be the first to use a pool that their sessions share.
void WorkerPool::forget_workers() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (generation_.load(std::memory_order_relaxed) == fork_generation()) return;
  new (&turn_) Turn;  // whoever had it at the time is gone
  workers_.clear();
  generation_.store(fork_generation(), std::memory_order_release);
}

std::unique_lock<WorkerPool::Turn> WorkerPool::acquire() {
  if (generation_.load(std::memory_order_acquire) != fork_generation()) forget_workers();
  std::unique_lock lock(turn_);
  if (!is_complete()) start_workers();
  return lock;
}

void WorkerPool::work(Worker& worker) {
  uint32_t seen = 0;
  while (true) {
    auto idle_since = std::chrono::steady_clock::now();
    int spins = 0;
    while (worker.epoch.load(std::memory_order_acquire) == seen) {
      pause();
      if (++spins % kSpinsPerClockRead != 0) continue;
      const auto spun = std::chrono::steady_clock::now() - idle_since;
      if (spun < kSpinBeforeSleep || (turn_.is_taken() && spun < kSpinWithinRun)) continue;
      // Announce the sleep before the last look at the epoch; those who write the epoch look at `asleep` afterwards, so
      // one of the two sees the other. An exchange, which is a barrier even where an emulator lets a load pass a store
      // of that order (qemu, of 64-bit Arm on x86-64); there a worker slept through its job.
      worker.asleep.exchange(1, std::memory_order_seq_cst);
      while (worker.epoch.load(std::memory_order_seq_cst) == seen && worker.asleep.load(std::memory_order_seq_cst) == 1)
        futex_wait(worker.asleep, 1);
      worker.asleep.store(0, std::memory_order_seq_cst);
      worker.come_back();
      idle_since = std::chrono::steady_clock::now();
    }
    seen = worker.epoch.load(std::memory_order_acquire);
    if (worker.stop.load(std::memory_order_relaxed)) return;
    worker.come_back();  // it may have been about to sleep, no more
    if (!worker.claim(seen)) continue;
    running_kernel = running_;
    body_(argument_, worker.index);
    running_kernel = nullptr;
    worker.done.store(seen, std::memory_order_release);
  }
}

void WorkerPool::wake() {
  for (auto& worker : workers_) {
    if (worker->asleep.load(std::memory_order_relaxed) == 1) worker->rouse();
  }
}

void WorkerPool::run(uint32_t count, Body body, void* argument, bool independent) {
  if (count > 1) {
    body_ = body;
    argument_ = argument;
    running_ = running_kernel;
    for (uint32_t i = 0; i + 1 < count; ++i) {
      Worker& worker = *workers_[i];
      worker.epoch.fetch_add(1, std::memory_order_seq_cst);
      if (worker.asleep.load(std::memory_order_seq_cst) == 1) worker.rouse();
    }
  }
  body(argument, 0);
  for (uint32_t i = 0; i + 1 < count; ++i) {
    Worker& worker = *workers_[i];
    const uint32_t epoch = worker.epoch.load(std::memory_order_relaxed);
    if (independent && worker.claim(epoch)) {
      body(argument, i + 1);
      continue;
    }
    for (int spins = 0; worker.done.load(std::memory_order_acquire) != epoch; ++spins) {
      pause();
      // A worker that is this late has lost its CPU to another process: let that one get on.
      if (spins >= kSpinsBeforeYield) {
        ::sched_yield();
        spins = 0;
      }
    }
  }
}

}  // namespace aipu::runtime
