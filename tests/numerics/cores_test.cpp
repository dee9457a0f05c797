// A launch on a target with several cores is shared by the TECs of all of them; what meets at barriers stays in one.
#include <gtest/gtest.h>

#include <array>

#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::OnnxBuilder;

// The same bytes on one core, on several and by the interpreter; gives the cycles on one core and on `target`.
void compare(const OnnxBuilder& b, const std::string& name, const std::map<std::string, Tensor>& inputs,
             const std::string& target, std::array<int64_t, 2>* cycles) {
  const std::string path = temporary_path(name + ".onnx");
  ASSERT_TRUE(b.save(path).ok());
  const std::string one_core = target.substr(0, target.find("MP"));
  const auto expected = run_road(path, inputs, {.target = one_core, .backend = "interp", .cycles = &(*cycles)[0]});
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  const auto counted = run_road(path, inputs, {.target = target, .backend = "interp", .cycles = &(*cycles)[1]});
  ASSERT_TRUE(counted.ok()) << counted.status().message();
  const auto native = run_road(path, inputs, {.target = target});
  ASSERT_TRUE(native.ok()) << native.status().message();
  for (const auto& [output, tensor] : *expected) {
    expect_close(counted->at(output), tensor, 0, 0, name + " by interp");
    expect_close(native->at(output), tensor, 0, 0, name + " by x2");
  }
}

TEST(Cores, ConvolutionsAreShared) {
  std::mt19937 random(1);
  OnnxBuilder b("net", 1);
  auto x = b.input("x", DType::kF32, {"N", 16, 24, 24});
  x = b.relu(b.conv(x, 16, 32, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  x = b.max_pool(x, 2, 2);
  b.output(b.relu(b.conv(x, 32, 32, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}})), "y", DType::kF32, {"N", 32, 12, 12});
  const std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, {6, 16, 24, 24})}};
  std::array<int64_t, 2> cycles = {};
  compare(b, "cores", inputs, "X2_1204MP3", &cycles);
  EXPECT_LE(static_cast<double>(cycles[1]), 0.40 * static_cast<double>(cycles[0])) << cycles[0] << " and " << cycles[1];
  compare(b, "cores", inputs, "X3P_1304MP2", &cycles);
  EXPECT_LE(static_cast<double>(cycles[1]), 0.60 * static_cast<double>(cycles[0])) << cycles[0] << " and " << cycles[1];
}

TEST(Cores, WhatMeetsAtBarriersStaysInOne) {
  std::mt19937 random(2);
  OnnxBuilder b("states", 2);
  const auto x = b.input("x", DType::kF32, {5, 4, 12});
  b.output(b.op("LSTM", {x, b.weight({1, 128, 12}, 0.1, "w"), b.weight({1, 128, 32}, 0.1, "r")}, {{"hidden_size", 32}}),
           "y", DType::kF32, {5, 1, 4, 32});
  std::array<int64_t, 2> cycles = {};
  compare(b, "states", {{"x", random_tensor(random, {5, 4, 12})}}, "X2_1204MP3", &cycles);
  EXPECT_LE(cycles[1], cycles[0]);
}

}  // namespace
}  // namespace aipu::test
