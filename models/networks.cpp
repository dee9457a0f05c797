#include "models/networks.h"

#include <cmath>

#include "models/architectures.h"

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
    return b->op("Transpose", {b->op("Reshape", {b->linear(normed, kWidth, kWidth), split_shape})},
                 {{"perm", std::move(permutation)}});
  };
  const auto q = heads({0, 2, 1, 3});
  const auto k = heads({0, 2, 3, 1});
  const auto v = heads({0, 2, 1, 3});
  const auto scores = b->op("Mul", {b->op("MatMul", {q, k}), b->scalar(1.0f / std::sqrt(static_cast<float>(kHead)))});
  const auto mixed = b->op("MatMul", {b->op("Softmax", {scores}, {{"axis", -1}}), v});
  const auto merged = b->op(
      "Reshape", {b->op("Transpose", {mixed}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}), b->ints({0, 0, kWidth})});
  const auto attended = b->op("Add", {x, b->linear(merged, kWidth, kWidth)});
  // Gelu as PyTorch exports it: 0.5 * h * (1 + erf(h / sqrt(2))).
  const auto h = b->linear(b->layer_norm(attended, kWidth), kWidth, 4 * kWidth);
  const auto erf = b->op("Erf", {b->op("Div", {h, b->scalar(std::sqrt(2.0f))})});
  const auto gelu = b->op("Mul", {b->op("Mul", {h, b->op("Add", {erf, b->scalar(1.0f)})}), b->scalar(0.5f)});
  b->output(b->op("Add", {attended, b->linear(gelu, 4 * kWidth, kWidth)}), "output", DType::kF32, {"N", "seq", kWidth});
  return b;
}

constexpr Network kNetworks[] = {
    {"sample_cnn",
     "the demo: conv, batch norm, relu, max pool, residual add, global pool, gemm, softmax on [N,3,32,32]", sample_cnn},
    {"mlp", "784-512-512-10 on [N,784]", mlp},
    {"alexnet", "with response normalisation; [N,3,224,224] -> [N,1000]", build_alexnet},
    {"vgg19", "[N,3,224,224] -> [N,1000]", build_vgg19},
    {"inception_v1", "GoogLeNet with response normalisation; [N,3,224,224] -> [N,1000]", build_inception_v1},
    {"densenet121", "[N,3,224,224] -> [N,1000]", build_densenet121},
    {"squeezenet", "1.1; [N,3,224,224] -> [N,1000]", build_squeezenet},
    {"resnet18", "[N,3,224,224] -> [N,1000]", build_resnet18},
    {"resnet50", "[N,3,224,224] -> [N,1000]", build_resnet50},
    {"resnet18_int8", "QDQ, uint8 activations, int8 weights per channel; [N,3,224,224] -> [N,1000]",
     build_resnet18_int8},
    {"shufflenet", "v1, four groups; [N,3,224,224] -> [N,1000]", build_shufflenet},
    {"mobilenet_v2", "[N,3,224,224] -> [N,1000]", build_mobilenet_v2},
    {"mobilenet_v3_large", "[N,3,224,224] -> [N,1000]", build_mobilenet_v3_large},
    {"efficientnet_b0", "[N,3,224,224] -> [N,1000]", build_efficientnet_b0},
    {"yolo_v5n", "detector with decoding; [N,3,640,640] -> [N,25200,85]", build_yolo_v5n},
    {"vit_tiny16", "[N,3,224,224] -> [N,1000]", build_vit_tiny16},
    {"bert2", "BERT-base with 2 layers; ids, mask, segments [N,seq] -> [N,seq,768], [N,768]", build_bert2},
    {"bert12", "BERT-base; ids, mask, segments [N,seq] -> [N,seq,768], [N,768]", build_bert12},
    {"gpt2_6l", "six GPT-2-small decoder blocks; ids [N,seq] -> [N,seq,768]", build_gpt2_6l},
    {"decoder_1b_4l",
     "four layers of a decoder of a thousand million parameters, weights of 4 bits; ids, mask, caches -> logits, "
     "caches",
     build_decoder_1b_4l, false, true},
    {"decoder_small", "the same of width 128", build_decoder_small},
    {"lstm_acoustic", "three LSTM layers of 512; [N,frames,80] -> [N,frames,2000]", build_lstm_acoustic},
    {"transformer_block", "one encoder block of width 64 with 4 heads on [N,seq,64]", transformer_block},
    {"soft_cap", "gemm, example::SoftCap (models/custom_op, libaipu_sample_plugin.so), relu on [N,64]", build_soft_cap,
     true},
    {"hard_shrink", "gemm, example::HardShrink (models/custom_op/hard_shrink.py), gemm on [N,64]", build_hard_shrink,
     true},
    {"blend", "conv, example::Blend (models/custom_op/blend.py), HardSwish, conv on [N,3,32,32]", build_blend, true},
    {"unit_rows", "linear, example::UnitRows (models/custom_op/unit_rows.py) on [N,seq,64]", build_unit_rows, true},
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
