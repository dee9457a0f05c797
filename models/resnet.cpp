// ResNet-18 and ResNet-50.
#include "models/architectures.h"

namespace aipu::models {
namespace {

using Builder = std::unique_ptr<OnnxBuilder>;

// Branches add up: they start small beside what they are added to.
constexpr double kBranchGain = 0.3;

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
  y = b.conv_bn(y, out, out, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}, kBranchGain);
  return b.relu(b.op("Add", {y, shortcut(b, x, in, out, stride)}));
}

std::string bottleneck(OnnxBuilder& b, const std::string& x, int64_t in, int64_t middle, int64_t stride) {
  auto y = b.relu(b.conv_bn(x, in, middle, {.kernel = {1, 1}}));
  y = b.relu(b.conv_bn(y, middle, middle, {.kernel = {3, 3}, .strides = {stride, stride}, .pads = {1, 1, 1, 1}}));
  y = b.conv_bn(y, middle, 4 * middle, {.kernel = {1, 1}}, kBranchGain);
  return b.relu(b.op("Add", {y, shortcut(b, x, in, 4 * middle, stride)}));
}

}  // namespace

Builder build_resnet18(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("resnet18", seed);
  auto x = stem(*b);
  int64_t channels = 64;
  for (const int64_t width : {64, 128, 256, 512}) {
    for (int block = 0; block < 2; ++block) {
      x = basic_block(*b, x, channels, width, block == 0 && width != 64 ? 2 : 1);
      channels = width;
    }
  }
  add_classifier(*b, x, channels);
  return b;
}

Builder build_resnet50(uint64_t seed) {
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
  add_classifier(*b, x, channels);
  return b;
}

}  // namespace aipu::models
