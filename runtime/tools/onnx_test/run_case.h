// One case: converted, run on its data sets, compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tools/compare.h"
#include "runtime/tools/onnx_test/test_data.h"

namespace aipu::tools {

struct CaseOptions {
  std::vector<std::string> plugins;
  // `runner`: the command that runs models, with the options of aipurun; "": this process does.
  std::string target = "host", backend, runner;
  Tolerance tolerance;
  int threads = 0;
  bool no_cache = false;
};

// kKnown: it differs because its data contradict its model or the specification (tests/onnx/contradictions.txt).
enum class Outcome : uint8_t { kPass, kFail, kSkip, kKnown };

struct CaseResult {
  Outcome outcome = Outcome::kFail;
  std::string reason;
};

// Files go to the folder `scratch`.
CaseResult run_case(const TestCase& test, const CaseOptions& options, const std::string& scratch);

}  // namespace aipu::tools
