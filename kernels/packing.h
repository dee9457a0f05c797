// Packing of constant operands at compile time into the panels that the register tiles read: [batch][column panel][depth][NR], zero padded in the columns.
#pragma once

#include <cstdint>
#include <functional>

#include "graph/ir/graph.h"

namespace aipu::kernels {

// Where element (batch, depth, column) lies in the constant, in elements.
using PanelIndex = std::function<int64_t(int64_t batch, int64_t depth, int64_t column)>;

// `to` is the accumulators' dtype; values are converted, and multiplied by `scale` (floating dtypes only). The result has shape
// [batches, ceil(columns / panel_width), depth, panel_width].
graph::ConstantPtr pack_panels(const graph::Constant& source, DType to, int64_t batches, int64_t depth, int64_t columns, int64_t panel_width,
                               const PanelIndex& index, double scale = 1);

}  // namespace aipu::kernels
