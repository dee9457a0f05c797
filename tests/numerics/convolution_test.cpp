// Convolutions of all kinds against oneDNN or a double-precision reference, on every target this machine can run.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/numerics/random_models.h"

namespace aipu::test {
namespace {

using models::ConvOptions;

TEST(Kernels, Convolution) {
  check_against_dnnl("conv", 12, 1e-4, 1e-4, [](OnnxBuilder& b, std::mt19937& random) {
    const int64_t spatial = pick(random, 1, 3);
    const int64_t groups = pick(random, 0, 2) == 0 ? pick(random, 2, 3) : 1;
    const int64_t in = groups * pick(random, 1, 7), out = groups * pick(random, 1, 37);
    ConvOptions options{.kernel = {}, .groups = groups, .bias = pick(random, 0, 1) == 1};
    std::vector<int64_t> shape = {pick(random, 1, 3), in};
    for (int64_t i = 0; i < spatial; ++i) {
      options.kernel.push_back(pick(random, 1, 4));
      options.strides.push_back(pick(random, 1, 3));
      options.dilations.push_back(pick(random, 1, 2));
      shape.push_back((options.kernel.back() - 1) * options.dilations.back() + pick(random, 1, spatial == 1 ? 40 : 13));
    }
    for (int64_t i = 0; i < 2 * spatial; ++i)
      options.pads.push_back(pick(random, 0,
                                  std::min<int64_t>(2, (options.kernel[static_cast<size_t>(i % spatial)] - 1) *
                                                           options.dilations[static_cast<size_t>(i % spatial)])));
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    b.output(b.conv(x, in, out, options), "y", DType::kF32, Extents(shape.size(), Extents::value_type("")));
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

// Rows of every length around the width of a tile, kernels, strides and channel multipliers that the networks have and
// some that they have not.
TEST(Kernels, DepthwiseConvolution) {
  check_against_dnnl("depthwise", 16, 1e-4, 1e-4, [](OnnxBuilder& b, std::mt19937& random) {
    const int64_t channels = pick(random, 2, 41), kernel = pick(random, 0, 2) == 0 ? 5 : pick(random, 2, 4),
                  dilation = pick(random, 0, 3) == 0 ? 2 : 1,
                  multiplier = pick(random, 0, 1) == 0 ? 1 : pick(random, 2, 4);
    const int64_t reach = (kernel - 1) * dilation;
    const std::vector<int64_t> shape = {pick(random, 1, 2), channels, reach + pick(random, 1, 9),
                                        reach + pick(random, 1, 40)};
    const int64_t stride = pick(random, 1, 3);
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    b.output(b.conv(x, channels, multiplier * channels,
                    {.kernel = {kernel, kernel},
                     .strides = {stride, stride},
                     .pads = {pick(random, 0, reach), pick(random, 0, reach), pick(random, 0, reach),
                              pick(random, 0, reach)},
                     .dilations = {dilation, dilation},
                     .groups = channels}),
             "y", DType::kF32, {"", "", "", ""});
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

// What the networks have: rows of whole tiles and of several heights, padding on both sides of a tile, stems, channels
// beyond a panel, pointwise ones, rows of few channels whose taps are unrolled, tall tiles of few columns.
TEST(Kernels, ConvolutionsOfNetworks) {
  struct Layer {
    int64_t in, out, kernel, stride, pad, height, width, groups, dilation;
  };
  const Layer layers[] = {{17, 40, 3, 1, 1, 7, 7, 1, 1},
                          {3, 24, 7, 2, 3, 20, 56, 1, 1},
                          {8, 33, 3, 2, 1, 9, 29, 1, 1},
                          {16, 65, 1, 1, 0, 9, 11, 1, 1},
                          {5, 48, 5, 1, 2, 6, 30, 1, 1},
                          {24, 16, 1, 2, 0, 13, 13, 1, 1},
                          {4, 8, 3, 1, 1, 5, 2, 1, 1},
                          {4, 20, 3, 1, 4, 5, 5, 1, 1},
                          {6, 12, 3, 1, 6, 20, 21, 1, 6},
                          {4, 10, 9, 1, 4, 10, 17, 1, 1},
                          {12, 36, 1, 1, 0, 8, 9, 3, 1},
                          {18, 40, 3, 1, 1, 6, 15, 2, 1},
                          {1, 8, 5, 1, 2, 28, 28, 1, 1},
                          {8, 16, 5, 1, 2, 14, 14, 1, 1},
                          {3, 7, 3, 2, 2, 9, 27, 1, 2},
                          {1, 16, 3, 1, 1, 5, 56, 1, 1},
                          {20, 6, 3, 2, 1, 9, 56, 1, 1},
                          {12, 12, 3, 1, 1, 6, 28, 3, 1},
                          {1, 5, 11, 4, 2, 30, 43, 1, 1},
                          {2, 8, 5, 1, 2, 4, 3, 1, 1},
                          {6, 3, 3, 3, 1, 6, 70, 1, 1},
                          // Dilations that divide the extents.
                          {33, 40, 3, 1, 2, 8, 14, 1, 2},
                          {32, 35, 3, 1, 4, 16, 12, 1, 4},
                          {40, 32, 3, 1, 3, 9, 10, 1, 3},
                          // Two short rows of pixels at a time: odd and even numbers of rows, strides, dilations,
                          // groups, rows outside.
                          {20, 33, 3, 2, 1, 13, 13, 1, 1},
                          {9, 40, 1, 2, 0, 14, 14, 1, 1},
                          {12, 36, 3, 1, 1, 4, 6, 3, 1},
                          {5, 20, 3, 1, 2, 6, 7, 1, 2},
                          {7, 34, 5, 1, 2, 2, 3, 1, 1},
                          {6, 48, 3, 2, 3, 3, 5, 1, 1},
                          {4, 18, 2, 2, 0, 9, 11, 2, 1},
                          {3, 50, 7, 1, 3, 5, 2, 1, 1}};
  size_t next = 0;
  check_against_dnnl("conv_networks", static_cast<int>(std::size(layers)), 1e-4, 1e-4,
                     [&](OnnxBuilder& b, std::mt19937&) {
                       const Layer& l = layers[next++];
                       const std::vector<int64_t> shape = {2, l.in, l.height, l.width};
                       const std::string x = b.input("x", DType::kF32, extents_of(shape));
                       b.output(b.relu(b.conv(x, l.in, l.out,
                                              {.kernel = {l.kernel, l.kernel},
                                               .strides = {l.stride, l.stride},
                                               .pads = {l.pad, l.pad, l.pad, l.pad},
                                               .dilations = {l.dilation, l.dilation},
                                               .groups = l.groups})),
                                "y", DType::kF32, {"", "", "", ""});
                       return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
                     });
}

// Rows that are cut where taps enter or leave the image: dilations of about the image and beyond it, edges on one side
// only, strides, groups, images narrower than the kernel, rows of one tile, of several and of two, epilogues that read.
// Every third one with extents that are not known when converting.
TEST(Kernels, ConvolutionsOfLargeDilations) {
  struct Layer {
    int64_t batch, in, out, kernel, stride, dilation, groups, height, width;
    std::vector<int64_t> pads;
    bool residual = false;
  };
  const Layer layers[] = {{1, 18, 40, 3, 1, 12, 1, 17, 33, {12, 12, 12, 12}},
                          {3, 10, 33, 3, 1, 24, 1, 25, 33, {24, 24, 24, 24}, true},
                          {2, 20, 24, 3, 1, 12, 1, 14, 14, {12, 12, 12, 12}, true},
                          {1, 9, 33, 3, 1, 9, 1, 6, 5, {9, 9, 9, 9}},
                          {3, 8, 20, 3, 2, 7, 1, 31, 40, {7, 5, 9, 4}},
                          {1, 12, 36, 3, 1, 8, 3, 21, 45, {8, 0, 8, 11}},
                          {1, 10, 48, 5, 1, 4, 1, 17, 29, {8, 8, 8, 8}, true},
                          {2, 5, 18, 4, 3, 6, 1, 40, 70, {11, 13, 2, 7}},
                          {1, 4, 34, 9, 1, 1, 1, 5, 19, {4, 8, 4, 8}}};
  std::mt19937 random(3);
  size_t number = 0;
  for (const Layer& l : layers) {
    for (const bool known : {true, false}) {
      if (!known && number % 3 != 0) continue;
      SCOPED_TRACE("layer " + std::to_string(number) + (known ? "" : ", symbolic"));
      OnnxBuilder b("dilated", 2);
      const std::vector<int64_t> shape = {l.batch, l.in, l.height, l.width};
      const std::string x = b.input("x", DType::kF32, known ? extents_of(shape) : Extents{"N", l.in, "H", "W"});
      std::string y = b.conv(x, l.in, l.out,
                             {.kernel = {l.kernel, l.kernel},
                              .strides = {l.stride, l.stride},
                              .pads = l.pads,
                              .dilations = {l.dilation, l.dilation},
                              .groups = l.groups});
      std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, shape)}};
      if (l.residual) {
        const std::vector<int64_t> same = {l.batch, l.out, l.height, l.width};
        inputs["r"] = random_tensor(random, same);
        y = b.op("Add", {y, b.input("r", DType::kF32, known ? extents_of(same) : Extents{"N", l.out, "OH", "OW"})});
      }
      b.output(b.relu(y), "y", DType::kF32, {"", "", "", ""});
      const std::string path = temporary_path("dilated" + std::to_string(number) + ".onnx");
      ASSERT_TRUE(b.save(path).ok());
      const auto expected = run_reference(path, inputs);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      expect_on_targets(path, inputs, *expected, 1e-4, 1e-4, known && number % 4 == 0);
      if (HasFatalFailure()) return;
    }
    ++number;
  }
}

// Groups that are parts of a vector, a vector, and no whole number of them: channels that end within a vector, rows of
// one tile and of several, padding on one side, strides, dilations, epilogues that read, extents known at run time.
TEST(Kernels, ConvolutionsInGroups) {
  struct Layer {
    int64_t in, out, groups, kernel, stride, dilation, height, width;
    std::vector<int64_t> pads;
    bool known = true;
  };
  const Layer layers[] = {
      {32, 32, 8, 3, 1, 1, 4, 30, {1, 1, 1, 1}},  {20, 20, 5, 3, 2, 1, 5, 11, {0, 1, 1, 0}},
      {56, 56, 7, 3, 1, 1, 4, 9, {1, 1, 1, 1}},   {24, 24, 12, 5, 1, 1, 3, 10, {2, 2, 2, 2}},
      {40, 40, 10, 3, 1, 3, 8, 17, {3, 3, 3, 3}}, {32, 64, 2, 3, 1, 1, 3, 13, {1, 1, 1, 1}},
      {24, 36, 3, 3, 2, 1, 7, 31, {1, 0, 1, 2}},  {16, 16, 4, 3, 1, 1, 1, 1, {1, 1, 1, 1}},
      {64, 64, 8, 3, 1, 1, 3, 2, {1, 1, 1, 1}},   {48, 48, 12, 3, 2, 1, 6, 29, {1, 1, 1, 1}, false}};
  OnnxBuilder b("groups", 5);
  std::mt19937 random(23);
  std::map<std::string, Tensor> inputs;
  for (size_t i = 0; i < std::size(layers); ++i) {
    const Layer& l = layers[i];
    const std::string number = std::to_string(i);
    const auto input = [&](const std::string& name, const std::vector<int64_t>& shape) {
      inputs[name] = random_tensor(random, shape);
      return b.input(name, DType::kF32, l.known ? extents_of(shape) : Extents{"N", shape[1], name + "h", name + "w"});
    };
    std::string y = b.conv(input("x" + number, {2, l.in, l.height, l.width}), l.in, l.out,
                           {.kernel = {l.kernel, l.kernel},
                            .strides = {l.stride, l.stride},
                            .pads = l.pads,
                            .dilations = {l.dilation, l.dilation},
                            .groups = l.groups,
                            .bias = i % 2 == 0});
    if (i % 4 == 0) y = b.op("Add", {y, input("r" + number, {2, l.out, l.height, l.width})});
    y = i % 3 == 0 ? b.op("Mul", {y, b.op("Sigmoid", {y})}) : b.relu(y);
    b.output(y, "y" + number, DType::kF32, {"", "", "", ""});
  }
  const std::string path = temporary_path("groups.onnx");
  ASSERT_TRUE(b.save(path).ok());
  const auto expected = run_reference(path, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  std::vector<std::string> hosts;
  for (const std::string& target : runnable_targets()) {
    if (target.starts_with("host")) hosts.push_back(target);
  }
  expect_everywhere(b, {"groups", inputs, *expected, 1e-4}, hosts);
}

// Extents known only at run time: images narrower than a tile, than the kernel, and wide ones, through one converted
// model per batch and width.
TEST(Kernels, ConvolutionsOfSymbolicExtents) {
  for (const int64_t groups : {int64_t{1}, int64_t{6}}) {
    OnnxBuilder b("symbolic", 3);
    const std::string x = b.input("x", DType::kF32, {"N", int64_t{6}, "H", "W"});
    std::string y = b.conv(x, 6, groups == 1 ? 35 : 6, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}, .groups = groups});
    b.output(b.relu(b.conv(y, groups == 1 ? 35 : 6, 6, {.kernel = {1, 1}})), "y", DType::kF32, {"", "", "", ""});
    const std::string path = temporary_path("symbolic" + std::to_string(groups) + ".onnx");
    ASSERT_TRUE(b.save(path).ok());
    std::mt19937 random(11);
    for (const int64_t width : {1, 2, 5, 7, 13, 14, 15, 31}) {
      SCOPED_TRACE("groups " + std::to_string(groups) + " width " + std::to_string(width));
      const std::map<std::string, Tensor> inputs = {
          {"x", random_tensor(random, {1 + width % 2, 6, 1 + width % 5, width})}};
      const auto expected = run_reference(path, inputs);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      expect_on_targets(path, inputs, *expected, 1e-4, 1e-4, width == 5);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Kernels, ConvolutionWithFusedNeighbours) {
  check_against_dnnl("conv_fused", 6, 1e-4, 1e-4, [](OnnxBuilder& b, std::mt19937& random) {
    const int64_t channels = pick(random, 3, 40);
    const std::vector<int64_t> shape = {pick(random, 1, 3), channels, pick(random, 4, 15), pick(random, 4, 15)};
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    std::string y = b.batch_norm(b.conv(x, channels, channels, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}), channels);
    y = b.relu(b.op("Add", {y, x}));
    y = b.op("Mul", {y, b.op("Sigmoid", {y})});
    b.output(y, "y", DType::kF32, {"", "", "", ""});
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

// Residual blocks: the sum takes over the memory of the shortcut, whichever kernel computes it.
TEST(Kernels, ResidualSums) {
  check_against_dnnl("residual", 4, 1e-4, 1e-4, [](OnnxBuilder& b, std::mt19937& random) {
    const int64_t channels = 32 * pick(random, 1, 2) + pick(random, 0, 1);
    const std::vector<int64_t> shape = {pick(random, 1, 3), 5, pick(random, 6, 15), pick(random, 6, 15)};
    const std::string x = b.input("x", DType::kF32, extents_of(shape));
    std::string y = b.relu(b.conv(x, 5, channels, {.kernel = {1, 1}}));
    for (const int64_t kernel : {1, 3, 5}) {
      const int64_t pad = kernel / 2;
      const std::string inner = b.relu(b.conv(y, channels, channels, {.kernel = {1, 1}}));
      y = b.relu(b.op(
          "Add", {b.conv(inner, channels, channels, {.kernel = {kernel, kernel}, .pads = {pad, pad, pad, pad}}), y}));
    }
    b.output(b.conv(y, channels, 3, {.kernel = {1, 1}}), "y", DType::kF32, {"", "", "", ""});
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

// Rows are fetched ahead; which is decided by the extents that the shapes bind.
TEST(Kernels, DepthwiseConvolutionOfImagesLargerThanTheCaches) {
  OnnxBuilder b("depthwise_large", 1);
  b.input("x", DType::kF32, {"N", int64_t{40}, "H", int64_t{170}});
  b.output(b.conv("x", 40, 40, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 0, 1, 1}, .groups = 40}), "y",
           DType::kF32, {"", "", "", ""});
  const std::string path = temporary_path("depthwise_large.onnx");
  ASSERT_TRUE(b.save(path).ok());
  std::mt19937 random(1);
  const std::map<std::string, Tensor> inputs{{"x", random_tensor(random, {2, 40, 131, 170})}};
  const auto expected = run_reference(path, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  expect_on_targets(path, inputs, *expected, 1e-4, 1e-4, false);
}

// Who computes what depends on the number of threads and of images (each has rows of its own, or a part of the runs
// that a mean is cut into); results do not.
TEST(Kernels, SqueezeAndExciteWhateverTheThreads) {
  OnnxBuilder b("squeeze", 1);
  constexpr int64_t kChannels = 250, kPixels = 14 * 14;
  b.input("x", DType::kF32, {"N", int64_t{40}, int64_t{14}, int64_t{14}});
  std::string y = b.relu(b.conv("x", 40, kChannels, {.kernel = {1, 1}}));
  y = b.relu(b.conv(y, kChannels, kChannels, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}, .groups = kChannels}));
  const std::string mean = b.op("GlobalAveragePool", {y});
  y = b.op("Mul", {y, b.op("Sigmoid", {b.conv(mean, kChannels, kChannels, {.kernel = {1, 1}})})});
  b.output(b.op("Add", {y, b.op("GlobalMaxPool", {y})}), "y", DType::kF32, {"", "", "", ""});
  const std::string path = temporary_path("squeeze.onnx");
  ASSERT_TRUE(b.save(path).ok());
  std::mt19937 random(1);
  const Tensor three = random_tensor(random, {3, 40, 14, 14});
  const Tensor one = {{1, 40, 14, 14}, {three.data.begin(), three.data.begin() + 40 * kPixels}};
  const auto expected = run_reference(path, {{"x", three}});
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  expect_on_targets(path, {{"x", three}}, *expected, 1e-4, 1e-4, true);
  const auto all = run_road(path, {{"x", three}}, {.threads = 1});
  ASSERT_TRUE(all.ok()) << all.status().message();
  for (const int threads : {1, 2}) {
    for (const Tensor& x : {one, three}) {
      const auto found = run_road(path, {{"x", x}}, {.threads = threads});
      ASSERT_TRUE(found.ok()) << found.status().message();
      const std::vector<float>& data = found->at("y").data;
      ASSERT_EQ(data.size(), static_cast<size_t>(x.shape[0] * kChannels * kPixels));
      EXPECT_TRUE(std::equal(data.begin(), data.end(), all->at("y").data.begin()))
          << threads << " threads, " << x.shape[0] << " images";
    }
  }
}

// Groups are known by the weights; how many output channels an input channel has is not, by the image alone.
TEST(Kernels, DepthwiseConvolutionOfSymbolicChannels) {
  check_against_dnnl("depthwise_symbolic", 4, 1e-4, 1e-4, [](OnnxBuilder& b, std::mt19937& random) {
    const int64_t channels = pick(random, 2, 20), multiplier = int64_t{1} << pick(random, 0, 3);
    const std::vector<int64_t> shape = {2, channels, pick(random, 3, 9), pick(random, 3, 9)};
    b.input("x", DType::kF32, {shape[0], "C", shape[2], shape[3]});
    b.output(b.conv("x", channels, channels * multiplier, {.kernel = {3, 2}, .pads = {1, 0, 0, 1}, .groups = channels}),
             "y", DType::kF32, {"", "", "", ""});
    return std::map<std::string, std::vector<int64_t>>{{"x", shape}};
  });
}

}  // namespace
}  // namespace aipu::test
