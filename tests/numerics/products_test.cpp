// Products of matrices whose loops depend on how large they are: deep ones in parts of the depth, single rows that read
// several panels together, right operands that come from memory, narrow last panels. Beside oneDNN, and to the bit between gcc, clang, the
// interpreter and numbers of threads.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/numerics/random_models.h"

namespace aipu::test {
namespace {

struct Layer {
  int64_t depth, columns;
  bool is_long = false;   // of its epilogue, which goes through memory then
  bool residual = false;  // whose memory the sum takes over
};

// relu(x * w + bias), or with what the layer says instead; of a number of rows that only the inputs tell.
void add_layer(OnnxBuilder& b, const Layer& layer) {
  const std::string x = b.input("x", DType::kF32, {"N", layer.depth});
  std::string y = b.op("MatMul", {x, b.weight({layer.depth, layer.columns}, 0.05)});
  y = b.op("Add", {y, b.weight({layer.columns}, 1)});
  if (layer.residual) y = b.op("Add", {y, b.op("Mul", {b.input("r", DType::kF32, {"N", layer.columns}), b.scalar(2)})});
  y = b.op(layer.is_long ? "Tanh" : "Relu", {y});
  b.output(y, "y", DType::kF32, {"N", layer.columns});
}

void check(const std::string& name, const Layer& layer, const std::vector<int64_t>& row_counts) {
  const auto runnable = runnable_targets();
  std::vector<std::string> targets;
  for (const char* target : {"host-avx512", "host-avx2"}) {
    if (std::find(runnable.begin(), runnable.end(), target) != runnable.end()) targets.push_back(target);
  }
  OnnxBuilder b(name, 3);
  add_layer(b, layer);
  const std::string path = temporary_path(name + ".reference.onnx");
  ASSERT_TRUE(b.save(path).ok());
  std::mt19937 random(5);
  for (const int64_t rows : row_counts) {
    SCOPED_TRACE(name + " of " + std::to_string(rows) + " rows");
    std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, {rows, layer.depth})}};
    if (layer.residual) inputs["r"] = random_tensor(random, {rows, layer.columns});
    const auto expected = run_reference(path, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    expect_everywhere(b, {name, inputs, *expected, 1e-4}, targets);
    for (const std::string& target : targets) {
      const auto alone = run_road(path, inputs, {.target = target, .threads = 1});
      const auto shared = run_road(path, inputs, {.target = target, .threads = 3});
      ASSERT_TRUE(alone.ok() && shared.ok()) << alone.status().message() << shared.status().message();
      expect_close(shared->at("y"), alone->at("y"), 0, 0, target + ", three threads");
    }
  }
}

// Parts of equal depth and a shorter last one; blocks of rows that are few, one and several; more panels than a part
// has; the last columns and the last rows short.
TEST(Products, DeepOnesInParts) {
  check("deep", {.depth = 2560, .columns = 70}, {1, 50, 230});
  check("deeper", {.depth = 2611, .columns = 790, .residual = true}, {61});
  check("deepest", {.depth = 3072, .columns = 33, .is_long = true}, {75});
}

TEST(Products, OfOneRow) {
  for (const int64_t columns : {7, 128, 131, 10 * 32 + 4})
    check("row" + std::to_string(columns), {.depth = 45, .columns = columns, .is_long = columns % 2 == 0}, {1});
}

// Half of the last panel or more has no columns.
TEST(Products, WhoseLastPanelIsNarrow) {
  check("narrow", {.depth = 45, .columns = 72, .residual = true}, {1, 60});
  check("narrower", {.depth = 30, .columns = 65, .is_long = true}, {43});
  check("seven", {.depth = 64, .columns = 112}, {9});
}

// A batch of rows, each with its own right operand.
TEST(Products, OfOneRowInBatches) {
  OnnxBuilder b("rows", 1);
  const std::string x = b.input("x", DType::kF32, {3, 2, "N", 20});
  b.output(b.op("MatMul", {x, b.weight({2, 20, 150}, 0.3)}), "y", DType::kF32, {3, 2, "N", 150});
  const std::string path = temporary_path("rows.onnx");
  ASSERT_TRUE(b.save(path).ok());
  std::mt19937 random(6);
  const std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, {3, 2, 1, 20})}};
  const auto expected = run_reference(path, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  expect_on_targets(path, inputs, *expected, 1e-4, 1e-4, true);
}

TEST(Products, OfFewRowsByLargeRightOperands) { check("large", {.depth = 1100, .columns = 2000}, {1, 8, 60}); }

}  // namespace
}  // namespace aipu::test
