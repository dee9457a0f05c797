#include "kernels/script_op/declaration.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "kernels/dsl/type_rules.h"

namespace aipu::kernels::script_op {
namespace {

using dsl::Position;
using dsl::Value;
namespace ast = dsl::ast;

constexpr std::string_view kModule = "aipu.op";

template <typename T, typename Name>
const T* find_named(const std::vector<T>& list, const Name& name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const T& t) { return t.name == name; });
  return found == list.end() ? nullptr : &*found;
}

class Reader {
 public:
  Reader(std::shared_ptr<const dsl::HostProgram> program, std::string file)
      : program_(std::move(program)), file_(std::move(file)) {}

  Result<std::vector<std::shared_ptr<const Declaration>>> read() {
    AIPU_RETURN_IF_ERROR(read_variables());
    std::vector<std::shared_ptr<const Declaration>> declarations;
    for (const ast::StmtPtr& stmt : program_->module().body) {
      const ast::Expr* call = nullptr;
      ast::FunctionPtr function;
      if (const auto* f = stmt->as<ast::Function>()) {
        for (const ast::ExprPtr& decorator : f->function->decorators) {
          if (is_declaration(*decorator)) call = decorator.get();
        }
        function = f->function;
      } else if (const auto* e = stmt->as<ast::ExpressionStmt>(); e != nullptr && is_declaration(*e->value)) {
        call = e->value.get();
      }
      if (call == nullptr) continue;
      AIPU_ASSIGN_OR_RETURN(auto declaration, read_declaration(*call, function));
      for (const auto& other : declarations) {
        if (other->op_type == declaration->op_type)
          return error(declaration->position, fmt::format("\"{}\" is declared twice", declaration->op_type));
      }
      declarations.push_back(std::move(declaration));
    }
    if (declarations.empty()) {
      return error({1, 1},
                   "the file declares no operator (op.register(...) or op.elementwise(...) with `from aipu import op`, "
                   "see kernels/ADDING_AN_OP.md)");
    }
    return declarations;
  }

 private:
  Status error(Position position, std::string_view text) const { return program_->error(position, text); }

  // "register" of `op.register(...)`, `aipu.op.register(...)` and `register(...)` imported from aipu.op; "" for
  // anything else.
  std::string op_function(const ast::Expr& expr) const {
    const auto* call = expr.as<ast::Call>();
    if (call == nullptr) return "";
    const auto path = [&](const auto& self, const ast::Expr& e) -> std::string {
      if (const auto* name = e.as<ast::Name>()) {
        const std::string* import = program_->import(name->id);
        return import == nullptr ? "" : *import;
      }
      const auto* attribute = e.as<ast::Attribute>();
      if (attribute == nullptr) return "";
      const std::string object = self(self, *attribute->object);
      return object.empty() ? "" : object + "." + attribute->name;
    };
    const std::string full = path(path, *call->callee);
    if (!full.starts_with(kModule) || full.size() <= kModule.size() + 1 || full[kModule.size()] != '.') return "";
    return full.substr(kModule.size() + 1);
  }

  bool is_declaration(const ast::Expr& expr) const {
    const std::string function = op_function(expr);
    return function == "register" || function == "elementwise";
  }

  // What a name stands for, through assignments at the top level; type variables and lane counts stay names.
  ast::ExprPtr resolved(ast::ExprPtr expr) const {
    for (int i = 0; i < 16; ++i) {
      const auto* name = expr->as<ast::Name>();
      if (name == nullptr || find_named(types_, name->id) != nullptr || find_named(lanes_, name->id) != nullptr) break;
      const ast::ExprPtr value = program_->assignment(name->id);
      if (value == nullptr) break;
      expr = value;
    }
    return expr;
  }

  static const ast::ExprPtr* argument(const ast::Call& call, std::string_view name) {
    for (const ast::Argument& a : call.arguments) {
      if (a.name == name) return &a.value;
    }
    return nullptr;
  }

  Result<DType> read_dtype(const ast::ExprPtr& expr) const {
    AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, program_->evaluate(expr));
    std::optional<tir::Type> type;
    if (const auto* text = result.value.as<std::string>()) type = dsl::parse_type_text(*text);
    if (const auto* t = result.value.as<dsl::TypeValue>()) type = t->type;
    if (!type || type->lanes != 1 || type->pointer || type->element == DType::kVoid || type->element == DType::kString)
      return error(expr->position, "an element type is expected, such as \"float32\"");
    return type->element;
  }

  // A type variable's name or an element type.
  Result<std::variant<std::string, DType>> read_type(const ast::ExprPtr& expr) const {
    if (const auto* name = expr->as<ast::Name>(); name != nullptr && find_named(types_, name->id) != nullptr)
      return std::variant<std::string, DType>(name->id);
    AIPU_ASSIGN_OR_RETURN(const DType dtype, read_dtype(expr));
    return std::variant<std::string, DType>(dtype);
  }

  Status read_variables() {
    for (const ast::StmtPtr& stmt : program_->module().body) {
      const auto* assign = stmt->as<ast::Assign>();
      if (assign == nullptr) continue;
      const std::string function = op_function(*assign->value);
      if (function != "dtype" && function != "lanes") continue;
      const auto* name = assign->targets.size() == 1 ? assign->targets[0]->as<ast::Name>() : nullptr;
      if (name == nullptr) return error(stmt->position, fmt::format("op.{} must be assigned to one name", function));
      if (find_named(types_, name->id) != nullptr || find_named(lanes_, name->id) != nullptr)
        return error(stmt->position, fmt::format("\"{}\" is declared twice", name->id));
      const auto& arguments = assign->value->as<ast::Call>()->arguments;
      if (function == "dtype") {
        TypeVariable variable{name->id, {}};
        for (const ast::Argument& a : arguments) {
          AIPU_ASSIGN_OR_RETURN(const DType dtype, read_dtype(a.value));
          variable.allowed.push_back(dtype);
        }
        if (variable.allowed.empty())
          return error(assign->value->position, "op.dtype expects at least one element type");
        types_.push_back(std::move(variable));
      } else {
        if (arguments.size() != 1) return error(assign->value->position, "op.lanes expects one element type");
        AIPU_ASSIGN_OR_RETURN(auto type, read_type(arguments[0].value));
        lanes_.push_back({name->id, std::move(type)});
      }
    }
    return {};
  }

  Result<std::string> read_string(const ast::ExprPtr& expr, std::string_view what) const {
    AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, program_->evaluate(expr));
    const auto* text = result.value.as<std::string>();
    if (text == nullptr || text->empty()) return error(expr->position, fmt::format("{} must be a string", what));
    return *text;
  }

  static bool is_identifier(std::string_view text) {
    if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
    return std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
  }

  Result<std::vector<DimPattern>> read_dims(const ast::Call& call) const {
    std::vector<DimPattern> dims;
    bool rest = false;
    for (size_t i = 1; i < call.arguments.size(); ++i) {
      const ast::ExprPtr& expr = call.arguments[i].value;
      AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, program_->evaluate(expr));
      DimPattern dim;
      if (const auto* number = result.value.as<int64_t>(); number != nullptr && *number >= 0) {
        dim.kind = DimPattern::Kind::kConstant;
        dim.value = *number;
      } else if (const auto* text = result.value.as<std::string>()) {
        dim.kind = text->starts_with("...") ? DimPattern::Kind::kRest : DimPattern::Kind::kNamed;
        dim.name = dim.kind == DimPattern::Kind::kRest ? text->substr(3) : *text;
        if (!is_identifier(dim.name))
          return error(expr->position, fmt::format("\"{}\" is no name of an extent", *text));
        if (dim.kind == DimPattern::Kind::kRest && std::exchange(rest, true))
          return error(expr->position, "only one of a tensor's extents can stand for any number of them");
      } else {
        return error(expr->position, "an extent is a name (\"cols\"), any number of them (\"...rows\") or an integer");
      }
      dims.push_back(std::move(dim));
    }
    return dims;
  }

  // {"x": op.tensor(T, "...rows", "cols")}
  Result<std::vector<TensorDeclaration>> read_tensors(const ast::ExprPtr& given, std::string_view list) {
    const ast::ExprPtr expr = resolved(given);
    const auto* dict = expr->as<ast::DictDisplay>();
    if (dict == nullptr)
      return error(given->position, fmt::format("{} must be a dictionary from names to op.tensor(...)", list));
    std::vector<TensorDeclaration> tensors;
    for (const auto& [key, value] : dict->items) {
      TensorDeclaration tensor;
      tensor.position = key->position;
      AIPU_ASSIGN_OR_RETURN(tensor.name, read_string(key, "the name of a tensor"));
      AIPU_RETURN_IF_ERROR(declare(tensor.name, key->position));
      const ast::ExprPtr call_expr = resolved(value);
      AIPU_RETURN_IF_ERROR(read_form(*call_expr, value->position, list, &tensor));
      const ast::Call& call = *call_expr->as<ast::Call>();
      AIPU_ASSIGN_OR_RETURN(tensor.type, read_type(call.arguments[0].value));
      AIPU_ASSIGN_OR_RETURN(auto dims, read_dims(call));
      if (!dims.empty()) tensor.dims = std::move(dims);
      tensors.push_back(std::move(tensor));
    }
    for (size_t i = 0; i + 1 < tensors.size(); ++i) {
      if (tensors[i].variadic)
        return error(tensors[i].position,
                     fmt::format("\"{}\" is variadic, so it must be the last of the {}", tensors[i].name, list));
    }
    return tensors;
  }

  // Which of op.tensor(), op.optional() and op.variadic() declares an operand, with arguments of the right form.
  Status read_form(const ast::Expr& expr, Position position, std::string_view list, TensorDeclaration* tensor) const {
    const std::string form = op_function(expr);
    if (form != "tensor" && form != "optional" && form != "variadic")
      return error(position, fmt::format("\"{}\" must be declared as op.tensor(type, extents...), op.optional(...) or "
                                         "op.variadic(...)",
                                         tensor->name));
    tensor->optional = form == "optional";
    tensor->variadic = form == "variadic";
    if (tensor->optional && list != "inputs")
      return error(position,
                   fmt::format("\"{}\": only inputs can be optional (a node may leave out any output)", tensor->name));
    if (tensor->variadic && list == "workspace")
      return error(position, fmt::format("\"{}\": workspace can't be variadic", tensor->name));
    const ast::Call& call = *expr.as<ast::Call>();
    for (const ast::Argument& a : call.arguments) {
      if (!a.name.empty() || a.stars != 0)
        return error(a.value->position, fmt::format("op.{} takes a type and extents, without keywords", form));
    }
    if (call.arguments.empty()) return error(position, fmt::format("op.{} expects an element type", form));
    return {};
  }

  Status declare(const std::string& name, Position position) {
    if (!is_identifier(name)) return error(position, fmt::format("\"{}\" is no name", name));
    if (!names_.insert(name).second) return error(position, fmt::format("\"{}\" is declared twice", name));
    return {};
  }

  // A default (which says the kind), or a type that a node has to give a value of.
  Result<graph::AttributeDef> read_attribute(std::string name, const ast::ExprPtr& expr) const {
    using graph::AttributeKind;
    AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, program_->evaluate(expr));
    graph::AttributeDef def{std::move(name), AttributeKind::kInt};
    const auto kind_of = [](const Value& v) -> std::optional<AttributeKind> {
      if (v.integer()) return AttributeKind::kInt;
      if (v.as<double>() != nullptr) return AttributeKind::kFloat;
      if (v.as<std::string>() != nullptr) return AttributeKind::kString;
      return std::nullopt;
    };
    const auto required_kind = [](const Value& v) -> std::optional<AttributeKind> {
      const auto* builtin = v.as<dsl::BuiltinFunction>();
      if (builtin == nullptr) return std::nullopt;
      if (builtin->name == "int" || builtin->name == "bool") return AttributeKind::kInt;
      if (builtin->name == "float") return AttributeKind::kFloat;
      if (builtin->name == "str") return AttributeKind::kString;
      return std::nullopt;
    };
    const auto list_kind = [](AttributeKind kind) {
      return kind == AttributeKind::kInt     ? AttributeKind::kInts
             : kind == AttributeKind::kFloat ? AttributeKind::kFloats
                                             : AttributeKind::kStrings;
    };
    const auto bad = [&] {
      return error(
          expr->position,
          fmt::format("attribute \"{}\" must be a default value (number, string or list of one kind) or the type of a "
                      "required one (int, float, str, [int], ...)",
                      def.name));
    };
    if (const auto kind = required_kind(result.value)) {
      def.kind = *kind;
      def.required = true;
      return def;
    }
    if (const auto kind = kind_of(result.value)) {
      def.kind = *kind;
      if (result.value.integer()) def.default_value = *result.value.integer();
      if (const auto* d = result.value.as<double>()) def.default_value = *d;
      if (const auto* s = result.value.as<std::string>()) def.default_value = *s;
      return def;
    }
    const dsl::ValueList* items = result.value.elements();
    if (items == nullptr || items->empty()) return bad();
    if (const auto kind = required_kind(items->front()); kind && items->size() == 1) {
      def.kind = list_kind(*kind);
      def.required = true;
      return def;
    }
    const bool floats =
        std::any_of(items->begin(), items->end(), [](const Value& v) { return v.as<double>() != nullptr; });
    std::vector<int64_t> ints;
    std::vector<double> reals;
    std::vector<std::string> strings;
    for (const Value& v : *items) {
      if (const auto* s = v.as<std::string>()) {
        strings.push_back(*s);
      } else if (const auto* d = v.as<double>()) {
        reals.push_back(*d);
      } else if (v.integer()) {
        if (floats)
          reals.push_back(static_cast<double>(*v.integer()));
        else
          ints.push_back(*v.integer());
      }
    }
    if (ints.size() == items->size()) {
      def.kind = AttributeKind::kInts;
      def.default_value = std::move(ints);
    } else if (reals.size() == items->size()) {
      def.kind = AttributeKind::kFloats;
      def.default_value = std::move(reals);
    } else if (strings.size() == items->size()) {
      def.kind = AttributeKind::kStrings;
      def.default_value = std::move(strings);
    } else {
      return bad();
    }
    return def;
  }

  // A function of the file, plain Python, whose parameters are all names of the declaration that `known` accepts.
  Result<dsl::FunctionValue> read_function(const ast::ExprPtr& given, std::string_view what,
                                           const std::function<bool(const std::string&)>& known) const {
    AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, program_->evaluate(given));
    const auto* function = result.value.as<dsl::FunctionValue>();
    if (function == nullptr || function->closure != nullptr)
      return error(given->position, fmt::format("{} must be a function of this file", what));
    if (!function->definition->decorators.empty())
      return error(given->position, fmt::format("{} must be a plain Python function, without decorators", what));
    for (const ast::Parameter& p : function->definition->parameters) {
      if (p.default_value != nullptr && p.stars == 0) continue;
      if (p.stars != 0 || !known(p.name)) {
        return error(
            p.position,
            fmt::format("parameter \"{}\" of \"{}\" names no input, attribute or extent that is known before it",
                        p.name, function->definition->name));
      }
    }
    return *function;
  }

  Result<std::vector<KernelDeclaration>> read_kernels(const ast::Call& call, Position position,
                                                      const ast::FunctionPtr& decorated) const {
    std::vector<ast::FunctionPtr> functions;
    if (const ast::ExprPtr* given = argument(call, "kernels")) {
      if (decorated != nullptr) return error((*given)->position, "op.register above a kernel takes no `kernels`");
      const ast::ExprPtr list = resolved(*given);
      const auto* display = list->as<ast::ListDisplay>();
      if (display == nullptr || display->elements.empty())
        return error((*given)->position, "kernels must be a list of kernel functions");
      for (const ast::ExprPtr& e : display->elements) {
        const auto* name = e->as<ast::Name>();
        const ast::FunctionPtr function = name == nullptr ? nullptr : program_->function(name->id);
        if (function == nullptr) return error(e->position, "kernels must be a list of kernel functions of this file");
        functions.push_back(function);
      }
    } else if (decorated != nullptr) {
      functions.push_back(decorated);
    } else {
      return error(position, "op.register needs `kernels`, `compute`, or a kernel function below it");
    }
    std::vector<KernelDeclaration> kernels;
    for (const ast::FunctionPtr& f : functions) {
      const bool kernel = std::any_of(f->decorators.begin(), f->decorators.end(), [](const ast::ExprPtr& d) {
        const auto* inner = d->as<ast::Call>();
        const auto* attribute = (inner != nullptr ? inner->callee : d)->as<ast::Attribute>();
        return attribute != nullptr && attribute->name == "prim_func";
      });
      if (!kernel)
        return error(f->position, fmt::format("kernel \"{}\" must be decorated by \"S.prim_func\"", f->name));
      kernels.push_back({f->name, f->position});
    }
    return kernels;
  }

  // op.register(...) with kernels, or op.elementwise(...) above the function of the value.
  Result<std::shared_ptr<const Declaration>> read_declaration(const ast::Expr& expr,
                                                              const ast::FunctionPtr& decorated) {
    const ast::Call& call = *expr.as<ast::Call>();
    const std::string form = op_function(expr);
    names_.clear();
    auto declaration = std::make_shared<Declaration>();
    Declaration& d = *declaration;
    d.file = file_;
    d.program = program_;
    d.position = expr.position;
    d.types = types_;
    d.lanes = lanes_;
    for (const TypeVariable& t : types_) names_.insert(t.name);
    for (const LaneCount& l : lanes_) names_.insert(l.name);
    AIPU_ASSIGN_OR_RETURN(d.op_type, read_op_type(call, expr.position, form));
    for (const std::string_view list : {"inputs", "outputs"}) {
      const ast::ExprPtr* given = argument(call, list);
      if (given == nullptr) return error(expr.position, fmt::format("op.{} needs `{}`", form, list));
      AIPU_ASSIGN_OR_RETURN((list == "inputs" ? d.inputs : d.outputs), read_tensors(*given, list));
    }
    if (d.outputs.empty()) return error(expr.position, "an operator has at least one output");
    AIPU_RETURN_IF_ERROR(read_attributes(call, &d));
    AIPU_RETURN_IF_ERROR(form == "elementwise" ? read_value(call, decorated, &d)
                                               : read_kernel_parts(call, decorated, &d));
    return std::shared_ptr<const Declaration>(std::move(declaration));
  }

  // The first argument, after a look at the keywords.
  Result<std::string> read_op_type(const ast::Call& call, Position here, const std::string& form) const {
    static const std::vector<std::string_view> kOfValue = {"inputs", "outputs", "attributes", "check"};
    static const std::vector<std::string_view> kOfKernels = {"inputs", "outputs", "attributes", "extents",
                                                             "shape",  "check",   "workspace",  "kernels",
                                                             "grain",  "apart",   "compute"};
    const auto& keywords = form == "elementwise" ? kOfValue : kOfKernels;
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const ast::Argument& a = call.arguments[i];
      if (a.name.empty() && (i != 0 || a.stars != 0))
        return error(a.value->position, fmt::format("op.{} takes the operator's name and keywords", form));
      if (!a.name.empty() && std::find(keywords.begin(), keywords.end(), a.name) == keywords.end())
        return error(a.value->position, fmt::format("op.{} has no argument \"{}\"", form, a.name));
    }
    if (call.arguments.empty() || !call.arguments[0].name.empty())
      return error(here, fmt::format("op.{} expects the operator's name first, \"domain::Name\"", form));
    AIPU_ASSIGN_OR_RETURN(std::string op_type, read_string(call.arguments[0].value, "the operator's name"));
    const size_t colons = op_type.find("::");
    if (colons == std::string::npos || colons == 0 || !is_identifier(std::string_view(op_type).substr(colons + 2)))
      return error(call.arguments[0].value->position,
                   fmt::format("\"{}\" is not of the form \"domain::Name\"", op_type));
    return op_type;
  }

  Status read_attributes(const ast::Call& call, Declaration* d) {
    const ast::ExprPtr* given = argument(call, "attributes");
    if (given == nullptr) return {};
    const ast::ExprPtr dict_expr = resolved(*given);
    const auto* dict = dict_expr->as<ast::DictDisplay>();
    if (dict == nullptr)
      return error((*given)->position, "attributes must be a dictionary from names to defaults or types");
    for (const auto& [key, value] : dict->items) {
      AIPU_ASSIGN_OR_RETURN(std::string name, read_string(key, "the name of an attribute"));
      AIPU_RETURN_IF_ERROR(declare(name, key->position));
      AIPU_ASSIGN_OR_RETURN(graph::AttributeDef def, read_attribute(std::move(name), value));
      d->attributes.push_back(std::move(def));
    }
    return {};
  }

  // What op.elementwise has beyond operands and attributes.
  Status read_value(const ast::Call& call, const ast::FunctionPtr& decorated, Declaration* d) const {
    if (decorated == nullptr) return error(d->position, "op.elementwise stands above the function of the value");
    if (decorated->decorators.size() != 1)
      return error(decorated->position, fmt::format("\"{}\" must be a plain function below op.elementwise alone: it "
                                                    "becomes part of kernels",
                                                    decorated->name));
    if (d->outputs.size() != 1 || d->outputs[0].variadic)
      return error(d->position, "an operator of op.elementwise has one output; op.register takes any number");
    for (const auto* list : {&d->inputs, &d->outputs}) {
      for (const TensorDeclaration& t : *list) {
        if (t.dims)
          return error(t.position, fmt::format("\"{}\" has extents, but the tensors of op.elementwise have "
                                               "any shape: they are broadcast as NumPy does it",
                                               t.name));
      }
    }
    if (const ast::ExprPtr* given = argument(call, "check")) {
      AIPU_ASSIGN_OR_RETURN(d->check, read_function(*given, "check", [&](const std::string& name) {
                              return d->find_attribute(name) != nullptr;
                            }));
    }
    for (const ast::Parameter& p : decorated->parameters) {
      if (p.stars != 0 || (find_named(d->inputs, p.name) == nullptr && d->find_attribute(p.name) == nullptr))
        return error(p.position, fmt::format("parameter \"{}\" of \"{}\" names no input or attribute of \"{}\"", p.name,
                                             decorated->name, d->op_type));
    }
    for (const TensorDeclaration& t : d->inputs) {
      if (find_named(decorated->parameters, t.name) == nullptr)
        return error(t.position, fmt::format("\"{}\" has no parameter \"{}\", so nothing reads that input",
                                             decorated->name, t.name));
    }
    d->value = decorated;
    return check_types(*d, d->outputs[0]);
  }

  // What op.register has beyond operands and attributes.
  Status read_kernel_parts(const ast::Call& call, const ast::FunctionPtr& decorated, Declaration* declaration) {
    Declaration& d = *declaration;
    if (const ast::ExprPtr* given = argument(call, "workspace")) {
      AIPU_ASSIGN_OR_RETURN(d.workspace, read_tensors(*given, "workspace"));
    }
    AIPU_ASSIGN_OR_RETURN(std::set<std::string> extents, extents_of_inputs(d));
    const auto known = [&](const std::string& name) {
      const TensorDeclaration* output = find_named(d.outputs, name);
      return extents.contains(name) || d.find_attribute(name) != nullptr || find_named(d.inputs, name) != nullptr ||
             (output != nullptr && output->variadic);
    };
    if (const ast::ExprPtr* given = argument(call, "extents")) {
      const ast::ExprPtr dict_expr = resolved(*given);
      const auto* dict = dict_expr->as<ast::DictDisplay>();
      if (dict == nullptr) return error((*given)->position, "extents must be a dictionary from names to functions");
      for (const auto& [key, value] : dict->items) {
        AIPU_ASSIGN_OR_RETURN(std::string name, read_string(key, "the name of an extent"));
        if (extents.contains(name)) return error(key->position, fmt::format("\"{}\" is declared twice", name));
        AIPU_RETURN_IF_ERROR(declare(name, key->position));
        AIPU_ASSIGN_OR_RETURN(dsl::FunctionValue function,
                              read_function(value, fmt::format("extent \"{}\"", name), known));
        extents.insert(name);
        d.extents.push_back({std::move(name), std::move(function)});
      }
    }
    if (const ast::ExprPtr* given = argument(call, "shape")) {
      AIPU_ASSIGN_OR_RETURN(d.shape, read_function(*given, "shape", known));
    }
    if (const ast::ExprPtr* given = argument(call, "check")) {
      AIPU_ASSIGN_OR_RETURN(d.check, read_function(*given, "check", known));
    }
    if (const ast::ExprPtr* given = argument(call, "grain")) {
      AIPU_ASSIGN_OR_RETURN(const dsl::HostResult result, program_->evaluate(*given));
      if (result.value.as<int64_t>() == nullptr || *result.value.as<int64_t>() < 0)
        return error((*given)->position, "grain must be a number of elements");
      d.grain = *result.value.as<int64_t>();
    }
    if (const ast::ExprPtr* given = argument(call, "apart")) {
      AIPU_ASSIGN_OR_RETURN(d.apart, read_apart(d, *given));
    }
    if (const ast::ExprPtr* given = argument(call, "compute")) return read_compute(call, *given, decorated, known, &d);
    AIPU_ASSIGN_OR_RETURN(d.kernels, read_kernels(call, d.position, decorated));
    AIPU_RETURN_IF_ERROR(check_results(d, extents));
    return check_parameters(d, extents);
  }

  // The tensor expression from which shapes and kernel follow.
  Status read_compute(const ast::Call& call, const ast::ExprPtr& given, const ast::FunctionPtr& decorated,
                      const std::function<bool(const std::string&)>& known, Declaration* declaration) const {
    Declaration& d = *declaration;
    if (decorated != nullptr)
      return error(given->position, "op.register above a kernel takes no `compute`: it needs no kernel");
    for (const std::string_view other : {"kernels", "workspace", "shape", "extents", "apart"}) {
      if (const ast::ExprPtr* too = argument(call, other); too != nullptr)
        return error((*too)->position, fmt::format("op.register takes `compute` or `{}`, not both", other));
    }
    for (const TensorDeclaration& t : d.outputs) {
      AIPU_RETURN_IF_ERROR(check_types(d, t));
      if (t.dims) return error(t.position, fmt::format("\"{}\" has extents, and `compute` gives them too", t.name));
      if (t.variadic) return error(t.position, fmt::format("\"{}\" can't be variadic beside `compute`", t.name));
    }
    AIPU_ASSIGN_OR_RETURN(d.compute, read_function(given, "compute", known));
    for (const TensorDeclaration& t : d.inputs) {
      if (find_named(d.compute->definition->parameters, t.name) == nullptr)
        return error(t.position, fmt::format("`compute` has no parameter \"{}\", so nothing reads that input", t.name));
    }
    return {};
  }

  Result<std::set<std::string>> extents_of_inputs(const Declaration& d) const {
    std::set<std::string> extents;
    for (const TensorDeclaration& t : d.inputs) {
      for (const DimPattern& dim : t.dims.value_or(std::vector<DimPattern>{})) {
        if (dim.kind == DimPattern::Kind::kConstant) continue;
        if (names_.contains(dim.name))
          return error(t.position, fmt::format("\"{}\" is an extent and something else too", dim.name));
        extents.insert(dim.name);
      }
    }
    return extents;
  }

  // Extents that inputs and outputs are declared with.
  Result<std::vector<std::string>> read_apart(const Declaration& d, const ast::ExprPtr& given) {
    const ast::ExprPtr list_expr = resolved(given);
    const auto* list = list_expr->as<ast::ListDisplay>();
    if (list == nullptr) return error(given->position, "apart must be a list of the names of extents");
    const auto names = [](const std::vector<TensorDeclaration>& tensors, const std::string& name) {
      return std::any_of(tensors.begin(), tensors.end(), [&](const TensorDeclaration& t) {
        return t.dims && std::any_of(t.dims->begin(), t.dims->end(), [&](const DimPattern& dim) {
                 return dim.kind != DimPattern::Kind::kConstant && dim.name == name;
               });
      });
    };
    std::vector<std::string> apart;
    for (const ast::ExprPtr& item : list->elements) {
      AIPU_ASSIGN_OR_RETURN(std::string name, read_string(item, "the name of an extent"));
      if (!names(d.inputs, name) || !names(d.outputs, name))
        return error(item->position, fmt::format("\"{}\" is no extent of both an input and an output", name));
      apart.push_back(std::move(name));
    }
    return apart;
  }

  // The element type of a result is that of an input which every node has.
  Status check_types(const Declaration& d, const TensorDeclaration& t) const {
    const auto* type = std::get_if<std::string>(&t.type);
    if (type == nullptr) return {};
    const auto binds = [&](const TensorDeclaration& input) {
      return std::holds_alternative<std::string>(input.type) && std::get<std::string>(input.type) == *type;
    };
    const auto binds_always = [&](const TensorDeclaration& input) { return !input.optional && binds(input); };
    if (std::any_of(d.inputs.begin(), d.inputs.end(), binds_always)) return {};
    const bool optional = std::any_of(d.inputs.begin(), d.inputs.end(), binds);
    return error(t.position, fmt::format("\"{}\" has the element type \"{}\", which {}", t.name, *type,
                                         optional ? "only optional inputs have" : "no input has"));
  }

  // Types and extents of outputs and workspace are made of what inputs bind.
  Status check_results(const Declaration& d, const std::set<std::string>& extents) const {
    const auto check = [&](const TensorDeclaration& t, bool needs_dims) -> Status {
      AIPU_RETURN_IF_ERROR(check_types(d, t));
      if (!t.dims.has_value() && needs_dims)
        return error(t.position, fmt::format("the extents of \"{}\" are missing (or a shape function)", t.name));
      if (t.dims.has_value() && !needs_dims)
        return error(t.position, fmt::format("\"{}\" has extents, and the shape function gives them too", t.name));
      for (const DimPattern& dim : t.dims.value_or(std::vector<DimPattern>{})) {
        if (dim.kind == DimPattern::Kind::kConstant) continue;
        const bool rest = dim.kind == DimPattern::Kind::kRest;
        const bool input_has = std::any_of(d.inputs.begin(), d.inputs.end(), [&](const TensorDeclaration& input) {
          return input.dims && std::any_of(input.dims->begin(), input.dims->end(), [&](const DimPattern& p) {
                   return p.kind == DimPattern::Kind::kRest && p.name == dim.name;
                 });
        });
        if (!extents.contains(dim.name) || (rest && !input_has))
          return error(t.position, fmt::format("\"{}\" has the extent \"{}{}\", which no input has", t.name,
                                               rest ? "..." : "", dim.name));
      }
      return {};
    };
    for (const TensorDeclaration& t : d.outputs) AIPU_RETURN_IF_ERROR(check(t, !d.shape.has_value()));
    for (const TensorDeclaration& t : d.workspace) AIPU_RETURN_IF_ERROR(check(t, true));
    return {};
  }

  // Every parameter of a kernel has a name that means something, and every output is some kernel's.
  Status check_parameters(const Declaration& d, const std::set<std::string>& extents) const {
    std::set<std::string> used;
    for (const KernelDeclaration& kernel : d.kernels) {
      for (const ast::Parameter& p : program_->function(kernel.name)->parameters) {
        const graph::AttributeDef* attribute = d.find_attribute(p.name);
        if (d.find_tensor(p.name) == nullptr && attribute == nullptr && !extents.contains(p.name)) {
          return error(
              p.position,
              fmt::format(
                  "parameter \"{}\" of kernel \"{}\" names no input, output, workspace, attribute or extent of \"{}\"",
                  p.name, kernel.name, d.op_type));
        }
        if (attribute != nullptr && attribute->kind != graph::AttributeKind::kInt &&
            attribute->kind != graph::AttributeKind::kFloat) {
          return error(
              p.position,
              fmt::format(
                  "attribute \"{}\" is no number and can't be a parameter; the kernel can use its name directly",
                  p.name));
        }
        used.insert(p.name);
      }
    }
    for (const TensorDeclaration& t : d.outputs) {
      if (!used.contains(t.name))
        return error(t.position,
                     fmt::format("no kernel has a parameter \"{}\", so nothing writes that output", t.name));
    }
    return {};
  }

  std::shared_ptr<const dsl::HostProgram> program_;
  std::string file_;
  std::vector<TypeVariable> types_;
  std::vector<LaneCount> lanes_;
  std::set<std::string> names_;  // of the declaration at hand
};

}  // namespace

OperandRange operand_range(const std::vector<TensorDeclaration>& tensors, size_t index, size_t operands) {
  if (index >= operands) return {operands, 0};
  return {index, tensors[index].variadic ? operands - index : 1};
}

const TypeVariable* Declaration::find_type(std::string_view name) const { return find_named(types, name); }

const TensorDeclaration* Declaration::find_tensor(std::string_view name) const {
  for (const auto* list : {&inputs, &outputs, &workspace}) {
    if (const TensorDeclaration* t = find_named(*list, name)) return t;
  }
  return nullptr;
}

const graph::AttributeDef* Declaration::find_attribute(std::string_view name) const {
  return find_named(attributes, name);
}

Result<std::vector<std::shared_ptr<const Declaration>>> read_declarations(const std::string& file, std::string text) {
  AIPU_ASSIGN_OR_RETURN(auto program, dsl::HostProgram::parse({file, std::move(text)}));
  return Reader(std::move(program), file).read();
}

}  // namespace aipu::kernels::script_op
