// 3x3 convolutions of 8-bit integers by Winograd's F(4x4, 3x3) against sums written out: they must be equal, whatever
// the threads, and what cannot be exact must be left to the direct kernel.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/numerics/integers.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::OnnxBuilder;

struct Layer {
  int64_t batch, in, out, height, width, pad_begin, pad_end;
  DType x = DType::kU8, w = DType::kI8;
  int64_t dilation = 1;  // beyond 1 extents are known when converting
  bool scaled = true;    // ConvInteger otherwise, whose result are the sums
};

std::ostream& operator<<(std::ostream& out, const Layer& l) {
  return out << l.in << " -> " << l.out << ", " << l.batch << " of " << l.height << " x " << l.width << ", padding "
             << l.pad_begin << " and " << l.pad_end << ", dilation " << l.dilation << ", " << dtype_name(l.x) << " by "
             << dtype_name(l.w) << (l.scaled ? "" : ", sums");
}

ConvCase make_case(const Layer& l, unsigned seed) {
  std::mt19937 random(seed);
  ConvCase c;
  c.window = {{3, 3}, {1, 1}, {l.dilation, l.dilation}, {l.pad_begin, l.pad_begin, l.pad_end, l.pad_end}, 1};
  const bool extreme = seed % 2 == 0;
  c.x = random_integers(random, {l.batch, l.in, l.height, l.width}, l.x, extreme);
  c.w = random_integers(random, {l.out, l.in, 3, 3}, l.w, extreme);
  c.x.zeros = {random_zero(random, l.x)};
  c.x.scales = {random_scale(random)};
  c.w.scales.clear();
  c.w.zeros.clear();
  for (int64_t k = 0; k < l.out; ++k) {
    c.w.scales.push_back(random_scale(random));
    c.w.zeros.push_back(l.w == DType::kU8 ? pick(random, 100, 150) : 0);
    c.bias.push_back(pick(random, -5000, 5000));
  }
  c.y.dtype = l.x;
  c.y.zeros = {random_zero(random, l.x)};
  c.y.scales = {c.x.scales[0] * c.w.scales[0] * 100 * std::sqrt(static_cast<float>(9 * l.in))};
  return c;
}

// The plugins that claimed something.
std::string claimed_by(OnnxBuilder& b, const std::string& target) {
  const std::string path = temporary_path("claimed.onnx");
  EXPECT_TRUE(b.save(path).ok());
  return groups_of(path, target);
}

void add_layer(OnnxBuilder& b, const Layer& l, const ConvCase& c) {
  const Extents extents = l.dilation > 1 ? Extents{"N", l.in, l.height, l.width} : Extents{"N", l.in, "H", "W"};
  if (l.scaled) return add_qlinear_conv(b, c, extents);
  integer_output(b,
                 b.op("ConvInteger",
                      {integer_input(b, "x", c.x, extents), constant_of(b, c.w), zeros_of(b, c.x),
                       b.initializer(data_of({c.w.zeros[0]}, c.w.dtype, {}))},
                      c.window.attributes()),
                 "y", 4);
}

// On every target, with one to three threads, and in the interpreter.
TEST(WinogradBytes, SumsAreExact) {
  unsigned seed = 0;
  for (const Layer& l : {
           Layer{1, 64, 64, 16, 16, 1, 1},                                   // whole tiles
           Layer{2, 64, 70, 7, 7, 1, 1},                                     // half a tile at the end
           Layer{1, 65, 66, 9, 30, 0, 0, DType::kI8},                        // an odd number of channels, no padding
           Layer{3, 70, 64, 6, 5, 1, 0},                                     // channels that end within a vector
           Layer{1, 64, 96, 5, 41, 2, 2, DType::kU8, DType::kU8},            // more padding; zero points of weights
           Layer{2, 64, 72, 3, 2, 1, 1, DType::kI8},                         // smaller than a tile
           Layer{1, 64, 64, 1, 1, 1, 1},                                     // one pixel
           Layer{1, 64, 64, 43, 45, 1, 1},                                   // several blocks for each of three threads
           Layer{1, 400, 160, 9, 10, 1, 1, DType::kI8},                      // deep: all panels of a block at once
           Layer{2, 96, 64, 21, 26, 2, 2, DType::kU8, DType::kI8, 2},        // sub-lattices
           Layer{1, 64, 80, 14, 9, 1, 1, DType::kI8, DType::kI8, 1, false},  // sums
       }) {
    SCOPED_TRACE(testing::PrintToString(l));
    ConvCase c = make_case(l, ++seed);
    if (!l.scaled) {
      c.w.zeros = {0};
      c.bias.clear();
    }
    OnnxBuilder b("winograd_bytes", seed);
    add_layer(b, l, c);
    const Tensor expected = l.scaled ? expected_of(c) : as_tensor(convolve(c.x, c.w, c.window));
    check_road(b, "winograd_bytes" + std::to_string(seed), {{"x", as_tensor(c.x)}}, expected, seed % 4 == 1);
    EXPECT_NE(claimed_by(b, "host-avx512-vnni").find("by winograd_bytes:"), std::string::npos);
    for (const int threads : {3}) {
      const auto actual = run_road(temporary_path("claimed.onnx"), {{"x", as_tensor(c.x)}}, {.threads = threads});
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      expect_close(actual->at("y"), expected, 0, 0, std::to_string(threads) + " threads");
    }
    if (testing::Test::HasFailure()) return;
  }
}

// Sums that come near the bounds of what is exact are; weights by which they may leave them are the direct kernel's.
TEST(WinogradBytes, SumsThatDoNotFitAreDirect) {
  struct Case {
    int64_t channels, weight;
    DType x;
    bool fits;
  };
  // 255 * 9 * channels * weight, or 128 times for int8, against 2^25.
  for (const Case& k :
       {Case{114, 127, DType::kU8, true}, Case{116, 127, DType::kU8, false}, Case{114, -127, DType::kU8, true},
        Case{116, -127, DType::kU8, false}, Case{228, -128, DType::kI8, false}, Case{226, -128, DType::kI8, true}}) {
    SCOPED_TRACE(std::to_string(k.channels) + " channels, weights of " + std::to_string(k.weight));
    std::mt19937 random(3);
    ConvCase c;
    c.window = {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1};
    const std::vector<int64_t> shape = {1, k.channels, 28, 28};
    c.x = random_integers(random, shape, k.x, true);
    // All of one corner are the greatest, of another the least; in between they vary.
    for (int64_t at = 0; at < count_of(shape); ++at) {
      const int64_t h = at / 28 % 28, w = at % 28;
      if (h < 10 && w < 10) c.x.elements[static_cast<size_t>(at)] = lowest(k.x) + 255;
      if (h > 17 && w > 17) c.x.elements[static_cast<size_t>(at)] = lowest(k.x);
    }
    c.w = random_integers(random, {64, k.channels, 3, 3}, DType::kI8, false);
    for (int64_t at = 0; at < 9 * k.channels; ++at) c.w.elements[static_cast<size_t>(at)] = k.weight;
    c.y.scales = {100000};
    OnnxBuilder b("winograd_bytes_bounds", 1);
    add_qlinear_conv(b, c, {"N", k.channels, 28, 28});
    check_road(b, "winograd_bytes_bounds", {{"x", as_tensor(c.x)}}, expected_of(c), false);
    EXPECT_EQ(claimed_by(b, "host-avx512-vnni").find("by winograd_bytes:") != std::string::npos, k.fits);
    if (testing::Test::HasFailure()) return;
  }
}

// Many tiles and channels pay; with products of bytes more of them are needed than without.
TEST(WinogradBytes, ClaimsByImages) {
  struct Choice {
    int64_t channels, extent;
    bool with_byte_products, without;
  };
  for (const Choice& k : {Choice{64, 28, true, true}, Choice{32, 28, false, true}, Choice{64, 14, false, true},
                          Choice{256, 28, true, true}, Choice{64, 7, false, false}, Choice{8, 28, false, false}}) {
    SCOPED_TRACE(std::to_string(k.channels) + " channels of " + std::to_string(k.extent));
    ConvCase c = make_case({1, k.channels, k.channels, k.extent, k.extent, 1, 1}, 1);
    OnnxBuilder b("choice", 1);
    add_qlinear_conv(b, c, {"N", k.channels, k.extent, k.extent});
    const auto claims = [&](const std::string& target) {
      return claimed_by(b, target).find("by winograd_bytes:") != std::string::npos;
    };
    EXPECT_EQ(claims("host-avx512-vnni"), k.with_byte_products);
    EXPECT_EQ(claims("host-avx2"), k.without);
    EXPECT_FALSE(claims("X2_1204"));
  }
}

}  // namespace
}  // namespace aipu::test
