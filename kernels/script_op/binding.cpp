#include "kernels/script_op/binding.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/tir/stmt.h"
#include "kernels/script_op/tensor_definition.h"

namespace aipu::kernels::script_op {
namespace {

using dsl::Value;
using graph::Dim;
using graph::Shape;

// Extents as values of the declaration's functions: numbers where they are known, variables that stand for them where
// not.
class ExtentValues {
 public:
  Value value(const Dim& dim) {
    if (const auto constant = dim.constant()) return {*constant};
    for (const auto& [var, known] : symbols_) {
      if (known == dim) return {tir::var_ref(var)};
    }
    auto var = std::make_shared<tir::Var>();
    var->name = dim.text();
    var->type = tir::Type::scalar(DType::kI64);
    symbols_.emplace_back(var, dim);
    return {tir::var_ref(symbols_.back().first)};
  }

  Result<Dim> dim(const Value& value) const {
    if (const auto* b = value.as<bool>()) return Dim(*b ? 1 : 0);
    if (const auto* i = value.as<int64_t>()) return Dim(*i);
    if (const auto* e = value.as<tir::Expr>()) return dim(*e);
    return invalid_argument(
        fmt::format("an extent must be an integer, but is a value of kind \"{}\"", dsl::kind_text(value)));
  }

 private:
  Result<Dim> dim(const tir::Expr& e) const {
    if (const auto constant = tir::as_int(e)) return Dim(*constant);
    if (const auto* ref = e->as<tir::VarRef>()) {
      for (const auto& [var, known] : symbols_) {
        if (var == ref->var) return known;
      }
    }
    if (const auto* cast = e->as<tir::Cast>(); cast != nullptr && is_integer(e->type.element))
      return dim(cast->operand);
    if (const auto* select = e->as<tir::Select>()) {
      AIPU_ASSIGN_OR_RETURN(const Dim condition, dim(select->condition));
      AIPU_ASSIGN_OR_RETURN(const Dim if_true, dim(select->if_true));
      AIPU_ASSIGN_OR_RETURN(const Dim if_false, dim(select->if_false));
      return graph::select(condition, if_true, if_false);
    }
    if (const auto* binary = e->as<tir::Binary>()) {
      AIPU_ASSIGN_OR_RETURN(const Dim l, dim(binary->lhs));
      AIPU_ASSIGN_OR_RETURN(const Dim r, dim(binary->rhs));
      switch (binary->op) {
        case tir::BinaryOp::kAdd:
          return l + r;
        case tir::BinaryOp::kSub:
          return l - r;
        case tir::BinaryOp::kMul:
          return l * r;
        case tir::BinaryOp::kDiv:
          return graph::floordiv(l, r);
        case tir::BinaryOp::kMod:
          return graph::mod(l, r);
        case tir::BinaryOp::kMin:
          return graph::min(l, r);
        case tir::BinaryOp::kMax:
          return graph::max(l, r);
        case tir::BinaryOp::kEq:
          return graph::eq(l, r);
        case tir::BinaryOp::kNe:
          return 1 - graph::eq(l, r);
        case tir::BinaryOp::kLt:
          return graph::lt(l, r);
        case tir::BinaryOp::kGt:
          return graph::lt(r, l);
        case tir::BinaryOp::kLe:
          return 1 - graph::lt(r, l);
        case tir::BinaryOp::kGe:
          return 1 - graph::lt(l, r);
        default:
          break;
      }
    }
    return invalid_argument(
        "an extent that is not known yet can be computed with + - * // % min max and comparisons only");
  }

  std::vector<std::pair<tir::VarPtr, Dim>> symbols_;
};

std::string dims_text(const std::vector<DimPattern>& dims) {
  std::string text;
  for (const DimPattern& dim : dims) {
    if (!text.empty()) text += ", ";
    if (dim.kind == DimPattern::Kind::kConstant)
      text += std::to_string(dim.value);
    else
      text += (dim.kind == DimPattern::Kind::kRest ? "..." : "") + dim.name;
  }
  return "[" + text + "]";
}

class Binder {
 public:
  Binder(const Declaration& declaration, const Inputs& inputs, const graph::Attributes& attributes, size_t outputs)
      : d_(declaration), inputs_(inputs), attributes_(attributes) {
    const bool variadic = d_.outputs.back().variadic;
    output_count_ = variadic ? std::max(outputs, d_.outputs.size() - 1) : d_.outputs.size();
  }

  Result<Binding> bind() && {
    for (size_t i = 0; i < d_.inputs.size(); ++i) AIPU_RETURN_IF_ERROR(bind_input(i));
    for (const NamedFunction& extent : d_.extents) {
      auto status = bind_extent_function(extent);
      if (!status.ok()) return std::move(status).context(fmt::format("extent '{}'", extent.name));
    }
    if (d_.check) {
      AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, call(*d_.check));
      if (const auto* text = result.value.as<std::string>()) return invalid_model(*text);
      if (!result.value.is_none())
        return invalid_model("the check function must return None or what is wrong, as a string");
    }
    AIPU_RETURN_IF_ERROR(d_.value != nullptr ? bind_broadcast() : d_.compute ? bind_computed() : bind_outputs());
    for (const TensorDeclaration& t : d_.workspace) {
      AIPU_ASSIGN_OR_RETURN(const DType dtype, result_type(t));
      AIPU_ASSIGN_OR_RETURN(Shape shape, shape_of(t));
      b_.workspace.push_back({dtype, std::move(shape)});
    }
    return std::move(b_);
  }

 private:
  Status bind_input(size_t index) {
    const TensorDeclaration& t = d_.inputs[index];
    const OperandRange range = operand_range(d_.inputs, index, inputs_.size());
    for (size_t k = range.first; k < range.first + range.count; ++k) {
      if (!inputs_[k]) {
        if (t.optional) continue;
        return invalid_model(fmt::format("input {} '{}' is missing", k, t.name));
      }
      AIPU_RETURN_IF_ERROR(bind_type(t, inputs_[k]->dtype));
      if (t.dims) AIPU_RETURN_IF_ERROR(bind_dims(t, inputs_[k]->shape));
    }
    return {};
  }

  Status bind_extent_function(const NamedFunction& extent) {
    AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, call(extent.function));
    if (const dsl::ValueList* items = result.value.elements()) {
      Shape& list = b_.lists[extent.name];
      for (const Value& item : *items) {
        AIPU_ASSIGN_OR_RETURN(Dim dim, values_.dim(item));
        list.push_back(std::move(dim));
      }
      return {};
    }
    AIPU_ASSIGN_OR_RETURN(Dim dim, values_.dim(result.value));
    b_.extents[extent.name] = std::move(dim);
    return {};
  }

  Result<DType> result_type(const TensorDeclaration& t) const {
    if (const auto dtype = dtype_of(t.type, b_)) return *dtype;
    return invalid_model(fmt::format("no input of the node says what the element type \"{}\" of '{}' is",
                                     std::get<std::string>(t.type), t.name));
  }

  // Of op.elementwise: all inputs are broadcast.
  Status bind_broadcast() {
    std::vector<Shape> shapes;
    for (const auto& input : inputs_) {
      if (input) shapes.push_back(input->shape);
    }
    AIPU_ASSIGN_OR_RETURN(const DType dtype, result_type(d_.outputs[0]));
    AIPU_ASSIGN_OR_RETURN(Shape shape, graph::broadcast_shapes(shapes));
    b_.outputs.push_back({dtype, std::move(shape)});
    return {};
  }

  Status bind_type(const TensorDeclaration& t, DType dtype) {
    if (const auto* fixed = std::get_if<DType>(&t.type)) {
      if (*fixed == dtype) return {};
      return invalid_model(fmt::format("input '{}' is {}, expected {}", t.name, dtype_name(dtype), dtype_name(*fixed)));
    }
    const TypeVariable& variable = *d_.find_type(std::get<std::string>(t.type));
    if (std::find(variable.allowed.begin(), variable.allowed.end(), dtype) == variable.allowed.end()) {
      std::string allowed;
      for (const DType a : variable.allowed)
        allowed += fmt::format("{}{}", allowed.empty() ? "" : " or ", dtype_name(a));
      return invalid_model(fmt::format("input '{}' is {}, expected {}", t.name, dtype_name(dtype), allowed));
    }
    const auto [known, inserted] = b_.types.try_emplace(variable.name, dtype);
    if (!inserted && known->second != dtype) {
      return invalid_model(fmt::format("input '{}' is {}, but another input of the same type is {}", t.name,
                                       dtype_name(dtype), dtype_name(known->second)));
    }
    return {};
  }

  Status bind_extent(const TensorDeclaration& t, const std::string& name, const Dim& dim) {
    const auto [known, inserted] = b_.extents.try_emplace(name, dim);
    if (inserted || known->second == dim) return {};
    if (known->second.is_constant() && dim.is_constant()) {
      return invalid_model(fmt::format("extent '{}' of input '{}' is {}, but {} elsewhere", name, t.name, dim.text(),
                                       known->second.text()));
    }
    b_.must_agree.emplace_back(known->second, dim);
    return {};
  }

  Status bind_dims(const TensorDeclaration& t, const Shape& shape) {
    const std::vector<DimPattern>& dims = *t.dims;
    const auto rest =
        std::find_if(dims.begin(), dims.end(), [](const DimPattern& p) { return p.kind == DimPattern::Kind::kRest; });
    const bool fits = rest == dims.end() ? shape.size() == dims.size() : shape.size() + 1 >= dims.size();
    if (!fits)
      return invalid_model(
          fmt::format("input '{}' has the shape {}, expected {}", t.name, graph::shape_text(shape), dims_text(dims)));
    size_t at = 0;
    for (const DimPattern& p : dims) {
      if (p.kind == DimPattern::Kind::kRest) {
        const size_t count = shape.size() + 1 - dims.size();
        const Shape part(shape.begin() + static_cast<ptrdiff_t>(at),
                         shape.begin() + static_cast<ptrdiff_t>(at + count));
        at += count;
        AIPU_RETURN_IF_ERROR(bind_extent(t, p.name, graph::element_count(part)));
        const auto [known, inserted] = b_.rests.try_emplace(p.name, part);
        if (inserted) continue;
        if (known->second.size() != part.size()) {
          return invalid_model(fmt::format("the extents '...{}' of input '{}' are {}, but {} elsewhere", p.name, t.name,
                                           graph::shape_text(part), graph::shape_text(known->second)));
        }
        for (size_t i = 0; i < part.size(); ++i) {
          if (known->second[i] == part[i]) continue;
          if (known->second[i].is_constant() && part[i].is_constant()) {
            return invalid_model(fmt::format("the extents '...{}' of input '{}' are {}, but {} elsewhere", p.name,
                                             t.name, graph::shape_text(part), graph::shape_text(known->second)));
          }
          b_.must_agree.emplace_back(known->second[i], part[i]);
        }
        continue;
      }
      const Dim& dim = shape[at++];
      if (p.kind == DimPattern::Kind::kNamed) {
        AIPU_RETURN_IF_ERROR(bind_extent(t, p.name, dim));
      } else if (dim.is_constant() && dim != Dim(p.value)) {
        return invalid_model(
            fmt::format("input '{}' has the shape {}, expected {}", t.name, graph::shape_text(shape), dims_text(dims)));
      } else if (!dim.is_constant()) {
        b_.must_agree.emplace_back(Dim(p.value), dim);
      }
    }
    return {};
  }

  Result<Shape> shape_of(const TensorDeclaration& t) const {
    Shape shape;
    for (const DimPattern& p : *t.dims) {
      if (p.kind == DimPattern::Kind::kConstant) {
        shape.emplace_back(p.value);
      } else if (const auto rest = b_.rests.find(p.name); p.kind == DimPattern::Kind::kRest && rest != b_.rests.end()) {
        shape.insert(shape.end(), rest->second.begin(), rest->second.end());
      } else if (const auto extent = b_.extents.find(p.name);
                 p.kind == DimPattern::Kind::kNamed && extent != b_.extents.end()) {
        shape.push_back(extent->second);
      } else {
        return invalid_model(fmt::format("'{}' has the extent \"{}\", which {}", t.name, p.name,
                                         b_.lists.contains(p.name) ? "is a list" : "no input of the node has"));
      }
    }
    return shape;
  }

  Result<Shape> shape_from(const Value& value, const std::string& name) const {
    const dsl::ValueList* items = value.elements();
    if (items == nullptr)
      return invalid_model(fmt::format("the shape function must return a list of extents for output '{}'", name));
    Shape shape;
    for (const Value& item : *items) {
      auto dim = values_.dim(item);
      if (!dim.ok()) return std::move(dim).status().context(fmt::format("shape of output '{}'", name));
      if (dim->is_constant() && *dim->constant() < 0)
        return invalid_model(fmt::format("output '{}' has the extent {}", name, dim->text()));
      shape.push_back(*std::move(dim));
    }
    return shape;
  }

  Status bind_outputs() {
    std::vector<Shape> shapes;
    if (d_.shape) {
      AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, call(*d_.shape));
      const dsl::ValueList* lists = result.value.elements();
      // One output: its extents; several: a list for each.
      if (d_.outputs.size() == 1 && !d_.outputs[0].variadic &&
          (lists == nullptr || lists->empty() || lists->front().elements() == nullptr)) {
        AIPU_ASSIGN_OR_RETURN(Shape shape, shape_from(result.value, d_.outputs[0].name));
        shapes.push_back(std::move(shape));
      } else {
        if (lists == nullptr || lists->size() != output_count_)
          return invalid_model(fmt::format(
              "the shape function must return a list of extents for each of the {} outputs", output_count_));
        for (size_t i = 0; i < lists->size(); ++i) {
          AIPU_ASSIGN_OR_RETURN(Shape shape, shape_from((*lists)[i], output(i).name));
          shapes.push_back(std::move(shape));
        }
      }
    }
    for (size_t i = 0; i < output_count_; ++i) {
      if (!d_.shape) {
        AIPU_ASSIGN_OR_RETURN(Shape shape, shape_of(output(i)));
        shapes.push_back(std::move(shape));
      }
      AIPU_ASSIGN_OR_RETURN(const DType dtype, result_type(output(i)));
      b_.outputs.push_back({dtype, std::move(shapes[i])});
    }
    return {};
  }

  Status bind_computed() {
    AIPU_ASSIGN_OR_RETURN(const TensorDefinition definition, TensorDefinition::of(d_, inputs_, attributes_, b_));
    for (const te::Tensor& tensor : definition.outputs()) {
      AIPU_ASSIGN_OR_RETURN(Shape shape, definition.shape(tensor));
      b_.outputs.push_back({tensor.type().element, std::move(shape)});
    }
    return {};
  }

  // The declaration of the node's output i.
  const TensorDeclaration& output(size_t i) const { return d_.outputs[std::min(i, d_.outputs.size() - 1)]; }

  // What a name means to a function: extents of inputs as lists, None for what the node leaves out.
  Value value_of(const std::string& name, dsl::ValuePool& pool) {
    const auto list_of = [&](const Shape& shape) {
      dsl::ValueList dims;
      for (const Dim& dim : shape) dims.push_back(values_.value(dim));
      return pool.list(std::move(dims));
    };
    if (const auto extent = b_.extents.find(name); extent != b_.extents.end()) return values_.value(extent->second);
    if (const auto list = b_.lists.find(name); list != b_.lists.end()) return list_of(list->second);
    if (const graph::AttributeValue* attribute = attributes_.find(name)) return attribute_value(*attribute, pool);
    if (name == d_.outputs.back().name) return {static_cast<int64_t>(output_count_ - (d_.outputs.size() - 1))};
    for (size_t i = 0; i < d_.inputs.size(); ++i) {
      if (d_.inputs[i].name != name) continue;
      const OperandRange range = operand_range(d_.inputs, i, inputs_.size());
      dsl::ValueList operands;
      for (size_t k = range.first; k < range.first + range.count; ++k)
        operands.push_back(inputs_[k] ? list_of(inputs_[k]->shape) : Value{});
      if (d_.inputs[i].variadic) return pool.list(std::move(operands));
      return operands.empty() ? Value{} : operands[0];
    }
    return {};
  }

  // With those of its parameters that have a value here.
  Result<dsl::HostResult> call(const dsl::FunctionValue& function) {
    return d_.program->call(function, [&](dsl::ValuePool& pool) {
      dsl::HostProgram::Arguments arguments;
      for (const dsl::ast::Parameter& p : function.definition->parameters) {
        Value value = value_of(p.name, pool);
        if (!value.is_none() || p.default_value == nullptr) arguments.emplace_back(p.name, std::move(value));
      }
      return arguments;
    });
  }

  const Declaration& d_;
  const Inputs& inputs_;
  const graph::Attributes& attributes_;
  size_t output_count_ = 0;
  ExtentValues values_;
  Binding b_;
};

}  // namespace

Value attribute_value(const graph::AttributeValue& attribute, dsl::ValuePool& pool) {
  if (const auto* i = std::get_if<int64_t>(&attribute)) return {*i};
  if (const auto* d = std::get_if<double>(&attribute)) return {*d};
  if (const auto* s = std::get_if<std::string>(&attribute)) return {*s};
  dsl::ValueList items;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute)) {
    for (const int64_t i : *list) items.push_back({i});
  } else if (const auto* reals = std::get_if<std::vector<double>>(&attribute)) {
    for (const double d : *reals) items.push_back({d});
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&attribute)) {
    for (const std::string& s : *strings) items.push_back({s});
  }
  return pool.list(std::move(items));
}

std::optional<DType> dtype_of(const std::variant<std::string, DType>& type, const Binding& binding) {
  if (const auto* fixed = std::get_if<DType>(&type)) return *fixed;
  const auto found = binding.types.find(std::get<std::string>(type));
  return found == binding.types.end() ? std::nullopt : std::optional(found->second);
}

Result<Binding> bind(const Declaration& declaration, const Inputs& inputs, const graph::Attributes& attributes,
                     size_t outputs) {
  return Binder(declaration, inputs, attributes, outputs).bind();
}

}  // namespace aipu::kernels::script_op
