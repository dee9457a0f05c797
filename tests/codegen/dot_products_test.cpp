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

}  // namespace
}  // namespace aipu::tir::testing
