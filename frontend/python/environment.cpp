#include "frontend/python/environment.h"

#include <cstring>

#include "frontend/python/array.h"
#include "kernels/dsl/parse.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::python {

namespace py = pybind11;

namespace {

// The text of a Python exception, as a diagnostic shows it.
Status python_error(py::error_already_set& error) {
  const std::string text = py::str(error.value());
  return invalid_argument(text.empty() ? std::string(py::str(error.type().attr("__name__"))) : text);
}

std::shared_ptr<void> keep(py::handle object) {
  return std::shared_ptr<void>(object.inc_ref().ptr(), [](void* p) {
    const py::gil_scoped_acquire lock;
    Py_DECREF(static_cast<PyObject*>(p));
  });
}

py::handle kept(const std::shared_ptr<void>& object) { return py::handle(static_cast<PyObject*>(object.get())); }

std::optional<tir::Scope> scope_of(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(tir::Scope::kConstant); ++i) {
    if (tir::scope_name(static_cast<tir::Scope>(i)) == name) return static_cast<tir::Scope>(i);
  }
  return std::nullopt;
}

// The environment of one function.
class FunctionEnvironment : public dsl::Environment {
 public:
  // `wrapper`: the decorated object, or none. `function`: the function itself.
  FunctionEnvironment(PythonCapture& capture, py::handle function, py::handle wrapper) : capture_(capture) {
    globals_ = py::reinterpret_borrow<py::dict>(function.attr("__globals__"));
    const py::object closure = function.attr("__closure__");
    if (!closure.is_none()) {
      const py::tuple names = function.attr("__code__").attr("co_freevars");
      const py::tuple cells = closure;
      for (size_t i = 0; i < names.size() && i < cells.size(); ++i) closure_[names[i]] = cells[i];
    }
    annotations_ = capture.helper("annotations_of")(wrapper.is_none() ? function : wrapper);
    defaults_ = capture.helper("defaults_of")(function);
  }

  std::optional<dsl::Captured> lookup(std::string_view name) override {
    if (name == "__compass_target__") return dsl::Captured{capture_.target()};
    const py::str key(name.data(), name.size());
    if (name == "__compass_strict__") {
      return globals_.contains(key) ? capture_.capture(globals_[key]) : dsl::Captured{true};
    }
    if (closure_.contains(key)) {
      PyObject* value = PyCell_Get(py::object(closure_[key]).ptr());
      if (value == nullptr) {  // not assigned yet
        PyErr_Clear();
        return std::nullopt;
      }
      return capture_.capture(py::reinterpret_steal<py::object>(value));
    }
    if (globals_.contains(key)) return capture_.capture(globals_[key]);
    if (!dsl::is_own_builtin(name)) {
      const py::dict builtins = py::module_::import("builtins").attr("__dict__");
      if (builtins.contains(key)) return capture_.capture(builtins[key]);
    }
    return std::nullopt;
  }

  Result<dsl::Captured> attribute(const dsl::Captured& object, std::string_view name) override {
    try {
      return capture_.capture(capture_.to_python(object).attr(py::str(name.data(), name.size())));
    } catch (py::error_already_set& error) {
      return python_error(error);
    }
  }

  Result<dsl::Captured> call(const dsl::Captured& function, const dsl::CapturedList& args,
                             const std::vector<std::pair<std::string, dsl::Captured>>& kwargs) override {
    try {
      py::tuple positional(args.size());
      for (size_t i = 0; i < args.size(); ++i) positional[i] = capture_.to_python(args[i]);
      py::dict keywords;
      for (const auto& [name, value] : kwargs) keywords[py::str(name)] = capture_.to_python(value);
      return capture_.capture(capture_.to_python(function)(*positional, **keywords));
    } catch (py::error_already_set& error) {
      return python_error(error);
    }
  }

  Result<dsl::Captured> operate(std::string_view operation, const dsl::CapturedList& operands) override {
    try {
      py::tuple values(operands.size());
      for (size_t i = 0; i < operands.size(); ++i) values[i] = capture_.to_python(operands[i]);
      return capture_.capture(capture_.helper("operate")(py::str(operation.data(), operation.size()), *values));
    } catch (py::error_already_set& error) {
      return python_error(error);
    }
  }

  std::optional<dsl::Captured> annotation(std::string_view parameter) override { return find(annotations_, parameter); }
  std::optional<dsl::Captured> default_value(std::string_view parameter) override { return find(defaults_, parameter); }

 private:
  std::optional<dsl::Captured> find(const py::dict& values, std::string_view name) {
    const py::str key(name.data(), name.size());
    if (!values.contains(key)) return std::nullopt;
    return capture_.capture(values[key]);
  }

  PythonCapture& capture_;
  py::dict globals_;
  py::dict closure_;  // name -> cell
  py::dict annotations_, defaults_;
};

}  // namespace

PythonCapture::PythonCapture(std::string target) : target_(std::move(target)) {
  helpers_ = py::module_::import("aipu._capture");
  script_ = py::module_::import("aipu.script");
  prim_func_ = script_.attr("PyPrimFunc");
  macro_ = script_.attr("PyMacro");
  type_object_ = script_.attr("TypeObject");
  pointer_type_ = script_.attr("PointerType");
  record_ = script_.attr("Record");
  data_type_ = py::module_::import("aipu._dtype").attr("DataType");
  const py::module_ numpy = py::module_::import("numpy");
  ndarray_ = numpy.attr("ndarray");
  partial_ = py::module_::import("functools").attr("partial");
  generic_ = numpy.attr("generic");
  numpy_dtype_ = numpy.attr("dtype");
  script_names_ = helpers_.attr("script_names")();
}

Result<dsl::CapturedFunction> PythonCapture::parse(py::handle function, py::handle wrapper) {
  const py::handle identity = wrapper.is_none() ? function : wrapper;
  if (const auto known = functions_.find(identity.ptr()); known != functions_.end()) return known->second.function;
  dsl::SourceText source;
  std::string name;
  try {
    const py::tuple found = helpers_.attr("source_of")(function);
    source.file = py::cast<std::string>(found[0]);
    source.text = py::cast<std::string>(found[1]);
    source.first_line = py::cast<int>(found[2]);
    name = py::cast<std::string>(found[3]);
  } catch (py::error_already_set& error) {
    return python_error(error);
  }
  auto environment = std::make_shared<FunctionEnvironment>(*this, function, wrapper);
  AIPU_ASSIGN_OR_RETURN(const dsl::Captured parsed, dsl::parse_function(source, name, environment));
  auto captured = std::get<dsl::CapturedFunction>(parsed.value);
  auto embedded = std::make_shared<dsl::EmbeddedFunction>();
  using Role = dsl::EmbeddedFunction::Role;
  if (py::isinstance(wrapper, prim_func_)) {
    embedded->role = Role::kPrimFunc;
    const py::object is_inline = wrapper.attr("is_inline");
    if (!is_inline.is_none()) embedded->is_inline = is_inline.cast<bool>();
  } else if (py::isinstance(wrapper, macro_)) {
    embedded->role = Role::kMacro;
    embedded->hygienic = wrapper.attr("hygienic").cast<bool>();
  } else if (helpers_.attr("is_host_function")(function).cast<bool>()) {
    embedded->callable = keep(function);
  }
  captured.embedded = std::move(embedded);
  functions_[identity.ptr()] = {captured, py::reinterpret_borrow<py::object>(identity)};
  return captured;
}

Result<dsl::CapturedFunction> PythonCapture::decorated(py::handle function) {
  return parse(function.attr("py_func"), function);
}

dsl::Captured PythonCapture::opaque(py::handle object, std::string script) {
  dsl::CapturedOpaque value;
  value.object = keep(object);
  value.description = py::str(py::type::of(object).attr("__name__"));
  value.script = std::move(script);
  return {std::move(value)};
}

dsl::Captured PythonCapture::plain_function(py::handle function) {
  auto parsed = parse(function, py::none());
  if (parsed.ok()) return {std::move(*parsed)};
  return opaque(function);  // without source, or beyond the language: compile-time calls only
}

dsl::Captured PythonCapture::with_bound(dsl::Captured function, const py::tuple& args, const py::dict& keywords,
                                        py::handle object) {
  auto* known = std::get_if<dsl::CapturedFunction>(&function.value);
  if (known == nullptr || known->embedded == nullptr) return opaque(object);
  auto embedded = std::make_shared<dsl::EmbeddedFunction>(*known->embedded);
  dsl::CapturedList bound;
  for (const py::handle arg : args) bound.push_back(capture(arg));
  bound.insert(bound.end(), embedded->bound.begin(), embedded->bound.end());
  embedded->bound = std::move(bound);
  for (const auto& [name, value] : keywords)
    embedded->bound_keywords.emplace_back(py::cast<std::string>(name), capture(value));
  known->embedded = std::move(embedded);
  return function;
}

dsl::CapturedRecordType PythonCapture::record_type(py::handle record) {
  dsl::CapturedRecordType type;
  type.name = py::cast<std::string>(record.attr("__name__"));
  type.object = keep(record);
  for (const py::handle field : record.attr("__record_fields__")) {
    type.fields.push_back(py::cast<std::string>(field.attr("name")));
    type.types.push_back(capture(field.attr("annotation")));
  }
  const py::dict defaults = record.attr("__record_defaults__");
  for (const auto& [name, value] : defaults) {
    type.defaults.keys.push_back(capture(name));
    type.defaults.values.push_back(capture(value));
  }
  return type;
}

dsl::Captured PythonCapture::capture(py::handle object) {
  PyObject* p = object.ptr();
  if (object.is_none()) return {};
  if (PyBool_Check(p)) return {object.cast<bool>()};
  if (PyLong_Check(p)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(p, &overflow);
    if (overflow == 0) return {static_cast<int64_t>(value)};
    return opaque(object);
  }
  if (PyFloat_Check(p) && !py::isinstance(object, generic_)) return {PyFloat_AS_DOUBLE(p)};
  if (PyUnicode_Check(p) && !py::isinstance(object, generic_)) {
    auto text = object.cast<std::string>();
    if (py::isinstance(object, data_type_)) {
      if (const auto type = dsl::parse_type_text(text)) return {dsl::CapturedType{*type, false}};
      if (text == "void") return {dsl::CapturedType{tir::Type::void_type(), false}};
    }
    return {std::move(text)};
  }
  constexpr int kMaxDepth = 32;  // a list may hold itself
  struct Depth {
    int& value;
    explicit Depth(int& depth) : value(++depth) {}
    ~Depth() { --value; }
  } const level(depth_);
  if (depth_ > kMaxDepth) return opaque(object);
  if (PyList_Check(p)) {
    dsl::CapturedList list;
    for (const py::handle item : object) list.push_back(capture(item));
    return {std::move(list)};
  }
  if (PyTuple_Check(p) && !py::hasattr(object, "_fields")) {
    dsl::CapturedTuple tuple;
    for (const py::handle item : object) tuple.items.push_back(capture(item));
    return {std::move(tuple)};
  }
  if (PyDict_CheckExact(p)) {
    dsl::CapturedDict dict;
    bool plain = true;
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(object)) {
      plain = plain && (PyUnicode_CheckExact(key.ptr()) || PyLong_CheckExact(key.ptr()));
      if (!plain) break;
      dict.keys.push_back(capture(key));
      dict.values.push_back(capture(value));
    }
    if (plain) return {std::move(dict)};
  }
  if (py::isinstance(object, prim_func_) || py::isinstance(object, macro_)) {
    auto parsed = parse(object.attr("py_func"), object);
    if (parsed.ok()) return {std::move(*parsed)};
    dsl::Captured failed = opaque(object);
    std::get<dsl::CapturedOpaque>(failed.value).description = parsed.status().message();
    return failed;
  }
  if (py::isinstance(object, type_object_) || py::isinstance(object, pointer_type_)) {
    const std::string text = py::str(object.attr("dtype"));
    auto type = dsl::parse_type_text(text);
    if (!type && text == "void") type = tir::Type::void_type();
    if (type) {
      if (py::isinstance(object, type_object_)) return {dsl::CapturedType{*type, object.attr("is_size").cast<bool>()}};
      const auto scope = scope_of(std::string(py::str(object.attr("scope"))));
      return {dsl::CapturedType{tir::Type::pointer_to(type->element, type->lanes, scope.value_or(tir::Scope::kPrivate)),
                                false}};
    }
    return opaque(object);
  }
  if (PyType_Check(p) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(p), reinterpret_cast<PyTypeObject*>(record_.ptr())) != 0)
    return {record_type(object)};
  if (py::isinstance(object, record_)) {
    dsl::CapturedRecord record{record_type(py::type::of(object)), {}};
    for (const std::string& field : record.type.fields) record.values.push_back(capture(object.attr(field.c_str())));
    return {std::move(record)};
  }
  if (object.is(script_)) return opaque(object, "S");
  if (const py::object id = py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(p)); script_names_.contains(id)) {
    return opaque(object, "S." + script_names_[id].cast<std::string>());
  }
  if (py::isinstance(object, ndarray_) || py::isinstance(object, generic_)) {
    const DType dtype = dtype_of_array(object);
    if (!is_computed(dtype)) return opaque(object);
    dsl::CapturedArray array;
    array.dtype = dtype;
    for (const py::handle extent : object.attr("shape")) array.shape.push_back(extent.cast<int64_t>());
    const std::string bytes = py::bytes(object.attr("tobytes")());
    array.bytes.resize(bytes.size());
    std::memcpy(array.bytes.data(), bytes.data(), bytes.size());
    array.object = keep(object);
    return {std::move(array)};
  }
  if (py::isinstance(object, numpy_dtype_)) {
    const auto type = parse_dtype(std::string(py::str(object.attr("name"))));
    if (type && is_computed(*type)) return {dsl::CapturedType{tir::Type::scalar(*type), false}};
  }
  if (PyType_Check(p) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(p), reinterpret_cast<PyTypeObject*>(generic_.ptr())) != 0) {
    const auto type = parse_dtype(std::string(py::str(numpy_dtype_(object).attr("name"))));
    if (type && is_computed(*type)) return {dsl::CapturedType{tir::Type::scalar(*type), false}};
  }
  if (PyFunction_Check(p)) return plain_function(object);
  if (PyMethod_Check(p) && PyFunction_Check(PyMethod_GET_FUNCTION(p))) {
    return with_bound(plain_function(PyMethod_GET_FUNCTION(p)), py::make_tuple(py::handle(PyMethod_GET_SELF(p))),
                      py::dict(), object);
  }
  if (py::isinstance(object, partial_)) {
    return with_bound(capture(object.attr("func")), object.attr("args"), object.attr("keywords"), object);
  }
  if (PyCFunction_Check(p)) {
    // operator.add and its like: with run-time arguments they are the operators.
    if (const py::object source = helpers_.attr("operator_function")(object); !source.is_none())
      return plain_function(source);
  }
  return opaque(object);
}

py::object PythonCapture::to_python(const dsl::Captured& captured) {
  return std::visit(
      [&](const auto& v) -> py::object {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return py::none();
        } else if constexpr (std::is_same_v<T, dsl::CapturedList>) {
          py::list list;
          for (const dsl::Captured& item : v) list.append(to_python(item));
          return list;
        } else if constexpr (std::is_same_v<T, dsl::CapturedTuple>) {
          py::tuple tuple(v.items.size());
          for (size_t i = 0; i < v.items.size(); ++i) tuple[i] = to_python(v.items[i]);
          return tuple;
        } else if constexpr (std::is_same_v<T, dsl::CapturedDict>) {
          py::dict dict;
          for (size_t i = 0; i < v.keys.size(); ++i) dict[to_python(v.keys[i])] = to_python(v.values[i]);
          return dict;
        } else if constexpr (std::is_same_v<T, dsl::CapturedArray>) {
          if (v.object != nullptr) return py::reinterpret_borrow<py::object>(kept(v.object));
          return helpers_.attr("make_array")(std::string(dtype_name(v.dtype)), v.shape,
                                             py::bytes(reinterpret_cast<const char*>(v.bytes.data()), v.bytes.size()));
        } else if constexpr (std::is_same_v<T, dsl::CapturedType>) {
          const std::string text =
              v.type.is_void() ? "void" : dsl::type_text(v.type.pointer ? v.type.pointee() : v.type);
          if (v.type.pointer) return pointer_type_(data_type_(text), std::string(tir::scope_name(v.type.scope)));
          return data_type_(text);
        } else if constexpr (std::is_same_v<T, dsl::CapturedRecordType>) {
          return py::reinterpret_borrow<py::object>(kept(v.object));
        } else if constexpr (std::is_same_v<T, dsl::CapturedRecord>) {
          py::tuple fields(v.values.size());
          for (size_t i = 0; i < v.values.size(); ++i) fields[i] = to_python(v.values[i]);
          return kept(v.type.object)(*fields);
        } else if constexpr (std::is_same_v<T, dsl::CapturedFunction>) {
          for (const auto& [identity, parsed] : functions_) {
            if (parsed.function.definition == v.definition) return parsed.object;
          }
          return py::none();
        } else if constexpr (std::is_same_v<T, dsl::CapturedOpaque>) {
          if (v.object != nullptr) return py::reinterpret_borrow<py::object>(kept(v.object));
          return helpers_.attr("script_object")(v.script);
        } else {
          return py::cast(v);
        }
      },
      captured.value);
}

}  // namespace aipu::python
