// How many cycles a kernel takes on an X2-like NPU, estimated from what a run of it does.
//
// Two steps: instrument() adds counters to a lowered kernel: how often each straight piece of code runs, and how many
// bytes each DMA call moves, per TEC. After a run on real data, by whatever executes kernels, estimate() weighs the
// counters. So loops, branches and masks cost what they cost for these arguments.
//
// The model, deliberately simple (its figures belong to the target; those said here are X2_1204's, CostFigures):
//  - A TEC issues a scalar and a vector instruction per cycle: a straight piece of code takes the larger of its scalar
//    and vector cycles, plus its memory accesses. Every instruction on a native vector costs 1, except division (12),
//    transcendental functions (16), horizontal reductions (4) and the like. Registers suffice, copies between them are
//    not counted (a compiler renames most of them away), branches are not predicted (2 cycles), calls take 8.
//  - Memory by scope, caches always hit: lsram and private 1, shared 2, global 4 cycles per access; strided, gathered
//    and scattered ones 1 more for each lane.
//  - DMA: 40 cycles to set up, 100 of latency, 16 bytes per cycle and TEC, 4 cycles per row. A TEC's transfers follow
//    one another. A synchronous copy stops its TEC; asynchronous ones run beside its code, which waits where it says so
//    (wait_events, free_events, a barrier) until what it waits for is there. In kernels that have such copies the
//    instrumented code keeps the time of both, block by block. All TECs share 32 bytes per cycle.
//  - A launch takes 200 cycles, a barrier 24. The kernel takes as long as its slowest TEC.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/targets/cost_figures.h"
#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

enum class CycleClass : uint8_t { kScalar, kVector, kMath, kControl, kLocalMemory, kGlobalMemory, kDma, kSync };
constexpr size_t kCycleClasses = 8;
std::string_view cycle_class_name(CycleClass c);  // "scalar", "vector", "math", ...

using CycleCounts = std::array<double, kCycleClasses>;

struct InstrumentedKernel {
  // The kernel with one more parameter at the end of each function, in the entry a pointer to global int64: counter c
  // of TEC t is element t * counter_count + c. The caller zeroes them.
  Module module;
  int64_t counter_count = 0;
  bool timeline = false;  // there are asynchronous copies: the first counters are times
  CostFigures costs;      // what estimate() weighs with

  struct Line {
    std::shared_ptr<const std::string> file;  // null for generated code
    int line = 0;
  };
  std::vector<Line> lines;

  // Straight code, by source line; `counter` counts its runs.
  struct Piece {
    uint32_t line;  // in `lines`
    CycleCounts cycles;
  };
  struct Block {
    int64_t counter = 0;
    std::vector<Piece> pieces;
  };
  std::vector<Block> blocks;
  // A DMA call: counters first_counter (runs), + 1 (bytes), + 2 (rows).
  struct Transfer {
    int64_t first_counter;
    uint32_t line;
    std::string name;
    bool asynchronous;
  };
  std::vector<Transfer> transfers;
};

// `lowered` is printable (codegen/lower/lower.h), and so is the result. `costs`: those of its target.
Result<InstrumentedKernel> instrument(const Module& lowered, const CostFigures& costs = {});

struct CycleEstimate {
  struct Tec {
    double cycles = 0;         // from the launch to its end
    double code_cycles = 0;    // of its instructions, without waiting
    CycleCounts classes = {};  // before scalar and vector instructions overlap
    double dma_cycles = 0;     // synchronous copies
    double async_cycles = 0;   // asynchronous ones, overlapped or not
    int64_t dma_bytes = 0;
  };
  struct LineCost {
    std::string file;
    int line = 0;
    CycleCounts classes = {};  // of all TECs; DMA includes the time of transfers
    double total() const;
  };
  double cycles = 0;
  double compute_cycles = 0;     // of the instructions alone, of the TEC that has most of them
  double dma_cycles = 0;         // of the transfers alone, of the TEC that has most of them or of all TECs together
  bool bandwidth_bound = false;  // the DMA of all TECs together decides
  std::vector<Tec> tecs;
  std::vector<LineCost> lines;  // that cost anything, in order of place
  struct TransferCost {
    std::string name;
    int line = 0;
    bool asynchronous = false;
    int64_t runs = 0, bytes = 0;
    double cycles = 0;
  };
  std::vector<TransferCost> transfers;
};

// `counters`: counter_count per TEC.
CycleEstimate estimate(const InstrumentedKernel& kernel, std::span<const int64_t> counters);

}  // namespace aipu::tir
