// What operators a model has, whether or not they can be imported: for aipugb --explain.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/import.h"

namespace aipu::frontend {

// The nodes of one operator in one version, those of sub-graphs and of functions that are called included. A function
// counts once, however often it is called.
struct OpSurvey {
  std::string domain;  // "ai.onnx" for ONNX's own
  std::string op;
  int64_t opset = 0;  // of the domain, as the model imports it
  int64_t nodes = 0;
  int64_t parameters = 0;             // elements of initializers that are operands; of shared ones at the first node
  std::vector<std::string> examples;  // names of the first nodes
  // What makes canonical ops of it: "importer", "plugin" or "function"; empty where nothing does.
  std::string importer;
  std::string refusal;  // why nothing does
};

struct ModelSurvey {
  std::string producer;  // with its version
  int64_t ir_version = 0;
  std::vector<std::pair<std::string, int64_t>> opsets;
  std::string description;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::string> inputs, outputs;  // "image float32[N,3,224,224]", "xs sequence of float32[?]"
  int64_t parameters = 0;                    // elements of all initializers
  std::vector<OpSurvey> ops;                 // by domain and name
};

// Errors start with the path: a file that is no ONNX model.
Result<ModelSurvey> survey_onnx(const std::string& path, const ImportOptions& options = {});

}  // namespace aipu::frontend
