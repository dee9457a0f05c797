// The plugin files that a user has named: what each of them registered, and why one does nothing for a model.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "kernels/plugin.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

class UserPlugins {
 public:
  // `registry` has what `load` registers, `warnings` gets a line for what is odd. Both outlive this.
  UserPlugins(kernels::PluginRegistry* registry, std::vector<std::string>* warnings)
      : registry_(*registry), warnings_(*warnings) {}

  Status load(const std::string& file, const std::function<Status()>& load);

  // Once the models are partitioned. Said in a warning: why a file that the user has named does nothing for them.
  void warn_of_unused(std::span<const graph::Graph* const> graphs, const graph::ClaimTarget& target);

 private:
  // A plugin file of the user's, and what it registered.
  struct UserPlugin {
    std::string file;
    std::vector<const graph::Claimer*> claimers;
    std::set<std::string, std::less<>> values;  // ops that need no plugin
  };
  // What one of its plugins says against a node; empty: none of its business.
  static std::string refusal_of(const UserPlugin& plugin, const graph::Graph& graph, graph::NodeId id,
                                const graph::ClaimTarget& target);
  // Why it claims no node of theirs; "": it need not.
  static std::string why_unused(const UserPlugin& plugin, std::span<const graph::Graph* const> graphs,
                                const graph::ClaimTarget& target);

  kernels::PluginRegistry& registry_;
  std::vector<std::string>& warnings_;
  std::vector<UserPlugin> plugins_;
};

}  // namespace aipu::gbuilder
