// GridSample, RoiAlign, MaxRoiPool, DeformConv and Col2Im against their definitions in double precision, on every
// target that this machine can run, and the interpreter bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::OnnxBuilder;
using Ints = std::vector<int64_t>;
using Inputs = std::map<std::string, Tensor>;

int64_t count_of(const Ints& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

Extents extents_of(const Ints& shape) { return {shape.begin(), shape.end()}; }

// The model's output "y" must be `expected` everywhere.
void check(OnnxBuilder& b, const std::string& name, const Inputs& inputs, const Tensor& expected, double tolerance) {
  const std::string path = temporary_path(name + ".onnx");
  ASSERT_TRUE(b.save(path).ok());
  SCOPED_TRACE(name);
  expect_on_targets(path, inputs, {{"y", expected}}, tolerance, tolerance, true);
}

// ---- GridSample

double reflected(double p, double low, double high) {
  if (high <= low) return low;
  while (p < low || p > high) p = p < low ? 2 * low - p : 2 * high - p;
  return p;
}

struct Tap {
  int64_t index;  // -1: outside
  double weight;
};

std::vector<Tap> taps_of(double g, int64_t extent, const std::string& mode, const std::string& padding, bool align) {
  const double low = align ? 0 : -0.5;
  const double high = align ? static_cast<double>(extent) - 1 : static_cast<double>(extent) - 0.5;
  double p = align ? (g + 1) / 2 * static_cast<double>(extent - 1) : ((g + 1) * static_cast<double>(extent) - 1) / 2;
  if (mode == "nearest") p = std::nearbyint(p);
  if (p < low || p > high) {
    // Of a cubic curve the pixels behind the border count, each as that at the border, as for PyTorch and ONNX Runtime.
    if (padding == "border" && mode != "cubic") p = std::clamp(p, 0.0, static_cast<double>(extent - 1));
    if (padding == "reflection") p = reflected(p, low, high);
  }
  const auto base = static_cast<int64_t>(std::floor(p));
  std::vector<Tap> taps;
  if (mode == "nearest") taps = {{base, 1}};
  const double f = p - static_cast<double>(base);
  if (mode == "linear") taps = {{base, 1 - f}, {base + 1, f}};
  if (mode == "cubic") {
    for (int64_t t = -1; t <= 2; ++t) {
      const double d = std::abs(f - static_cast<double>(t));
      const double a = -0.75;
      taps.push_back(
          {base + t, d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1 : a * (d * d * d - 5 * d * d + 8 * d - 4)});
    }
  }
  for (Tap& tap : taps) {
    if (tap.index >= 0 && tap.index < extent) continue;
    if (padding == "zeros") tap.index = -1;
    if (padding == "border") tap.index = std::clamp<int64_t>(tap.index, 0, extent - 1);
    if (padding == "reflection") tap.index = std::llround(reflected(static_cast<double>(tap.index), low, high));
  }
  return taps;
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, const std::string& mode, const std::string& padding,
                   bool align) {
  const size_t spatial = x.shape.size() - 2;
  Tensor y;
  y.shape = {x.shape[0], x.shape[1]};
  y.shape.insert(y.shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
  const int64_t points = count_of({grid.shape.begin() + 1, grid.shape.end() - 1});
  const int64_t image = count_of({x.shape.begin() + 2, x.shape.end()});
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    for (int64_t c = 0; c < x.shape[1]; ++c) {
      for (int64_t p = 0; p < points; ++p) {
        std::vector<Tap> offsets = {{0, 1}};
        for (size_t d = 0; d < spatial; ++d) {
          const size_t at = static_cast<size_t>(n * points + p) * spatial + (spatial - 1 - d);
          std::vector<Tap> next;
          for (const Tap& outer : offsets) {
            for (const Tap& tap : taps_of(grid.data[at], x.shape[d + 2], mode, padding, align)) {
              const bool outside = outer.index < 0 || tap.index < 0;
              next.push_back({outside ? -1 : outer.index * x.shape[d + 2] + tap.index, outer.weight * tap.weight});
            }
          }
          offsets = std::move(next);
        }
        double sum = 0;
        for (const Tap& tap : offsets) {
          if (tap.index >= 0) sum += tap.weight * x.data[static_cast<size_t>((n * x.shape[1] + c) * image + tap.index)];
        }
        y.data.push_back(static_cast<float>(sum));
      }
    }
  }
  return y;
}

TEST(Sampling, GridSample) {
  struct Case {
    Ints x, points;
    const char* mode;
    const char* padding;
    int align;
  };
  const Case cases[] = {
      {{2, 3, 5, 7}, {4, 6}, "linear", "zeros", 0},       {{1, 17, 6, 4}, {3, 5}, "linear", "border", 1},
      {{1, 1, 4, 9}, {5, 5}, "linear", "reflection", 0},  {{2, 5, 6, 6}, {4, 4}, "cubic", "zeros", 0},
      {{1, 4, 7, 5}, {6, 3}, "cubic", "reflection", 1},   {{1, 2, 5, 6}, {4, 4}, "cubic", "border", 0},
      {{1, 3, 6, 5}, {9, 4}, "nearest", "zeros", 0},      {{2, 8, 3, 4}, {5, 5}, "nearest", "reflection", 1},
      {{1, 3, 4, 5, 6}, {3, 4, 2}, "linear", "zeros", 0}, {{1, 2, 3, 4, 5}, {2, 3, 4}, "linear", "reflection", 1},
      {{2, 6, 11}, {7}, "linear", "border", 0},           {{1, 2, 1, 1}, {3, 3}, "linear", "reflection", 1}};
  int serial = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(serial);
    std::mt19937 random(static_cast<unsigned>(++serial));
    Ints grid_shape = {c.x[0]};
    grid_shape.insert(grid_shape.end(), c.points.begin(), c.points.end());
    grid_shape.push_back(static_cast<int64_t>(c.x.size()) - 2);
    Inputs inputs = {{"x", random_tensor(random, c.x)}, {"grid", random_tensor(random, grid_shape, -1.7F, 1.7F)}};
    OnnxBuilder b("grid_sample", 1);
    b.set_opset(20);
    const std::string y =
        b.op("GridSample",
             {b.input("x", DType::kF32, extents_of(c.x)), b.input("grid", DType::kF32, extents_of(grid_shape))},
             {{"mode", c.mode}, {"padding_mode", c.padding}, {"align_corners", c.align}});
    b.output(y, "y", DType::kF32, Extents(c.x.size(), Extents::value_type("")));
    const Tensor expected = grid_sample(inputs["x"], inputs["grid"], c.mode, c.padding, c.align != 0);
    check(b, "grid_sample" + std::to_string(serial), inputs, expected, 2e-5);
    if (HasFatalFailure()) return;
  }
}

// Positions that are no numbers, or no positions at all: something finite, and no access outside of the image.
TEST(Sampling, GridSampleOfAbsurdPositions) {
  OnnxBuilder b("absurd", 1);
  b.set_opset(20);
  const std::string y =
      b.op("GridSample", {b.input("x", DType::kF32, {1, 2, 3, 3}), b.input("grid", DType::kF32, {1, 1, 5, 2})},
           {{"padding_mode", "reflection"}});
  b.output(y, "y", DType::kF32, {1, 2, 1, 5});
  const std::string path = temporary_path("absurd.onnx");
  ASSERT_TRUE(b.save(path).ok());
  std::mt19937 random(1);
  const Inputs inputs = {{"x", random_tensor(random, {1, 2, 3, 3})},
                         {"grid", {{1, 1, 5, 2}, {NAN, 0, INFINITY, 0, -INFINITY, 3e38F, -3e38F, NAN, 1e9F, -1e9F}}}};
  const auto actual = run_road(path, inputs, {.target = "host-baseline", .backend = "interp"});
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  for (const float value : actual->at("y").data) EXPECT_LE(std::abs(value), 4.0F);
}

// ---- regions

double bilinear(const Tensor& x, int64_t plane, double y, double at, const std::function<void(double)>& each = {}) {
  const int64_t height = x.shape[2], width = x.shape[3];
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(at));
  double sum = 0;
  for (int64_t t = 0; t < 4; ++t) {
    const int64_t row = top + t / 2, column = left + t % 2;
    double weight = (1 - std::abs(y - static_cast<double>(row))) * (1 - std::abs(at - static_cast<double>(column)));
    double value = 0;
    if (row >= 0 && row < height && column >= 0 && column < width) {
      value = weight * x.data[static_cast<size_t>((plane * height + row) * width + column)];
    }
    sum += value;
    if (each) each(value);
  }
  return sum;
}

TEST(Sampling, RoiAlign) {
  int serial = 0;
  for (const char* mode : {"avg", "max"}) {
    for (const char* transform : {"half_pixel", "output_half_pixel"}) {
      for (const int ratio : {0, 2}) {
        SCOPED_TRACE(std::string(mode) + " " + transform + " " + std::to_string(ratio));
        std::mt19937 random(static_cast<unsigned>(++serial));
        const Ints shape = {2, 5, 9, 11};
        const Tensor rois = {{4, 4}, {0, 0, 20, 16, 3.3F, 2.1F, 9.9F, 14.2F, -4, -3, 8, 6, 15, 10, 30, 25}};
        const Ints batches = {1, 0, 1, 0};
        const double scale = 0.5;
        const int64_t rows = 3, columns = 2;
        Inputs inputs = {{"x", random_tensor(random, shape)}, {"rois", rois}};
        OnnxBuilder b("roi_align", 1);
        const std::string y = b.op(
            "RoiAlign",
            {b.input("x", DType::kF32, extents_of(shape)), b.input("rois", DType::kF32, {"R", 4}), b.ints(batches)},
            {{"mode", mode},
             {"coordinate_transformation_mode", transform},
             {"sampling_ratio", ratio},
             {"spatial_scale", scale},
             {"output_height", rows},
             {"output_width", columns}});
        b.output(y, "y", DType::kF32, {"", "", "", ""});
        Tensor expected{{4, 5, rows, columns}, {}};
        const double offset = std::string(transform) == "half_pixel" ? 0.5 : 0;
        for (int64_t r = 0; r < 4; ++r) {
          const float* roi = &rois.data[static_cast<size_t>(r * 4)];
          const double left = roi[0] * scale - offset, top = roi[1] * scale - offset;
          double width = roi[2] * scale - offset - left, height = roi[3] * scale - offset - top;
          if (offset == 0) width = std::max(width, 1.0), height = std::max(height, 1.0);
          const double bin_h = height / static_cast<double>(rows), bin_w = width / static_cast<double>(columns);
          const int64_t ny = ratio > 0 ? ratio : std::lround(std::ceil(bin_h)),
                        nx = ratio > 0 ? ratio : std::lround(std::ceil(bin_w));
          for (int64_t c = 0; c < 5; ++c) {
            for (int64_t bin = 0; bin < rows * columns; ++bin) {
              double sum = 0, most = -INFINITY;
              for (int64_t s = 0; s < ny * nx; ++s) {
                const double v = top + static_cast<double>(bin / columns) * bin_h +
                                 (static_cast<double>(s / nx) + 0.5) * bin_h / static_cast<double>(ny);
                const double u = left + static_cast<double>(bin % columns) * bin_w +
                                 (static_cast<double>(s % nx) + 0.5) * bin_w / static_cast<double>(nx);
                if (v < -1 || v > 9 || u < -1 || u > 11) {
                  most = std::max(most, 0.0);
                  continue;
                }
                const int64_t plane = batches[static_cast<size_t>(r)] * 5 + c;
                sum += bilinear(inputs["x"], plane, std::clamp(v, 0.0, 8.0), std::clamp(u, 0.0, 10.0),
                                [&](double value) { most = std::max(most, value); });
              }
              const bool average = std::string(mode) == "avg";
              expected.data.push_back(
                  static_cast<float>(average ? sum / static_cast<double>(std::max<int64_t>(ny * nx, 1)) : most));
            }
          }
        }
        check(b, "roi_align" + std::to_string(serial), inputs, expected, 2e-5);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Sampling, MaxRoiPool) {
  std::mt19937 random(3);
  const Ints shape = {2, 19, 8, 10};
  const Tensor rois = {{3, 5}, {0, 0, 0, 12, 10, 1, 4, 3, 19, 15, 1, 16, 12, 40, 40}};
  const double scale = 0.5;
  Inputs inputs = {{"x", random_tensor(random, shape)}, {"rois", rois}};
  OnnxBuilder b("max_roi_pool", 1);
  const std::string y =
      b.op("MaxRoiPool", {b.input("x", DType::kF32, extents_of(shape)), b.input("rois", DType::kF32, {"R", 5})},
           {{"pooled_shape", Ints{2, 3}}, {"spatial_scale", scale}});
  b.output(y, "y", DType::kF32, {"", "", "", ""});
  Tensor expected{{3, 19, 2, 3}, {}};
  for (int64_t r = 0; r < 3; ++r) {
    const float* roi = &rois.data[static_cast<size_t>(r * 5)];
    const auto edge = [&](int k) { return std::llround(roi[k] * scale); };
    const double bin_h = static_cast<double>(std::max<int64_t>(edge(4) - edge(2) + 1, 1)) / 2;
    const double bin_w = static_cast<double>(std::max<int64_t>(edge(3) - edge(1) + 1, 1)) / 3;
    for (int64_t c = 0; c < 19; ++c) {
      for (int64_t bin = 0; bin < 6; ++bin) {
        const auto row = static_cast<double>(bin / 3), column = static_cast<double>(bin % 3);
        double most = -INFINITY;
        for (int64_t v = std::max<int64_t>(std::llround(std::floor(row * bin_h)) + edge(2), 0);
             v < std::min<int64_t>(std::llround(std::ceil((row + 1) * bin_h)) + edge(2), 8); ++v) {
          for (int64_t u = std::max<int64_t>(std::llround(std::floor(column * bin_w)) + edge(1), 0);
               u < std::min<int64_t>(std::llround(std::ceil((column + 1) * bin_w)) + edge(1), 10); ++u) {
            most = std::max<double>(
                most,
                inputs["x"].data[static_cast<size_t>(((static_cast<int64_t>(roi[0]) * 19 + c) * 8 + v) * 10 + u)]);
          }
        }
        expected.data.push_back(std::isinf(most) ? 0 : static_cast<float>(most));
      }
    }
  }
  check(b, "max_roi_pool", inputs, expected, 0);
}

// ---- DeformConv, Col2Im

TEST(Sampling, DeformConv) {
  struct Case {
    int64_t channels, outputs, groups, offset_groups, stride, dilation;
    bool mask, bias;
  };
  int serial = 0;
  for (const Case& c : {Case{4, 6, 1, 1, 1, 1, true, true}, Case{6, 4, 2, 3, 2, 1, false, true},
                        Case{20, 3, 1, 1, 1, 2, true, false}}) {
    SCOPED_TRACE(serial);
    std::mt19937 random(static_cast<unsigned>(++serial));
    const int64_t height = 8, width = 9, kernel_h = 3, kernel_w = 2, pad = 1;
    const int64_t rows = (height + 2 * pad - ((kernel_h - 1) * c.dilation + 1)) / c.stride + 1;
    const int64_t columns = (width + 2 * pad - ((kernel_w - 1) * c.dilation + 1)) / c.stride + 1;
    const int64_t taps = kernel_h * kernel_w, per_group = c.channels / c.groups,
                  per_offset = c.channels / c.offset_groups;
    const Ints x_shape = {2, c.channels, height, width}, offset_shape = {2, c.offset_groups * taps * 2, rows, columns};
    const Ints mask_shape = {2, c.offset_groups * taps, rows, columns};
    const Tensor w = random_tensor(random, {c.outputs, per_group, kernel_h, kernel_w}),
                 bias = random_tensor(random, {c.outputs});
    Inputs inputs = {{"x", random_tensor(random, x_shape)},
                     {"offset", random_tensor(random, offset_shape, -2.5F, 2.5F)}};
    OnnxBuilder b("deform_conv", 1);
    b.set_opset(19);
    std::vector<std::string> operands = {b.input("x", DType::kF32, extents_of(x_shape)),
                                         b.initializer(models::TensorData::f32(w.shape, w.data)),
                                         b.input("offset", DType::kF32, extents_of(offset_shape)),
                                         c.bias ? b.initializer(models::TensorData::f32(bias.shape, bias.data)) : ""};
    if (c.mask) {
      inputs["mask"] = random_tensor(random, mask_shape, 0, 1);
      operands.push_back(b.input("mask", DType::kF32, extents_of(mask_shape)));
    }
    b.output(b.op("DeformConv", operands,
                  {{"group", c.groups},
                   {"offset_group", c.offset_groups},
                   {"strides", Ints{c.stride, c.stride}},
                   {"dilations", Ints{c.dilation, c.dilation}},
                   {"pads", Ints{pad, pad, pad, pad}}}),
             "y", DType::kF32, {"", "", "", ""});
    Tensor expected{{2, c.outputs, rows, columns}, {}};
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t o = 0; o < c.outputs; ++o) {
        for (int64_t pixel = 0; pixel < rows * columns; ++pixel) {
          double sum = c.bias ? bias.data[static_cast<size_t>(o)] : 0;
          for (int64_t i = 0; i < per_group; ++i) {
            const int64_t channel = o / (c.outputs / c.groups) * per_group + i;
            for (int64_t tap = 0; tap < taps; ++tap) {
              const int64_t at = (n * c.offset_groups + channel / per_offset) * taps + tap;
              const auto moved = [&](int64_t k) {
                return static_cast<double>(
                    inputs["offset"].data[static_cast<size_t>((at * 2 + k) * rows * columns + pixel)]);
              };
              const double v =
                  static_cast<double>(pixel / columns * c.stride - pad + tap / kernel_w * c.dilation) + moved(0);
              const double u =
                  static_cast<double>(pixel % columns * c.stride - pad + tap % kernel_w * c.dilation) + moved(1);
              const double factor = c.mask ? inputs["mask"].data[static_cast<size_t>(at * rows * columns + pixel)] : 1;
              sum += factor * w.data[static_cast<size_t>((o * per_group + i) * taps + tap)] *
                     bilinear(inputs["x"], n * c.channels + channel, v, u);
            }
          }
          expected.data.push_back(static_cast<float>(sum));
        }
      }
    }
    check(b, "deform_conv" + std::to_string(serial), inputs, expected, 1e-4);
    if (HasFatalFailure()) return;
  }
}

TEST(Sampling, Col2Im) {
  std::mt19937 random(9);
  const Ints image = {7, 9}, block = {3, 2}, strides = {2, 1}, dilations = {1, 3}, pads = {1, 0, 2, 1};
  Ints blocks;
  for (size_t k = 0; k < 2; ++k)
    blocks.push_back((image[k] + pads[k] + pads[k + 2] - (block[k] - 1) * dilations[k] - 1) / strides[k] + 1);
  const Ints shape = {2, 3 * 6, blocks[0] * blocks[1]};
  Inputs inputs = {{"x", random_tensor(random, shape)}};
  OnnxBuilder b("col2im", 1);
  b.set_opset(18);
  const std::string y = b.op("Col2Im", {b.input("x", DType::kF32, extents_of(shape)), b.ints(image), b.ints(block)},
                             {{"strides", strides}, {"dilations", dilations}, {"pads", pads}});
  b.output(y, "y", DType::kF32, {"", "", "", ""});
  std::vector<double> sums(static_cast<size_t>(2 * 3 * image[0] * image[1]), 0);
  for (int64_t plane = 0; plane < 6; ++plane) {
    for (int64_t tap = 0; tap < 6; ++tap) {
      for (int64_t at = 0; at < shape[2]; ++at) {
        const int64_t v = at / blocks[1] * strides[0] - pads[0] + tap / block[1] * dilations[0];
        const int64_t u = at % blocks[1] * strides[1] - pads[1] + tap % block[1] * dilations[1];
        if (v < 0 || v >= image[0] || u < 0 || u >= image[1]) continue;
        sums[static_cast<size_t>((plane * image[0] + v) * image[1] + u)] +=
            inputs["x"].data[static_cast<size_t>((plane * 6 + tap) * shape[2] + at)];
      }
    }
  }
  Tensor expected{{2, 3, image[0], image[1]}, {}};
  for (const double sum : sums) expected.data.push_back(static_cast<float>(sum));
  check(b, "col2im", inputs, expected, 1e-5);
}

}  // namespace
}  // namespace aipu::test
