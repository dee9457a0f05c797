#include "tests/onnx/runner.h"
#include "test_paths.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace aipu::onnx_tests {

RunReport run_cases(const std::string& arguments) {
  RunReport report;
  const char* more = std::getenv("AIPU_ONNX_TEST_OPTIONS");
  const std::string options = more != nullptr ? std::string(more) + " " : std::string();
  FILE* pipe = ::popen((AIPU_BUILD_DIR "/bin/aipu-onnx-test " + options + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return report;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) report.output += buffer.data();
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) report.exit_code = WEXITSTATUS(status);
  std::istringstream lines(report.output);
  for (std::string line; std::getline(lines, line);) {
    const std::string outcome = line.substr(0, line.find(' '));
    if (outcome != "PASS" && outcome != "FAIL" && outcome != "SKIP" && outcome != "KNOWN") continue;
    const std::string rest = line.substr(outcome.size() + 1);
    const size_t colon = rest.find(": ");
    report.cases[rest.substr(0, colon)] = {outcome, colon == std::string::npos ? "" : rest.substr(colon + 2)};
  }
  return report;
}

std::string models_folder() {
  const char* variable = std::getenv("AIPU_MODELS");
  const std::string folder = variable != nullptr ? variable : AIPU_SOURCE_DIR "/../shared/models";
  return ::access((folder + "/MANIFEST.md").c_str(), R_OK) == 0 ? folder : "";
}

}  // namespace aipu::onnx_tests
