// Attributes and methods: of S, types, pointers, buffers, variables and Python containers.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/dsl/call_rules.h"
#include "kernels/dsl/compiler.h"
#include "kernels/dsl/type_rules.h"
#include "runtime/base/text.h"

namespace aipu::dsl {
namespace {

DType with_kind(DType d, char kind) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto candidate = static_cast<DType>(i);
    if (dtype_info(candidate).kind == kind && dtype_bits(candidate) == dtype_bits(d)) return candidate;
  }
  return d;
}

}  // namespace

Value Compiler::script_attribute(const std::string& name, Position position) {
  if (name == "axis") return {ModuleValue{"S.axis"}};
  const bool hidden = !is_exposed(name, strict());
  if (!hidden && script_handlers().contains(name)) return {ScriptFunction{name}};
  if (!hidden && tir::find_intrinsic(name) != nullptr) return {ScriptFunction{name}};
  const bool size_var = name.starts_with("size_");
  if (const auto type = parse_type_text(size_var ? std::string_view(name).substr(5) : std::string_view(name));
      type && type->element != DType::kVoid) {
    const DType e = type->element;
    const bool known = (!size_var || is_signed_int(e)) && !(strict() && dtype_bits(e) == 64) &&
                       !(strict() && e == DType::kBF16 && type->lanes != 1 && type->lanes != 16);
    if (known) return {TypeValue{*type, size_var}};
  }
  fail(position, no_script_attribute(name));
}

std::string Compiler::no_script_attribute(std::string_view name) {
  std::vector<std::string_view> known = {"axis"};
  const auto add = [&](std::string_view function) {
    if (is_exposed(function, strict())) known.push_back(function);
  };
  for (const auto& [function, handler] : script_handlers()) add(function);
  for (const tir::Intrinsic& row : tir::all_intrinsics()) add(row.name);
  // Of a type with lanes the element.
  const size_t x = name.rfind('x');
  const bool has_lanes = x != std::string_view::npos && x + 1 < name.size() &&
                         name.find_first_not_of("0123456789", x + 1) == std::string_view::npos;
  std::string type;
  const auto element = has_lanes ? parse_dtype(name.substr(0, x)) : std::nullopt;
  if (!element || !is_computed(*element)) {
    std::vector<std::string_view> elements;
    for (int i = 0; i < kDTypeCount; ++i) {
      const DTypeInfo& info = dtype_info(static_cast<DType>(i));
      const bool is_known = is_computed(static_cast<DType>(i));
      if (is_known && !(strict() && info.bits == 64)) elements.insert(elements.end(), {info.alias, info.name});
    }
    if (!has_lanes) known.insert(known.end(), elements.begin(), elements.end());
    if (has_lanes) type = nearest_name(name.substr(0, x), elements);
    if (!type.empty()) type += name.substr(x);
  }
  std::string_view meant = nearest_name(name, known);
  if (meant.empty()) meant = type;
  return fmt::format("module 'tvm.compass.dsl.script' has no attribute '{}'{}", name,
                     meant.empty() ? "" : fmt::format(". Did you mean: '{}'?", meant));
}

Value Compiler::attribute(const ast::Attribute& node, Position position) {
  const Value object = eval(node.object);
  const std::string& name = node.name;
  const auto method = [&] { return Value{MethodValue{std::make_shared<Value>(object), name}}; };
  if (const auto* module = object.as<ModuleValue>()) {
    if (module->path == "S") return script_attribute(name, position);
    if (module->path == "S.axis") {
      if (name == "spatial" || name == "S") return {ScriptFunction{"axis.spatial"}};
      if (name == "reduce" || name == "R") return {ScriptFunction{"axis.reduce"}};
      if (name == "remap") return {ScriptFunction{"axis.remap"}};
    }
    if (module->path == "pdb" && name == "set_trace") return {BuiltinFunction{"set_trace"}};
    fail(position, fmt::format("module '{}' has no attribute '{}' that a kernel can use", module->path, name));
  }
  if (const auto* record = object.as<RecordValue>()) return record_field(*record, name, position);
  if (const auto* buffer = object.as<BufferValue>()) {
    if (name == "addr_of" || name == "as_ptr") return method();
    if (name == "dtype") return {TypeValue{buffer->buffer->pointer->type.pointee()}};
    if (name == "scope") return {std::string(tir::scope_name(buffer->buffer->pointer->type.scope))};
    if (name == "shape") return make_tuple(buffer->buffer->shape);
    fail(position, fmt::format("A buffer has no attribute \"{}\".", name));
  }
  if (const auto* e = object.as<tir::Expr>()) {
    const tir::Type& type = (*e)->type;
    if (name == "dtype") return {TypeValue{type.pointer ? type.pointee() : type}};
    if (type.pointer) {
      if (name == "as_ptr") return method();
      if (name == "scope") return {std::string(tir::scope_name(type.scope))};
      if (name == "is_nullptr") {
        return call_intrinsic(*required_intrinsic("is_nullptr", position), {object}, {}, position);
      }
    } else if (name == "addr") {
      const auto* ref = (*e)->as<tir::VarRef>();
      if (ref == nullptr) fail(position, "Only a variable has an address.");
      return {tir::make_expr(tir::Type::pointer_to(type.element, type.lanes, tir::Scope::kPrivate),
                             tir::AddressOf{ref->var}, span(position))};
    }
    fail(position, fmt::format("A value of type \"{}\" has no attribute \"{}\".", type_text(type), name));
  }
  if (const auto* type = object.as<TypeValue>()) {
    // A DataType is a string, too.
    if (name == "startswith" || name == "endswith" || name == "replace")
      return {MethodValue{std::make_shared<Value>(Value{type_text(type->type)}), name}};
    return type_attribute(*type, name, position);
  }
  if (const auto* text = object.as<std::string>()) {
    if (name == "startswith" || name == "endswith" || name == "replace") return method();
    if (const auto type = parse_type_text(*text)) return type_attribute({*type}, name, position);
  }
  if (object.as<ListValue>() != nullptr && (name == "append" || name == "extend" || name == "index" || name == "pop"))
    return method();
  if (object.as<TupleValue>() != nullptr && name == "index") return method();
  if (object.as<DictValue>() != nullptr && (name == "get" || name == "keys" || name == "values" || name == "items"))
    return method();
  if (const auto* array = object.as<ArrayValue>()) {
    const CapturedArray& a = *array->array;
    if (name == "dtype") return {TypeValue{tir::Type::scalar(a.dtype)}};
    if (name == "ndim") return {static_cast<int64_t>(a.shape.size())};
    if (name == "size") return {static_cast<int64_t>(a.bytes.size() / std::max<size_t>(1, dtype_bytes(a.dtype)))};
    if (name == "shape") {
      ValueList dims;
      for (const int64_t d : a.shape) dims.push_back({d});
      return make_tuple(std::move(dims));
    }
  }
  if (const auto* opaque = object.as<OpaqueValue>())
    return to_value(check(position, environment_->attribute(opaque->captured, name)), pool_);
  if (const auto* array = object.as<ArrayValue>(); array != nullptr && array->array->object != nullptr)
    return to_value(check(position, environment_->attribute(Captured{*array->array}, name)), pool_);
  fail(position, fmt::format("A value of kind \"{}\" has no attribute \"{}\".", kind_text(object), name));
}

Value Compiler::type_attribute(const TypeValue& self, const std::string& name, Position position) {
  const tir::Type& t = self.type;
  const DType e = t.element;
  const int bits = e == DType::kBool ? 1 : dtype_bits(e);
  const bool scalar = t.lanes == 1, vector = t.lanes > 1;
  const bool half = e == DType::kF16 || e == DType::kBF16;
  if (name == "lanes") return {int64_t{t.lanes}};
  if (name == "bits") return {int64_t{bits}};
  if (name == "bytes" || name == "itemsize") return {static_cast<int64_t>(dtype_bytes(e))};
  if (name == "total_bits") return {int64_t{bits} * t.lanes};
  if (name == "total_bytes") return {static_cast<int64_t>(dtype_bytes(e)) * t.lanes};
  if (name == "element_of") return {TypeValue{tir::Type::scalar(e)}};
  if (name == "dtype") return {TypeValue{t}};
  if (name == "type_code") {
    return {int64_t{t.pointer || e == DType::kVoid ? 3
                    : e == DType::kBF16            ? 4
                    : is_floating(e)               ? 2
                    : is_signed_int(e)             ? 0
                                                   : 1}};
  }
  struct Row {
    std::string_view name;
    bool value;
  };
  const bool integer = is_integer(e) || is_bool(e);
  const Row rows[] = {{"is_int", is_signed_int(e)},
                      {"is_uint", is_unsigned_int(e) || is_bool(e)},
                      {"is_integer", integer},
                      {"is_bool", is_bool(e)},
                      {"is_void", e == DType::kVoid},
                      {"is_float", is_floating(e) && e != DType::kBF16},
                      {"is_bfloat", e == DType::kBF16},
                      {"is_floating", is_floating(e)},
                      {"is_floating16", half},
                      {"is_int16", e == DType::kI16},
                      {"is_int32", e == DType::kI32},
                      {"is_uint16", e == DType::kU16},
                      {"is_uint32", e == DType::kU32},
                      {"is_float16", e == DType::kF16},
                      {"is_float32", e == DType::kF32},
                      {"is_bfloat16", e == DType::kBF16},
                      {"is_scalar", scalar},
                      {"is_vector", vector},
                      {"is_integer_scalar", integer && scalar},
                      {"is_float_scalar", is_floating(e) && e != DType::kBF16 && scalar},
                      {"is_floating_scalar", is_floating(e) && scalar},
                      {"is_bfloat16_scalar", e == DType::kBF16 && scalar},
                      {"is_integer_vector", integer && vector},
                      {"is_float_vector", is_floating(e) && e != DType::kBF16 && vector},
                      {"is_floating16_vector", half && vector},
                      {"is_bool_vector", is_bool(e) && vector}};
  for (const Row& row : rows) {
    if (row.name == name) return {row.value};
  }
  if (name == "with_lanes" || name == "with_bits" || name == "with_int" || name == "with_uint")
    return {MethodValue{std::make_shared<Value>(Value{self}), name}};
  fail(position, fmt::format("A data type has no attribute \"{}\".", name));
}

Value Compiler::call_type_method(const TypeValue& self, const std::string& name, CallArguments& arguments,
                                 Position position) {
  tir::Type type = self.type;
  if (name == "with_int" || name == "with_uint") {
    take(arguments, name, {}, 0, position);
    type.element = with_kind(type.element, name == "with_int" ? 'i' : 'u');
    return {TypeValue{type}};
  }
  const auto values = take(arguments, name, {"n"}, 1, position);
  const int64_t n = int_argument(values[0], "an integer is expected", position);
  if (name == "with_lanes") {
    if (n < 1 || n > (1 << 16)) fail(position, "The number of lanes is out of range.");
    type.lanes = static_cast<int>(n);
    return {TypeValue{type}};
  }
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto candidate = static_cast<DType>(i);
    if (dtype_info(candidate).kind == dtype_info(type.element).kind && dtype_bits(candidate) == n) {
      type.element = candidate;
      return {TypeValue{type}};
    }
  }
  fail(position, fmt::format("There is no data type like \"{}\" with {} bits.", type_text(type), n));
}

Value Compiler::call_method(const MethodValue& method, CallArguments& arguments, Position position) {
  const Value& self = *method.self;
  const std::string& name = method.name;
  if (const auto* type = self.as<TypeValue>()) return call_type_method(*type, name, arguments, position);
  if (name == "as_ptr") {
    const auto values = take(arguments, name, {"dtype"}, 1, position);
    const tir::Type type = pointee_argument(values[0], position);
    const tir::Expr pointer = pointer_of(self, position);
    return {tir::cast(tir::Type::pointer_to(type.element, type.lanes, pointer->type.scope), pointer, span(position))};
  }
  if (name == "addr_of") {
    const Buffer& buffer = *self.as<BufferValue>()->buffer;
    if (arguments.positional.empty() || !arguments.keywords.empty())
      fail(position, "addr_of expect the indices of an element.");
    const ValueList indices = arguments.positional.size() == 1 && arguments.positional[0].elements() != nullptr
                                  ? *arguments.positional[0].elements()
                                  : arguments.positional;
    const Value offset = buffer_offset(buffer, indices, true, position);
    return pointer_arithmetic(ast::BinaryOp::kAdd, {buffer.pointer}, offset, position);
  }
  if (const auto* list = self.as<ListValue>(); list != nullptr && name != "index") {
    if (name == "pop") {
      const auto values = take(arguments, name, {"index"}, 0, position);
      const int64_t size = static_cast<int64_t>(list->items->size());
      int64_t i = values[0].is_none() ? size - 1 : int_argument(values[0], "an integer is expected", position);
      if (i < 0) i += size;
      if (i < 0 || i >= size) fail(position, "pop index out of range");
      Value item = (*list->items)[static_cast<size_t>(i)];
      list->items->erase(list->items->begin() + static_cast<ptrdiff_t>(i));
      return item;
    }
    const auto values = take(arguments, name, {"value"}, 1, position);
    if (name == "append") {
      list->items->push_back(materialize(values[0], "item", position));
    } else {
      for (const Value& v : iterate(values[0], position)) list->items->push_back(materialize(v, "item", position));
    }
    constexpr size_t kMaxContainer = 1 << 16;
    if (list->items->size() > kMaxContainer) fail(position, "The list is too long.");
    return {NoneValue{}};
  }
  if (name == "index") {
    const auto values = take(arguments, name, {"value"}, 1, position);
    const ValueList& items = *self.elements();
    for (size_t i = 0; i < items.size(); ++i) {
      if (values_equal(items[i], values[0])) return {static_cast<int64_t>(i)};
    }
    fail(position, "the value is not in the list");
  }
  if (const auto* dict = self.as<DictValue>()) {
    if (name == "get") {
      const auto values = take(arguments, name, {"key", "default"}, 1, position);
      for (const auto& [key, value] : *dict->items) {
        if (values_equal(key, values[0])) return value;
      }
      return values[1];
    }
    take(arguments, name, {}, 0, position);
    ValueList items;
    for (const auto& [key, value] : *dict->items)
      items.push_back(name == "keys" ? key : name == "values" ? value : make_tuple({key, value}));
    return make_list(std::move(items));
  }
  const std::string& text = *self.as<std::string>();
  const auto string_of = [&](const Value& v) -> const std::string& {
    if (v.as<std::string>() == nullptr) fail(position, "a string is expected");
    return *v.as<std::string>();
  };
  if (name == "replace") {
    const auto values = take(arguments, name, {"old", "new"}, 2, position);
    const std::string &from = string_of(values[0]), &to = string_of(values[1]);
    if (from.empty()) fail(position, "replace needs a non-empty string");
    std::string result;
    for (size_t i = 0; i < text.size();) {
      if (text.compare(i, from.size(), from) == 0) {
        result += to;
        i += from.size();
      } else {
        result += text[i++];
      }
    }
    return {std::move(result)};
  }
  const auto values = take(arguments, name, {"text"}, 1, position);
  return {name == "startswith" ? text.starts_with(string_of(values[0])) : text.ends_with(string_of(values[0]))};
}

}  // namespace aipu::dsl
