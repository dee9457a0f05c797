// Weights for Winograd's F(2x2, 3x3) and F(4x4, 3x3) convolutions.
#pragma once

#include <array>
#include <vector>

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

// Rows of G: a row of three weights becomes one of m + 2.
std::vector<std::array<double, 3>> winograd_weight_transform(int m);

// Weights as templates/winograd_fixed.py reads them, zero padded.
struct FixedWeights {
  // G g Gt of F(4x4) over the channels' factors, int16 multiples of units, [panel][36][ic / 2, rounded
  // up][panel_width][2], or with the first two axes exchanged if `point_major`; the magnitudes of `sums` channels add
  // up to no more than 65536.
  graph::ConstantPtr transformed;
  graph::ConstantPtr units;     // of a column, float32: [panel][36][panel_width], or likewise
  graph::ConstantPtr factors;   // of an input channel, float32: powers of two near their weights' mean magnitude, or 0
  graph::ConstantPtr original;  // of the weights' type, [panel][ic][9][panel_width]
};

// `weights` is [OC, IC, 3, 3] of bfloat16 or float32; computed in double precision. Factors are padded to whole vectors
// of `lanes`.
FixedWeights pack_winograd_fixed(const graph::Constant& weights, int64_t panel_width, bool point_major, int64_t sums,
                                 int lanes);

}  // namespace aipu::kernels
