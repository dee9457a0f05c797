// 3x3 convolutions of bfloat16 numbers by Winograd's F(4x4) with products of 16-bit integers, against sums in double
// precision of the same numbers: with the instructions where the CPU has them, and in the interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "runtime/base/half.h"
#include "tests/numerics/winograd_cases.h"

namespace aipu::test {
namespace {

using models::OnnxBuilder;

// With products of bfloat16, and without: float32 numbers, rounded to bfloat16 where they are made.
struct TargetOfWords {
  const char* name;
  bool (*runs)();
};
constexpr std::array kTargets = {TargetOfWords{"host-avx512-bf16", cpu_has_bf16},
                                 TargetOfWords{"host-avx512-vnni", cpu_has_avx512_vnni}};

struct Layer {
  int64_t batch, in, out, height, width, pad_begin, pad_end, dilation = 1;
  bool residual = false;
};

std::ostream& operator<<(std::ostream& out, const Layer& l) {
  return out << l.in << " -> " << l.out << ", " << l.batch << " of " << l.height << " x " << l.width << ", padding "
             << l.pad_begin << " and " << l.pad_end << ", dilation " << l.dilation;
}

struct Case {
  std::string path;
  std::map<std::string, Tensor> inputs;
  std::vector<double> expected;  // of the operands rounded to bfloat16
  double rms = 0;
};

void round_to_bfloat(Tensor* tensor) {
  for (float& v : tensor->data) v = f32_from_bf16(bf16_from_f32(v));
}

using Change = std::function<void(Tensor* image, Tensor* weights)>;

Case make_case(const Layer& l, const Change& change = {}) {
  std::mt19937 random(7);
  Tensor weights = random_tensor(random, {l.out, l.in, 3, 3}),
         image = random_tensor(random, {l.batch, l.in, l.height, l.width});
  Tensor bias = random_tensor(random, {l.out});
  round_to_bfloat(&bias);
  if (change) change(&image, &weights);
  round_to_bfloat(&weights);
  round_to_bfloat(&image);
  const int64_t less = l.pad_begin + l.pad_end - 2 * l.dilation, out_h = l.height + less, out_w = l.width + less;
  // Extents that are symbolic may become large ones; with dilation they have to be known.
  const bool known = l.dilation > 1;
  OnnxBuilder b("winograd_fixed", 1);
  const std::string x = b.input(
      "x", DType::kF32, known ? models::Extents{"N", l.in, l.height, l.width} : models::Extents{"N", l.in, "H", "W"});
  std::string y = b.op("Conv",
                       {x, b.initializer(models::TensorData::f32(weights.shape, weights.data)),
                        b.initializer(models::TensorData::f32({l.out}, bias.data))},
                       {{"pads", std::vector<int64_t>{l.pad_begin, l.pad_begin, l.pad_end, l.pad_end}},
                        {"dilations", std::vector<int64_t>{l.dilation, l.dilation}}});
  Case result;
  result.inputs["x"] = image;
  Tensor residual;
  if (l.residual) {
    residual = random_tensor(random, {l.batch, l.out, out_h, out_w});
    round_to_bfloat(&residual);
    result.inputs["r"] = residual;
    y = b.op("Add",
             {y, b.input("r", DType::kF32,
                         known ? models::Extents{"N", l.out, out_h, out_w} : models::Extents{"N", l.out, "OH", "OW"})});
  }
  b.output(y, "y", DType::kF32, {"", "", "", ""});
  result.path = temporary_path("winograd_fixed.onnx");
  EXPECT_TRUE(b.save(result.path).ok());
  result.expected = direct_sums(image, weights, bias, {l.pad_begin, l.pad_end, l.dilation});
  for (size_t i = 0; i < residual.data.size(); ++i) result.expected[i] += static_cast<double>(residual.data[i]);
  result.rms = root_mean_square(result.expected);
  return result;
}

bool is_claimed(const std::string& path, const std::string& target) {
  return groups_of(path, target, "bf16").find("by winograd_fixed:") != std::string::npos;
}

// In the interpreter and, where the CPU has the instructions, with one to three threads, all to the bit the same.
std::vector<float> run_all(const Case& c, const TargetOfWords& target) {
  EXPECT_TRUE(is_claimed(c.path, target.name));
  const auto interpreted =
      run_road(c.path, c.inputs, {.target = target.name, .backend = "interp", .precision = "bf16"});
  EXPECT_TRUE(interpreted.ok()) << interpreted.status().message();
  if (!interpreted.ok()) return {};
  std::vector<float> result = interpreted->at("y").data;
  EXPECT_EQ(result.size(), c.expected.size());
  if (!target.runs()) return result;
  for (const int threads : {1, 2, 3}) {
    const auto native = run_road(c.path, c.inputs, {.target = target.name, .threads = threads, .precision = "bf16"});
    EXPECT_TRUE(native.ok()) << native.status().message();
    if (!native.ok()) return {};
    EXPECT_EQ(bits_of(native->at("y").data), bits_of(result)) << threads << " threads";
  }
  return result;
}

struct Errors {
  double largest = 0, rms = 0;
  size_t misplaced = 0;  // infinities and NaN that are elsewhere
};

Errors errors_of(const std::vector<float>& actual, const Case& c) {
  Errors errors;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double expected = c.expected[i], y = actual[i];
    if (std::isfinite(expected)) {
      const double error = std::abs(y - expected);
      errors.largest = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(errors.largest, error);
      errors.rms += error * error;
    } else if (std::isnan(expected) ? !std::isnan(y) : y != expected) {
      ++errors.misplaced;
    }
  }
  errors.rms = std::sqrt(errors.rms / static_cast<double>(actual.size()));
  return errors;
}

class WinogradFixed : public testing::TestWithParam<TargetOfWords> {};

// Beside the root mean square of the outputs. Rounding operands to bfloat16, which all products of --precision bf16 do,
// makes 2.3e-3 of it, and 1e-2 at most.
TEST_P(WinogradFixed, LosesLessThanRoundingOperandsDoes) {
  for (const Layer& l : {
           Layer{1, 64, 64, 16, 16, 1, 1},           // whole tiles
           Layer{2, 32, 70, 7, 7, 1, 1},             // half a tile at the end
           Layer{1, 48, 33, 9, 30, 0, 0},            // no padding
           Layer{3, 38, 32, 6, 5, 1, 0},             // channels that end within a vector
           Layer{1, 32, 40, 5, 41, 2, 2},            // more padding
           Layer{2, 70, 37, 3, 2, 1, 1},             // smaller than a tile; a few channels behind the first 64
           Layer{1, 34, 35, 1, 1, 1, 1},             // one pixel
           Layer{1, 32, 32, 45, 47, 1, 1},           // several blocks for each of three threads
           Layer{1, 256, 160, 9, 10, 1, 1},          // deep: all panels of a block at once
           Layer{1, 64, 48, 18, 17, 1, 1, 1, true},  // a residual
           Layer{1, 40, 40, 26, 23, 2, 2, 2},        // sub-lattices
       }) {
    SCOPED_TRACE(testing::PrintToString(l));
    const Case c = make_case(l);
    const Errors errors = errors_of(run_all(c, GetParam()), c);
    EXPECT_LT(errors.rms, 1.6e-3 * c.rms);
    EXPECT_LT(errors.largest, 1e-2 * c.rms);
    // What it costs beside direct sums of the same numbers, which are exact but for float32.
    EXPECT_GT(errors.rms, 1e-5 * c.rms) << "computed directly";
  }
}

// The greatest elements of transformed patches, in all channels, and weights that all have the same sign: sums come near
// what fits 32 bits.
TEST_P(WinogradFixed, TheGreatestSumsFit) {
  constexpr std::array<float, 6> kSigns = {1, -1, -1, 1, 1, 1};  // of a row of Bt
  for (const float sign : {1.0f, -1.0f}) {
    const Layer l{1, 128, 64, 16, 16, 1, 1};
    const Case c = make_case(l, [&](Tensor* image, Tensor* weights) {
      for (size_t at = 0; at < image->data.size(); ++at) {
        // Of the patch of the tile behind the first line and column of tiles.
        const size_t h = at / 16 % 16, w = at % 16;
        image->data[at] = h >= 3 && h < 9 && w >= 3 && w < 9 ? 3 * kSigns[h - 3] * kSigns[w - 3] : 0;
      }
      for (size_t at = 0; at < weights->data.size(); ++at) weights->data[at] = sign * static_cast<float>(1 + at % 9);
    });
    const Errors errors = errors_of(run_all(c, GetParam()), c);
    EXPECT_LT(errors.largest, 1e-2 * c.rms);
  }
}

// Infinities and NaN reach the pixels that have them in their windows, not all of a tile.
TEST_P(WinogradFixed, WhatIsNotFiniteStaysInItsWindows) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const Layer& l :
       {Layer{1, 38, 40, 25, 29, 1, 1}, Layer{2, 32, 70, 17, 16, 0, 0}, Layer{1, 130, 36, 12, 14, 1, 1}}) {
    SCOPED_TRACE(testing::PrintToString(l));
    const Case c = make_case(l, [&](Tensor* image, Tensor*) {
      int64_t number = 0;
      for (int64_t h = 0; h < l.height; h += 7) {
        for (int64_t w = h % 3; w < l.width; w += 7, ++number) {
          const int64_t channel = std::array{int64_t{0}, l.in - 1, l.in / 2}[static_cast<size_t>(number % 3)];
          image->data[static_cast<size_t>((channel * l.height + h) * l.width + w)] =
              std::array{kNaN, kInf, -kInf}[static_cast<size_t>(number % 3)];
        }
      }
    });
    const Errors errors = errors_of(run_all(c, GetParam()), c);
    EXPECT_EQ(errors.misplaced, 0u);
    EXPECT_LT(errors.largest, 1e-2 * c.rms);
  }
}

// Pixels that do not have a number far greater than the others in their windows are what they would be without it; what
// does not stand out by 32 times may cost them some of their bits.
TEST_P(WinogradFixed, WhatStandsOutStaysInItsWindows) {
  struct Bound {
    float value;
    double largest;
  };
  for (const Layer& l : {Layer{1, 64, 64, 32, 32, 1, 1}, Layer{2, 34, 40, 29, 27, 1, 1}}) {
    const Case without = make_case(l);
    for (const Bound& bound : {Bound{15, 1e-1}, Bound{1e3, 1e-2}, Bound{-1e5, 1e-2}, Bound{1e30, 1e-2}}) {
      SCOPED_TRACE(testing::PrintToString(l) + ", " + std::to_string(bound.value));
      const Case with = make_case(l, [&](Tensor* image, Tensor*) {
        for (const int64_t pixel : {5 * l.width + 6, 16 * l.width + 16, (l.height - 1) * l.width + 3})
          image->data[static_cast<size_t>(pixel % l.in * l.height * l.width + pixel)] = bound.value;
      });
      const std::vector<float> y = run_all(with, GetParam());
      ASSERT_EQ(y.size(), with.expected.size());
      size_t compared = 0;
      double largest = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        if (with.expected[i] != without.expected[i]) continue;
        ++compared;
        largest = std::max(largest, std::abs(static_cast<double>(y[i]) - with.expected[i]));
      }
      EXPECT_GT(compared, y.size() / 2);
      EXPECT_LT(largest, bound.largest * without.rms);
    }
  }
}

// Channels may have any range where their weights make up for it, have none, or are used by one output channel alone.
TEST_P(WinogradFixed, ChannelsOfAnyRange) {
  const Layer l{1, 66, 48, 22, 21, 1, 1};
  const int64_t pixels = l.height * l.width;
  using Scale = std::function<std::pair<double, double>(int64_t channel, int64_t out)>;  // of numbers, of weights
  struct Ranges {
    const char* name;
    double largest;  // beside the root mean square
    Scale scale;
  };
  const std::vector<Ranges> cases = {
      {"one of 30", 1.5e-2,
       [](int64_t c, int64_t) { return c == 7 ? std::pair(30.0, 1 / 30.0) : std::pair(1.0, 1.0); }},
      {"one of 1e4", 1.5e-2, [](int64_t c, int64_t) { return c == 65 ? std::pair(1e4, 1e-4) : std::pair(1.0, 1.0); }},
      {"one of 1e4 without weights", 1.5e-2,
       [](int64_t c, int64_t) { return c == 7 ? std::pair(1e4, 0.0) : std::pair(1.0, 1.0); }},
      {"one of nothing with weights of 3000", 1.5e-2,
       [](int64_t c, int64_t) { return c == 7 ? std::pair(0.0, 3e3) : std::pair(1.0, 1.0); }},
      {"over a range of 1e6", 1.5e-2,
       [](int64_t c, int64_t) {
         const double range = std::pow(10.0, static_cast<double>(c % 7) - 3);
         return std::pair(range, 1 / range);
       }},
      {"one of 1e5 for one output channel", 4e-2,
       [](int64_t c, int64_t out) { return std::pair(c == 7 ? 1e5 : 1.0, c == 7 ? (out == 3 ? 1e-2 : 0.0) : 1.0); }},
  };
  for (const auto& [name, bound, scale] : cases) {
    SCOPED_TRACE(name);
    const Case c = make_case(l, [&, scale = scale](Tensor* image, Tensor* weights) {
      for (size_t at = 0; at < image->data.size(); ++at)
        image->data[at] *= static_cast<float>(scale(static_cast<int64_t>(at) / pixels, 0).first);
      for (size_t at = 0; at < weights->data.size(); ++at) {
        const auto kernel = static_cast<int64_t>(at) / 9;
        weights->data[at] *= static_cast<float>(scale(kernel % l.in, kernel / l.in).second);
      }
    });
    // Beside the outputs of an output channel that has all weights.
    double squares = 0;
    const auto of_channel = static_cast<size_t>(pixels);
    for (size_t i = 0; i < of_channel; ++i) squares += c.expected[i] * c.expected[i];
    const double rms = std::sqrt(squares / static_cast<double>(pixels));
    const std::vector<float> y = run_all(c, GetParam());
    ASSERT_EQ(y.size(), c.expected.size());
    double largest = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      if (i / of_channel == 3) continue;  // what 1e5 is used for
      largest = std::max(largest, std::abs(static_cast<double>(y[i]) - c.expected[i]));
    }
    EXPECT_LT(largest, bound * rms);
  }
}

// Where the lines that are measured are zeros everything stands out.
TEST_P(WinogradFixed, LinesOfNothing) {
  const Layer l{1, 32, 32, 24, 20, 1, 1};
  for (const int64_t period : {2, 3, 4}) {
    const auto gaps = [&](Tensor* image) {
      for (size_t at = 0; at < image->data.size(); ++at)
        if (static_cast<int64_t>(at) / l.width % l.height % period == 0) image->data[at] = 0;
    };
    const Case without = make_case(l, [&](Tensor* image, Tensor*) { gaps(image); });
    const Case with = make_case(l, [&](Tensor* image, Tensor*) {
      gaps(image);
      image->data[static_cast<size_t>(5 * l.height * l.width + 11 * l.width + 9)] = 1e5f;
    });
    const std::vector<float> y = run_all(with, GetParam());
    ASSERT_EQ(y.size(), with.expected.size());
    double largest = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      if (with.expected[i] != without.expected[i]) continue;
      largest = std::max(largest, std::abs(static_cast<double>(y[i]) - with.expected[i]));
    }
    EXPECT_LT(largest, 1.5e-2 * without.rms) << period;
  }
}

// Outputs that are numbers are, whatever the weights.
TEST_P(WinogradFixed, HugeWeights) {
  const Layer l{1, 64, 32, 16, 16, 1, 1};
  for (const auto& [numbers, weights_of] :
       {std::pair(1e-3f, 1e35f), std::pair(1e30f, 1e-25f), std::pair(1e37f, 1e-3f)}) {
    const Case c = make_case(l, [&, n = numbers, w = weights_of](Tensor* image, Tensor* weights) {
      for (float& x : image->data) x *= n;
      for (float& x : weights->data) x *= w;
    });
    const Errors errors = errors_of(run_all(c, GetParam()), c);
    EXPECT_LT(errors.largest, 1e-2 * c.rms) << numbers;
  }
}

// A patch of zeros, and one of numbers next to the least that there are, whose reciprocals are infinite.
TEST_P(WinogradFixed, NothingAndAlmostNothing) {
  const Layer l{1, 32, 32, 20, 20, 1, 1};
  for (const float value : {0.0f, 1e-38f, 1e-40f, -0x1p-126f}) {
    const Case c =
        make_case(l, [&](Tensor* image, Tensor*) { std::fill(image->data.begin(), image->data.end(), value); });
    EXPECT_LT(errors_of(run_all(c, GetParam()), c).largest, 1e-30);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, WinogradFixed, testing::ValuesIn(kTargets), [](const auto& p) {
  std::string name = p.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// From 16 tiles and 32 channels on; and only of bfloat16, where integers of 16 bits are multiplied two at a time.
TEST(WinogradFixedClaims, ByImagesAndTargets) {
  struct Choice {
    int64_t channels, extent;
    bool claims;
  };
  for (const Choice& k : {Choice{64, 28, true}, Choice{512, 14, true}, Choice{512, 7, false}, Choice{16, 56, false}}) {
    SCOPED_TRACE(std::to_string(k.channels) + " channels of " + std::to_string(k.extent));
    OnnxBuilder b("choice", 1);
    const std::string x = b.input("x", DType::kF32, {int64_t{1}, k.channels, k.extent, k.extent});
    b.output(b.conv(x, k.channels, k.channels, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}), "y", DType::kF32,
             {"", "", "", ""});
    const std::string path = temporary_path("choice.onnx");
    ASSERT_TRUE(b.save(path).ok());
    for (const TargetOfWords& target : kTargets) {
      EXPECT_EQ(is_claimed(path, target.name), k.claims) << target.name;
      EXPECT_EQ(groups_of(path, target.name).find("winograd_fixed"), std::string::npos) << target.name;
    }
    EXPECT_FALSE(is_claimed(path, "host-avx512"));
    EXPECT_FALSE(is_claimed(path, "X2_1204"));
  }
}

}  // namespace
}  // namespace aipu::test
