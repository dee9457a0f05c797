// Small hand-made models for tests of the planner: a graph, groups and implementations without kernels or plugins.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gbuilder/plan/plan.h"
#include "gbuilder/record/command_checker.h"
#include "gbuilder/record/kernel_table.h"

namespace aipu::gbuilder::testing {

class NobodyClaimer : public graph::Claimer {
 public:
  std::string_view name() const override { return "hand"; }
  graph::ClaimResult claim(const graph::Graph&, graph::NodeId, const graph::ClaimTarget&) const override {
    return std::nullopt;
  }
};

// A kernel with `pointers` pointer parameters and `scalars` int32 parameters and an empty body.
inline std::shared_ptr<const tir::Module> make_kernel(const std::string& name, int pointers, int scalars = 0) {
  auto entry = std::make_shared<tir::PrimFunc>();
  entry->name = name;
  const auto add = [&](const std::string& parameter, tir::Type type) {
    auto var = std::make_shared<tir::Var>();
    var->name = parameter;
    var->type = type;
    entry->params.push_back(var);
  };
  for (int i = 0; i < pointers; ++i)
    add("p" + std::to_string(i), tir::Type::pointer_to(DType::kF32, 1, tir::Scope::kGlobal));
  for (int i = 0; i < scalars; ++i) add("n" + std::to_string(i), tir::Type::scalar(DType::kI32));
  entry->body = tir::block({});
  auto module = std::make_shared<tir::Module>();
  module->functions.push_back(entry);
  return module;
}

// Builds a graph of Relu and Add nodes group by group. Sizes: float32 of the given shape.
class HandMade {
 public:
  using ValueId = graph::ValueId;

  graph::Graph graph;
  std::vector<PlannedGroup> groups;
  NobodyClaimer claimer;
  bool batch_loops = false;

  ValueId input(const std::string& name, graph::Shape shape, DType dtype = DType::kF32) {
    return graph.add_input(name, {dtype, std::move(shape)});
  }

  // One node of `op`, one group.
  ValueId node(const std::string& op, std::vector<ValueId> inputs, const std::string& name,
               graph::Attributes attributes = {}) {
    auto id = graph.add_node(op, std::move(attributes), inputs, {name}, {{name, op}});
    if (!id.ok()) throw std::runtime_error(id.status().message());
    const ValueId output = graph.node(*id).outputs[0];
    PlannedGroup planned;
    planned.group.owner = &claimer;
    planned.group.anchor = *id;
    planned.group.nodes = {*id};
    planned.group.inputs = inputs;
    planned.group.outputs = {output};
    groups.push_back(std::move(planned));
    return output;
  }

  kernels::Implementation& implementation() { return groups.back().implementation; }
  static kernels::PointerArgument pointer(ValueId value, graph::Dim offset = 0) {
    return {{kernels::TensorRef::Kind::kValue, value, 0}, std::move(offset)};
  }

  // A kernel node: reads its inputs, writes its output; `may_replace` allows the output to take input 0's memory.
  ValueId kernel(const std::string& op, std::vector<ValueId> inputs, const std::string& name, bool may_replace = false,
                 const std::string& kernel_name = "map") {
    const ValueId output = node(op, inputs, name);
    kernels::KernelLaunch launch;
    launch.kernel = make_kernel(kernel_name, static_cast<int>(inputs.size()) + 1, 1);
    for (const ValueId value : inputs) {
      launch.arguments.emplace_back(pointer(value));
      launch.writes.push_back(false);
    }
    launch.arguments.emplace_back(pointer(output));
    launch.writes.push_back(true);
    launch.arguments.emplace_back(kernels::ScalarArgument{graph::element_count(graph.type(output).shape)});
    launch.writes.push_back(false);
    implementation().launches.emplace_back(std::move(launch));
    if (may_replace) implementation().in_place.emplace_back(output, inputs[0]);
    return output;
  }

  // A copy on the dma engine.
  ValueId copy(ValueId from, const std::string& name) {
    const ValueId output = node("Relu", {from}, name);
    const graph::TensorType& type = graph.type(output);
    const graph::Dim bytes =
        graph::element_count(type.shape) * graph::Dim(static_cast<int64_t>(dtype_bytes(type.dtype)));
    implementation().launches.emplace_back(kernels::CopyLaunch{pointer(output), pointer(from), bytes});
    return output;
  }

  // The node's output is its input's memory.
  ValueId view(ValueId of, const std::string& name, const std::string& op = "Identity") {
    const ValueId output = node(op, {of}, name);
    implementation().views.push_back({output, of, 0});
    return output;
  }

  void output(ValueId value, const std::string& name) { graph.add_output(value, name); }

  Result<Plan> plan() {
    PlanInput input;
    const tir::Target target = *tir::find_target("host-baseline");
    // Groups with target 1 are those of a host beside the device.
    KernelTable table(target), host_table(target, 'h');
    bool has_host = false;
    for (const PlannedGroup& planned : groups) {
      has_host = has_host || planned.group.target == 1;
      auto& rows = input.kernel_of.emplace_back();
      for (const kernels::Launch& launch : planned.implementation.launches) {
        const auto* kernel = std::get_if<kernels::KernelLaunch>(&launch);
        KernelTable& own = planned.group.target == 1 ? host_table : table;
        rows.push_back(kernel == nullptr ? kNone : own.add(kernel->kernel, graph.node(planned.group.anchor).origins));
      }
    }
    input.graph = &graph;
    input.groups = groups;
    input.kernels = std::move(table).take();
    if (has_host) {
      input.host_target = "host-baseline";
      input.first_host_kernel = static_cast<uint32_t>(input.kernels.size());
      for (PlanKernel& kernel : std::move(host_table).take()) input.kernels.push_back(std::move(kernel));
      for (size_t g = 0; g < groups.size(); ++g) {
        for (uint32_t& row : input.kernel_of[g])
          row += row == kNone || groups[g].group.target == 0 ? 0 : input.first_host_kernel;
      }
    }
    input.target = "host-baseline";
    input.batch_loops = batch_loops;
    return make_plan(std::move(input));
  }
};

inline const PlanTensor* find_tensor(const Plan& plan, std::string_view name, TensorKind kind) {
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.name == name && tensor.kind == kind) return &tensor;
  }
  return nullptr;
}

}  // namespace aipu::gbuilder::testing
