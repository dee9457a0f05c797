#include "runtime/executor/worker_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace aipu::runtime {
namespace {

TEST(WorkerPool, RunsEveryIndexOnceAlsoAfterSleep) {
  WorkerPool pool;
  const auto exclusive = pool.acquire();
  for (int round = 0; round < 200; ++round) {
    if (round % 50 == 49) std::this_thread::sleep_for(std::chrono::milliseconds(3));  // workers fall asleep
    if (round % 100 == 99) pool.wake();
    std::vector<std::atomic<int>> hits(pool.size());
    pool.run(
        pool.size(),
        [](void* argument, uint32_t index) { ++(*static_cast<std::vector<std::atomic<int>>*>(argument))[index]; },
        &hits);
    for (const auto& hit : hits) ASSERT_EQ(hit, 1);
  }
}

// Jobs follow each other faster than workers may notice: each index once, nothing of a job after run_independent() has
// returned.
TEST(WorkerPool, TakesOverWhatWorkersHaveNotBegun) {
  WorkerPool pool;
  const auto exclusive = pool.acquire();
  std::thread::id callers[2];
  for (int round = 0; round < 20000; ++round) {
    if (round % 5000 == 4999) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::vector<std::atomic<int>> hits(pool.size());
    const auto body = [](void* argument, uint32_t index) {
      ++(*static_cast<std::vector<std::atomic<int>>*>(argument))[index];
    };
    if (round % 3 == 2) {
      pool.run(pool.size(), body, &hits);
    } else {
      pool.run_independent(pool.size(), body, &hits);
    }
    for (const auto& hit : hits) ASSERT_EQ(hit, 1) << round;
  }
  // A sleeping worker is not waited for: both parts of a job of no work are the caller's, or the worker was quick.
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  const auto note = [](void* argument, uint32_t index) {
    if (index < 2) static_cast<std::thread::id*>(argument)[index] = std::this_thread::get_id();
  };
  pool.run_independent(std::min(pool.size(), 2u), note, callers);
  EXPECT_EQ(callers[0], std::this_thread::get_id());
}

// A worker that sleeps is woken on another CPU than the caller's, and may then run where the process may.
TEST(WorkerPool, WakesWorkersElsewhere) {
  cpu_set_t usual;
  ASSERT_EQ(::sched_getaffinity(0, sizeof usual, &usual), 0);
  WorkerPool pool(2);
  if (pool.size() < 2) GTEST_SKIP() << "one CPU";
  const auto exclusive = pool.acquire();
  struct Seen {
    std::atomic<int> cpus[2] = {-1, -1};
    cpu_set_t allowed;
  };
  int together = 0;
  for (int round = 0; round < 50; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    Seen seen;
    pool.run(
        2,
        [](void* argument, uint32_t index) {
          Seen& both = *static_cast<Seen*>(argument);
          if (index == 1) ::sched_getaffinity(0, sizeof both.allowed, &both.allowed);
          both.cpus[index] = ::sched_getcpu();
        },
        &seen);
    EXPECT_TRUE(CPU_EQUAL(&seen.allowed, &usual)) << round;
    together += seen.cpus[0] == seen.cpus[1] ? 1 : 0;
  }
  EXPECT_LT(together, 25);  // the system may move either of them in between
}

}  // namespace
}  // namespace aipu::runtime
