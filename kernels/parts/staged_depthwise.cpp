#include "kernels/parts/staged_depthwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/parts/depthwise.h"
#include "kernels/parts/rounding.h"
#include "kernels/parts/staging.h"

namespace aipu::kernels {
namespace {

constexpr int kBuffers = 2;
// Buffers begin at multiples of it.
constexpr int64_t kBufferBytes = 64;
// What asynchronous DMA can step over.
constexpr int64_t kMostStrideBytes = 0xFFFFFF;
// Cycles of a unit's positions and waits, of a vector of channels of it, of a result beside its products.
constexpr double kUnitTurn = 200, kVectorTurn = 40, kResult = 6;

double number(int64_t n) { return static_cast<double>(n); }

}  // namespace

StagedDepthwise plan_staged_depthwise(const tir::Target& target, const SpatialGeometry& geometry, int lanes,
                                      const DepthwiseTypes& types) {
  const auto& [d, h, w] = geometry.axes;
  const auto channels = geometry.channels.constant(), out = w.out.constant(), in = w.in.constant();
  const bool is_plane = d.kernel == 1 && d.stride == 1 && d.in == graph::Dim(1) && d.out == graph::Dim(1);
  if (!has_staging(target) || !is_plane || !channels || !out || !in || *channels < 1 || *out < 1) return {};
  const auto image_bytes = static_cast<int64_t>(dtype_bytes(types.image)),
             weight_bytes = static_cast<int64_t>(dtype_bytes(types.weights)),
             result_bytes = static_cast<int64_t>(dtype_bytes(types.results));
  if (h.dilation * *in * *channels * image_bytes > kMostStrideBytes) return {};
  const tir::CostFigures costs = target.costs.value_or(tir::CostFigures());
  const npu_timing::Figures& figures = costs.commands;
  const double tec_bytes_per_cycle = figures.global_bytes_per_cycle / std::max(1, target.all_tecs());
  const int64_t taps = h.kernel * w.kernel;
  StagedDepthwise best;
  double best_cycles = 0;
  for (int64_t blocks = 1; blocks <= ceil_of(*channels, lanes); ++blocks) {
    const int64_t block = blocks == 1 ? *channels : rounded_up(ceil_of(*channels, blocks), lanes);
    for (int64_t segments = 1; segments <= *out; ++segments) {
      StagedDepthwise tile{.segment = ceil_of(*out, segments), .block = block};
      if (ceil_of(*out, tile.segment) != segments || ceil_of(*channels, block) != blocks) continue;
      const int64_t columns = (tile.segment - 1) * w.stride + (w.kernel - 1) * w.dilation + 1;
      tile.image = h.kernel * columns * block;
      tile.weights = taps * rounded_up(block, lanes);
      tile.results = tile.segment * block;
      tile.last = *out - (segments - 1) * tile.segment;
      const int64_t bytes = tile.image * image_bytes + tile.weights * weight_bytes + tile.results * result_bytes;
      if (kBuffers * bytes + 3 * kBufferBytes > target.lsram_bytes()) continue;
      const double vectors = number(ceil_of(block, lanes));
      const double copies = blocks == 1 ? 3 : number(h.kernel + 2);
      const int64_t rows_of_parts = blocks == 1 ? h.kernel + 1 : h.kernel * columns + tile.segment;
      const double rows = number(taps + rows_of_parts);
      const double compute =
          vectors * (number(tile.segment) * (number(taps) + kResult) + number(h.kernel * columns) + kVectorTurn) +
          copies * figures.dma_setup + kUnitTurn;
      const double transfer =
          std::max(figures.transfer_cycles(copies, rows, number(bytes)), number(bytes) / tec_bytes_per_cycle);
      const double cycles = number(blocks * segments) * std::max(compute, transfer);
      if (best.segment > 0 && cycles >= best_cycles) continue;
      best = tile;
      best_cycles = cycles;
      best.text = fmt::format(
          "segments of {} results of {} lines, {} channels, {} of {} bytes of {}; one computes {:.0f} cycles, moves "
          "{:.0f}",
          tile.segment, h.kernel, block, kBuffers * bytes, target.lsram_bytes(), target.memory(tir::Reach::kTec)->name,
          compute, transfer);
    }
  }
  return best;
}

Status launch_staged_depthwise(SetupContext& context, const StagedDepthwise& staged, const SpatialGeometry& geometry,
                               int lanes, const DepthwiseSums& sums, const TensorRef& weights,
                               dsl::TemplateParams params, KernelArguments arguments) {
  const SpatialAxis& width = geometry.axes[2];
  const int64_t channels = *geometry.out_channels.constant();
  const int64_t tile_width = depthwise_tile_width(context.target(), staged.segment);
  set_depthwise_sums(sums, lanes, &params);
  params.set("VL", lanes)
      .set("NV", 1)
      .set("WIDTH", tile_width)
      .set("MULTIPLIER", 1)
      .set("NARROW", staged.last < tile_width)
      .set("TAIL", channels % lanes != 0)
      .set("MEMORY", "lsram")
      .set("FETCHES", false)
      .set("KW", width.kernel)
      .set("SW", width.stride)
      .set("DW", width.dilation)
      .set("STAGING", 2)
      .set("IMAGE", staged.image)
      .set("WEIGHTS", staged.weights)
      .set("RESULTS", staged.results);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("depthwise_staged.py", "depthwise_staged", params));
  arguments.pointer("weights", weights).scalar("padded_channels", rounded_up(channels, lanes));
  bind_sums(context, sums, &arguments);
  bind_geometry(geometry, &arguments);
  arguments.scalars({{"segment", staged.segment}, {"block", staged.block}});
  context.note(staged.text);
  const graph::Dim rows = geometry.batch * geometry.axes[1].out;
  const int64_t parts = ceil_of(*width.out.constant(), staged.segment) * ceil_of(channels, staged.block);
  return context.launch(std::move(kernel), arguments, graph::max(rows * graph::Dim(parts), 1));
}

}  // namespace aipu::kernels
