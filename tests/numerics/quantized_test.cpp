// Quantised convolutions and matrix products against integer arithmetic written out, bit by bit, on every target this
// machine can run and in the interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <tuple>

#include "gbuilder/build.h"
#include "tests/numerics/integers.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::NamedAttributes;
using models::OnnxBuilder;
using models::TensorData;

ConvCase random_conv(std::mt19937& random) {
  ConvCase c;
  const int64_t spatial = pick(random, 0, 3) == 0 ? pick(random, 1, 3) : 2;
  const int64_t form = pick(random, 0, 4);
  c.window.group = form == 0 ? pick(random, 2, 3) : form == 1 ? pick(random, 5, 40) : 1;
  const bool depthwise = form == 1;
  const int64_t in = c.window.group * (depthwise ? 1 : flip(random) ? 4 * pick(random, 1, 4) : pick(random, 1, 9));
  const int64_t out = c.window.group * (depthwise ? 1 : pick(random, 1, 40));
  std::vector<int64_t> shape = {pick(random, 1, 2), in};
  std::vector<int64_t> w_shape = {out, in / c.window.group};
  for (int64_t i = 0; i < spatial; ++i) {
    c.window.kernel.push_back(pick(random, 1, 4));
    c.window.strides.push_back(pick(random, 1, 2));
    c.window.dilations.push_back(pick(random, 0, 4) == 0 ? 2 : 1);
    const int64_t reach = (c.window.kernel.back() - 1) * c.window.dilations.back() + 1;
    shape.push_back(reach + pick(random, 0, spatial == 1 ? 60 : spatial == 2 ? 19 : 6));
    w_shape.push_back(c.window.kernel.back());
  }
  for (int64_t i = 0; i < 2 * spatial; ++i) {
    const auto axis = static_cast<size_t>(i % spatial);
    c.window.pads.push_back(
        pick(random, 0, std::min<int64_t>(2, (c.window.kernel[axis] - 1) * c.window.dilations[axis])));
  }
  const bool extreme = flip(random);
  c.x = random_integers(random, shape, pick(random, 0, 2) == 0 ? DType::kI8 : DType::kU8, extreme);
  c.w = random_integers(random, w_shape, pick(random, 0, 3) == 0 ? DType::kU8 : DType::kI8, extreme);
  c.x.zeros = {random_zero(random, c.x.dtype)};
  c.x.scales = {random_scale(random)};
  if (flip(random)) {
    c.w.scales.assign(static_cast<size_t>(out), 0);
    c.w.zeros.assign(static_cast<size_t>(out), 0);
    for (float& scale : c.w.scales) scale = random_scale(random);
  }
  if (c.w.dtype == DType::kU8 || pick(random, 0, 3) == 0) {
    for (int64_t& zero : c.w.zeros)
      zero = pick(random, 0, 3) == 0 ? random_zero(random, c.w.dtype) : lowest(c.w.dtype) + 128;
  }
  c.y.dtype = pick(random, 0, 2) == 0 ? DType::kI8 : DType::kU8;
  c.y.zeros = {random_zero(random, c.y.dtype)};
  c.y.scales = {c.x.scales[0] * c.w.scales[0] * 40 * std::sqrt(static_cast<float>(count_of(w_shape) / out)) *
                (c.w.scales[0] == 1 ? 1 : 2)};
  if (flip(random)) {
    for (int64_t k = 0; k < out; ++k) c.bias.push_back(pick(random, -5000, 5000));
  }
  return c;
}

TEST(Quantized, QLinearConv) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed * 977 + 5);
    const ConvCase c = random_conv(random);
    OnnxBuilder b("qlinear_conv", seed);
    add_qlinear_conv(b, c);
    check_road(b, "qlinear_conv" + std::to_string(seed), {{"x", as_tensor(c.x)}}, expected_of(c), seed < 6);
    if (testing::Test::HasFailure()) return;
  }
}

// Windows side by side: a product of bytes, with weights per channel or not.
TEST(Quantized, ConvTranspose) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed + 71);
    const int64_t in = seed % 2 == 0 ? 16 : 7, out = seed < 2 ? 5 : 24, stride = seed == 3 ? 3 : 2;
    Integers x = random_integers(random, {2, in, 4, 5}, seed % 2 == 0 ? DType::kU8 : DType::kI8, true);
    Integers w = random_integers(random, {in, out, stride, stride}, DType::kI8, false);
    x.zeros = {random_zero(random, x.dtype)};
    x.scales = {0.02f};
    if (seed % 2 == 0) {
      w.scales.assign(static_cast<size_t>(out), 0);
      for (float& scale : w.scales) scale = random_scale(random);
      w.zeros.assign(static_cast<size_t>(out), 0);
    }
    const Integers y{{}, {}, DType::kU8, {117}, {seed % 2 == 0 ? 0.1f : 2.0f}};
    std::vector<int64_t> bias;
    for (int64_t k = 0; k < out; ++k) bias.push_back(pick(random, -5000, 5000));
    Integers of_product{{out}, bias, DType::kI32, {0}, {}};
    for (const float scale : w.scales) of_product.scales.push_back(x.scales[0] * scale);

    OnnxBuilder b("conv_transpose", seed);
    const std::string left = b.op("DequantizeLinear", {integer_input(b, "x", x), scales_of(b, x), zeros_of(b, x)});
    const std::string right =
        b.op("DequantizeLinear", {constant_of(b, w), scales_of(b, w), zeros_of(b, w)}, {{"axis", 1}});
    const std::string added =
        b.op("DequantizeLinear", {constant_of(b, of_product), scales_of(b, of_product)}, {{"axis", 0}});
    const std::string product = b.op("ConvTranspose", {left, right, added}, {{"strides", std::vector{stride, stride}}});
    integer_output(b, b.op("QuantizeLinear", {product, scales_of(b, y), zeros_of(b, y)}), "y", 4);

    Integers sums{{2, out, 4 * stride, 5 * stride}, {}, DType::kI32, {0}, {1}};
    for (int64_t k = 0; k < count_of(sums.shape); ++k) {
      const int64_t column = k % sums.shape[3], row = k / sums.shape[3] % sums.shape[2];
      const int64_t channel = k / (sums.shape[3] * sums.shape[2]) % out, n = k / (sums.shape[3] * sums.shape[2]) / out;
      int64_t sum = 0;
      for (int64_t i = 0; i < in; ++i) {
        const int64_t pixel = ((n * in + i) * 4 + row / stride) * 5 + column / stride;
        const int64_t tap = ((i * out + channel) * stride + row % stride) * stride + column % stride;
        sum += (x.elements[static_cast<size_t>(pixel)] - x.zeros[0]) * w.elements[static_cast<size_t>(tap)];
      }
      sums.elements.push_back(sum);
    }
    const std::string path = temporary_path("conv_transpose.onnx");
    ASSERT_TRUE(b.save(path).ok());
    const Tensor expected = requantised(sums, bias, x, w, y);
    for (const char* backend : {"", "interp"}) {
      if (*backend == 0 && targets_with_dot_products().back() != "host-avx512-vnni") continue;
      const auto actual = run_road(path, {{"x", as_tensor(x)}}, {.target = "host-avx512-vnni", .backend = backend});
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      expect_close(actual->at("y"), expected, 0, 0, "host-avx512-vnni");
    }
  }
}

TEST(Quantized, ConvInteger) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed * 613 + 11);
    const ConvCase c = random_conv(random);
    OnnxBuilder b("conv_integer", seed);
    const bool computed_zero = seed % 2 == 1;  // as DynamicQuantizeLinear gives it
    std::string x_zero = zeros_of(b, c.x);
    std::map<std::string, Tensor> inputs = {{"x", as_tensor(c.x)}};
    if (computed_zero) {
      Integers zero{{}, c.x.zeros, c.x.dtype, {0}, {1}};
      x_zero = integer_input(b, "zero", zero);
      inputs["zero"] = as_tensor(zero);
    }
    const std::string y =
        b.op("ConvInteger", {integer_input(b, "x", c.x), constant_of(b, c.w), x_zero, zeros_of(b, c.w)},
             c.window.attributes());
    integer_output(b, y, "y", c.x.shape.size());
    check_road(b, "conv_integer" + std::to_string(seed), inputs, as_tensor(convolve(c.x, c.w, c.window)), seed < 2);
    if (testing::Test::HasFailure()) return;
  }
}

// Rows of exactly one tile, of two, with edges on both sides: what ResNet has.
TEST(Quantized, PaddedThreeByThree) {
  unsigned seed = 0;
  for (const int64_t width : {1, 7, 14, 29}) {
    for (const int64_t stride : {1, 2}) {
      SCOPED_TRACE("width " + std::to_string(width) + " stride " + std::to_string(stride));
      std::mt19937 random(++seed);
      ConvCase c;
      c.window = {{3, 3}, {stride, stride}, {1, 1}, {1, 1, 1, 1}, 1};
      c.x = random_integers(random, {2, 8, 5, width}, DType::kU8, true);
      c.w = random_integers(random, {33, 8, 3, 3}, DType::kI8, true);
      c.y.scales = {300};
      OnnxBuilder b("padded", seed);
      add_qlinear_conv(b, c);
      check_road(b, "padded" + std::to_string(seed), {{"x", as_tensor(c.x)}}, expected_of(c),
                 stride == 1 && width == 7);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Quotients that are small, that are saturated though they are below 2^21, and that are not known to be.
TEST(Quantized, LargeQuotients) {
  unsigned seed = 0;
  for (const float scale : {300.0f, 0.2f, 1e-6f}) {
    for (const int64_t group : {1, 24}) {
      SCOPED_TRACE("scale " + std::to_string(scale) + " group " + std::to_string(group));
      std::mt19937 random(++seed);
      ConvCase c;
      c.window = {{1, 3}, {1, 1}, {1, 1}, {0, 1, 0, 1}, group};
      c.x = random_integers(random, {1, 24, 3, 15}, DType::kU8, true);
      c.w = random_integers(random, {group == 1 ? 48 : 24, 24 / group, 1, 3}, DType::kI8, true);
      c.y.dtype = seed % 2 == 0 ? DType::kI8 : DType::kU8;
      c.y.scales = {scale};
      c.y.zeros = {lowest(c.y.dtype) + 77};
      OnnxBuilder b("large_quotients", seed);
      add_qlinear_conv(b, c);
      check_road(b, "large_quotients" + std::to_string(seed), {{"x", as_tensor(c.x)}}, expected_of(c), seed == 3);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// What is around the image is its zero point; rows shorter than a tile, of three and more tiles, windows that meet the
// image with a corner only, windows of more lines than one product takes.
TEST(Quantized, PaddedDepthwise) {
  struct Case {
    int64_t width, kernel, stride, dilation, pad;
    bool is_open;  // the extents are known when running
  };
  unsigned seed = 0;
  for (const Case& k : {Case{1, 3, 1, 1, 1, false}, Case{7, 3, 2, 1, 1, true}, Case{15, 3, 1, 4, 4, false},
                        Case{29, 5, 1, 1, 4, false}, Case{3, 4, 1, 1, 3, true}, Case{29, 3, 2, 1, 1, false},
                        Case{43, 5, 1, 1, 2, false}, Case{14, 9, 1, 1, 4, false}}) {
    SCOPED_TRACE("width " + std::to_string(k.width) + " kernel " + std::to_string(k.kernel));
    std::mt19937 random(++seed);
    ConvCase c;
    const int64_t channels = 16 + 3 * (seed % 2);
    c.window = {{k.kernel, k.kernel},
                {k.stride, k.stride},
                {k.dilation, k.dilation},
                {k.pad, k.pad, k.pad, k.pad - (k.kernel - 1) % 2},
                channels};
    c.x = random_integers(random, {2, channels, 5, k.width}, seed % 2 == 0 ? DType::kU8 : DType::kI8, true);
    c.x.zeros = {lowest(c.x.dtype) + 255};
    c.w = random_integers(random, {channels, 1, k.kernel, k.kernel}, DType::kI8, true);
    c.y.scales = {300};
    c.y.zeros = {100};
    OnnxBuilder b("padded_depthwise", seed);
    add_qlinear_conv(b, c, k.is_open ? Extents{"N", channels, "H", "W"} : Extents{2, channels, 5, k.width});
    check_road(b, "padded_depthwise" + std::to_string(seed), {{"x", as_tensor(c.x)}}, expected_of(c), seed == 1);
    if (testing::Test::HasFailure()) return;
  }
}

// ---- matrix products

Integers multiply(const Integers& a, const Integers& b, int64_t a_zero) {
  const int64_t rows = count_of(a.shape) / a.shape.back(), depth = a.shape.back(), columns = b.shape[1];
  Integers y{a.shape, {}, DType::kI32, {0}, {1}};
  y.shape.back() = columns;
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < columns; ++n) {
      int64_t sum = 0;
      const int64_t b_zero = b.zeros[b.zeros.size() == 1 ? 0 : static_cast<size_t>(n)];
      for (int64_t k = 0; k < depth; ++k)
        sum += (a.elements[static_cast<size_t>(m * depth + k)] - a_zero) *
               (b.elements[static_cast<size_t>(k * columns + n)] - b_zero);
      y.elements.push_back(sum);
    }
  }
  return y;
}

TEST(Quantized, QLinearMatMul) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed * 31 + 3);
    const int64_t rows = flip(random) ? pick(random, 1, 40) : pick(random, 300, 700), depth = pick(random, 1, 70),
                  columns = pick(random, 1, 75);
    Integers a = random_integers(random, {1, rows, depth}, flip(random) ? DType::kU8 : DType::kI8, flip(random));
    Integers w = random_integers(random, {depth, columns}, flip(random) ? DType::kU8 : DType::kI8, flip(random));
    a.scales = {random_scale(random)};
    w.scales = {random_scale(random)};
    a.zeros = {random_zero(random, a.dtype)};
    w.zeros = {lowest(w.dtype) + 128};
    Integers y;
    y.dtype = a.dtype;
    y.zeros = {random_zero(random, y.dtype)};
    y.scales = {a.scales[0] * w.scales[0] * 90 * std::sqrt(static_cast<float>(depth))};
    OnnxBuilder b("qlinear_matmul", seed);
    integer_output(b,
                   b.op("QLinearMatMul", {integer_input(b, "x", a), scales_of(b, a), zeros_of(b, a), constant_of(b, w),
                                          scales_of(b, w), zeros_of(b, w), scales_of(b, y), zeros_of(b, y)}),
                   "y", 3);
    const Integers sums = multiply(a, w, a.zeros[0]);
    check_road(b, "qlinear_matmul" + std::to_string(seed), {{"x", as_tensor(a)}}, requantised(sums, {}, a, w, y),
               seed < 2);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Quantized, MatMulInteger) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed * 37 + 9);
    const int64_t rows = pick(random, 1, 40), depth = pick(random, 1, 70), columns = pick(random, 1, 75);
    Integers a = random_integers(random, {rows, depth}, DType::kU8, true);
    Integers w = random_integers(random, {depth, columns}, seed % 2 == 0 ? DType::kI8 : DType::kU8, true);
    const Integers zero{{}, {pick(random, 0, 255)}, DType::kU8, {0}, {1}};
    if (seed % 3 == 0) {
      w.zeros.assign(static_cast<size_t>(columns), 0);
      for (int64_t& z : w.zeros) z = random_zero(random, w.dtype);
    }
    OnnxBuilder b("matmul_integer", seed);
    std::map<std::string, Tensor> inputs = {{"x", as_tensor(a)}};
    std::string x_zero = b.initializer(data_of(zero.elements, DType::kU8, {}));
    if (seed >= 2) {  // computed, as after DynamicQuantizeLinear
      x_zero = integer_input(b, "zero", zero);
      inputs["zero"] = as_tensor(zero);
    }
    std::string weights = constant_of(b, w);
    if (seed >= 4) {
      weights = integer_input(b, "w", w);
      inputs["w"] = as_tensor(w);
    }
    integer_output(b, b.op("MatMulInteger", {integer_input(b, "x", a), weights, x_zero, zeros_of(b, w)}), "y", 2);
    check_road(b, "matmul_integer" + std::to_string(seed), inputs, as_tensor(multiply(a, w, zero.elements[0])),
               seed < 2);
    if (testing::Test::HasFailure()) return;
  }
}

// ---- QuantizeLinear / DequantizeLinear around float ops

std::string quantize_and_back(OnnxBuilder& b, const std::string& x, const Integers& q) {
  const std::string scale = scales_of(b, q), zero = zeros_of(b, q);
  return b.op("DequantizeLinear", {b.op("QuantizeLinear", {x, scale, zero}), scale, zero});
}

// What a residual block computes, in the kernels' order of float32 operations.
TEST(Quantized, ResidualBlock) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed + 71);
    const int64_t channels = 4 * pick(random, 1, 12);
    Integers x = random_integers(random, {2, channels, 9, 9}, DType::kU8, false);
    Integers w = random_integers(random, {channels, channels, 3, 3}, DType::kI8, false);
    x.scales = {0.02f};
    w.scales.assign(static_cast<size_t>(channels), 0);
    w.zeros.assign(static_cast<size_t>(channels), 0);
    for (float& scale : w.scales) scale = random_scale(random);
    std::vector<int64_t> bias;
    std::vector<float> bias_scales;
    for (int64_t k = 0; k < channels; ++k) {
      bias.push_back(pick(random, -20000, 20000));
      bias_scales.push_back(x.scales[0] * w.scales[static_cast<size_t>(k)]);
    }
    const Integers branch{{}, {}, DType::kU8, {119}, {0.7f}}, sum{{}, {}, DType::kU8, {0}, {0.31f}};

    OnnxBuilder b("residual", seed);
    const auto per_channel = [&](const std::string& value, const std::vector<float>& scales, TensorData zeros) {
      return b.op("DequantizeLinear",
                  {value, b.initializer(TensorData::f32({channels}, scales)), b.initializer(std::move(zeros))},
                  {{"axis", 0}});
    };
    const std::vector<int64_t> none(static_cast<size_t>(channels));
    const std::string input = b.op("DequantizeLinear", {integer_input(b, "x", x), scales_of(b, x), zeros_of(b, x)});
    const std::string weights = per_channel(constant_of(b, w), w.scales, data_of(none, DType::kI8, {channels}));
    const std::string addend = per_channel(b.initializer(data_of(bias, DType::kI32, {channels})), bias_scales,
                                           data_of(none, DType::kI32, {channels}));
    const Window window{{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1};
    const std::string conv = quantize_and_back(b, b.op("Conv", {input, weights, addend}, window.attributes()), branch);
    const std::string out =
        b.op("QuantizeLinear", {b.relu(b.op("Add", {conv, input})), scales_of(b, sum), zeros_of(b, sum)});
    integer_output(b, out, "y", 4);

    const Tensor inner = requantised(convolve(x, w, window), bias, x, w, branch);
    Tensor expected{inner.shape, {}};
    for (size_t k = 0; k < inner.data.size(); ++k) {
      const float left = (inner.data[k] - 119) * (branch.scales[0] / sum.scales[0]);
      const float right = static_cast<float>(x.elements[k]) * (x.scales[0] / sum.scales[0]);
      expected.data.push_back(std::min(std::max(std::nearbyint(left + right), 0.0f), 255.0f));
    }
    check_road(b, "residual" + std::to_string(seed), {{"x", as_tensor(x)}}, expected, seed < 1);
    if (testing::Test::HasFailure()) return;
  }
}

// A Clip in front of QuantizeLinear, whose limits are those of the quantised type, within them, or beyond one of them.
TEST(Quantized, ClippedConv) {
  unsigned seed = 0;
  for (const auto& [low, high, scale, zero] : {std::tuple{0.0f, 6.0f, 6.0f / 255, 0}, std::tuple{0.0f, 5.0f, 0.03f, 0},
                                               std::tuple{-3.0f, 9.0f, 0.02f, 7}, std::tuple{-9.0f, 1.5f, 0.02f, 90}}) {
    SCOPED_TRACE("high " + std::to_string(high));
    std::mt19937 random(++seed);
    Integers x = random_integers(random, {1, 8, 5, 9}, DType::kU8, false);
    Integers w = random_integers(random, {24, 8, 1, 1}, DType::kI8, false);
    x.scales = {0.02f};
    w.scales = {0.004f};
    const Integers y{{}, {}, DType::kU8, {zero}, {scale}};
    const Window window{{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1};
    OnnxBuilder b("clipped", seed);
    const std::string input = b.op("DequantizeLinear", {integer_input(b, "x", x), scales_of(b, x), zeros_of(b, x)});
    const std::string weights = b.op("DequantizeLinear", {constant_of(b, w), scales_of(b, w), zeros_of(b, w)});
    const std::string clipped =
        b.op("Clip", {b.op("Conv", {input, weights}, window.attributes()), b.scalar(low), b.scalar(high)});
    integer_output(b, b.op("QuantizeLinear", {clipped, scales_of(b, y), zeros_of(b, y)}), "y", 4);
    const Integers sums = convolve(x, w, window);
    Tensor expected{sums.shape, {}};
    for (const int64_t sum : sums.elements) {
      const float value = static_cast<float>(sum) * (x.scales[0] * w.scales[0] / scale);
      const float limited = std::min(std::max(value, low / scale), high / scale);
      const float quantised = std::nearbyint(limited) + static_cast<float>(zero);
      expected.data.push_back(std::min(std::max(quantised, 0.0f), 255.0f));
    }
    check_road(b, "clipped" + std::to_string(seed), {{"x", as_tensor(x)}}, expected, seed == 1);
    if (testing::Test::HasFailure()) return;
  }
}

// A detector's head: the columns of a product are taken apart and put in front of the pixels. Each block is computed
// where it belongs, of any number of samples, with the bias and the scales of its own channels.
TEST(Quantized, ColumnsTakenApart) {
  std::mt19937 random(3);
  constexpr int64_t kSamples = 2, kBlocks = 3, kColumns = 30, kHeight = 5, kWidth = 9, kDepth = 10;
  Integers x = random_integers(random, {kSamples, kDepth, kHeight, kWidth}, DType::kU8, false);
  Integers w = random_integers(random, {kBlocks * kColumns, kDepth, 1, 1}, DType::kI8, false);
  x.scales = {0.02f};
  x.zeros = {9};
  w.scales.assign(static_cast<size_t>(kBlocks * kColumns), 0);
  w.zeros.assign(w.scales.size(), 0);
  std::vector<int64_t> bias;
  std::vector<float> factors;
  for (float& scale : w.scales) {
    scale = random_scale(random);
    factors.push_back(x.scales[0] * scale);
    bias.push_back(pick(random, -5000, 5000));
  }
  const Window window{{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1};
  const Integers sums = convolve(x, w, window);
  std::vector<float> gains(w.scales.size());
  for (float& gain : gains) gain = 1 + random_scale(random);
  // Neighbours that ask which column it is stay outside of it.
  for (const bool has_gains : {false, true}) {
    OnnxBuilder b("head", 3);
    const std::string image = integer_input(b, "x", x, {"n", kDepth, kHeight, kWidth});
    const std::string input = b.op("DequantizeLinear", {image, scales_of(b, x), zeros_of(b, x)});
    const std::string weights =
        b.op("DequantizeLinear", {constant_of(b, w), scales_of(b, w), zeros_of(b, w)}, {{"axis", 0}});
    const std::string added = b.op("DequantizeLinear",
                                   {b.initializer(data_of(bias, DType::kI32, {kBlocks * kColumns})),
                                    b.initializer(TensorData::f32({kBlocks * kColumns}, factors))},
                                   {{"axis", 0}});
    std::string head = b.relu(b.op("Conv", {input, weights, added}, window.attributes()));
    if (has_gains) head = b.op("Mul", {head, b.initializer(TensorData::f32({1, kBlocks * kColumns, 1, 1}, gains))});
    const std::string apart = b.op("Reshape", {head, b.ints({-1, kBlocks, kColumns, kHeight, kWidth})});
    const std::string turned = b.op("Transpose", {apart}, {{"perm", std::vector<int64_t>{0, 1, 3, 4, 2}}});
    b.output(turned, "y", DType::kF32, {"n", kBlocks, kHeight, kWidth, kColumns});
    Tensor expected{{kSamples, kBlocks, kHeight, kWidth, kColumns}, {}};
    for (int64_t k = 0; k < count_of(expected.shape); ++k) {
      const int64_t n = k / (kBlocks * kHeight * kWidth * kColumns), pixel = k / kColumns % (kHeight * kWidth);
      const auto channel = static_cast<size_t>(k / (kColumns * kHeight * kWidth) % kBlocks * kColumns + k % kColumns);
      const size_t at = (static_cast<size_t>(n * kBlocks * kColumns) + channel) * kHeight * kWidth;
      const int64_t sum = sums.elements[at + static_cast<size_t>(pixel)] + bias[channel];
      const float value = std::max(static_cast<float>(sum) * factors[channel], 0.0f);
      expected.data.push_back(has_gains ? value * gains[channel] : value);
    }
    check_road(b, "head", {{"x", as_tensor(x)}}, expected, !has_gains);
    gbuilder::BuildOptions build;
    build.model = temporary_path("head.onnx");
    build.output = temporary_path("head.aipu.bin");
    build.dump_ir = temporary_path(has_gains ? "head_with_gains" : "head");
    build.target = "host-avx512-vnni";
    ASSERT_TRUE(gbuilder::build_model(build).ok());
    std::ifstream groups(build.dump_ir + "/groups.txt");
    const std::string text{std::istreambuf_iterator<char>(groups), {}};
    EXPECT_EQ(text.find("aipu::QuantizedConv* Relu Reshape Transpose") != std::string::npos, !has_gains) << text;
  }
}

// ---- functions of which 8 bits remain

// Within a thirty-second of a step of what is exact, on CPUs with tables in registers; elsewhere nearer.
TEST(Quantized, Functions) {
  struct Case {
    const char* op;
    NamedAttributes attributes;
    double (*value)(double);
    DType type;
    float scale;
    int64_t zero;
  };
  const Case cases[] = {
      {"Gelu", {}, [](double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); }, DType::kU8, 0.013f, 13},
      {"Gelu",
       {{"approximate", "tanh"}},
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
       DType::kI8,
       0.05f,
       -120},
      {"Sigmoid", {}, [](double x) { return 1 / (1 + std::exp(-x)); }, DType::kU8, 1.0f / 255, 0},
      {"Tanh", {}, [](double x) { return std::tanh(x); }, DType::kI8, 2.0f / 255, 0},
      // The least result, -0.278, is below what the integers reach.
      {"Swish", {}, [](double x) { return x / (1 + std::exp(-x)); }, DType::kU8, 0.02f, 4},
      {"Swish", {}, [](double x) { return x / (1 + std::exp(-x)); }, DType::kU8, 0.03f, 10},
      // A straight line but for a little.
      {"Swish", {}, [](double x) { return x / (1 + std::exp(-x)); }, DType::kU8, 0.5f, 10},
  };
  unsigned seed = 0;
  for (const Case& tested : cases) {
    SCOPED_TRACE(std::string(tested.op) + " " + std::to_string(++seed));
    std::mt19937 random(seed);
    const int64_t rows = 37, depth = 24, columns = 45;
    Integers x = random_integers(random, {rows, depth}, DType::kU8, seed % 2 == 0);
    Integers w = random_integers(random, {depth, columns}, DType::kI8, false);
    x.scales = {tested.scale > 0.1f ? 0.1f : 0.01f};
    x.zeros = {128};
    w.scales = {0.01f};
    std::vector<float> bias(static_cast<size_t>(columns));
    for (float& element : bias) element = std::uniform_real_distribution<float>(-1, 1)(random);
    const Integers y{{}, {}, tested.type, {tested.zero}, {tested.scale}};
    OnnxBuilder b("function", seed);
    b.set_opset(20);
    const std::string left = b.op("DequantizeLinear", {integer_input(b, "x", x), scales_of(b, x), zeros_of(b, x)});
    const std::string right = b.op("DequantizeLinear", {constant_of(b, w), scales_of(b, w), zeros_of(b, w)});
    const std::string sum =
        b.op("Add", {b.op("MatMul", {left, right}), b.initializer(TensorData::f32({columns}, bias))});
    std::string value = tested.op == std::string("Swish") ? b.op("Mul", {sum, b.op("Sigmoid", {sum})})
                                                          : b.op(tested.op, {sum}, tested.attributes);
    integer_output(b, b.op("QuantizeLinear", {value, scales_of(b, y), zeros_of(b, y)}), "y", 2);
    const Integers sums = multiply(x, w, x.zeros[0]);
    const std::string path = temporary_path("function" + std::to_string(seed) + ".onnx");
    ASSERT_TRUE(b.save(path).ok());
    const auto run = [&](const RoadOptions& options) {
      auto actual = run_road(path, {{"x", as_tensor(x)}}, options);
      EXPECT_TRUE(actual.ok()) << options.target << ": " << actual.status().message();
      return actual.ok() ? actual->at("y") : Tensor();
    };
    const Tensor actual = run({});
    ASSERT_EQ(actual.data.size(), sums.elements.size());
    for (size_t k = 0; k < actual.data.size(); ++k) {
      const double t =
          static_cast<double>(sums.elements[k]) * x.scales[0] * w.scales[0] + bias[k % static_cast<size_t>(columns)];
      const double low = static_cast<double>(lowest(tested.type));
      const double exact =
          std::clamp(tested.value(t) / tested.scale + static_cast<double>(tested.zero), low, low + 255);
      ASSERT_LE(std::abs(actual.data[k] - exact), 0.5 + 1.0 / 32 + 1e-4) << "of " << t;
    }
    expect_close(run({.backend = "interp"}), actual, 0, 0, "interpreted");
  }
}

// The model's last product, with what follows it left in float32; Gemm's weights transposed.
TEST(Quantized, GemmToFloat) {
  std::mt19937 random(5);
  Integers x = random_integers(random, {3, 20}, DType::kI8, true),
           w = random_integers(random, {37, 20}, DType::kI8, true);
  x.scales = {0.03f};
  x.zeros = {-7};
  w.scales = {0.01f};
  OnnxBuilder b("gemm", 1);
  const std::string left = b.op("DequantizeLinear", {integer_input(b, "x", x), scales_of(b, x), zeros_of(b, x)});
  const std::string right = b.op("DequantizeLinear", {constant_of(b, w), scales_of(b, w), zeros_of(b, w)});
  std::vector<float> bias(37);
  for (float& element : bias) element = random_scale(random);
  const std::string y = b.op("Gemm", {left, right, b.initializer(TensorData::f32({37}, bias))}, {{"transB", 1}});
  b.output(b.op("Sigmoid", {y}), "y", DType::kF32, {3, 37});
  Tensor expected{{3, 37}, {}};
  for (int64_t m = 0; m < 3; ++m) {
    for (int64_t n = 0; n < 37; ++n) {
      int64_t sum = 0;
      for (int64_t k = 0; k < 20; ++k)
        sum += (x.elements[static_cast<size_t>(m * 20 + k)] + 7) * w.elements[static_cast<size_t>(n * 20 + k)];
      const double value = static_cast<double>(sum) * 0.03f * 0.01f + bias[static_cast<size_t>(n)];
      expected.data.push_back(static_cast<float>(1 / (1 + std::exp(-value))));
    }
  }
  const std::string path = temporary_path("gemm_to_float.onnx");
  ASSERT_TRUE(b.save(path).ok());
  for (const std::string& target : targets_with_dot_products()) {
    const auto actual = run_road(path, {{"x", as_tensor(x)}}, {.target = target});
    ASSERT_TRUE(actual.ok()) << target << ": " << actual.status().message();
    expect_close(actual->at("y"), expected, 1e-5, 1e-6, target);
  }
}

}  // namespace
}  // namespace aipu::test
