// Random programs give the same results before and after lowering, pass by pass and all together, for registers of
// several widths; and survive the text form.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>

#include "codegen/lower/lower.h"
#include "codegen/lower/simplify.h"
#include "codegen/lower/split_vectors.h"
#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "codegen/tir/visit.h"
#include "tests/codegen/random_program.h"

namespace aipu::tir::testing {
namespace {

int seeds() {
  const char* text = std::getenv("AIPU_FUZZ_SEEDS");
  return text ? std::atoi(text) : 200;
}

Target machine(int bits) {
  Target target;
  target.name = "test";
  target.vector_bits = bits;
  return target;
}

// What lower.h promises.
std::string not_printable(const Module& module, const Target& target) {
  std::string problem;
  const auto check = [&](Type type, const std::string& what) {
    if (type.lanes == 1 || type.is_void()) return;
    const bool fits = std::has_single_bit(static_cast<unsigned>(type.lanes)) &&
                      type.lanes * dtype_bits(type.element) <= target.vector_bits;
    if (!fits && problem.empty()) problem = type.text() + " in " + what;
  };
  for (const PrimFuncPtr& function : module.functions) {
    for (const VarPtr& param : function->params) check(param->type, param->name);
    check(function->return_type, "the result");
    walk(
        function->body, [&](const Expr& e) { check(e->type, print_expr(e)); },
        [&](const Stmt& s) {
          if (const auto* define = s->as<Define>()) check(define->var->type, define->var->name);
          if (const auto* alloc = s->as<Alloc>()) check(alloc->buffer->type, alloc->buffer->name);
          if (const auto* loop = s->as<For>(); loop && loop->kind != ForKind::kSerial)
            problem = "a loop that is not serial";
        });
  }
  return problem;
}

class RandomLowering : public ::testing::TestWithParam<int> {};

TEST_P(RandomLowering, KeepsResults) {
  const Target target = machine(GetParam());
  int compared = 0, refused = 0;
  for (int seed = 1; seed <= seeds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Module module = random_program(static_cast<uint64_t>(seed));
    const Status valid = verify(module);
    ASSERT_TRUE(valid.ok()) << valid.message();
    const auto expected = run_random_program(module, 7);
    ASSERT_TRUE(expected.ok()) << expected.status().message() << "\n" << print_module(module);
    const Result<Module> lowered = lower(module, target);
    if (!lowered.ok()) {
      // Only native intrinsics on narrower registers may be refused.
      ASSERT_EQ(lowered.status().code(), ErrorCode::kUnsupported) << lowered.status().message() << "\n"
                                                                  << print_module(module);
      ++refused;
      continue;
    }
    const Status still_valid = verify(*lowered);
    ASSERT_TRUE(still_valid.ok()) << still_valid.message() << "\n"
                                  << print_module(module) << "\n----\n"
                                  << print_module(*lowered);
    ASSERT_EQ(not_printable(*lowered, target), "") << print_module(module) << "\n----\n" << print_module(*lowered);
    const auto actual = run_random_program(*lowered, 7);
    ASSERT_TRUE(actual.ok()) << actual.status().message() << "\n" << print_module(*lowered);
    std::string where;
    ASSERT_TRUE(same_buffers(*expected, *actual, where)) << where << "\n"
                                                         << print_module(module) << "\n----\n"
                                                         << print_module(*lowered);
    ++compared;
  }
  EXPECT_GT(compared, seeds() * 9 / 10) << refused << " refused";
}

INSTANTIATE_TEST_SUITE_P(Bits, RandomLowering, ::testing::Values(128, 256, 512));

// Loops over registers from two registers on.
TEST(RandomLowering, LoopsOverRegistersKeepResults) {
  const Target target = machine(128);
  int compared = 0;
  for (int seed = 1; seed <= seeds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Module module = random_program(static_cast<uint64_t>(seed));
    const auto expected = run_random_program(module, 7);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const Result<Module> split = split_vectors(module, target, 1);
    if (!split.ok()) {
      ASSERT_EQ(split.status().code(), ErrorCode::kUnsupported) << split.status().message();
      continue;
    }
    const Status valid = verify(*split);
    ASSERT_TRUE(valid.ok()) << valid.message() << "\n" << print_module(*split);
    const auto actual = run_random_program(*split, 7);
    ASSERT_TRUE(actual.ok()) << actual.status().message() << "\n" << print_module(*split);
    std::string where;
    ASSERT_TRUE(same_buffers(*expected, *actual, where)) << where << "\n"
                                                         << print_module(module) << "\n----\n"
                                                         << print_module(*split);
    ++compared;
  }
  EXPECT_GT(compared, seeds() * 9 / 10);
}

TEST(RandomSimplify, KeepsResultsOfScalarPrograms) {
  for (int seed = 1; seed <= seeds() * 2; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Module module =
        random_program(static_cast<uint64_t>(seed) + 100000, {.wide_vectors = false, .statements = 20});
    const auto expected = run_random_program(module, 3);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    Module simple;
    for (const PrimFuncPtr& function : module.functions) {
      const Result<PrimFunc> one = simplify(*function, machine(256));
      ASSERT_TRUE(one.ok());
      simple.functions.push_back(std::make_shared<PrimFunc>(*one));
    }
    const Status valid = verify(simple);
    ASSERT_TRUE(valid.ok()) << valid.message() << print_module(module);
    const auto actual = run_random_program(simple, 3);
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    std::string where;
    ASSERT_TRUE(same_buffers(*expected, *actual, where)) << where << "\n"
                                                         << print_module(module) << "\n----\n"
                                                         << print_module(simple);
  }
}

TEST(RandomText, PrintsAndParsesBack) {
  for (int seed = 1; seed <= seeds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Module module = random_program(static_cast<uint64_t>(seed));
    const std::string text = print_module(module);
    const Result<Module> parsed = parse_module(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message() << "\n" << text;
    EXPECT_TRUE(structurally_equal(module, *parsed)) << text;
    EXPECT_EQ(print_module(*parsed), text);
  }
}

}  // namespace
}  // namespace aipu::tir::testing
