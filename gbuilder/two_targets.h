// Targets side by side: a device, and the host that computes what the device cannot.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/targets/target.h"
#include "gbuilder/unit.h"
#include "graph/partition/claim.h"
#include "kernels/plugin.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

// "X2_1204", or "X2_1204+host": the targets of a model, the device first. Errors are about the words.
Result<std::vector<tir::Target>> find_targets(const std::string& text);
std::string targets_text(const std::vector<tir::Target>& targets);

// Gives the nodes of graphs to a device and the host beside it.
class HostPartition {
 public:
  // All must outlive it. `disabled_lowering`: passes that kernels will be made without.
  HostPartition(kernels::PluginRegistry* registry, const std::vector<tir::Target>* targets, bool fast_math,
                const std::vector<std::string>* disabled_lowering)
      : registry_(*registry), targets_(*targets), fast_math_(fast_math), disabled_lowering_(*disabled_lowering) {}

  // What the device can set up and has the types for is its, unless moving it to the host makes less cross.
  Result<std::vector<graph::Group>> partition(const graph::Graph& graph, bool is_body);

  // For the dump: who computes each group, why the device does not, and what crosses.
  std::string text(const Unit& unit, bool is_body = false) const;

 private:
  Status accepts(const graph::Graph& graph, const graph::Group& group);
  Status accepts(const kernels::KernelLaunch& launch);
  Status lower(const std::shared_ptr<const tir::Module>& kernel) const;
  std::string reason(const Unit& unit, const graph::Group& group) const;

  kernels::PluginRegistry& registry_;
  const std::vector<tir::Target>& targets_;
  const bool fast_math_;
  const std::vector<std::string>& disabled_lowering_;
  std::map<Hash128, Status> known_;                                                // kernels, by text
  std::map<std::pair<const graph::Graph*, graph::NodeId>, std::string> refusals_;  // of single nodes
};

}  // namespace aipu::gbuilder
