#include "gbuilder/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "frontend/onnx/survey.h"

namespace aipu::gbuilder {

namespace {

// What the groups of the partition say about one operator of the model.
struct Computed {
  std::set<std::string> plugins;
  graph::Dim multiply_adds = 0;
};

std::map<std::string, Computed> computed_by_op(const BuildReport& report) {
  std::map<std::string, Computed> ops;
  for (const GroupReport& group : report.group_list) {
    const std::string who = group.plugin + (group.target.empty() ? "" : " on " + group.target);
    for (const std::string& op : group.ops) ops[op].plugins.insert(who);
    for (const auto& [op, multiply_adds] : group.multiply_adds)
      ops[op].multiply_adds = ops[op].multiply_adds + multiply_adds;
  }
  return ops;
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// A line of the head: what it is about, and what is to be said.
void add_line(std::string* text, std::string_view what, std::string_view said) {
  if (!said.empty()) *text += fmt::format("{:<11} {}\n", what, said);
}

std::string head(const std::string& path, const frontend::ModelSurvey& survey) {
  std::string text;
  std::string opsets;
  for (const auto& [domain, version] : survey.opsets)
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain, version);
  add_line(&text, "model", fmt::format("{}: IR version {}, opset {}", path, survey.ir_version, opsets));
  add_line(&text, "producer", survey.producer);
  add_line(&text, "says", survey.description);
  for (const auto& [key, value] : survey.metadata) add_line(&text, "metadata", key + ": " + value);
  for (const std::string& input : survey.inputs) add_line(&text, "input", input);
  for (const std::string& output : survey.outputs) add_line(&text, "output", output);
  add_line(&text, "parameters", std::to_string(survey.parameters));
  return text + "\n";
}

using Row = std::vector<std::string>;

std::string table(const std::vector<Row>& rows, const std::vector<bool>& right) {
  std::vector<size_t> widths(right.size(), 0);
  for (const Row& row : rows) {
    for (size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t k = 0; k < row.size(); ++k)
      line += (k > 0 ? "  " : "") +
              (right[k] ? fmt::format("{:>{}}", row[k], widths[k]) : fmt::format("{:<{}}", row[k], widths[k]));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string how(const frontend::OpSurvey& op, const Computed* computed, bool converted) {
  if (computed != nullptr && !computed->plugins.empty()) return joined(computed->plugins);
  if (op.importer == "function") return "(its function)";
  if (op.importer.empty() && !converted) return "not supported";
  return converted ? "nothing left to compute" : "";
}

}  // namespace

Result<std::string> explain_model(const BuildOptions& options, bool* supported) {
  AIPU_ASSIGN_OR_RETURN(const frontend::ModelSurvey survey, frontend::survey_onnx(options.model));
  BuildOptions partition = options;
  partition.output.clear();
  partition.stop_after = "partition";
  const auto report = build_model(partition);
  *supported = report.ok();
  const auto computed = report.ok() ? computed_by_op(*report) : std::map<std::string, Computed>();
  std::vector<Row> rows{{"op", "domain", "opset", "nodes", "parameters", "multiply-adds", "computed by"}};
  for (const frontend::OpSurvey& op : survey.ops) {
    const auto found = computed.find(op.op);
    const Computed* by = found != computed.end() ? &found->second : nullptr;
    const bool counted = by != nullptr && by->multiply_adds != graph::Dim(0);
    rows.push_back({op.op, op.domain, std::to_string(op.opset), std::to_string(op.nodes),
                    op.parameters > 0 ? std::to_string(op.parameters) : "", counted ? by->multiply_adds.text() : "",
                    how(op, by, report.ok())});
  }
  std::string text = head(options.model, survey) + table(rows, {false, false, true, true, true, true, false}) + "\n";
  if (report.ok()) {
    for (const std::string& warning : report->warnings) text += "warning: " + warning + "\n";
    return text + fmt::format("All of it is supported: {} nodes in {} groups for {}.\n", report->nodes, report->groups,
                              report->target);
  }
  text += "Not supported:\n";
  for (const frontend::OpSurvey& op : survey.ops) {
    // What plugins define is theirs to know.
    if (op.refusal.empty() || !options.plugins.empty()) continue;
    std::string names;
    for (const std::string& name : op.examples) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
    if (op.nodes > static_cast<int64_t>(op.examples.size())) names += ", ...";
    text += fmt::format("  {} ({} node{}: {}): {}\n", op.op, op.nodes, op.nodes == 1 ? "" : "s", names, op.refusal);
  }
  return text + fmt::format("  conversion ends with: {}\n", report.status().message());
}

}  // namespace aipu::gbuilder
