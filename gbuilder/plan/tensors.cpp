// Which value lives where.
#include <algorithm>

#include "gbuilder/plan/planner.h"
#include "runtime/base/stored_type.h"

namespace aipu::gbuilder {

using graph::Dim;
using graph::ValueId;

Status Planner::collect_views() {
  for (const size_t g : order_) {
    for (const kernels::View& view : input_.groups[g].implementation.views) {
      if (!views_.emplace(view.output, ValueMemory{view.input, view.byte_offset}).second) {
        return internal_error(str_cat(describe(g), ": declares '", graph_.value(view.output).name, "' a view twice"));
      }
    }
  }
  for (const auto& entry : views_) {
    size_t steps = 0;
    for (auto at = views_.find(entry.first); at != views_.end(); at = views_.find(at->second.root)) {
      if (++steps > views_.size())
        return internal_error(str_cat("'", graph_.value(entry.first).name, "' is a view of itself"));
    }
  }
  return {};
}

ValueMemory Planner::resolve(ValueId value) const {
  ValueMemory memory{value, 0};
  for (auto it = views_.find(value); it != views_.end(); it = views_.find(memory.root)) {
    memory.offset += it->second.offset;
    memory.root = it->second.root;
  }
  return memory;
}

namespace {

// Packed elements are inputs and outputs, or about to become some: everywhere else a byte holds one.
Dim size_of(const graph::TensorType& type) {
  const Dim count = graph::element_count(type.shape);
  if (is_packed(type.dtype)) return ceildiv(count * Dim(int64_t{dtype_bits(type.dtype)}), 8);
  return count * Dim(static_cast<int64_t>(dtype_bytes(type.dtype)));
}

}  // namespace

Dim Planner::bytes_of(ValueId value) const { return size_of(graph_.type(value)); }

uint32_t Planner::add_tensor(std::string name, const graph::TensorType& type, TensorKind kind) {
  PlanTensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = type.dtype;
  for (const Dim& extent : type.shape) tensor.shape.push_back(expr(extent));
  tensor.size_bytes = expr(size_of(type));
  tensor.kind = kind;
  plan_.tensors.push_back(std::move(tensor));
  return static_cast<uint32_t>(plan_.tensors.size() - 1);
}

uint32_t Planner::constant_tensor(const graph::ConstantPtr& constant, const std::string& name) {
  const auto [it, is_new] = constants_.try_emplace(constant->hash(), 0);
  if (is_new) {
    it->second = add_tensor(name, constant->type(), TensorKind::kConstant);
    plan_.tensors.back().constant = constant;
  }
  return it->second;
}

void Planner::add_inputs() {
  for (const ValueId input : graph_.inputs()) {
    const uint32_t tensor = add_tensor(graph_.value(input).name, graph_.type(input), TensorKind::kInput);
    tensor_of_value_.emplace(input, tensor);
    plan_.inputs.push_back(tensor);
  }
}

// Whether some group, an input or a constant gives the value bytes.
bool Planner::is_materialised(ValueId value) const {
  const graph::Value& v = graph_.value(value);
  if (v.constant != nullptr || tensor_of_value_.contains(value) || views_.contains(value)) return true;
  const auto it = producer_.find(value);
  if (it == producer_.end()) return false;
  const auto& outputs = input_.groups[it->second].group.outputs;
  return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
}

Result<uint32_t> Planner::tensor_of(ValueId value) {
  if (const auto it = tensor_of_value_.find(value); it != tensor_of_value_.end()) return it->second;
  const graph::Value& v = graph_.value(value);
  if (!is_materialised(value))
    return internal_error(str_cat("value '", v.name, "' is needed, but no group computes it"));
  uint32_t tensor = kNone;
  if (v.constant != nullptr) {
    tensor = constant_tensor(v.constant, v.name);
  } else {
    const ValueMemory memory = resolve(value);
    const auto promoted = promoted_.find(memory.root);
    if (memory.root != value || promoted != promoted_.end()) {
      uint32_t base = kNone;
      if (promoted != promoted_.end()) {
        base = promoted->second;
      } else {
        AIPU_ASSIGN_OR_RETURN(base, tensor_of(memory.root));
      }
      tensor = add_tensor(v.name, v.type, TensorKind::kView);
      plan_.tensors.back().base = base;
      plan_.tensors.back().view_offset = expr(memory.offset);
    } else {
      tensor = add_tensor(v.name, v.type, TensorKind::kArena);
      if (is_on_host(value)) plan_.tensors[tensor].memory = Memory::kHost;
    }
  }
  tensor_of_value_.emplace(value, tensor);
  return tensor;
}

Result<uint32_t> Planner::tensor_of(size_t group, const kernels::TensorRef& ref, std::vector<uint32_t>* workspaces) {
  const kernels::Implementation& implementation = input_.groups[group].implementation;
  const auto index = static_cast<size_t>(ref.index);
  switch (ref.kind) {
    case kernels::TensorRef::Kind::kValue:
      if (!ref.value.valid()) return internal_error(str_cat(describe(group), ": passes an absent operand to a kernel"));
      return tensor_for(ref.value, memory_);
    case kernels::TensorRef::Kind::kConstant:
      if (index >= implementation.constants.size()) break;
      return constant_tensor(implementation.constants[index], str_cat("const", plan_.tensors.size()));
    case kernels::TensorRef::Kind::kWorkspace:
      if (index >= implementation.workspace_bytes.size()) break;
      if ((*workspaces)[index] == kNone) {
        const graph::TensorType type{DType::kU8, {implementation.workspace_bytes[index]}};
        (*workspaces)[index] = add_tensor(str_cat("workspace", plan_.tensors.size()), type, TensorKind::kArena);
        plan_.tensors[(*workspaces)[index]].workspace = true;
        plan_.tensors[(*workspaces)[index]].memory = memory_;
      }
      return (*workspaces)[index];
  }
  return internal_error(str_cat(describe(group), ": refers to a constant or workspace that it did not add"));
}

// An output that a kernel computes lives in the caller's memory from the start, seen through whole-size views (a final
// Reshape) too. An output that is an input, a constant, a part of something or another output again is a copy.
Status Planner::assign_outputs() {
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const graph::Graph::Output& output = graph_.outputs()[i];
    const graph::TensorType& type = graph_.type(output.value);
    const uint32_t tensor = add_tensor(output.name, type, TensorKind::kOutput);
    plan_.outputs.push_back(tensor);
    if (!is_materialised(output.value))
      return internal_error(str_cat("output '", output.name, "' is computed by no group"));
    const ValueMemory memory = resolve(output.value);
    // Results of a body are on the device.
    const bool on_host = is_on_host(memory.root);
    if (on_host && !input_.is_body) plan_.tensors[tensor].memory = Memory::kHost;
    const bool own_memory = graph_.value(memory.root).constant == nullptr && !tensor_of_value_.contains(memory.root) &&
                            !promoted_.contains(memory.root) && !(on_host && input_.is_body);
    if (own_memory && memory.offset == Dim(0) && bytes_of(memory.root) == bytes_of(output.value)) {
      promoted_.emplace(memory.root, tensor);
      if (memory.root == output.value) tensor_of_value_.emplace(output.value, tensor);
    } else {
      copied_outputs_.push_back(i);
    }
  }
  return {};
}

}  // namespace aipu::gbuilder
