// 3x3 convolutions of stride 1 as the tests of Winograd's algorithm expect them.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/numerics/road.h"

namespace aipu::test {

// In pixels; padding and dilation are the same for height and width.
struct Surroundings {
  int64_t pad_begin = 0, pad_end = 0, dilation = 1;
};

// Sums in double precision of `image` [N, IC, H, W] by `weights` [OC, IC, 3, 3], plus `bias` [OC]: [N, OC, H', W'] where
// H' = H + pad_begin + pad_end - 2 * dilation.
std::vector<double> direct_sums(const Tensor& image, const Tensor& weights, const Tensor& bias, const Surroundings& s);

// Of the elements that are finite, whose squares are divided by the number of all.
double root_mean_square(const std::vector<double>& values);

// To compare: all NaN have the same.
std::vector<uint32_t> bits_of(const std::vector<float>& values);

}  // namespace aipu::test
