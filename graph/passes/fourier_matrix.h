// The matrices that DFT and STFT multiply with. Real and imaginary parts alternate in their rows and columns, so that
// no result has to be interleaved.
#pragma once

#include <vector>

#include "graph/passes/decompose_rules.h"

namespace aipu::graph {

struct Transform {
  Dim length;            // of the signal
  int64_t in_parts = 1;  // 2: of complex numbers
  Dim bins;              // frequencies
  bool is_inverse = false;
  bool is_stated = false;  // the length, by the model: one below 1 is an error of the run, not an empty transform
};

// [length * in_parts, bins * 2]: element j of the signal and frequency k. `window`, one factor for each element or
// none, needs a constant length. A constant where the lengths are such (fails if that is too large); otherwise
// computed by each run, in float32, or float64 if that is `dtype`.
ValueId fourier_matrix(DecomposeBuilder& b, DType dtype, const Transform& transform,
                       const std::vector<double>& window = {});

// [bins * 2, length]: from the bins of a one-sided transform back to real numbers.
ValueId one_sided_inverse_matrix(DecomposeBuilder& b, DType dtype, const Transform& transform);

// int64[extent]: 0, 1, ...
ValueId positions_along(DecomposeBuilder& b, const Dim& extent, const Dim& step = 1);

}  // namespace aipu::graph
