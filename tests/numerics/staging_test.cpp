// Operands that go through the local memory of TECs, for every way in which one may walk the index space: the NPU, the
// interpreter (which copies only when a copy is waited for) and a host agree to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::OnnxBuilder;

void expect_same(OnnxBuilder& b, const std::string& name, const std::map<std::string, Tensor>& inputs) {
  const std::string path = temporary_path(name + ".onnx");
  ASSERT_TRUE(b.save(path).ok());
  const auto expected = run_road(path, inputs, {.target = "host-baseline"});
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const char* backend : {"", "interp"}) {
    const auto actual = run_road(path, inputs, {.target = "X2_1204", .backend = backend});
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    for (const auto& [output, tensor] : *expected)
      expect_close(actual->at(output), tensor, 0, 0, name + ", " + output + " " + backend);
  }
}

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

}  // namespace
}  // namespace aipu::test
