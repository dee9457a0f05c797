// A YOLO-v5n-like detector: CSP backbone and path aggregation of SiLU convolutions, three anchor heads with their
// decoding.
#include "models/architectures.h"

namespace aipu::models {
namespace {

class Yolo {
 public:
  explicit Yolo(uint64_t seed) : builder_(std::make_unique<OnnxBuilder>("yolo_v5n", seed)), b_(*builder_) {}

  std::unique_ptr<OnnxBuilder> build() {
    const auto image = b_.input("images", DType::kF32, {"N", 3, 640, 640});
    auto x = conv(image, 3, 16, 6, 2, 2);
    x = csp(conv(x, 16, 32, 3, 2), 32, 32, 1, true);
    const auto p3 = csp(conv(x, 32, 64, 3, 2), 64, 64, 2, true);
    const auto p4 = csp(conv(p3, 64, 128, 3, 2), 128, 128, 3, true);
    const auto p5 = pooling_pyramid(csp(conv(p4, 128, 256, 3, 2), 256, 256, 1, true), 256);
    const auto top = conv(p5, 256, 128, 1, 1);
    const auto middle = conv(csp(concat({upsample(top), p4}), 256, 128, 1, false), 128, 64, 1, 1);
    const auto small = csp(concat({upsample(middle), p3}), 128, 64, 1, false);
    const auto medium = csp(concat({conv(small, 64, 64, 3, 2), middle}), 128, 128, 1, false);
    const auto large = csp(concat({conv(medium, 128, 128, 3, 2), top}), 256, 256, 1, false);
    const std::vector<std::string> boxes{detect(small, 64, 8, {10, 13, 16, 30, 33, 23}),
                                         detect(medium, 128, 16, {30, 61, 62, 45, 59, 119}),
                                         detect(large, 256, 32, {116, 90, 156, 198, 373, 326})};
    b_.output(b_.op("Concat", boxes, {{"axis", 1}}), "output0", DType::kF32, {"N", 25200, kValues});
    return std::move(builder_);
  }

 private:
  static constexpr int64_t kValues = 85;  // box, objectness, 80 classes

  std::string silu(const std::string& x) { return b_.op("Mul", {x, b_.op("Sigmoid", {x})}); }
  std::string concat(const std::vector<std::string>& parts) { return b_.op("Concat", parts, {{"axis", 1}}); }

  std::string conv(const std::string& x, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t pad = -1) {
    if (pad < 0) pad = kernel / 2;
    return silu(
        b_.conv(x, in, out,
                {.kernel = {kernel, kernel}, .strides = {stride, stride}, .pads = {pad, pad, pad, pad}, .gain = 1.6}));
  }

  // Two branches of half the width, one through `repeats` bottlenecks, side by side into a 1x1.
  std::string csp(const std::string& x, int64_t in, int64_t out, int repeats, bool add) {
    const int64_t half = out / 2;
    auto y = conv(x, in, half, 1, 1);
    for (int i = 0; i < repeats; ++i) {
      const auto z = conv(conv(y, half, half, 1, 1), half, half, 3, 1);
      y = add ? b_.op("Add", {y, z}) : z;
    }
    return conv(concat({y, conv(x, in, half, 1, 1)}), out, out, 1, 1);
  }

  std::string pooling_pyramid(const std::string& x, int64_t channels) {
    const auto thin = conv(x, channels, channels / 2, 1, 1);
    const auto once = b_.max_pool(thin, 5, 1, 2);
    const auto twice = b_.max_pool(once, 5, 1, 2);
    return conv(concat({thin, once, twice, b_.max_pool(twice, 5, 1, 2)}), channels * 2, channels, 1, 1);
  }

  std::string upsample(const std::string& x) {
    const auto scales = b_.initializer(TensorData::f32({4}, {1, 1, 2, 2}));
    return b_.op("Resize", {x, "", scales},
                 {{"coordinate_transformation_mode", "asymmetric"}, {"mode", "nearest"}, {"nearest_mode", "floor"}});
  }

  // [N,C,H,W] -> [N,3*H*W,85]: boxes in pixels, objectness, classes.
  std::string detect(const std::string& x, int64_t channels, int64_t stride, const std::vector<float>& anchors) {
    const int64_t cells = 640 / stride;
    const auto raw = b_.conv(x, channels, 3 * kValues, {.kernel = {1, 1}, .gain = 1.0});
    const auto n = b_.extent(raw, 0);
    const auto split = b_.reshape(raw, {n, int64_t{3}, kValues, cells, cells});
    const auto sigmoid = b_.op("Sigmoid", {b_.transpose(split, {0, 1, 3, 4, 2})});
    const auto parts = b_.node("Split", {sigmoid, b_.ints({2, 2, 81})}, {{"axis", 4}}, 3);
    std::vector<float> grid;
    std::vector<float> sizes;
    for (size_t anchor = 0; anchor < 3; ++anchor) {
      for (int64_t row = 0; row < cells; ++row) {
        for (int64_t column = 0; column < cells; ++column) {
          grid.push_back(static_cast<float>(column) - 0.5f);
          grid.push_back(static_cast<float>(row) - 0.5f);
          sizes.push_back(anchors[2 * anchor]);
          sizes.push_back(anchors[2 * anchor + 1]);
        }
      }
    }
    const std::vector<int64_t> shape{1, 3, cells, cells, 2};
    const auto doubled = b_.op("Mul", {parts[0], b_.scalar(2.0f)});
    const auto moved = b_.op("Add", {doubled, b_.initializer(TensorData::f32(shape, grid))});
    const auto centre = b_.op("Mul", {moved, b_.scalar(static_cast<float>(stride))});
    const auto squared = b_.op("Pow", {b_.op("Mul", {parts[1], b_.scalar(2.0f)}), b_.scalar(2.0f)});
    const auto extent = b_.op("Mul", {squared, b_.initializer(TensorData::f32(shape, sizes))});
    const auto joined = b_.op("Concat", {centre, extent, parts[2]}, {{"axis", 4}});
    return b_.reshape(joined, {n, 3 * cells * cells, kValues});
  }

  std::unique_ptr<OnnxBuilder> builder_;
  OnnxBuilder& b_;
};

}  // namespace

std::unique_ptr<OnnxBuilder> build_yolo_v5n(uint64_t seed) { return Yolo(seed).build(); }

}  // namespace aipu::models
