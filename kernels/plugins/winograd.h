// Weights for Winograd's F(2x2, 3x3) and F(4x4, 3x3) convolutions.
#pragma once

#include <array>

#include "graph/ir/graph.h"

namespace aipu::kernels {

// F(4x4, 3x3) interpolates at 0, infinity and plus and minus each of these. Nearly reciprocal points (Alam et al.,
// "Winograd Convolution for Deep Neural Networks: Efficient Point Selection", 2022) whose squares and products are
// exact: a third of the error of 1 and 2.
constexpr std::array<double, 2> kWinogradPoints = {0.625, 1.5};

// Transformed weights as templates/winograd.py reads them: [panel][(m + 2)^2][ic][panel_width], or [(m +
// 2)^2][panel][ic][panel_width] if `point_major`, zero padded. `weights` is [OC, IC, 3, 3] of float32, m is 2 or 4;
// computed in double precision, when the file is written.
graph::ConstantPtr pack_winograd(graph::ConstantPtr weights, int m, int64_t panel_width, bool point_major);

}  // namespace aipu::kernels
