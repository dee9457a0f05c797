// The first stage: a model's file becomes a graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontend/onnx/import.h"
#include "gbuilder/build.h"
#include "graph/ir/graph.h"
#include "kernels/plugin.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

struct ImportedModel {
  std::unique_ptr<graph::Graph> graph;
  frontend::ModelDescription description;
  std::shared_ptr<graph::StringTable> strings;
};

// An ONNX model, or Compass IR text, with the ops that the registry has. `warnings` get a line for what is odd. Errors
// start with the path.
Result<ImportedModel> import_model(const EntryOptions& options, const kernels::PluginRegistry& registry,
                                   std::vector<std::string>* warnings);

}  // namespace aipu::gbuilder
