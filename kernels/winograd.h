// Weights for Winograd's F(2x2, 3x3) convolution.
#pragma once

#include "graph/ir/graph.h"

namespace aipu::kernels {

// Transformed weights as templates/winograd.py reads them: [panel][16][ic][panel_width], zero padded. `weights` is [OC, IC, 3, 3] of
// float32; computed in double precision.
graph::ConstantPtr pack_winograd(const graph::Constant& weights, int64_t panel_width);

}  // namespace aipu::kernels
