// Decoders of language models as ONNX Runtime's model builder writes them: weights of 4 bits in blocks, RMS norms,
// GroupQueryAttention with rotary positions and the keys and values so far as inputs and outputs, SwiGLU. One file for
// the prompt (no past) and each step behind it.
#include <cmath>
#include <string>

#include "models/architectures.h"

namespace aipu::models {
namespace {

using Builder = std::unique_ptr<OnnxBuilder>;

constexpr const char* kMicrosoft = "com.microsoft";
constexpr int64_t kBlock = 32;

struct DecoderSize {
  int64_t layers, width, heads, key_heads, head, hidden, vocabulary, context;
};

class Decoder {
 public:
  Decoder(const char* name, const DecoderSize& size, uint64_t seed)
      : size_(size), random_(seed), builder_(std::make_unique<OnnxBuilder>(name, seed)), b_(*builder_) {
    b_.set_opset(1, kMicrosoft);
  }

  Builder build() {
    const auto ids = b_.input("input_ids", DType::kI64, {"N", "seq"});
    const auto mask = b_.input("attention_mask", DType::kI64, {"N", "total"});
    const auto count = b_.op("ReduceSum", {mask, b_.ints({1})}, {{"keepdims", 0}});
    const auto one = b_.initializer(TensorData::i64({}, {1}));
    lengths_ = b_.op("Cast", {b_.op("Sub", {count, one})}, {{"to", kInt32}});
    const auto total = b_.op("Gather", {b_.op("Shape", {mask}), one}, {{"axis", 0}});
    total_ = b_.op("Cast", {total}, {{"to", kInt32}});
    make_turns();

    const Quantized table = quantized(size_.vocabulary, size_.width, 1.0);
    auto x = b_.op("GatherBlockQuantized", {flat(table, size_.vocabulary), ids, table.scales},
                   {{"bits", 4}, {"block_size", kBlock}, {"gather_axis", 0}, {"quantize_axis", 1}}, kMicrosoft);
    for (int64_t layer = 0; layer < size_.layers; ++layer) {
      x = b_.op("Add", {x, attention(norm(x), layer)});
      x = b_.op("Add", {x, feed_forward(norm(x))});
    }
    b_.output(linear(norm(x), size_.width, size_.vocabulary, 1.0), "logits", DType::kF32,
              {"N", "seq", size_.vocabulary});
    return std::move(builder_);
  }

 private:
  static constexpr int64_t kInt32 = 6;
  static constexpr double kBranchGain = 0.5;  // what is added to the residual stream

  // Rows of codes as MatMulNBits has them.
  struct Quantized {
    TensorData codes;
    std::string scales;
  };

  // Codes of -8 to 7 are uniform; their root mean square is 4.6.
  Quantized quantized(int64_t rows, int64_t depth, double deviation) {
    const int64_t blocks = depth / kBlock;
    std::vector<uint8_t> codes(static_cast<size_t>(rows * depth / 2));
    for (size_t at = 0; at < codes.size();) {
      for (uint64_t bits = random_(), k = 0; k < 8 && at < codes.size(); ++k, bits >>= 8)
        codes[at++] = static_cast<uint8_t>(bits);
    }
    std::vector<float> scales(static_cast<size_t>(rows * blocks));
    for (float& scale : scales)
      scale = static_cast<float>(deviation / 4.6 * (0.75 + 0.5 * static_cast<double>(random_() >> 40) / (1 << 24)));
    return {TensorData::of(DType::kU8, {rows, blocks, kBlock / 2}, codes),
            b_.initializer(TensorData::f32({rows, blocks}, scales))};
  }

  std::string flat(const Quantized& table, int64_t rows) {
    TensorData codes = table.codes;
    codes.shape = {rows, codes.shape[1] * codes.shape[2]};
    return b_.initializer(codes);
  }

  std::string linear(const std::string& x, int64_t depth, int64_t columns, double gain) {
    const Quantized weights = quantized(columns, depth, gain / std::sqrt(static_cast<double>(depth)));
    return b_.op("MatMulNBits", {x, b_.initializer(weights.codes), weights.scales},
                 {{"K", depth}, {"N", columns}, {"bits", 4}, {"block_size", kBlock}}, kMicrosoft);
  }

  std::string norm(const std::string& x) {
    const std::vector<float> ones(static_cast<size_t>(size_.width), 1.0f);
    return b_.op("SimplifiedLayerNormalization", {x, b_.initializer(TensorData::f32({size_.width}, ones))},
                 {{"axis", -1}, {"epsilon", 1e-5}, {"stash_type", 1}});
  }

  // Of each position, cosine and sine of the angles that pairs of channels are turned by.
  void make_turns() {
    const int64_t half = size_.head / 2;
    std::vector<float> cosine, sine;
    for (int64_t position = 0; position < size_.context; ++position) {
      for (int64_t pair = 0; pair < half; ++pair) {
        const double angle =
            static_cast<double>(position) * std::pow(500000.0, -static_cast<double>(pair) / static_cast<double>(half));
        cosine.push_back(static_cast<float>(std::cos(angle)));
        sine.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    cosine_ = b_.initializer(TensorData::f32({size_.context, half}, cosine));
    sine_ = b_.initializer(TensorData::f32({size_.context, half}, sine));
  }

  std::string attention(const std::string& x, int64_t layer) {
    const auto cache = [&](const char* kind) {
      return b_.input("past_key_values." + std::to_string(layer) + kind, DType::kF32,
                      {"N", size_.key_heads, "past", size_.head});
    };
    const auto past_key = cache(".key"), past_value = cache(".value");
    const auto query = linear(x, size_.width, size_.heads * size_.head, 1.0);
    const auto key = linear(x, size_.width, size_.key_heads * size_.head, 1.0);
    const auto value = linear(x, size_.width, size_.key_heads * size_.head, 1.0);
    const auto results =
        b_.node("GroupQueryAttention", {query, key, value, past_key, past_value, lengths_, total_, cosine_, sine_},
                {{"num_heads", size_.heads}, {"kv_num_heads", size_.key_heads}, {"do_rotary", 1}}, 3, kMicrosoft);
    const auto present = [&](size_t i, const char* kind) {
      b_.output(results[i], "present." + std::to_string(layer) + kind, DType::kF32,
                {"N", size_.key_heads, "total", size_.head});
    };
    present(1, ".key");
    present(2, ".value");
    return linear(results[0], size_.heads * size_.head, size_.width, kBranchGain);
  }

  std::string feed_forward(const std::string& x) {
    const auto gate = linear(x, size_.width, size_.hidden, 1.0);
    const auto up = linear(x, size_.width, size_.hidden, 1.0);
    const auto swish = b_.op("Mul", {gate, b_.op("Sigmoid", {gate})});
    return linear(b_.op("Mul", {swish, up}), size_.hidden, size_.width, kBranchGain);
  }

  DecoderSize size_;
  std::mt19937_64 random_;
  Builder builder_;
  OnnxBuilder& b_;
  std::string lengths_, total_, cosine_, sine_;
};

}  // namespace

// Four layers of a decoder with a thousand million parameters in sixteen.
Builder build_decoder_1b_4l(uint64_t seed) {
  const DecoderSize size{.layers = 4,
                         .width = 2048,
                         .heads = 32,
                         .key_heads = 8,
                         .head = 64,
                         .hidden = 8192,
                         .vocabulary = 32000,
                         .context = 2048};
  return Decoder("decoder_1b_4l", size, seed).build();
}

// The same in small.
Builder build_decoder_small(uint64_t seed) {
  const DecoderSize size{.layers = 4,
                         .width = 128,
                         .heads = 4,
                         .key_heads = 2,
                         .head = 32,
                         .hidden = 320,
                         .vocabulary = 500,
                         .context = 256};
  return Decoder("decoder_small", size, seed).build();
}

}  // namespace aipu::models
