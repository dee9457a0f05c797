// ViT-Tiny/16, BERT-base (2 and 12 layers), and a stack of GPT-2-small decoder blocks, written out as exporters write
// them: LayerNormalization and Gelu in pieces where the export predates the fused ops, shapes through
// Shape/Gather/Concat, heads by Reshape and Transpose.
#include <cmath>

#include "models/architectures.h"

namespace aipu::models {
namespace {

using Builder = std::unique_ptr<OnnxBuilder>;

constexpr double kBranchGain = 0.5;  // what is added to the residual stream

// 0.5 * x * (1 + erf(x / sqrt(2))).
std::string gelu_erf(OnnxBuilder& b, const std::string& x) {
  const auto erf = b.op("Erf", {b.op("Div", {x, b.scalar(std::sqrt(2.0f))})});
  return b.op("Mul", {b.op("Mul", {x, b.op("Add", {erf, b.scalar(1.0f)})}), b.scalar(0.5f)});
}

// 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
std::string gelu_tanh(OnnxBuilder& b, const std::string& x) {
  const auto half = b.op("Mul", {x, b.scalar(0.5f)});
  const auto cube = b.op("Mul", {b.op("Pow", {x, b.scalar(3.0f)}), b.scalar(0.044715f)});
  const auto inner = b.op("Mul", {b.op("Add", {x, cube}), b.scalar(0.7978845608f)});
  return b.op("Mul", {half, b.op("Add", {b.op("Tanh", {inner}), b.scalar(1.0f)})});
}

// LayerNorm as opset < 17 has it.
std::string layer_norm_in_pieces(OnnxBuilder& b, const std::string& x, int64_t features) {
  const auto mean = [&](const std::string& v) { return b.op("ReduceMean", {v}, {{"axes", std::vector<int64_t>{-1}}}); };
  const auto centred = b.op("Sub", {x, mean(x)});
  const auto variance = mean(b.op("Pow", {centred, b.scalar(2.0f)}));
  const auto deviation = b.op("Sqrt", {b.op("Add", {variance, b.scalar(1e-12f)})});
  const auto ones = TensorData::f32({features}, std::vector<float>(static_cast<size_t>(features), 1.0f));
  const auto scaled = b.op("Mul", {b.op("Div", {centred, deviation}), b.initializer(ones)});
  return b.op("Add", {scaled, b.weight({features}, 0.02, "ln_bias")});
}

Builder bert(const std::string& name, int layers, uint64_t seed) {
  constexpr int64_t kWidth = 768;
  constexpr int64_t kHeads = 12;
  constexpr int64_t kHead = kWidth / kHeads;
  auto builder = std::make_unique<OnnxBuilder>(name, seed);
  OnnxBuilder& b = *builder;
  b.set_opset(13);
  const auto ids = b.input("input_ids", DType::kI64, {"N", "seq"});
  const auto attention_mask = b.input("attention_mask", DType::kI64, {"N", "seq"});
  const auto segments = b.input("token_type_ids", DType::kI64, {"N", "seq"});
  // (1 - mask) * lowest, [N,1,1,seq].
  const auto wide = b.op("Unsqueeze", {b.op("Unsqueeze", {attention_mask, b.ints({1})}), b.ints({2})});
  const auto as_float = b.op("Cast", {wide}, {{"to", 1}});
  const auto mask = b.op("Mul", {b.op("Sub", {b.scalar(1.0f), as_float}), b.scalar(-10000.0f)});

  const auto positions = b.op("Slice", {b.initializer([] {
                                          std::vector<int64_t> counting(512);
                                          for (size_t i = 0; i < counting.size(); ++i)
                                            counting[i] = static_cast<int64_t>(i);
                                          return TensorData::i64({1, 512}, counting);
                                        }()),
                                        b.ints({0}), b.extent(ids, 1), b.ints({1}), b.ints({1})});
  const auto words = b.op("Gather", {b.weight({30522, kWidth}, 0.6), ids});
  const auto embedded = b.op("Add", {words, b.op("Gather", {b.weight({2, kWidth}, 0.3), segments})});
  const auto placed = b.op("Add", {embedded, b.op("Gather", {b.weight({512, kWidth}, 0.3), positions})});
  auto x = layer_norm_in_pieces(b, placed, kWidth);
  const auto split_heads = [&](const std::string& v, std::vector<int64_t> permutation) {
    return b.transpose(b.reshape(v, {b.extent(v, 0), b.extent(v, 1), kHeads, kHead}), std::move(permutation));
  };
  for (int layer = 0; layer < layers; ++layer) {
    const auto q = split_heads(b.linear(x, kWidth, kWidth, 1.5), {0, 2, 1, 3});
    const auto k = split_heads(b.linear(x, kWidth, kWidth, 1.5), {0, 2, 3, 1});
    const auto v = split_heads(b.linear(x, kWidth, kWidth), {0, 2, 1, 3});
    const auto scores = b.op("Div", {b.op("MatMul", {q, k}), b.scalar(std::sqrt(static_cast<float>(kHead)))});
    const auto weights = b.op("Softmax", {b.op("Add", {scores, mask})}, {{"axis", -1}});
    const auto mixed = b.transpose(b.op("MatMul", {weights, v}), {0, 2, 1, 3});
    const auto merged = b.reshape(mixed, {b.extent(mixed, 0), b.extent(mixed, 1), kWidth});
    const auto attended = layer_norm_in_pieces(b, b.op("Add", {b.linear(merged, kWidth, kWidth), x}), kWidth);
    const auto hidden = gelu_erf(b, b.linear(attended, kWidth, 4 * kWidth));
    x = layer_norm_in_pieces(b, b.op("Add", {b.linear(hidden, 4 * kWidth, kWidth), attended}), kWidth);
  }
  b.output(x, "last_hidden_state", DType::kF32, {"N", "seq", kWidth});
  const auto first = b.op("Gather", {x, b.initializer(TensorData::i64({}, {0}))}, {{"axis", 1}});
  b.output(b.op("Tanh", {b.gemm(first, kWidth, kWidth)}), "pooler_output", DType::kF32, {"N", kWidth});
  return builder;
}

}  // namespace

Builder build_bert2(uint64_t seed) { return bert("bert2", 2, seed); }
Builder build_bert12(uint64_t seed) { return bert("bert12", 12, seed); }

Builder build_vit_tiny16(uint64_t seed) {
  constexpr int64_t kWidth = 192;
  constexpr int64_t kHeads = 3;
  constexpr int64_t kHead = kWidth / kHeads;
  constexpr int64_t kPatches = 14 * 14;
  auto builder = std::make_unique<OnnxBuilder>("vit_tiny16", seed);
  OnnxBuilder& b = *builder;
  const auto image = b.input("input", DType::kF32, {"N", 3, 224, 224});
  const auto patches = b.conv(image, 3, kWidth, {.kernel = {16, 16}, .strides = {16, 16}, .gain = 1.0});
  const auto n = b.extent(patches, 0);
  const auto sequence = b.transpose(b.reshape(patches, {n, kWidth, int64_t{-1}}), {0, 2, 1});
  const auto class_token =
      b.op("Expand", {b.weight({1, 1, kWidth}, 0.5), b.op("Concat", {n, b.ints({1}), b.ints({1})}, {{"axis", 0}})});
  auto x = b.op("Concat", {class_token, sequence}, {{"axis", 1}});
  x = b.op("Add", {x, b.weight({1, kPatches + 1, kWidth}, 0.3, "position")});
  for (int layer = 0; layer < 12; ++layer) {
    const auto normed = b.layer_norm(x, kWidth);
    const auto qkv = b.reshape(b.linear(normed, kWidth, 3 * kWidth, 1.2), {n, kPatches + 1, int64_t{3}, kHeads, kHead});
    const auto parts = b.node("Split", {b.transpose(qkv, {2, 0, 3, 1, 4}), b.ints({1, 1, 1})}, {{"axis", 0}}, 3);
    const auto part = [&](size_t i) { return b.op("Squeeze", {parts[i], b.ints({0})}); };
    const auto q = part(0);
    const auto k = part(1);
    const auto v = part(2);
    const auto scores = b.op("MatMul", {b.op("Mul", {q, b.scalar(1.0f / std::sqrt(static_cast<float>(kHead)))}),
                                        b.transpose(k, {0, 1, 3, 2})});
    const auto mixed = b.op("MatMul", {b.op("Softmax", {scores}, {{"axis", -1}}), v});
    const auto merged = b.reshape(b.transpose(mixed, {0, 2, 1, 3}), {n, kPatches + 1, kWidth});
    x = b.op("Add", {x, b.linear(merged, kWidth, kWidth, kBranchGain)});
    const auto hidden = gelu_erf(b, b.linear(b.layer_norm(x, kWidth), kWidth, 4 * kWidth));
    x = b.op("Add", {x, b.linear(hidden, 4 * kWidth, kWidth, kBranchGain)});
  }
  const auto normed = b.layer_norm(x, kWidth);
  const auto first = b.op("Gather", {normed, b.initializer(TensorData::i64({}, {0}))}, {{"axis", 1}});
  b.output(b.gemm(first, kWidth, 1000), "output", DType::kF32, {"N", 1000});
  return builder;
}

// Six blocks between the embedding and the last normalisation, without the vocabulary projection; the causal mask is a
// slice of a constant.
Builder build_gpt2_6l(uint64_t seed) {
  constexpr int64_t kWidth = 768;
  constexpr int64_t kHeads = 12;
  constexpr int64_t kHead = kWidth / kHeads;
  constexpr int64_t kContext = 1024;
  auto builder = std::make_unique<OnnxBuilder>("gpt2_6l", seed);
  OnnxBuilder& b = *builder;
  const auto ids = b.input("input_ids", DType::kI64, {"N", "seq"});
  const auto length = b.extent(ids, 1);
  const auto zero = b.initializer(TensorData::i64({}, {0}));
  const auto one = b.initializer(TensorData::i64({}, {1}));
  const auto count = b.op("Squeeze", {length, b.ints({0})});
  const auto positions = b.op("Unsqueeze", {b.op("Range", {zero, count, one}), b.ints({0})});
  const auto words = b.op("Gather", {b.weight({50257, kWidth}, 0.8), ids});
  auto x = b.op("Add", {words, b.op("Gather", {b.weight({kContext, kWidth}, 0.4), positions})});
  std::vector<uint8_t> lower(static_cast<size_t>(kContext * kContext));
  for (int64_t row = 0; row < kContext; ++row) {
    for (int64_t column = 0; column <= row; ++column) lower[static_cast<size_t>(row * kContext + column)] = 1;
  }
  const auto triangle = b.initializer(TensorData::of(DType::kBool, {1, 1, kContext, kContext}, lower));
  const auto rows = b.op("Slice", {triangle, b.ints({0}), length, b.ints({2}), b.ints({1})});
  const auto causal = b.op("Slice", {rows, b.ints({0}), length, b.ints({3}), b.ints({1})});
  // GPT-2's "Conv1D": a Gemm on the tokens as rows.
  const auto dense = [&](const std::string& v, int64_t in, int64_t out, double gain) {
    const auto flat = b.reshape(v, {int64_t{-1}, in});
    const auto w = b.weight({in, out}, gain / std::sqrt(static_cast<double>(in)));
    const auto y = b.op("Gemm", {flat, w, b.weight({out}, 0.02, "b")});
    return b.reshape(y, {b.extent(v, 0), b.extent(v, 1), out});
  };
  const auto split_heads = [&](const std::string& v, std::vector<int64_t> permutation) {
    return b.transpose(b.reshape(v, {b.extent(v, 0), b.extent(v, 1), kHeads, kHead}), std::move(permutation));
  };
  for (int layer = 0; layer < 6; ++layer) {
    const auto qkv = dense(b.layer_norm(x, kWidth), kWidth, 3 * kWidth, 1.2);
    const auto parts = b.node("Split", {qkv, b.ints({kWidth, kWidth, kWidth})}, {{"axis", 2}}, 3);
    const auto q = split_heads(parts[0], {0, 2, 1, 3});
    const auto k = split_heads(parts[1], {0, 2, 3, 1});
    const auto v = split_heads(parts[2], {0, 2, 1, 3});
    const auto scores = b.op("Div", {b.op("MatMul", {q, k}), b.scalar(std::sqrt(static_cast<float>(kHead)))});
    const auto masked = b.op("Where", {causal, scores, b.scalar(-3.4028234663852886e38f)});
    const auto mixed = b.transpose(b.op("MatMul", {b.op("Softmax", {masked}, {{"axis", -1}}), v}), {0, 2, 1, 3});
    const auto merged = b.reshape(mixed, {b.extent(mixed, 0), b.extent(mixed, 1), kWidth});
    x = b.op("Add", {dense(merged, kWidth, kWidth, kBranchGain), x});
    const auto hidden = gelu_tanh(b, dense(b.layer_norm(x, kWidth), kWidth, 4 * kWidth, 1.0));
    x = b.op("Add", {x, dense(hidden, 4 * kWidth, kWidth, kBranchGain)});
  }
  b.output(b.layer_norm(x, kWidth), "hidden_states", DType::kF32, {"N", "seq", kWidth});
  return builder;
}

}  // namespace aipu::models
