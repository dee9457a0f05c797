// The tiles of Winograd's F(m x m, 3x3) convolutions, whatever their elements are (templates/winograd_tiles.py).
#pragma once

#include "kernels/parts/spatial.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// Of a transformed tile or kernel.
constexpr int64_t winograd_points(int m) { return int64_t{m + 2} * (m + 2); }

// Along an axis, of all sub-lattices of a dilation.
graph::Dim winograd_tiles(const SpatialAxis& axis, int m);

// How many products of numbers the tiles take beside direct sums without taps outside the image; nullopt where extents
// are symbolic.
std::optional<double> winograd_share(const SpatialGeometry& geometry, int m);

// The heights that rows of tiles are cut into, descending, of which `greatest` is the register tile's.
std::vector<int64_t> winograd_heights(int m, int greatest);

// Whether a cache keeps transformed tiles, which are written and read again.
bool keeps_winograd_tiles(const graph::ClaimTarget& target);

// The records "height" and "width".
void bind_winograd_sides(const SpatialGeometry& geometry, KernelArguments* arguments);

// How much of a layer is in scratch memory at a time.
struct WinogradBlock {
  int64_t tiles = 0;
  bool all_panels = false;  // or one by one
};

// The record "blocking", for weights packed by points first where all panels are worked on at once.
void bind_winograd_block(const WinogradBlock& block, int64_t panels, int m, KernelArguments* arguments);

}  // namespace aipu::kernels
