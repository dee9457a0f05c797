// Register tiles of the kernels that multiply: how many rows and vectors of a product are kept in registers, and into
// which heights rows are cut.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/targets/target.h"
#include "graph/ir/dim.h"

namespace aipu::kernels {

// rows x vectors accumulators, `vectors` of the right operand and one broadcast value (or, with products by element, a
// vector per row) fit the register file.
struct RegisterTile {
  int rows = 1;     // the greatest height
  int vectors = 1;  // of `lanes` columns
};

// The tile for a product with that many columns: the number of vectors that wastes the fewest lanes of the last panel
// (2 where that is equal).
RegisterTile register_tile(const tir::Target& target, const graph::Dim& columns, int lanes);

// A number of rows as far as it is known at compile time: `multiple` times an unknown positive number, or exactly
// `multiple`.
struct RowCount {
  int64_t multiple = 1;
  bool exact = false;
};
RowCount row_count(const graph::Shape& extents);

// Rows are cut into n = ceil(rows / greatest) tiles of equal height, give or take one row. The heights that occur,
// descending. If all of them would be too many kernels, a choice that ends in 1.
std::vector<int64_t> tile_heights(const RowCount& rows, int greatest);

}  // namespace aipu::kernels
