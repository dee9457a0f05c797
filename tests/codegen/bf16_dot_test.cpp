// S.vdpbf16 and S.vbfdot: what they become on each target agrees with the interpreter to the bit, where sums round,
// cancel, are tiny or not finite too.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "codegen/lower/lower.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "tests/codegen/cc_run.h"

namespace aipu::tir::testing {
namespace {

constexpr int kVectors = 4096, kLanes = 16;
constexpr size_t kSums = size_t{kVectors} * kLanes;

constexpr const char* kFused = "S.vdpbf16<float32x16>(load(acc#2, i#4), load(x#0, i#4), load(y#1, i#4))";
constexpr const char* kToOdd = "S.vbfdot<float32x16>(load(acc#2, i#4), load(x#0, i#4), load(y#1, i#4))";
constexpr const char* kToOddOfAPair = "S.vbfdot<float32x16>(load(acc#2, i#4), load(x#0, i#4), load(y#1, i#4), .lane=2)";

Result<Module> dots(const char* dot) {
  return parse_module(
      std::string(
          R"(func dot(x#0: global bfloat16x32*, y#1: global bfloat16x32*, acc#2: global float32x16*, out#3: global float32x16*) -> void {
  for serial i#4: int32 = 0 to 4096 step 1 {
    store out#3[i#4] = )") +
      dot + "\n  }\n}\n");
}

struct Operands {
  std::vector<uint16_t> x = std::vector<uint16_t>(2 * kSums), y = std::vector<uint16_t>(2 * kSums);
  std::vector<float> acc = std::vector<float>(kSums), out = std::vector<float>(kSums);

  void set(size_t i, float sum, float x0, float x1, float y0, float y1) {
    acc[i] = sum;
    const float values[] = {x0, x1, y0, y1};
    for (size_t k = 0; k < 2; ++k) {
      x[2 * i + k] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[k]) >> 16);
      y[2 * i + k] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[2 + k]) >> 16);
    }
  }

  std::vector<float> interpreted(const Module& module) {
    const auto bytes = [](auto& v) { return v.size() * sizeof(v[0]); };
    const Status status = interpret_all(
        module, 1,
        std::vector<InterpreterArgument>{{reinterpret_cast<std::byte*>(x.data()), bytes(x), 0, true},
                                         {reinterpret_cast<std::byte*>(y.data()), bytes(y), 0, true},
                                         {reinterpret_cast<std::byte*>(acc.data()), bytes(acc), 0, true},
                                         {reinterpret_cast<std::byte*>(out.data()), bytes(out), 0, true}});
    EXPECT_TRUE(status.ok()) << status.message();
    return out;
  }

  std::vector<float> compiled(const LoadedModule& module) {
    module.run(module.table()->kernels[0],
               {reinterpret_cast<uint64_t>(x.data()), reinterpret_cast<uint64_t>(y.data()),
                reinterpret_cast<uint64_t>(acc.data()), reinterpret_cast<uint64_t>(out.data())});
    return out;
  }
};

// Numbers of any bits, and of exponents that meet: in the middle of the range and where products are about 2^-126.
Operands random_operands() {
  Operands o;
  std::mt19937 random(7);
  const auto factor = [&](int exponent) {
    return static_cast<uint16_t>((random() & 0x807f) | static_cast<uint32_t>(exponent + static_cast<int>(random() % 8))
                                                           << 7);
  };
  for (size_t i = 0; i < kSums; ++i) {
    const int exponent = i % 4 == 1 ? 120 : i % 4 == 2 ? 60 : i % 4 == 3 ? 50 : 0;
    for (std::vector<uint16_t>* v : {&o.x, &o.y}) {
      for (const size_t k : {2 * i, 2 * i + 1})
        (*v)[k] = exponent == 0 ? static_cast<uint16_t>(random()) : factor(exponent);
    }
    const auto sum = static_cast<uint32_t>(std::max(2 * exponent - 127, 0) + static_cast<int>(random() % 16));
    const auto any = static_cast<uint32_t>(random());
    o.acc[i] = std::bit_cast<float>(exponent == 0 ? any : (any & 0x807fffff) | sum << 23);
  }
  // About the least normal number, one product each way.
  for (size_t i = 0; i < 64; ++i) {
    const float little = std::ldexp(i % 2 == 0 ? -1.0f : -1.5f, -80 - static_cast<int>(i / 8));
    const uint16_t narrow = static_cast<uint16_t>(std::bit_cast<uint32_t>(little) >> 16), scale = 0x1e80;  // 2^-66
    o.acc[i] = 0x1p-126f;
    o.x[2 * i] = o.x[2 * i + 1] = i % 4 < 2 ? narrow : 0;
    o.y[2 * i] = i % 8 < 4 ? scale : 0;
    o.y[2 * i + 1] = i % 8 < 4 ? 0 : scale;
  }
  return o;
}

size_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    count += !both_nan && std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) ? 1 : 0;
  }
  return count;
}

class Bf16Dots : public ::testing::TestWithParam<const char*> {};

TEST_P(Bf16Dots, AgreeWithTheInterpreter) {
  const auto module = dots(GetParam());
  ASSERT_TRUE(module.ok()) << module.status().message();
  Operands operands = random_operands();
  const std::vector<float> expected = operands.interpreted(*module);
  for (const char* name : {"host-avx512-bf16", "host-avx512", "host-avx2", "host-baseline", "X2_1204"}) {
    const Target target = *find_target(name);
    if (!cpu_runs(target)) continue;
    const Result<Module> lowered = lower(*module, target);
    ASSERT_TRUE(lowered.ok()) << lowered.status().message();
    for (const char* compiler : {"g++", "clang++"}) {
      CompileOptions options;
      options.compiler = compiler_path(compiler);
      if (options.compiler.empty()) continue;
      const Result<CompiledModule> compiled =
          compile_kernels(std::vector<KernelSource>{{"dot", *lowered}}, target, options);
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      const LoadedModule loaded(compiled->shared_object);
      ASSERT_EQ(loaded.error(), "");
      EXPECT_EQ(differing(operands.compiled(loaded), expected), 0u) << name << " " << compiler;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Bf16Dots, ::testing::Values(kFused, kToOdd, kToOddOfAPair));

// What the rows of the table say, by examples whose results are known.
TEST(Bf16Dot, AddsTheOddProductFirstAndFlushesTinySums) {
  const auto module = dots(kFused);
  ASSERT_TRUE(module.ok()) << module.status().message();
  Operands o;
  const auto set = [&](auto... values) { o.set(values...); };
  set(0, 0x1p24f, 0x1p24f, 1, -1, 1);            // (2^24 + 1) - 2^24: the odd product is lost first
  set(1, 0, 0x1p24f, 1, 1, 1);                   // 1 + 2^24
  set(2, 0x1p-140f, 1, 0, 0, 0);                 // a denormal sum
  set(3, 1, 0x1p-130f, 0, 0x1p127f, 0);          // a denormal factor
  set(4, 0x1p-126f, 0x1p-75f, 0, -0x1p-75f, 0);  // 2^-126 - 2^-150: tiny
  set(5, 0x1p-126f, 0x1p-75f, 0, -0x1p-76f, 0);  // 2^-126 - 2^-151 rounds to 2^-126
  set(6, -0x1p-140f, 0, 0, 0, 0);                // -0 + 0
  const std::vector<float> out = o.interpreted(*module);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 0x1p24f);
  EXPECT_EQ(out[2], 0.0f);
  EXPECT_EQ(out[3], 1.0f);
  EXPECT_EQ(out[4], 0.0f);
  EXPECT_EQ(out[5], 0x1p-126f);
  EXPECT_FALSE(std::signbit(out[6]));
}

TEST(Bf16Dot, ToOddSumsBothProductsFirstAndSetsTheLastBit) {
  const auto module = dots(kToOdd);
  ASSERT_TRUE(module.ok()) << module.status().message();
  Operands o;
  o.set(0, 1, 0x1p24f, 1, -1, 1);                // 2^24 + 1 takes 25 bits: the sum of products is -(2^24 - 1) + 1
  o.set(1, 1, 0x1p-40f, 0, 1, 0);                // 1 + 2^-40: just above 1, the last bit is set
  o.set(2, 1, -0x1p-40f, 0, 1, 0);               // just below 1: the cut one has its last bit set
  o.set(3, 0x1p-140f, 1, 0, 0, 0);               // a denormal sum
  o.set(4, 0, 0x1p-70f, 0, 0x1p-60f, 0);         // a product of 2^-130
  o.set(5, 0, 0x1p127f, 0x1p127f, 1, 1);         // 2^128
  o.set(6, -0.0f, -0.0f, -0.0f, 1, 1);           // zeros of one sign
  o.set(7, 1, -1, 0, 1, 0);                      // cancels
  o.set(8, 0, INFINITY, -INFINITY, 1, 1);        // no number
  o.set(9, 0x1.fffffep127f, 0x1p100f, 0, 1, 0);  // beyond the greatest number, but below 2^128: cut off
  const std::vector<float> out = o.interpreted(*module);
  EXPECT_EQ(out[0], -0x1.fffffcp23f);
  EXPECT_EQ(out[1], 0x1.000002p0f);
  EXPECT_EQ(out[2], 0x1.fffffep-1f);
  EXPECT_EQ(out[3], 0.0f);
  EXPECT_EQ(out[4], 0.0f);
  EXPECT_EQ(out[5], INFINITY);
  EXPECT_TRUE(out[6] == 0 && std::signbit(out[6]));
  EXPECT_TRUE(out[7] == 0 && !std::signbit(out[7]));
  EXPECT_TRUE(std::isnan(out[8]));
  EXPECT_EQ(out[9], 0x1.fffffep127f);
}

// The pair of y is that of the lane among each four.
TEST(Bf16Dot, OfALaneTakesOnePairForFourSums) {
  const auto module = dots(kToOddOfAPair);
  ASSERT_TRUE(module.ok()) << module.status().message();
  Operands o;
  for (size_t i = 0; i < 8; ++i) o.set(i, 0, 1, 0, static_cast<float>(i), 0);
  const std::vector<float> out = o.interpreted(*module);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(out[i], i < 4 ? 2.0f : 6.0f) << i;
}

}  // namespace
}  // namespace aipu::tir::testing
