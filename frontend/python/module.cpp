#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <vector>

#include "frontend/python/bind_schedule.h"
#include "frontend/python/bindings.h"
#include "runtime/base/dtype.h"
#include "runtime/base/file.h"
#include "runtime/base/stored_type.h"
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
      "element_types",
      [] {
        std::vector<std::tuple<std::string, int, int, std::string>> rows;
        for (int i = 0; i < aipu::kDTypeCount; ++i) {
          const auto dtype = static_cast<aipu::DType>(i);
          const aipu::DTypeInfo& info = aipu::dtype_info(dtype);
          if (info.onnx == 0 || dtype == aipu::DType::kString) continue;
          rows.emplace_back(info.name, info.bits, info.onnx, aipu::dtype_name(aipu::held_as(dtype)));
        }
        return rows;
      },
      "Of each element type of tensors: its name, its bits, its number in ONNX, and the type that holds an element of "
      "it where it is only stored, else its own name.");
  // The names of files may be no UTF-8, which Python has as lone surrogates.
  const auto utf8_of = [](const pybind11::str& text) {
    return std::string(pybind11::bytes(text.attr("encode")("utf-8", "backslashreplace")));
  };
  module.def(
      "printable", [utf8_of](const pybind11::str& text) { return aipu::printable(utf8_of(text)); },
      pybind11::arg("text"), "The text with what a terminal would act on written as \\xNN.");
  module.def(
      "printable_message", [utf8_of](const pybind11::str& text) { return aipu::printable_message(utf8_of(text)); },
      pybind11::arg("text"), "printable() of an error: mistakes in a kernel's source stay lines.");
  aipu::python::bind_compile(module);
  aipu::python::bind_runtime(module);
  aipu::python::bind_lanes(module);
  aipu::python::bind_te(module);
  aipu::python::bind_schedule(module);
  aipu::python::bind_registry(module);
}
