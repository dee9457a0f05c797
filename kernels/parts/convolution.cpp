#include "kernels/parts/convolution.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/parts/register_tile.h"

namespace aipu::kernels {

using graph::Graph;
using graph::Node;

Result<ConvWeights> read_weights(const Graph& graph, const Node& node) {
  ConvWeights weights;
  weights.value = node.inputs[1];
  const auto extents = graph::static_shape(graph.type(node.inputs[1]).shape);
  if (!extents) {
    return unsupported(
        fmt::format("weights of symbolic shape {}", graph::shape_text(graph.type(node.inputs[1]).shape)));
  }
  const std::vector<int64_t>& shape = weights.shape = *extents;
  weights.group = node.attributes.i_or("group", 1);
  weights.out_channels = shape[0];
  weights.group_in = shape[1];
  weights.group_out = shape[0] / weights.group;
  weights.kernel.assign(shape.begin() + 2, shape.end());
  weights.taps = 1;
  for (const int64_t k : weights.kernel) weights.taps *= k;
  return weights;
}

WindowTile window_tile(const tir::Target& target, int64_t columns, int lanes, const SpatialAxis& width) {
  // Few columns: half a vector is multiplied as fast as a whole one, and needs no mask to be stored.
  if (lanes == 16 && columns <= 8) lanes = 8;
  WindowTile window{register_tile(target, columns, lanes), lanes};
  // One vector per pixel leaves registers for taller tiles.
  constexpr int kTallTile = 28;
  if (window.tile.vectors == 1 && target.vector_registers >= 32 && !target.element_products && width.out.is_constant())
    window.tile.rows = kTallTile;
  return window;
}

RowTiles row_tiles(const SpatialAxis& axis, int greatest) {
  constexpr int64_t kMostSkipped = 3;
  RowTiles tiles;
  tiles.heights = tile_heights(row_count({axis.out}), greatest);
  const auto in = axis.in.constant(), out = axis.out.constant(), begin = axis.pad_begin.constant(),
             end = axis.pad_end.constant();
  const auto outside = [&](int64_t positions) {
    return positions <= 0 ? 0 : (positions + axis.stride - 1) / axis.stride;
  };
  if (begin && end && *begin <= 0 && *end <= 0) return tiles;
  if (in && out && begin) {
    // All is known: walk over the tiles.
    const int64_t reach = (axis.kernel - 1) * axis.dilation,
                  count = std::max<int64_t>((*out + greatest - 1) / greatest, 1);
    int64_t column = 0;
    for (int64_t t = 0; t < count; ++t) {
      const int64_t height = *out / count + (t < *out % count ? 1 : 0);
      const int64_t first = column * axis.stride - *begin, final = first + (height - 1) * axis.stride;
      const int64_t left = std::min(axis.kernel, (std::max<int64_t>(-first, 0) + axis.dilation - 1) / axis.dilation);
      const int64_t right =
          axis.kernel - std::min(axis.kernel, (std::max<int64_t>(*in - final, 0) + axis.dilation - 1) / axis.dilation);
      tiles.skip = std::max({tiles.skip, outside(-first), outside(final + reach - (*in - 1))});
      tiles.single = tiles.single || left + right > axis.kernel;
      column += height;
    }
  } else {
    tiles.skip = begin && end ? std::max(outside(*begin), outside(*end)) : 1;
    tiles.single = true;  // narrow images
  }
  if (tiles.skip > kMostSkipped) {
    tiles.skip = 0;
    tiles.single = true;
  }
  if (tiles.single && tiles.heights.back() != 1) tiles.heights.push_back(1);
  return tiles;
}

dsl::Captured tiling_record(const RowTiles& tiles) {
  const auto list = [](const std::vector<int64_t>& values) {
    dsl::CapturedList items;
    for (const int64_t v : values) items.push_back({v});
    return dsl::Captured{std::move(items)};
  };
  dsl::CapturedRecord record;
  record.type.name = "Tiling";
  record.type.fields = {"heights", "skip", "single", "taps", "pixel_stride", "channels"};
  record.type.types.resize(record.type.fields.size());
  record.values = {list(tiles.heights), {tiles.skip},         {tiles.single},
                   list(tiles.taps),    {tiles.pixel_stride}, {tiles.channels}};
  return {std::move(record)};
}

}  // namespace aipu::kernels
