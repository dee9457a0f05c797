// Runs every passes/*.txt: the comment "# passes: a, b" in its first line says which passes, comments "# precision: bf16"
// and "# precision of NAME: fp32" below what lower_precision is told, "# byte products" that the target has some,
// "# products of unsigned bytes" that these are of unsigned by signed bytes,
// "# no products of halves" and "# no products of bfloats" that it widens these, "# no products of codes" that it has
// none of weights of few bits, "---- becomes" splits the graph before from the graph after.
// AIPU_UPDATE_EXPECTED=1 in the environment rewrites what is expected, for a human to look at; it is refused under CI.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "graph/passes/pass.h"
#include "runtime/base/file.h"
#include "test_paths.h"

namespace aipu::graph {
namespace {

constexpr std::string_view kMarker = "---- becomes\n";

std::vector<std::filesystem::path> cases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(AIPU_SOURCE_DIR) + "/tests/graph/passes")) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::vector<Pass>> passes_of(std::string_view text) {
  constexpr std::string_view kPrefix = "# passes: ";
  if (!text.starts_with(kPrefix)) return invalid_argument("the first line must be '# passes: ...'");
  std::string_view line = text.substr(kPrefix.size(), text.find('\n') - kPrefix.size());
  std::vector<Pass> passes;
  while (!line.empty()) {
    const size_t comma = std::min(line.find(", "), line.size());
    const std::string_view name = line.substr(0, comma);
    line.remove_prefix(std::min(comma + 2, line.size()));
    if (name == "all") {
      for (const Pass& pass : graph_pipeline()) passes.push_back(pass);
      continue;
    }
    const auto all = graph_pipeline();
    const auto it = std::find_if(all.begin(), all.end(), [&](const Pass& pass) { return pass.name == name; });
    if (it == all.end()) return invalid_argument(str_cat("no pass '", name, "'"));
    passes.push_back(*it);
  }
  return passes;
}

// What comments say of precisions and of the target.
PassContext context_of(std::string_view text) {
  PassContext context;
  constexpr std::string_view kAll = "# precision: ", kOne = "# precision of ";
  for (; text.starts_with('#'); text.remove_prefix(text.find('\n') + 1)) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const DType precision = line.ends_with(": bf16")   ? DType::kBF16
                            : line.ends_with(": fp16") ? DType::kF16
                                                       : DType::kF32;
    if (line.starts_with(kAll)) context.precision = precision;
    if (line == "# byte products") context.has_byte_products = true;
    if (line == "# products of unsigned bytes") context.multiplies_unsigned_bytes = true;
    if (line == "# no products of codes") context.reads_codes = false;
    if (line == "# no products of halves") context.widens_halves = true;
    if (line == "# no products of bfloats") context.holds_bfloats = true;
    if (line == "# short runs are slow") context.copies_short_runs = false;
    if (line.starts_with(kOne)) {
      const std::string_view rest = line.substr(kOne.size());
      context.precision_rules.push_back({std::string(rest.substr(0, rest.find(':'))), precision});
    }
  }
  return context;
}

class PassText : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(PassText, Becomes) {
  auto file = read_text_file(GetParam().string());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const std::string& text = *file;
  const size_t marker = text.find(kMarker);
  ASSERT_NE(marker, std::string::npos) << "no line '---- becomes'";
  auto passes = passes_of(text);
  ASSERT_TRUE(passes.ok()) << passes.status().message();
  auto graph = parse_graph(text.substr(0, marker), {});
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  PassContext context = context_of(text);
  const Status status = run_passes(**graph, *passes, context, {});
  ASSERT_TRUE(status.ok()) << status.message();
  const std::string found = print_graph(**graph);
  const std::string expected = text.substr(marker + kMarker.size());
  if (found != expected && std::getenv("AIPU_UPDATE_EXPECTED") != nullptr) {
    ASSERT_EQ(std::getenv("CI"), nullptr) << "expectations are not written under CI";
    std::ofstream(GetParam()) << text.substr(0, marker) << kMarker << found;
  }
  EXPECT_EQ(found, expected);
  // What came out is a fixed point.
  const Status again = run_passes(**graph, *passes, context, {});
  ASSERT_TRUE(again.ok()) << again.message();
  EXPECT_EQ(print_graph(**graph), found) << "running the passes again changes the graph again";
}

INSTANTIATE_TEST_SUITE_P(Files, PassText, ::testing::ValuesIn(cases()), [](const auto& file) {
  std::string name = file.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace aipu::graph
