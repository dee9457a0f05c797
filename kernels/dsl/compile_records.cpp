// Records: types with named fields. A parameter of a record type stands for one parameter per field; everywhere else a
// record is a value, made by calling its type, whose fields are read.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/tir/visit.h"
#include "kernels/dsl/compiler.h"
#include "kernels/dsl/type_rules.h"
#include "runtime/base/text.h"

namespace aipu::dsl {
namespace {

using LeafFunction = std::function<Value(const std::string& path, const Value& leaf)>;

// A record, or a list within one, with `make` of its leaves in the place of these; paths are "width.stride" and
// "extras[2]".
Value map_leaves(const Value& value, const std::string& path, ValuePool& pool, const LeafFunction& make) {
  ValueList parts;
  if (const auto* record = value.as<RecordValue>()) {
    for (size_t i = 0; i < record->fields->size(); ++i)
      parts.push_back(map_leaves((*record->fields)[i], path + "." + record->type->fields[i].name, pool, make));
    return pool.record(record->type, std::move(parts));
  }
  if (const ValueList* items = value.elements()) {
    for (size_t i = 0; i < items->size(); ++i)
      parts.push_back(map_leaves((*items)[i], fmt::format("{}[{}]", path, i), pool, make));
    return pool.tuple(std::move(parts));
  }
  return make(path, value);
}

// "window.width.stride" as the name of a variable: window_width_stride.
std::string variable_name(const std::string& path) {
  std::string name;
  for (const char c : path) {
    if (c != ']') name += c == '.' || c == '[' ? '_' : c;
  }
  return name;
}

bool is_field_type(const Value& type) {
  if (const ValueList* items = type.elements()) return std::all_of(items->begin(), items->end(), is_field_type);
  const auto* known = type.as<TypeValue>();
  return type.as<RecordTypeValue>() != nullptr || (known != nullptr && !known->type.is_void());
}

std::string joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

const RecordType::Field* find_field(const RecordType& type, std::string_view name, size_t* index) {
  for (*index = 0; *index < type.fields.size(); ++*index) {
    if (type.fields[*index].name == name) return &type.fields[*index];
  }
  return nullptr;
}

}  // namespace

// --- types ---

Value Compiler::record_type(const ast::ClassDef& definition, const FunctionValue& module) {
  auto type = std::make_shared<RecordType>();
  type->name = definition.name;
  const std::string& name = type->name;
  in_globals(module, definition.position, [&] {
    if (definition.has_bases)
      fail(definition.position, fmt::format("The record \"{}\" can't have a base class.", name));
    for (const ast::StmtPtr& stmt : definition.body) {
      const auto* expression = stmt->as<ast::ExpressionStmt>();
      const bool docstring = expression != nullptr && expression->value->as<ast::StringLiteral>() != nullptr;
      if (docstring || stmt->as<ast::Pass>() != nullptr) continue;
      const auto* field = stmt->as<ast::AnnAssign>();
      const auto* field_name = field != nullptr ? field->target->as<ast::Name>() : nullptr;
      if (field_name == nullptr)
        fail(stmt->position, fmt::format("The record \"{}\" can only have fields: \"name: type\".", name));
      size_t index = 0;
      if (find_field(*type, field_name->id, &index) != nullptr)
        fail(stmt->position, fmt::format("The record \"{}\" has two fields \"{}\".", name, field_name->id));
      Value annotation = eval(field->annotation);
      if (!is_field_type(annotation)) {
        fail(field->annotation->position,
             fmt::format("The type annotation of field \"{}\" of record \"{}\" is not supported.", field_name->id,
                         name));
      }
      RecordType::Field made{field_name->id, std::move(annotation), std::nullopt};
      if (field->value != nullptr) made.default_value = eval(field->value);
      type->fields.push_back(std::move(made));
    }
    if (type->fields.empty()) fail(definition.position, fmt::format("The record \"{}\" has no fields.", name));
    return Value{NoneValue{}};
  });
  return {RecordTypeValue{std::move(type)}};
}

// --- values ---

// `value` as what `type` declares: converted as an argument is. `what` and `place` name it in messages.
Value Compiler::fit(const Value& type, const Value& value, const ArgumentName& name, Position position) {
  if (const auto* record_type = type.as<RecordTypeValue>()) {
    const auto* record = value.as<RecordValue>();
    if (record == nullptr || !same_record_type(*record->type, *record_type->type)) {
      fail(position, fmt::format("The {} expect a record \"{}\", but got: \"{}\".", name.what, record_type->type->name,
                                 kind_text(value)));
    }
    ValueList fields;
    for (size_t i = 0; i < record->fields->size(); ++i) {
      const RecordType::Field& field = record_type->type->fields[i];
      fields.push_back(fit(field.type, (*record->fields)[i], field_name(*record_type->type, field), position));
    }
    return pool_.record(record_type->type, std::move(fields));
  }
  if (const ValueList* types = type.elements()) {
    const ValueList* items = value.elements();
    if (items == nullptr || items->size() != types->size()) {
      fail(position, fmt::format("The {} expect a list of {} values, but got: \"{}\".", name.what, types->size(),
                                 items != nullptr ? std::to_string(items->size()) : kind_text(value)));
    }
    ValueList fitted;
    for (size_t i = 0; i < types->size(); ++i) fitted.push_back(fit((*types)[i], (*items)[i], name, position));
    return make_tuple(std::move(fitted));
  }
  return {fit_type(type.as<TypeValue>()->type, value, name, position)};
}

tir::Expr Compiler::fit_type(const tir::Type& type, const Value& value, const ArgumentName& name, Position position) {
  const tir::Expr e = to_expr(value, position);
  if (type.pointer) {
    if (!e->type.pointer) fail(position, fmt::format("The {} expect a pointer.", name.what));
    if (e->type.scope != type.scope) {
      fail(position, fmt::format("The scope of {} expect \"{}\", but got: \"{}\".", name.what,
                                 tir::scope_name(type.scope), tir::scope_name(e->type.scope)));
    }
    return tir::cast(type, e, span(position));
  }
  if (e->type.pointer) fail(position, fmt::format("The {} expect a variable, but got: pointer.", name.what));
  if (type.is_scalar() && !e->type.is_scalar()) fail(position, fmt::format("The {} expect a scalar.", name.what));
  if (type.is_vector() && !e->type.is_vector()) fail(position, fmt::format("The {} expect a vector.", name.what));
  if (type.is_vector() && e->type != type) {
    fail(position, fmt::format("Argument type mismatch: {}: \"{}\" vs. parameter: \"{}\".", name.place,
                               type_text(e->type), type_text(type)));
  }
  return type.is_scalar() ? convert_element(value, type.element, position) : e;
}

Compiler::ArgumentName Compiler::field_name(const RecordType& type, const RecordType::Field& field) {
  const std::string name = fmt::format("field \"{}\" of record \"{}\"", field.name, type.name);
  return {name, name};
}

Value Compiler::make_record(const std::shared_ptr<const RecordType>& type, const CallArguments& arguments,
                            Position position) {
  const std::string& name = type->name;
  const size_t all = type->fields.size();
  if (arguments.positional.size() > all) {
    fail(position,
         fmt::format("The record \"{}\" expect {} fields, but got: \"{}\".", name, all, arguments.positional.size()));
  }
  std::vector<std::optional<Value>> given(all);
  std::copy(arguments.positional.begin(), arguments.positional.end(), given.begin());
  std::vector<std::string> unknown, doubled, missing;
  for (const auto& [keyword, value] : arguments.keywords) {
    size_t index = 0;
    if (find_field(*type, keyword, &index) == nullptr) {
      unknown.push_back(keyword);
    } else if (given[index]) {
      doubled.push_back(keyword);
    } else {
      given[index] = value;
    }
  }
  if (!unknown.empty())
    fail(position, fmt::format("The record \"{}\" got unexpect fields: \"{}\".", name, joined(unknown)));
  if (!doubled.empty())
    fail(position, fmt::format("The record \"{}\" got multiple values for fields: \"{}\".", name, joined(doubled)));
  ValueList fields;
  for (size_t i = 0; i < all; ++i) {
    const RecordType::Field& field = type->fields[i];
    if (!given[i]) given[i] = field.default_value;
    if (!given[i]) {
      missing.push_back(field.name);
      continue;
    }
    // What reads memory or has an effect is evaluated here, once, whatever becomes of the field.
    fields.push_back(without_kernel() ? *given[i]
                                      : map_leaves(fit(field.type, *given[i], field_name(*type, field), position),
                                                   field.name, pool_, [&](const std::string& path, const Value& leaf) {
                                                     const tir::Expr& e = *leaf.as<tir::Expr>();
                                                     if (!reads_memory(e)) return leaf;
                                                     return Value{materialize(e, variable_name(path), position)};
                                                   }));
  }
  if (!missing.empty()) {
    fail(position,
         fmt::format("The record \"{}\" missing \"{}\" fields: \"{}\".", name, missing.size(), joined(missing)));
  }
  return pool_.record(type, std::move(fields));
}

Value Compiler::record_field(const RecordValue& record, const std::string& name, Position position) {
  size_t index = 0;
  if (find_field(*record.type, name, &index) != nullptr) return (*record.fields)[index];
  std::vector<std::string_view> known;
  for (const RecordType::Field& field : record.type->fields) known.push_back(field.name);
  const std::string_view meant = nearest_name(name, known);
  fail(position, fmt::format("The record \"{}\" has no field \"{}\".{}", record.type->name, name,
                             meant.empty() ? "" : fmt::format(" Did you mean: \"{}\"?", meant)));
}

std::vector<tir::Expr> Compiler::leaves(const Value& value) {
  std::vector<tir::Expr> found;
  map_leaves(value, "", pool_, [&](const std::string&, const Value& leaf) {
    found.push_back(*leaf.as<tir::Expr>());
    return leaf;
  });
  return found;
}

Value Compiler::materialize_record(const RecordValue& record, const std::string& name, Position position) {
  return map_leaves({record}, name, pool_, [&](const std::string& path, const Value& leaf) {
    const auto* e = leaf.as<tir::Expr>();
    return e == nullptr ? leaf : Value{materialize(*e, variable_name(path), position)};
  });
}

// --- parameters and variables ---

Value Compiler::declare_parameter(const ParameterSite& site, const Value& annotation, const std::string& path,
                                  Function& function) {
  if (const auto* record = annotation.as<RecordTypeValue>()) {
    ValueList fields;
    for (const RecordType::Field& field : record->type->fields)
      fields.push_back(declare_parameter(site, field.type, path + "." + field.name, function));
    return pool_.record(record->type, std::move(fields));
  }
  if (const ValueList* pack = annotation.elements(); pack != nullptr && !strict()) {
    ValueList members;
    for (size_t k = 0; k < pack->size(); ++k)
      members.push_back(declare_parameter(site, (*pack)[k], fmt::format("{}[{}]", path, k), function));
    return make_tuple(std::move(members));
  }
  bool size_var = false;
  const ast::FunctionDef& def = *function.definition;
  const tir::Type type = parameter_type(annotation, path, def.name, site.position, &size_var);
  if (function.is_entry && type.is_vector())
    fail(site.position, "A vector variable can't be a argument of the entry function.");
  auto var = std::make_shared<tir::Var>();
  var->name = variable_name(path);
  if (var->name != path) {
    var->path = path;
    const auto taken = [&] {
      return std::any_of(def.parameters.begin(), def.parameters.end(),
                         [&](const ast::Parameter& p) { return p.name == var->name; }) ||
             std::any_of(function.params.begin(), function.params.end(),
                         [&](const tir::VarPtr& p) { return p->name == var->name; });
    };
    while (taken()) var->name += "_";
  }
  var->type = type;
  var->restrict_ = site.restricted && type.pointer;
  var->non_negative = size_var;
  function.params.push_back(var);
  return {tir::var_ref(function.params.back())};
}

// A record of a kernel under a name: its fields get variables, as a scalar does.
Compiler::Binding Compiler::record_variable(const std::string& name, const RecordValue& record, Position position) {
  Binding binding;
  binding.block = blocks_.empty() ? 0 : blocks_.back().block;
  binding.value = map_leaves({record}, name, pool_, [&](const std::string& path, const Value& leaf) {
    binding.fields.push_back(define(variable_name(path), *leaf.as<tir::Expr>(), position));
    return Value{tir::var_ref(binding.fields.back())};
  });
  return binding;
}

bool Compiler::is_python_record(const RecordValue& record) {
  bool python = false;
  map_leaves({record}, "", pool_, [&](const std::string&, const Value& leaf) {
    python = python || !leaf.is_expr();
    return leaf;
  });
  return python;
}

void Compiler::assign_record(const std::string& name, const RecordValue& record, Position position) {
  Binding* existing = find_local(*frame_, name);
  const int block = blocks_.empty() ? 0 : blocks_.back().block;
  const bool rebind = existing != nullptr && frame_->kind == FunctionKind::kPlain && existing->block == block;
  if (existing == nullptr || rebind) {
    Binding binding = is_python_record(record) ? Binding{Value{record}, nullptr, block, false}
                                               : record_variable(name, record, position);
    if (existing != nullptr) {
      *existing = std::move(binding);
    } else {
      frame_->scopes.back()[name] = std::move(binding);
    }
    return;
  }
  const auto* old = existing->value.as<RecordValue>();
  if (old == nullptr || !same_record_type(*old->type, *record.type)) {
    fail(position, fmt::format("Type mismatch assignment: \"{}\" vs. \"{}\", need to do the explicit type conversion "
                               "for the right hand side(i.e., new value).",
                               kind_text(existing->value), kind_text({record})));
  }
  if (existing->fields.empty()) {
    fail(position, fmt::format("\"{}\" holds a compile-time record and can't change; make it in the kernel, e.g. "
                               "{}(...).",
                               name, record.type->name));
  }
  // All at once: a new field may be made of old ones.
  const std::vector<tir::VarPtr> fields = existing->fields;
  const int declared = existing->block;
  std::vector<tir::Expr> values = leaves(fit({RecordTypeValue{old->type}}, {record}, {name, name}, position));
  for (tir::Expr& value : values) {
    if (values.size() > 1 && value->as<tir::IntImm>() == nullptr && value->as<tir::FloatImm>() == nullptr)
      value = tir::var_ref(define("tmp_" + name, value, position));
  }
  for (size_t i = 0; i < fields.size(); ++i) set_variable(fields[i], declared, values[i], position);
}

// A plain function may say which record a parameter is.
void Compiler::check_record_arguments(const FunctionValue& function,
                                      const std::vector<std::pair<std::string, Value>>& bound, Position position) {
  const ast::FunctionDef& def = *function.definition;
  for (size_t i = 0; i < def.parameters.size(); ++i) {
    const ast::Parameter& p = def.parameters[i];
    if (p.annotation == nullptr || p.stars != 0) continue;
    const auto* name = p.annotation->as<ast::Name>();
    const auto known = function.globals->annotation(p.name);
    const std::optional<Value> type = known             ? to_value(*known, pool_)
                                      : name != nullptr ? lookup_global(function.globals, name->id, position)
                                                        : std::nullopt;
    const auto* wanted = type ? type->as<RecordTypeValue>() : nullptr;
    const Value& value = bound[i].second;
    if (wanted == nullptr || (value.is_none() && p.default_value != nullptr)) continue;
    const auto* record = value.as<RecordValue>();
    if (record != nullptr && same_record_type(*record->type, *wanted->type)) continue;
    fail(position, fmt::format("The arg \"{}\" of function \"{}\" expect a record \"{}\", but got: \"{}\".", p.name,
                               def.name, wanted->type->name, kind_text(value)));
  }
}

}  // namespace aipu::dsl
