#include "kernels/script_op/binding.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/tir/stmt.h"

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
  Binder(const Declaration& declaration, std::span<const graph::TensorType> inputs, const graph::Attributes& attributes)
      : d_(declaration), inputs_(inputs), attributes_(attributes) {}

  Result<Binding> bind() && {
    for (size_t i = 0; i < d_.inputs.size(); ++i) {
      AIPU_RETURN_IF_ERROR(bind_type(d_.inputs[i], inputs_[i].dtype));
      if (d_.inputs[i].dims) AIPU_RETURN_IF_ERROR(bind_dims(d_.inputs[i], inputs_[i].shape));
    }
    for (const NamedFunction& extent : d_.extents) {
      AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, call(extent.function));
      auto dim = values_.dim(result.value);
      if (!dim.ok()) return std::move(dim).status().context(fmt::format("extent '{}'", extent.name));
      b_.extents[extent.name] = *std::move(dim);
    }
    if (d_.check) {
      AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, call(*d_.check));
      if (const auto* text = result.value.as<std::string>()) return invalid_model(*text);
      if (!result.value.is_none())
        return invalid_model("the check function must return None or what is wrong, as a string");
    }
    AIPU_RETURN_IF_ERROR(bind_outputs());
    for (const TensorDeclaration& t : d_.workspace) {
      AIPU_ASSIGN_OR_RETURN(Shape shape, shape_of(t));
      b_.workspace.push_back({dtype_of(t.type, b_), std::move(shape)});
    }
    return std::move(b_);
  }

 private:
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
      } else if (p.kind == DimPattern::Kind::kRest) {
        const Shape& part = b_.rests.find(p.name)->second;
        shape.insert(shape.end(), part.begin(), part.end());
      } else {
        shape.push_back(b_.extents.find(p.name)->second);
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
      if (d_.outputs.size() == 1 && (lists == nullptr || lists->empty() || lists->front().elements() == nullptr)) {
        AIPU_ASSIGN_OR_RETURN(Shape shape, shape_from(result.value, d_.outputs[0].name));
        shapes.push_back(std::move(shape));
      } else {
        if (lists == nullptr || lists->size() != d_.outputs.size())
          return invalid_model(fmt::format(
              "the shape function must return a list of extents for each of the {} outputs", d_.outputs.size()));
        for (size_t i = 0; i < lists->size(); ++i) {
          AIPU_ASSIGN_OR_RETURN(Shape shape, shape_from((*lists)[i], d_.outputs[i].name));
          shapes.push_back(std::move(shape));
        }
      }
    }
    for (size_t i = 0; i < d_.outputs.size(); ++i) {
      if (!d_.shape) {
        AIPU_ASSIGN_OR_RETURN(Shape shape, shape_of(d_.outputs[i]));
        shapes.push_back(std::move(shape));
      }
      b_.outputs.push_back({dtype_of(d_.outputs[i].type, b_), std::move(shapes[i])});
    }
    return {};
  }

  // With those of its parameters that have a value here.
  Result<dsl::HostResult> call(const dsl::FunctionValue& function) {
    return d_.program->call(function, [&](dsl::ValuePool& pool) {
      dsl::HostProgram::Arguments arguments;
      for (const dsl::ast::Parameter& p : function.definition->parameters) {
        if (const auto extent = b_.extents.find(p.name); extent != b_.extents.end()) {
          arguments.emplace_back(p.name, values_.value(extent->second));
        } else if (const graph::AttributeValue* attribute = attributes_.find(p.name)) {
          arguments.emplace_back(p.name, attribute_value(*attribute, pool));
        } else {
          for (size_t i = 0; i < d_.inputs.size(); ++i) {
            if (d_.inputs[i].name != p.name) continue;
            dsl::ValueList dims;
            for (const Dim& dim : inputs_[i].shape) dims.push_back(values_.value(dim));
            arguments.emplace_back(p.name, pool.list(std::move(dims)));
          }
        }
      }
      return arguments;
    });
  }

  const Declaration& d_;
  std::span<const graph::TensorType> inputs_;
  const graph::Attributes& attributes_;
  ExtentValues values_;
  Binding b_;
};

}  // namespace

DType dtype_of(const std::variant<std::string, DType>& type, const Binding& binding) {
  if (const auto* fixed = std::get_if<DType>(&type)) return *fixed;
  return binding.types.find(std::get<std::string>(type))->second;
}

Result<Binding> bind(const Declaration& declaration, std::span<const graph::TensorType> inputs,
                     const graph::Attributes& attributes) {
  return Binder(declaration, inputs, attributes).bind();
}

}  // namespace aipu::kernels::script_op
