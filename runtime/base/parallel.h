// Independent pieces of work on several threads: for tools that start, work and end, not for runs of a model
// (executor/worker_pool.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace aipu {

// Threads that are joined when it goes.
class ThreadTeam {
 public:
  ThreadTeam() = default;
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam() {
    for (std::thread& thread : threads_) thread.join();
  }

  // Runs `body`, which must not throw, in a thread of its own. False: the system has no thread or no memory for one.
  template <typename Body>
  bool start(Body body) {
    try {
      threads_.emplace_back(std::move(body));
      return true;
    } catch (const std::system_error&) {
      return false;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

 private:
  std::vector<std::thread> threads_;
};

// `jobs` as options give it: 0 is one per CPU.
inline size_t job_count(int jobs) {
  return jobs > 0 ? static_cast<size_t>(jobs) : std::max<size_t>(1, std::thread::hardware_concurrency());
}

// Calls body(i) for each i below `count`, from up to job_count(jobs) threads, or as many as the system has; each takes
// the next i, so all below one that has begun have begun too. The first exception of a body ends it all and is thrown
// here.
template <typename Body>
void parallel_for(size_t count, int jobs, const Body& body) {
  std::atomic<size_t> next{0};
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      next = count;
      if (!failed.test_and_set()) failure = std::current_exception();
    }
  };
  {
    ThreadTeam others;
    for (size_t i = 1; i < std::min(job_count(jobs), count) && others.start(work); ++i) {
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace aipu
