// Functions by name, shared with C++ (kernels/te/registry.h).
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <optional>

#include "frontend/python/array.h"
#include "frontend/python/bindings.h"
#include "kernels/te/expr.h"
#include "kernels/te/registry.h"

namespace aipu::python {

namespace py = pybind11;
using te::FunctionRegistry;
using te::PackedFunction;
using te::PackedFunctionPtr;
using te::PackedValue;

namespace {

// An object whose last reference may go on a thread without the interpreter's lock.
std::shared_ptr<void> held(const py::object& object) {
  return {new py::object(object), [](void* pointer) {
            const py::gil_scoped_acquire lock;
            delete static_cast<py::object*>(pointer);
          }};
}
py::object object_of(const std::shared_ptr<void>& held) { return *static_cast<py::object*>(held.get()); }

// What a callback of Python raised, while C++ hands its error on to Python.
thread_local std::optional<py::error_already_set> raised;

py::object to_python(const PackedValue& value);
PackedValue to_packed(const py::handle& value);

PackedFunctionPtr wrap(const py::object& callable) {
  const std::shared_ptr<void> object = held(callable);
  PackedFunction function;
  function.origin = object;
  function.call = [object](const std::vector<PackedValue>& args) -> Result<PackedValue> {
    const py::gil_scoped_acquire lock;
    try {
      py::list list;
      for (const PackedValue& arg : args) list.append(to_python(arg));
      return to_packed(object_of(object)(*list));
    } catch (py::error_already_set& error) {
      Status status = invalid_argument(error.what());
      raised = std::move(error);
      return status;
    }
  };
  return std::make_shared<const PackedFunction>(std::move(function));
}

py::object call(const PackedFunction& function, const py::args& args) {
  std::vector<PackedValue> values;
  for (const py::handle& arg : args) values.push_back(to_packed(arg));
  raised.reset();
  auto result = [&] {
    const py::gil_scoped_release released;
    return function.call(values);
  }();
  if (result.ok()) return to_python(*result);
  if (!raised) throw_status(result.status());
  py::error_already_set error = std::move(*raised);
  raised.reset();
  throw error;  // NOLINT(cert-err09-cpp,cert-err61-cpp,misc-throw-by-value-catch-by-reference): taken out of its place
}

// A function of Python is itself again.
py::object callable_of(const PackedFunctionPtr& function) {
  if (!function) return py::none();
  if (function->origin) return object_of(function->origin);
  return py::cpp_function([function](const py::args& args) { return call(*function, args); });
}

// The memory as an array of NumPy that keeps its owner.
py::object array_of(const te::ArrayView& view) {
  const py::object make = py::module_::import("aipu.nd").attr("_array_at");
  auto* keeper = new std::shared_ptr<void>(view.owner);
  const py::capsule owner(keeper, [](void* pointer) { delete static_cast<std::shared_ptr<void>*>(pointer); });
  return make(reinterpret_cast<uintptr_t>(view.data), te::type_text(te::Type::scalar(view.dtype)), view.shape,
              view.strides, owner);
}

std::optional<te::ArrayView> view_of(const py::object& array) {
  auto buffer = std::make_shared<ArrayBuffer>();
  const DType dtype = buffer->acquire(array);
  if (dtype == DType::kVoid) return std::nullopt;
  te::ArrayView view{static_cast<std::byte*>(buffer->view().buf), dtype, {}, {}, nullptr};
  for (int d = 0; d < buffer->view().ndim; ++d) {
    view.shape.push_back(buffer->view().shape[d]);
    view.strides.push_back(buffer->view().strides[d] / buffer->view().itemsize);
  }
  // The view of the memory is given back with the lock held.
  view.owner = {new std::shared_ptr<ArrayBuffer>(std::move(buffer)), [](void* pointer) {
                  const py::gil_scoped_acquire lock;
                  delete static_cast<std::shared_ptr<ArrayBuffer>*>(pointer);
                }};
  return view;
}

py::object to_python(const PackedValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return py::none();
  if (const auto* v = std::get_if<bool>(&value)) return py::bool_(*v);
  if (const auto* v = std::get_if<int64_t>(&value)) return py::int_(*v);
  if (const auto* v = std::get_if<double>(&value)) return py::float_(*v);
  if (const auto* v = std::get_if<std::string>(&value)) return py::str(*v);
  if (const auto* v = std::get_if<te::ArrayView>(&value)) return array_of(*v);
  if (const auto* v = std::get_if<PackedFunctionPtr>(&value)) return callable_of(*v);
  return object_of(std::get<te::Opaque>(value).object);
}

PackedValue to_packed(const py::handle& value) {
  if (value.is_none()) return std::monostate{};
  if (PyBool_Check(value.ptr())) return value.cast<bool>();
  if (PyLong_Check(value.ptr())) return value.cast<int64_t>();
  if (PyFloat_Check(value.ptr())) return value.cast<double>();
  if (PyUnicode_Check(value.ptr())) return value.cast<std::string>();
  const auto object = py::reinterpret_borrow<py::object>(value);
  const py::object data = py::getattr(object, "_data", object);
  if (is_array(data.ptr())) {
    if (auto view = view_of(data)) return std::move(*view);
  }
  if (PyFunction_Check(value.ptr()) || PyCFunction_Check(value.ptr())) return wrap(object);
  return te::Opaque{held(object)};
}

}  // namespace

void bind_registry(py::module_& module) {
  py::module_ m = module.def_submodule("registry", "Functions by name. Not for direct use: aipu.register_func.");
  m.def("add", [](const std::string& name, const py::object& callable, bool replace) {
    const Status status = FunctionRegistry::global().add(name, wrap(callable), replace);
    if (!status.ok()) throw_status(status);
  });
  m.def("find", [](const std::string& name) { return callable_of(FunctionRegistry::global().find(name)); });
  m.def("remove", [](const std::string& name) { return FunctionRegistry::global().remove(name); });
  m.def("names", [] { return FunctionRegistry::global().names(); });
  m.def("call_in_cpp", [](const std::string& name, const py::args& args) {
    const PackedFunctionPtr function = FunctionRegistry::global().find(name);
    if (!function) throw py::value_error("there is no registered function '" + name + "'");
    return call(*function, args);
  });
}

}  // namespace aipu::python
