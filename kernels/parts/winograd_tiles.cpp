#include "kernels/parts/winograd_tiles.h"

#include "kernels/parts/convolution.h"

namespace aipu::kernels {

using graph::Dim;

Dim winograd_tiles(const SpatialAxis& axis, int m) {
  return Dim(axis.dilation) * graph::ceildiv(graph::ceildiv(axis.out, axis.dilation), m);
}

std::optional<double> winograd_share(const SpatialGeometry& geometry, int m) {
  double direct = 1, by_tiles = 1;
  for (size_t i = 1; i < 3; ++i) {
    const SpatialAxis& axis = geometry.axes[i];
    const auto tiles = winograd_tiles(axis, m).constant();
    if (!tiles) return std::nullopt;
    by_tiles *= static_cast<double>(*tiles * (m + 2));
    int64_t inside = 0;
    for (const auto& [first, last] : pixels_of_taps(axis)) inside += last - first;
    direct *= static_cast<double>(inside);
  }
  return by_tiles / direct;
}

std::vector<int64_t> winograd_heights(int m, int greatest) {
  if (m == 2) return tile_heights({1, false}, greatest);
  // Blocks of F(4x4) are small: those that two or three register tiles make are all there.
  std::vector<int64_t> heights;
  for (int64_t height = greatest; height > 0; height -= 2 * height > greatest ? 1 : (height + 1) / 2)
    heights.push_back(height);
  return heights;
}

bool keeps_winograd_tiles(const graph::ClaimTarget& target) {
  const auto found = tir::find_target(target.name);
  return found.ok() && found->cache_bytes() > 0;
}

void bind_winograd_sides(const SpatialGeometry& geometry, KernelArguments* arguments) {
  for (const auto& [name, axis] : {std::pair{"height", geometry.axes[1]}, std::pair{"width", geometry.axes[2]}}) {
    arguments->record(name,
                      {{"image", axis.in}, {"result", axis.out}, {"pad", axis.pad_begin}, {"dilation", axis.dilation}});
  }
}

void bind_winograd_block(const WinogradBlock& block, int64_t panels, int m, KernelArguments* arguments) {
  arguments->record("blocking", {{"tiles", block.tiles},
                                 {"panels", block.all_panels ? panels : 1},
                                 {"panel_chunks", block.all_panels ? 1 : winograd_points(m)},
                                 {"point_chunks", block.all_panels ? panels : 1}});
}

}  // namespace aipu::kernels
