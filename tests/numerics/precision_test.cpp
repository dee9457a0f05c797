// --precision bf16 and fp16: what products of 16-bit numbers give, beside float32, beside the interpreter, and beside
// targets without an instruction for them. Bounds are those of kernels/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "codegen/targets/target.h"
#include "gbuilder/build.h"
#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::OnnxBuilder;

std::vector<std::string> targets() {
  std::vector<std::string> all = runnable_targets();
  if (cpu_has_bf16()) all.emplace_back("host-avx512-bf16");
  return all;
}

// Convolutions of every template (whole rows, edges, short rows, pointwise, groups, few columns), an odd depth, pools,
// residuals, a dense layer; and a product that is an output, so that its sums are seen.
std::string image_model() {
  OnnxBuilder b("bf16_images", 2);
  std::string x = b.input("x", DType::kF32, {"N", int64_t{3}, int64_t{28}, int64_t{28}});
  x = b.relu(b.conv(x, 3, 32, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  std::string y = b.relu(b.conv(x, 32, 48, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  y = b.relu(b.conv(y, 48, 40, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}, .groups = 4}));
  y = b.relu(b.op("Add", {b.conv(y, 40, 40, {.kernel = {1, 1}}), y}));
  y = b.op("MaxPool", {y}, {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  y = b.relu(b.conv(y, 40, 34, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  y = b.relu(b.conv(y, 34, 6, {.kernel = {5, 5}, .pads = {2, 2, 2, 2}}));
  y = b.conv(y, 6, 20, {.kernel = {1, 1}});
  y = b.op("Flatten", {b.op("GlobalAveragePool", {y})});
  b.output(b.op("Gemm", {y, b.weight({12, 20}, 0.3), b.weight({12}, 0.3)}, {{"transB", 1}}), "y", DType::kF32,
           {"N", int64_t{12}});
  const std::string path = temporary_path("bf16_images.onnx");
  return b.save(path).ok() ? path : "";
}

// One product, depth by 33.
std::string product_model(int64_t depth) {
  OnnxBuilder b("bf16_product", 3);
  const std::string x = b.input("x", DType::kF32, {"N", depth});
  b.output(b.op("MatMul", {x, b.weight({depth, 33}, 1)}), "y", DType::kF32, {"N", int64_t{33}});
  const std::string path = temporary_path("bf16_product.onnx");
  return b.save(path).ok() ? path : "";
}

Tensor run(const std::string& model, const Tensor& x, const RoadOptions& options) {
  const auto outputs = run_road(model, {{"x", x}}, options);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? outputs->at("y") : Tensor{};
}

double greatest(const Tensor& tensor) {
  double most = 0;
  for (const float v : tensor.data) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

double greatest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  double most = 0;
  for (size_t i = 0; i < std::min(a.data.size(), b.data.size()); ++i)
    most = std::max(most, std::abs(static_cast<double>(a.data[i]) - b.data[i]));
  return most;
}

// `most`: of the largest output.
void expect_close(const std::string& precision, const std::vector<std::string>& on, double most) {
  std::mt19937 random(1);
  const Tensor x = random_tensor(random, {2, 3, 28, 28});
  const std::string model = image_model();
  const Tensor expected = run(model, x, {.target = "host-baseline"});
  for (const std::string& target : on) {
    SCOPED_TRACE(target);
    const Tensor actual = run(model, x, {.target = target, .precision = precision});
    const double difference = greatest_difference(actual, expected);
    EXPECT_LE(difference, most * greatest(expected));
    EXPECT_GT(difference, 1e-5 * greatest(expected)) << "nothing was rounded";
    const Tensor interpreted = run(model, x, {.target = target, .backend = "interp", .precision = precision});
    EXPECT_EQ(greatest_difference(interpreted, actual), 0);
    const Tensor one_thread = run(model, x, {.target = target, .threads = 1, .precision = precision});
    EXPECT_EQ(greatest_difference(one_thread, actual), 0);
  }
}

TEST(Precision, OfImagesIsCloseToFloat32AndTheInterpreterAgrees) {
  expect_close("bf16", targets(), 0.02);
  expect_close("fp16", runnable_targets(), 0.0025);
}

// Gelu and SiLU between products, which CPUs with tables in registers compute in pieces.
TEST(Precision, OfFunctionsBetweenProductsIsCloseToFloat32AndTheInterpreterAgrees) {
  OnnxBuilder b("bf16_functions", 3);
  const std::string x = b.input("x", DType::kF32, {"N", int64_t{48}});
  std::string y = b.op("MatMul", {x, b.weight({48, 70}, 0.3)});
  const std::string erf = b.op("Erf", {b.op("Div", {y, b.scalar(1.41421354f)})});
  y = b.op("Mul", {b.op("Mul", {y, b.op("Add", {erf, b.scalar(1)})}), b.scalar(0.5f)});
  y = b.op("MatMul", {y, b.weight({70, 40}, 0.3)});
  y = b.op("Mul", {y, b.op("Sigmoid", {y})});
  b.output(b.op("MatMul", {y, b.weight({40, 33}, 0.3)}), "y", DType::kF32, {"N", int64_t{33}});
  const std::string model = temporary_path("bf16_functions.onnx");
  ASSERT_TRUE(b.save(model).ok());
  std::mt19937 random(4);
  const Tensor values = random_tensor(random, {37, 48}, -6, 6);
  const Tensor expected = run(model, values, {.target = "host-baseline"});
  for (const std::string& target : targets()) {
    SCOPED_TRACE(target);
    const Tensor actual = run(model, values, {.target = target, .precision = "bf16"});
    EXPECT_LE(greatest_difference(actual, expected), 0.02 * greatest(expected));
    const Tensor interpreted = run(model, values, {.target = target, .backend = "interp", .precision = "bf16"});
    EXPECT_EQ(greatest_difference(interpreted, actual), 0);
  }
}

// float16 has no exponents for them; float32 and bfloat16 have.
TEST(Precision, WeightsBeyondFloat16StayFloat32) {
  OnnxBuilder b("fp16_range", 3);
  const std::string x = b.input("x", DType::kF32, {int64_t{1}, int64_t{2}});
  b.output(b.op("MatMul", {x, b.initializer(models::TensorData::of<float>(DType::kF32, {2, 1}, {70000.0f, 1.0f}))}),
           "y", DType::kF32, {int64_t{1}, int64_t{1}});
  const std::string model = temporary_path("fp16_range.onnx");
  ASSERT_TRUE(b.save(model).ok());
  EXPECT_EQ(run(model, Tensor{{1, 2}, {1, 3}}, {.target = "host-baseline", .precision = "fp16"}).data.at(0), 70003.0f);
}

// The sums: the two ways differ by the order of each pair alone, some units in the last place of float32.
TEST(Precision, OfProductsIsTheSameOnAllTargetsButForTheOrderOfPairs) {
  if (!cpu_has_bf16()) GTEST_SKIP() << "this CPU has no dot products of bfloat16";
  std::mt19937 random(2);
  constexpr int64_t kDepth = 514;
  const Tensor x = random_tensor(random, {37, kDepth});
  const std::string model = product_model(kDepth);
  const Tensor dots = run(model, x, {.target = "host-avx512-bf16", .precision = "bf16"});
  const Tensor widened = run(model, x, {.target = "host-avx2", .precision = "bf16"});
  const Tensor wide = run(model, x, {.target = "host-avx2"});
  EXPECT_LE(greatest_difference(dots, widened), 2e-6 * greatest(widened));
  EXPECT_GT(greatest_difference(dots, widened), 0);
  EXPECT_GT(greatest_difference(dots, wide), 100 * greatest_difference(dots, widened));
}

// What a denormal product adds is lost where the instruction is, and kept where it is not.
TEST(Precision, DenormalProductsAreZeroWithTheInstructionOnly) {
  if (!cpu_has_bf16()) GTEST_SKIP() << "this CPU has no dot products of bfloat16";
  OnnxBuilder b("bf16_denormal", 3);
  const std::string x = b.input("x", DType::kF32, {int64_t{1}, int64_t{2}});
  b.output(b.op("MatMul", {x, b.initializer(models::TensorData::of<float>(DType::kF32, {2, 1}, {0x1p-70f, 0x1p-70f}))}),
           "y", DType::kF32, {int64_t{1}, int64_t{1}});
  const std::string model = temporary_path("bf16_denormal.onnx");
  ASSERT_TRUE(b.save(model).ok());
  const Tensor tiny{{1, 2}, {0x1p-60f, 0x1p-60f}};
  EXPECT_EQ(run(model, tiny, {.target = "host-avx512-bf16", .precision = "bf16"}).data.at(0), 0.0f);
  EXPECT_EQ(run(model, tiny, {.target = "host-avx2", .precision = "bf16"}).data.at(0), 0x1p-129f);
}

}  // namespace
}  // namespace aipu::test
