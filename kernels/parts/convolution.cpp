#include "kernels/parts/convolution.h"

#include <algorithm>
#include <functional>
#include <set>

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

std::vector<std::pair<int64_t, int64_t>> pixels_of_taps(const SpatialAxis& axis) {
  const auto in = axis.in.constant(), out = axis.out.constant(), begin = axis.pad_begin.constant();
  if (!in || !out || !begin) return {};
  const auto before = [&](int64_t position) {  // how many output pixels have a tap in front of `position`
    return std::clamp<int64_t>((position + axis.stride - 1) / axis.stride, 0, *out);
  };
  std::vector<std::pair<int64_t, int64_t>> pixels;
  for (int64_t tap = 0; tap < axis.kernel; ++tap) {
    const int64_t offset = tap * axis.dilation - *begin;
    const int64_t first = before(std::max<int64_t>(-offset, 0));
    pixels.emplace_back(first, std::max(before(std::max<int64_t>(*in - offset, 0)), first));
  }
  return pixels;
}

namespace {

// Heights of tiles of a row that is cut where taps enter or leave the image; where its extents are not known, those of
// any row are there already.
void add_cut_heights(const SpatialAxis& axis, int greatest, std::vector<int64_t>* heights) {
  std::set<int64_t> ends;
  std::set<int64_t, std::greater<>> all(heights->begin(), heights->end());
  for (const auto& [first, last] : pixels_of_taps(axis)) ends.insert({first, last});
  ends.insert(axis.out.constant_or(0));
  int64_t begin = 0;
  for (const int64_t end : ends) {
    if (end == begin) continue;
    const std::vector<int64_t> own = tile_heights({end - begin, true}, greatest);
    all.insert(own.begin(), own.end());
    begin = end;
  }
  all.insert(1);
  // A height that is not there is made of two that are.
  constexpr size_t kMostHeights = 8;
  if (all.size() > kMostHeights) all = {greatest, greatest - 1, 10, 8, 6, 4, 3, 2, 1};
  while (*all.begin() > greatest) all.erase(all.begin());
  heights->assign(all.begin(), all.end());
}

}  // namespace

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
      tiles.cut = tiles.cut || left + right > axis.kernel;
      column += height;
    }
  } else {
    tiles.skip = begin && end ? std::max(outside(*begin), outside(*end)) : 1;
    tiles.cut = true;  // narrow images
  }
  if (tiles.skip > kMostSkipped || (tiles.cut && in && out && begin)) {
    tiles.skip = 0;
    tiles.cut = true;
  }
  if (tiles.cut) add_cut_heights(axis, greatest, &tiles.heights);
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
  record.type.fields = {"heights", "skip", "cut", "taps", "pixel_stride", "channels"};
  record.type.types.resize(record.type.fields.size());
  record.values = {list(tiles.heights), {tiles.skip},         {tiles.cut},
                   list(tiles.taps),    {tiles.pixel_stride}, {tiles.channels}};
  return {std::move(record)};
}

}  // namespace aipu::kernels
