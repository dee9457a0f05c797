#include "kernels/parts/staging.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/parts/rounding.h"

namespace aipu::kernels {
namespace {

using graph::Dim;

constexpr int kBuffers = 2;
// Counters, addresses and the branch of a vector's turn; the vector instructions run beside them.
constexpr double kVectorTurn = 5;
// Positions of a tile, waits, the loops around it.
constexpr double kTileTurn = 80;
constexpr int64_t kMostPieces = 16;
// Of tensors whose size is not known: four tiles per TEC, but none of less than this.
constexpr int64_t kPieces = 4, kLeastTile = 256;

class MapModel {
 public:
  MapModel(const tir::Target& target, std::span<const StagedOperand> operands, int lanes)
      : costs_(target.costs.value_or(tir::CostFigures())), lanes_(lanes), operands_(operands.size()) {
    const npu_timing::Figures& figures = costs_.commands;
    const double tecs = std::max(1, target.all_tecs());
    bytes_per_cycle_ = std::min(figures.dma_bytes_per_cycle, figures.global_bytes_per_cycle / tecs);
    for (const StagedOperand& operand : operands) {
      (operand.is_result ? bytes_out_ : bytes_in_) += operand.element_bytes;
      (operand.is_result ? transfers_out_ : transfers_in_) += 1;
    }
  }

  double compute(int64_t tile) const {
    const double accesses = static_cast<double>(operands_) * costs_.local_access;
    const double turns = static_cast<double>(ceil_of(tile, lanes_));
    return turns * (accesses + kVectorTurn) + (transfers_in_ + transfers_out_) * costs_.commands.dma_setup + kTileTurn;
  }
  double transfer(int64_t tile) const { return way_in(tile) + way_out(tile); }
  // `elements`: of one TEC.
  double cycles(int64_t elements, int64_t tile) const {
    const auto tiles = static_cast<double>(ceil_of(elements, tile));
    return way_in(tile) + tiles * std::max(compute(tile), transfer(tile)) + way_out(tile);
  }
  double direct_cycles(int64_t elements) const {
    const double accesses = static_cast<double>(operands_) * costs_.global_access;
    return static_cast<double>(ceil_of(elements, lanes_)) * (accesses + kVectorTurn);
  }

 private:
  double way_in(int64_t tile) const { return way(tile, transfers_in_, bytes_in_); }
  double way_out(int64_t tile) const { return way(tile, transfers_out_, bytes_out_); }
  double way(int64_t tile, double transfers, double bytes) const {
    return transfers * (costs_.commands.dma_latency + costs_.commands.dma_row) +
           static_cast<double>(tile) * bytes / bytes_per_cycle_;
  }

  tir::CostFigures costs_;
  int lanes_;
  size_t operands_;
  double bytes_per_cycle_ = 1, bytes_in_ = 0, bytes_out_ = 0, transfers_in_ = 0, transfers_out_ = 0;
};

}  // namespace

MapStaging plan_map_staging(const tir::Target& target, const Dim& elements, std::span<const StagedOperand> operands,
                            int lanes) {
  MapStaging plan;
  int64_t bytes = 0;
  for (const StagedOperand& operand : operands) bytes += operand.element_bytes;
  if (!has_staging(target) || bytes == 0) return plan;
  const MapModel model(target, operands, lanes);
  const int tecs = target.all_tecs();
  // Buffers begin at multiples of 64 bytes.
  const int64_t room = target.lsram_bytes() - static_cast<int64_t>(operands.size()) * 64;
  plan.capacity = room / (kBuffers * bytes) / lanes * lanes;
  if (plan.capacity <= 0) return plan;
  plan.buffers = kBuffers;
  std::string estimate = "for any number of elements";
  if (const auto count = elements.constant()) {
    const int64_t own = std::max<int64_t>(ceil_of(*count, tecs), 1);
    int64_t best = 0;
    for (int64_t pieces = std::max<int64_t>(ceil_of(own, plan.capacity), 1), n = 0; n < kMostPieces; ++n, ++pieces) {
      const int64_t tile = rounded_up(ceil_of(own, pieces), lanes);
      if (best == 0 || model.cycles(own, tile) < model.cycles(own, best)) best = tile;
    }
    best = std::min(best, plan.capacity);
    const double staged = model.cycles(own, best), direct = model.direct_cycles(own);
    estimate =
        fmt::format("{} elements per TEC, {:.0f} cycles staged, {:.0f} in place; a tile computes {:.0f}, moves {:.0f}",
                    own, staged, direct, model.compute(best), model.transfer(best));
    if (direct <= staged) {
      plan.buffers = 0;
      plan.text = "not staged: " + estimate;
      return plan;
    }
    plan.tile = best;
  } else {
    const Dim piece = graph::ceildiv(elements, tecs * kPieces);
    plan.tile = graph::max(graph::min(graph::ceildiv(piece, lanes) * Dim(lanes), plan.capacity),
                           std::min(kLeastTile, plan.capacity));
  }
  plan.max_tecs = graph::max(graph::min(graph::ceildiv(elements, plan.tile), tecs), 1);
  plan.text = fmt::format("tiles of {} elements, {} buffers for each of {} operands, {} of {} bytes of {}: {}",
                          plan.tile.text(), plan.buffers, operands.size(), kBuffers * bytes * plan.capacity,
                          target.lsram_bytes(), target.memory(tir::Reach::kTec)->name, estimate);
  return plan;
}

}  // namespace aipu::kernels
