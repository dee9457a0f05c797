// What convolutions and transposed convolutions have in common beyond their geometry: the weights, and how rows of
// pixels are cut into register tiles.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"
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

// The greatest height of a tile of one vector of columns, where there are 32 registers.
constexpr int kTallTile = 28;

// How the rows of output pixels are cut into tiles, and what happens at their ends.
struct RowTiles {
  std::vector<int64_t> heights;
  int64_t skip = 0;  // SKIP and SINGLE of conv.py
  bool single = false;
  std::vector<int64_t> taps;  // ROW_TAPS
};

RowTiles row_tiles(const SpatialAxis& axis, int greatest);

}  // namespace aipu::kernels
