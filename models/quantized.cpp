// ResNet-18 with QuantizeLinear / DequantizeLinear pairs around every op, as static quantisers write it: activations
// uint8 per tensor, weights int8 per output channel, biases int32 in the product of the scales, BatchNormalization
// folded beforehand.
#include <algorithm>
#include <cmath>

#include "models/architectures.h"

namespace aipu::models {
namespace {

// A value as its quantised form, and the mean square of what it stands for, from which scales follow: there is no
// calibration data.
struct Quantized {
  std::string value;  // float, behind DequantizeLinear
  std::string scale;
  double scale_value = 1;
  double mean_square = 1;
};

class Resnet {
 public:
  explicit Resnet(uint64_t seed)
      : builder_(std::make_unique<OnnxBuilder>("resnet18_int8", seed)), b_(*builder_), random_(seed) {
    b_.set_opset(13);
  }

  std::unique_ptr<OnnxBuilder> build() {
    auto x = quantize(b_.input("input", DType::kF32, {"N", 3, 224, 224}), 1.0 / 3, true);
    x = conv_relu(x, 3, 64, 7, 2);
    x = quantize(b_.max_pool(x.value, 3, 2, 1), 2 * x.mean_square, false);
    int64_t channels = 64;
    for (const int64_t width : {64, 128, 256, 512}) {
      for (int block = 0; block < 2; ++block) {
        x = basic_block(x, channels, width, block == 0 && width != 64 ? 2 : 1);
        channels = width;
      }
    }
    const auto pooled = quantize(b_.op("GlobalAveragePool", {x.value}), x.mean_square / 2, false);
    const auto flat = quantize(b_.op("Flatten", {pooled.value}, {{"axis", 1}}), pooled.mean_square, false);
    const auto [w, scales] = weights({1000, 512}, 1 / std::sqrt(512 * flat.mean_square));
    const auto logits = b_.op("Gemm", {flat.value, w, bias(1000, flat.scale_value, scales)}, {{"transB", 1}});
    b_.output(quantize(logits, 1.0, true).value, "output", DType::kF32, {"N", 1000});
    return std::move(builder_);
  }

 private:
  Quantized quantize(const std::string& x, double mean_square, bool is_signed) {
    const double largest = 4.5 * std::sqrt(mean_square);
    Quantized result;
    result.mean_square = mean_square;
    result.scale_value = static_cast<float>(is_signed ? 2 * largest / 255 : largest / 255);
    result.scale = b_.scalar(static_cast<float>(result.scale_value));
    const auto zero =
        b_.initializer(TensorData::of<uint8_t>(DType::kU8, {}, {static_cast<uint8_t>(is_signed ? 128 : 0)}));
    result.value = b_.op("DequantizeLinear", {b_.op("QuantizeLinear", {x, result.scale, zero}), result.scale, zero});
    return result;
  }

  double uniform() { return static_cast<double>(random_() >> 11) / 9007199254740992.0; }

  // Symmetric int8 per output channel: the largest weight of a channel is at 127.
  std::pair<std::string, std::vector<float>> weights(std::vector<int64_t> shape, double deviation) {
    const int64_t channels = shape[0];
    int64_t per_channel = 1;
    for (size_t i = 1; i < shape.size(); ++i) per_channel *= shape[i];
    std::vector<int8_t> elements;
    std::vector<float> scales;
    for (int64_t c = 0; c < channels; ++c) {
      // The sum of three uniform numbers: deviation 0.5, largest value 1.5.
      scales.push_back(static_cast<float>(deviation * (0.8 + 0.4 * uniform()) * 3 / 127));
      for (int64_t i = 0; i < per_channel; ++i) {
        const double normal = uniform() + uniform() + uniform() - 1.5;
        elements.push_back(static_cast<int8_t>(std::lround(normal / 1.5 * 127)));
      }
    }
    const auto stored = b_.initializer(TensorData::of(DType::kI8, std::move(shape), elements));
    return {
        dequantize_per_channel(
            stored, TensorData::of(DType::kI8, {channels}, std::vector<int8_t>(static_cast<size_t>(channels))), scales),
        scales};
  }

  std::string bias(int64_t channels, double input_scale, const std::vector<float>& weight_scales) {
    std::vector<int32_t> elements;
    std::vector<float> scales;
    for (const float scale : weight_scales) {
      scales.push_back(static_cast<float>(input_scale) * scale);
      elements.push_back(static_cast<int32_t>(std::lround((uniform() - 0.5) * 0.2 / scales.back())));
    }
    const auto zeros = TensorData::of(DType::kI32, {channels}, std::vector<int32_t>(static_cast<size_t>(channels)));
    return dequantize_per_channel(b_.initializer(TensorData::of(DType::kI32, {channels}, elements)), zeros, scales);
  }

  std::string dequantize_per_channel(const std::string& stored, const TensorData& zeros,
                                     const std::vector<float>& scales) {
    const auto scale = b_.initializer(TensorData::f32({static_cast<int64_t>(scales.size())}, scales));
    return b_.op("DequantizeLinear", {stored, scale, b_.initializer(zeros)}, {{"axis", 0}});
  }

  // Mean square `target` at the output.
  std::string conv(const Quantized& x, int64_t in, int64_t out, int64_t kernel, int64_t stride, double target) {
    const int64_t pad = kernel / 2;
    const double fan_in = static_cast<double>(in * kernel * kernel);
    const auto [w, scales] = weights({out, in, kernel, kernel}, std::sqrt(target / (fan_in * x.mean_square)));
    return b_.op("Conv", {x.value, w, bias(out, x.scale_value, scales)},
                 {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                  {"strides", std::vector<int64_t>{stride, stride}},
                  {"pads", std::vector<int64_t>{pad, pad, pad, pad}},
                  {"dilations", std::vector<int64_t>{1, 1}},
                  {"group", 1}});
  }

  Quantized conv_relu(const Quantized& x, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    return quantize(b_.relu(conv(x, in, out, kernel, stride, 1.0)), 0.5, false);
  }

  Quantized basic_block(const Quantized& x, int64_t in, int64_t out, int64_t stride) {
    const auto inner = conv_relu(x, in, out, 3, stride);
    const auto branch = quantize(conv(inner, out, out, 3, 1, 0.25), 0.25, true);
    Quantized shortcut = x;
    if (in != out) shortcut = quantize(conv(x, in, out, 1, stride, 1.0), 1.0, true);
    const double sum = 0.25 + shortcut.mean_square;
    return quantize(b_.relu(b_.op("Add", {branch.value, shortcut.value})), in != out ? sum / 2 : sum * 0.9, false);
  }

  std::unique_ptr<OnnxBuilder> builder_;
  OnnxBuilder& b_;
  std::mt19937_64 random_;
};

}  // namespace

std::unique_ptr<OnnxBuilder> build_resnet18_int8(uint64_t seed) { return Resnet(seed).build(); }

}  // namespace aipu::models
