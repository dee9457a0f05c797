#include "frontend/python/bindings.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace aipu::python {

void throw_status(const Status& status) {
  PyObject* type = PyExc_RuntimeError;
  if (status.code() == ErrorCode::kInvalidArgument) type = PyExc_ValueError;
  if (status.code() == ErrorCode::kIo || status.code() == ErrorCode::kNotFound) type = PyExc_OSError;
  PyErr_SetString(type, printable_message(status.message()).c_str());
  throw pybind11::error_already_set();
}

}  // namespace aipu::python

PYBIND11_MODULE(_native, module) {
  module.doc() =
      "The compiled half of the package aipu: compiler, runtime and the lanes of the intrinsics. Not for direct use.";
  module.def(
      "write_file",
      [](const std::string& path, const pybind11::bytes& data) {
        const std::string_view bytes = data;
        const aipu::Status status = aipu::write_file_atomically(path, bytes, aipu::Sync::kNo);
        if (!status.ok()) aipu::python::throw_status(status);
      },
      pybind11::arg("path"), pybind11::arg("data"),
      "Writes a file that is whole or not there; devices are written, links followed. OSError.");
  module.def(
      "printable", [](const std::string& text) { return aipu::printable(text); }, pybind11::arg("text"),
      "The text with what a terminal would act on written as \\xNN.");
  aipu::python::bind_compile(module);
  aipu::python::bind_runtime(module);
  aipu::python::bind_lanes(module);
  aipu::python::bind_te(module);
}
