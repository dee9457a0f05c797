// Every error phrase of the language and of its functions that the front end is responsible for, with the place it
// points to.
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/dsl_phrases.h"
#include "tests/kernels/dsl_support.h"

namespace aipu {
namespace {

using dsl_test::kernel;
using dsl_test::PhraseCase;
using dsl_test::with_sub;

std::vector<PhraseCase> cases() {
  std::vector<PhraseCase> all = dsl_test::language_phrases();
  const auto& intrinsics = dsl_test::intrinsic_phrases();
  all.insert(all.end(), intrinsics.begin(), intrinsics.end());
  return all;
}

class DslPhrase : public testing::TestWithParam<PhraseCase> {};

TEST_P(DslPhrase, HasPhraseAndPlace) {
  std::string source = GetParam().source;
  const size_t mark = source.find("<!>");
  ASSERT_NE(mark, std::string::npos);
  source.erase(mark, 3);
  int line = 1;
  size_t line_begin = 0;
  for (size_t i = 0; i < mark; ++i) {
    if (source[i] == '\n') {
      ++line;
      line_begin = i + 1;
    }
  }
  dsl::TemplateParams params;
  params.set("NUMPY_SCALAR", dsl::Captured{dsl::CapturedArray{DType::kI32, {}, std::vector<std::byte>(4)}});
  if (GetParam().strict) params.set("__compass_strict__", true);
  const auto module = dsl_test::compile(source, "f", params);
  ASSERT_FALSE(module.ok()) << tir::print_module(*module);
  const std::string message = module.status().message();
  const std::string first_line = message.substr(0, message.find('\n'));
  EXPECT_NE(first_line.find(GetParam().phrase), std::string::npos) << message;
  const std::string place = "error: " + first_line + "\n --> kernel.py:" + std::to_string(line) + ":" +
                            std::to_string(mark - line_begin + 1) + "\n";
  EXPECT_NE(message.find(place), std::string::npos)
      << "expected place " << line << ":" << (mark - line_begin + 1) << "\n"
      << message;
  const size_t end = source.find('\n', mark);
  const std::string excerpt =
      source.substr(line_begin, end - line_begin) + "\n" + std::string(mark - line_begin, ' ') + "^\n";
  EXPECT_NE(message.find(excerpt), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Spec, DslPhrase, testing::ValuesIn(cases()), [](const auto& p) { return p.param.name; });

TEST(DslErrors, SeveralAreReportedAtOnce) {
  const auto module = dsl_test::compile(
      kernel("c = missing_one\nd = c + 1\ne = missing_two\nfor i in range(n):\n    e = missing_three"));
  ASSERT_FALSE(module.ok());
  const std::string message = module.status().message();
  EXPECT_NE(message.find("Undefined variable: missing_one"), std::string::npos);
  EXPECT_NE(message.find("Undefined variable: missing_two"), std::string::npos);
  EXPECT_NE(message.find("Undefined variable: missing_three"), std::string::npos);
  // c and e are known to be wrong already.
  EXPECT_EQ(message.find("Undefined variable: c"), std::string::npos) << message;
  EXPECT_EQ(message.find("Undefined variable: e"), std::string::npos) << message;
}

TEST(DslErrors, AnErrorInAMacroNamesItsCaller) {
  const auto module = dsl_test::compile(with_sub("@S.macro\ndef m(p):\n    p[0] = wrong\n", "m(a)"));
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.status().message().find("note: in \"m\" called from kernel.py:7:5"), std::string::npos)
      << module.status().message();
}

}  // namespace
}  // namespace aipu
