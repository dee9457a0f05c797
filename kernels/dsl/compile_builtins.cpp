// Python's own functions, over compile-time values.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kernels/dsl/compiler.h"
#include "kernels/dsl/host_environment.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

bool is_run_time(const Value& v) { return v.is_expr() || v.as<BufferValue>() != nullptr; }

}  // namespace

const std::map<std::string_view, Compiler::Builtin>& Compiler::builtins() {
  static const std::map<std::string_view, Builtin> kBuiltins = {
      {"breakpoint", {&Compiler::python_nothing}},
      {"set_trace", {&Compiler::python_nothing}},
      {"print", {&Compiler::python_nothing}},  // host functions only
      {"min", {&Compiler::python_extremum}},
      {"max", {&Compiler::python_extremum}},
      {"range", {&Compiler::python_range}},
      {"enumerate", {&Compiler::python_zip}},
      {"zip", {&Compiler::python_zip}},
      {"list", {&Compiler::python_list}},
      {"tuple", {&Compiler::python_list}},
      {"sum", {&Compiler::python_sum}},
      {"len", {&Compiler::python_len}},
      {"reversed", {&Compiler::python_reversed}},
      {"any", {&Compiler::python_any}},
      {"all", {&Compiler::python_any}},
      {"bool", {&Compiler::python_number}},
      {"int", {&Compiler::python_number}},
      {"float", {&Compiler::python_number}},
      {"abs", {&Compiler::python_number}},
      {"str", {&Compiler::python_str}},
      {"pow", {&Compiler::python_unsupported}},
      {"divmod", {&Compiler::python_unsupported, true}},
      {"isinstance", {&Compiler::python_unsupported, true}},
      {"round", {&Compiler::python_unsupported, true}},
      {"sorted", {&Compiler::python_unsupported, true}},
  };
  return kBuiltins;
}

bool is_own_builtin(std::string_view name) {
  const auto found = Compiler::builtins().find(name);
  return found != Compiler::builtins().end() && !found->second.left_to_python;
}

Value Compiler::call_builtin(const std::string& name, CallArguments& arguments, Position position) {
  return (this->*builtins().at(name).call)(name, arguments, position);
}

Value Compiler::python_nothing(const std::string&, CallArguments&, Position) { return {NoneValue{}}; }

Value Compiler::python_extremum(const std::string& name, CallArguments& arguments, Position position) {
  const bool greatest = name == "max";
  const ValueList& given = arguments.positional;
  const ValueList items = given.size() == 1 && !is_run_time(given[0]) ? iterate(given[0], position) : given;
  if (without_kernel() && !items.empty() && std::any_of(items.begin(), items.end(), is_run_time)) {
    // Of extents.
    Value best = items[0];
    for (size_t i = 1; i < items.size(); ++i) {
      const Matched m = match_operands(best, items[i], position);
      best = {tir::binary(greatest ? tir::BinaryOp::kMax : tir::BinaryOp::kMin, m.lhs, m.rhs, span(position))};
    }
    return best;
  }
  if (std::any_of(items.begin(), items.end(), is_run_time) || items.empty()) {
    fail(position, fmt::format("The built-in \"{0}\" isn't supported, please use \"S.{0}\".", name));
  }
  Value best = items[0];
  for (const Value& v : items) {
    if (*fold_compare(greatest ? ast::CompareOp::kGt : ast::CompareOp::kLt, v, best, position)) best = v;
  }
  return best;
}

Value Compiler::python_range(const std::string& name, CallArguments& arguments, Position position) {
  const auto values = take(arguments, name, {"start", "stop", "step"}, 1, position);
  const bool one = values[1].is_none();
  const Value stride = values[2].is_none() ? Value{int64_t{1}} : values[2];
  return make_iterable(name, {one ? Value{int64_t{0}} : values[0], one ? values[0] : values[1], stride});
}

// zip and enumerate.
Value Compiler::python_zip(const std::string& name, CallArguments& arguments, Position position) {
  const bool numbered = name == "enumerate";
  std::vector<ValueList> columns;
  for (const Value& v : arguments.positional) columns.push_back(iterate(v, position));
  if (columns.empty() || (numbered && columns.size() != 1))
    fail(position, fmt::format("{}() expects something to iterate over", name));
  size_t rows = columns[0].size();
  for (const ValueList& c : columns) rows = std::min(rows, c.size());
  ValueList items;
  for (size_t i = 0; i < rows; ++i) {
    ValueList row;
    if (numbered) row.push_back({static_cast<int64_t>(i)});
    for (const ValueList& c : columns) row.push_back(c[i]);
    items.push_back(make_tuple(std::move(row)));
  }
  return make_list(std::move(items));
}

// list and tuple.
Value Compiler::python_list(const std::string& name, CallArguments& arguments, Position position) {
  const auto values = take(arguments, name, {"iterable"}, 0, position);
  ValueList items = values[0].is_none() ? ValueList{} : iterate(values[0], position);
  return name == "list" ? make_list(std::move(items)) : make_tuple(std::move(items));
}

Value Compiler::python_sum(const std::string& name, CallArguments& arguments, Position position) {
  const auto values = take(arguments, name, {"iterable", "start"}, 1, position);
  Value total = values[1].is_none() ? Value{int64_t{0}} : values[1];
  for (const Value& v : iterate(values[0], position)) {
    // Named as it grows, so that the expression stays shallow.
    total = binary(ast::BinaryOp::kAdd, total, v, position);
    if (total.is_expr()) total = materialize(total, "sum", position);
  }
  return total;
}

std::optional<Value> Compiler::python_of_host(const std::string& name, CallArguments& arguments, Position position) {
  if (arguments.positional.size() != 1) return std::nullopt;
  return operate_host(name, {&arguments.positional[0]}, position);
}

Value Compiler::python_len(const std::string& name, CallArguments& arguments, Position position) {
  if (auto result = python_of_host(name, arguments, position)) return std::move(*result);
  const Value x = take(arguments, name, {"x"}, 1, position)[0];
  if (const auto* s = x.as<std::string>()) return {static_cast<int64_t>(s->size())};
  if (const auto* t = x.as<TypeValue>()) return {static_cast<int64_t>(type_text(t->type).size())};
  return {static_cast<int64_t>(iterate(x, position).size())};
}

Value Compiler::python_reversed(const std::string& name, CallArguments& arguments, Position position) {
  ValueList items = iterate(take(arguments, name, {"x"}, 1, position)[0], position);
  std::reverse(items.begin(), items.end());
  return make_list(std::move(items));
}

// any and all.
Value Compiler::python_any(const std::string& name, CallArguments& arguments, Position position) {
  bool result = name == "all";
  for (const Value& v : iterate(take(arguments, name, {"x"}, 1, position)[0], position)) {
    if (is_host_environment(*environment_)) operate_host("bool", {&v}, position);
    const std::optional<bool> known = truth(v);
    if (!known) fail(position, fmt::format("The built-in \"{}\" only accepts compile-time values.", name));
    result = name == "any" ? result || *known : result && *known;
  }
  return {result};
}

Value Compiler::python_str(const std::string& name, CallArguments& arguments, Position position) {
  if (auto result = python_of_host(name, arguments, position)) return std::move(*result);
  const Value x = take(arguments, name, {"x"}, 1, position)[0];
  if (is_run_time(x)) return python_unsupported(name, arguments, position);
  if (const auto* s = x.as<std::string>()) return {*s};
  if (const auto* t = x.as<TypeValue>()) return {type_text(t->type)};
  if (x.integer() && x.as<bool>() == nullptr) return {std::to_string(*x.integer())};
  fail(position, fmt::format("str() of a value of kind \"{}\" is not supported.", kind_text(x)));
}

// bool, int, float and abs.
Value Compiler::python_number(const std::string& name, CallArguments& arguments, Position position) {
  if (auto result = python_of_host(name, arguments, position)) return std::move(*result);
  Value x = take(arguments, name, {"x"}, 1, position)[0];
  if (name == "bool") {
    if (const std::optional<bool> known = truth(x)) return {*known};
    return python_unsupported(name, arguments, position);
  }
  if (is_run_time(x)) {
    if (name == "abs") fail(position, "The built-in \"abs\" isn't supported, please use \"S.abs\".");
    return python_unsupported(name, arguments, position);
  }
  if (const auto* digits = x.as<std::string>(); digits != nullptr && name != "abs") {
    const char *begin = digits->data(), *end = begin + digits->size();
    int64_t i = 0;
    double d = 0;
    const auto [stop, error] = name == "int" ? std::from_chars(begin, end, i) : std::from_chars(begin, end, d);
    if (stop != end || error != std::errc())
      fail(position, fmt::format("could not convert string to {}: '{}'", name, *digits));
    return name == "int" ? Value{i} : Value{d};
  }
  if (const auto* d = x.as<double>()) {
    if (name == "abs") return {*d < 0 ? -*d : *d};
    if (name == "float") return x;
    if (!(*d > -9.2e18 && *d < 9.2e18)) fail(position, "The compile-time integer does not fit 64 bits.");
    return {static_cast<int64_t>(*d)};
  }
  if (const auto i = x.integer()) {
    if (name == "float") return {static_cast<double>(*i)};
    if (name == "abs" && *i == INT64_MIN) fail(position, "The compile-time integer does not fit 64 bits.");
    return {name == "abs" && *i < 0 ? -*i : *i};
  }
  return python_unsupported(name, arguments, position);
}

Value Compiler::python_unsupported(const std::string& name, CallArguments& arguments, Position position) {
  const Value x = take(arguments, name, {"x"}, 1, position)[0];
  if (is_run_time(x))
    fail(position, fmt::format("The built-in \"{}\" isn't supported on run-time values, please use \"S.cast\".", name));
  fail(position, fmt::format("The built-in \"{}\" isn't supported for a value of kind \"{}\".", name, kind_text(x)));
}

}  // namespace aipu::dsl
