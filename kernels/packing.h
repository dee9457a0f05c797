// Packing of constant operands at compile time into the panels that the register tiles read: [batch][column panel][depth][NR], zero padded in the columns.
#pragma once

#include <cstdint>
#include <functional>

#include "graph/ir/graph.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// Where element (batch, depth, column) lies in the constant, in elements.
using PanelIndex = std::function<int64_t(int64_t batch, int64_t depth, int64_t column)>;

// `to` is the accumulators' dtype; values are converted, and multiplied by `scale` (floating dtypes only). The result has shape
// [batches, ceil(columns / panel_width), depth, panel_width].
graph::ConstantPtr pack_panels(const graph::Constant& source, DType to, int64_t batches, int64_t depth, int64_t columns, int64_t panel_width,
                               const PanelIndex& index, double scale = 1);

// The same for an operand that may or may not be constant: packed at compile time if it is, else by a kernel into workspace. Element (batch, depth, column) lies at
// batch * batch_stride + column * column_stride + (depth % inner) * inner_stride + (depth / inner) * outer_stride.
struct PanelLayout {
  int64_t batches, depth, columns, panel_width;
  int64_t inner, batch_stride, column_stride, inner_stride, outer_stride;
};
Result<TensorRef> packed_operand(SetupContext& context, graph::ValueId value, DType to, const PanelLayout& layout);

}  // namespace aipu::kernels
