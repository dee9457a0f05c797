#include "models/networks.h"

#include <cmath>

namespace aipu::models {

namespace {

using Builder = std::unique_ptr<OnnxBuilder>;

Builder sample_cnn(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("sample_cnn", seed);
  auto x = b->input("image", DType::kF32, {"N", 3, 32, 32});
  x = b->relu(b->conv_bn(x, 3, 16, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  x = b->max_pool(x, 2, 2);
  const auto shortcut = x;
  x = b->relu(b->conv_bn(x, 16, 16, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  x = b->conv_bn(x, 16, 16, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}});
  x = b->relu(b->op("Add", {x, shortcut}));
  x = b->relu(b->conv_bn(x, 16, 32, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}}));
  x = b->op("Flatten", {b->op("GlobalAveragePool", {x})}, {{"axis", 1}});
  x = b->op("Softmax", {b->gemm(x, 32, 10)}, {{"axis", 1}});
  b->output(x, "probabilities", DType::kF32, {"N", 10});
  return b;
}

Builder mlp(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("mlp", seed);
  auto x = b->input("input", DType::kF32, {"N", 784});
  x = b->relu(b->gemm(x, 784, 512));
  x = b->relu(b->gemm(x, 512, 512));
  x = b->gemm(x, 512, 10);
  b->output(x, "output", DType::kF32, {"N", 10});
  return b;
}

// The head shared by classifiers: [N,C,H,W] -> [N,1000].
void classify(OnnxBuilder& b, const std::string& x, int64_t channels) {
  const auto pooled = b.op("Flatten", {b.op("GlobalAveragePool", {x})}, {{"axis", 1}});
  b.output(b.gemm(pooled, channels, 1000), "output", DType::kF32, {"N", 1000});
}

std::string stem(OnnxBuilder& b) {
  const auto x = b.input("input", DType::kF32, {"N", 3, 224, 224});
  return b.max_pool(b.relu(b.conv_bn(x, 3, 64, {.kernel = {7, 7}, .strides = {2, 2}, .pads = {3, 3, 3, 3}})), 3, 2, 1);
}

std::string shortcut(OnnxBuilder& b, const std::string& x, int64_t in, int64_t out, int64_t stride) {
  if (in == out && stride == 1) return x;
  return b.conv_bn(x, in, out, {.kernel = {1, 1}, .strides = {stride, stride}});
}

std::string basic_block(OnnxBuilder& b, const std::string& x, int64_t in, int64_t out, int64_t stride) {
  auto y = b.relu(b.conv_bn(x, in, out, {.kernel = {3, 3}, .strides = {stride, stride}, .pads = {1, 1, 1, 1}}));
  y = b.conv_bn(y, out, out, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}});
  return b.relu(b.op("Add", {y, shortcut(b, x, in, out, stride)}));
}

std::string bottleneck(OnnxBuilder& b, const std::string& x, int64_t in, int64_t middle, int64_t stride) {
  auto y = b.relu(b.conv_bn(x, in, middle, {.kernel = {1, 1}}));
  y = b.relu(b.conv_bn(y, middle, middle, {.kernel = {3, 3}, .strides = {stride, stride}, .pads = {1, 1, 1, 1}}));
  y = b.conv_bn(y, middle, 4 * middle, {.kernel = {1, 1}});
  return b.relu(b.op("Add", {y, shortcut(b, x, in, 4 * middle, stride)}));
}

Builder resnet18(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("resnet18", seed);
  auto x = stem(*b);
  int64_t channels = 64;
  for (const int64_t width : {64, 128, 256, 512}) {
    for (int block = 0; block < 2; ++block) {
      x = basic_block(*b, x, channels, width, block == 0 && width != 64 ? 2 : 1);
      channels = width;
    }
  }
  classify(*b, x, channels);
  return b;
}

Builder resnet50(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("resnet50", seed);
  auto x = stem(*b);
  int64_t channels = 64;
  const std::pair<int64_t, int> stages[] = {{64, 3}, {128, 4}, {256, 6}, {512, 3}};
  for (const auto& [width, blocks] : stages) {
    for (int block = 0; block < blocks; ++block) {
      x = bottleneck(*b, x, channels, width, block == 0 && width != 64 ? 2 : 1);
      channels = 4 * width;
    }
  }
  classify(*b, x, channels);
  return b;
}

Builder mobilenet_v2(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("mobilenet_v2", seed);
  const auto zero = b->scalar(0.0f);
  const auto six = b->scalar(6.0f);
  const auto relu6 = [&](const std::string& x) { return b->op("Clip", {x, zero, six}); };
  auto x = b->input("input", DType::kF32, {"N", 3, 224, 224});
  x = relu6(b->conv_bn(x, 3, 32, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}}));
  int64_t channels = 32;
  struct Stage {
    int64_t expansion, width;
    int repeats;
    int64_t stride;
  };
  for (const Stage& stage : {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2}, Stage{6, 96, 3, 1},
                             Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}}) {
    for (int i = 0; i < stage.repeats; ++i) {
      const int64_t stride = i == 0 ? stage.stride : 1;
      const int64_t hidden = channels * stage.expansion;
      auto y = stage.expansion == 1 ? x : relu6(b->conv_bn(x, channels, hidden, {.kernel = {1, 1}}));
      y = relu6(b->conv_bn(y, hidden, hidden, {.kernel = {3, 3}, .strides = {stride, stride}, .pads = {1, 1, 1, 1}, .groups = hidden}));
      y = b->conv_bn(y, hidden, stage.width, {.kernel = {1, 1}});
      x = stride == 1 && channels == stage.width ? b->op("Add", {x, y}) : y;
      channels = stage.width;
    }
  }
  x = relu6(b->conv_bn(x, channels, 1280, {.kernel = {1, 1}}));
  classify(*b, x, 1280);
  return b;
}

// One encoder block, width 64, 4 heads; batch and sequence length symbolic.
Builder transformer_block(uint64_t seed) {
  constexpr int64_t kWidth = 64;
  constexpr int64_t kHeads = 4;
  constexpr int64_t kHead = kWidth / kHeads;
  auto b = std::make_unique<OnnxBuilder>("transformer_block", seed);
  const auto x = b->input("tokens", DType::kF32, {"N", "seq", kWidth});
  const auto normed = b->layer_norm(x, kWidth);
  const auto split_shape = b->ints({0, 0, kHeads, kHead});
  const auto heads = [&](std::vector<int64_t> permutation) {
    return b->op("Transpose", {b->op("Reshape", {b->linear(normed, kWidth, kWidth), split_shape})}, {{"perm", std::move(permutation)}});
  };
  const auto q = heads({0, 2, 1, 3});
  const auto k = heads({0, 2, 3, 1});
  const auto v = heads({0, 2, 1, 3});
  const auto scores = b->op("Mul", {b->op("MatMul", {q, k}), b->scalar(1.0f / std::sqrt(static_cast<float>(kHead)))});
  const auto mixed = b->op("MatMul", {b->op("Softmax", {scores}, {{"axis", -1}}), v});
  const auto merged =
      b->op("Reshape", {b->op("Transpose", {mixed}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}), b->ints({0, 0, kWidth})});
  const auto attended = b->op("Add", {x, b->linear(merged, kWidth, kWidth)});
  // Gelu as PyTorch exports it: 0.5 * h * (1 + erf(h / sqrt(2))).
  const auto h = b->linear(b->layer_norm(attended, kWidth), kWidth, 4 * kWidth);
  const auto erf = b->op("Erf", {b->op("Div", {h, b->scalar(std::sqrt(2.0f))})});
  const auto gelu = b->op("Mul", {b->op("Mul", {h, b->op("Add", {erf, b->scalar(1.0f)})}), b->scalar(0.5f)});
  b->output(b->op("Add", {attended, b->linear(gelu, 4 * kWidth, kWidth)}), "output", DType::kF32, {"N", "seq", kWidth});
  return b;
}

// A custom-domain op between built-in ones; needs the plugin of models/custom_op.
Builder soft_cap(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("soft_cap", seed);
  b->set_opset(1, "example");
  auto x = b->input("input", DType::kF32, {"N", 64});
  x = b->op("SoftCap", {b->gemm(x, 64, 40)}, {{"cap", 1.5}}, "example");
  b->output(b->relu(x), "output", DType::kF32, {"N", 40});
  return b;
}

constexpr Network kNetworks[] = {
    {"sample_cnn", "the demo: conv, batch norm, relu, max pool, residual add, global pool, gemm, softmax on [N,3,32,32]", sample_cnn},
    {"mlp", "784-512-512-10 on [N,784]", mlp},
    {"resnet18", "[N,3,224,224] -> [N,1000]", resnet18},
    {"resnet50", "[N,3,224,224] -> [N,1000]", resnet50},
    {"mobilenet_v2", "[N,3,224,224] -> [N,1000]", mobilenet_v2},
    {"transformer_block", "one encoder block of width 64 with 4 heads on [N,seq,64]", transformer_block},
    {"soft_cap", "gemm, example::SoftCap (models/custom_op), relu on [N,64]", soft_cap},
};

}  // namespace

std::span<const Network> networks() { return kNetworks; }

const Network* find_network(std::string_view name) {
  for (const Network& network : kNetworks) {
    if (network.name == name) return &network;
  }
  return nullptr;
}

}  // namespace aipu::models
