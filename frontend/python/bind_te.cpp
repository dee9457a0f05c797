// Tensor expressions for Python. Operators and conversions of Python's values are in aipu/te.
#include "frontend/python/bind_te.h"

#include "frontend/python/bindings.h"

namespace aipu::python {

namespace py = pybind11;

namespace {

py::object& error_class() {
  static auto* type = new py::object(py::reinterpret_borrow<py::object>(PyExc_RuntimeError));
  return *type;
}

}  // namespace

void throw_te(const Status& status) {
  PyErr_SetString(error_class().ptr(), status.message().c_str());
  throw py::error_already_set();
}

te::Type type_of(const std::string& text) {
  const auto type = te::parse_type(text);
  if (!type) throw py::type_error("unknown dtype \"" + text + "\"");
  return *type;
}

void bind_te(py::module_& module) {
  py::module_ m = module.def_submodule("te", "Tensor expressions. Not for direct use: aipu.te.");
  bind_te_expressions(m);
  bind_te_operations(m);
  bind_te_statements(m);
  bind_te_schedules(m);
  bind_te_lowering(m);
  m.def("set_error_class", [](py::object type) { error_class() = std::move(type); });
}

}  // namespace aipu::python
