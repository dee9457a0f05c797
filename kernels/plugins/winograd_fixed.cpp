// Weights of Winograd's F(4x4, 3x3) as 16-bit integers, for templates/winograd_fixed.py.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/parts/rounding.h"
#include "kernels/parts/winograd_tiles.h"
#include "kernels/plugins/winograd.h"

namespace aipu::kernels {
namespace {

constexpr int kTile = 4;
constexpr int64_t kPoints = winograd_points(kTile), kTaps = 9;
// What magnitudes that are summed may add up to: inputs are no more than 32767, sums less than 2^31.
constexpr double kMostOfSums = 65536;
constexpr double kMostOfOne = 32767;

// Elements [point][ic] of G g Gt of an output channel's kernels [ic][9].
void transform(const double* kernels, int64_t in_channels, std::vector<double>* elements) {
  static const std::vector<std::array<double, 3>> rows = winograd_weight_transform(kTile);
  for (int64_t in = 0; in < in_channels; ++in) {
    const double* g = kernels + in * kTaps;
    for (size_t r = 0; r < rows.size(); ++r) {
      double half[3];
      for (size_t s = 0; s < 3; ++s) half[s] = rows[r][0] * g[s] + rows[r][1] * g[3 + s] + rows[r][2] * g[6 + s];
      for (size_t s = 0; s < rows.size(); ++s) {
        const size_t point = r * rows.size() + s;
        (*elements)[point * static_cast<size_t>(in_channels) + static_cast<size_t>(in)] =
            rows[s][0] * half[0] + rows[s][1] * half[1] + rows[s][2] * half[2];
      }
    }
  }
}

// Powers of two near the mean magnitude of each input channel's weights, the greatest of them 1; 0 of channels without
// weights.
std::vector<double> channel_factors(const std::vector<double>& kernels, int64_t out_channels, int64_t in_channels) {
  constexpr int kLeast = -60;
  std::vector<double> means(static_cast<size_t>(in_channels));
  for (size_t at = 0; at < kernels.size(); ++at)
    means[at / kTaps % static_cast<size_t>(in_channels)] += std::abs(kernels[at]) / static_cast<double>(out_channels);
  const int greatest = std::ilogb(*std::max_element(means.begin(), means.end()));
  for (double& mean : means) mean = mean > 0 ? std::ldexp(1.0, std::max(std::ilogb(mean) - greatest, kLeast)) : 0;
  return means;
}

// The multiples of what unit the elements of one point become, at most `sums` of which are summed.
double unit_of(std::span<const double> elements, int64_t sums) {
  double highest = 0, most = 0;
  for (size_t first = 0; first < elements.size(); first += static_cast<size_t>(sums)) {
    double total = 0;
    for (const double x : elements.subspan(first, std::min(static_cast<size_t>(sums), elements.size() - first))) {
      total += std::abs(x);
      highest = std::max(highest, std::abs(x));
    }
    most = std::max(most, total);
  }
  // Each may be rounded up by a half.
  const double unit = std::max(most / (kMostOfSums - static_cast<double>(sums) / 2 - 1), highest / kMostOfOne);
  return unit > 0 ? unit : 1;
}

}  // namespace

FixedWeights pack_winograd_fixed(const graph::Constant& weights, int64_t panel_width, bool point_major, int64_t sums,
                                 int lanes) {
  const int64_t out_channels = weights.shape()[0], in_channels = weights.shape()[1];
  const int64_t panels = ceil_of(out_channels, panel_width), pairs = ceil_of(in_channels, 2);
  std::vector<double> kernels = weights.to_doubles();
  const std::vector<double> factors = channel_factors(kernels, out_channels, in_channels);
  for (size_t at = 0; at < kernels.size(); ++at) {
    const double factor = factors[at / kTaps % factors.size()];
    if (factor > 0) kernels[at] /= factor;
  }
  std::vector<int16_t> transformed(static_cast<size_t>(panels * kPoints * pairs * panel_width * 2));
  std::vector<float> units(static_cast<size_t>(panels * kPoints * panel_width));
  const size_t size = dtype_bytes(weights.dtype());
  std::vector<std::byte> original(static_cast<size_t>(panels * in_channels * kTaps * panel_width) * size);
  std::vector<double> elements(static_cast<size_t>(kPoints * in_channels));
  for (int64_t out = 0; out < out_channels; ++out) {
    const int64_t panel = out / panel_width, column = out % panel_width;
    transform(kernels.data() + out * in_channels * kTaps, in_channels, &elements);
    for (int64_t point = 0; point < kPoints; ++point) {
      const int64_t piece = point_major ? point * panels + panel : panel * kPoints + point;
      const std::span<const double> of_point(elements.data() + point * in_channels, static_cast<size_t>(in_channels));
      const double unit = unit_of(of_point, sums);
      units[static_cast<size_t>(piece * panel_width + column)] = static_cast<float>(unit);
      for (int64_t in = 0; in < in_channels; ++in) {
        const int64_t place = ((piece * pairs + in / 2) * panel_width + column) * 2 + in % 2;
        transformed[static_cast<size_t>(place)] =
            static_cast<int16_t>(std::lround(of_point[static_cast<size_t>(in)] / unit));
      }
    }
    const std::byte* source = weights.bytes().data() + static_cast<size_t>(out * in_channels * kTaps) * size;
    for (int64_t k = 0; k < in_channels * kTaps; ++k) {
      const auto place = static_cast<size_t>((panel * in_channels * kTaps + k) * panel_width + column);
      std::memcpy(original.data() + place * size, source + static_cast<size_t>(k) * size, size);
    }
  }
  const auto constant = [](DType dtype, const auto& values) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    return graph::Constant::create(dtype, {static_cast<int64_t>(bytes.size() / dtype_bytes(dtype))},
                                   {bytes.begin(), bytes.end()});
  };
  std::vector<float> padded(factors.begin(), factors.end());
  padded.resize(static_cast<size_t>(rounded_up(in_channels, lanes)));
  return {constant(DType::kI16, transformed), constant(DType::kF32, units), constant(DType::kF32, padded),
          constant(weights.dtype(), original)};
}

}  // namespace aipu::kernels
