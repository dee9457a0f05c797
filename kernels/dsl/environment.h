// What the DSL parser sees of the world outside the function it parses: names captured from closures and globals
// (Python), or a parameter map and the kernel file's own top level (C++).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/tir/type.h"
#include "runtime/base/status.h"

namespace aipu::dsl {

struct Captured;
using CapturedList = std::vector<Captured>;
struct CapturedTuple {
  CapturedList items;
};
// Keys are numbers and strings; as many values as keys.
struct CapturedDict {
  CapturedList keys, values;
};

// A numeric array captured by value (alloc_const data, masks, vector literals): C order.
struct CapturedArray {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  std::shared_ptr<void> object = nullptr;  // the embedder's array behind it, for attributes that only it knows
};
// The annotation S.ptr(dtype, scope), a type object S.fp32x8, or a `DataType`.
struct CapturedType {
  tir::Type type;
  bool size_var = false;  // S.size_i32
};
// A record type of the embedder: its fields and their annotations.
struct CapturedRecordType {
  std::string name;
  std::vector<std::string> fields;
  CapturedList types;     // one per field
  CapturedDict defaults;  // by name
  std::shared_ptr<void> object;
};
// One value per field.
struct CapturedRecord {
  CapturedRecordType type;
  CapturedList values;
};
struct EmbeddedFunction;
// A decorated function: @S.prim_func, @S.macro, or an undecorated helper evaluated at compile time. Refers to a
// function of a source text.
struct CapturedFunction {
  std::shared_ptr<const void> definition;                      // kernels/dsl/ast.h FunctionDef
  std::shared_ptr<class Environment> globals;                  // where its free names resolve
  std::shared_ptr<const EmbeddedFunction> embedded = nullptr;  // what the embedder knows beyond the source text
};
// An object only the embedder understands (a Python object): reached through the Environment's hooks.
struct CapturedOpaque {
  std::shared_ptr<void> object;
  std::string description;
  // "S", "S.axis": the script module under whatever name it was imported; "S.vadd": a function of it. On the way to the
  // embedder, `object` is null then.
  std::string script = {};
};

struct Captured {
  std::variant<std::monostate /* None */, bool, int64_t, double, std::string, CapturedList, CapturedTuple, CapturedDict,
               CapturedArray, CapturedType, CapturedRecordType, CapturedRecord, CapturedFunction, CapturedOpaque>
      value;
};

// Facts about a function object that its source text need not show (a decorator under another name, options computed
// elsewhere).
struct EmbeddedFunction {
  enum class Role : uint8_t { kPrimFunc, kMacro, kPlain };
  Role role = Role::kPlain;
  std::optional<bool> is_inline;  // of a prim_func
  bool hygienic = true;           // of a macro
  // A plain function that needs nothing of the language: with compile-time arguments it is called through
  // Environment::call(). Null: it is evaluated from its source.
  std::shared_ptr<void> callable;
  // Arguments given in advance, before those of a call: functools.partial, the object of a bound method.
  CapturedList bound;
  std::vector<std::pair<std::string, Captured>> bound_keywords;
};
// What a parameter of an entry becomes: that many of the written type in a list, or None.
struct ParameterCount {
  std::optional<int64_t> items;
};

// Names of Python's functions that the language has itself. An environment leaves them to it, unless a program has
// given them another meaning.
bool is_own_builtin(std::string_view name);

class Environment {
 public:
  virtual ~Environment() = default;
  virtual std::optional<Captured> lookup(std::string_view name) = 0;
  // obj.name on an opaque object.
  virtual Result<Captured> attribute(const Captured& object, std::string_view name);
  // A call of an opaque object with compile-time arguments.
  virtual Result<Captured> call(const Captured& function, const CapturedList& args,
                                const std::vector<std::pair<std::string, Captured>>& kwargs);
  // An operation of the host language on compile-time values of which at least one is opaque: "[]", "[:]" (of an array
  // and a tuple per dimension: an index, or start, stop and step), "len", "bool",
  // "list" (what iterating yields), "+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@", "==", "!=",
  // "<", "<=", ">", ">=", "is", "in", and the built-in functions "int", "float", "str", "abs".
  virtual Result<Captured> operate(std::string_view operation, const CapturedList& operands);
  // Of the function whose names this environment answers: a parameter's annotation (of "return" that of the result) and
  // its default, where they are known as values; nullopt: as the source says.
  virtual std::optional<Captured> annotation(std::string_view parameter);
  virtual std::optional<Captured> default_value(std::string_view parameter);
  // Of the entry: how many of the written type its parameter stands for; nullopt: it is an ordinary one.
  virtual std::optional<ParameterCount> parameter_count(std::string_view parameter);
};

struct FileFunction;

// Template parameters given from C++.
class TemplateParams {
 public:
  TemplateParams& set(std::string name, int64_t v) { return set(std::move(name), Captured{v}); }
  TemplateParams& set(std::string name, int v) { return set(std::move(name), Captured{static_cast<int64_t>(v)}); }
  TemplateParams& set(std::string name, bool v) { return set(std::move(name), Captured{v}); }
  TemplateParams& set(std::string name, double v) { return set(std::move(name), Captured{v}); }
  TemplateParams& set(std::string name, const char* v) { return set(std::move(name), Captured{std::string(v)}); }
  TemplateParams& set(std::string name, std::string v) { return set(std::move(name), Captured{std::move(v)}); }
  TemplateParams& set(std::string name, DType v) {
    return set(std::move(name), Captured{std::string(dtype_name(v))});
  }  // as the string "float32"
  TemplateParams& set(std::string name, const std::vector<int64_t>& v);
  TemplateParams& set(std::string name, std::vector<std::string> v);
  TemplateParams& set(std::string name, const std::vector<bool>& v);
  TemplateParams& set(std::string name, Captured v) {
    values_[std::move(name)] = std::move(v);
    return *this;
  }
  // DSL source text of a function ("@S.macro\ndef epilogue(...): ...") bound to the function's name. How fused
  // neighbours reach a template.
  TemplateParams& set_source(std::string name, std::string source) {
    sources_[std::move(name)] = std::move(source);
    return *this;
  }
  // A function of another file bound to a name. Its free names resolve there, and in parameters of its own.
  TemplateParams& set_function(std::string name, FileFunction function);
  // The entry's parameter of that name is a list of so many of the type that is written (nullopt: None).
  TemplateParams& set_count(std::string parameter, std::optional<int64_t> items) {
    counts_[std::move(parameter)] = {items};
    return *this;
  }
  const std::map<std::string, Captured, std::less<>>& values() const { return values_; }
  const std::map<std::string, std::string, std::less<>>& sources() const { return sources_; }
  const std::map<std::string, std::shared_ptr<const FileFunction>, std::less<>>& functions() const {
    return functions_;
  }
  const std::map<std::string, ParameterCount, std::less<>>& counts() const { return counts_; }
  std::string text() const;  // canonical, for the instantiation cache

 private:
  std::map<std::string, Captured, std::less<>> values_;
  std::map<std::string, std::string, std::less<>> sources_;
  std::map<std::string, std::shared_ptr<const FileFunction>, std::less<>> functions_;
  std::map<std::string, ParameterCount, std::less<>> counts_;
};

// A function of a DSL file, for templates that call it.
struct FileFunction {
  std::string file, text;          // as diagnostics name it, and what stands in it
  std::string name;                // of a function at its top level
  TemplateParams params;           // they win over the file's own assignments
  std::vector<std::string> lanes;  // names that stand for the template's VL
};

}  // namespace aipu::dsl
