// Packing of constant operands at compile time into the panels that the register tiles read: [batch][column
// panel][depth][NR], zero padded in the columns.
#pragma once

#include <cstdint>

#include "graph/ir/graph.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// Element (batch, depth, column) of an operand lies at batch * batch_stride + column * column_stride + (depth % inner)
// * inner_stride + (depth / inner) * outer_stride, counted in elements.
struct PanelLayout {
  int64_t batches, depth, columns, panel_width;
  int64_t inner, batch_stride, column_stride, inner_stride, outer_stride;
  // Neighbours in the depth, which is even, lie side by side: [batch][column panel][depth / 2][NR][2].
  bool pairs = false;
};

// `to` is the accumulators' dtype, the source's, or bfloat16 with pairs; values are converted. The result has shape
// [batches, ceil(columns / panel_width), depth, panel_width] and is deferred: it is packed, by panels, when the file is
// written.
graph::ConstantPtr pack_panels(graph::ConstantPtr source, DType to, const PanelLayout& layout);

// The same for an operand that may or may not be constant (with pairs: is): packed at compile time if it is, else by a
// kernel into workspace.
Result<TensorRef> packed_operand(SetupContext& context, graph::ValueId value, DType to, const PanelLayout& layout);

}  // namespace aipu::kernels
