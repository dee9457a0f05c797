// Memory: indexing of pointers, buffers and containers, slices, allocation (language.md 8).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codegen/tir/linear_form.h"
#include "kernels/dsl/compiler.h"
#include "kernels/dsl/type_rules.h"
#include "runtime/base/half.h"

namespace aipu::dsl {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 30;  // of an allocation, in bytes: what tir::verify() lets through

bool is_pointer(const Value& v) { return v.is_expr() && (*v.as<tir::Expr>())->type.pointer; }

// The element of an array as a Python number.
Value array_element(const CapturedArray& array, size_t index) {
  const std::byte* at = array.bytes.data() + index * dtype_bytes(array.dtype);
  const auto read = [&]<typename T>(T) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
  };
  switch (array.dtype) {
    case DType::kBool:
      return {read(uint8_t{}) != 0};
    case DType::kI8:
      return {int64_t{read(int8_t{})}};
    case DType::kU8:
      return {int64_t{read(uint8_t{})}};
    case DType::kI16:
      return {int64_t{read(int16_t{})}};
    case DType::kU16:
      return {int64_t{read(uint16_t{})}};
    case DType::kI32:
      return {int64_t{read(int32_t{})}};
    case DType::kU32:
      return {int64_t{read(uint32_t{})}};
    case DType::kI64:
      return {read(int64_t{})};
    case DType::kU64:
      return {static_cast<int64_t>(read(uint64_t{}))};
    case DType::kF16:
      return {double{f32_from_f16(read(uint16_t{}))}};
    case DType::kBF16:
      return {double{f32_from_bf16(read(uint16_t{}))}};
    case DType::kF32:
      return {double{read(float{})}};
    case DType::kF64:
      return {read(double{})};
    default:
      return {NoneValue{}};
  }
}

}  // namespace

std::vector<Value> Compiler::eval_indices(const ast::Subscript& node, Value* object) {
  ValueList values = {eval(node.object)};
  for (const ast::ExprPtr& index : node.indices) {
    const size_t before = blocks_.empty() ? 0 : blocks_.back().statements.size();
    Value value{NoneValue{}};
    if (const auto* s = index->as<ast::Slice>()) {
      auto parts = std::make_shared<ValueList>();
      for (const ast::ExprPtr& part : {s->lower, s->upper, s->step})
        parts->push_back(part != nullptr ? eval(part) : Value{NoneValue{}});
      value = {SliceValue{std::move(parts)}};
    } else {
      value = eval(index);
    }
    save_before(before, values, index->position);
    values.push_back(std::move(value));
  }
  *object = std::move(values[0]);
  values.erase(values.begin());
  return values;
}

tir::Expr Compiler::index_expr(const Value& index, Position position) {
  if (const auto i = index.integer()) return constant(*i, literal_dtype(*i));
  const auto* e = index.as<tir::Expr>();
  if (e == nullptr || (*e)->type.pointer || !(*e)->type.is_scalar() || !is_integer((*e)->type.element)) {
    fail(position, "All indices should be integer type, please convert it explicitly.");
  }
  if (is_signed_int((*e)->type.element)) return *e;
  return convert_element(index, dtype_bits((*e)->type.element) >= 32 ? DType::kI64 : DType::kI32, position);
}

tir::Expr Compiler::pointer_of(const Value& value, Position position) {
  if (const auto* buffer = value.as<BufferValue>()) return buffer->buffer->pointer;
  if (!is_pointer(value)) fail(position, fmt::format("A pointer is expected, but got: \"{}\".", kind_text(value)));
  return *value.as<tir::Expr>();
}

void Compiler::check_access(const tir::Expr& pointer, Position position) {
  if (schedulable_blocks_ > 0) fail(position, "Pointer can't be used in any schedulable block");
  if (pointer->type.element == DType::kVoid) fail(position, "Can't access data through void pointer.");
  const tir::Expr* root = &pointer;
  bool moved = false;
  while (true) {
    if ((*root)->as<tir::VarRef>() != nullptr) return;
    if (const auto* binary = (*root)->as<tir::Binary>()) {
      moved = true;
      root = binary->lhs->type.pointer ? &binary->lhs : &binary->rhs;
    } else if (const auto* cast = (*root)->as<tir::Cast>();
               cast != nullptr && cast->operand->type.pointer && cast->operand->as<tir::VarRef>() != nullptr) {
      root = &cast->operand;
    } else {
      break;
    }
  }
  (void)moved;
  fail(position, "Can't access data through this temporary pointer, please assign it to a variable first.");
}

std::optional<int64_t> Compiler::constant_difference(const Value& upper, const Value& lower) {
  tir::LinearForm form(DType::kI64);
  const auto add = [&](const Value& v, int64_t sign) {
    if (const auto i = v.integer()) return form.add(constant(*i, DType::kI64), sign);
    if (const auto* e = v.as<tir::Expr>()) form.add(*e, sign);
  };
  add(upper, 1);
  if (!lower.is_none()) add(lower, -1);
  if (form.has_wrapped() || !form.is_constant()) return std::nullopt;
  return form.constant();
}

Compiler::SliceAccess Compiler::slice(const tir::Expr& pointer, const Value& value, Position position) {
  const ValueList& parts = *value.as<SliceValue>()->parts;
  const Value &lower = parts[0], &upper = parts[1], &step_value = parts[2];
  if (upper.is_none()) fail(position, "For accessing data through pointer, the stop of the slice must be given.");
  for (const Value& part : parts) {
    if (!part.is_none()) index_expr(part, position);  // must be integers
  }
  const int64_t stride = step_value.is_none() ? 1 : step_value.integer().value_or(0);
  if (!step_value.is_none() && !step_value.integer())
    fail(position, "The step of the slice must be a compile-time constant.");
  if (stride <= 0) fail(position, "The step of the slice must > 0 when access data through pointer.");
  const auto length = constant_difference(upper, lower);
  if (!length) fail(position, "The lanes of a slice must be a compile-time constant: its stop minus its start is not.");
  if (lower.integer() && *lower.integer() < 0)
    fail(position, "The stop of the slice must > the start of the slice >= 0.");
  if (*length <= 0) fail(position, "The stop of the slice must > the start of the slice >= 0.");
  const int64_t lanes = (*length - 1) / stride + 1;
  constexpr int64_t kMaxLanes = 1 << 16;
  if (lanes * pointer->type.lanes > kMaxLanes) fail(position, fmt::format("A slice of {} lanes is too long.", lanes));
  const Value start = lower.is_none() ? pointer_arithmetic(ast::BinaryOp::kAdd, {pointer}, {int64_t{0}}, position)
                                      : pointer_arithmetic(ast::BinaryOp::kAdd, {pointer}, lower, position);
  SliceAccess access{*start.as<tir::Expr>(), static_cast<int>(lanes), {stride}};
  if (pointer->type.lanes > 1) {
    if (stride != 1 && lanes > 1) fail(position, "A slice of a vector pointer can't have a step.");
    access.lanes = static_cast<int>(lanes) * pointer->type.lanes;
    access.pointer = tir::cast(pointer->type.with_lanes(1), access.pointer, span(position));
    access.stride = {int64_t{1}};
  }
  return access;
}

// The flat index of an element; the innermost dimension may be left to a slice (`partial`: missing trailing indices are
// 0).
Value Compiler::buffer_offset(const Buffer& buffer, const std::vector<Value>& indices, bool partial,
                              Position position) {
  if (indices.size() > buffer.shape.size() || (!partial && indices.size() != buffer.shape.size())) {
    fail(position,
         fmt::format("The buffer has {} dimensions, but got {} indices.", buffer.shape.size(), indices.size()));
  }
  Value offset{int64_t{0}};
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    const Value index = d < indices.size() ? indices[d] : Value{int64_t{0}};
    index_expr(index, position);
    if (const auto i = index.integer();
        i && buffer.shape[d].integer() && (*i < 0 || *i >= *buffer.shape[d].integer()) && !partial) {
      fail(position,
           fmt::format("Index {} is out of bounds of dimension {} of extent {}.", *i, d, *buffer.shape[d].integer()));
    }
    const auto is_zero = [](const Value& v) { return v.integer() && *v.integer() == 0; };
    if (d > 0 && !is_zero(offset)) offset = binary(ast::BinaryOp::kMul, offset, buffer.shape[d], position);
    offset = is_zero(offset) ? index : is_zero(index) ? offset : binary(ast::BinaryOp::kAdd, offset, index, position);
  }
  return offset;
}

tir::Expr Compiler::element_index(const Buffer& buffer, const std::vector<Value>& indices, Position position) {
  tir::Expr index = index_expr(buffer_offset(buffer, indices, false, position), position);
  if (marks_ == nullptr) return index;
  tir::Expr own = tir::make_expr(index->type, index->node, index->span);
  tir::BlockMarks::Access access{own, buffer.name, {}, {}};
  for (const Value& extent : buffer.shape) access.shape.push_back(index_expr(extent, position));
  for (const Value& i : indices) access.indices.push_back(index_expr(i, position));
  marks_->accesses[own.get()] = std::move(access);
  return own;
}

Value Compiler::subscript(const Value& object, const std::vector<Value>& indices, bool tuple_index, Position position) {
  if (const auto* type = object.as<TypeValue>(); type != nullptr && !tuple_index) {
    return python_subscript({type_text(type->type)}, indices[0], position);  // a DataType is a string
  }
  if (object.as<OpaqueValue>() != nullptr) {
    const Value index = tuple_index ? make_tuple({indices.begin(), indices.end()}) : indices[0];
    if (auto item = operate_host("[]", {&object, &index}, position)) return std::move(*item);
  }
  if (object.elements() != nullptr || object.as<DictValue>() != nullptr || object.as<std::string>() != nullptr ||
      object.as<ArrayValue>() != nullptr) {
    if (auto part = array_slice(object, indices, position)) return std::move(*part);
    if (!tuple_index) return python_subscript(object, indices[0], position);
    Value value = object;
    if (object.as<ArrayValue>() == nullptr) fail(position, "A container has one index.");
    for (const Value& index : indices) value = python_subscript(value, index, position);
    return value;
  }
  if (const auto* b = object.as<BufferValue>()) {
    const Buffer& buffer = *b->buffer;
    if (indices.back().as<SliceValue>() == nullptr) {
      const tir::Expr index = element_index(buffer, indices, position);
      return {tir::load(buffer.pointer, index, span(position))};
    }
    const SliceAccess access = buffer_slice(buffer, indices, position);
    return load_slice(access, position);
  }
  if (is_pointer(object)) {
    const tir::Expr pointer = *object.as<tir::Expr>();
    if (tuple_index || indices.size() != 1) fail(position, "Pointer only can be used to access 1D data.");
    check_access(pointer, position);
    if (indices[0].as<SliceValue>() != nullptr) return load_slice(slice(pointer, indices[0], position), position);
    if (indices[0].integer() && *indices[0].integer() < 0)
      fail(position, "The index must >= 0 when access data through pointer.");
    return {tir::load(pointer, index_expr(indices[0], position), span(position))};
  }
  if (object.is_expr() && (*object.as<tir::Expr>())->type.is_vector()) {
    const tir::Expr vector = *object.as<tir::Expr>();
    if (indices.size() != 1) fail(position, "A vector has one index.");
    const tir::Expr index = lane_index(vector->type, indices[0], position);
    return {tir::make_expr(vector->type.with_lanes(1), tir::LaneRead{vector, index}, span(position))};
  }
  fail(position, fmt::format("A value of kind \"{}\" can't be indexed.", kind_text(object)));
}

tir::Expr Compiler::lane_index(const tir::Type& type, const Value& index, Position position) {
  const auto constant_index = index.integer();
  if (!constant_index) {
    const auto* e = index.as<tir::Expr>();
    if (e == nullptr || (*e)->type.pointer || !(*e)->type.is_scalar() || !is_integer((*e)->type.element)) {
      fail(position, "The index value must be a scalar integer.");
    }
  }
  const bool native = is_native_vector(type);
  const bool multiple = type.element != DType::kBool && dtype_bits(type.element) * type.lanes % kNativeVectorBits == 0;
  if (strict() && !native && !(multiple && constant_index)) {
    fail(position, fmt::format("Only support get or set element from native vectors and, with a constant index, "
                               "multiple width vectors, but got: \"{}\".",
                               type_text(type)));
  }
  if (constant_index && (*constant_index < 0 || *constant_index >= type.lanes)) {
    fail(position, fmt::format("Lane {} is out of range of \"{}\".", *constant_index, type_text(type)));
  }
  return index_expr(index, position);
}

Compiler::SliceAccess Compiler::buffer_slice(const Buffer& buffer, const std::vector<Value>& indices,
                                             Position position) {
  std::vector<Value> outer(indices.begin(), indices.end() - 1);
  for (const Value& index : outer) {
    if (index.as<SliceValue>() != nullptr) fail(position, "Only the last dimension of a buffer can be sliced.");
  }
  if (indices.size() != buffer.shape.size())
    fail(position,
         fmt::format("The buffer has {} dimensions, but got {} indices.", buffer.shape.size(), indices.size()));
  const Value offset = buffer_offset(buffer, outer, true, position);
  const Value row = pointer_arithmetic(ast::BinaryOp::kAdd, {buffer.pointer}, offset, position);
  Value last = indices.back();
  if (last.as<SliceValue>()->parts->at(1).is_none()) {
    // The stop defaults to the end of the dimension.
    auto parts = std::make_shared<ValueList>(*last.as<SliceValue>()->parts);
    (*parts)[1] = buffer.shape.back();
    last = {SliceValue{std::move(parts)}};
  }
  return slice(*row.as<tir::Expr>(), last, position);
}

Value Compiler::load_slice(const SliceAccess& access, Position position) {
  if (access.lanes == 1) return {tir::load(access.pointer, constant(int64_t{0}, DType::kI32), span(position))};
  return call_intrinsic(*required_intrinsic("vload", position), {{access.pointer}},
                        {{"lanes", {int64_t{access.lanes}}}, {"stride", access.stride}}, position);
}

void Compiler::store(const ast::ExprPtr& target, const Value& object, const std::vector<Value>& indices,
                     const Value& value, Position position) {
  if (const auto* list = object.as<ListValue>()) {
    const auto i = indices[0].integer();
    if (!i || indices.size() != 1) fail(position, "The index of a compile-time list must be a compile-time integer.");
    const int64_t size = static_cast<int64_t>(list->items->size());
    if (*i < -size || *i >= size) fail(position, "list assignment index out of range");
    (*list->items)[static_cast<size_t>(*i < 0 ? *i + size : *i)] = materialize(value, "item", position);
    return;
  }
  if (const auto* dict = object.as<DictValue>()) {
    for (auto& [key, item] : *dict->items) {
      if (values_equal(key, indices[0])) {
        item = materialize(value, "item", position);
        return;
      }
    }
    dict->items->emplace_back(indices[0], materialize(value, "item", position));
    return;
  }
  const auto stored = [&](const tir::Type& type) {
    const tir::Expr e = to_expr(value, position);
    if (e->type.is_void()) fail(position, "The right hand side yields no value.");
    if (e->type.pointer) fail(position, fmt::format("Unexpect \"{}\" pointer as argument.", type_text(e->type)));
    if (e->type.is_vector() && e->type.lanes != type.lanes) {
      fail(position,
           fmt::format("Incompatible types in BufferStore: \"{}\" vs. \"{}\".", type_text(type), type_text(e->type)));
    }
    return convert(value, type, position);
  };
  const auto store_slice = [&](const SliceAccess& access) {
    const tir::Type type = access.pointer->type.pointee().with_lanes(access.lanes);
    const tir::Expr e = stored(type);
    if (access.lanes == 1) return emit(position, tir::Store{access.pointer, constant(int64_t{0}, DType::kI32), e});
    const Value call = call_intrinsic(*required_intrinsic("vstore", position), {{e}, {access.pointer}},
                                      {{"stride", access.stride}}, position);
    emit(position, tir::Evaluate{*call.as<tir::Expr>()});
  };
  if (const auto* b = object.as<BufferValue>()) {
    const Buffer& buffer = *b->buffer;
    if (buffer.pointer->type.scope == tir::Scope::kConstant) fail(position, "A constant buffer can't be written.");
    if (indices.back().as<SliceValue>() != nullptr) return store_slice(buffer_slice(buffer, indices, position));
    const tir::Expr index = element_index(buffer, indices, position);
    return emit(position, tir::Store{buffer.pointer, index, stored(buffer.pointer->type.pointee())});
  }
  if (is_pointer(object)) {
    const tir::Expr pointer = *object.as<tir::Expr>();
    if (indices.size() != 1) fail(position, "Pointer only can be used to access 1D data.");
    check_access(pointer, position);
    if (indices[0].as<SliceValue>() != nullptr) return store_slice(slice(pointer, indices[0], position));
    if (indices[0].integer() && *indices[0].integer() < 0)
      fail(position, "The index must >= 0 when access data through pointer.");
    return emit(position, tir::Store{pointer, index_expr(indices[0], position), stored(pointer->type.pointee())});
  }
  if (object.is_expr() && (*object.as<tir::Expr>())->type.is_vector()) {
    const tir::Type type = (*object.as<tir::Expr>())->type;
    const auto* name = target->as<ast::Name>();
    const Binding* binding = name != nullptr ? find_local(*frame_, name->id) : nullptr;
    const tir::VarPtr var = binding != nullptr ? binding->var : nullptr;
    if (var == nullptr) fail(position, "Only a lane of a vector variable can be assigned.");
    const tir::Expr index = lane_index(type, indices[0], position);
    const tir::Expr scalar = to_expr(value, position);
    if (!scalar->type.is_scalar()) fail(position, "The value of a lane must be a scalar.");
    if (is_floating(scalar->type.element) && !is_floating(type.element)) {
      fail(position, fmt::format("A lane of \"{}\" can't be assigned a \"{}\", please convert it explicitly.",
                                 type_text(type), type_text(scalar->type)));
    }
    return emit(position, tir::LaneWrite{var, index, convert_element(value, type.element, position)});
  }
  fail(position, fmt::format("A value of kind \"{}\" can't be assigned through an index.", kind_text(object)));
}

// A part of an embedder's array, by the embedder; nullopt: no slice of one.
std::optional<Value> Compiler::array_slice(const Value& object, const std::vector<Value>& indices, Position position) {
  const auto* array = object.as<ArrayValue>();
  const bool sliced =
      std::any_of(indices.begin(), indices.end(), [](const Value& index) { return index.as<SliceValue>() != nullptr; });
  if (array == nullptr || array->array->object == nullptr || !sliced) return std::nullopt;
  CapturedList operands = {Captured{*array->array}};
  for (const Value& index : indices) {
    const auto* s = index.as<SliceValue>();
    CapturedList parts;
    for (const Value& part : s != nullptr ? *s->parts : ValueList{index}) {
      if (!part.is_none() && !part.integer())
        fail(position, "The bounds of a slice of a compile-time container must be compile-time integers.");
      parts.push_back(check(position, to_captured(part)));
    }
    operands.push_back(Captured{CapturedTuple{std::move(parts)}});
  }
  return to_value(check(position, environment_->operate("[:]", operands)), pool_);
}

Value Compiler::python_subscript(const Value& object, const Value& index, Position position) {
  if (const auto* dict = object.as<DictValue>()) {
    for (const auto& [key, value] : *dict->items) {
      if (values_equal(key, index)) return value;
    }
    fail(position, "The dictionary has no such key.");
  }
  const ValueList* items = object.elements();
  const auto* text = object.as<std::string>();
  const auto* array = object.as<ArrayValue>();
  const int64_t size = items != nullptr              ? static_cast<int64_t>(items->size())
                       : text != nullptr             ? static_cast<int64_t>(text->size())
                       : array->array->shape.empty() ? 0
                                                     : array->array->shape[0];
  const auto at = [&](int64_t i) -> Value {
    if (items != nullptr) return (*items)[static_cast<size_t>(i)];
    if (text != nullptr) return {std::string(1, (*text)[static_cast<size_t>(i)])};
    const CapturedArray& a = *array->array;
    if (a.shape.size() == 1) return array_element(a, static_cast<size_t>(i));
    CapturedArray row{a.dtype, {a.shape.begin() + 1, a.shape.end()}, {}};
    const size_t bytes = a.bytes.size() / static_cast<size_t>(size);
    row.bytes.assign(a.bytes.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(i) * bytes),
                     a.bytes.begin() + static_cast<ptrdiff_t>((static_cast<size_t>(i) + 1) * bytes));
    return {ArrayValue{std::make_shared<const CapturedArray>(std::move(row))}};
  };
  if (const auto* s = index.as<SliceValue>()) {
    const auto part = [&](size_t k, int64_t fallback) {
      const Value& v = (*s->parts)[k];
      if (v.is_none()) return fallback;
      if (!v.integer())
        fail(position, "The bounds of a slice of a compile-time container must be compile-time integers.");
      return *v.integer();
    };
    const int64_t stride = part(2, 1);
    if (stride == 0) fail(position, "slice step cannot be zero");
    const auto clamp = [&](int64_t i) {
      if (i < 0) i += size;
      return std::clamp<int64_t>(i, stride > 0 ? 0 : -1, stride > 0 ? size : size - 1);
    };
    const int64_t start = (*s->parts)[0].is_none() ? (stride > 0 ? 0 : size - 1) : clamp(part(0, 0));
    const int64_t stop = (*s->parts)[1].is_none() ? (stride > 0 ? size : -1) : clamp(part(1, 0));
    ValueList chosen;
    for (__int128 i = start; stride > 0 ? i < stop : i > stop; i += stride)
      chosen.push_back(at(static_cast<int64_t>(i)));
    if (text != nullptr) {
      std::string joined;
      for (const Value& v : chosen) joined += *v.as<std::string>();
      return {std::move(joined)};
    }
    return object.as<ListValue>() != nullptr ? make_list(std::move(chosen)) : make_tuple(std::move(chosen));
  }
  const auto i = index.integer();
  if (!i)
    fail(position,
         fmt::format("The index of a compile-time {} must be known at compile time; use S.unroll for the loop.",
                     kind_text(object)));
  if (*i < -size || *i >= size) fail(position, fmt::format("{} index out of range", kind_text(object)));
  Value element = at(*i < 0 ? *i + size : *i);
  if (const auto* e = element.as<tir::Expr>()) {
    const auto* ref = (*e)->as<tir::VarRef>();
    if (ref != nullptr && dead_.contains(ref->var.get()))
      fail(position, "The element holds a run-time value of a block that has ended.");
  }
  return element;
}

std::vector<int64_t> Compiler::constant_shape(const Value& shape, Position position) {
  std::vector<int64_t> dims;
  const ValueList one = {shape};
  for (const Value& v : shape.elements() != nullptr ? *shape.elements() : one) {
    const auto* i = v.as<int64_t>();
    if (i == nullptr) fail(position, "The element of 1st arg expect an integer scalar constant.");
    if (*i < 1) fail(position, "The extents of a buffer must be positive.");
    dims.push_back(*i);
  }
  return dims;
}

Value Compiler::allocate(CallArguments& arguments, bool as_pointer, Position position) {
  const auto values = take(arguments, as_pointer ? "alloc" : "alloc_buffer", {"shape", "dtype", "scope"}, 2, position);
  const std::vector<int64_t> dims = constant_shape(values[0], position);
  std::optional<tir::Type> type;
  if (const auto* s = values[1].as<std::string>()) type = parse_type_text(*s);
  if (const auto* t = values[1].as<TypeValue>()) type = t->type;
  if (!type || type->pointer || type->element == DType::kVoid || type->element == DType::kBool ||
      (strict() && ((type->is_vector() && !is_native_vector(*type)) || dtype_bits(type->element) == 64))) {
    fail(position, "The arg \"dtype\" expect one of the native scalar and vector types.");
  }
  tir::Scope scope = tir::Scope::kPrivate;
  if (!values[2].is_none()) {
    const auto* s = values[2].as<std::string>();
    if (s == nullptr || (*s != "private" && *s != "lsram" && *s != "shared"))
      fail(position, "The arg \"scope\" expect one of (\"lsram\", \"shared\", \"private\").");
    scope = *s == "lsram" ? tir::Scope::kLsram : *s == "shared" ? tir::Scope::kShared : tir::Scope::kPrivate;
  }
  int64_t count = 1;
  for (const int64_t d : dims) {
    if (__builtin_mul_overflow(count, d, &count) || count > kMaxElements / std::max<int64_t>(1, type->bytes()))
      fail(position, "The buffer is too large.");
  }
  if (blocks_.empty()) fail(position, "This can only be used inside a kernel.");
  auto var = std::make_shared<tir::Var>();
  var->name = name_hint_.empty() ? "buf" : as_pointer ? name_hint_ + "_buf" : name_hint_;
  var->type = tir::Type::pointer_to(type->element, type->lanes, scope);
  const tir::VarPtr buffer_var = std::move(var);
  emit(position, tir::Alloc{buffer_var, count, {}});
  const tir::Expr pointer = tir::var_ref(buffer_var);
  if (as_pointer) return {pointer};
  auto buffer = std::make_shared<Buffer>();
  buffer->pointer = pointer;
  for (const int64_t d : dims) buffer->shape.push_back({d});
  return {BufferValue{std::move(buffer)}};
}

Value Compiler::match_buffer(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "match_buffer", {"pointer", "shape"}, 2, position);
  tir::Expr pointer = pointer_of(values[0], position);
  if (pointer->type.element == DType::kVoid) fail(position, "Can't access data through void pointer.");
  pointer = materialize(pointer, name_hint_.empty() ? "view" : name_hint_, position);
  auto buffer = std::make_shared<Buffer>();
  buffer->name = name_hint_;
  buffer->pointer = pointer;
  const ValueList one = {values[1]};
  for (const Value& v : values[1].elements() != nullptr ? *values[1].elements() : one) {
    index_expr(v, position);
    buffer->shape.push_back(v.is_expr() ? materialize(v, "extent", position) : v);
  }
  return {BufferValue{std::move(buffer)}};
}

Value Compiler::allocate_const(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "alloc_const", {"shape", "dtype", "data"}, 3, position);
  const std::vector<int64_t> dims = constant_shape(values[0], position);
  const tir::Type type = type_argument(values[1], "dtype", position);
  if (type.pointer || type.lanes != 1 || type.element == DType::kVoid)
    fail(position, "The arg \"dtype\" expect a scalar type.");
  int64_t count = 1;
  for (const int64_t d : dims) {
    if (__builtin_mul_overflow(count, d, &count) || count > kMaxElements / type.bytes())
      fail(position, "The buffer is too large.");
  }
  // Flattened in C order, whatever its nesting.
  ValueList flat;
  const auto flatten = [&](const auto& self, const Value& v, int depth) -> void {
    if (depth > 16) fail(position, "The data is nested too deeply.");
    step(position);
    if (v.is_number()) {
      flat.push_back(v);
    } else if (v.elements() != nullptr) {
      for (const Value& item : *v.elements()) self(self, item, depth + 1);
    } else if (const auto* array = v.as<ArrayValue>()) {
      const size_t size = array->array->bytes.size() / std::max<size_t>(1, dtype_bytes(array->array->dtype));
      for (size_t i = 0; i < size; ++i) flat.push_back(array_element(*array->array, i));
    } else {
      fail(position, "The arg \"data\" expect compile-time numbers.");
    }
  };
  flatten(flatten, values[2], 0);
  if (static_cast<int64_t>(flat.size()) != count) {
    fail(position, fmt::format("cannot reshape array of size {} into the shape of {} elements", flat.size(), count));
  }
  std::vector<std::byte> data(static_cast<size_t>(count) * dtype_bytes(type.element));
  for (size_t i = 0; i < flat.size(); ++i) {
    const tir::Expr e = convert_element(flat[i], type.element, position);
    std::byte* at = data.data() + i * dtype_bytes(type.element);
    if (const auto* imm = e->as<tir::IntImm>()) {
      std::memcpy(at, &imm->value, dtype_bytes(type.element));  // little endian: the low bytes come first
      continue;
    }
    const double value = e->as<tir::FloatImm>()->value;
    const float single = static_cast<float>(value);
    if (type.element == DType::kF64) {
      std::memcpy(at, &value, 8);
    } else if (type.element == DType::kF32) {
      std::memcpy(at, &single, 4);
    } else {
      const uint16_t bits = type.element == DType::kF16 ? f16_from_f32(single) : bf16_from_f32(single);
      std::memcpy(at, &bits, 2);
    }
  }
  auto var = std::make_shared<tir::Var>();
  var->name = name_hint_.empty() ? "table" : name_hint_;
  var->type = tir::Type::pointer_to(type.element, 1, tir::Scope::kConstant);
  const tir::VarPtr buffer_var = std::move(var);
  emit(position, tir::Alloc{buffer_var, count, std::move(data)});
  auto buffer = std::make_shared<Buffer>();
  buffer->pointer = tir::var_ref(buffer_var);
  for (const int64_t d : dims) buffer->shape.push_back({d});
  return {BufferValue{std::move(buffer)}};
}

}  // namespace aipu::dsl
