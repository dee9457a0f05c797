// Networks of depthwise and grouped convolutions: MobileNetV2, MobileNetV3-Large, EfficientNet-B0, ShuffleNet (v1, four
// groups).
#include <algorithm>
#include <functional>

#include "models/architectures.h"

namespace aipu::models {
namespace {

using Builder = std::unique_ptr<OnnxBuilder>;
using Activation = std::function<std::string(const std::string&)>;

constexpr double kLinearGain = 1.0;  // convolutions without an activation behind them
constexpr double kBranchGain = 0.4;  // what is added to a shortcut

ConvOptions pointwise(double gain) { return {.kernel = {1, 1}, .gain = gain}; }

ConvOptions depthwise(int64_t channels, int64_t kernel, int64_t stride) {
  const int64_t pad = kernel / 2;
  return {.kernel = {kernel, kernel},
          .strides = {stride, stride},
          .pads = {pad, pad, pad, pad},
          .groups = channels,
          .gain = 1.5};
}

std::string image_stem(OnnxBuilder& b, int64_t channels, const Activation& activation) {
  const auto x = b.input("input", DType::kF32, {"N", 3, 224, 224});
  return activation(b.conv_bn(x, 3, channels, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}}));
}

// Squeeze and excite: channels scaled by what two tiny layers say about their means.
std::string squeeze_excite(OnnxBuilder& b, const std::string& x, int64_t channels, int64_t squeezed,
                           const Activation& inner, const Activation& gate) {
  const auto mean = b.op("GlobalAveragePool", {x});
  // Trained gates are far from saturation; strong ones here would make the network amplify rounding errors.
  const auto thin = inner(b.conv(mean, channels, squeezed, pointwise(0.5)));
  return b.op("Mul", {gate(b.conv(thin, squeezed, channels, pointwise(0.5))), x});
}

struct Bottleneck {
  int64_t kernel, hidden, out, stride, squeezed;
};

// Expand, depthwise, squeeze and excite, project; with a shortcut where the shape allows it.
std::string inverted_residual(OnnxBuilder& b, const std::string& x, int64_t in, const Bottleneck& block,
                              const Activation& activation, const Activation& squeeze_activation,
                              const Activation& gate) {
  auto y = block.hidden == in ? x : activation(b.conv_bn(x, in, block.hidden, pointwise(1.5)));
  y = activation(b.conv_bn(y, block.hidden, block.hidden, depthwise(block.hidden, block.kernel, block.stride)));
  if (block.squeezed > 0) y = squeeze_excite(b, y, block.hidden, block.squeezed, squeeze_activation, gate);
  const bool residual = block.stride == 1 && in == block.out;
  // The gates are about one half.
  const double gain = block.squeezed > 0 ? 1.6 * kLinearGain : kLinearGain;
  y = b.conv_bn(y, block.hidden, block.out, pointwise(gain), residual ? kBranchGain : 1.0);
  return residual ? b.op("Add", {y, x}) : y;
}

}  // namespace

Builder build_mobilenet_v2(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("mobilenet_v2", seed);
  const auto zero = b->scalar(0.0f);
  const auto six = b->scalar(6.0f);
  const Activation relu6 = [&](const std::string& x) { return b->op("Clip", {x, zero, six}); };
  auto x = image_stem(*b, 32, relu6);
  int64_t channels = 32;
  struct Stage {
    int64_t expansion, width;
    int repeats;
    int64_t stride;
  };
  for (const Stage& stage : {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
                             Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}}) {
    for (int i = 0; i < stage.repeats; ++i) {
      const Bottleneck block{3, channels * stage.expansion, stage.width, i == 0 ? stage.stride : 1, 0};
      x = inverted_residual(*b, x, channels, block, relu6, relu6, relu6);
      channels = stage.width;
    }
  }
  x = relu6(b->conv_bn(x, channels, 1280, pointwise(1.5)));
  add_classifier(*b, x, 1280);
  return b;
}

Builder build_mobilenet_v3_large(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("mobilenet_v3_large", seed);
  const Activation relu = [&](const std::string& x) { return b->relu(x); };
  const Activation hard_swish = [&](const std::string& x) { return b->op("HardSwish", {x}); };
  const Activation hard_sigmoid = [&](const std::string& x) { return b->op("HardSigmoid", {x}, {{"alpha", 1.0 / 6}}); };
  auto x = image_stem(*b, 16, hard_swish);
  int64_t channels = 16;
  struct Stage {
    Bottleneck block;
    bool swish;
  };
  for (const Stage& stage :
       {Stage{{3, 16, 16, 1, 0}, false}, Stage{{3, 64, 24, 2, 0}, false}, Stage{{3, 72, 24, 1, 0}, false},
        Stage{{5, 72, 40, 2, 24}, false}, Stage{{5, 120, 40, 1, 32}, false}, Stage{{5, 120, 40, 1, 32}, false},
        Stage{{3, 240, 80, 2, 0}, true}, Stage{{3, 200, 80, 1, 0}, true}, Stage{{3, 184, 80, 1, 0}, true},
        Stage{{3, 184, 80, 1, 0}, true}, Stage{{3, 480, 112, 1, 120}, true}, Stage{{3, 672, 112, 1, 168}, true},
        Stage{{5, 672, 160, 2, 168}, true}, Stage{{5, 960, 160, 1, 240}, true}, Stage{{5, 960, 160, 1, 240}, true}}) {
    x = inverted_residual(*b, x, channels, stage.block, stage.swish ? hard_swish : relu, relu, hard_sigmoid);
    channels = stage.block.out;
  }
  x = hard_swish(b->conv_bn(x, channels, 960, pointwise(1.5)));
  x = b->op("Flatten", {b->op("GlobalAveragePool", {x})}, {{"axis", 1}});
  x = hard_swish(b->gemm(x, 960, 1280, 2.0));
  b->output(b->gemm(x, 1280, 1000), "output", DType::kF32, {"N", 1000});
  return b;
}

Builder build_efficientnet_b0(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("efficientnet_b0", seed);
  const Activation sigmoid = [&](const std::string& x) { return b->op("Sigmoid", {x}); };
  const Activation silu = [&](const std::string& x) { return b->op("Mul", {x, sigmoid(x)}); };
  auto x = image_stem(*b, 32, silu);
  int64_t channels = 32;
  struct Stage {
    int64_t expansion, kernel, width;
    int repeats;
    int64_t stride;
  };
  for (const Stage& stage : {Stage{1, 3, 16, 1, 1}, Stage{6, 3, 24, 2, 2}, Stage{6, 5, 40, 2, 2}, Stage{6, 3, 80, 3, 2},
                             Stage{6, 5, 112, 3, 1}, Stage{6, 5, 192, 4, 2}, Stage{6, 3, 320, 1, 1}}) {
    for (int i = 0; i < stage.repeats; ++i) {
      const Bottleneck block{stage.kernel, channels * stage.expansion, stage.width, i == 0 ? stage.stride : 1,
                             std::max<int64_t>(channels / 4, 1)};
      x = inverted_residual(*b, x, channels, block, silu, silu, sigmoid);
      channels = stage.width;
    }
  }
  x = silu(b->conv_bn(x, channels, 1280, pointwise(1.5)));
  add_classifier(*b, x, 1280);
  return b;
}

Builder build_shufflenet(uint64_t seed) {
  constexpr int64_t kGroups = 4;
  auto b = std::make_unique<OnnxBuilder>("shufflenet", seed);
  const Activation relu = [&](const std::string& x) { return b->relu(x); };
  auto x = b->max_pool(image_stem(*b, 24, relu), 3, 2, 1);
  const auto shuffle = [&](const std::string& y, int64_t channels) {
    const auto n = b->extent(y, 0);
    const auto height = b->extent(y, 2);
    const auto width = b->extent(y, 3);
    const auto split = b->reshape(y, {n, kGroups, channels / kGroups, height, width});
    return b->reshape(b->transpose(split, {0, 2, 1, 3, 4}), {n, int64_t{-1}, height, width});
  };
  int64_t channels = 24;
  const std::pair<int64_t, int> stages[] = {{272, 4}, {544, 8}, {1088, 4}};
  for (const auto& [width, units] : stages) {
    for (int unit = 0; unit < units; ++unit) {
      const int64_t stride = unit == 0 ? 2 : 1;
      // the first unit's shortcut is put beside, the others' are added
      const int64_t out = unit == 0 ? width - channels : width;
      const int64_t middle = width / 4;
      const int64_t groups = channels == 24 ? 1 : kGroups;
      auto y = b->relu(b->conv_bn(x, channels, middle, {.kernel = {1, 1}, .groups = groups}));
      if (groups > 1) y = shuffle(y, middle);
      auto spatial = depthwise(middle, 3, stride);
      spatial.gain = kLinearGain;
      y = b->conv_bn(y, middle, middle, spatial);
      y = b->conv_bn(y, middle, out, {.kernel = {1, 1}, .groups = kGroups, .gain = kLinearGain},
                     unit == 0 ? 1.0 : kBranchGain);
      if (unit == 0) {
        const auto pooled = b->op("AveragePool", {x},
                                  {{"kernel_shape", std::vector<int64_t>{3, 3}},
                                   {"strides", std::vector<int64_t>{2, 2}},
                                   {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                                   {"count_include_pad", 1}});
        x = b->relu(b->op("Concat", {pooled, y}, {{"axis", 1}}));
      } else {
        x = b->relu(b->op("Add", {x, y}));
      }
      channels = width;
    }
  }
  add_classifier(*b, x, channels);
  return b;
}

}  // namespace aipu::models
