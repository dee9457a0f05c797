// What commands take on an NPU, in cycles. The figures belong to a target (codegen/targets/target.h); both halves weigh
// with them: codegen/timing what an instrumented kernel has counted, back ends of the runtime what they know of a
// launch or a copy without that, its sizes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace aipu::npu_timing {

// All in cycles, or per cycle. As they stand: those of X2_1204's model.
struct Figures {
  double launch = 200;
  double dma_setup = 40, dma_latency = 100, dma_row = 4;
  double dma_bytes_per_cycle = 16;     // of one transfer
  double global_bytes_per_cycle = 32;  // of all TECs together
  double lanes_per_tec = 8;            // of 32 bits, which one vector instruction computes on

  // What a DMA transfer takes beside the instruction that asks for it.
  double transfer_cycles(double transfers, double rows, double bytes) const {
    return transfers * dma_latency + rows * dma_row + bytes / dma_bytes_per_cycle;
  }

  // A command of the DMA engine: `rows` of `row_bytes` each.
  int64_t copy_cycles(int64_t rows, int64_t row_bytes) const {
    if (rows == 0 || row_bytes == 0) return 0;
    const double bytes = static_cast<double>(rows) * static_cast<double>(row_bytes);
    return static_cast<int64_t>(dma_setup + transfer_cycles(1, static_cast<double>(rows), bytes));
  }

  // A launch of which no more is known than how much it computes and how many bytes its tensors have: each is moved
  // once, as fast as the slower of the two allows.
  int64_t launch_cycles(int64_t operations, int64_t bytes, uint32_t tecs) const {
    const double compute = static_cast<double>(operations) / (lanes_per_tec * tecs);
    const double memory = static_cast<double>(bytes) / std::min(global_bytes_per_cycle, lanes_per_tec * tecs);
    return static_cast<int64_t>(launch + std::max(compute, memory));
  }
};

// Of the model that the back end x2 is, and of the rows of targets that it runs.
inline constexpr Figures kX2{};

}  // namespace aipu::npu_timing
