// The ONNX backend tests: every case of expected.txt passes, and no case fails but those of contradictions.txt. What
// cannot be converted is skipped by the runner with its reason.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>

#include "test_paths.h"
#include "tests/onnx/runner.h"

namespace aipu::onnx_tests {
namespace {

std::set<std::string> read_names(const std::string& file) {
  std::set<std::string> names;
  std::ifstream stream(AIPU_SOURCE_DIR "/tests/onnx/" + file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line[0] != '#') names.insert(line.substr(0, line.find(' ')));
  }
  return names;
}

TEST(Onnx, Conformance) {
  const std::string data = "/usr/share/libonnx-testdata/data";
  if (::access(data.c_str(), R_OK) != 0) GTEST_SKIP() << data << " is not there: install libonnx-testdata";
  const std::set<std::string> expected = read_names("expected.txt"), contradictions = read_names("contradictions.txt");
  ASSERT_FALSE(expected.empty());
  ASSERT_FALSE(contradictions.empty());
  std::string arguments = "--timeout 120";
  for (const char* folder : {"node", "pytorch-converted", "pytorch-operator", "simple"})
    arguments += " " + data + "/" + folder;
  const RunReport report = run_cases(arguments);
  ASSERT_FALSE(report.cases.empty()) << report.output;

  for (const std::string& name : expected) {
    const auto found = report.cases.find(name);
    if (found == report.cases.end()) {
      ADD_FAILURE() << name << " did not run";
    } else {
      EXPECT_EQ(found->second.outcome, "PASS") << name << ": " << found->second.reason;
    }
  }
  size_t passed = 0;
  for (const auto& [name, result] : report.cases) {
    if (result.outcome == "PASS") {
      ++passed;
      if (expected.count(name) == 0) std::printf("newly passing, add to expected.txt: %s\n", name.c_str());
      EXPECT_EQ(contradictions.count(name), 0u) << name << " passes: take it off contradictions.txt";
    } else if (result.outcome == "FAIL" && expected.count(name) == 0) {
      ADD_FAILURE() << name << ": " << result.reason;
    } else if (result.outcome == "KNOWN") {
      EXPECT_EQ(contradictions.count(name), 1u) << name;
    }
  }
  std::printf("%zu of %zu cases pass\n", passed, report.cases.size());
}

}  // namespace
}  // namespace aipu::onnx_tests
