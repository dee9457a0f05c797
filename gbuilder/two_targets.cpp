#include "gbuilder/two_targets.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/driver/code_generator.h"
#include "codegen/lower/lower.h"
#include "codegen/targets/machine_types.h"
#include "codegen/tir/on_chip_memory.h"
#include "codegen/tir/text.h"
#include "codegen/tir/visit.h"
#include "gbuilder/record/kernel_table.h"
#include "graph/ir/attribute_error.h"
#include "graph/partition/crossings.h"

namespace aipu::gbuilder {

namespace {

// Whether its kernels are code for CPUs, which the back end of hosts runs.
bool is_host(const tir::Target& target) {
  const auto generator = tir::find_code_generator(target.codegen);
  return target.backend == "host" && generator.ok() && (*generator)->is_for_this_cpu();
}

// What is in memory or in vectors is for the machine's units. Scalars of 64 bits are positions and counts, which take a
// few instructions more, also where they are read as the indices of a Gather are.
Status check_machine_types(const kernels::KernelLaunch& launch, const tir::Target& target) {
  Status status;
  const auto check = [&](const tir::Type& type) {
    if (!status.ok() || type.element == DType::kVoid || is_bool(type.element)) return;
    if (!tir::machine_has(target, type.element))
      status = unsupported(
          fmt::format("it computes with {}, for which {} has no instructions", dtype_name(type.element), target.name));
  };
  const std::vector<tir::VarPtr>& params = launch.kernel->entry().params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i]->type.pointer && (launch.writes[i] || is_floating(params[i]->type.element))) check(params[i]->type);
  }
  for (const tir::PrimFuncPtr& function : launch.kernel->functions) {
    tir::walk(
        function->body,
        [&](const tir::Expr& e) {
          if (e->type.is_vector()) check(e->type);
        },
        [&](const tir::Stmt& s) {
          if (const auto* alloc = s->as<tir::Alloc>()) check(alloc->buffer->type);
        });
  }
  return status;
}

}  // namespace

Result<std::vector<tir::Target>> find_targets(const std::string& text) {
  const size_t plus = text.find('+');
  AIPU_ASSIGN_OR_RETURN(tir::Target first, tir::find_target(text.substr(0, plus)));
  std::vector<tir::Target> targets = {std::move(first)};
  if (plus == std::string::npos) return targets;
  const std::string rest = text.substr(plus + 1);
  if (rest.find('+') != std::string::npos)
    return invalid_argument(fmt::format("--target {}: at most two targets, a device and a host", text));
  AIPU_ASSIGN_OR_RETURN(tir::Target second, tir::find_target(rest));
  if (!is_host(second))
    return invalid_argument(
        fmt::format("--target {}: '{}' is no host, which computes what the device cannot", text, second.name));
  if (targets[0].backend == second.backend)
    return invalid_argument(
        fmt::format("--target {}: '{}' is no device that a host computes beside", text, targets[0].name));
  targets.push_back(std::move(second));
  return targets;
}

std::string targets_text(const std::vector<tir::Target>& targets) {
  std::string text;
  for (const tir::Target& target : targets) text += fmt::format("{}{}", text.empty() ? "" : "+", target.name);
  return text;
}

Result<std::vector<graph::Group>> HostPartition::partition(const graph::Graph& graph, bool is_body) {
  std::vector<graph::PartitionTarget> choices;
  for (const tir::Target& target : targets_) choices.push_back({{target.name, fast_math_}});
  choices[0].accepts = [&](const graph::Group& group) { return accepts(graph, group); };
  AIPU_ASSIGN_OR_RETURN(std::vector<graph::Group> groups, registry_.partition(graph, choices));
  const std::vector<graph::NodeId> moved = graph::nodes_to_move(graph, groups, is_body);
  if (moved.empty()) return groups;
  choices[0].left_to_others.insert(moved.begin(), moved.end());
  return registry_.partition(graph, choices);
}

// The kernels are made on trial. An error other than that something is not supported is told when they are made for
// good.
Status HostPartition::accepts(const graph::Graph& graph, const graph::Group& group) {
  kernels::SetupContext context(graph, group, targets_[0], registry_.templates());
  Status status =
      graph::catch_attribute_error([&] { return kernels::PluginRegistry::plugin_of(group).setup(context); });
  for (const kernels::Launch& launch : context.implementation.launches) {
    if (!status.ok()) break;
    if (const auto* kernel = std::get_if<kernels::KernelLaunch>(&launch)) status = accepts(*kernel);
  }
  if (status.code() != ErrorCode::kUnsupported) return {};
  if (group.nodes.size() == 1) refusals_[{&graph, group.anchor}] = status.message();
  return status;
}

Status HostPartition::accepts(const kernels::KernelLaunch& launch) {
  const Hash128 content = hash_text(tir::print_module(rename_entry(*launch.kernel, "kernel")));
  const auto [known, is_new] = known_.try_emplace(content);
  if (is_new) {
    known->second = check_machine_types(launch, targets_[0]);
    if (known->second.ok()) known->second = lower(launch.kernel);
  }
  return known->second;
}

// As the kernel will be made, up to its text.
Status HostPartition::lower(const std::shared_ptr<const tir::Module>& module) const {
  const tir::Target& target = targets_[0];
  AIPU_ASSIGN_OR_RETURN(const tir::CodeGenerator* generator, tir::find_code_generator(target.codegen));
  tir::LowerOptions options;
  options.disabled_passes = disabled_lowering_;
  AIPU_ASSIGN_OR_RETURN(tir::Module lowered, generator->lower(*module, target, options));
  PlanKernel kernel;
  kernel.symbol = module->entry().name;
  kernel.module = module;
  AIPU_ASSIGN_OR_RETURN(const tir::KernelSource source,
                        tir::kernel_source(kernel.symbol, *module, std::move(lowered), target));
  set_requirements(&kernel, source);
  return tir::check_on_chip_memory(kernel.symbol, kernel.lsram_bytes, kernel.shared_bytes, target);
}

std::string HostPartition::reason(const Unit& unit, const graph::Group& group) const {
  const auto refusal = refusals_.find({unit.graph, group.anchor});
  return refusal != refusals_.end() ? refusal->second : "less crosses";
}

std::string HostPartition::text(const Unit& unit, bool is_body) const {
  std::string text;
  std::vector<graph::Group> groups;
  for (size_t g = 0; g < unit.groups.size(); ++g) {
    const graph::Group& group = groups.emplace_back(unit.groups[g].group);
    text += group_line(unit, g, targets_[group.target].name);
    if (group.target != 0) text += fmt::format("  not {}: {}\n", targets_[0].name, reason(unit, group));
  }
  for (const graph::Crossing& crossing : graph::find_crossings(*unit.graph, groups, is_body)) {
    const graph::Value& value = unit.graph->value(crossing.value);
    text += fmt::format("crosses to {}: '{}' {}, at a cost of {}\n", targets_[crossing.to].name, value.name,
                        value.type.text(), graph::crossing_cost(*unit.graph, crossing.value));
  }
  for (const auto& [node, bodies] : unit.bodies) {
    for (const Unit& body : bodies) {
      text +=
          fmt::format("\nbody of {}\n{}", graph::origins_text(unit.graph->node(node).origins), this->text(body, true));
    }
  }
  return text;
}

}  // namespace aipu::gbuilder
