#include "kernels/dsl/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {

namespace {

std::shared_ptr<const RecordType> to_record_type(const CapturedRecordType& captured, ValuePool& pool) {
  auto type = std::make_shared<RecordType>();
  type->name = captured.name;
  type->object = captured.object;
  for (size_t i = 0; i < captured.fields.size(); ++i)
    type->fields.push_back({captured.fields[i], to_value(captured.types[i], pool), std::nullopt});
  for (size_t i = 0; i < captured.defaults.keys.size(); ++i) {
    for (RecordType::Field& field : type->fields) {
      if (field.name == std::get<std::string>(captured.defaults.keys[i].value))
        field.default_value = to_value(captured.defaults.values[i], pool);
    }
  }
  return type;
}

bool same_field_type(const Value& a, const Value& b) {
  if (const auto* s = a.as<TypeValue>(), *t = b.as<TypeValue>(); s != nullptr && t != nullptr)
    return s->type == t->type;
  if (const auto* s = a.as<RecordTypeValue>(), *t = b.as<RecordTypeValue>(); s != nullptr && t != nullptr)
    return same_record_type(*s->type, *t->type);
  const ValueList *s = a.elements(), *t = b.elements();
  return s != nullptr && t != nullptr && std::equal(s->begin(), s->end(), t->begin(), t->end(), same_field_type);
}

}  // namespace

bool same_record_type(const RecordType& a, const RecordType& b) {
  if (&a == &b) return true;
  return a.name == b.name && std::equal(a.fields.begin(), a.fields.end(), b.fields.begin(), b.fields.end(),
                                        [](const RecordType::Field& s, const RecordType::Field& t) {
                                          return s.name == t.name && same_field_type(s.type, t.type);
                                        });
}

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
        } else if constexpr (std::is_same_v<T, CapturedRecordType>) {
          return {RecordTypeValue{to_record_type(v, pool)}};
        } else if constexpr (std::is_same_v<T, CapturedRecord>) {
          ValueList fields;
          for (const Captured& c : v.values) fields.push_back(to_value(c, pool));
          return pool.record(to_record_type(v.type, pool), std::move(fields));
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
  if (const auto* type = value.as<RecordTypeValue>(); type != nullptr && type->type->object != nullptr)
    return Captured{CapturedRecordType{type->type->name, {}, {}, {}, type->type->object}};
  if (const auto* record = value.as<RecordValue>(); record != nullptr && record->type->object != nullptr) {
    CapturedRecord captured{{record->type->name, {}, {}, {}, record->type->object}, {}};
    for (const Value& field : *record->fields) {
      AIPU_ASSIGN_OR_RETURN(Captured c, to_captured(field, depth + 1));
      captured.values.push_back(std::move(c));
    }
    return Captured{std::move(captured)};
  }
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
    std::string operator()(const RecordTypeValue& r) const { return "type " + r.type->name; }
    std::string operator()(const RecordValue& r) const { return "record " + r.type->name; }
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
