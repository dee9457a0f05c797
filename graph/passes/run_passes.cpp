#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "graph/passes/pass.h"
#include "runtime/base/file.h"

namespace aipu::graph {
namespace {

Status check_name(std::string_view name, std::span<const Pass> passes, std::string_view option) {
  if (std::any_of(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == name; })) return {};
  std::string known;
  for (const Pass& pass : passes) {
    if (known.find(pass.name) != std::string::npos) continue;
    known += str_cat(known.empty() ? "" : ", ", pass.name);
  }
  return invalid_argument(str_cat(option, ": there is no graph pass '", name, "'; expected one of: ", known));
}

// Inner graphs first: what they yield may be simpler for the outer one.
Result<int> run_everywhere(Graph& graph, const Pass& pass, PassContext& context) {
  int rewrites = 0;
  for (size_t index = 0; index < graph.node_count(); ++index) {
    const Node& node = std::as_const(graph).node(NodeId{static_cast<int32_t>(index)});
    if (node.erased) continue;
    for (const auto& subgraph : node.subgraphs) {
      AIPU_ASSIGN_OR_RETURN(const int inner, run_everywhere(*subgraph, pass, context));
      rewrites += inner;
    }
  }
  AIPU_ASSIGN_OR_RETURN(const int outer, pass.run(graph, context));
  return rewrites + outer;
}

}  // namespace

Status run_passes(Graph& graph, std::span<const Pass> passes, PassContext& context, const RunOptions& options) {
  for (const std::string& name : options.disabled) AIPU_RETURN_IF_ERROR(check_name(name, passes, "--disable-pass"));
  if (!options.stop_after.empty()) AIPU_RETURN_IF_ERROR(check_name(options.stop_after, passes, "--stop-after"));
  const bool dump = !options.dump_dir.empty();
  std::string index;
  const auto write = [&](std::string_view file, std::string_view text) {
    return write_file_atomically((std::filesystem::path(options.dump_dir) / file).string(), text, Sync::kNo);
  };
  if (dump) {
    AIPU_RETURN_IF_ERROR(make_folder(options.dump_dir));
    AIPU_RETURN_IF_ERROR(write("00.graph.imported.txt", print_graph(graph)));
    index += "00 imported\n";
  }
  if (options.verify_each) {
    if (Status status = verify_graph(graph); !status.ok()) return std::move(status).context("imported graph");
  }
  for (size_t k = 0; k < passes.size(); ++k) {
    const Pass& pass = passes[k];
    const auto is_this = [&](const std::string& name) { return name == pass.name; };
    const std::string number = fmt::format("{:02}", k + 1);
    if (std::any_of(options.disabled.begin(), options.disabled.end(), is_this)) {
      index += fmt::format("{} {} disabled\n", number, pass.name);
    } else {
      const auto start = std::chrono::steady_clock::now();
      auto rewrites = run_everywhere(graph, pass, context);
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      if (!rewrites.ok()) return std::move(rewrites).status().context(str_cat("pass ", pass.name));
      const std::string outcome = *rewrites == 0 ? "unchanged" : fmt::format("{} rewrites", *rewrites);
      index += fmt::format("{} {} {} {:.2f} ms\n", number, pass.name, outcome, ms);
      if (options.time_passes) fmt::print(stderr, "{:>10.2f} ms  {} ({})\n", ms, pass.name, outcome);
      if (*rewrites != 0 && dump)
        AIPU_RETURN_IF_ERROR(write(str_cat(number, ".graph.", pass.name, ".txt"), print_graph(graph)));
      if (options.verify_each && *rewrites != 0) {
        if (Status status = verify_graph(graph); !status.ok())
          return std::move(status).context(str_cat("after pass ", pass.name));
      }
    }
    // A pass may be listed several times: the last one counts.
    if (options.stop_after == pass.name &&
        std::none_of(passes.begin() + static_cast<std::ptrdiff_t>(k) + 1, passes.end(),
                     [&](const Pass& later) { return later.name == pass.name; })) {
      break;
    }
  }
  if (dump) AIPU_RETURN_IF_ERROR(write("index.txt", index));
  return {};
}

}  // namespace aipu::graph
