// What a DSL expression evaluates to while a kernel is compiled: a Python value known now, or an expression of the
// program being built.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/tir/stmt.h"
#include "kernels/dsl/ast.h"
#include "kernels/dsl/environment.h"

namespace aipu::dsl {

struct Value;
using ValueList = std::vector<Value>;

struct NoneValue {};
// Already reported: using it fails without another message.
struct PoisonValue {};
// Containers are owned by the kernel's ValuePool: a program can make them as deep or cyclic as it likes, and they still
// go away without recursion.
using ValueMap = std::vector<std::pair<Value, Value>>;
struct ListValue {
  ValueList* items;
};
struct TupleValue {
  ValueList* items;
};
struct DictValue {
  ValueMap* items;
};
struct ArrayValue {
  std::shared_ptr<const CapturedArray> array;
};
// S.fp32x8, S.ptr(...), p.dtype: an annotation, a constructor, a DataType.
struct TypeValue {
  tir::Type type;
  bool size_var = false;
};
// A class decorated as a record.
struct RecordType;
struct RecordTypeValue {
  std::shared_ptr<const RecordType> type;
};
// Without identity: `fields`, one per field of the type, never change. They are expressions in a record that was made
// in a kernel; in one that was made outside of it numbers are as Python knows them.
struct RecordValue {
  std::shared_ptr<const RecordType> type;
  const ValueList* fields;
};

enum class FunctionKind : uint8_t { kPrimFunc, kMacro, kPlain };
using ValueScope = std::map<std::string, Value>;
struct FunctionValue {
  ast::FunctionPtr definition;
  std::shared_ptr<Environment> globals;
  const ValueScope* closure = nullptr;  // of a function defined within another: the values its free names had there
  std::shared_ptr<const EmbeddedFunction> embedded = nullptr;
};
struct ModuleValue {
  std::string path;
};  // "S", "S.axis", "numpy"
struct ScriptFunction {
  std::string name;
};  // S.<name>
struct BuiltinFunction {
  std::string name;
};  // a Python built-in
struct MethodValue {
  std::shared_ptr<Value> self;
  std::string name;
};
// What a `for` goes over: range, grid, vectorized, tec_range, unroll.
struct IterableValue {
  std::string kind;
  const ValueList* arguments;
};
struct Buffer {
  std::string name = {};     // of the variable that it was made for
  tir::Expr pointer;         // to element 0
  std::vector<Value> shape;  // ints and integer scalar expressions
};
struct BufferValue {
  std::shared_ptr<const Buffer> buffer;
};
struct MetaValue {
  std::shared_ptr<Value> value;
};  // S.meta_var(v)
struct BlockValue {
  std::string name;
};  // S.block("name")
struct OpaqueValue {
  Captured captured;
};
struct SliceValue {
  std::shared_ptr<ValueList> parts;
};  // lower, upper, step; None where left out

struct Value {
  std::variant<NoneValue, bool, int64_t, double, std::string, ListValue, TupleValue, DictValue, ArrayValue, TypeValue,
               RecordTypeValue, RecordValue, FunctionValue, ModuleValue, ScriptFunction, BuiltinFunction, MethodValue,
               IterableValue, BufferValue, MetaValue, BlockValue, OpaqueValue, SliceValue, tir::Expr, PoisonValue>
      v;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&v);
  }
  bool is_none() const { return as<NoneValue>() != nullptr; }
  bool is_number() const { return as<bool>() != nullptr || as<int64_t>() != nullptr || as<double>() != nullptr; }
  bool is_expr() const { return as<tir::Expr>() != nullptr; }
  // The elements of a list or tuple; null for anything else.
  ValueList* elements() const {
    if (const auto* l = as<ListValue>()) return l->items;
    if (const auto* t = as<TupleValue>()) return t->items;
    return nullptr;
  }
  // A bool counts as an int, as in Python.
  std::optional<int64_t> integer() const {
    if (const auto* b = as<bool>()) return *b ? 1 : 0;
    if (const auto* i = as<int64_t>()) return *i;
    return std::nullopt;
  }
};

struct RecordType {
  struct Field {
    std::string name;
    Value type;  // a type, a record type, or a list of them
    std::optional<Value> default_value;
  };
  std::string name;
  std::vector<Field> fields;
  std::shared_ptr<void> object;  // the embedder's class behind it
};

class ValuePool {
 public:
  ValueList* add(ValueList items) { return &lists_.emplace_back(std::move(items)); }
  ValueMap* add(ValueMap items) { return &maps_.emplace_back(std::move(items)); }
  const ValueScope* add(ValueScope scope) { return &scopes_.emplace_back(std::move(scope)); }
  Value list(ValueList items) { return {ListValue{add(std::move(items))}}; }
  Value tuple(ValueList items) { return {TupleValue{add(std::move(items))}}; }
  Value record(std::shared_ptr<const RecordType> type, ValueList fields) {
    return {RecordValue{std::move(type), add(std::move(fields))}};
  }

 private:
  std::deque<ValueList> lists_;
  std::deque<ValueMap> maps_;
  std::deque<ValueScope> scopes_;
};

Value to_value(const Captured& captured, ValuePool& pool);
// For hooks of the environment; an expression or a buffer cannot be handed out.
Result<Captured> to_captured(const Value& value, int depth = 0);

// The same name, and the same fields of the same types: a module that is imported twice is read twice.
bool same_record_type(const RecordType& a, const RecordType& b);

std::string kind_text(const Value& value);  // "int", "list", "float32x8", ...: for messages

}  // namespace aipu::dsl
