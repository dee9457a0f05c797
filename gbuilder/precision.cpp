#include "gbuilder/precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "graph/ir/op_def.h"
#include "runtime/base/file.h"
#include "runtime/base/pattern.h"

namespace aipu::gbuilder {

Result<DType> parse_precision(std::string_view name) {
  if (name.empty()) return DType::kF32;
  std::string names;
  for (const Precision& precision : kPrecisions) {
    if (name == precision.name) return precision.dtype;
    const bool is_last = &precision == std::prev(std::end(kPrecisions));
    names += fmt::format("{}{}", names.empty() ? "" : is_last ? " or " : ", ", precision.name);
  }
  return invalid_argument(fmt::format("there is no precision '{}'; expected {}", name, names));
}

Result<std::vector<graph::PrecisionRule>> read_precision_file(const std::string& path) {
  AIPU_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  std::vector<graph::PrecisionRule> rules;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string pattern, precision, more;
    if (!(words >> pattern) || pattern.starts_with('#')) continue;
    const std::string place = fmt::format("{}:{}", path, number);
    if (!(words >> precision) || words >> more)
      return invalid_argument(fmt::format("{}: expected PATTERN PRECISION, found '{}'", place, line));
    auto parsed = parse_precision(precision);
    if (!parsed.ok()) return std::move(parsed).status().context(place);
    rules.push_back({std::move(pattern), *parsed});
  }
  return rules;
}

namespace {

template <typename Test>
bool any_node(const graph::Graph& graph, const Test& test) {
  for (const graph::NodeId id : graph.topological_order()) {
    const graph::Node& node = graph.node(id);
    if (test(graph, node)) return true;
    for (const auto& inner : node.subgraphs)
      if (any_node(*inner, test)) return true;
  }
  return false;
}

}  // namespace

std::string unused_rule(std::span<const graph::Graph* const> graphs, const std::vector<graph::PrecisionRule>& rules) {
  for (const graph::PrecisionRule& rule : rules) {
    const auto fits = [&](const graph::Graph&, const graph::Node& node) {
      return std::any_of(node.origins.begin(), node.origins.end(),
                         [&](const graph::Origin& origin) { return fits_pattern(rule.pattern, origin.name); });
    };
    if (std::none_of(graphs.begin(), graphs.end(), [&](const graph::Graph* graph) { return any_node(*graph, fits); }))
      return rule.pattern;
  }
  return "";
}

bool has_int8_products(const graph::Graph& graph) {
  return any_node(graph, [](const graph::Graph& within, const graph::Node& node) {
    const graph::OpDef* def = within.find_op(node.op);
    if (def == nullptr || def->multiply_adds == nullptr || node.inputs.empty() || !node.inputs[0].valid()) return false;
    const DType dtype = within.type(node.inputs[0]).dtype;
    return dtype == DType::kI8 || dtype == DType::kU8;
  });
}

}  // namespace aipu::gbuilder
