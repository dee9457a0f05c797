#include "kernels/parts/staged_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/parts/staging.h"

namespace aipu::kernels {
namespace {

constexpr int kBuffers = 2;
constexpr int64_t kSumBytes = 4;
constexpr int64_t kMostVectors = 4;
// Rows of pixels whose number is known when running are cut into segments of that many.
constexpr int64_t kOpenSegment = 48;
constexpr int64_t kMostSegment = 128;
// Of buffers, which begin at multiples of it; x may also be read up to 3 bytes beyond its end.
constexpr int64_t kSlackBytes = 64;
// Cycles around the inner loop: of a chunk, of a tile, of a tap.
constexpr double kChunkTurn = 250, kTileTurn = 60, kTapTurn = 12;

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool has_padding(const SpatialGeometry& geometry) {
  return std::any_of(geometry.axes.begin(), geometry.axes.end(), [](const SpatialAxis& axis) {
    return axis.pad_begin != graph::Dim(0) || axis.pad_end != graph::Dim(0);
  });
}

class Tiling {
 public:
  Tiling(const tir::Target& target, const SpatialGeometry& geometry, const ProductShape& shape)
      : target_(target), costs_(target.costs.value_or(tir::CostFigures())), axis_(geometry.axes[2]), shape_(shape) {
    const npu_timing::Figures& figures = costs_.commands;
    bandwidth_ =
        std::min(figures.dma_bytes_per_cycle, figures.global_bytes_per_cycle / std::max(1, target.tec_count()));
    plan_.vectors = std::min(kMostVectors, ceil_of(shape.group_out, shape.lanes));
    height_ = std::max<int64_t>(1, (target.vector_registers - 1) / (plan_.vectors + 1));
    kernel_rows_ = geometry.axes[0].kernel * geometry.axes[1].kernel;
  }

  std::optional<StagedProduct> best() {
    const auto known = axis_.out.constant();
    for (int64_t segments = 1; segments <= kMostSegment; ++segments) {
      const int64_t pixels = known ? ceil_of(std::max<int64_t>(*known, 1), segments) : kOpenSegment / segments;
      if (pixels < 1) break;
      if (pixels > kMostSegment) continue;
      if (shape_.groups == 1 && axis_.dilation == 1) consider(pixels, true, 1);
      if (shape_.group_in % shape_.depth == 0) {
        const int64_t steps = shape_.group_in / shape_.depth;
        for (int64_t blocks = 1; blocks <= steps; ++blocks) consider(pixels, false, ceil_of(steps, blocks));
      }
      if (pixels == 1) break;
    }
    if (best_ < 0) return std::nullopt;
    const int64_t used =
        kBuffers * (plan_.x_capacity + plan_.w_capacity) * shape_.element_bytes + sum_bytes(plan_.pixels);
    plan_.text = fmt::format(
        "segments of {} pixels x {} columns, tiles of {} x {} vectors, {} chunks of {} x {} steps, {} of {} bytes of "
        "{}; "
        "a chunk computes {:.0f} cycles, moves {:.0f}",
        plan_.pixels, plan_.columns(shape_.lanes), height_, plan_.vectors, plan_.chunks, plan_.taps, plan_.block, used,
        target_.lsram_bytes(), target_.memory(tir::Reach::kTec)->name, compute_, transfer_);
    plan_.pool_bytes = target_.lsram_bytes();
    for (int64_t h = height_; h >= 1; --h) plan_.heights.push_back(h);
    return plan_;
  }

 private:
  int64_t sum_bytes(int64_t pixels) const { return pixels * plan_.columns(shape_.lanes) * kSumBytes; }

  double step_cycles(int64_t height) const {
    const auto h = static_cast<double>(height), v = static_cast<double>(plan_.vectors);
    return h * v + h + (h + v) * costs_.local_access;
  }

  void consider(int64_t pixels, bool merged, int64_t block) {
    const int64_t taps = merged ? 1 : axis_.kernel;
    const int64_t steps =
        merged ? ceil_of(axis_.kernel * shape_.channels, shape_.depth) : shape_.group_in / shape_.depth;
    if (merged) block = steps;
    const int64_t span = (pixels - 1) * axis_.stride + (axis_.kernel - 1) * axis_.dilation + 1;
    // Buffers begin at multiples of kSlackBytes.
    const int64_t whole = kSlackBytes / shape_.element_bytes;
    const int64_t x = (span * (merged ? shape_.channels : block * shape_.depth) / whole + 2) * whole;
    const int64_t w = ceil_of(taps * block * plan_.columns(shape_.lanes) * shape_.depth, whole) * whole;
    const int64_t bytes = (x + w) * shape_.element_bytes;
    if (kBuffers * bytes + sum_bytes(pixels) > target_.lsram_bytes()) return;
    const int64_t chunks = kernel_rows_ * ceil_of(steps, block);
    const int64_t tiles = ceil_of(pixels, height_);
    const double compute =
        kChunkTurn + static_cast<double>(tiles) *
                         (static_cast<double>(taps * block) * step_cycles(ceil_of(pixels, tiles)) + kTileTurn +
                          static_cast<double>(taps) * kTapTurn + 2 * static_cast<double>(height_ * plan_.vectors));
    const double rows = merged ? 2 : static_cast<double>(span + taps);
    const double transfer =
        2 * costs_.commands.dma_latency + rows * costs_.commands.dma_row + static_cast<double>(bytes) / bandwidth_;
    // Per pixel of the result: segments that are not full are the price of few of them.
    const auto known = axis_.out.constant();
    const double segments =
        known ? static_cast<double>(ceil_of(std::max<int64_t>(*known, 1), pixels)) : 1.0 / static_cast<double>(pixels);
    const double cycles = segments * static_cast<double>(chunks) * std::max(compute, transfer);
    if (best_ >= 0 && cycles >= best_) return;
    best_ = cycles;
    compute_ = compute;
    transfer_ = transfer;
    plan_.pixels = pixels;
    plan_.merged = merged;
    plan_.taps = taps;
    plan_.steps = steps;
    plan_.block = block;
    plan_.chunks = chunks;
    plan_.x_capacity = x;
    plan_.w_capacity = w;
  }

  const tir::Target& target_;
  tir::CostFigures costs_;
  const SpatialAxis& axis_;
  ProductShape shape_;
  StagedProduct plan_;
  int64_t height_ = 1, kernel_rows_ = 1;
  double bandwidth_ = 1, best_ = -1, compute_ = 0, transfer_ = 0;
};

}  // namespace

std::optional<StagedProduct> plan_staged_product(const tir::Target& target, const SpatialGeometry& geometry,
                                                 const ProductShape& shape) {
  if (!has_staging(target) || has_padding(geometry)) return std::nullopt;
  return Tiling(target, geometry, shape).best();
}

void bind_staged_product(const StagedProduct& plan, const ProductShape& shape, dsl::TemplateParams* params) {
  params->set("VL", static_cast<int64_t>(shape.lanes))
      .set("NV", plan.vectors)
      .set("HEIGHTS", plan.heights)
      .set("MERGED", plan.merged)
      .set("POOL", plan.pool_bytes)
      .set("STAGING", static_cast<int64_t>(kBuffers));
}

void bind_staged_product(const StagedProduct& plan, const SpatialGeometry& geometry, const ProductShape& shape,
                         KernelArguments* arguments) {
  bind_geometry(geometry, arguments);
  bind_groups(shape.groups, shape.group_in, shape.group_out, arguments);
  arguments->record("chunks", {{"taps", plan.taps},
                               {"steps", plan.steps},
                               {"block", plan.block},
                               {"count", plan.chunks},
                               {"x_capacity", plan.x_capacity},
                               {"w_capacity", plan.w_capacity}});
  arguments->scalar("segment", plan.pixels);
}

graph::Dim staged_product_tecs(const StagedProduct& plan, const SpatialGeometry& geometry, const ProductShape& shape) {
  const graph::Dim rows = geometry.batch * geometry.axes[0].out * geometry.axes[1].out;
  const int64_t panels = shape.groups * ceil_of(shape.group_out, plan.columns(shape.lanes));
  return graph::max(rows * graph::ceildiv(geometry.axes[2].out, plan.pixels) * graph::Dim(panels), 1);
}

}  // namespace aipu::kernels
