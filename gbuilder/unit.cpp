#include "gbuilder/unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace aipu::gbuilder {

GroupReport group_report(const graph::Graph& graph, const graph::Group& group) {
  GroupReport report;
  report.plugin = group.owner->name();
  std::set<std::string> ops;
  for (const graph::NodeId id : group.nodes) {
    const graph::Node& node = graph.node(id);
    for (const graph::Origin& origin : node.origins) ops.insert(origin.op);
    const graph::OpDef* def = graph.find_op(node.op);
    const bool has_output = !node.outputs.empty() && node.outputs[0].valid();
    if (def == nullptr || !def->multiply_adds || !has_output || node.origins.empty()) continue;
    // What was folded into it is among the origins.
    const bool named = std::any_of(node.origins.begin(), node.origins.end(),
                                   [&](const graph::Origin& origin) { return origin.op == node.op; });
    report.multiply_adds.emplace_back(named ? node.op : node.origins[0].op, def->multiply_adds(graph, node));
  }
  report.ops.assign(ops.begin(), ops.end());
  return report;
}

std::string group_line(const Unit& unit, size_t g, const std::string& target) {
  const graph::Group& group = unit.groups[g].group;
  std::string text = fmt::format("group {} by {}{}{}:", g, group.owner->name(), target.empty() ? "" : " on ", target);
  for (const graph::NodeId node : group.nodes) {
    text += fmt::format(" {}{}", unit.graph->node(node).op, node == group.anchor ? "*" : "");
  }
  graph::OriginSet origins;
  for (const graph::NodeId node : group.nodes) graph::merge_origins(&origins, unit.graph->node(node).origins);
  return text + fmt::format("  // {}\n", graph::origins_text(origins));
}

std::string groups_text(const Unit& unit) {
  std::string text;
  for (size_t g = 0; g < unit.groups.size(); ++g) text += group_line(unit, g);
  for (const auto& [node, bodies] : unit.bodies) {
    for (const Unit& body : bodies) {
      text += fmt::format("\nbody of {}\n{}", graph::origins_text(unit.graph->node(node).origins), groups_text(body));
    }
  }
  return text;
}

}  // namespace aipu::gbuilder
