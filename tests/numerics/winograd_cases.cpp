#include "tests/numerics/winograd_cases.h"

#include <bit>
#include <cmath>

namespace aipu::test {

std::vector<double> direct_sums(const Tensor& image, const Tensor& weights, const Tensor& bias, const Surroundings& s) {
  const int64_t batch = image.shape[0], in = image.shape[1], height = image.shape[2], width = image.shape[3];
  const int64_t out = weights.shape[0], less = s.pad_begin + s.pad_end - 2 * s.dilation;
  std::vector<double> sums;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t oc = 0; oc < out; ++oc) {
      for (int64_t oh = 0; oh < height + less; ++oh) {
        for (int64_t ow = 0; ow < width + less; ++ow) {
          double sum = bias.data[static_cast<size_t>(oc)];
          for (int64_t ic = 0; ic < in; ++ic) {
            for (int64_t k = 0; k < 9; ++k) {
              const int64_t h = oh + k / 3 * s.dilation - s.pad_begin, v = ow + k % 3 * s.dilation - s.pad_begin;
              if (h < 0 || h >= height || v < 0 || v >= width) continue;
              sum += static_cast<double>(image.data[static_cast<size_t>(((n * in + ic) * height + h) * width + v)]) *
                     static_cast<double>(weights.data[static_cast<size_t>((oc * in + ic) * 9 + k)]);
            }
          }
          sums.push_back(sum);
        }
      }
    }
  }
  return sums;
}

double root_mean_square(const std::vector<double>& values) {
  double squares = 0;
  for (const double v : values)
    if (std::isfinite(v)) squares += v * v;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float v : values) bits.push_back(std::isnan(v) ? 0x7fc00000 : std::bit_cast<uint32_t>(v));
  return bits;
}

}  // namespace aipu::test
