// Random DSL programs, through the front end, give the same memory in the interpreter and as compiled code, on the X2
// model and on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/lower/lower.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "kernels/dsl/call_rules.h"
#include "kernels/dsl/parse.h"
#include "runtime/base/half.h"
#include "tests/codegen/cc_run.h"
#include "tests/fuzz/dsl_generator.h"

namespace aipu {
namespace {

using dsl_test::kGeneratorBufferBytes;
using dsl_test::kGeneratorTypes;
using Memory = std::vector<std::vector<std::byte>>;

uint64_t first_seed() {
  const char* text = std::getenv("AIPU_FUZZ_FIRST");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}
int seeds() {
  const char* text = std::getenv("AIPU_FUZZ_SEEDS");
  return text != nullptr ? std::atoi(text) : 60;
}

// Contents that follow from the seed: small numbers, so that values meet, and corners.
Memory initial_memory(uint64_t seed) {
  Memory memory;
  uint64_t state = seed * 6364136223846793005ULL + 1442695040888963407ULL;
  const auto next = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<uint32_t>(state >> 33);
  };
  for (const DType d : kGeneratorTypes) {
    std::vector<std::byte> bytes(kGeneratorBufferBytes);
    for (size_t i = 0; i < bytes.size() / dtype_bytes(d); ++i) {
      std::byte* at = bytes.data() + i * dtype_bytes(d);
      const uint32_t r = next();
      if (is_floating(d)) {
        const float value = r % 23 == 0 ? (r % 2 == 0 ? INFINITY : -0.0F) : (static_cast<float>(r % 4001) - 2000) / 64;
        const uint16_t half = d == DType::kF16 ? f16_from_f32(value) : bf16_from_f32(value);
        if (d == DType::kF32)
          std::memcpy(at, &value, 4);
        else
          std::memcpy(at, &half, 2);
      } else {
        const uint32_t value = r % 5 == 0 ? next() : r % 201 - 100;
        std::memcpy(at, &value, dtype_bytes(d));
      }
    }
    memory.push_back(std::move(bytes));
  }
  return memory;
}

double float_at(DType d, const std::byte* at) {
  uint16_t half = 0;
  float single = 0;
  if (d == DType::kF32) {
    std::memcpy(&single, at, 4);
    return single;
  }
  std::memcpy(&half, at, 2);
  return d == DType::kF16 ? f32_from_f16(half) : f32_from_bf16(half);
}

// The first difference, "" if there is none; a NaN is as good as another.
std::string difference(const Memory& a, const Memory& b) {
  for (size_t k = 0; k < a.size(); ++k) {
    const DType d = kGeneratorTypes[k];
    const size_t size = dtype_bytes(d);
    for (size_t i = 0; i < a[k].size() / size; ++i) {
      const std::byte *x = a[k].data() + i * size, *y = b[k].data() + i * size;
      if (std::memcmp(x, y, size) == 0) continue;
      if (is_floating(d) && std::isnan(float_at(d, x)) && std::isnan(float_at(d, y))) continue;
      uint32_t xb = 0, yb = 0;
      std::memcpy(&xb, x, size);
      std::memcpy(&yb, y, size);
      char buffer[120];
      std::snprintf(buffer, sizeof buffer, "%s element %zu: 0x%x vs. 0x%x", std::string(dtype_name(d)).c_str(), i, xb,
                    yb);
      return buffer;
    }
  }
  return "";
}

std::vector<tir::InterpreterArgument> interpreter_arguments(Memory& memory) {
  std::vector<tir::InterpreterArgument> arguments;
  for (auto& bytes : memory) arguments.push_back({bytes.data(), bytes.size(), 0, true});
  arguments.push_back({nullptr, 0, dsl_test::kGeneratorScalar, false});
  return arguments;
}

constexpr int kTecs = 2;

struct Program {
  uint64_t seed = 0;
  dsl_test::GeneratedProgram generated;
  tir::KernelSource kernel;
  Memory result;  // of the interpreter
  bool refused = false;
};

// Parses, interprets, lowers and interprets again; an empty name of the failure when all is well.
std::string prepare(uint64_t seed, const tir::Target& target, Program* program) {
  program->seed = seed;
  program->generated = dsl_test::generate_program(seed);
  dsl::TemplateParams params;
  params.set("__compass_strict__", true).set("__compass_target__", "X2_1204");
  const std::string name = "program_" + std::to_string(seed);
  const auto module = dsl::parse_kernel({name + ".py", program->generated.source}, "f", params, name);
  if (!module.ok()) return "front end: " + module.status().message();
  if (const Status status = tir::verify(*module); !status.ok()) return "verifier: " + status.message();
  program->result = initial_memory(seed);
  if (const Status status = tir::interpret_all(*module, kTecs, interpreter_arguments(program->result)); !status.ok())
    return "interpreter: " + status.message();
  auto lowered = tir::lower(*module, target);
  // Some native intrinsics have no form for registers that are narrower than 256 bits.
  program->refused = !lowered.ok() && lowered.status().code() == ErrorCode::kUnsupported && target.vector_bits < 256;
  if (program->refused) return "";
  if (!lowered.ok()) return "lowering: " + lowered.status().message();
  Memory after = initial_memory(seed);
  if (const Status status = tir::interpret_all(*lowered, kTecs, interpreter_arguments(after)); !status.ok())
    return "lowered program: " + status.message();
  if (const std::string where = difference(program->result, after); !where.empty()) return "lowering changes " + where;
  auto kernel = tir::kernel_source(name, *module, std::move(*lowered), target);
  if (!kernel.ok()) return "text: " + kernel.status().message();
  program->kernel = std::move(*kernel);
  if (!program->kernel.shown) return "";
  Memory text = initial_memory(seed);
  if (const Status status = tir::interpret_all(*program->kernel.shown, kTecs, interpreter_arguments(text));
      !status.ok())
    return "shown program: " + status.message();
  const std::string where = difference(program->result, text);
  return where.empty() ? "" : "the text changes " + where;
}

// The statements of the entry alone.
std::string shown(const Program& program) {
  return program.generated.source.substr(program.generated.source.rfind("@S.prim_func"));
}

class DslAgreement : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto target = tir::find_target(GetParam());
    ASSERT_TRUE(target.ok());
    target_ = *target;
  }
  tir::Target target_;
};

TEST_P(DslAgreement, LoweringKeepsResults) {
  for (int i = 0; i < seeds() * 2; ++i) {
    Program program;
    const uint64_t seed = first_seed() + static_cast<uint64_t>(i);
    ASSERT_EQ(prepare(seed, target_, &program), "") << "AIPU_FUZZ_FIRST=" << seed << "\n" << shown(program);
  }
}

TEST_P(DslAgreement, InterpreterAndCompiledCode) {
  if (!tir::testing::cpu_runs(target_)) GTEST_SKIP() << "this CPU does not run code for " << GetParam();
  std::vector<Program> programs(static_cast<size_t>(seeds()));
  std::vector<tir::KernelSource> kernels;
  for (size_t i = 0; i < programs.size(); ++i) {
    Program& program = programs[i];
    ASSERT_EQ(prepare(first_seed() + i, target_, &program), "") << "AIPU_FUZZ_FIRST=" << program.seed << "\n"
                                                                << shown(program);
    if (!program.refused) kernels.push_back(program.kernel);
  }
  EXPECT_GE(kernels.size(), programs.size() / 10);
  const auto compiled = tir::compile_kernels(kernels, target_);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const tir::testing::LoadedModule loaded(compiled->shared_object);
  ASSERT_EQ(loaded.error(), "");
  for (const Program& program : programs) {
    if (program.refused) continue;
    const aipu_kernel_info* kernel = loaded.find("program_" + std::to_string(program.seed));
    ASSERT_NE(kernel, nullptr);
    Memory memory = initial_memory(program.seed);
    std::vector<uint64_t> arguments;
    for (auto& bytes : memory) arguments.push_back(reinterpret_cast<uint64_t>(bytes.data()));
    arguments.push_back(dsl_test::kGeneratorScalar);
    loaded.run(*kernel, arguments, kTecs);
    ASSERT_EQ(difference(program.result, memory), "") << "AIPU_FUZZ_FIRST=" << program.seed << "\n" << shown(program);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, DslAgreement, testing::Values("X2_1204", "host-avx512", "host-avx2", "host-baseline"),
                         [](const auto& p) {
                           std::string name = p.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

// Every function that computes something occurs; a new row of the table has to be taught to the generator.
TEST(DslGenerator, UsesTheWholeTable) {
  std::set<std::string> missing;
  for (const tir::Intrinsic& row : tir::all_intrinsics()) {
    const std::string name(row.name);
    if (dsl::is_exposed(name, /*strict=*/true)) missing.insert(name);
  }
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    for (const std::string& name : dsl_test::generate_program(seed).intrinsics) missing.erase(name);
  }
  // Results that depend on other things than memory, and what has no result: tests/kernels/dsl_run_test.cpp,
  // tests/models/script_plugin_test.cpp.
  const std::set<std::string> elsewhere = {"aiff",          "alloc_event", "async_aiff",  "async_dma_copy",
                                           "barrier",       "flush_cache", "free_events", "perf_tick_begin",
                                           "perf_tick_end", "printf",      "wait_events"};
  std::string left;
  for (const std::string& name : missing) {
    if (!elsewhere.contains(name)) left += name + " ";
  }
  EXPECT_EQ(left, "");
}

TEST(DslGenerator, SameSeedSameProgram) {
  EXPECT_EQ(dsl_test::generate_program(3).source, dsl_test::generate_program(3).source);
  EXPECT_NE(dsl_test::generate_program(3).source, dsl_test::generate_program(4).source);
}

}  // namespace
}  // namespace aipu
