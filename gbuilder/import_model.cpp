#include "gbuilder/import_model.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "frontend/ir/compass_ir.h"
#include "gbuilder/build_options.h"
#include "gbuilder/fix_shapes.h"
#include "gbuilder/hold_caches.h"
#include "runtime/base/file.h"

namespace aipu::gbuilder {

namespace {

// What would be an error about something else further on.
Status check_model(const std::string& model) {
  // A file that cannot be read is the importer's to tell.
  const auto file = MappedFile::open(model);
  if (!file.ok()) return {};
  constexpr size_t kIdentifier = 8;  // behind the size of the tables and the place of the first one
  const auto bytes = file->bytes();
  if (bytes.size() > kIdentifier + 4 && std::memcmp(bytes.data() + kIdentifier, "AIPU", 4) == 0)
    return invalid_argument(fmt::format("{}: is an aipu.bin already; run it with aipurun", model));
  return {};
}

Status without_weights(const EntryOptions& options, Status status) {
  if (!weights_path(options).empty() || status.code() != ErrorCode::kInvalidModel) return status;
  return {status.code(), status.message() + " (no weights are given, and there is no .bin file beside it)"};
}

Result<std::unique_ptr<graph::Graph>> import_ir(const EntryOptions& options,
                                                const frontend::ImportOptions& import_options) {
  if (!options.exposed.empty())
    return invalid_argument(
        fmt::format("{}: --expose is for ONNX models; in Compass IR outputs are written as such", options.model));
  if (!options.preprocess.empty() || !options.postprocess.empty())
    return invalid_argument(fmt::format("{}: --preprocess and --postprocess are for ONNX models", options.model));
  auto graph = frontend::import_compass_ir(options.model, weights_path(options), import_options.ops);
  if (!graph.ok()) return without_weights(options, std::move(graph).status());
  if (Status status = fix_shapes(import_options.shapes, graph->get()); !status.ok())
    return std::move(status).context(options.model);
  return graph;
}

}  // namespace

Result<ImportedModel> import_model(const EntryOptions& options, const kernels::PluginRegistry& registry,
                                   std::vector<std::string>* warnings) {
  ImportedModel model;
  model.strings = std::make_shared<graph::StringTable>();
  frontend::ImportOptions import_options;
  import_options.strings = model.strings;
  import_options.ops = registry.ops();
  import_options.warnings = warnings;
  import_options.constant_inputs = options.constant_inputs;
  import_options.exposed = options.exposed;
  import_options.description = &model.description;
  for (const std::string& shape : options.shapes)
    AIPU_RETURN_IF_ERROR(frontend::parse_shape_option(shape, &import_options.shapes));
  for (const std::string& length : options.sequence_lengths)
    AIPU_RETURN_IF_ERROR(frontend::parse_sequence_length_option(length, &import_options.sequence_lengths));
  AIPU_RETURN_IF_ERROR(parse_processing(options, &import_options));
  AIPU_RETURN_IF_ERROR(check_model(options.model));
  if (options.weights.empty() && !options.model.ends_with(".txt")) {
    AIPU_ASSIGN_OR_RETURN(model.graph, frontend::import_onnx(options.model, import_options));
  } else {
    AIPU_ASSIGN_OR_RETURN(model.graph, import_ir(options, import_options));
  }
  if (options.cache_length != 0) {
    if (Status status = hold_caches(options.cache_length, model.graph.get()); !status.ok())
      return std::move(status).context(options.model);
  }
  return model;
}

}  // namespace aipu::gbuilder
