// Convolutions and matrix products of 8-bit integers by products of tiles against sums written out: they must be equal.
// Where the CPU has no tiles the interpreter computes them.
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/targets/target.h"
#include "tests/numerics/integers.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::OnnxBuilder;

struct Layer {
  std::vector<int64_t> x;  // [N, C, spatial...]
  int64_t out;
  std::vector<int64_t> kernel, strides, dilations, pads;
  DType x_type = DType::kU8, w_type = DType::kI8;
  bool is_claimed = true;
};

ConvCase make_case(const Layer& l, unsigned seed) {
  std::mt19937 random(seed);
  ConvCase c;
  c.window = {l.kernel, l.strides, l.dilations, l.pads, 1};
  c.x = random_integers(random, l.x, l.x_type, seed % 2 == 0);
  std::vector<int64_t> shape = {l.out, l.x[1]};
  shape.insert(shape.end(), l.kernel.begin(), l.kernel.end());
  c.w = random_integers(random, shape, l.w_type, seed % 2 == 0);
  c.x.zeros = {random_zero(random, l.x_type)};
  c.x.scales = {random_scale(random)};
  c.w.scales.clear();
  c.w.zeros.clear();
  for (int64_t k = 0; k < l.out; ++k) {
    c.w.scales.push_back(random_scale(random));
    c.w.zeros.push_back(l.w_type == DType::kU8 ? 128 : 0);
    c.bias.push_back(pick(random, -5000, 5000));
  }
  c.y.dtype = l.x_type;
  c.y.zeros = {random_zero(random, l.x_type)};
  const auto depth = static_cast<float>(l.x[1] * count_of(l.kernel));
  c.y.scales = {c.x.scales[0] * c.w.scales[0] * 100 * std::sqrt(depth)};
  return c;
}

void check(OnnxBuilder& b, const Integers& x, const Tensor& expected, bool is_claimed) {
  const std::string model = temporary_path("quantized_tiles.onnx");
  ASSERT_TRUE(b.save(model).ok());
  EXPECT_EQ(groups_of(model, "host-amx").find("by quantized_tiles:") != std::string::npos, is_claimed);
  std::vector<RoadOptions> roads = {{.target = "host-amx", .backend = "interp"}};
  if (tir::this_machine_has_tiles()) {
    for (const int threads : {1, 3}) roads.push_back({.target = "host-amx", .threads = threads});
  }
  for (const RoadOptions& options : roads) {
    const auto actual = run_road(model, {{"x", as_tensor(x)}}, options);
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    expect_close(actual->at("y"), expected, 0, 0, options.backend + " " + std::to_string(options.threads));
  }
}

TEST(QuantizedTiles, ConvolutionsAreExact) {
  unsigned seed = 0;
  for (const Layer& l : {
           Layer{{1, 64, 8, 8}, 64, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},              // read where they are
           Layer{{2, 64, 9, 9}, 40, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, DType::kI8},  // with a block at the end
           Layer{{1, 70, 7, 9}, 33, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}},              // strides
           Layer{{2, 24, 7, 7}, 70, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},              // edges, two images
           Layer{{1, 64, 6, 11}, 64, {3, 3}, {2, 2}, {1, 1}, {0, 0, 1, 1}, DType::kI8},
           Layer{{1, 66, 9, 12}, 48, {3, 2}, {1, 1}, {2, 2}, {2, 1, 2, 1}},  // dilations
           Layer{{1, 3, 20, 20}, 16, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}, DType::kU8, DType::kI8, false},
           Layer{{1, 20, 40}, 50, {5}, {1}, {1}, {2, 2}, DType::kU8, DType::kU8},             // one dimension
           Layer{{1, 24, 4, 5, 6}, 40, {2, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1, 1, 1, 1}},  // three
           Layer{{1, 600, 3, 3}, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},                   // deep
           // Few bytes behind one another, few columns, few pixels.
           Layer{{1, 32, 8, 8}, 32, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, DType::kU8, DType::kI8, false},
           Layer{{1, 64, 8, 8}, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, DType::kU8, DType::kI8, false},
           Layer{{5, 64, 1, 1}, 32, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, DType::kU8, DType::kI8, false},
           Layer{{1, 64, 8, 8}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, DType::kU8, DType::kI8, false},
       }) {
    SCOPED_TRACE("layer " + std::to_string(++seed));
    const ConvCase c = make_case(l, seed);
    OnnxBuilder b("quantized_tiles", seed);
    Extents extents = {"N", l.x[1]};
    for (size_t i = 2; i < l.x.size(); ++i) extents.emplace_back(l.x[i]);
    add_qlinear_conv(b, c, extents);
    check(b, c.x, expected_of(c), l.is_claimed);
    if (testing::Test::HasFailure()) return;
  }
}

// Sums that are not scaled, of a batch that is known only when running.
TEST(QuantizedTiles, MatrixProductsAreExact) {
  unsigned seed = 0;
  for (const auto& [rows, depth, columns] : {std::array<int64_t, 3>{33, 128, 64}, {5, 100, 40}, {80, 64, 17}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(depth) + " x " + std::to_string(columns));
    std::mt19937 random(++seed);
    Integers x = random_integers(random, {2, rows, depth}, DType::kU8, true),
             w = random_integers(random, {depth, columns}, DType::kI8, true);
    x.zeros = {random_zero(random, DType::kU8)};
    Tensor expected{{2, rows, columns}, {}};
    for (int64_t i = 0; i < 2 * rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += (x.elements[static_cast<size_t>(i * depth + k)] - x.zeros[0]) *
                 w.elements[static_cast<size_t>(k * columns + j)];
        expected.data.push_back(static_cast<float>(sum));
      }
    }
    OnnxBuilder b("quantized_tiles_product", seed);
    integer_output(
        b, b.op("MatMulInteger", {integer_input(b, "x", x, {"N", rows, depth}), constant_of(b, w), zeros_of(b, x)}),
        "y", 3);
    check(b, x, expected, true);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace aipu::test
