// The functions of S that are syntax rather than rows of the intrinsic table.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/dsl/compiler.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

constexpr std::pair<std::string_view, tir::Scope> kScopes[] = {
    {"global", tir::Scope::kGlobal},    {"global.1", tir::Scope::kGlobal1}, {"global.2", tir::Scope::kGlobal2},
    {"global.3", tir::Scope::kGlobal3}, {"lsram", tir::Scope::kLsram},      {"shared", tir::Scope::kShared},
    {"private", tir::Scope::kPrivate},  {"constant", tir::Scope::kConstant}};

bool is_vector(const Value& v) {
  return v.is_expr() && !(*v.as<tir::Expr>())->type.pointer && (*v.as<tir::Expr>())->type.is_vector();
}

}  // namespace

const std::map<std::string_view, Compiler::ScriptHandler>& Compiler::script_handlers() {
  static const std::map<std::string_view, ScriptHandler> kHandlers = {
      {"ptr", &Compiler::s_ptr},
      {"alloc", &Compiler::s_alloc},
      {"alloc_buffer", &Compiler::s_alloc_buffer},
      {"alloc_const", &Compiler::s_alloc_const},
      {"match_buffer", &Compiler::s_match_buffer},
      {"grid", &Compiler::s_grid},
      {"vectorized", &Compiler::s_vectorized},
      {"tec_range", &Compiler::s_tec_range},
      {"unroll", &Compiler::s_unroll},
      {"block", &Compiler::s_block},
      {"axis.spatial", &Compiler::s_axis_spatial},
      {"axis.reduce", &Compiler::s_axis_reduce},
      {"axis.remap", &Compiler::s_axis_remap},
      {"meta_var", &Compiler::s_meta_var},
      {"tag", &Compiler::s_tag},
      {"const_mask", &Compiler::s_const_mask},
      {"cast", &Compiler::s_cast},
      {"reinterpret", &Compiler::s_reinterpret},
      {"ceildiv", &Compiler::s_ceildiv},
      {"vsplit", &Compiler::s_vsplit},
      {"alloc_events", &Compiler::s_alloc_events},
      {"max", &Compiler::s_max},
      {"min", &Compiler::s_min},
      {"pow", &Compiler::s_pow},
      {"asm", &Compiler::s_asm},
      {"serial", &Compiler::s_serial},
      {"parallel", &Compiler::s_serial},
      {"thread_binding", &Compiler::s_thread_binding},
      {"if_then_else", &Compiler::s_if_then_else},
      {"Select", &Compiler::s_select},
      {"truncdiv", &Compiler::s_truncdiv},
      {"truncmod", &Compiler::s_truncmod},
      {"floordiv", &Compiler::s_floordiv},
      {"floormod", &Compiler::s_floormod},
      {"min_value", &Compiler::s_min_value},
      {"max_value", &Compiler::s_max_value},
      {"infinity", &Compiler::s_infinity},
      {"func_attr", &Compiler::s_func_attr},
      {"evaluate", &Compiler::s_evaluate},
      {"likely", &Compiler::s_likely},
      {"Assert", &Compiler::s_assert},
      {"let", &Compiler::s_let},
      {"stage", &Compiler::s_stage},
  };
  return kHandlers;
}

Value Compiler::call_script(const std::string& name, CallArguments& arguments, Position position) {
  if (const auto handler = script_handlers().find(name); handler != script_handlers().end())
    return (this->*handler->second)(arguments, position);
  return call_intrinsic(name, arguments, position);
}

std::vector<Value> Compiler::take(const CallArguments& arguments, std::string_view function,
                                  const std::vector<std::string_view>& names, size_t required, Position position) {
  std::vector<Value> values(names.size());
  std::vector<bool> given(names.size());
  if (arguments.positional.size() > names.size()) {
    fail(position, fmt::format("{}() takes {} positional arguments but {} were given", function, names.size(),
                               arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    values[i] = arguments.positional[i];
    given[i] = true;
  }
  for (const auto& [keyword, value] : arguments.keywords) {
    const auto found = std::find(names.begin(), names.end(), keyword);
    if (found == names.end())
      fail(position, fmt::format("{}() got an unexpected keyword argument '{}'", function, keyword));
    const auto i = static_cast<size_t>(found - names.begin());
    if (given[i]) fail(position, fmt::format("{}() got multiple values for argument '{}'", function, keyword));
    values[i] = value;
    given[i] = true;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!given[i]) fail(position, fmt::format("{}() missing 1 required positional argument: '{}'", function, names[i]));
  }
  return values;
}

int64_t Compiler::int_argument(const Value& value, std::string_view phrase, Position position) {
  const auto* i = value.as<int64_t>();
  if (i == nullptr) fail(position, phrase);
  return *i;
}

tir::Type Compiler::type_argument(const Value& value, std::string_view name, Position position) {
  std::optional<tir::Type> type;
  if (const auto* s = value.as<std::string>()) type = parse_type_text(*s);
  if (const auto* t = value.as<TypeValue>()) type = t->type;
  if (!type) {
    fail(position, fmt::format("The arg \"{}\" expect a data type, but got: \"{}\".", name,
                               value.as<std::string>() != nullptr ? *value.as<std::string>() : kind_text(value)));
  }
  if (strict() && dtype_bits(type->element) == 64)
    fail(position, fmt::format("The arg \"{}\" expect a data type, but got: \"{}\".", name, type_text(*type)));
  return *type;
}

// What a pointer may point to: a storage type of any width, or void.
tir::Type Compiler::pointee_argument(const Value& value, Position position) {
  if (value.is_none() || (value.as<std::string>() != nullptr && value.as<std::string>()->empty())) {
    fail(position, "Please use \"void\" to explicitly represent the void pointer.");
  }
  std::optional<tir::Type> type;
  std::string shown = kind_text(value);
  if (const auto* s = value.as<std::string>()) {
    type = parse_type_text(*s);
    shown = *s;
  }
  if (const auto* t = value.as<TypeValue>()) type = t->type;
  if (!type || type->pointer || type->element == DType::kBool || type->element == DType::kString ||
      (strict() && dtype_bits(type->element) == 64)) {
    if (type && type->lanes > 1) shown = type_text(type->with_lanes(1));
    const size_t lanes = shown.find_last_not_of("0123456789");  // "int4x8"
    if (!type && lanes != std::string::npos && lanes + 1 < shown.size() && shown[lanes] == 'x') shown.resize(lanes);
    fail(position,
         fmt::format(
             "The scalar form of arg \"dtype\" expect one of (int8, uint8, int16, uint16, int32, uint32, float16, "
             "float32, bfloat16, void), but got: \"{}\".",
             shown));
  }
  return *type;
}

Value Compiler::s_ptr(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "ptr", {"dtype", "scope"}, 1, position);
  const tir::Type type = pointee_argument(values[0], position);
  tir::Scope scope = tir::Scope::kPrivate;
  if (!values[1].is_none()) {
    const auto* text = values[1].as<std::string>();
    const auto* found = text == nullptr ? std::end(kScopes)
                                        : std::find_if(std::begin(kScopes), std::end(kScopes),
                                                       [&](const auto& s) { return s.first == *text; });
    if (found == std::end(kScopes)) {
      fail(position, fmt::format("The arg \"scope\" expect one of (global, global.1, global.2, global.3, lsram, "
                                 "shared, private, constant), but got: \"{}\".",
                                 text != nullptr ? *text : kind_text(values[1])));
    }
    scope = found->second;
  }
  return {TypeValue{tir::Type::pointer_to(type.element, type.lanes, scope)}};
}

Value Compiler::s_alloc(CallArguments& arguments, Position position) { return allocate(arguments, true, position); }
Value Compiler::s_alloc_buffer(CallArguments& arguments, Position position) {
  return allocate(arguments, false, position);
}
Value Compiler::s_alloc_const(CallArguments& arguments, Position position) {
  return allocate_const(arguments, position);
}
Value Compiler::s_match_buffer(CallArguments& arguments, Position position) {
  return match_buffer(arguments, position);
}

Value Compiler::s_grid(CallArguments& arguments, Position position) {
  if (arguments.positional.empty() || !arguments.keywords.empty())
    fail(position, "S.grid expect the extents of its loops.");
  return make_iterable("grid", arguments.positional);
}

Value Compiler::s_vectorized(CallArguments& arguments, Position position) {
  auto values = take(arguments, "vectorized", {"start", "stop"}, 1, position);
  const bool one = values[1].is_none();
  return make_iterable("vectorized",
                       {one ? Value{int64_t{0}} : values[0], one ? values[0] : values[1], Value{int64_t{1}}});
}

Value Compiler::s_tec_range(CallArguments& arguments, Position position) {
  auto values = take(arguments, "tec_range", {"start", "stop"}, 1, position);
  const bool one = values[1].is_none();
  return make_iterable("tec_range",
                       {one ? Value{int64_t{0}} : values[0], one ? values[0] : values[1], Value{int64_t{1}}});
}

Value Compiler::s_unroll(CallArguments& arguments, Position position) {
  auto values = take(arguments, "unroll", {"start", "stop", "step"}, 1, position);
  const bool one = values[1].is_none();
  const Value stride = values[2].is_none() ? Value{int64_t{1}} : values[2];
  ValueList bounds = {one ? Value{int64_t{0}} : values[0], one ? values[0] : values[1], stride};
  // How many copies there would be is not known then.
  const bool known = std::all_of(bounds.begin(), bounds.end(), [](const Value& v) { return v.integer().has_value(); });
  return make_iterable(known ? "unroll" : "range", std::move(bounds));
}

Value Compiler::s_block(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "block", {"name"}, 1, position);
  if (values[0].as<std::string>() == nullptr) fail(position, "The name of a block must be a string.");
  return {BlockValue{*values[0].as<std::string>()}};
}

Value Compiler::s_axis_spatial(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "axis", {"dom", "v"}, 2, position);
  return axis(values[1], false, values[0], position);
}

Value Compiler::s_axis_reduce(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "axis", {"dom", "v"}, 2, position);
  return axis(values[1], true, values[0], position);
}

// The value itself. `extent` None: that of the loop.
Value Compiler::axis(const Value& value, bool reduction, const Value& extent, Position position) {
  if (marks_ == nullptr) return value;
  const tir::Expr e = index_expr(value, position);
  const tir::Expr own = tir::make_expr(e->type, e->node, e->span);
  marks_->axes[own.get()] = {own, reduction, extent.is_none() ? nullptr : index_expr(extent, position)};
  return {own};
}

Value Compiler::s_axis_remap(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "remap", {"kinds", "vs"}, 2, position);
  ValueList items = iterate(values[1], position);
  const auto* kinds = values[0].as<std::string>();
  if (marks_ != nullptr &&
      (kinds == nullptr || kinds->size() != items.size() || kinds->find_first_not_of("SR") != std::string::npos))
    fail(position, "S.axis.remap expects one of the letters S and R for each axis.");
  for (size_t i = 0; i < items.size(); ++i)
    items[i] = axis(items[i], marks_ != nullptr && (*kinds)[i] == 'R', {NoneValue{}}, position);
  return items.size() == 1 ? items[0] : make_list(items);
}

Value Compiler::s_meta_var(CallArguments& arguments, Position position) {
  return {MetaValue{std::make_shared<Value>(take(arguments, "meta_var", {"v"}, 1, position)[0])}};
}

Value Compiler::s_tag(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "tag", {"node", "attr"}, 2, position);
  const auto* attr = values[1].as<std::string>();
  if (attr == nullptr || *attr != "no_zip") fail(position, "The arg \"attr\" expect one of (\"no_zip\",).");
  const auto* e = values[0].as<tir::Expr>();
  if (e == nullptr || (*e)->as<tir::Cast>() == nullptr || !(*e)->type.is_vector())
    fail(position, "In attr \"no_zip\", the arg \"node\" expect one of ('vcast',).");
  return values[0];  // lanes in order satisfy a user who does not care about their order
}

Value Compiler::s_ceildiv(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "ceildiv", {"x", "y"}, 2, position);
  const auto x = values[0].integer(), y = values[1].integer();
  if (y && *y == 0) fail(position, "The 2nd arg can't be zero.");
  for (const Value& v : values) {
    const auto* e = v.as<tir::Expr>();
    if (!v.integer() &&
        (e == nullptr || (*e)->type.pointer || !(*e)->type.is_scalar() || !is_integer((*e)->type.element))) {
      fail(position, "S.ceildiv only accepts integer scalars.");
    }
  }
  if (x && y) {
    const Value sum = binary(ast::BinaryOp::kSub, binary(ast::BinaryOp::kAdd, values[0], values[1], position),
                             {int64_t{1}}, position);
    if (*sum.integer() == INT64_MIN && *y == -1) fail(position, "The compile-time integer does not fit 64 bits.");
    return {*sum.integer() / *y};
  }
  if (y && *y == 1) return values[0];
  const Matched m = match_operands(values[0], values[1], position);
  const Value sum =
      y ? binary(ast::BinaryOp::kAdd, {m.lhs}, {*y - 1}, position)
        : binary(ast::BinaryOp::kSub, binary(ast::BinaryOp::kAdd, {m.lhs}, {m.rhs}, position), {int64_t{1}}, position);
  return binary(ast::BinaryOp::kDiv, sum, {m.rhs}, position);
}

Value Compiler::scalar_extremum(std::string_view name, tir::BinaryOp op, CallArguments& arguments, Position position) {
  const auto values = take(arguments, name, {"x", "y", "mask", "r"}, 2, position);
  if (is_vector(values[0]) || is_vector(values[1])) return call_intrinsic(std::string(name), arguments, position);
  if (!values[2].is_none()) fail(position, "Only support mask in vector scenario.");
  if (values[0].is_number() && values[1].is_number()) {
    const bool first = *fold_compare(op == tir::BinaryOp::kMax ? ast::CompareOp::kGe : ast::CompareOp::kLe, values[0],
                                     values[1], position);
    return first ? values[0] : values[1];
  }
  const Matched m = match_operands(values[0], values[1], position);
  refuse_bf16_scalars({{m.lhs}}, position);
  return {tir::binary(op, m.lhs, m.rhs, span(position))};
}

Value Compiler::s_max(CallArguments& arguments, Position position) {
  return scalar_extremum("max", tir::BinaryOp::kMax, arguments, position);
}
Value Compiler::s_min(CallArguments& arguments, Position position) {
  return scalar_extremum("min", tir::BinaryOp::kMin, arguments, position);
}

Value Compiler::s_pow(CallArguments& arguments, Position position) {
  auto values = take(arguments, "pow", {"x", "exponent"}, 2, position);
  if (!is_float_operand(values[0]) && !is_float_operand(values[1]))
    fail(position, "Only support floating instruction.");
  // Next to a vector a scalar takes its type, as in every intrinsic; only the operator ** matches a float literal as
  // float32.
  if (is_vector(values[0]) || is_vector(values[1]))
    return call_intrinsic(*required_intrinsic("pow", position), {values[0], values[1]}, {}, position);
  return power(values[0], values[1], position);
}

Value Compiler::power(const Value& lhs, const Value& rhs, Position position) {
  if (lhs.is_number() && rhs.is_number()) return *fold_binary(ast::BinaryOp::kPow, lhs, rhs, position);
  const Matched m = match_operands(lhs, rhs, position);
  if (m.lhs->type.is_scalar()) refuse_bf16_scalars({lhs, rhs, {m.lhs}}, position);
  return call_intrinsic(*required_intrinsic("pow", position), {{m.lhs}, {m.rhs}}, {}, position);
}

Value Compiler::s_vsplit(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "vsplit", {"x"}, 1, position);
  if (!is_vector(values[0])) fail(position, "The 1st arg expect a vector.");
  const tir::Type type = (*values[0].as<tir::Expr>())->type;
  if (is_native_vector(type)) fail(position, "Redundant useless call.");
  const int lanes = native_lanes(type.element);
  if (type.lanes % lanes != 0)
    fail(position,
         fmt::format("This API does not support the feature Flexible Width Vector, but got: \"{}\"", type_text(type)));
  const Value whole = materialize(values[0], "whole", position);
  ValueList parts;
  for (int64_t i = 0; i < type.lanes / lanes; ++i) {
    parts.push_back(call_intrinsic(*required_intrinsic("vpart", position), {whole},
                                   {{"index", {i}}, {"lanes", {int64_t{lanes}}}}, position));
  }
  return make_tuple(std::move(parts));
}

Value Compiler::s_alloc_events(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "alloc_events", {"count"}, 1, position);
  const auto* count = values[0].as<int64_t>();
  if (count == nullptr || *count < 1) fail(position, "The arg \"count\" expect an positive integer scalar constant.");
  if (*count > 4) fail(position, fmt::format("Only remain 4 events, but allocate {}.", *count));
  ValueList events;
  for (int64_t i = 0; i < *count; ++i) {
    const Value event = call_intrinsic(*required_intrinsic("alloc_event", position), {}, {}, position);
    events.push_back({tir::var_ref(define("event", *event.as<tir::Expr>(), position))});
  }
  return *count == 1 ? events[0] : make_tuple(std::move(events));
}

Value Compiler::s_asm(CallArguments&, Position position) {
  fail(position, "S.asm is not supported: inline assembly needs the vendor's assembler.");
}

}  // namespace aipu::dsl
