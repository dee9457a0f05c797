#include "kernels/script_op/script_plugin.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>

#include "graph/ops/axis_rules.h"
#include "kernels/script_op/binding.h"
#include "kernels/script_op/declaration.h"
#include "runtime/base/file.h"

namespace aipu::kernels {
namespace {

using script_op::Binding;
using script_op::Declaration;
using script_op::DimPattern;
using script_op::TensorDeclaration;
using DeclarationPtr = std::shared_ptr<const Declaration>;

// The letters of graph::OperandDef; the exact types are the declaration's.
std::string type_letters(const Declaration& d, const TensorDeclaration& t) {
  std::vector<DType> dtypes;
  if (const auto* fixed = std::get_if<DType>(&t.type))
    dtypes = {*fixed};
  else
    dtypes = d.find_type(std::get<std::string>(t.type))->allowed;
  std::string letters;
  for (const DType dtype : dtypes) {
    const char letter = is_bool(dtype) ? 'b' : is_signed_int(dtype) ? 'i' : is_unsigned_int(dtype) ? 'u' : 'f';
    if (letters.find(letter) == std::string::npos) letters += letter;
  }
  return letters;
}

std::vector<graph::TensorType> input_types(const graph::Graph& graph, const graph::Node& node, size_t count) {
  std::vector<graph::TensorType> types;
  for (size_t i = 0; i < count; ++i) types.push_back(graph.type(node.inputs[i]));
  return types;
}

// The axes of a tensor that an extent's name stands for: first and count.
struct AxisRange {
  size_t first = 0, count = 0;
};
std::optional<AxisRange> axes_of(const TensorDeclaration& tensor, std::string_view name, size_t rank) {
  if (!tensor.dims) return std::nullopt;
  size_t axis = 0;
  for (const DimPattern& dim : *tensor.dims) {
    const size_t count = dim.kind == DimPattern::Kind::kRest ? rank + 1 - tensor.dims->size() : 1;
    if (dim.kind != DimPattern::Kind::kConstant && dim.name == name) return AxisRange{axis, count};
    axis += count;
  }
  return std::nullopt;
}

// Axes of one name run along with each other; those that `apart` names are computed position by position.
graph::AxisMap axes_by_name(const Declaration& d, const graph::Graph& graph, const graph::Node& node) {
  graph::AxisMapBuilder map(graph, node);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (map.output_rank(k) == 0) continue;
    for (const std::string& name : d.apart) {
      const auto to = axes_of(d.outputs[k], name, map.output_rank(k));
      for (size_t i = 0; to && i < to->count; ++i) {
        map.apart(k, to->first + i);
        for (size_t input = 0; input < node.inputs.size(); ++input) {
          const auto from = axes_of(d.inputs[input], name, map.input_rank(input));
          if (from && i < from->count) map.link(k, to->first + i, input, from->first + i);
        }
      }
    }
  }
  return map.take();
}

// Whether all tensors have the same extents, "...n", all apart, and nothing else sees their order.
bool is_pointwise(const Declaration& d) {
  if (d.apart.size() != 1 || d.shape || !d.extents.empty()) return false;
  const auto is_attribute = [&](const dsl::ast::Parameter& parameter) {
    return d.find_attribute(parameter.name) != nullptr;
  };
  if (d.check &&
      !std::all_of(d.check->definition->parameters.begin(), d.check->definition->parameters.end(), is_attribute))
    return false;
  const auto fits = [&](const TensorDeclaration& t) {
    return t.dims && t.dims->size() == 1 && t.dims->front().kind == DimPattern::Kind::kRest &&
           t.dims->front().name == d.apart.front();
  };
  return std::all_of(d.inputs.begin(), d.inputs.end(), fits) && std::all_of(d.outputs.begin(), d.outputs.end(), fits);
}

graph::OpDef op_record(const DeclarationPtr& declaration) {
  graph::OpDef def;
  def.name = declaration->op_type;
  for (const TensorDeclaration& t : declaration->inputs) def.inputs.push_back({t.name, type_letters(*declaration, t)});
  for (const TensorDeclaration& t : declaration->outputs)
    def.outputs.push_back({t.name, type_letters(*declaration, t)});
  def.attributes = declaration->attributes;
  def.axes = [declaration](const graph::Graph& graph, const graph::Node& node) {
    return axes_by_name(*declaration, graph, node);
  };
  if (is_pointwise(*declaration)) def.traits |= graph::kAnyAxisOrder;
  def.infer = [declaration](graph::InferContext& context) -> Status {
    std::vector<graph::TensorType> types;
    for (size_t i = 0; i < declaration->inputs.size(); ++i) types.push_back(context.input(i));
    AIPU_ASSIGN_OR_RETURN(Binding binding, script_op::bind(*declaration, types, context.attributes()));
    // Outputs that nobody uses may be left out at the end.
    for (size_t i = 0; i < context.output_types.size() && i < binding.outputs.size(); ++i)
      context.output_types[i] = std::move(binding.outputs[i]);
    return {};
  };
  return def;
}

dsl::Captured captured(const graph::AttributeValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return {*i};
  if (const auto* d = std::get_if<double>(&value)) return {*d};
  if (const auto* s = std::get_if<std::string>(&value)) return {*s};
  dsl::CapturedList list;
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    for (const int64_t i : *ints) list.push_back({i});
  } else if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    for (const double d : *reals) list.push_back({d});
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& s : *strings) list.push_back({s});
  }
  return {std::move(list)};
}

class ScriptPlugin final : public SingleOpPlugin {
 public:
  explicit ScriptPlugin(DeclarationPtr declaration)
      : declaration_(std::move(declaration)), ops_{declaration_->op_type} {}

  std::string_view name() const override { return declaration_->op_type; }
  std::span<const std::string_view> ops() const override { return ops_; }

  Status setup(SetupContext& context) const override {
    const Declaration& d = *declaration_;
    const graph::Node& node = context.anchor();
    AIPU_ASSIGN_OR_RETURN(const Binding binding,
                          script_op::bind(d, input_types(context.graph(), node, d.inputs.size()), node.attributes));

    dsl::TemplateParams params;
    for (const auto& [type, dtype] : binding.types) params.set(type, dtype);
    for (const script_op::LaneCount& lanes : d.lanes) {
      const auto* type = std::get_if<std::string>(&lanes.type);
      if (type == nullptr || binding.types.contains(*type))
        params.set(lanes.name, context.lanes(script_op::dtype_of(lanes.type, binding)));
    }
    for (const graph::AttributeDef& a : d.attributes) {
      if (const graph::AttributeValue* value = node.attributes.find(a.name)) params.set(a.name, captured(*value));
    }

    std::map<std::string, TensorRef, std::less<>> tensors;
    std::map<std::string, DType, std::less<>> dtypes;
    for (size_t i = 0; i < d.inputs.size(); ++i) {
      tensors[d.inputs[i].name] = context.value(node.inputs[i]);
      dtypes[d.inputs[i].name] = script_op::dtype_of(d.inputs[i].type, binding);
    }
    graph::Dim elements = 0;
    for (size_t i = 0; i < d.outputs.size(); ++i) {
      dtypes[d.outputs[i].name] = binding.outputs[i].dtype;
      const graph::Dim count = graph::element_count(binding.outputs[i].shape);
      elements += count;
      // A result that nobody asked for goes to scratch memory.
      const bool wanted = i < node.outputs.size() && node.outputs[i].valid();
      tensors[d.outputs[i].name] =
          wanted ? context.value(node.outputs[i])
                 : context.add_workspace(count * static_cast<int64_t>(dtype_bytes(binding.outputs[i].dtype)));
    }
    for (size_t i = 0; i < d.workspace.size(); ++i) {
      dtypes[d.workspace[i].name] = binding.workspace[i].dtype;
      tensors[d.workspace[i].name] =
          context.add_workspace(graph::element_count(binding.workspace[i].shape) *
                                static_cast<int64_t>(dtype_bytes(binding.workspace[i].dtype)));
    }
    for (const auto& [a, b] : binding.must_agree) {
      context.implementation.checks.push_back(
          {graph::eq(a, b),
           fmt::format("{}: extents that must agree differ ({} and {})", d.op_type, a.text(), b.text())});
    }

    const graph::Dim max_tecs =
        d.grain == 0 ? graph::Dim(int64_t{1} << 20) : graph::max(graph::ceildiv(elements, d.grain), 1);
    std::set<std::string_view> unwritten;
    for (const TensorDeclaration& output : d.outputs) unwritten.insert(output.name);
    for (const script_op::KernelDeclaration& kernel : d.kernels) {
      AIPU_ASSIGN_OR_RETURN(auto module, context.kernel(d.file, kernel.name, params));
      KernelArguments arguments;
      for (const tir::VarPtr& parameter : module->entry().params) {
        AIPU_ASSIGN_OR_RETURN(KernelArgument argument,
                              argument_of(context, *parameter, kernel, binding, tensors, dtypes));
        arguments.argument(parameter->source_name(), std::move(argument));
      }
      const std::shared_ptr<const tir::Module> parameters = module;
      AIPU_RETURN_IF_ERROR(context.launch(std::move(module), arguments, max_tecs));
      const auto& launched = std::get<KernelLaunch>(context.implementation.launches.back());
      for (size_t i = 0; i < launched.writes.size(); ++i) {
        if (launched.writes[i]) unwritten.erase(parameters->entry().params[i]->name);
      }
    }
    if (!unwritten.empty())
      return d.program->error(d.position, fmt::format("no kernel writes the output \"{}\"", *unwritten.begin()));
    return {};
  }

 private:
  Result<KernelArgument> argument_of(SetupContext& context, const tir::Var& parameter,
                                     const script_op::KernelDeclaration& kernel, const Binding& binding,
                                     const std::map<std::string, TensorRef, std::less<>>& tensors,
                                     const std::map<std::string, DType, std::less<>>& dtypes) const {
    const Declaration& d = *declaration_;
    const tir::Type& type = parameter.type;
    const auto refused = [&](std::string_view text) {
      return d.program->error(kernel.position,
                              fmt::format("parameter \"{}\" of kernel \"{}\" {}", parameter.name, kernel.name, text));
    };
    if (const auto tensor = tensors.find(parameter.name); tensor != tensors.end()) {
      const bool global = type.scope == tir::Scope::kGlobal || type.scope == tir::Scope::kGlobal1 ||
                          type.scope == tir::Scope::kGlobal2 || type.scope == tir::Scope::kGlobal3;
      if (!type.pointer || !global) return refused("must be a global pointer, it is a tensor");
      const DType dtype = dtypes.find(parameter.name)->second;
      // A bool tensor is bytes to a kernel.
      const bool fits = type.element == dtype || type.element == DType::kVoid ||
                        (is_bool(dtype) && (type.element == DType::kU8 || type.element == DType::kI8));
      if (!fits)
        return refused(fmt::format("points to {}, but the tensor is {}", dtype_name(type.element), dtype_name(dtype)));
      return KernelArgument(PointerArgument{tensor->second});
    }
    if (type.pointer) return refused("is a pointer, but the name stands for a number");
    if (const auto extent = binding.extents.find(parameter.name); extent != binding.extents.end()) {
      if (!is_integer(type.element))
        return refused(fmt::format("is {}, but an extent is an integer", dtype_name(type.element)));
      const int bits = dtype_bits(type.element) - (is_signed_int(type.element) ? 1 : 0);
      if (bits < 63) {
        const int64_t limit = int64_t{1} << bits;
        if (extent->second.is_constant() && *extent->second.constant() >= limit)
          return refused(
              fmt::format("is {}, which can't hold the extent {}", dtype_name(type.element), extent->second.text()));
        if (!extent->second.is_constant()) {
          context.implementation.checks.push_back(
              {graph::lt(extent->second, limit),
               fmt::format("{}: extent '{}' does not fit the kernel's parameter, which is {}", d.op_type,
                           parameter.name, dtype_name(type.element))});
        }
      }
      return KernelArgument(ScalarArgument{extent->second});
    }
    const graph::AttributeValue* attribute = context.anchor().attributes.find(parameter.name);
    if (attribute == nullptr) return refused("has no value");
    const auto* integer = std::get_if<int64_t>(attribute);
    const double real = integer != nullptr ? static_cast<double>(*integer) : std::get<double>(*attribute);
    if (is_floating(type.element)) return KernelArgument(FloatArgument{real});
    if (integer == nullptr)
      return refused(fmt::format("is {}, but the attribute is a float", dtype_name(type.element)));
    return KernelArgument(ScalarArgument{*integer});
  }

  DeclarationPtr declaration_;
  std::array<std::string_view, 1> ops_;
};

}  // namespace

Status register_script_operators(const std::string& path, PluginLibrary& library) {
  AIPU_ASSIGN_OR_RETURN(std::string text, read_text_file(path));
  AIPU_ASSIGN_OR_RETURN(auto declarations, script_op::read_declarations(path, text));
  for (const DeclarationPtr& declaration : declarations) {
    if (library.ops().find(declaration->op_type) != nullptr)
      return declaration->program->error(declaration->position,
                                         fmt::format("there is an operator \"{}\" already", declaration->op_type));
    AIPU_RETURN_IF_ERROR(library.add_op(op_record(declaration)));
  }
  library.add_template(path, text);
  for (const DeclarationPtr& declaration : declarations)
    library.add_plugin(std::make_unique<ScriptPlugin>(declaration));
  return {};
}

}  // namespace aipu::kernels
