// What c_code shows computes what the kernel computes: random programs before and after the passes over text, in the
// interpreter.
#include <gtest/gtest.h>

#include <cstdlib>

#include "codegen/compass_c/c_text.h"
#include "codegen/compass_c/vector_aligner.h"
#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "codegen/tir/visit.h"
#include "tests/codegen/random_program.h"

namespace aipu::tir::testing {
namespace {

int seeds() {
  const char* text = std::getenv("AIPU_FUZZ_SEEDS");
  return text ? std::atoi(text) : 300;
}

// Vectors that are no registers and not private to one statement.
bool has_wide_variables(const Module& module) {
  bool found = false;
  for (const PrimFuncPtr& function : module.functions) {
    for (const VarPtr& param : function->params) found |= c_text::is_wide(param->type);
    walk(
        function->body, [](const Expr&) {},
        [&](const Stmt& s) {
          if (const auto* define = s->as<Define>()) found |= c_text::is_wide(define->var->type);
        });
  }
  return found;
}

void expect_same_results(const RandomProgramOptions& options, uint64_t offset,
                         const std::vector<std::string>& disabled) {
  const Result<Target> target = find_target("X2_1204");
  ASSERT_TRUE(target.ok());
  int wide = 0, aligned = 0;
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
    ASSERT_TRUE(actual.ok()) << actual.status().message() << "\n"
                             << print_module(module) << "\n----\n"
                             << print_module(*shown);
    std::string where;
    ASSERT_TRUE(same_buffers(*expected, *actual, where)) << where << "\n"
                                                         << print_module(module) << "\n----\n"
                                                         << print_module(*shown);
    wide += has_wide_variables(module);
    aligned += has_wide_variables(module) && !has_wide_variables(*shown);
    const Result<std::string> text = compass_c_text(module, *target);
    ASSERT_TRUE(text.ok()) << text.status().message() << "\n" << print_module(module);
  }
  EXPECT_EQ(aligned, wide);
}

TEST(RandomCText, ScalarProgramsKeepResults) { expect_same_results({.wide_vectors = false}, 500000, {}); }
TEST(RandomCText, VectorProgramsKeepResults) { expect_same_results({.long_elements = false}, 600000, {}); }

}  // namespace
}  // namespace aipu::tir::testing
