#include "kernels/plugin.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {

TensorRef SetupContext::add_constant(graph::ConstantPtr constant) {
  implementation.constants.push_back(std::move(constant));
  return {TensorRef::Kind::kConstant, {}, static_cast<int>(implementation.constants.size()) - 1};
}

TensorRef SetupContext::add_workspace(graph::Dim bytes) {
  implementation.workspace_bytes.push_back(std::move(bytes));
  return {TensorRef::Kind::kWorkspace, {}, static_cast<int>(implementation.workspace_bytes.size()) - 1};
}

static Result<std::shared_ptr<const tir::Module>> instantiate(TemplateLibrary& templates, std::string_view file,
                                                              std::string_view entry, const dsl::TemplateParams& params,
                                                              bool wide_indices) {
  auto module = templates.instantiate(file, entry, params, entry, wide_indices);
  if (!module.ok()) return std::move(module).status().context(fmt::format("kernel template {}:{}", file, entry));
  return module;
}

Result<std::shared_ptr<const tir::Module>> SetupContext::kernel(std::string_view file, std::string_view entry,
                                                                const dsl::TemplateParams& params) {
  return instantiate(templates_, file, entry, params, target_.address_bits > 32);
}

Result<std::shared_ptr<const tir::Module>> SetupContext::narrow_kernel(std::string_view file, std::string_view entry,
                                                                       const dsl::TemplateParams& params) {
  return instantiate(templates_, file, entry, params, false);
}

int64_t SetupContext::fault(std::string message, graph::NodeId node) {
  faults_.push_back({std::move(message), node.valid() ? node : group_.anchor});
  return static_cast<int64_t>(faults_.size()) - 1;
}

void SetupContext::check(graph::Dim must_be_nonzero, std::string message, graph::Dim value, graph::Dim limit) {
  value_checks_.push_back({{std::move(must_be_nonzero), std::move(message)}, std::move(value), std::move(limit)});
}

Status SetupContext::launch(std::shared_ptr<const tir::Module> kernel, const KernelArguments& arguments,
                            graph::Dim max_tecs) {
  KernelLaunch launch;
  AIPU_ASSIGN_OR_RETURN(launch.arguments, arguments.resolve(kernel->entry()));
  launch.writes = templates_.writes(kernel, launch.arguments.size());
  launch.kernel = std::move(kernel);
  launch.max_tecs = std::move(max_tecs);
  implementation.launches.emplace_back(std::move(launch));
  return {};
}

graph::ClaimResult SingleOpPlugin::claim(const graph::Graph& graph, graph::NodeId anchor,
                                         const graph::ClaimTarget&) const {
  const graph::Node& node = graph.node(anchor);
  bool mine = false;
  for (const std::string_view op : ops()) mine = mine || node.op == op;
  if (!mine) return std::nullopt;
  AIPU_RETURN_IF_ERROR(check(graph, node));
  return graph::Claim{anchor, {anchor}, score()};
}

PluginRegistry PluginRegistry::with_builtins() {
  PluginRegistry registry;
  register_builtin_plugins(registry);
  registry.builtin_count_ = registry.plugins_.size();
  return registry;
}

bool PluginRegistry::remove(std::string_view name) {
  const size_t before = plugins_.size();
  for (size_t k = plugins_.size(); k-- > 0;) {
    if (plugins_[k]->name() != name) continue;
    plugins_.erase(plugins_.begin() + static_cast<ptrdiff_t>(k));
    if (k < builtin_count_) --builtin_count_;
  }
  return plugins_.size() < before;
}

std::vector<const graph::Claimer*> PluginRegistry::claimers() const {
  std::vector<const graph::Claimer*> result;
  for (size_t k = 0; k < builtin_count_; ++k) result.push_back(plugins_[k].get());
  return result;
}

std::vector<const graph::Claimer*> PluginRegistry::user_claimers() const {
  std::vector<const graph::Claimer*> result;
  for (size_t k = builtin_count_; k < plugins_.size(); ++k) result.push_back(plugins_[k].get());
  return result;
}

Result<std::vector<graph::Group>> PluginRegistry::partition(const graph::Graph& graph,
                                                            const graph::ClaimTarget& target) {
  const graph::PartitionTarget only{target};
  return partition(graph, std::span(&only, 1));
}

Result<std::vector<graph::Group>> PluginRegistry::partition(const graph::Graph& graph,
                                                            std::span<const graph::PartitionTarget> targets) {
  auto groups = graph::partition_for_targets(graph, claimers(), targets, user_claimers());
  if (groups.ok()) {
    for (const graph::Group& group : *groups) used_.insert(group.owner);
  }
  return groups;
}

}  // namespace aipu::kernels
