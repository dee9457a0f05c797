#include "gbuilder/user_plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace aipu::gbuilder {

Status UserPlugins::load(const std::string& file, const std::function<Status()>& load) {
  for (const UserPlugin& other : plugins_) {
    if (other.file != file) continue;
    warnings_.push_back(fmt::format("plugin '{}' is given twice", file));
    return {};
  }
  const size_t before = registry_.user_claimers().size();
  const size_t values_before = registry_.value_ops().size();
  AIPU_RETURN_IF_ERROR(load());
  const auto all = registry_.user_claimers();
  const auto& values = registry_.value_ops();
  plugins_.push_back({file,
                      {all.begin() + static_cast<ptrdiff_t>(before), all.end()},
                      {values.begin() + static_cast<ptrdiff_t>(values_before), values.end()}});
  return {};
}

void UserPlugins::warn_of_unused(std::span<const graph::Graph* const> graphs, const graph::ClaimTarget& target) {
  const auto present = registry_.user_claimers();
  for (const UserPlugin& plugin : plugins_) {
    const auto is_used = [&](const graph::Claimer* claimer) {
      return registry_.was_used(claimer) || std::find(present.begin(), present.end(), claimer) == present.end();
    };
    if (std::any_of(plugin.claimers.begin(), plugin.claimers.end(), is_used)) continue;
    if (const std::string reason = why_unused(plugin, graphs, target); !reason.empty())
      warnings_.push_back(fmt::format("plugin '{}' is not used: {}", plugin.file, reason));
  }
}

std::string UserPlugins::why_unused(const UserPlugin& plugin, std::span<const graph::Graph* const> graphs,
                                    const graph::ClaimTarget& target) {
  std::string reason;
  for (const graph::Graph* graph : graphs) {
    for (const graph::NodeId id : graph->topological_order()) {
      if (plugin.values.contains(graph->node(id).op)) return "";
      if (!reason.empty()) continue;
      if (const std::string refusal = refusal_of(plugin, *graph, id, target); !refusal.empty())
        reason = fmt::format("node {}: {}", graph::origins_text(graph->node(id).origins), refusal);
    }
  }
  return reason.empty() ? "the model has no node that it claims" : reason;
}

std::string UserPlugins::refusal_of(const UserPlugin& plugin, const graph::Graph& graph, graph::NodeId id,
                                    const graph::ClaimTarget& target) {
  for (const graph::Claimer* claimer : plugin.claimers) {
    const graph::ClaimResult claim = claimer->claim(graph, id, target);
    if (!claim.ok()) return claim.status().message();
    if (*claim) return "another plugin has taken it";
  }
  return {};
}

}  // namespace aipu::gbuilder
