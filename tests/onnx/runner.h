// Runs aipu-onnx-test and takes its report apart.
#pragma once

#include <map>
#include <string>

namespace aipu::onnx_tests {

struct CaseReport {
  std::string outcome;  // PASS, FAIL, SKIP, KNOWN
  std::string reason;
};

struct RunReport {
  int exit_code = -1;
  std::string output;
  std::map<std::string, CaseReport> cases;
};

// Options of $AIPU_ONNX_TEST_OPTIONS come before the others.
RunReport run_cases(const std::string& arguments);

// ../shared/models beside the checkout; the variable AIPU_MODELS overrides it. "" when there is none.
std::string models_folder();

}  // namespace aipu::onnx_tests
