#include "frontend/python/bindings.h"

namespace aipu::python {

void throw_status(const Status& status) {
  PyObject* type = PyExc_RuntimeError;
  if (status.code() == ErrorCode::kInvalidArgument) type = PyExc_ValueError;
  if (status.code() == ErrorCode::kIo || status.code() == ErrorCode::kNotFound) type = PyExc_OSError;
  PyErr_SetString(type, status.message().c_str());
  throw pybind11::error_already_set();
}

}  // namespace aipu::python

PYBIND11_MODULE(_native, module) {
  module.doc() =
      "The compiled half of the package aipu: compiler, runtime and the lanes of the intrinsics. Not for direct use.";
  aipu::python::bind_compile(module);
  aipu::python::bind_runtime(module);
  aipu::python::bind_lanes(module);
}
