#include "kernels/script_op/script_plugin.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>

#include "graph/ops/axis_rules.h"
#include "kernels/parts/user_value.h"
#include "kernels/script_op/binding.h"
#include "kernels/script_op/declaration.h"
#include "kernels/script_op/tensor_definition.h"
#include "kernels/te/lower.h"
#include "kernels/te/rules.h"
#include "kernels/te/to_tir.h"
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

script_op::Inputs input_types(const graph::Graph& graph, const graph::Node& node) {
  script_op::Inputs types;
  for (const graph::ValueId input : node.inputs)
    types.push_back(input.valid() ? std::optional(graph.type(input)) : std::nullopt);
  return types;
}

// The declaration of a node's operand.
const TensorDeclaration& declared(const std::vector<TensorDeclaration>& tensors, size_t operand) {
  return tensors[std::min(operand, tensors.size() - 1)];
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
      const auto to = axes_of(declared(d.outputs, k), name, map.output_rank(k));
      for (size_t i = 0; to && i < to->count; ++i) {
        map.apart(k, to->first + i);
        for (size_t input = 0; input < node.inputs.size(); ++input) {
          const auto from = axes_of(declared(d.inputs, input), name, map.input_rank(input));
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

// What names of the file stand for in a node.
std::vector<std::pair<std::string, graph::AttributeValue>> constants_of(const Declaration& d, const Binding& binding,
                                                                        const graph::Attributes& attributes) {
  std::vector<std::pair<std::string, graph::AttributeValue>> constants;
  for (const auto& [type, dtype] : binding.types) constants.emplace_back(type, std::string(dtype_name(dtype)));
  for (const graph::AttributeDef& a : d.attributes) {
    if (const graph::AttributeValue* value = attributes.find(a.name)) constants.emplace_back(a.name, *value);
  }
  return constants;
}

// The value of an operator of op.elementwise.
Result<graph::ValueFunction> value_of(const Declaration& d, const graph::Graph& graph, const graph::Node& node) {
  const script_op::Inputs inputs = input_types(graph, node);
  AIPU_ASSIGN_OR_RETURN(const Binding binding, script_op::bind(d, inputs, node.attributes, node.outputs.size()));
  graph::ValueFunction value{d.file, d.program->module().file->text, d.value->name, {}, {}, {}};
  value.constants = constants_of(d, binding, node.attributes);
  for (const script_op::LaneCount& lanes : d.lanes) value.lanes.push_back(lanes.name);
  for (const dsl::ast::Parameter& p : d.value->parameters) {
    const auto input =
        std::find_if(d.inputs.begin(), d.inputs.end(), [&](const TensorDeclaration& t) { return t.name == p.name; });
    if (input == d.inputs.end()) {
      value.arguments.emplace_back(*node.attributes.find(p.name));
      continue;
    }
    const auto range = script_op::operand_range(d.inputs, static_cast<size_t>(input - d.inputs.begin()), inputs.size());
    std::vector<size_t> operands;
    for (size_t k = range.first; k < range.first + range.count; ++k) {
      if (inputs[k]) operands.push_back(k);
    }
    if (input->variadic) {
      value.arguments.emplace_back(std::move(operands));
    } else if (operands.empty()) {
      value.arguments.emplace_back(graph::ValueFunction::Absent{});
    } else {
      value.arguments.emplace_back(operands[0]);
    }
  }
  return value;
}

graph::OpDef op_record(const DeclarationPtr& declaration) {
  const Declaration& d = *declaration;
  graph::OpDef def;
  def.name = d.op_type;
  // A variadic operand may stand for none.
  for (const TensorDeclaration& t : d.inputs)
    def.inputs.push_back({t.name, type_letters(d, t), t.optional || t.variadic, t.variadic});
  for (const TensorDeclaration& t : d.outputs) def.outputs.push_back({t.name, type_letters(d, t), false, t.variadic});
  def.attributes = d.attributes;
  if (d.value != nullptr) {
    def.traits |= graph::kElementwise;
    def.value = [declaration](const graph::Graph& graph, const graph::Node& node) {
      return value_of(*declaration, graph, node);
    };
  } else {
    def.axes = [declaration](const graph::Graph& graph, const graph::Node& node) {
      return axes_by_name(*declaration, graph, node);
    };
    if (is_pointwise(d)) def.traits |= graph::kAnyAxisOrder;
  }
  def.infer = [declaration](graph::InferContext& context) -> Status {
    const size_t outputs = context.output_types.size();
    AIPU_ASSIGN_OR_RETURN(Binding binding, script_op::bind(*declaration, input_types(context.graph(), context.node()),
                                                           context.attributes(), outputs));
    // Outputs that nobody uses may be left out at the end.
    for (size_t i = 0; i < outputs && i < binding.outputs.size(); ++i)
      context.output_types[i] = std::move(binding.outputs[i]);
    return {};
  };
  return def;
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
                          script_op::bind(d, input_types(context.graph(), node), node.attributes, node.outputs.size()));
    for (const auto& [a, b] : binding.must_agree) {
      context.implementation.checks.push_back(
          {graph::eq(a, b),
           fmt::format("{}: extents that must agree differ ({} and {})", d.op_type, a.text(), b.text())});
    }
    const Tensors tensors = tensors_of(context, binding);
    graph::Dim elements = 0;
    for (const graph::TensorType& output : binding.outputs) elements += graph::element_count(output.shape);
    const graph::Dim max_tecs =
        d.grain == 0 ? graph::Dim(int64_t{1} << 20) : graph::max(graph::ceildiv(elements, d.grain), 1);
    if (d.compute) return setup_definition(context, binding, tensors, max_tecs);
    std::set<std::string> unwritten;
    for (const auto& [name, tensor] : tensors) {
      if (tensor.is_output) unwritten.insert(name);
    }
    for (const script_op::KernelDeclaration& kernel : d.kernels) {
      AIPU_ASSIGN_OR_RETURN(auto module, context.kernel(d.file, kernel.name, params_of(context, binding, kernel)));
      KernelArguments arguments;
      for (const tir::VarPtr& parameter : module->entry().params) {
        AIPU_ASSIGN_OR_RETURN(KernelArgument argument, argument_of(context, *parameter, kernel, binding, tensors));
        arguments.argument(parameter->source_name(), std::move(argument));
      }
      const std::shared_ptr<const tir::Module> parameters = module;
      AIPU_RETURN_IF_ERROR(context.launch(std::move(module), arguments, max_tecs));
      const auto& launched = std::get<KernelLaunch>(context.implementation.launches.back());
      for (size_t i = 0; i < launched.writes.size(); ++i) {
        if (launched.writes[i]) unwritten.erase(parameters->entry().params[i]->source_name());
      }
    }
    if (!unwritten.empty())
      return d.program->error(d.position, fmt::format("no kernel writes the output \"{}\"", *unwritten.begin()));
    return {};
  }

 private:
  // What a kernel's parameter of a tensor's name is given; "others[0]" is one of a variadic operand.
  struct Tensor {
    TensorRef ref;
    DType dtype = DType::kVoid;
    bool is_output = false;
  };
  using Tensors = std::map<std::string, Tensor, std::less<>>;

  // The kernel of a tensor expression, scheduled by rule.
  Status setup_definition(SetupContext& context, const Binding& binding, const Tensors& tensors,
                          const graph::Dim& max_tecs) const {
    const Declaration& d = *declaration_;
    const graph::Node& node = context.anchor();
    AIPU_ASSIGN_OR_RETURN(
        const script_op::TensorDefinition definition,
        script_op::TensorDefinition::of(d, input_types(context.graph(), node), node.attributes, binding));
    std::vector<te::Parameter> params;
    std::vector<TensorRef> refs;
    for (size_t k = 0; k < definition.inputs().size(); ++k) {
      if (!definition.inputs()[k].op) continue;
      params.push_back({definition.inputs()[k], nullptr});
      refs.push_back(context.value(node.inputs[k]));
    }
    std::vector<te::OperationPtr> operations;
    for (size_t k = 0; k < definition.outputs().size(); ++k) {
      const te::Tensor& output = definition.outputs()[k];
      if (std::find(operations.begin(), operations.end(), output.op) == operations.end())
        operations.push_back(output.op);
      params.push_back({output, nullptr});
      refs.push_back(tensors.find(d.outputs[k].name)->second.ref);
    }
    const te::Machine machine = context.target().generation > 0 ? te::Machine::kCompass : te::Machine::kCpu;
    AIPU_ASSIGN_OR_RETURN(const te::SchedulePtr schedule,
                          te::schedule_by_rules(operations, machine, te::default_knobs(machine)));
    const std::string name = d.op_type.substr(d.op_type.rfind(':') + 1);
    AIPU_ASSIGN_OR_RETURN(const te::Function function, te::lower_schedule(*schedule, std::move(params), name));
    AIPU_ASSIGN_OR_RETURN(te::Kernel kernel, te::to_tir(function));
    const auto module = std::make_shared<const tir::Module>(std::move(kernel.module));
    // The parameters: tensors, then sizes, then memory.
    const std::vector<tir::VarPtr>& parameters = module->entry().params;
    KernelArguments arguments;
    size_t at = 0;
    for (const TensorRef& ref : refs) arguments.pointer(parameters[at++]->source_name(), ref);
    for (const te::Expr& size : kernel.sizes) {
      AIPU_ASSIGN_OR_RETURN(graph::Dim dim, definition.dim(size));
      arguments.scalar(parameters[at++]->source_name(), std::move(dim));
    }
    for (const te::Workspace& memory : kernel.workspaces) {
      AIPU_ASSIGN_OR_RETURN(const graph::Dim count, definition.dim(memory.elements));
      const auto bytes = static_cast<int64_t>(dtype_bytes(memory.type.element));
      AIPU_RETURN_IF_ERROR(check_positions(context, definition, count));
      arguments.pointer(parameters[at++]->source_name(), context.add_workspace(count * bytes));
    }
    for (const auto& input : input_types(context.graph(), node)) {
      if (input) AIPU_RETURN_IF_ERROR(check_positions(context, definition, graph::element_count(input->shape)));
    }
    for (const graph::TensorType& output : binding.outputs)
      AIPU_RETURN_IF_ERROR(check_positions(context, definition, graph::element_count(output.shape)));
    return context.launch(module, arguments, max_tecs);
  }

  // Positions in a tensor of so many elements have to fit the kernel's integers.
  Status check_positions(SetupContext& context, const script_op::TensorDefinition& definition,
                         const graph::Dim& elements) const {
    constexpr int64_t kLimit = int64_t{1} << 31;
    if (definition.wide_indices() || elements.constant_or(kLimit) < kLimit) return {};
    const std::string text =
        fmt::format("{}: {} elements are too many for its kernel", declaration_->op_type, elements.text());
    if (elements.is_constant()) return unsupported(text);
    context.implementation.checks.push_back({graph::lt(elements, kLimit), text});
    return {};
  }

  static std::string item_name(const TensorDeclaration& t, size_t item) {
    return t.variadic ? fmt::format("{}[{}]", t.name, item) : t.name;
  }

  Tensors tensors_of(SetupContext& context, const Binding& binding) const {
    const Declaration& d = *declaration_;
    const graph::Node& node = context.anchor();
    Tensors tensors;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (!node.inputs[k].valid()) continue;
      const TensorDeclaration& t = declared(d.inputs, k);
      tensors[item_name(t, k - std::min(k, d.inputs.size() - 1))] = {context.value(node.inputs[k]),
                                                                     context.graph().type(node.inputs[k]).dtype};
    }
    const auto scratch = [&](const graph::TensorType& type) {
      return context.add_workspace(graph::element_count(type.shape) * static_cast<int64_t>(dtype_bytes(type.dtype)));
    };
    for (size_t k = 0; k < binding.outputs.size(); ++k) {
      const TensorDeclaration& t = declared(d.outputs, k);
      const graph::TensorType& type = binding.outputs[k];
      // A result that nobody asked for goes to scratch memory.
      const bool wanted = k < node.outputs.size() && node.outputs[k].valid();
      tensors[item_name(t, k - std::min(k, d.outputs.size() - 1))] = {
          wanted ? context.value(node.outputs[k]) : scratch(type), type.dtype, true};
    }
    for (size_t k = 0; k < d.workspace.size(); ++k)
      tensors[d.workspace[k].name] = {scratch(binding.workspace[k]), binding.workspace[k].dtype};
    return tensors;
  }

  dsl::TemplateParams params_of(const SetupContext& context, const Binding& binding,
                                const script_op::KernelDeclaration& kernel) const {
    const Declaration& d = *declaration_;
    const graph::Node& node = context.anchor();
    dsl::TemplateParams params;
    params.set("__compass_target__", context.target().name);
    for (const auto& [name, value] : constants_of(d, binding, node.attributes)) params.set(name, captured(value));
    for (const script_op::LaneCount& lanes : d.lanes) {
      if (const auto dtype = script_op::dtype_of(lanes.type, binding)) params.set(lanes.name, context.lanes(*dtype));
    }
    for (const dsl::ast::Parameter& p : d.program->function(kernel.name)->parameters)
      set_count(binding, node, p, &params);
    return params;
  }

  // A parameter is a list where it stands for a variadic operand or a list of extents, and None where it stands for
  // something that the node leaves out.
  void set_count(const Binding& binding, const graph::Node& node, const dsl::ast::Parameter& p,
                 dsl::TemplateParams* params) const {
    const Declaration& d = *declaration_;
    if (const auto list = binding.lists.find(p.name); list != binding.lists.end()) {
      params->set_count(p.name, static_cast<int64_t>(list->second.size()));
      return;
    }
    for (size_t i = 0; i < d.inputs.size(); ++i) {
      if (d.inputs[i].name != p.name) continue;
      const auto range = script_op::operand_range(d.inputs, i, node.inputs.size());
      if (d.inputs[i].variadic) {
        params->set_count(p.name, static_cast<int64_t>(range.count));
      } else if (range.count == 0 || !node.inputs[range.first].valid()) {
        params->set_count(p.name, std::nullopt);
      }
      return;
    }
    if (d.outputs.back().variadic && d.outputs.back().name == p.name) {
      params->set_count(p.name, static_cast<int64_t>(binding.outputs.size() - (d.outputs.size() - 1)));
      return;
    }
    const bool is_known =
        d.find_tensor(p.name) != nullptr || binding.extents.contains(p.name) || d.find_attribute(p.name) != nullptr;
    if (!is_known) params->set_count(p.name, std::nullopt);  // an extent of what is left out
  }

  // What stands for an extent in a kernel; "sizes[1]" is one of a list.
  static std::optional<graph::Dim> extent_of(const Binding& binding, const std::string& name) {
    if (const auto extent = binding.extents.find(name); extent != binding.extents.end()) return extent->second;
    for (const auto& [list, extents] : binding.lists) {
      for (size_t k = 0; k < extents.size(); ++k) {
        if (name == fmt::format("{}[{}]", list, k)) return extents[k];
      }
    }
    return std::nullopt;
  }

  Result<KernelArgument> argument_of(SetupContext& context, const tir::Var& parameter,
                                     const script_op::KernelDeclaration& kernel, const Binding& binding,
                                     const Tensors& tensors) const {
    const Declaration& d = *declaration_;
    const tir::Type& type = parameter.type;
    const std::string& name = parameter.source_name();
    const auto refused = [&](std::string_view text) {
      return d.program->error(kernel.position,
                              fmt::format("parameter \"{}\" of kernel \"{}\" {}", name, kernel.name, text));
    };
    if (const auto tensor = tensors.find(name); tensor != tensors.end()) {
      const bool global = type.scope == tir::Scope::kGlobal || type.scope == tir::Scope::kGlobal1 ||
                          type.scope == tir::Scope::kGlobal2 || type.scope == tir::Scope::kGlobal3;
      if (!type.pointer || !global) return refused("must be a global pointer, it is a tensor");
      const DType dtype = tensor->second.dtype;
      // A bool tensor is bytes to a kernel.
      const bool fits = type.element == dtype || type.element == DType::kVoid ||
                        (is_bool(dtype) && (type.element == DType::kU8 || type.element == DType::kI8));
      if (!fits)
        return refused(fmt::format("points to {}, but the tensor is {}", dtype_name(type.element), dtype_name(dtype)));
      return KernelArgument(PointerArgument{tensor->second.ref});
    }
    if (type.pointer) return refused("is a pointer, but the name stands for a number");
    if (const auto extent = extent_of(binding, name)) {
      if (!is_integer(type.element))
        return refused(fmt::format("is {}, but an extent is an integer", dtype_name(type.element)));
      const int bits = dtype_bits(type.element) - (is_signed_int(type.element) ? 1 : 0);
      if (bits < 63) {
        const int64_t limit = int64_t{1} << bits;
        if (extent->is_constant() && *extent->constant() >= limit)
          return refused(
              fmt::format("is {}, which can't hold the extent {}", dtype_name(type.element), extent->text()));
        if (!extent->is_constant()) {
          context.implementation.checks.push_back(
              {graph::lt(*extent, limit),
               fmt::format("{}: extent '{}' does not fit the kernel's parameter, which is {}", d.op_type, name,
                           dtype_name(type.element))});
        }
      }
      return KernelArgument(ScalarArgument{*extent});
    }
    const graph::AttributeValue* attribute = context.anchor().attributes.find(name);
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
  return register_script_operators(path, std::move(text), library);
}

Status register_script_operators(const std::string& path, std::string text, PluginLibrary& library) {
  AIPU_ASSIGN_OR_RETURN(auto declarations, script_op::read_declarations(path, text));
  for (const DeclarationPtr& declaration : declarations) {
    if (library.ops().find(declaration->op_type) != nullptr)
      return declaration->program->error(declaration->position,
                                         fmt::format("there is an operator \"{}\" already", declaration->op_type));
    AIPU_RETURN_IF_ERROR(library.add_op(op_record(declaration)));
  }
  library.add_template(path, std::move(text));
  // What op.elementwise declares is claimed with its neighbours, as ours is.
  for (const DeclarationPtr& declaration : declarations) {
    if (declaration->value == nullptr) library.add_plugin(std::make_unique<ScriptPlugin>(declaration));
  }
  return {};
}

}  // namespace aipu::kernels
