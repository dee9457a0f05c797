// The dot products that quantised kernels and those of float16 are made of: what they become on each target agrees with
// the interpreter, at the ends of the ranges too.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "codegen/lower/lower.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "tests/codegen/cc_run.h"

namespace aipu::tir::testing {
namespace {

// ACC, X, Y: vector types; CALL: the intrinsic.
constexpr const char* kDot =
    R"(func dot(x#0: global X*, y#1: global Y*, acc#2: global ACC*, m#3: global MASK*, out#4: global ACC*) -> void {
  for serial i#5: int32 = 0 to 64 step 1 {
    store out#4[(i#5 * 2)] = S.NAME<ACC>(load(acc#2, i#5), load(x#0, i#5), load(y#1, i#5)WRAP)
    store out#4[((i#5 * 2) + 1)] = S.NAME<ACC>(load(acc#2, i#5), load(x#0, i#5), load(y#1, i#5), mask=(load(m#3, i#5) != broadcast<LANES>(0:ELEMENT))WRAP)
  }
}
)";

std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& words) {
  for (const auto& [word, by] : words) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += by.size())
      text.replace(at, word.size(), by);
  }
  return text;
}

struct Case {
  const char *name, *x, *y;
  int group;  // elements of x beside one of the accumulator
  bool wrap;
  const char* accumulator = "int32";
};

// Bytes as halves, which are neither infinite nor NaN.
void make_finite(std::vector<std::byte>* halves) {
  for (size_t at = 1; at < halves->size(); at += 2) {
    constexpr std::byte kExponent{0x7c}, kLowest{0x04};
    if (((*halves)[at] & kExponent) == kExponent) (*halves)[at] ^= kLowest;
  }
}

TEST(DotProducts, AgreeWithTheInterpreter) {
  constexpr Case kCases[] = {
      {"vqdpa", "uint8", "int8", 4, false}, {"vqdpa", "int8", "uint8", 4, false},
      {"vqdpa", "int8", "int8", 4, false},  {"vqdpa", "uint8", "uint8", 4, false},
      {"vdpa", "int16", "int16", 2, false}, {"vdpa", "int16", "int16", 2, true},
      {"vdpa", "uint16", "int16", 2, true}, {"vqdpa", "float16", "float16", 2, false, "float32"}};
  for (const char* target_name : {"host-avx512-vnni", "host-avx512", "host-avx2", "host-baseline", "X2_1204"}) {
    const Target target = *find_target(target_name);
    if (!cpu_runs(target)) continue;
    std::vector<KernelSource> kernels;
    std::vector<Module> originals;
    std::vector<int> widths;
    std::vector<bool> are_floats;
    for (const Case& c : kCases) {
      for (const int lanes : {8, 16}) {  // of the accumulator: 256 and 512 bits
        const std::string element = c.group == 4 ? "int8" : "int16", n = std::to_string(lanes),
                          wide = std::to_string(lanes * c.group);
        const auto module = parse_module(replaced(kDot, {{"ACC", std::string(c.accumulator) + "x" + n},
                                                         {"X", std::string(c.x) + "x" + wide},
                                                         {"Y", std::string(c.y) + "x" + wide},
                                                         {"MASK", element + "x" + wide},
                                                         {"NAME", c.name},
                                                         {"LANES", wide},
                                                         {"ELEMENT", element},
                                                         {"WRAP", c.wrap ? ", .wrap=1" : ""}}));
        ASSERT_TRUE(module.ok()) << module.status().message();
        const Result<Module> lowered = lower(*module, target);
        ASSERT_TRUE(lowered.ok()) << lowered.status().message();
        originals.push_back(*module);
        kernels.push_back({std::string(c.name) + std::to_string(kernels.size()), *lowered});
        widths.push_back(lanes);
        are_floats.push_back(std::string_view(c.accumulator) == "float32");
      }
    }
    for (const char* compiler : {"g++", "clang++"}) {
      CompileOptions options;
      options.compiler = compiler_path(compiler);
      if (options.compiler.empty()) continue;
      const Result<CompiledModule> compiled = compile_kernels(kernels, target, options);
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      const LoadedModule loaded(compiled->shared_object);
      ASSERT_EQ(loaded.error(), "");
      for (size_t k = 0; k < kernels.size(); k++) {
        SCOPED_TRACE(std::string(target_name) + " " + compiler + " " + originals[k].entry().name + std::to_string(k));
        const size_t vector = static_cast<size_t>(widths[k]) * 4, bytes = 64 * vector;
        std::vector<std::byte> x(bytes), y(bytes), mask(bytes), acc(bytes), expected(2 * bytes), actual(2 * bytes);
        std::mt19937 random(static_cast<unsigned>(k));
        for (std::vector<std::byte>* operand : {&x, &y, &mask}) {
          for (std::byte& byte : *operand) {
            constexpr uint8_t kEnds[] = {0, 0x7f, 0x80, 0xff};
            byte = static_cast<std::byte>(random() % 3 == 0 ? random() : kEnds[random() % 4]);
          }
        }
        for (size_t at = 0; at < bytes; at += 4) {
          constexpr int32_t kEnds[] = {0, INT32_MAX, INT32_MIN, INT32_MAX - 70000, INT32_MIN + 70000, -5};
          const int32_t value = kEnds[random() % 6];
          std::memcpy(acc.data() + at, &value, 4);
          // Some whose sums with products are rounded, some that these are far smaller than.
          constexpr float kFloats[] = {0, -0.0F, 16777215, -3e9F, 1e-42F, 0.33333334F, -1e30F, 65504.0F * 65504};
          if (are_floats[k]) std::memcpy(acc.data() + at, &kFloats[random() % 8], 4);
        }
        for (std::vector<std::byte>* operand : {&x, &y}) {
          if (are_floats[k]) make_finite(operand);
        }
        // Pairs of the least int16, whose products exceed int32 together.
        for (size_t at = 0; at + 4 <= bytes; at += 36) {
          const uint32_t least = 0x80008000;
          std::memcpy(x.data() + at, &least, 4);
          std::memcpy(y.data() + at, &least, 4);
        }
        const Status status = interpret_all(originals[k], 1,
                                            std::vector<InterpreterArgument>{{x.data(), bytes, 0, true},
                                                                             {y.data(), bytes, 0, true},
                                                                             {acc.data(), bytes, 0, true},
                                                                             {mask.data(), bytes, 0, true},
                                                                             {expected.data(), 2 * bytes, 0, true}});
        ASSERT_TRUE(status.ok()) << status.message();
        loaded.run(loaded.table()->kernels[k],
                   {reinterpret_cast<uint64_t>(x.data()), reinterpret_cast<uint64_t>(y.data()),
                    reinterpret_cast<uint64_t>(acc.data()), reinterpret_cast<uint64_t>(mask.data()),
                    reinterpret_cast<uint64_t>(actual.data())});
        EXPECT_EQ(expected, actual);
        EXPECT_NE(actual, std::vector<std::byte>(2 * bytes));
      }
    }
  }
}

// STEPS of rows STRIDE bytes apart: whole blocks, then their upper halves.
constexpr const char* kTiles =
    R"(func tiles(x#0: global X*, y#1: global Y*, out#2: global int32*, steps#3: int64, stride#4: int64) -> void {
  eval S.tile_dot<void>(out#2, x#0, stride#4, y#1, steps#3, .rows=32)
  eval S.tile_dot<void>((out#2 + 1024), (x#0 + 64), stride#4, y#1, (steps#3 - 1:int64), .rows=16)
}
)";

TEST(TileProducts, AreTheSumsWrittenOutEverywhere) {
  constexpr int64_t kSteps = 3, kStride = 200, kSums = 48 * 32;
  for (const auto& [x_type, y_type] : {std::pair("uint8", "int8"), std::pair("int8", "uint8"),
                                       std::pair("int8", "int8"), std::pair("uint8", "uint8")}) {
    const auto module = parse_module(replaced(kTiles, {{"X", x_type}, {"Y", y_type}}));
    ASSERT_TRUE(module.ok()) << module.status().message();
    std::mt19937 random(7);
    std::vector<std::byte> x(32 * kStride), y(kSteps * 2048);
    for (std::vector<std::byte>* operand : {&x, &y}) {
      for (std::byte& byte : *operand) byte = static_cast<std::byte>(random() % 2 == 0 ? random() : random() % 2 * 255);
    }
    const auto number = [](std::string_view type, std::byte value) {
      return type == "int8" ? int{static_cast<int8_t>(value)} : int{static_cast<uint8_t>(value)};
    };
    std::vector<int32_t> expected(kSums);
    for (int64_t row = 0; row < 48; ++row) {
      const int64_t first = row < 32 ? 0 : 64, steps = row < 32 ? kSteps : kSteps - 1;
      for (int64_t k = 0; k < 64 * steps; ++k) {
        for (int64_t column = 0; column < 32; ++column)
          expected[static_cast<size_t>(32 * row + column)] +=
              number(x_type, x[static_cast<size_t>(row % 32 * kStride + first + k)]) *
              number(y_type, y[static_cast<size_t>(k / 64 * 2048 + column / 16 * 1024 + k % 64 / 4 * 64 +
                                                   column % 16 * 4 + k % 4)]);
      }
    }
    std::vector<int32_t> interpreted(kSums);
    const auto interpret = [&](size_t x_bytes) {
      return interpret_all(*module, 1,
                           std::vector<InterpreterArgument>{
                               {x.data(), x_bytes, 0, true},
                               {y.data(), y.size(), 0, true},
                               {reinterpret_cast<std::byte*>(interpreted.data()), kSums * sizeof(int32_t), 0, true},
                               {nullptr, 0, kSteps, false},
                               {nullptr, 0, kStride, false}});
    };
    const Status status = interpret(31 * kStride + 64 * kSteps);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(interpreted, expected);
    EXPECT_FALSE(interpret(31 * kStride + 64 * kSteps - 1).ok());  // a byte of the last row is missing
    for (const char* target_name : {"host-amx", "host-avx512-vnni", "host-avx2", "host-baseline", "X2_1204"}) {
      const Target target = *find_target(target_name);
      const Result<Module> lowered = lower(*module, target);
      ASSERT_TRUE(lowered.ok()) << lowered.status().message();
      for (const char* compiler : {"g++", "clang++"}) {
        SCOPED_TRACE(std::string(target_name) + " " + compiler + " " + x_type + " by " + y_type);
        CompileOptions options;
        options.compiler = compiler_path(compiler);
        if (options.compiler.empty()) continue;
        const Result<CompiledModule> compiled =
            compile_kernels(std::vector<KernelSource>{{"tiles", *lowered}}, target, options);
        ASSERT_TRUE(compiled.ok()) << compiled.status().message();
        if (!cpu_runs(target)) continue;
        const LoadedModule loaded(compiled->shared_object);
        ASSERT_EQ(loaded.error(), "");
        std::vector<int32_t> actual(kSums);
        loaded.run(*loaded.find("tiles"), {reinterpret_cast<uint64_t>(x.data()), reinterpret_cast<uint64_t>(y.data()),
                                           reinterpret_cast<uint64_t>(actual.data()), kSteps, kStride});
        EXPECT_EQ(actual, expected);
      }
    }
  }
}

}  // namespace
}  // namespace aipu::tir::testing
