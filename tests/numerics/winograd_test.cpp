// 3x3 convolutions of stride 1 by Winograd's algorithm against sums in double precision: F(2x2, 3x3), and F(4x4, 3x3),
// whose sums are cut unless there is fast math. Shapes are symbolic, so that images smaller than a tile get there as
// well.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "gbuilder/build.h"
#include "gbuilder/file/encode.h"
#include "runtime/base/file.h"
#include "tests/numerics/winograd_cases.h"

namespace aipu::test {
namespace {

using models::OnnxBuilder;

enum class Epilogue { kBias, kResidualRelu, kSilu };

struct Layer {
  int64_t batch, in, out, height, width, pad_begin, pad_end;
  Epilogue epilogue = Epilogue::kBias;
  int64_t dilation = 1;                                  // beyond 1 extents are known when converting
  std::vector<std::pair<int64_t, float>> specials = {};  // elements of the image that are not finite
};

// As the road has it: NaN stays NaN.
double relu(double v) { return std::isnan(v) || v > 0 ? v : 0; }

std::ostream& operator<<(std::ostream& out, const Layer& l) {
  return out << l.in << " -> " << l.out << ", " << l.batch << " of " << l.height << " x " << l.width << ", padding "
             << l.pad_begin << " and " << l.pad_end << ", dilation " << l.dilation;
}

struct Case {
  std::string path;
  std::map<std::string, Tensor> inputs;
  std::vector<double> expected;
  double rms = 0, largest = 0;
};

Case make_case(const Layer& l) {
  std::mt19937 random(5);
  const Tensor weights = random_tensor(random, {l.out, l.in, 3, 3}), bias = random_tensor(random, {l.out});
  const int64_t less = l.pad_begin + l.pad_end - 2 * l.dilation, out_h = l.height + less, out_w = l.width + less;
  const bool known = l.dilation > 1;
  OnnxBuilder b("winograd", 1);
  const std::string x = b.input(
      "x", DType::kF32, known ? models::Extents{"N", l.in, l.height, l.width} : models::Extents{"N", l.in, "H", "W"});
  const std::string w = b.initializer(models::TensorData::f32(weights.shape, weights.data)),
                    c = b.initializer(models::TensorData::f32({l.out}, bias.data));
  std::string y = b.op("Conv", {x, w, c},
                       {{"pads", std::vector<int64_t>{l.pad_begin, l.pad_begin, l.pad_end, l.pad_end}},
                        {"dilations", std::vector<int64_t>{l.dilation, l.dilation}}});
  Case result;
  Tensor image = random_tensor(random, {l.batch, l.in, l.height, l.width});
  for (const auto& [place, value] : l.specials) image.data[static_cast<size_t>(place)] = value;
  result.inputs["x"] = image;
  Tensor residual;
  if (l.epilogue == Epilogue::kResidualRelu) {
    residual = random_tensor(random, {l.batch, l.out, out_h, out_w});
    result.inputs["r"] = residual;
    y = b.relu(b.op("Add", {y, b.input("r", DType::kF32,
                                       known ? models::Extents{"N", l.out, out_h, out_w}
                                             : models::Extents{"N", l.out, "OH", "OW"})}));
  } else if (l.epilogue == Epilogue::kSilu) {
    y = b.op("Mul", {y, b.op("Sigmoid", {y})});
  }
  b.output(y, "y", DType::kF32, {"", "", "", ""});
  result.path = temporary_path("winograd.onnx");
  EXPECT_TRUE(b.save(result.path).ok());
  result.expected = direct_sums(image, weights, bias, {l.pad_begin, l.pad_end, l.dilation});
  for (size_t i = 0; i < result.expected.size(); ++i) {
    double& value = result.expected[i];
    if (l.epilogue == Epilogue::kResidualRelu) value = relu(value + static_cast<double>(residual.data[i]));
    if (l.epilogue == Epilogue::kSilu) value /= 1 + std::exp(-value);
    if (std::isfinite(value)) result.largest = std::max(result.largest, std::abs(value));
  }
  result.rms = root_mean_square(result.expected);
  return result;
}

const std::vector<std::string> kOnlyTilesOfTwo = {"winograd_f4", "winograd_f4_fast"};

// On every host target with one to three threads, whose number must not matter, and in the interpreter, which must not
// differ by a bit. The largest error of all.
double check(const Case& c, double bound, RoadOptions options) {
  double worst = 0;
  for (const std::string& target : runnable_targets()) {
    if (!target.starts_with("host")) continue;  // direct there
    std::vector<std::vector<uint32_t>> by_threads;
    options.target = target;
    for (const int threads : {1, 2, 3}) {
      options.threads = threads;
      const auto actual = run_road(c.path, c.inputs, options);
      EXPECT_TRUE(actual.ok()) << target << ": " << actual.status().message();
      if (!actual.ok()) return worst;
      const Tensor& y = actual->at("y");
      EXPECT_EQ(y.data.size(), c.expected.size());
      if (y.data.size() != c.expected.size()) return worst;
      double error = 0;
      size_t misplaced = 0;
      for (size_t i = 0; i < c.expected.size(); ++i) {
        if (std::isfinite(c.expected[i]))
          error = std::max(error, std::abs(static_cast<double>(y.data[i]) - c.expected[i]));
        else if (std::isnan(c.expected[i]) ? !std::isnan(y.data[i]) : y.data[i] != static_cast<float>(c.expected[i]))
          ++misplaced;
      }
      EXPECT_EQ(misplaced, 0u) << target << ": infinities and NaN elsewhere";
      EXPECT_LT(error, bound) << target;
      worst = std::max(worst, error);
      by_threads.push_back(bits_of(y.data));
    }
    EXPECT_EQ(by_threads[0], by_threads[1]) << target << ": results depend on the number of threads";
    EXPECT_EQ(by_threads[0], by_threads[2]) << target << ": results depend on the number of threads";
  }
  options.target = "host-baseline";
  const auto native = run_road(c.path, c.inputs, options);
  options.backend = "interp";
  const auto interpreted = run_road(c.path, c.inputs, options);
  EXPECT_TRUE(native.ok() && interpreted.ok());
  if (native.ok() && interpreted.ok()) {
    EXPECT_EQ(bits_of(interpreted->at("y").data), bits_of(native->at("y").data)) << "interpreter";
  }
  return worst;
}

// Extents that the dilation divides, and those that it does not, so that some sub-lattices are shorter than others, by a
// tile too; padding that is not the dilation; epilogues that read; channels that end within a vector.
std::vector<Layer> layers_of_dilations() {
  return {Layer{2, 32, 48, 16, 24, 4, 4, Epilogue::kResidualRelu, 4},
          Layer{1, 37, 35, 17, 14, 2, 2, Epilogue::kSilu, 2}, Layer{3, 20, 33, 13, 23, 2, 5, Epilogue::kBias, 3},
          Layer{1, 33, 40, 29, 30, 0, 1, Epilogue::kBias, 5}};
}

// Its error is that of the rounding of sums a ninth as long plus that of the transforms; the measured one is below 2e-6
// of the outputs' root mean square, as the direct kernel's is.
TEST(Winograd, TilesOfTwo) {
  std::vector<Layer> layers;
  for (const Layer& l : {Layer{1, 64, 64, 14, 14, 1, 1}, Layer{2, 32, 70, 7, 7, 1, 1}, Layer{1, 48, 33, 9, 30, 0, 0},
                         Layer{3, 37, 32, 6, 5, 1, 0}, Layer{1, 32, 40, 5, 61, 2, 2}, Layer{1, 390, 70, 9, 8, 1, 1}})
    layers.push_back(l);
  for (const Layer& l : layers_of_dilations()) layers.push_back(l);
  for (const Layer& l : layers) {
    SCOPED_TRACE(testing::PrintToString(l));
    const Case c = make_case(l);
    check(c, 5e-6 * c.rms, {.disabled_plugins = kOnlyTilesOfTwo});
  }
}

std::vector<Layer> layers_of_tiles_of_four() {
  return {
      Layer{1, 64, 64, 16, 16, 1, 1},    // whole tiles
      Layer{2, 32, 70, 7, 7, 1, 1},      // half a tile at the end
      Layer{1, 48, 33, 9, 30, 0, 0},     // no padding
      Layer{3, 37, 32, 6, 5, 1, 0},      // channels that end within a vector
      Layer{1, 32, 40, 5, 61, 2, 2},     // more padding
      Layer{2, 70, 37, 3, 2, 1, 1},      // smaller than a tile
      Layer{1, 33, 35, 1, 1, 1, 1},      // one pixel
      Layer{1, 32, 32, 67, 69, 1, 1},    // several blocks for each of three threads
      Layer{1, 256, 160, 13, 14, 1, 1},  // deep: all panels of a block at once, panels shared out
      Layer{2, 200, 72, 41, 42, 1, 1},   // deep, blocks shared out
      Layer{1, 64, 48, 18, 17, 1, 1, Epilogue::kResidualRelu},
      Layer{2, 40, 50, 9, 11, 1, 1, Epilogue::kResidualRelu},
      Layer{1, 48, 70, 10, 15, 1, 1, Epilogue::kSilu},
      Layer{2, 24, 40, 38, 33, 2, 2, Epilogue::kResidualRelu, 2},
      Layer{1, 32, 48, 37, 49, 3, 2, Epilogue::kBias, 4},
  };
}

// Sums of 32 or 64 channels: what its transforms make of their rounding is less than direct sums of 256 channels lose
// (9e-6; of 32 they lose 3e-6).
TEST(Winograd, TilesOfFour) {
  for (const Layer& l : layers_of_tiles_of_four()) {
    SCOPED_TRACE(testing::PrintToString(l));
    const Case c = make_case(l);
    check(c, 7e-6 * c.rms, {});
  }
}

TEST(Winograd, TilesOfFourWithFastMath) {
  double worst = 0;
  const std::vector<Layer> layers = layers_of_tiles_of_four();
  for (size_t i = 0; i < layers.size(); i += 4) {
    const Layer& l = layers[i];
    SCOPED_TRACE(testing::PrintToString(l));
    const Case c = make_case(l);
    worst = std::max(worst, check(c, 1e-5 * c.largest, {.fast_math = true}) / c.largest);
  }
  RecordProperty("worst_error_over_largest_output", std::to_string(worst));
}

// Infinities and NaN reach the pixels that have them in their windows, not all of a tile: in every place of a patch, in
// the first and last channel, at the edges of the image.
TEST(Winograd, WhatIsNotFiniteStaysInItsWindows) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto specials = [](int64_t channels, int64_t height, int64_t width) {
    std::vector<std::pair<int64_t, float>> found;
    // A patch of 6x6 begins at every fourth pixel less the padding: 7 lines and columns on it is another place of one.
    int64_t number = 0;
    for (int64_t h = 0; h < height; h += 7) {
      for (int64_t w = h % 3; w < width; w += 7) {
        const int64_t channel = number % 3 == 0 ? 0 : number % 3 == 1 ? channels - 1 : channels / 2;
        found.emplace_back((channel * height + h) * width + w, std::array{kNaN, kInf, -kInf}[number++ % 3]);
      }
    }
    return found;
  };
  std::vector<Layer> layers = {Layer{1, 37, 40, 40, 43, 1, 1}, Layer{2, 32, 70, 24, 31, 0, 0},
                               Layer{1, 40, 48, 33, 30, 1, 1, Epilogue::kResidualRelu}, Layer{1, 200, 72, 24, 28, 1, 1},
                               Layer{1, 32, 48, 37, 49, 3, 2, Epilogue::kBias, 2}};
  for (Layer& l : layers) {
    SCOPED_TRACE(testing::PrintToString(l));
    l.specials = specials(l.in, l.height, l.width);
    const Case c = make_case(l);
    // Such tiles are direct sums, of weights that were transformed there and back.
    check(c, 1.5e-5 * c.rms, {});
  }
}

// So does the rounding of a number far greater than the others: pixels that do not have it in their windows are what they
// would be without it.
TEST(Winograd, WhatStandsOutStaysInItsWindows) {
  for (const Layer& plain : {Layer{1, 64, 64, 32, 32, 1, 1}, Layer{2, 33, 40, 29, 27, 1, 1}}) {
    const Case without = make_case(plain);
    for (const float value : {1e5f, -1e6f, 1e9f}) {
      SCOPED_TRACE(testing::PrintToString(plain) + ", " + std::to_string(value));
      Layer l = plain;
      for (const int64_t pixel : {5 * l.width + 6, 16 * l.width + 16, (l.height - 1) * l.width + 3})
        l.specials.emplace_back(pixel % l.in * l.height * l.width + pixel, value);
      const Case with = make_case(l);
      for (const std::string& target : runnable_targets()) {
        if (!target.starts_with("host")) continue;
        std::vector<std::vector<uint32_t>> by_threads;
        for (const int threads : {1, 2}) {
          const auto actual = run_road(with.path, with.inputs, {.target = target, .threads = threads});
          ASSERT_TRUE(actual.ok()) << target << ": " << actual.status().message();
          const std::vector<float>& y = actual->at("y").data;
          size_t compared = 0;
          double error = 0;
          for (size_t i = 0; i < y.size(); ++i) {
            if (with.expected[i] != without.expected[i]) continue;
            ++compared;
            error = std::max(error, std::abs(static_cast<double>(y[i]) - with.expected[i]));
          }
          EXPECT_GT(compared, y.size() / 2);
          EXPECT_LT(error, 1.5e-5 * without.rms) << target;
          by_threads.push_back(bits_of(y));
        }
        EXPECT_EQ(by_threads[0], by_threads[1]) << target << ": results depend on the number of threads";
      }
    }
  }
}

// The plugins that claimed something, and whether the file says that fast math was on.
std::string claimed_by(const std::string& path, bool fast_math, bool* recorded) {
  gbuilder::BuildOptions build;
  build.model = path;
  build.output = path + ".aipu.bin";
  build.dump_ir = path + ".dump";
  build.fast_math = fast_math;
  EXPECT_TRUE(gbuilder::build_model(build).ok());
  const auto file = MappedFile::open(build.output);
  EXPECT_TRUE(file.ok());
  const auto decoded = gbuilder::decode(file->bytes());
  EXPECT_TRUE(decoded.ok());
  *recorded = decoded.ok() && decoded->plan.fast_math;
  std::ifstream groups(build.dump_ir + "/groups.txt");
  std::stringstream text;
  text << groups.rdbuf();
  return text.str();
}

// Tiles of four for large images always; for small ones (where the weights, four times as many, would take the time)
// only with few weights. Their sums are cut unless there is fast math.
TEST(Winograd, TilesByImages) {
  struct Choice {
    int64_t channels, extent;
    const char *strict, *fast;
  };
  for (const Choice& c :
       {Choice{64, 28, "winograd_f4", "winograd_f4_fast"}, Choice{256, 28, "winograd_f4", "winograd_f4_fast"},
        Choice{128, 14, "winograd_f4", "winograd_f4_fast"}, Choice{256, 14, "winograd", "winograd"},
        Choice{64, 7, "winograd", "winograd"}, Choice{8, 28, "conv", "conv"}}) {
    SCOPED_TRACE(std::to_string(c.channels) + " channels of " + std::to_string(c.extent) + " x " +
                 std::to_string(c.extent));
    OnnxBuilder b("choice", 1);
    const std::string x = b.input("x", DType::kF32, {"N", c.channels, c.extent, c.extent});
    b.output(b.conv(x, c.channels, c.channels, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}), "y", DType::kF32,
             {"N", c.channels, c.extent, c.extent});
    const std::string path = temporary_path("choice.onnx");
    ASSERT_TRUE(b.save(path).ok());
    bool recorded = true;
    EXPECT_NE(claimed_by(path, false, &recorded).find(std::string("by ") + c.strict + ":"), std::string::npos);
    EXPECT_FALSE(recorded);
    EXPECT_NE(claimed_by(path, true, &recorded).find(std::string("by ") + c.fast + ":"), std::string::npos);
    EXPECT_TRUE(recorded);
  }
}

// Where many taps are outside of the image and many tiles are edge, the direct kernel multiplies less.
TEST(Winograd, SubLatticesThatAreWorthIt) {
  struct Choice {
    int64_t extent, dilation;
    const char* plugin;
  };
  for (const Choice& c :
       {Choice{30, 4, "winograd_f4"}, Choice{48, 12, "winograd_f4"}, Choice{65, 2, "winograd_f4"},
        Choice{36, 12, "winograd_f4"}, Choice{33, 6, "winograd"}, Choice{33, 12, "conv"}, Choice{16, 24, "conv"}}) {
    SCOPED_TRACE(std::to_string(c.extent) + " with dilation " + std::to_string(c.dilation));
    OnnxBuilder b("lattices", 1);
    const std::string x = b.input("x", DType::kF32, {"N", int64_t{32}, c.extent, c.extent});
    b.output(b.conv(x, 32, 32,
                    {.kernel = {3, 3},
                     .pads = {c.dilation, c.dilation, c.dilation, c.dilation},
                     .dilations = {c.dilation, c.dilation}}),
             "y", DType::kF32, {"", "", "", ""});
    const std::string path = temporary_path("lattices.onnx");
    ASSERT_TRUE(b.save(path).ok());
    bool recorded = true;
    EXPECT_NE(claimed_by(path, false, &recorded).find(std::string("by ") + c.plugin + ":"), std::string::npos);
  }
}

}  // namespace
}  // namespace aipu::test
