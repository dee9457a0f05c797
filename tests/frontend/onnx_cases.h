// The folders of ONNX backend tests and development models that are on this machine.
#pragma once

#include <string>
#include <vector>

namespace aipu::frontend {

struct OnnxCase {
  std::string name;                   // "node/test_abs"
  std::string model;                  // path of the .onnx file
  std::vector<std::string> inputs;    // input_0.pb, ... of its first data set; may be empty
  std::vector<std::string> expected;  // output_0.pb, ...
};

// ONNX's own backend tests, /usr/share/libonnx-testdata/data (AIPU_ONNX_TESTDATA overrides); empty when they are not
// installed.
std::vector<OnnxCase> onnx_backend_cases();
// ../shared/models beside the checkout (AIPU_MODELS overrides), the light models included; empty when there are none.
std::vector<OnnxCase> development_models();

}  // namespace aipu::frontend
