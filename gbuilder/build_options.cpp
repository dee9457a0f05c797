#include "gbuilder/build_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include "codegen/lower/lower.h"
#include "gbuilder/precision.h"
#include "gbuilder/two_targets.h"
#include "graph/passes/pass.h"
#include "kernels/plugin.h"

namespace aipu::gbuilder {

namespace {

// For command lines, in which a colon or an equals sign ends it, and for folders.
bool is_entry_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.front() != '-' &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) {
           return c < 0x20 || c == 0x7f ||
                  std::string_view(":=/\\").find(static_cast<char>(c)) != std::string_view::npos;
         });
}

Status check_entry(const EntryOptions& options) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const std::string& shape : options.shapes) AIPU_RETURN_IF_ERROR(frontend::parse_shape_option(shape, &shapes));
  std::map<std::string, int64_t> lengths;
  for (const std::string& length : options.sequence_lengths)
    AIPU_RETURN_IF_ERROR(frontend::parse_sequence_length_option(length, &lengths));
  if (options.cache_length < 0)
    return invalid_argument(str_cat("--cache-length: expected a number of rows, found ", options.cache_length));
  frontend::ImportOptions processing;
  return parse_processing(options, &processing);
}

bool is_stage(const std::string& name) {
  return std::any_of(kStages.begin(), kStages.end(), [&](const auto& stage) { return stage.first == name; });
}

}  // namespace

const std::string& target_name(const BuildOptions& options) {
  static const std::string host = "host";
  return options.target.empty() ? host : options.target;
}

bool is_graph_pass(const std::string& name) {
  const auto passes = graph::graph_pipeline();
  return std::any_of(passes.begin(), passes.end(), [&](const graph::Pass& pass) { return pass.name == name; });
}

bool is_lowering_pass(const std::string& name) {
  const auto passes = tir::lowering_passes();
  return std::find(passes.begin(), passes.end(), name) != passes.end();
}

std::vector<const EntryOptions*> entries_of(const BuildOptions& options) {
  std::vector<const EntryOptions*> entries = {&options};
  for (const EntryOptions& entry : options.more_entries) entries.push_back(&entry);
  return entries;
}

Result<std::vector<std::string>> entry_names(const BuildOptions& options) {
  const auto entries = entries_of(options);
  constexpr size_t kMost = 1024;  // that the runtime takes
  if (entries.size() > kMost)
    return invalid_argument(fmt::format("a file has at most {} models, not {}", kMost, entries.size()));
  std::map<std::string, const EntryOptions*> known;
  std::vector<std::string> names;
  for (const EntryOptions* entry : entries) {
    std::string name = entry->entry;
    if (name.empty() && entries.size() > 1) name = std::filesystem::path(entry->model).stem().string();
    names.push_back(name);
    if (name.empty() && entries.size() == 1) break;
    if (!is_entry_name(name)) {
      return invalid_argument(
          fmt::format("{}: '{}' is no name of an entry, which begins with no dot or dash and has no ':', '=' or '/' in "
                      "it; give another one: --entry NAME={}",
                      entry->model, name, entry->model));
    }
    if (const auto [other, is_new] = known.emplace(name, entry); !is_new)
      return invalid_argument(
          fmt::format("two models are called '{}', {} and {}; give one another name: --entry NAME={}", name,
                      other->second->model, entry->model, entry->model));
  }
  return names;
}

Status parse_processing(const EntryOptions& options, frontend::ImportOptions* parsed) {
  for (const std::string& text : options.preprocess) {
    AIPU_ASSIGN_OR_RETURN(auto one, frontend::parse_preprocess(text));
    parsed->preprocess.push_back(std::move(one));
  }
  for (const std::string& text : options.postprocess) {
    AIPU_ASSIGN_OR_RETURN(auto one, frontend::parse_postprocess(text));
    parsed->postprocess.push_back(std::move(one));
  }
  return {};
}

Status check_options(const BuildOptions& options) {
  if (!options.stop_after.empty() && !is_stage(options.stop_after) && !is_graph_pass(options.stop_after)) {
    return invalid_argument(
        fmt::format("--stop-after: there is no stage or graph pass '{}' (see --print-pipeline)", options.stop_after));
  }
  for (const std::string& name : options.disabled_passes) {
    if (!is_graph_pass(name) && !is_lowering_pass(name) && name != kBatchLoops) {
      return invalid_argument(
          fmt::format("--disable-pass: there is no graph or lowering pass '{}' (see --print-pipeline)", name));
    }
  }
  AIPU_RETURN_IF_ERROR(find_targets(target_name(options)).status());
  if (options.precision != kInt8 && !parse_precision(options.precision).ok()) {
    return invalid_argument(
        fmt::format("--precision: expected fp32, bf16, fp16, int8 or mixed, found '{}'", options.precision));
  }
  AIPU_RETURN_IF_ERROR(entry_names(options).status());
  if (!options.more_entries.empty() && !options.emit_ir.empty())
    return invalid_argument("--emit-ir is for one model at a time");
  for (const EntryOptions* entry : entries_of(options)) AIPU_RETURN_IF_ERROR(check_entry(*entry));
  return {};
}

std::string weights_path(const EntryOptions& options) {
  if (!options.weights.empty()) return options.weights;
  const std::filesystem::path beside = std::filesystem::path(options.model).replace_extension(".bin");
  std::error_code error;
  return std::filesystem::exists(beside, error) ? beside.string() : "";
}

std::string print_pipeline() {
  std::string text = "graph passes\n";
  for (const graph::Pass& pass : graph::graph_pipeline()) text += fmt::format("  {:28} {}\n", pass.name, pass.summary);
  text += "lowering passes, per kernel\n";
  for (const std::string_view pass : tir::lowering_passes()) text += fmt::format("  {}\n", pass);
  text += fmt::format("when planning\n  {:28} run layers sample by sample where that keeps activations in the caches\n",
                      kBatchLoops);
  text += "operator plugins\n ";
  const auto registry = kernels::PluginRegistry::with_builtins();
  for (const graph::Claimer* claimer : registry.claimers()) text += fmt::format(" {}", claimer->name());
  text += "\nstages\n";
  for (const auto& [name, summary] : kStages) text += fmt::format("  {:28} {}\n", name, summary);
  return text;
}

}  // namespace aipu::gbuilder
