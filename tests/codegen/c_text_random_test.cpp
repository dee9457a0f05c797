// What c_code shows computes what the kernel computes: random programs before and after the passes over text, in the interpreter.
#include <gtest/gtest.h>

#include <cstdlib>

#include "codegen/compass_c/c_text.h"
#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "tests/codegen/random_program.h"

namespace aipu::tir::testing {
namespace {

int seeds() {
  const char* text = std::getenv("AIPU_FUZZ_SEEDS");
  return text ? std::atoi(text) : 300;
}

void expect_same_results(const RandomProgramOptions& options, uint64_t offset, const std::vector<std::string>& disabled) {
  const Result<Target> target = find_target("X2_1204");
  ASSERT_TRUE(target.ok());
  for (int seed = 1; seed <= seeds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Module module = random_program(static_cast<uint64_t>(seed) + offset, options);
    const auto expected = run_random_program(module, 7);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const Result<Module> shown = compass_c_module(module, *target, disabled);
    ASSERT_TRUE(shown.ok()) << shown.status().message();
    const Status valid = verify(*shown);
    ASSERT_TRUE(valid.ok()) << valid.message() << "\n" << print_module(module) << "\n----\n" << print_module(*shown);
    const auto actual = run_random_program(*shown, 7);
    ASSERT_TRUE(actual.ok()) << actual.status().message() << "\n" << print_module(module) << "\n----\n" << print_module(*shown);
    std::string where;
    ASSERT_TRUE(same_buffers(*expected, *actual, where)) << where << "\n" << print_module(module) << "\n----\n" << print_module(*shown);
    const Result<std::string> text = compass_c_text(module, *target);
    ASSERT_TRUE(text.ok()) << text.status().message() << "\n" << print_module(module);
  }
}

// Random numbers overflow and are negative, which the text's index arithmetic is not made for.
TEST(RandomCText, ScalarProgramsKeepResults) { expect_same_results({.wide_vectors = false}, 500000, {"CanonicalizeDivMod"}); }
TEST(RandomCText, VectorProgramsKeepResults) { expect_same_results({}, 600000, {"CanonicalizeDivMod"}); }

}  // namespace
}  // namespace aipu::tir::testing
