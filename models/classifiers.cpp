// Classifiers of plain and densely connected convolutions: AlexNet, VGG-19, Inception-v1, DenseNet-121, SqueezeNet 1.1.
#include "models/architectures.h"

namespace aipu::models {
namespace {

using Builder = std::unique_ptr<OnnxBuilder>;

std::string conv_relu(OnnxBuilder& b, const std::string& x, int64_t in, int64_t out, const ConvOptions& options) {
  return b.relu(b.conv(x, in, out, options));
}

std::string square(OnnxBuilder& b, const std::string& x, int64_t in, int64_t out, int64_t kernel, int64_t pad = 0,
                   int64_t groups = 1) {
  return conv_relu(b, x, in, out, {.kernel = {kernel, kernel}, .pads = {pad, pad, pad, pad}, .groups = groups});
}

std::string response_norm(OnnxBuilder& b, const std::string& x) {
  return b.op("LRN", {x}, {{"size", 5}, {"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1.0}});
}

// Caffe's pooling rounds up: one more column at the end.
std::string pool_up(OnnxBuilder& b, const std::string& x) {
  return b.op("MaxPool", {x},
              {{"kernel_shape", std::vector<int64_t>{3, 3}},
               {"strides", std::vector<int64_t>{2, 2}},
               {"pads", std::vector<int64_t>{0, 0, 1, 1}}});
}

std::string flatten(OnnxBuilder& b, const std::string& x) { return b.op("Flatten", {x}, {{"axis", 1}}); }

}  // namespace

void add_classifier(OnnxBuilder& b, const std::string& x, int64_t channels) {
  const auto pooled = flatten(b, b.op("GlobalAveragePool", {x}));
  b.output(b.gemm(pooled, channels, 1000), "output", DType::kF32, {"N", 1000});
}

// As in Caffe's model zoo: response normalisation, two groups, softmax at the end.
Builder build_alexnet(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("alexnet", seed);
  auto x = b->input("input", DType::kF32, {"N", 3, 224, 224});
  x = conv_relu(*b, x, 3, 96, {.kernel = {11, 11}, .strides = {4, 4}});
  x = pool_up(*b, response_norm(*b, x));
  x = square(*b, x, 96, 256, 5, 2, 2);
  x = pool_up(*b, response_norm(*b, x));
  x = square(*b, x, 256, 384, 3, 1);
  x = square(*b, x, 384, 384, 3, 1, 2);
  x = square(*b, x, 384, 256, 3, 1, 2);
  x = flatten(*b, b->max_pool(x, 3, 2));
  x = b->relu(b->gemm(x, 256 * 6 * 6, 4096));
  x = b->relu(b->gemm(x, 4096, 4096));
  x = b->op("Softmax", {b->gemm(x, 4096, 1000)}, {{"axis", 1}});
  b->output(x, "output", DType::kF32, {"N", 1000});
  return b;
}

Builder build_vgg19(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("vgg19", seed);
  auto x = b->input("input", DType::kF32, {"N", 3, 224, 224});
  int64_t channels = 3;
  const std::pair<int64_t, int> stages[] = {{64, 2}, {128, 2}, {256, 4}, {512, 4}, {512, 4}};
  for (const auto& [width, layers] : stages) {
    for (int layer = 0; layer < layers; ++layer) {
      x = square(*b, x, channels, width, 3, 1);
      channels = width;
    }
    x = b->max_pool(x, 2, 2);
  }
  // What AdaptiveAvgPool2d(7) becomes at this image size.
  x = b->op("AveragePool", {x},
            {{"kernel_shape", std::vector<int64_t>{1, 1}}, {"strides", std::vector<int64_t>{1, 1}}});
  x = flatten(*b, x);
  x = b->relu(b->gemm(x, 512 * 7 * 7, 4096));
  x = b->relu(b->gemm(x, 4096, 4096));
  b->output(b->gemm(x, 4096, 1000), "output", DType::kF32, {"N", 1000});
  return b;
}

// GoogLeNet as in Caffe's model zoo, without the auxiliary heads.
Builder build_inception_v1(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("inception_v1", seed);
  auto x = b->input("input", DType::kF32, {"N", 3, 224, 224});
  x = conv_relu(*b, x, 3, 64, {.kernel = {7, 7}, .strides = {2, 2}, .pads = {3, 3, 3, 3}});
  x = response_norm(*b, pool_up(*b, x));
  x = square(*b, x, 64, 64, 1);
  x = square(*b, x, 64, 192, 3, 1);
  x = pool_up(*b, response_norm(*b, x));
  struct Module {
    int64_t one, reduce3, three, reduce5, five, pool;
    bool pool_after;
  };
  int64_t channels = 192;
  for (const Module& m : {Module{64, 96, 128, 16, 32, 32, false}, Module{128, 128, 192, 32, 96, 64, true},
                          Module{192, 96, 208, 16, 48, 64, false}, Module{160, 112, 224, 24, 64, 64, false},
                          Module{128, 128, 256, 24, 64, 64, false}, Module{112, 144, 288, 32, 64, 64, false},
                          Module{256, 160, 320, 32, 128, 128, true}, Module{256, 160, 320, 32, 128, 128, false},
                          Module{384, 192, 384, 48, 128, 128, false}}) {
    const auto one = square(*b, x, channels, m.one, 1);
    const auto three = square(*b, square(*b, x, channels, m.reduce3, 1), m.reduce3, m.three, 3, 1);
    const auto five = square(*b, square(*b, x, channels, m.reduce5, 1), m.reduce5, m.five, 5, 2);
    const auto pooled = square(*b, b->max_pool(x, 3, 1, 1), channels, m.pool, 1);
    x = b->op("Concat", {one, three, five, pooled}, {{"axis", 1}});
    channels = m.one + m.three + m.five + m.pool;
    if (m.pool_after) x = pool_up(*b, x);
  }
  x = b->op("AveragePool", {x},
            {{"kernel_shape", std::vector<int64_t>{7, 7}}, {"strides", std::vector<int64_t>{1, 1}}});
  x = b->op("Softmax", {b->gemm(flatten(*b, x), channels, 1000)}, {{"axis", 1}});
  b->output(x, "output", DType::kF32, {"N", 1000});
  return b;
}

Builder build_densenet121(uint64_t seed) {
  constexpr int64_t kGrowth = 32;
  auto b = std::make_unique<OnnxBuilder>("densenet121", seed);
  const auto bn_relu = [&](const std::string& x, int64_t channels) { return b->relu(b->batch_norm(x, channels)); };
  auto x = b->input("input", DType::kF32, {"N", 3, 224, 224});
  x = b->relu(b->conv_bn(x, 3, 64, {.kernel = {7, 7}, .strides = {2, 2}, .pads = {3, 3, 3, 3}}));
  x = b->max_pool(x, 3, 2, 1);
  int64_t channels = 64;
  const int blocks[] = {6, 12, 24, 16};
  for (const int layers : blocks) {
    // Every layer takes everything before it in its block.
    std::vector<std::string> features{x};
    for (int layer = 0; layer < layers; ++layer) {
      const auto all = b->op("Concat", features, {{"axis", 1}});
      auto y = b->conv_bn(bn_relu(all, channels), channels, 4 * kGrowth, {.kernel = {1, 1}});
      y = b->conv(b->relu(y), 4 * kGrowth, kGrowth,
                  {.kernel = {3, 3}, .pads = {1, 1, 1, 1}, .bias = false, .gain = 1.0});
      features.push_back(y);
      channels += kGrowth;
    }
    x = bn_relu(b->op("Concat", features, {{"axis", 1}}), channels);
    if (layers == 16) break;
    x = b->conv(x, channels, channels / 2, {.kernel = {1, 1}, .bias = false, .gain = 1.0});
    x = b->op("AveragePool", {x},
              {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
    channels /= 2;
  }
  add_classifier(*b, x, channels);
  return b;
}

Builder build_squeezenet(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("squeezenet", seed);
  auto x = b->input("input", DType::kF32, {"N", 3, 224, 224});
  x = b->max_pool(conv_relu(*b, x, 3, 64, {.kernel = {3, 3}, .strides = {2, 2}}), 3, 2);
  int64_t channels = 64;
  const auto fire = [&](int64_t squeeze, int64_t expand) {
    const auto thin = square(*b, x, channels, squeeze, 1);
    const auto one = square(*b, thin, squeeze, expand, 1);
    x = b->op("Concat", {one, square(*b, thin, squeeze, expand, 3, 1)}, {{"axis", 1}});
    channels = 2 * expand;
  };
  for (const int64_t squeeze : {16, 32, 48, 64}) {
    fire(squeeze, 4 * squeeze);
    fire(squeeze, 4 * squeeze);
    if (squeeze < 48) x = b->max_pool(x, 3, 2);
  }
  x = b->op("GlobalAveragePool", {square(*b, x, channels, 1000, 1)});
  b->output(flatten(*b, x), "output", DType::kF32, {"N", 1000});
  return b;
}

}  // namespace aipu::models
