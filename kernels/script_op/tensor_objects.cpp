#include "kernels/script_op/tensor_objects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <set>

#include "kernels/dsl/host_environment.h"
#include "kernels/te/functions.h"
#include "kernels/te/print.h"

namespace aipu::kernels::script_op {
namespace {

using dsl::Captured;
using dsl::CapturedList;
using dsl::CapturedOpaque;
using Keywords = std::vector<std::pair<std::string, Captured>>;

struct Module {
  std::string path;  // "aipu", "aipu.te", "aipu.tir"
};
struct Function {
  std::string name;
};
struct Method {
  Captured self;
  std::string name;
};
// T[i] of a tensor with more dimensions; an element once all indices are there.
struct Slice {
  te::Tensor tensor;
  std::vector<te::Expr> indices;
};
using Thing = std::variant<Module, Function, Method, te::Tensor, Slice, te::Expr, te::IterVarPtr>;
struct Object final : dsl::HostObject {
  explicit Object(Thing thing) : what(std::move(thing)) {}
  Thing what;
};

Captured wrap(Thing what, std::string description) {
  const std::shared_ptr<dsl::HostObject> object = std::make_shared<Object>(std::move(what));
  return Captured{CapturedOpaque{object, std::move(description)}};
}
Captured wrap(te::Expr e) { return wrap(Thing(std::move(e)), "expression"); }

template <typename T>
const T* host_object(const Captured& c) {
  const auto* opaque = std::get_if<CapturedOpaque>(&c.value);
  return opaque == nullptr ? nullptr
                           : dynamic_cast<const T*>(static_cast<const dsl::HostObject*>(opaque->object.get()));
}
template <typename T>
const T* object_of(const Captured& c) {
  const auto* object = host_object<Object>(c);
  return object == nullptr ? nullptr : std::get_if<T>(&object->what);
}

const CapturedList* items_of(const Captured& c) {
  if (const auto* tuple = std::get_if<dsl::CapturedTuple>(&c.value)) return &tuple->items;
  return std::get_if<CapturedList>(&c.value);
}

std::optional<double> number_of(const Captured& c) {
  if (const auto* b = std::get_if<bool>(&c.value)) return *b ? 1 : 0;
  if (const auto* i = std::get_if<int64_t>(&c.value)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&c.value)) return *d;
  return std::nullopt;
}

bool fits_i32(int64_t v) {
  return v >= std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max();
}

// A constant of the type that the number says.
te::Expr constant(const Captured& c) {
  if (const auto* b = std::get_if<bool>(&c.value)) return te::make_bool(*b);
  if (const auto* i = std::get_if<int64_t>(&c.value))
    return te::make_int(*i, te::Type::scalar(fits_i32(*i) ? DType::kI32 : DType::kI64));
  const double d = std::get<double>(c.value);
  const bool wide = std::isfinite(d) && std::abs(d) > std::numeric_limits<float>::max();
  return te::make_float(d, te::Type::scalar(wide ? DType::kF64 : DType::kF32));
}

// An expression where one is meant.
Result<te::Expr> expr(const Captured& c) {
  if (number_of(c)) return constant(c);
  if (const auto* e = object_of<te::Expr>(c)) return *e;
  if (const auto* axis = object_of<te::IterVarPtr>(c)) return (*axis)->var;
  if (const auto* slice = object_of<Slice>(c)) return te::element(slice->tensor, slice->indices);
  if (const auto* tensor = object_of<te::Tensor>(c)) {
    if (tensor->shape().empty()) return te::element(*tensor, {});
    return invalid_argument(
        fmt::format("tensor '{}' where an element is meant: '{}[i, ...]'", tensor->name(), tensor->name()));
  }
  return invalid_argument("a number or an expression of tensors is expected");
}

// Two operands: an integer takes the type of the expression beside it where that is a float or wider.
Result<std::pair<te::Expr, te::Expr>> pair_of(const Captured& a, const Captured& b) {
  AIPU_ASSIGN_OR_RETURN(te::Expr x, expr(a));
  AIPU_ASSIGN_OR_RETURN(te::Expr y, expr(b));
  const auto adapt = [](const Captured& number, te::Expr* e, const te::Expr& other) {
    const auto* value = std::get_if<int64_t>(&number.value);
    const DType d = other->type.element;
    const bool takes = is_floating(d) || d == DType::kI64 || d == DType::kU64 || d == DType::kI32 || d == DType::kU32;
    if (value != nullptr && takes) *e = te::make_int(*value, te::Type::scalar(d));
  };
  if (!number_of(b)) adapt(a, &x, y);
  if (!number_of(a)) adapt(b, &y, x);
  return std::pair(std::move(x), std::move(y));
}

Result<Captured> wrapped(Result<te::Expr> e) {
  if (!e.ok()) return std::move(e).status();
  return wrap(std::move(e).value());
}

Result<Captured> binary(te::BinaryOp op, const Captured& a, const Captured& b) {
  AIPU_ASSIGN_OR_RETURN(auto operands, pair_of(a, b));
  return wrapped(te::binary(op, std::move(operands.first), std::move(operands.second)));
}

Result<te::Type> type_of(const Captured& c) {
  std::optional<te::Type> type;
  if (const auto* text = std::get_if<std::string>(&c.value)) type = te::parse_type(*text);
  if (const auto* captured = std::get_if<dsl::CapturedType>(&c.value)) type = captured->type;
  if (!type || type->pointer || type->lanes != 1 || type->element == DType::kVoid || type->element == DType::kString)
    return invalid_argument("an element type is expected, such as \"float32\"");
  return *type;
}

Captured extent(const te::Expr& e) {
  if (const auto value = te::as_int(e)) return Captured{*value};
  return wrap(e);
}

// --- arguments of a call ---

struct Arguments {
  const std::string& function;
  const CapturedList& positional;
  const Keywords& keywords;

  Status check(std::initializer_list<std::string_view> names, size_t required) const {
    if (positional.size() > names.size())
      return invalid_argument(fmt::format("{} takes at most {} arguments", function, names.size()));
    std::set<std::string_view> known(names.begin(), names.end());
    for (const auto& [name, value] : keywords) {
      if (!known.contains(name)) return invalid_argument(fmt::format("{} has no argument \"{}\"", function, name));
    }
    size_t at = 0;
    for (const std::string_view name : names) {
      if (at < required && find(at, name) == nullptr)
        return invalid_argument(fmt::format("{} needs the argument \"{}\"", function, name));
      ++at;
    }
    return {};
  }
  // Null: it is not given, or None.
  const Captured* find(size_t at, std::string_view name) const {
    const Captured* found = at < positional.size() ? &positional[at] : nullptr;
    for (const auto& [key, value] : keywords) {
      if (key == name) found = &value;
    }
    return found == nullptr || std::holds_alternative<std::monostate>(found->value) ? nullptr : found;
  }
  Result<std::string> text(size_t at, std::string_view name, std::string otherwise) const {
    const Captured* found = find(at, name);
    if (found == nullptr) return otherwise;
    const auto* value = std::get_if<std::string>(&found->value);
    if (value == nullptr) return invalid_argument(fmt::format("{}: {} is a string", function, name));
    return *value;
  }
};

// --- functions ---

Result<std::vector<te::Expr>> extents_of(const Captured& shape) {
  const CapturedList* items = items_of(shape);
  const CapturedList one = {shape};
  std::vector<te::Expr> extents;
  for (const Captured& item : items != nullptr ? *items : one) {
    AIPU_ASSIGN_OR_RETURN(te::Expr e, expr(item));
    if (!te::is_index(e->type)) return invalid_argument("an extent is an integer");
    if (te::as_int(e).value_or(0) < 0) return invalid_argument("an extent is at least 0");
    extents.push_back(std::move(e));
  }
  return extents;
}

// The names of the axes: those of the function's parameters.
Result<std::vector<std::string>> axis_names(const dsl::ast::FunctionDef& function, size_t rank) {
  std::vector<std::string> names;
  for (const dsl::ast::Parameter& p : function.parameters) {
    if (p.stars == 2 || p.default_value != nullptr)
      return invalid_argument("compute: the function takes indices alone, without defaults");
    if (p.stars == 0) {
      names.push_back(p.name);
      continue;
    }
    while (names.size() < rank) names.push_back(fmt::format("i{}", names.size()));
  }
  if (names.size() != rank)
    return invalid_argument(
        fmt::format("compute: a shape of {} dimensions and a function of {} indices", rank, names.size()));
  return names;
}

Result<Captured> compute(const Arguments& given) {
  AIPU_RETURN_IF_ERROR(given.check({"shape", "fcompute", "name", "tag"}, 2));
  AIPU_ASSIGN_OR_RETURN(const auto extents, extents_of(*given.find(0, "shape")));
  const dsl::HostFunction* function = host_object<dsl::HostFunction>(*given.find(1, "fcompute"));
  if (function == nullptr) return invalid_argument("compute: a function of the indices is expected");
  AIPU_ASSIGN_OR_RETURN(const std::string name, given.text(2, "name", "compute"));
  AIPU_ASSIGN_OR_RETURN(const std::string tag, given.text(3, "tag", ""));
  AIPU_ASSIGN_OR_RETURN(const auto names, axis_names(*function->definition, extents.size()));
  std::vector<te::IterVarPtr> axes;
  CapturedList indices;
  for (size_t i = 0; i < extents.size(); ++i) {
    const te::Type type = extents[i]->type;
    axes.push_back(std::make_shared<te::IterVar>(
        te::IterVar{te::make_var(names[i], type), te::Range{te::make_int(0, type), extents[i]}}));
    indices.push_back(wrap(axes.back()->var));
  }
  AIPU_ASSIGN_OR_RETURN(const Captured value, function->call(indices));
  std::vector<te::Expr> body;
  const CapturedList* several = items_of(value);
  const CapturedList one = {value};
  for (const Captured& item : several != nullptr ? *several : one) {
    AIPU_ASSIGN_OR_RETURN(te::Expr e, expr(item));
    body.push_back(std::move(e));
  }
  AIPU_ASSIGN_OR_RETURN(const te::OperationPtr op, te::make_compute(name, tag, std::move(axes), std::move(body)));
  if (several == nullptr) return TensorObjects::tensor({op, 0});
  dsl::CapturedTuple outputs;
  for (int v = 0; v < op->output_count(); ++v) outputs.items.push_back(TensorObjects::tensor({op, v}));
  return Captured{std::move(outputs)};
}

Result<Captured> reduce_axis(const Arguments& given) {
  AIPU_RETURN_IF_ERROR(given.check({"dom", "name"}, 1));
  const CapturedList* dom = items_of(*given.find(0, "dom"));
  if (dom == nullptr || dom->size() != 2) return invalid_argument("the domain of a reduction axis is (begin, end)");
  AIPU_ASSIGN_OR_RETURN(const std::string name, given.text(1, "name", "rv"));
  AIPU_ASSIGN_OR_RETURN(te::Expr begin, expr((*dom)[0]));
  AIPU_ASSIGN_OR_RETURN(te::Expr end, expr((*dom)[1]));
  if (!te::is_index(begin->type) || !te::is_index(end->type))
    return invalid_argument("the domain of a reduction axis is made of integers");
  te::match_index_types(begin, end);
  const te::Range range{begin, te::sub(end, begin)};
  const te::IterVar axis{te::make_var(name, begin->type), range, te::IterKind::kCommReduce};
  return wrap(Thing(std::make_shared<te::IterVar>(axis)), "axis");
}

struct Reducer {
  std::string_view name;
  te::BinaryOp op;
  te::Expr (*identity)(te::Type type);
};
te::Expr zero(te::Type type) { return te::make_int(0, type); }
constexpr Reducer kReducers[] = {{"sum", te::BinaryOp::kAdd, zero},
                                 {"min", te::BinaryOp::kMin, te::max_value},
                                 {"max", te::BinaryOp::kMax, te::min_value}};

// sum(e, axis=k), and max(a, b) of expressions.
Result<Captured> reduce(const Reducer& reducer, const Arguments& given) {
  const Captured* axis = given.find(1, "axis");
  std::vector<te::IterVarPtr> axes;
  if (axis != nullptr) {
    const CapturedList* several = items_of(*axis);
    const CapturedList one = {*axis};
    for (const Captured& item : several != nullptr ? *several : one) {
      if (const auto* a = object_of<te::IterVarPtr>(item)) axes.push_back(*a);
    }
    if (axes.size() != (several != nullptr ? several->size() : 1)) axes.clear();
  }
  if (axes.empty()) {
    if (given.positional.size() < 2 || !given.keywords.empty())
      return invalid_argument(fmt::format("{}: an axis, or at least two expressions to combine", reducer.name));
    Captured result = given.positional[0];
    for (size_t i = 1; i < given.positional.size(); ++i) {
      AIPU_ASSIGN_OR_RETURN(result, binary(reducer.op, result, given.positional[i]));
    }
    return result;
  }
  AIPU_RETURN_IF_ERROR(given.check({"expr", "axis", "where", "init"}, 2));
  AIPU_ASSIGN_OR_RETURN(te::Expr source, expr(*given.find(0, "expr")));
  const te::Type type = source->type;
  auto combiner = std::make_shared<te::Combiner>();
  combiner->name = reducer.name;
  combiner->lhs = {te::make_var("x", type)};
  combiner->rhs = {te::make_var("y", type)};
  AIPU_ASSIGN_OR_RETURN(te::Expr combined, te::binary(reducer.op, combiner->lhs[0], combiner->rhs[0]));
  AIPU_ASSIGN_OR_RETURN(combined, te::convert(type, std::move(combined)));
  combiner->result = {std::move(combined)};
  combiner->identity = {reducer.identity(type)};
  te::Expr condition;
  if (const Captured* where = given.find(2, "where")) {
    AIPU_ASSIGN_OR_RETURN(condition, expr(*where));
  }
  std::vector<te::Expr> init;
  if (const Captured* start = given.find(3, "init")) {
    AIPU_ASSIGN_OR_RETURN(te::Expr e, expr(*start));
    AIPU_ASSIGN_OR_RETURN(e, te::convert(type, std::move(e)));
    init.push_back(std::move(e));
  }
  return wrapped(te::make_reduce(combiner, {std::move(source)}, std::move(axes), condition, std::move(init), 0));
}

Result<Captured> choose(const Arguments& given) {
  AIPU_RETURN_IF_ERROR(given.check({"condition", "a", "b"}, 3));
  AIPU_ASSIGN_OR_RETURN(te::Expr condition, expr(*given.find(0, "condition")));
  AIPU_ASSIGN_OR_RETURN(auto sides, pair_of(*given.find(1, "a"), *given.find(2, "b")));
  if (given.function == "if_then_else")
    return wrapped(te::if_then_else(std::move(condition), std::move(sides.first), std::move(sides.second)));
  if (!is_bool(condition->type.element))
    return invalid_argument(fmt::format("the condition of Select is a bool, not {}", te::type_text(condition->type)));
  if (sides.first->type != sides.second->type)
    return invalid_argument(fmt::format("Select of {} and {}: both sides need one type",
                                        te::type_text(sides.first->type), te::type_text(sides.second->type)));
  const te::Type type = sides.first->type;
  return wrap(te::make_expr(type, te::Select{std::move(condition), std::move(sides.first), std::move(sides.second)}));
}

Result<Captured> join(te::BinaryOp op, const Arguments& given) {
  if (given.positional.empty() || !given.keywords.empty())
    return invalid_argument(fmt::format("{}: at least one condition is needed", given.function));
  Captured result = given.positional[0];
  for (size_t i = 1; i < given.positional.size(); ++i) {
    AIPU_ASSIGN_OR_RETURN(result, binary(op, result, given.positional[i]));
  }
  return result;
}

Result<te::Expr> cast(const Captured& type, const Captured& value) {
  AIPU_ASSIGN_OR_RETURN(const te::Type to, type_of(type));
  AIPU_ASSIGN_OR_RETURN(te::Expr e, expr(value));
  return te::convert(to, std::move(e));
}

Result<Captured> make_constant(const Arguments& given) {
  AIPU_RETURN_IF_ERROR(given.check({"value", "dtype"}, 1));
  const Captured& value = *given.find(0, "value");
  if (!number_of(value)) return invalid_argument("const: a number is expected");
  if (const Captured* type = given.find(1, "dtype")) return wrapped(cast(*type, value));
  return wrap(constant(value));
}

Result<Captured> math(const Arguments& given) {
  if (!given.keywords.empty()) return invalid_argument(fmt::format("{} has no keywords", given.function));
  const std::string_view name = given.function == "pow" ? "power" : std::string_view(given.function);
  std::vector<te::Expr> operands;
  if (given.positional.size() == 2) {
    AIPU_ASSIGN_OR_RETURN(auto pair, pair_of(given.positional[0], given.positional[1]));
    operands = {std::move(pair.first), std::move(pair.second)};
  } else {
    for (const Captured& c : given.positional) {
      AIPU_ASSIGN_OR_RETURN(te::Expr e, expr(c));
      operands.push_back(std::move(e));
    }
  }
  return wrapped(te::call(name, std::move(operands)));
}

using Handler = std::function<Result<Captured>(const Arguments&)>;

// Of aipu.te and aipu.tir, without distinction.
const std::map<std::string, Handler, std::less<>>& functions() {
  static const std::map<std::string, Handler, std::less<>> table = [] {
    std::map<std::string, Handler, std::less<>> made;
    for (const std::string_view name : te::function_names()) made[std::string(name)] = math;
    made["pow"] = math;
    made["compute"] = compute;
    made["reduce_axis"] = reduce_axis;
    for (const Reducer& reducer : kReducers)
      made[std::string(reducer.name)] = [&reducer](const Arguments& given) { return reduce(reducer, given); };
    made["if_then_else"] = choose;
    made["Select"] = choose;
    made["const"] = make_constant;
    made["all"] = [](const Arguments& given) { return join(te::BinaryOp::kAnd, given); };
    made["any"] = [](const Arguments& given) { return join(te::BinaryOp::kOr, given); };
    made["Cast"] = [](const Arguments& given) -> Result<Captured> {
      AIPU_RETURN_IF_ERROR(given.check({"dtype", "value"}, 2));
      return wrapped(cast(*given.find(0, "dtype"), *given.find(1, "value")));
    };
    const std::pair<std::string_view, te::BinaryOp> divisions[] = {{"floordiv", te::BinaryOp::kFloorDiv},
                                                                   {"floormod", te::BinaryOp::kFloorMod},
                                                                   {"indexdiv", te::BinaryOp::kFloorDiv},
                                                                   {"indexmod", te::BinaryOp::kFloorMod},
                                                                   {"truncdiv", te::BinaryOp::kDiv},
                                                                   {"truncmod", te::BinaryOp::kMod},
                                                                   {"div", te::BinaryOp::kDiv}};
    for (const auto& [name, op] : divisions) {
      made[std::string(name)] = [op = op](const Arguments& given) -> Result<Captured> {
        AIPU_RETURN_IF_ERROR(given.check({"a", "b"}, 2));
        return binary(op, *given.find(0, "a"), *given.find(1, "b"));
      };
    }
    const auto of_type = [&](std::string name, te::Expr (*make)(te::Type)) {
      made[std::move(name)] = [make](const Arguments& given) -> Result<Captured> {
        AIPU_RETURN_IF_ERROR(given.check({"dtype"}, 1));
        AIPU_ASSIGN_OR_RETURN(const te::Type type, type_of(*given.find(0, "dtype")));
        return wrap(make(type));
      };
    };
    of_type("min_value", te::min_value);
    of_type("max_value", te::max_value);
    return made;
  }();
  return table;
}

Result<Captured> member(const Module& module, std::string_view name) {
  if (module.path == "aipu") {
    if (name == "te" || name == "tir") return wrap(Module{fmt::format("aipu.{}", name)}, "module");
    return unsupported(
        fmt::format("a tensor expression of an operator can use aipu.te and aipu.tir, not aipu.{}", name));
  }
  if (functions().contains(name)) return wrap(Function{std::string(name)}, "te function");
  std::vector<std::string_view> known;
  for (const auto& [function, handler] : functions()) known.push_back(function);
  return unsupported(fmt::format("a tensor expression of an operator can't use {}.{} (there are: {})", module.path,
                                 name, fmt::join(known, ", ")));
}

// What an import of this path gives; nullopt: it is none of ours.
std::optional<Captured> imported(const std::string& path) {
  if (path == "aipu" || path == "aipu.te" || path == "aipu.tir") return wrap(Module{path}, "module");
  for (const std::string_view module : {"aipu.te.", "aipu.tir."}) {
    if (path.starts_with(module) && functions().contains(path.substr(module.size())))
      return wrap(Function{path.substr(module.size())}, "te function");
  }
  return std::nullopt;
}

Result<Captured> element(const Captured& object, const CapturedList& indices) {
  const auto* whole = object_of<te::Tensor>(object);
  const auto* part = object_of<Slice>(object);
  if (whole == nullptr && part == nullptr) return invalid_argument("only tensors have elements");
  Slice slice = part != nullptr ? *part : Slice{*whole, {}};
  for (const Captured& index : indices) {
    AIPU_ASSIGN_OR_RETURN(te::Expr e, expr(index));
    slice.indices.push_back(std::move(e));
  }
  if (slice.indices.size() < slice.tensor.shape().size()) return wrap(std::move(slice), "slice");
  return wrapped(te::element(slice.tensor, std::move(slice.indices)));
}

std::optional<te::BinaryOp> infix(std::string_view symbol) {
  if (symbol == "/") return te::BinaryOp::kDiv;
  for (const te::BinaryOp op :
       {te::BinaryOp::kAdd, te::BinaryOp::kSub, te::BinaryOp::kMul, te::BinaryOp::kFloorDiv, te::BinaryOp::kFloorMod,
        te::BinaryOp::kBitAnd, te::BinaryOp::kBitOr, te::BinaryOp::kBitXor, te::BinaryOp::kShl, te::BinaryOp::kShr,
        te::BinaryOp::kEq, te::BinaryOp::kNe, te::BinaryOp::kLt, te::BinaryOp::kLe, te::BinaryOp::kGt,
        te::BinaryOp::kGe}) {
    if (te::binary_row(op).symbol == symbol) return op;
  }
  return std::nullopt;
}

}  // namespace

Captured TensorObjects::tensor(te::Tensor tensor) { return wrap(Thing(std::move(tensor)), "tensor"); }

Captured TensorObjects::expression(const te::Expr& expression) { return extent(expression); }

Result<std::vector<te::Tensor>> TensorObjects::tensors(const Captured& value) {
  const CapturedList* several = items_of(value);
  const CapturedList one = {value};
  std::vector<te::Tensor> tensors;
  for (const Captured& item : several != nullptr ? *several : one) {
    const auto* tensor = object_of<te::Tensor>(item);
    if (tensor == nullptr) return invalid_argument("the definition must return what te.compute returns");
    tensors.push_back(*tensor);
  }
  return tensors;
}

std::optional<Captured> TensorObjects::lookup(std::string_view name) {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const std::string* path = program_->import(name);
  return path == nullptr ? std::nullopt : imported(*path);
}

Result<Captured> TensorObjects::attribute(const Captured& object, std::string_view name) {
  if (const auto* module = object_of<Module>(object)) return member(*module, name);
  if (const auto* tensor = object_of<te::Tensor>(object)) {
    if (name == "shape") {
      dsl::CapturedTuple shape;
      for (const te::Expr& e : tensor->shape()) shape.items.push_back(extent(e));
      return Captured{std::move(shape)};
    }
    if (name == "ndim") return Captured{static_cast<int64_t>(tensor->shape().size())};
    if (name == "dtype") return Captured{te::type_text(tensor->type())};
    if (name == "name") return Captured{tensor->name()};
  } else if (auto e = expr(object); e.ok()) {
    if (name == "dtype") return Captured{te::type_text((*e)->type)};
    if (name == "astype") return wrap(Method{object, "astype"}, "method");
    if (name == "var" && object_of<te::IterVarPtr>(object) != nullptr) return wrap(*std::move(e));
  }
  return unsupported(fmt::format("a tensor expression of an operator has no attribute \"{}\" here", name));
}

Result<Captured> TensorObjects::call(const Captured& function, const CapturedList& args, const Keywords& kwargs) {
  if (const auto* named = object_of<Function>(function))
    return functions().find(named->name)->second({named->name, args, kwargs});
  if (const auto* method = object_of<Method>(function)) {
    const Arguments given{method->name, args, kwargs};
    AIPU_RETURN_IF_ERROR(given.check({"dtype"}, 1));
    return wrapped(cast(*given.find(0, "dtype"), method->self));
  }
  if (const auto* tensor = object_of<te::Tensor>(function); tensor != nullptr && kwargs.empty()) {
    if (args.size() == tensor->shape().size()) return element(function, args);
    return invalid_argument(
        fmt::format("tensor {} has {} dimensions, not {}", tensor->name(), tensor->shape().size(), args.size()));
  }
  return invalid_argument("only functions of te and tensors can be called here");
}

Result<Captured> TensorObjects::operate(std::string_view operation, const CapturedList& operands) {
  if (operation == "bool")
    return invalid_argument(
        "an expression of tensors has no truth value: tir.all or tir.any for `and` and `or`, te.if_then_else for `if`");
  if (operation == "is") return Captured{false};  // no object is None
  if (operation == "[]") {
    const CapturedList* several = items_of(operands[1]);
    return element(operands[0], several != nullptr ? *several : CapturedList{operands[1]});
  }
  if (operands.size() == 2) {
    const auto op = infix(operation);
    if (!op) return invalid_argument(fmt::format("expressions of tensors have no operator '{}'", operation));
    AIPU_ASSIGN_OR_RETURN(auto pair, pair_of(operands[0], operands[1]));
    if (operation == "/" && !is_floating(pair.first->type.element) && !is_floating(pair.second->type.element))
      return invalid_argument("'/' of two integers is ambiguous: tir.div (as in C), '//' or tir.truncdiv");
    return wrapped(te::binary(*op, std::move(pair.first), std::move(pair.second)));
  }
  AIPU_ASSIGN_OR_RETURN(const te::Expr e, expr(operands[0]));
  if (operation == "positive") return wrap(e);
  if (operation == "negative") return wrapped(te::binary(te::BinaryOp::kMul, e, te::make_int(-1, e->type)));
  if (operation == "abs") return wrapped(te::call("abs", {e}));
  if (operation == "~" && is_bool(e->type.element)) return wrap(te::make_not(e));
  if (operation == "~" && is_integer(e->type.element))
    return wrapped(te::binary(te::BinaryOp::kBitXor, e, te::make_int(-1, e->type)));
  return invalid_argument(fmt::format("'{}' of an expression of tensors is not known while it is written", operation));
}

}  // namespace aipu::kernels::script_op
