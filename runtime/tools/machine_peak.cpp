#include "runtime/tools/machine_peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "runtime/base/parallel.h"

namespace aipu::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAccumulators = 12;  // more than latency times throughput of the multiply-add units
constexpr int kSteps = 4096;

// The same loop for every vector width; the compiler keeps the accumulators in registers.
#define AIPU_PEAK_LOOP(NAME, TARGET, BYTES)                                            \
  TARGET float NAME() {                                                                \
    typedef float Vector __attribute__((vector_size(BYTES)));                          \
    Vector sums[kAccumulators];                                                        \
    Vector factor = {};                                                                \
    factor += 0.999f;                                                                  \
    asm volatile("" : "+x"(factor));                                                   \
    for (Vector & sum : sums) sum = factor;                                            \
    for (int step = 0; step < kSteps; ++step) {                                        \
      _Pragma("GCC unroll 12") for (Vector & sum : sums) sum = sum * factor + factor;  \
    }                                                                                  \
    Vector total = sums[0];                                                            \
    _Pragma("GCC unroll 12") for (int i = 1; i < kAccumulators; ++i) total += sums[i]; \
    return total[0];                                                                   \
  }

#if defined(__clang__)  // contracts within an expression anyway
#define AIPU_CONTRACT
#else
#define AIPU_CONTRACT , optimize("fp-contract=fast")
#endif
#if defined(__x86_64__)
AIPU_PEAK_LOOP(loop_512, __attribute__((target("avx512f,fma") AIPU_CONTRACT)), 64)
AIPU_PEAK_LOOP(loop_256, __attribute__((target("avx2,fma") AIPU_CONTRACT)), 32)
#endif
AIPU_PEAK_LOOP(loop_baseline, , 16)

struct Loop {
  float (*run)();
  int lanes;
};

Loop widest_loop() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {loop_512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {loop_256, 8};
#endif
  return {loop_baseline, 4};
}

// The best of several short rounds in which all threads run `body` at once; seconds of the slowest.
template <typename Body>
double best_round(int threads, Body body) {
  constexpr int kRounds = 5;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> ready{0}, expected{threads};
    std::vector<double> seconds(static_cast<size_t>(threads));
    const auto work = [&](int index) {
      ++ready;
      while (ready.load() < expected.load()) {
      }
      const auto start = Clock::now();
      body(index);
      seconds[static_cast<size_t>(index)] = std::chrono::duration<double>(Clock::now() - start).count();
    };
    {
      ThreadTeam others;
      for (int i = 1; i < expected; ++i) {
        if (!others.start([&work, i] { work(i); })) expected = i;
      }
      work(0);
    }
    best = std::min(best, *std::max_element(seconds.begin(), seconds.end()));
  }
  return best;
}

}  // namespace

MachinePeak measure_machine_peak(int threads) {
  MachinePeak peak;
  const Loop loop = widest_loop();
  constexpr int kCalls = 100;
  std::atomic<float> sink{0};
  const double arithmetic = best_round(threads, [&](int) {
    float sum = 0;
    for (int call = 0; call < kCalls; ++call) sum += loop.run();
    sink = sum;
  });
  peak.float_operations = 2.0 * loop.lanes * kAccumulators * kSteps * kCalls * threads / arithmetic;

  constexpr size_t kWords = size_t{64} << 17;  // 64 MiB per thread
  std::vector<std::vector<uint64_t>> memory;
  for (int i = 0; i < threads; ++i) memory.emplace_back(kWords, 1);
  std::atomic<uint64_t> word_sink{0};
  const double reading = best_round(threads, [&](int index) {
    const std::vector<uint64_t>& words = memory[static_cast<size_t>(index)];
    uint64_t sums[8] = {};
    for (size_t i = 0; i < words.size(); i += 8) {
      for (size_t k = 0; k < 8; ++k) sums[k] += words[i + k];
    }
    for (const uint64_t sum : sums) word_sink += sum;
  });
  peak.memory_bytes = static_cast<double>(kWords * sizeof(uint64_t)) * threads / reading;
  return peak;
}

}  // namespace aipu::tools
