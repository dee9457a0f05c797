#include "tests/numerics/integers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codegen/targets/target.h"

namespace aipu::test {

using models::Extents;
using models::OnnxBuilder;
using models::TensorData;

int64_t pick(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}
bool flip(std::mt19937& random) { return pick(random, 0, 1) == 1; }

std::vector<std::string> targets_with_dot_products() {
  std::vector<std::string> targets = runnable_targets();
  if (__builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512bw") != 0)
    targets.emplace_back("host-avx512-vnni");
  if (tir::this_machine_has_tiles()) targets.emplace_back("host-amx");
  return targets;
}

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}
int64_t lowest(DType dtype) { return dtype == DType::kI8 ? -128 : 0; }

Integers random_integers(std::mt19937& random, std::vector<int64_t> shape, DType dtype, bool extreme) {
  Integers result{std::move(shape), {}, dtype, {0}, {1}};
  for (int64_t k = count_of(result.shape); k > 0; --k) {
    const int64_t value = extreme && pick(random, 0, 3) != 0 ? (flip(random) ? 255 : 0) : pick(random, 0, 255);
    result.elements.push_back(value + lowest(dtype));
  }
  return result;
}

int64_t random_zero(std::mt19937& random, DType dtype) {
  return flip(random) ? lowest(dtype) : pick(random, 0, 255) + lowest(dtype);
}
float random_scale(std::mt19937& random) { return std::uniform_real_distribution<float>(0.002f, 0.05f)(random); }

TensorData data_of(const std::vector<int64_t>& elements, DType dtype, std::vector<int64_t> shape) {
  TensorData data{dtype, std::move(shape), {}};
  for (const int64_t element : elements) {
    for (size_t byte = 0; byte < dtype_bytes(dtype); ++byte)
      data.bytes.push_back(static_cast<std::byte>(static_cast<uint64_t>(element) >> (8 * byte)));
  }
  return data;
}
static std::vector<int64_t> shape_of_parameters(size_t count) {
  return count == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{static_cast<int64_t>(count)};
}

std::string zeros_of(OnnxBuilder& b, const Integers& x) {
  return b.initializer(data_of(x.zeros, x.dtype, shape_of_parameters(x.zeros.size())));
}
std::string scales_of(OnnxBuilder& b, const Integers& x) {
  return b.initializer(TensorData::f32(shape_of_parameters(x.scales.size()), x.scales));
}
std::string constant_of(OnnxBuilder& b, const Integers& x) {
  return b.initializer(data_of(x.elements, x.dtype, x.shape));
}

std::string integer_input(OnnxBuilder& b, const std::string& name, const Integers& x, Extents extents) {
  if (extents.empty()) extents.assign(x.shape.begin(), x.shape.end());
  const std::string value = b.input(name, DType::kF32, extents);
  return b.op("Cast", {value}, {{"to", x.dtype == DType::kI8 ? 3 : 2}});
}
void integer_output(OnnxBuilder& b, const std::string& value, const std::string& name, size_t rank) {
  b.output(b.op("Cast", {value}, {{"to", 1}}), name, DType::kF32, Extents(rank, Extents::value_type("")));
}
Tensor as_tensor(const Integers& x) { return {x.shape, {x.elements.begin(), x.elements.end()}}; }

void check_road(OnnxBuilder& b, const std::string& name, const std::map<std::string, Tensor>& inputs,
                const Tensor& expected, bool interpret) {
  const std::string path = temporary_path(name + ".onnx");
  ASSERT_TRUE(b.save(path).ok());
  const auto check = [&](const RoadOptions& options) {
    const auto actual = run_road(path, inputs, options);
    ASSERT_TRUE(actual.ok()) << options.target << ": " << actual.status().message();
    expect_close(actual->at("y"), expected, 0, 0, name + " on " + options.target + " " + options.backend);
  };
  for (const std::string& target : targets_with_dot_products()) check({.target = target});
  if (!interpret) return;
  for (const char* target : {"host-avx512-vnni", "host-avx2"}) check({.target = target, .backend = "interp"});
}

Integers convolve(const Integers& x, const Integers& w, const Window& window) {
  const size_t spatial = window.kernel.size();
  Integers y{{x.shape[0], w.shape[0]}, {}, DType::kI32, {0}, {1}};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    y.shape.push_back((x.shape[2 + i] + window.pads[i] + window.pads[spatial + i] - reach) / window.strides[i] + 1);
  }
  const int64_t pixels = count_of({y.shape.begin() + 2, y.shape.end()}), taps = count_of(window.kernel);
  const int64_t image = count_of({x.shape.begin() + 2, x.shape.end()}), group_out = w.shape[0] / window.group;
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    for (int64_t oc = 0; oc < w.shape[0]; ++oc) {
      const int64_t w_zero = w.zeros[w.zeros.size() == 1 ? 0 : static_cast<size_t>(oc)];
      for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        int64_t sum = 0;
        for (int64_t tap = 0; tap < taps; ++tap) {
          int64_t at = 0, p = pixel, t = tap, stride = 1;
          bool inside = true;
          for (size_t i = spatial; i-- > 0;) {
            const int64_t position =
                p % y.shape[2 + i] * window.strides[i] - window.pads[i] + t % window.kernel[i] * window.dilations[i];
            inside = inside && position >= 0 && position < x.shape[2 + i];
            at += position * stride;
            stride *= x.shape[2 + i];
            p /= y.shape[2 + i];
            t /= window.kernel[i];
          }
          if (!inside) continue;
          for (int64_t ic = 0; ic < w.shape[1]; ++ic) {
            const int64_t channel = oc / group_out * w.shape[1] + ic;
            sum += (x.elements[static_cast<size_t>((n * x.shape[1] + channel) * image + at)] - x.zeros[0]) *
                   (w.elements[static_cast<size_t>((oc * w.shape[1] + ic) * taps + tap)] - w_zero);
          }
        }
        y.elements.push_back(sum);
      }
    }
  }
  return y;
}

int64_t requantised(int64_t sum, float factor, double exact, const Integers& y) {
  const float scaled = static_cast<float>(sum) * factor;
  const double low = static_cast<double>(lowest(y.dtype)), high = low + 255, zero = static_cast<double>(y.zeros[0]);
  const double result = std::min(std::max(std::nearbyint(scaled) + zero, low), high);
  EXPECT_NEAR(result, std::min(std::max(exact + zero, low), high), 0.501);
  return static_cast<int64_t>(result);
}

Tensor requantised(const Integers& sums, const std::vector<int64_t>& bias, const Integers& x, const Integers& w,
                   const Integers& y) {
  Tensor result{sums.shape, {}};
  const int64_t inner = count_of({sums.shape.begin() + 2, sums.shape.end()});
  for (size_t k = 0; k < sums.elements.size(); ++k) {
    const auto channel = static_cast<size_t>(static_cast<int64_t>(k) / inner % sums.shape[1]);
    const float w_scale = w.scales[w.scales.size() == 1 ? 0 : channel];
    const int64_t sum = sums.elements[k] + (bias.empty() ? 0 : bias[channel]);
    const double exact = static_cast<double>(sum) * x.scales[0] * w_scale / y.scales[0];
    result.data.push_back(static_cast<float>(requantised(sum, x.scales[0] * w_scale / y.scales[0], exact, y)));
  }
  return result;
}

void add_qlinear_conv(OnnxBuilder& b, const ConvCase& c, Extents extents) {
  std::vector<std::string> operands = {integer_input(b, "x", c.x, std::move(extents)),
                                       scales_of(b, c.x),
                                       zeros_of(b, c.x),
                                       constant_of(b, c.w),
                                       scales_of(b, c.w),
                                       zeros_of(b, c.w),
                                       scales_of(b, c.y),
                                       zeros_of(b, c.y)};
  if (!c.bias.empty())
    operands.push_back(b.initializer(data_of(c.bias, DType::kI32, {static_cast<int64_t>(c.bias.size())})));
  integer_output(b, b.op("QLinearConv", operands, c.window.attributes()), "y", c.x.shape.size());
}

Tensor expected_of(const ConvCase& c) { return requantised(convolve(c.x, c.w, c.window), c.bias, c.x, c.w, c.y); }

}  // namespace aipu::test
