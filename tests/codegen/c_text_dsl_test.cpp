// Random DSL programs: what c_code shows computes what the kernel computes, no value is wider than a register, and it
// prints.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "codegen/compass_c/c_text.h"
#include "codegen/compass_c/vector_aligner.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "codegen/tir/visit.h"
#include "kernels/dsl/parse.h"
#include "tests/fuzz/dsl_generator.h"

namespace aipu::tir::testing {
namespace {

using Memory = std::vector<std::vector<std::byte>>;

int seeds() {
  const char* text = std::getenv("AIPU_FUZZ_SEEDS");
  return text != nullptr ? std::atoi(text) : 200;
}

// Small numbers that follow from the seed, so that values meet; finite in every type.
Memory initial_memory(uint64_t seed) {
  Memory memory;
  for (const DType d : dsl_test::kGeneratorTypes) {
    std::vector<std::byte> bytes(dsl_test::kGeneratorBufferBytes);
    for (size_t i = 0; i < bytes.size() / dtype_bytes(d); ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto number = static_cast<int32_t>(seed >> 33) % 100;
      // Floats between 1 and 4, of either sign: the exponent is that of 1 or 2.
      const uint32_t low = static_cast<uint32_t>(seed >> 40) & 0x7f, sign = static_cast<uint32_t>(seed >> 50) & 1;
      uint32_t value = static_cast<uint32_t>(number);
      if (d == DType::kF32) value = (sign << 31) | (0x3f800000U + (low << 16));
      if (d == DType::kBF16) value = (sign << 15) | (0x3f80U + low);
      if (d == DType::kF16) value = (sign << 15) | (0x3c00U + (low << 3));
      std::memcpy(bytes.data() + i * dtype_bytes(d), &value, dtype_bytes(d));
    }
    memory.push_back(std::move(bytes));
  }
  return memory;
}

Result<Memory> run(const Module& module, uint64_t seed) {
  constexpr int kTecs = 2;
  Memory memory = initial_memory(seed);
  std::vector<InterpreterArgument> arguments;
  for (auto& bytes : memory) arguments.push_back({bytes.data(), bytes.size(), 0, true});
  arguments.push_back({nullptr, 0, dsl_test::kGeneratorScalar, false});
  AIPU_RETURN_IF_ERROR(interpret_all(module, kTecs, arguments));
  return memory;
}

std::string wide_variable(const Module& module) {
  std::string name;
  for (const PrimFuncPtr& function : module.functions) {
    walk(
        function->body, [](const Expr&) {},
        [&](const Stmt& s) {
          const auto* define = s->as<Define>();
          if (define != nullptr && c_text::is_wide(define->var->type)) name = define->var->name;
        });
  }
  return name;
}

// But for quotients of negative numbers, which the text shifts.
TEST(CTextOfDslPrograms, KeepsResults) {
  const Result<Target> target = find_target("X2_1204");
  ASSERT_TRUE(target.ok());
  const std::vector<std::string> disabled = {"CanonicalizeDivMod"};
  for (int i = 1; i <= seeds(); ++i) {
    const auto seed = static_cast<uint64_t>(i);
    const dsl_test::GeneratedProgram program = dsl_test::generate_program(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program.source);
    dsl::TemplateParams params;
    params.set("__compass_strict__", true);
    const auto module = dsl::parse_kernel({"program.py", program.source}, "f", params);
    ASSERT_TRUE(module.ok()) << module.status().message();
    const auto expected = run(*module, seed);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const Result<Module> shown = compass_c_module(*module, *target, disabled);
    ASSERT_TRUE(shown.ok()) << shown.status().message();
    const Status valid = verify(*shown);
    ASSERT_TRUE(valid.ok()) << valid.message() << "\n" << print_module(*shown);
    EXPECT_EQ(wide_variable(*shown), "");
    const auto actual = run(*shown, seed);
    ASSERT_TRUE(actual.ok()) << actual.status().message() << "\n" << print_module(*shown);
    for (size_t k = 0; k < expected->size(); ++k) {
      ASSERT_EQ((*expected)[k] == (*actual)[k], true) << dtype_name(dsl_test::kGeneratorTypes[k]) << "\n"
                                                      << print_module(*shown);
    }
    ASSERT_TRUE(compass_c_text(*module, *target).ok());
  }
}

}  // namespace
}  // namespace aipu::tir::testing
