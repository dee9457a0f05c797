// The list of signatures at the end of codegen/intrinsics/intrinsics.md is what the table of intrinsics says.
// AIPU_UPDATE_EXPECTED=1 in the environment writes it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "codegen/intrinsics/intrinsic_table.h"
#include "runtime/base/file.h"
#include "test_paths.h"

namespace aipu::tir::testing {
namespace {

constexpr std::string_view kBegin = "## Signatures\n";

// As in Python: name, name=default, name="choice".
std::string parameter_text(const IntrinsicParam& param) {
  std::string text(param.name);
  if (param.kind != ParamKind::kAttribute) return param.required ? text : text + "=None";
  if (!param.choices.empty())
    return text + "=\"" + std::string(param.choices[static_cast<size_t>(param.default_value)]) + "\"";
  return param.required ? text : text + "=" + std::to_string(param.default_value);
}

std::string_view cost_text(CostClass cost) {
  switch (cost) {
    case CostClass::kArithmetic:
      return "arithmetic";
    case CostClass::kDivide:
      return "division";
    case CostClass::kTranscendental:
      return "transcendental";
    case CostClass::kReduction:
      return "reduction";
    case CostClass::kMatrix:
      return "matrix";
    case CostClass::kMemory:
      return "memory";
    case CostClass::kTransfer:
      return "transfer";
    case CostClass::kBarrier:
      return "barrier";
    case CostClass::kEvent:
      return "event";
    case CostClass::kPrint:
      return "print";
    case CostClass::kFree:
      return "free";
  }
  return "";
}

// What is read and written behind pointers.
std::string effect_text(const Intrinsic& row) {
  if (row.pure) return "";
  std::string text;
  for (const IntrinsicParam& param : row.params) {
    if (param.access == Access::kNone) continue;
    const std::string_view verb = param.access == Access::kRead        ? "reads "
                                  : param.access == Access::kWrite     ? "writes "
                                  : param.access == Access::kReadWrite ? "reads and writes "
                                                                       : "descriptor ";
    text += (text.empty() ? "" : ", ") + std::string(verb) + "`" + std::string(param.name) + "`";
  }
  if (row.asynchronous) text += ", goes on after the call";
  if (!text.empty()) return text;
  return row.droppable ? "depends on the TEC" : "acts";
}

std::string signatures() {
  std::string text(kBegin);
  text +=
      "\nPrinted from the table (`intrinsic_reference_test`).\n\n| function | cost | memory, effect |\n| -- | -- | -- "
      "|\n";
  for (const Intrinsic& row : all_intrinsics()) {
    text += "| `" + std::string(row.name) + "(";
    for (size_t i = 0; i < row.params.size(); ++i) text += (i == 0 ? "" : ", ") + parameter_text(row.params[i]);
    text += ")` | " + std::string(cost_text(row.cost)) + " | " + effect_text(row) + " |\n";
  }
  return text;
}

TEST(IntrinsicReference, SignaturesAreThoseOfTheTable) {
  const std::string path = AIPU_SOURCE_DIR "/codegen/intrinsics/intrinsics.md";
  const auto page = read_text_file(path);
  ASSERT_TRUE(page.ok()) << page.status().message();
  const size_t begin = page->find(kBegin);
  if (std::getenv("AIPU_UPDATE_EXPECTED") != nullptr) {
    std::ofstream(path) << page->substr(0, begin) << (begin == std::string::npos ? "\n" : "") << signatures();
    return;
  }
  ASSERT_NE(begin, std::string::npos) << "no section of signatures";
  EXPECT_EQ(page->substr(begin), signatures()) << "AIPU_UPDATE_EXPECTED=1 writes it anew";
}

}  // namespace
}  // namespace aipu::tir::testing
