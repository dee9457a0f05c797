// The figures of the timing model that both halves use: codegen/timing weighs what an instrumented kernel has counted,
// back ends of the runtime weigh what they know of a launch or a copy without that, its sizes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace aipu::npu_timing {

inline constexpr double kLaunch = 200;
inline constexpr double kDmaSetup = 40, kDmaLatency = 100, kDmaRow = 4, kDmaBytesPerCycle = 16;
inline constexpr double kSharedBytesPerCycle = 32;  // of all TECs together
inline constexpr double kLanesPerTec = 8;           // of 32 bits, which one vector instruction computes on

// What a DMA transfer takes beside the instruction that asks for it.
inline double transfer_cycles(double transfers, double rows, double bytes) {
  return transfers * kDmaLatency + rows * kDmaRow + bytes / kDmaBytesPerCycle;
}

// A command of the DMA engine: `rows` of `row_bytes` each.
inline int64_t copy_cycles(int64_t rows, int64_t row_bytes) {
  if (rows == 0 || row_bytes == 0) return 0;
  const double bytes = static_cast<double>(rows) * static_cast<double>(row_bytes);
  return static_cast<int64_t>(kDmaSetup + transfer_cycles(1, static_cast<double>(rows), bytes));
}

// A launch of which no more is known than how much it computes and how many bytes its tensors have: each is moved once,
// as fast as the slower of the two allows.
inline int64_t launch_cycles(int64_t operations, int64_t bytes, uint32_t tecs) {
  const double compute = static_cast<double>(operations) / (kLanesPerTec * tecs);
  const double memory = static_cast<double>(bytes) / std::min(kSharedBytesPerCycle, kLanesPerTec * tecs);
  return static_cast<int64_t>(kLaunch + std::max(compute, memory));
}

}  // namespace aipu::npu_timing
