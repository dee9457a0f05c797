#include "kernels/script_op/tensor_definition.h"

#include <fmt/format.h>

#include <limits>

#include "kernels/script_op/tensor_objects.h"
#include "kernels/te/print.h"

namespace aipu::kernels::script_op {
namespace {

using dsl::Captured;
using graph::Dim;

// What may not fit 32 bits as a position.
bool is_large(const graph::Shape& shape) {
  const auto count = graph::element_count(shape).constant();
  return count && *count > std::numeric_limits<int32_t>::max();
}

}  // namespace

te::Expr TensorDefinition::extent(const Dim& dim) {
  if (const auto value = dim.constant()) return te::make_int(*value, index_type_);
  for (const auto& [var, known] : symbols_) {
    if (known == dim) return var;
  }
  symbols_.emplace_back(te::make_var("n", index_type_, true), dim);
  return symbols_.back().first;
}

Result<Dim> TensorDefinition::dim(const te::Expr& e) const {
  if (const auto value = te::as_int(e)) return Dim(*value);
  for (const auto& [var, known] : symbols_) {
    if (var == e) return known;
  }
  if (const auto* cast = e->as<te::Cast>(); cast != nullptr && is_integer(e->type.element)) return dim(cast->value);
  if (const auto* b = e->as<te::Binary>()) {
    AIPU_ASSIGN_OR_RETURN(const Dim x, dim(b->a));
    AIPU_ASSIGN_OR_RETURN(const Dim y, dim(b->b));
    switch (b->op) {
      case te::BinaryOp::kAdd:
        return x + y;
      case te::BinaryOp::kSub:
        return x - y;
      case te::BinaryOp::kMul:
        return x * y;
      case te::BinaryOp::kFloorDiv:
        return graph::floordiv(x, y);
      case te::BinaryOp::kFloorMod:
        return graph::mod(x, y);
      case te::BinaryOp::kMin:
        return graph::min(x, y);
      case te::BinaryOp::kMax:
        return graph::max(x, y);
      default:
        break;
    }
  }
  return invalid_model(
      fmt::format("an extent that is not known yet is made by + - * // % min and max, not: {}", te::to_text(e)));
}

Result<graph::Shape> TensorDefinition::shape(const te::Tensor& tensor) const {
  graph::Shape shape;
  for (const te::Expr& e : tensor.shape()) {
    AIPU_ASSIGN_OR_RETURN(Dim extent, dim(e));
    shape.push_back(std::move(extent));
  }
  return shape;
}

Result<TensorDefinition> TensorDefinition::of(const Declaration& declaration, const Inputs& inputs,
                                              const graph::Attributes& attributes, const Binding& binding) {
  const Declaration& d = declaration;
  TensorDefinition made;
  for (const auto& input : inputs) {
    if (input && is_large(input->shape)) made.index_type_ = tir::Type::scalar(DType::kI64);
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    made.inputs_.emplace_back();
    if (!inputs[k]) continue;
    const TensorDeclaration& t = d.inputs[std::min(k, d.inputs.size() - 1)];
    std::vector<te::Expr> shape;
    for (const Dim& dim : inputs[k]->shape) shape.push_back(made.extent(dim));
    made.inputs_.back() = {te::make_placeholder(t.name, std::move(shape), tir::Type::scalar(inputs[k]->dtype)), 0};
  }
  const auto objects = std::make_shared<TensorObjects>(d.program);
  for (const auto& [name, dtype] : binding.types) objects->set(name, Captured{std::string(dtype_name(dtype))});
  const auto value_of = [&](const std::string& name, dsl::ValuePool& pool) -> dsl::Value {
    if (const auto extent = binding.extents.find(name); extent != binding.extents.end())
      return dsl::to_value(TensorObjects::expression(made.extent(extent->second)), pool);
    if (const graph::AttributeValue* attribute = attributes.find(name)) return attribute_value(*attribute, pool);
    for (size_t i = 0; i < d.inputs.size(); ++i) {
      if (d.inputs[i].name != name) continue;
      const OperandRange range = operand_range(d.inputs, i, inputs.size());
      dsl::ValueList operands;
      for (size_t k = range.first; k < range.first + range.count; ++k) {
        operands.push_back(made.inputs_[k].op ? dsl::to_value(TensorObjects::tensor(made.inputs_[k]), pool)
                                              : dsl::Value{});
      }
      if (d.inputs[i].variadic) return pool.list(std::move(operands));
      return operands.empty() ? dsl::Value{} : operands[0];
    }
    return {};
  };
  const auto arguments = [&](dsl::ValuePool& pool) {
    dsl::HostProgram::Arguments given;
    for (const dsl::ast::Parameter& p : d.compute->definition->parameters) {
      dsl::Value value = value_of(p.name, pool);
      if (!value.is_none() || p.default_value == nullptr) given.emplace_back(p.name, std::move(value));
    }
    return given;
  };
  AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, d.program->call(*d.compute, arguments, objects));
  const dsl::Position place = d.compute->definition->position;
  const auto refused = [&](std::string_view text) { return d.program->error(place, text); };
  AIPU_ASSIGN_OR_RETURN(const Captured value, dsl::to_captured(result.value));
  auto outputs = TensorObjects::tensors(value);
  if (!outputs.ok()) return refused(outputs.status().message());
  made.outputs_ = std::move(outputs).value();
  if (made.outputs_.size() != d.outputs.size())
    return refused(
        fmt::format("the definition returns {} tensors for {} outputs", made.outputs_.size(), d.outputs.size()));
  for (size_t k = 0; k < made.outputs_.size(); ++k) {
    const te::Tensor& tensor = made.outputs_[k];
    if (tensor.op->is_placeholder())
      return refused(fmt::format("output \"{}\" is an input, nothing computes it", d.outputs[k].name));
    for (size_t other = 0; other < k; ++other) {
      if (made.outputs_[other] == tensor)
        return refused(
            fmt::format("outputs \"{}\" and \"{}\" are one tensor", d.outputs[other].name, d.outputs[k].name));
    }
    const auto declared = dtype_of(d.outputs[k].type, binding);
    if (declared && *declared != tensor.type().element)
      return refused(fmt::format("output \"{}\" is {}, but the definition computes {}", d.outputs[k].name,
                                 dtype_name(*declared), te::type_text(tensor.type())));
  }
  return made;
}

}  // namespace aipu::kernels::script_op
