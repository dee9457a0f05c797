#include "kernels/parts/register_tile.h"

#include <algorithm>
#include <set>

namespace aipu::kernels {
namespace {

int greatest_height(const tir::Target& target, int vectors) {
  // There each row has a register for its values too.
  if (target.element_products) return vectors == 1 ? 14 : vectors == 2 ? 10 : 6;
  if (target.vector_registers >= 32) return vectors == 3 ? 9 : 14;
  return vectors == 1 ? 12 : vectors == 2 ? 6 : 4;
}

}  // namespace

RegisterTile register_tile(const tir::Target& target, const graph::Dim& columns, int lanes) {
  RegisterTile tile;
  tile.vectors = 2;
  if (const auto n = columns.constant()) {
    const auto padded = [&](int64_t vectors) {
      return (*n + vectors * lanes - 1) / (vectors * lanes) * vectors * lanes;
    };
    if (*n <= lanes) {
      tile.vectors = 1;
    } else if (padded(3) < padded(2)) {
      tile.vectors = 3;
    }
  }
  tile.rows = greatest_height(target, tile.vectors);
  return tile;
}

RowCount row_count(const graph::Shape& extents) {
  RowCount rows{1, true};
  for (const graph::Dim& extent : extents) {
    if (const auto n = extent.constant(); n && *n > 0) {
      rows.multiple *= *n;
    } else {
      rows.exact = false;
    }
  }
  return rows;
}

std::vector<int64_t> tile_heights(const RowCount& rows, int greatest) {
  std::set<int64_t, std::greater<>> heights;
  // From greatest * (greatest - 1) rows on, no height but the two greatest occurs.
  const int64_t most = static_cast<int64_t>(greatest) * greatest;
  for (int64_t total = rows.multiple;; total += rows.multiple) {
    const int64_t tiles = (total + greatest - 1) / greatest;
    heights.insert(total / tiles);
    if (total % tiles != 0) heights.insert(total / tiles + 1);
    if (rows.exact) break;
    if (total >= most) {
      heights.insert({greatest, greatest - 1});
      break;
    }
  }
  heights.erase(0);
  // The same heights for many layers are one kernel for all of them.
  if (!rows.exact && greatest > 3 && *heights.rbegin() >= greatest - 2)
    heights.insert({greatest, greatest - 1, greatest - 2});
  constexpr size_t kMostHeights = 8;
  if (heights.size() > kMostHeights) {
    // A height that is not there is made of two that are.
    heights.clear();
    for (const int64_t height : {1, 2, 3, 4, 6, 8, 10, 12}) {
      if (height < greatest) heights.insert(height);
    }
    heights.insert({greatest, greatest - 1});
  }
  return {heights.begin(), heights.end()};
}

}  // namespace aipu::kernels
