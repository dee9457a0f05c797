// Attention with --precision bf16: products of bfloat16 (PAIRS of templates/attention.py) against double sums of the
// same rounded operands, for odd keys and depths, all masks, keys of either order, with one thread and two, and under
// the interpreter. And what stays float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "runtime/base/half.h"
#include "tests/numerics/attention_cases.h"

namespace aipu::test {
namespace {

using models::OnnxBuilder;
using models::TensorData;

const RoadOptions kPairs = {.target = "host-avx512-bf16", .precision = "bf16"};

float rounded(float x) { return f32_from_bf16(bf16_from_f32(x)); }

// What the kernel multiplies: scaled queries, keys and values, as bfloat16.
AttentionOperands rounded_operands(const AttentionCase& c, AttentionOperands o) {
  const auto number = static_cast<float>(c.scale);
  const float scale = c.scale == 0 ? 1 : c.divide ? static_cast<float>(1 / static_cast<double>(number)) : number;
  for (float& x : o.q.data) x = rounded(x * scale);
  for (Tensor* tensor : {&o.k, &o.v})
    for (float& x : tensor->data) x = rounded(x);
  return o;
}

Tensor as_stored(const AttentionCase& c, const Tensor& x) { return c.transposed ? swapped(x) : x; }

double greatest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  double most = 0;
  for (size_t i = 0; i < std::min(a.data.size(), b.data.size()); ++i) {
    const double difference = std::abs(static_cast<double>(a.data[i]) - b.data[i]);
    if (!std::isnan(difference)) most = std::max(most, difference);
  }
  return most;
}

Tensor run(const std::string& path, const std::map<std::string, Tensor>& inputs, const RoadOptions& options) {
  const auto outputs = run_road(path, inputs, options);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? outputs->at("y") : Tensor{};
}

// An exponential is rounded by at most 2^-8 of itself, their sum is not: of the sum of weights times magnitudes of
// values a result is off by that, and by what float32 sums are.
void expect_rounded(const AttentionCase& c, const AttentionOperands& o, const Tensor& actual) {
  AttentionCase plain = c;
  plain.scale = 0;
  AttentionOperands operands = rounded_operands(c, o);
  const Tensor expected = as_stored(c, reference(plain, operands));
  for (float& x : operands.v.data) x = std::abs(x);
  const Tensor magnitude = as_stored(c, reference(plain, operands));
  ASSERT_EQ(actual.shape, expected.shape);
  for (size_t i = 0; i < actual.data.size(); ++i) {
    const double a = actual.data[i], e = expected.data[i];
    if (std::isnan(a) && std::isnan(e)) continue;
    ASSERT_LE(std::abs(a - e), 0x1p-8 * magnitude.data[i] + 2e-5) << "element " << i << " is " << a << ", not " << e;
  }
}

void check(const AttentionCase& c, unsigned seed) {
  SCOPED_TRACE(text(c));
  std::mt19937 random(seed);
  const AttentionOperands o = random_operands(c, random);
  const std::string path = temporary_path("attention_bf16_" + std::to_string(seed) + ".onnx");
  const auto inputs = save_model(c, o, path);
  ASSERT_EQ(count_groups(path, "attention", "", kPairs), 1);
  const Tensor two = run(path, inputs, kPairs);
  expect_rounded(c, o, two);
  RoadOptions options = kPairs;
  options.threads = 1;
  expect_close(run(path, inputs, options), two, 0, 0, "one thread");
  options.backend = "interp";
  expect_close(run(path, inputs, options), two, 0, 0, "interpreter");
  const Tensor wide = run(path, inputs, {.target = kPairs.target});
  EXPECT_GT(greatest_difference(two, wide), 1e-6) << "nothing was rounded";
}

class AttentionOfPairs : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_has_bf16()) GTEST_SKIP() << "this CPU has no dot products of bfloat16";
  }
};

TEST_F(AttentionOfPairs, EveryFormOfMaskAndScale) {
  unsigned seed = 1;
  check({2, 3, 33, 33, 20, 20, "none", {}, 0.25}, seed++);
  check({2, 2, 37, 37, 17, 16, "add", {2, 1, 1, 37}, 4, true}, seed++);
  check({1, 2, 40, 40, 24, 9, "add", {40, 40}, 0}, seed++);
  check({2, 2, 19, 19, 8, 8, "add", {2, 2, 19, 19}, 0.3}, seed++);
  check({1, 2, 21, 21, 8, 8, "add", {21, 1}, 0.3}, seed++);
  check({2, 1, 45, 45, 12, 12, "keep", {1, 1, 45, 45}, 3, true}, seed++);
  check({1, 3, 19, 19, 13, 12, "drop", {1, 1, 1, 19}, 0}, seed++);
}

TEST_F(AttentionOfPairs, OddKeysAndDepths) {
  unsigned seed = 20;
  check({1, 2, 20, 1, 1, 1, "none", {}, 0}, seed++);
  check({1, 2, 20, 3, 31, 33, "none", {}, 0.2}, seed++);
  check({1, 2, 34, 2, 33, 31, "none", {}, 0.2}, seed++);
  check({2, 3, 49, 49, 32, 32, "add", {1, 3, 49, 49}, 0.18}, seed++);
  check({1, 1, 17, 77, 65, 64, "none", {}, 0.125}, seed++);
}

// Blocks of keys are even but for the last one; maxima grow from one to the next.
TEST_F(AttentionOfPairs, MoreKeysThanABlock) {
  unsigned seed = 40;
  check({1, 1, 17, 300, 7, 33, "none", {}, 0, false, true, false, false, 30}, seed++);
  check({1, 1, 17, 257, 6, 5, "none", {}, 0, false, true, false, false, 30}, seed++);
  check({1, 2, 131, 131, 5, 3, "add", {131, 131}, 0.5, false, true, false, true}, seed++);
  check({1, 1, 197, 197, 64, 64, "none", {}, 0.125}, seed++);
  check({1, 1, 129, 129, 32, 32, "add", {1, 1, 129, 129}, 0.5, false, false, false, true, 20}, seed++);
}

TEST_F(AttentionOfPairs, KeysWhoseChannelsAreApart) {
  unsigned seed = 60;
  for (const int64_t depth : {1, 16, 33}) {
    AttentionCase c{2, 2, 35, 35, depth, 18, "none", {}, 0.5, false, false};
    c.keys_last = true;
    check(c, seed++);
    c.keys = 150;
    check(c, seed++);
  }
}

TEST_F(AttentionOfPairs, SymbolicExtents) {
  unsigned seed = 80;
  check({3, 2, 23, 23, 18, 18, "none", {}, 0.5, false, true, true}, seed++);
  check({2, 3, 16, 41, 19, 18, "none", {}, 0.5, false, true, true}, seed++);
  check({1, 2, 50, 21, 18, 18, "none", {}, 0.5, false, false, true}, seed++);
}

// Of no keys the second product is a sum of nothing.
TEST_F(AttentionOfPairs, WithoutKeysResultsAreZero) {
  const AttentionCase c{1, 2, 20, 0, 8, 8, "none", {}, 0.3, false, false, true};
  std::mt19937 random(11);
  const AttentionOperands o = random_operands(c, random);
  const std::string path = temporary_path("attention_bf16_no_keys.onnx");
  const auto inputs = save_model(c, o, path);
  expect_close(run(path, inputs, kPairs), Tensor{{1, 2, 20, 8}, std::vector<float>(320)}, 0, 0, "y");
}

// A step's few queries are left to attention_step.py.
TEST_F(AttentionOfPairs, FewQueriesStayFloat32) {
  const AttentionCase c{1, 2, 4, 50, 16, 16, "none", {}, 0.3};
  std::mt19937 random(12);
  const AttentionOperands o = random_operands(c, random);
  const std::string path = temporary_path("attention_bf16_few.onnx");
  const auto inputs = save_model(c, o, path);
  expect_close(run(path, inputs, kPairs), run(path, inputs, {.target = kPairs.target}), 0, 0, "y");
}

// A rule for either product, or for all nodes.
TEST_F(AttentionOfPairs, RulesKeepItFloat32) {
  const AttentionCase c{1, 2, 33, 33, 16, 16, "none", {}, 0.3};
  std::mt19937 random(13);
  const AttentionOperands o = random_operands(c, random);
  const std::string path = temporary_path("attention_bf16_rules.onnx");
  const auto inputs = save_model(c, o, path);
  const Tensor wide = run(path, inputs, {.target = kPairs.target}), narrow = run(path, inputs, kPairs);
  ASSERT_GT(greatest_difference(wide, narrow), 1e-6);
  const auto with_rule = [&](const std::string& rule, const std::string& otherwise) {
    RoadOptions options = kPairs;
    options.precision = otherwise;
    options.precision_file = temporary_path("attention_bf16_rules.txt");
    std::ofstream(options.precision_file) << rule << "\n";
    return run(path, inputs, options);
  };
  for (const char* rule : {"* fp32", "/MatMul fp32", "/MatMul_1 fp32"})
    expect_close(with_rule(rule, "bf16"), wide, 0, 0, rule);
  expect_close(with_rule("/Softmax fp32", "bf16"), narrow, 0, 0, "of another node");
  expect_close(with_rule("/MatMul* bf16", "fp32"), narrow, 0, 0, "asked for by the rule alone");
}

// Before a product of bfloat16 the result is stored as such: by the identity matrix that is all of it.
TEST(AttentionBeforeProducts, ResultsAreStoredAsTheProductReadsThem) {
  std::vector<std::string> targets = runnable_targets();
  if (cpu_has_bf16()) targets.push_back(kPairs.target);
  for (const bool transposed : {true, false}) {
    const AttentionCase c{2, 3, 37, 37, 20, 20, "none", {}, 0.25, false, transposed};
    std::mt19937 random(14);
    const AttentionOperands o = random_operands(c, random);
    const std::string path = temporary_path("attention_bf16_before.onnx");
    const auto inputs = save_model(c, o, path);
    OnnxBuilder b("attention_projected", 3);
    std::string y;
    add_attention(b, c, o, &y);
    const int64_t width = transposed ? c.heads * c.channels : c.channels;
    if (transposed) y = b.op("Reshape", {y, b.ints({0, 0, width})});
    std::vector<float> identity(static_cast<size_t>(width * width));
    for (int64_t i = 0; i < width; ++i) identity[static_cast<size_t>(i * width + i)] = 1;
    b.node_to("MatMul", {y, b.initializer(TensorData::of<float>(DType::kF32, {width, width}, identity))}, {"y"});
    b.output("y");
    const std::string projected = temporary_path("attention_bf16_projected.onnx");
    ASSERT_TRUE(b.save(projected).ok());
    for (const std::string& target : targets) {
      SCOPED_TRACE(target);
      const RoadOptions options = {.target = target, .precision = "bf16"};
      EXPECT_EQ(count_groups(projected, "attention", "Cast", options), 1);
      Tensor expected = run(path, inputs, options);
      for (float& x : expected.data) x = rounded(x);
      Tensor actual = run(projected, inputs, options);
      actual.shape = expected.shape;
      expect_close(actual, expected, 0, 0, "y");
    }
  }
}

}  // namespace
}  // namespace aipu::test
