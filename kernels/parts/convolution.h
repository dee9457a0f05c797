// What convolutions and transposed convolutions have in common beyond their geometry: the weights, and how rows of
// pixels are cut into register tiles.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "kernels/parts/register_tile.h"
#include "kernels/parts/spatial.h"

namespace aipu::kernels {

// Weights [OC, IC/group, spatial...] as ONNX has them.
struct ConvWeights {
  graph::ValueId value;
  std::vector<int64_t> shape;
  int64_t group, out_channels, group_in, group_out, taps;
  std::vector<int64_t> kernel;
};

// unsupported() where their shape is symbolic.
Result<ConvWeights> read_weights(const graph::Graph& graph, const graph::Node& node);

// The register tile of pixels of a row by output channels, `columns` of them; `lanes` of its vectors.
struct WindowTile {
  RegisterTile tile;
  int lanes = 0;
};
WindowTile window_tile(const tir::Target& target, int64_t columns, int lanes, const SpatialAxis& width);

// How the rows of output pixels are cut into tiles, and what happens at their ends.
struct RowTiles {
  std::vector<int64_t> heights;
  // Of one tap, the most pixels of a tile that are outside of the image on either side; where there may be more, rows
  // are cut where taps enter or leave the image.
  int64_t skip = 0;
  bool cut = false;
  std::vector<int64_t> taps = {};  // of a tile that is a whole row: the pixels [first, last) that each has inside
  int64_t pixel_stride = 0, channels = 0;  // with `taps`, of few channels
};

// Per tap of a kernel row the pixels [first, last) of a row of output pixels that it has inside the image; empty where
// extents are not known.
std::vector<std::pair<int64_t, int64_t>> pixels_of_taps(const SpatialAxis& axis);

RowTiles row_tiles(const SpatialAxis& axis, int greatest);

// TILING of templates/conv.py: a record of these numbers, known when the template is compiled.
dsl::Captured tiling_record(const RowTiles& tiles);

}  // namespace aipu::kernels
