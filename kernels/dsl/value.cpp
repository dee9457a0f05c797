#include "kernels/dsl/value.h"

#include <fmt/format.h>

#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {

Value to_value(const Captured& captured, ValuePool& pool) {
  return std::visit(
      [&](const auto& v) -> Value {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return {NoneValue{}};
        } else if constexpr (std::is_same_v<T, CapturedList>) {
          ValueList items;
          for (const Captured& c : v) items.push_back(to_value(c, pool));
          return pool.list(std::move(items));
        } else if constexpr (std::is_same_v<T, CapturedTuple>) {
          ValueList items;
          for (const Captured& c : v.items) items.push_back(to_value(c, pool));
          return pool.tuple(std::move(items));
        } else if constexpr (std::is_same_v<T, CapturedDict>) {
          ValueMap items;
          for (size_t i = 0; i < v.keys.size(); ++i)
            items.emplace_back(to_value(v.keys[i], pool), to_value(v.values[i], pool));
          return {DictValue{pool.add(std::move(items))}};
        } else if constexpr (std::is_same_v<T, CapturedArray>) {
          return {ArrayValue{std::make_shared<const CapturedArray>(v)}};
        } else if constexpr (std::is_same_v<T, CapturedType>) {
          return {TypeValue{v.type, v.size_var}};
        } else if constexpr (std::is_same_v<T, CapturedFunction>) {
          FunctionValue function{std::static_pointer_cast<const ast::FunctionDef>(v.definition), v.globals};
          function.embedded = v.embedded;
          return {std::move(function)};
        } else if constexpr (std::is_same_v<T, CapturedOpaque>) {
          if (v.script == "S" || v.script == "S.axis") return {ModuleValue{v.script}};
          if (v.script.starts_with("S.")) return {ScriptFunction{v.script.substr(2)}};
          return {OpaqueValue{Captured{v}}};
        } else {
          return {v};
        }
      },
      captured.value);
}

Result<Captured> to_captured(const Value& value, int depth) {
  constexpr int kMaxDepth = 16;
  if (depth > kMaxDepth) return invalid_argument("The value is nested too deeply to be handed to a Python function.");
  if (value.is_none()) return Captured{};
  if (const auto* b = value.as<bool>()) return Captured{*b};
  if (const auto* i = value.as<int64_t>()) return Captured{*i};
  if (const auto* d = value.as<double>()) return Captured{*d};
  if (const auto* s = value.as<std::string>()) return Captured{*s};
  if (const auto* t = value.as<TypeValue>()) return Captured{CapturedType{t->type, t->size_var}};
  if (const auto* o = value.as<OpaqueValue>()) return o->captured;
  if (const auto* m = value.as<ModuleValue>(); m != nullptr && m->path.starts_with("S"))
    return Captured{CapturedOpaque{nullptr, "module", m->path}};
  if (const auto* f = value.as<ScriptFunction>()) return Captured{CapturedOpaque{nullptr, "function", "S." + f->name}};
  if (const auto* a = value.as<ArrayValue>()) return Captured{*a->array};
  if (const auto* f = value.as<FunctionValue>())
    return Captured{CapturedFunction{f->definition, f->globals, f->embedded}};
  if (const auto* dict = value.as<DictValue>()) {
    CapturedDict captured;
    for (const auto& [key, item] : *dict->items) {
      AIPU_ASSIGN_OR_RETURN(Captured k, to_captured(key, depth + 1));
      AIPU_ASSIGN_OR_RETURN(Captured v, to_captured(item, depth + 1));
      captured.keys.push_back(std::move(k));
      captured.values.push_back(std::move(v));
    }
    return Captured{std::move(captured)};
  }
  if (const ValueList* items = value.elements()) {
    CapturedList list;
    for (const Value& v : *items) {
      AIPU_ASSIGN_OR_RETURN(Captured c, to_captured(v, depth + 1));
      list.push_back(std::move(c));
    }
    if (value.as<TupleValue>() != nullptr) return Captured{CapturedTuple{std::move(list)}};
    return Captured{std::move(list)};
  }
  return invalid_argument(
      fmt::format("A value of kind \"{}\" can't be handed to a Python function.", kind_text(value)));
}

std::string kind_text(const Value& value) {
  struct Visitor {
    std::string operator()(const NoneValue&) const { return "None"; }
    std::string operator()(bool) const { return "bool"; }
    std::string operator()(int64_t) const { return "int"; }
    std::string operator()(double) const { return "float"; }
    std::string operator()(const std::string&) const { return "str"; }
    std::string operator()(const ListValue&) const { return "list"; }
    std::string operator()(const TupleValue&) const { return "tuple"; }
    std::string operator()(const DictValue&) const { return "dict"; }
    std::string operator()(const ArrayValue&) const { return "array"; }
    std::string operator()(const TypeValue&) const { return "type"; }
    std::string operator()(const FunctionValue& f) const { return "function " + f.definition->name; }
    std::string operator()(const ModuleValue& m) const { return "module " + m.path; }
    std::string operator()(const ScriptFunction& f) const { return "function S." + f.name; }
    std::string operator()(const BuiltinFunction& f) const { return "function " + f.name; }
    std::string operator()(const MethodValue& m) const { return "method " + m.name; }
    std::string operator()(const IterableValue& i) const { return i.kind; }
    std::string operator()(const BufferValue&) const { return "buffer"; }
    std::string operator()(const MetaValue&) const { return "meta_var"; }
    std::string operator()(const BlockValue&) const { return "block"; }
    std::string operator()(const OpaqueValue& o) const {
      return std::get<CapturedOpaque>(o.captured.value).description;
    }
    std::string operator()(const SliceValue&) const { return "slice"; }
    std::string operator()(const tir::Expr& e) const { return e->type.is_void() ? "void" : type_text(e->type); }
    std::string operator()(const PoisonValue&) const { return "error"; }
  };
  return std::visit(Visitor{}, value.v);
}

}  // namespace aipu::dsl
