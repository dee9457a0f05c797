// Independent pieces of work on several threads: for tools that start, work and end, not for runs of a model
// (executor/worker_pool.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace aipu {

// `jobs` as options give it: 0 is one per CPU.
inline size_t job_count(int jobs) {
  return jobs > 0 ? static_cast<size_t>(jobs) : std::max<size_t>(1, std::thread::hardware_concurrency());
}

// Calls body(i) for each i below `count`, from up to job_count(jobs) threads; each takes the next i, so all below one
// that has begun have begun too.
template <typename Body>
void parallel_for(size_t count, int jobs, const Body& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::thread> workers;
  for (size_t i = 1; i < std::min(job_count(jobs), count); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
}

}  // namespace aipu
