// Operands that go through the local memory of TECs, for every way in which one may walk the index space: the NPU, the
// interpreter (which copies only when a copy is waited for) and a host agree to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>

#include "test_paths.h"
#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::OnnxBuilder;

// Conversion as it is, but for the C compiler, whose results interpreters do not need.
class NoCompiler {
 public:
  NoCompiler() {
    ::setenv("AIPU_CC", AIPU_SOURCE_DIR "/tests/fuzz/stub_cc.sh", 1);
    ::setenv("AIPU_CACHE_DIR", temporary_path("stubs").c_str(), 1);
  }
  ~NoCompiler() {
    ::unsetenv("AIPU_CC");
    ::unsetenv("AIPU_CACHE_DIR");
  }
  NoCompiler(const NoCompiler&) = delete;
  NoCompiler& operator=(const NoCompiler&) = delete;
};

void expect_same(OnnxBuilder& b, const std::string& name, const std::map<std::string, Tensor>& inputs,
                 std::initializer_list<const char*> backends = {"", "interp"}) {
  const std::string path = temporary_path(name + ".onnx");
  ASSERT_TRUE(b.save(path).ok());
  // Direct sums, of integers exact ones.
  const auto expected = run_road(
      path, inputs,
      {.target = "host-baseline", .backend = *backends.begin(), .disabled_plugins = {"winograd", "winograd_f4"}});
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const char* backend : backends) {
    const auto actual = run_road(path, inputs, {.target = "X2_1204", .backend = backend});
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    for (const auto& [output, tensor] : *expected)
      expect_close(actual->at(output), tensor, 0, 0, name + ", " + output + " " + backend);
  }
}

models::Extents extents_of(const std::vector<int64_t>& shape) { return {shape.begin(), shape.end()}; }
constexpr int kFloat32 = 1, kInt8 = 3, kFloat16 = 10;  // as ONNX numbers them

TEST(Staging, OperandsOfAllKinds) {
  // Rows of one tile and of many, tiles of one row and of many.
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 1}, {3, 5, 7}, {4, 33, 64}, {2, 3, 5000}, {300, 1, 40}};
  for (const std::vector<int64_t>& shape : shapes) {
    std::mt19937 random(11);
    OnnxBuilder b("staging", 3);
    const int64_t n = shape[0], m = shape[1], c = shape[2];
    const auto x = b.input("x", DType::kF32, {"N", "M", "C"});
    const auto column = b.input("column", DType::kF32, {"C"});
    const auto row = b.input("row", DType::kF32, {"N", "M", 1});
    const auto middle = b.input("middle", DType::kF32, {"N", 1, "C"});
    const auto turned = b.input("turned", DType::kF32, {"C", "M", "N"});
    const auto half = b.op("Cast", {b.op("Add", {x, column})}, {{"to", 10}});
    const auto mask = b.op("Greater", {x, middle});
    const auto back = b.op("Transpose", {turned}, {{"perm", std::vector<int64_t>{2, 1, 0}}});
    b.output(b.op("Relu", {b.op("Mul", {b.op("Add", {x, column}), row})}), "rows", DType::kF32, {"N", "M", "C"});
    b.output(b.op("Where", {mask, b.op("Sub", {x, middle}), row}), "masks", DType::kF32, {"N", "M", "C"});
    b.output(b.op("Add", {x, back}), "turned_back", DType::kF32, {"N", "M", "C"});
    b.output(b.op("Cast", {b.op("Mul", {half, half})}, {{"to", 1}}), "halves", DType::kF32, {"N", "M", "C"});
    const auto reversed = b.op("Slice", {x, b.ints({-1}), b.ints({INT64_MIN + 1}), b.ints({1}), b.ints({-1})});
    b.output(b.op("Add", {reversed, column}), "reversed", DType::kF32, {"N", "M", "C"});
    const std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, shape)},
                                                  {"column", random_tensor(random, {c})},
                                                  {"row", random_tensor(random, {n, m, 1})},
                                                  {"middle", random_tensor(random, {n, 1, c})},
                                                  {"turned", random_tensor(random, {c, m, n})}};
    SCOPED_TRACE(testing::PrintToString(shape));
    expect_same(b, "staging", inputs);
  }
}

// Rows that fit local memory and rows that do not, many and few; sums are formed in another order than on hosts.
TEST(Staging, RowsAreThoseOfTheHost) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 1}, {4, 3}, {300, 40}, {64, 1000}, {9, 4097}, {4000, 16}};
  for (const std::vector<int64_t>& shape : shapes) {
    SCOPED_TRACE(testing::PrintToString(shape));
    std::mt19937 random(5);
    OnnxBuilder b("rows", 5);
    b.set_opset(17);
    const auto x = b.input("x", DType::kF32, {"N", "C"});
    const auto scale = b.input("scale", DType::kF32, {"C"}), bias = b.input("bias", DType::kF32, {"C"});
    b.output(b.op("Softmax", {x}), "softmax", DType::kF32, {"N", "C"});
    b.output(b.op("LogSoftmax", {x}), "log_softmax", DType::kF32, {"N", "C"});
    b.output(b.op("LayerNormalization", {x, scale, bias}, {{"axis", -1}, {"epsilon", 1e-5}}), "normal", DType::kF32,
             {"N", "C"});
    const std::string path = temporary_path("rows.onnx");
    ASSERT_TRUE(b.save(path).ok());
    const std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, shape)},
                                                  {"scale", random_tensor(random, {shape[1]})},
                                                  {"bias", random_tensor(random, {shape[1]})}};
    const auto expected = run_road(path, inputs, {.target = "host-baseline"});
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    for (const RoadOptions& options :
         {RoadOptions{.target = "X2_1204"}, RoadOptions{.target = "X2_1204", .backend = "interp"},
          RoadOptions{.target = "X2_1204MP3"}, RoadOptions{.target = "X3P_1304MP2"}}) {
      const auto actual = run_road(path, inputs, options);
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      for (const auto& [output, tensor] : *expected)
        expect_close(actual->at(output), tensor, 1e-5, 1e-5, output + " " + options.target + " " + options.backend);
    }
  }
}

// Windows within the image, at its sides, and beyond its end; rows of one segment and of many.
TEST(Staging, PoolsAreThoseOfTheHost) {
  using Numbers = std::vector<int64_t>;
  const std::vector<Numbers> shapes = {{1, 5, 9, 300}, {2, 64, 33, 57}};
  for (const Numbers& shape : shapes) {
    SCOPED_TRACE(testing::PrintToString(shape));
    std::mt19937 random(3);
    OnnxBuilder b("pools", 3);
    const auto x = b.op("Relu", {b.input("x", DType::kF32, extents_of(shape))});
    const auto add = [&](const std::string& op, const std::string& name, models::NamedAttributes attributes) {
      b.output(b.op(op, {x}, attributes), name, DType::kF32, {"", "", "", ""});
    };
    add("MaxPool", "max", {{"kernel_shape", Numbers{3, 3}}, {"strides", Numbers{2, 2}}, {"pads", Numbers{1, 1, 1, 1}}});
    // Neighbours that are computed along: of a channel, and as large as the results.
    const auto pooled = b.op("MaxPool", {x}, {{"kernel_shape", Numbers{2, 2}}, {"strides", Numbers{1, 1}}});
    const auto by_channel =
        b.initializer(models::TensorData::f32({shape[1], 1, 1}, random_tensor(random, {shape[1], 1, 1}).data));
    b.output(b.op("Relu", {b.op("Mul", {pooled, by_channel})}), "scaled", DType::kF32, {"", "", "", ""});
    const auto other = b.op("AveragePool", {x}, {{"kernel_shape", Numbers{2, 2}}});
    b.output(b.op("Add", {other, pooled}), "sum", DType::kF32, {"", "", "", ""});
    add("MaxPool", "ceil", {{"kernel_shape", Numbers{2, 3}}, {"strides", Numbers{2, 3}}, {"ceil_mode", 1}});
    for (const int counts : {0, 1}) {
      add("AveragePool", "average" + std::to_string(counts),
          {{"kernel_shape", Numbers{3, 5}}, {"pads", Numbers{1, 2, 0, 1}}, {"count_include_pad", counts}});
    }
    expect_same(b, "pools", {{"x", random_tensor(random, shape)}});
  }
}

// Blocks and what they leave, few channels and many.
TEST(Staging, TransposesAreThoseOfTheHost) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 3, 70, 90}, {2, 5, 33, 17}, {3, 64, 9, 8}, {1, 1, 2, 300}};
  for (const std::vector<int64_t>& shape : shapes) {
    SCOPED_TRACE(testing::PrintToString(shape));
    std::mt19937 random(7);
    OnnxBuilder b("transposes", 7);
    const auto extents = extents_of(shape);
    const auto x = b.input("x", DType::kF32, extents);
    for (const std::vector<int64_t>& perm :
         std::vector<std::vector<int64_t>>{{0, 2, 3, 1}, {0, 1, 3, 2}, {3, 2, 1, 0}, {2, 0, 3, 1}}) {
      models::Extents turned;
      for (const int64_t axis : perm) turned.push_back(extents[static_cast<size_t>(axis)]);
      for (const int type : {kFloat32, kFloat16}) {
        const auto own = type == kFloat32 ? x : b.op("Cast", {x}, {{"to", type}});
        const auto y = b.op("Transpose", {own}, {{"perm", perm}});
        b.output(type == kFloat32 ? y : b.op("Cast", {y}, {{"to", kFloat32}}), "y" + y, DType::kF32, turned);
      }
    }
    expect_same(b, "transposes", {{"x", random_tensor(random, shape)}});
  }
}

// ---- products: of small integers, whose sums are the same in any order

std::vector<float> small_integers(std::mt19937& random, int64_t count) {
  std::uniform_int_distribution<int> distribution(-3, 3);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(distribution(random));
  return values;
}
Tensor integer_tensor(std::mt19937& random, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return {shape, small_integers(random, count)};
}

// In float32 or float16.
std::string constant_of(OnnxBuilder& b, const Tensor& value, int type) {
  const std::string name = b.initializer(models::TensorData::f32(value.shape, value.data));
  return type == kFloat32 ? name : b.op("Cast", {name}, {{"to", type}});
}

struct Window {
  std::vector<int64_t> x;  // N, C, spatial
  int64_t out = 1;
  std::vector<int64_t> kernel, strides, dilations, pads;
  int64_t groups = 1;
  bool is_added = false;  // the image, to the results
};

// With a bias, in both types of floats.
void expect_same_convolutions(const std::string& name, std::span<const Window> windows,
                              std::initializer_list<const char*> backends = {"", "interp"}) {
  std::mt19937 random(5);
  for (const int type : {kFloat32, kFloat16}) {
    OnnxBuilder b(name, 3);
    std::map<std::string, Tensor> inputs;
    for (const Window& c : windows) {
      std::vector<int64_t> weights = {c.out, c.x[1] / c.groups};
      weights.insert(weights.end(), c.kernel.begin(), c.kernel.end());
      const std::string number = std::to_string(inputs.size());
      std::string value = b.input("x" + number, DType::kF32, extents_of(c.x));
      if (type != kFloat32) value = b.op("Cast", {value}, {{"to", type}});
      std::string y = b.op("Conv",
                           {value, constant_of(b, integer_tensor(random, weights), type),
                            constant_of(b, integer_tensor(random, {c.out}), type)},
                           {{"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}, {"group", c.groups}});
      if (c.is_added) y = b.op("Add", {y, value});
      b.output(b.op("Cast", {b.op("Relu", {y})}, {{"to", kFloat32}}), "y" + number, DType::kF32,
               models::Extents(c.x.size(), models::Extents::value_type("")));
      inputs["x" + number] = integer_tensor(random, c.x);
    }
    expect_same(b, name, inputs, backends);
  }
}

TEST(Staging, DepthwiseIsThatOfTheHost) {
  const Window windows[] = {
      {{1, 40, 6, 57}, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 40, true},  // rows in segments
      {{2, 13, 9, 30}, 13, {3, 3}, {2, 2}, {1, 1}, {0, 0, 1, 1}, 13},        // channels that end within a vector
      {{1, 960, 7, 7}, 960, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 960},      // blocks of channels
      {{1, 300, 4, 61}, 300, {3, 3}, {1, 2}, {1, 1}, {1, 1, 1, 1}, 300},     // both
      {{1, 17, 11, 200}, 17, {5, 3}, {1, 2}, {2, 3}, {4, 0, 4, 5}, 17},      // taps apart
      {{1, 24, 2, 3}, 24, {3, 7}, {1, 1}, {1, 1}, {1, 3, 1, 3}, 24, true},   // wider than the image
  };
  expect_same_convolutions("staged_depthwise", windows);
}

// The kernels of many windows take a C compiler minutes; BordersAreThoseOfTheHost has some that the NPU runs.
TEST(Staging, ConvolutionsAreThoseOfTheHost) {
  const NoCompiler stub;
  const Window windows[] = {
      {{1, 3, 20, 23}, 20, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},      // taps and channels as one depth
      {{2, 64, 9, 28}, 24, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},      // shared pixels of three taps
      {{1, 512, 7, 7}, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},      // blocks of channels, weights in parts
      {{1, 264, 7, 7}, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},       // a last block of fewer channels
      {{1, 20, 11, 14}, 9, {3, 3}, {1, 1}, {2, 3}, {2, 3, 2, 3}},      // taps apart
      {{1, 24, 10, 13}, 36, {3, 5}, {2, 1}, {1, 2}, {0, 4, 1, 4}, 3},  // groups
      {{2, 30, 6, 5}, 70, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},       // a matrix product
      {{1, 32, 9, 9}, 64, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}},       // every other pixel
      {{1, 5, 4, 6, 7}, 10, {2, 3, 3}, {1, 1, 2}, {1, 1, 1}, {0, 1, 1, 1, 1, 0}},
      {{2, 6, 50}, 12, {4}, {3}, {1}, {2, 0}},
      {{1, 64, 5, 14}, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, true},
  };
  expect_same_convolutions("staged_convolutions", windows, {"interp"});
}

// What the zeros around an image are multiplied by is left out: lines, columns at the ends of rows, whole windows.
TEST(Staging, BordersAreThoseOfTheHost) {
  const Window windows[] = {
      {{1, 64, 6, 9}, 16, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}},     // two lines, two columns
      {{1, 64, 3, 4}, 8, {3, 3}, {1, 1}, {1, 1}, {3, 4, 2, 3}},      // windows without the image
      {{2, 32, 8, 28}, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},    // none below
      {{1, 128, 6, 56}, 16, {3, 3}, {1, 1}, {1, 1}, {0, 1, 1, 1}},   // rows in segments
      {{1, 64, 7, 8}, 16, {3, 3}, {1, 1}, {1, 1}, {1, 0, 1, 2}, 1},  // nothing on the left
  };
  expect_same_convolutions("staged_borders", windows);
}

// A line of several columns: the lines that units of several rows read come together, with and without those between
// the windows; channels that are whole vectors, in one transfer or line by line, and channels that are not.
TEST(Staging, WindowsOfOneLineAreThoseOfTheHost) {
  const Window windows[] = {
      {{2, 3, 3, 4}, 2, {1, 2}, {1, 1}, {1, 1}, {0, 0, 0, 1}},
      {{2, 96, 12, 6}, 16, {1, 3}, {1, 1}, {1, 1}, {3, 0, 0, 1}},     // windows above the image
      {{1, 32, 8, 8}, 32, {1, 3}, {3, 1}, {1, 1}, {2, 1, 0, 1}},      // two lines of three that no window reads
      {{1, 1, 1, 3400}, 8, {1, 3}, {1, 1}, {1, 1600}, {0, 0, 0, 0}},  // taps far apart
  };
  expect_same_convolutions("staged_lines", windows);
}

// 8-bit integers without a zero point, and both types of floats.
std::string convolution_of(OnnxBuilder& b, const std::string& x, const Window& c, int type, std::mt19937& random) {
  std::vector<int64_t> weights = {c.out, c.x[1] / c.groups};
  weights.insert(weights.end(), c.kernel.begin(), c.kernel.end());
  const models::NamedAttributes attributes = {
      {"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}, {"group", c.groups}};
  const std::string value = b.op("Cast", {x}, {{"to", type}});
  const std::string y = b.op(type == kInt8 ? "ConvInteger" : "Conv",
                             {value, constant_of(b, integer_tensor(random, weights), type)}, attributes);
  return b.op("Cast", {y}, {{"to", kFloat32}});
}

// Windows of 1 to 3 lines and 1 to 5 columns with all that moves them, on images of a few lines and columns.
Window random_window(std::mt19937& random) {
  const auto from = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  Window c;
  c.groups = from({1, 1, 1, 2});
  c.out = from({1, 8, 9, 16}) * c.groups;
  c.x = {from({1, 2}), from({1, 3, 8, 20, 32, 64, 96}) * c.groups};
  for (const int64_t lines : {from({1, 1, 2, 3}), from({1, 2, 3, 4, 5})}) {
    c.kernel.push_back(lines);
    c.strides.push_back(from({1, 2, 3}));
    c.dilations.push_back(from({1, 1, 2}));
  }
  for (int side = 0; side < 4; ++side) c.pads.push_back(from({0, 0, 1, 3}));
  for (size_t k = 0; k < 2; ++k) {
    const int64_t window = (c.kernel[k] - 1) * c.dilations[k] + 1, padding = c.pads[k] + c.pads[k + 2];
    c.x.push_back(std::max<int64_t>(1, window - padding) + static_cast<int64_t>(random() % 8));
  }
  return c;
}

TEST(Staging, RandomWindowsAreThoseOfTheHost) {
  constexpr int kModels = 2, kWindows = 20;
  const NoCompiler stub;
  std::mt19937 random(14);
  for (int model = 0; model < kModels; ++model) {
    for (const int type : {kFloat32, kFloat16, kInt8}) {
      OnnxBuilder b("random_windows", 3);
      std::map<std::string, Tensor> inputs;
      std::map<std::string, Window> windows;
      for (int i = 0; i < kWindows; ++i) {
        const Window c = random_window(random);
        const std::string number = std::to_string(i);
        models::Extents extents = extents_of(c.x);
        // A number of images and lines that only a run knows.
        if (i % 6 == 5) extents[0] = "N" + number, extents[2] = "H" + number;
        const std::string x = b.input("x" + number, DType::kF32, extents);
        b.output(convolution_of(b, x, c, type, random), "y" + number, DType::kF32,
                 models::Extents(4, models::Extents::value_type("")));
        inputs["x" + number] = integer_tensor(random, c.x);
        windows["y" + number] = c;
      }
      const std::string path = temporary_path("random_windows.onnx");
      ASSERT_TRUE(b.save(path).ok());
      const auto expected = run_road(path, inputs, {.target = "host-baseline", .backend = "interp"});
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      const auto actual = run_road(path, inputs, {.target = "X2_1204", .backend = "interp"});
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      for (const auto& [output, tensor] : *expected) {
        const Window& c = windows.at(output);
        SCOPED_TRACE("x " + testing::PrintToString(c.x) + ", out " + std::to_string(c.out) + ", groups " +
                     std::to_string(c.groups) + ", kernel " + testing::PrintToString(c.kernel) + ", strides " +
                     testing::PrintToString(c.strides) + ", dilations " + testing::PrintToString(c.dilations) +
                     ", pads " + testing::PrintToString(c.pads) + ", type " + std::to_string(type));
        expect_close(actual->at(output), tensor, 0, 0, output);
      }
    }
  }
}

// Integers, whose border has the value of the zero point.
TEST(Staging, BordersOfIntegersAreThoseOfTheHost) {
  constexpr int kUint8 = 2;
  std::mt19937 random(9);
  OnnxBuilder b("staged_integer_borders", 3);
  std::map<std::string, Tensor> inputs;
  for (const int zero : {0, 3}) {
    for (const int64_t width : {7, 28}) {
      const std::vector<int64_t> shape = {1, 64, 7, width};
      const std::string number = std::to_string(inputs.size());
      Tensor x = integer_tensor(random, shape);
      for (float& value : x.data) value += 3;
      const std::string pixels =
          b.op("Cast", {b.input("x" + number, DType::kF32, extents_of(shape))}, {{"to", kUint8}});
      const std::string y = b.op("ConvInteger",
                                 {pixels, constant_of(b, integer_tensor(random, {16, 64, 3, 3}), kInt8),
                                  constant_of(b, Tensor{{}, {static_cast<float>(zero)}}, kUint8)},
                                 {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
      b.output(b.op("Cast", {y}, {{"to", kFloat32}}), "y" + number, DType::kF32,
               models::Extents(shape.size(), models::Extents::value_type("")));
      inputs["x" + number] = std::move(x);
    }
  }
  expect_same(b, "staged_integer_borders", inputs);
}

TEST(Staging, MatrixProductsAreThoseOfTheHost) {
  struct Product {
    int64_t rows, depth, columns;
    bool is_turned, is_open;  // the right operand is transposed; rows are known when running
  };
  const Product products[] = {{1, 512, 1000, true, false}, {1, 1, 1, false, false},    {17, 100, 40, false, false},
                              {197, 192, 64, true, false}, {5, 1030, 3, false, false}, {23, 77, 19, true, true},
                              {300, 64, 24, false, true},  {0, 64, 24, false, true}};
  std::mt19937 random(6);
  for (const int type : {kFloat32, kFloat16}) {
    OnnxBuilder b("staged_products", 3);
    std::map<std::string, Tensor> inputs;
    for (const Product& p : products) {
      const std::string number = std::to_string(inputs.size());
      const auto rows = p.is_open ? models::Extents::value_type("N" + number) : models::Extents::value_type(p.rows);
      std::string value = b.input("x" + number, DType::kF32, {rows, p.depth});
      if (type != kFloat32) value = b.op("Cast", {value}, {{"to", type}});
      const std::vector<int64_t> shape = {p.is_turned ? p.columns : p.depth, p.is_turned ? p.depth : p.columns};
      const std::string weights = constant_of(b, integer_tensor(random, shape), type),
                        bias = constant_of(b, integer_tensor(random, {p.columns}), type);
      const std::string y = p.is_turned ? b.op("Gemm", {value, weights, bias}, {{"transB", int64_t{1}}})
                                        : b.op("Add", {b.op("MatMul", {value, weights}), bias});
      b.output(b.op("Cast", {y}, {{"to", kFloat32}}), "y" + number, DType::kF32, {rows, p.columns});
      inputs["x" + number] = integer_tensor(random, {p.rows, p.depth});
    }
    expect_same(b, "staged_products", inputs);
  }
}

// A vector may end beyond a pixel's channels: what lies there is not multiplied, not even by 0.
TEST(Staging, PixelsThatAreNotFiniteStayWhereTheyAre) {
  std::mt19937 random(7);
  OnnxBuilder b("staged_nan", 3);
  const std::string value = b.input("x", DType::kF32, {1, 5, 6, 9});
  b.output(b.op("Conv", {value, constant_of(b, integer_tensor(random, {11, 5, 1, 1}), kFloat32)}), "one", DType::kF32,
           {1, 11, 6, 9});
  b.output(b.op("Conv", {value, constant_of(b, integer_tensor(random, {11, 5, 2, 3}), kFloat32)}), "six", DType::kF32,
           {1, 11, 5, 7});
  Tensor x = integer_tensor(random, {1, 5, 6, 9});
  for (size_t channel = 0; channel < 5; ++channel) x.data[channel * 54 + 31] = std::numeric_limits<float>::quiet_NaN();
  expect_same(b, "staged_nan", {{"x", x}});
}

}  // namespace
}  // namespace aipu::test
