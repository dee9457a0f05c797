// What commands take on an NPU, in cycles. The figures belong to a target (codegen/targets/target.h); both halves weigh
// with them: codegen/timing what an instrumented kernel has counted, back ends of the runtime what they know of a
// launch or a copy without that, its sizes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace aipu::npu_timing {

// All in cycles, or per cycle. As they stand: those of X2_1204's model.
struct Figures {
  double launch = 200;
  double dma_setup = 40, dma_latency = 100, dma_row = 4;
  double dma_bytes_per_cycle = 16;     // of one transfer
  double global_bytes_per_cycle = 32;  // of all TECs together
  double lanes_per_tec = 8;            // of 32 bits, which one vector instruction computes on
  // A command of the host, and an iteration that it decides on: it hears of what is done, and submits what comes.
  double host = 400;

  static int64_t whole(double cycles) { return static_cast<int64_t>(std::min(cycles, 9e18)); }

  // As files have them (Model.cost_figures of aipu.fbs), at the beginning of the list: those that are not given stay.
  static Figures from(const double* numbers, size_t count);

  // What a DMA transfer takes beside the instruction that asks for it.
  double transfer_cycles(double transfers, double rows, double bytes) const {
    return transfers * dma_latency + rows * dma_row + bytes / dma_bytes_per_cycle;
  }

  // A command of the DMA engine: `rows` of `row_bytes` each.
  int64_t copy_cycles(int64_t rows, int64_t row_bytes) const {
    if (rows == 0 || row_bytes == 0) return 0;
    const double bytes = static_cast<double>(rows) * static_cast<double>(row_bytes);
    return whole(dma_setup + transfer_cycles(1, static_cast<double>(rows), bytes));
  }

  // A launch of which no more is known than how much it computes and how many bytes its tensors have: each is moved
  // once, as fast as the slower of the two allows.
  int64_t launch_cycles(int64_t operations, int64_t bytes, uint32_t tecs) const {
    const auto [compute, memory] = launch_parts(operations, bytes, tecs);
    return whole(launch + std::max(compute, memory));
  }
  // What it computes, and what it moves.
  std::pair<double, double> launch_parts(int64_t operations, int64_t bytes, uint32_t tecs) const {
    return {static_cast<double>(operations) / (lanes_per_tec * tecs),
            static_cast<double>(bytes) / std::min(global_bytes_per_cycle, lanes_per_tec * tecs)};
  }
};

// Their order in files. What is added to it comes after the figures of kernels (codegen/targets/cost_figures.h).
inline constexpr std::array kCommandFigures = {&Figures::launch,
                                               &Figures::dma_setup,
                                               &Figures::dma_latency,
                                               &Figures::dma_row,
                                               &Figures::dma_bytes_per_cycle,
                                               &Figures::global_bytes_per_cycle,
                                               &Figures::lanes_per_tec,
                                               &Figures::host};
// Each is at least this, which keeps what is divided by it a number, and at most that. The host may cost nothing.
inline constexpr double kLeastFigure = 1e-3, kMostFigure = 1e9;

inline Figures Figures::from(const double* numbers, size_t count) {
  Figures figures;
  for (size_t i = 0; i < std::min(count, kCommandFigures.size()); ++i) figures.*kCommandFigures[i] = numbers[i];
  return figures;
}

// Of the model that the back end x2 is, and of the rows of targets that it runs.
inline constexpr Figures kX2{};

// What a core of an X2_1204 has of TECs and their memories, which that model has too, and of cores as many as the
// largest of its kind.
struct Machine {
  uint32_t tecs = 4;  // per core
  uint32_t cores = 4;
  uint32_t lsram_bytes = 32 << 10;    // per TEC
  uint32_t shared_bytes = 256 << 10;  // of all TECs of a core
};
inline constexpr Machine kX2Machine{};

}  // namespace aipu::npu_timing
