// The parts of aipu._native; each adds its classes and functions to the module.
#pragma once

#include <pybind11/pybind11.h>

#include "runtime/base/status.h"

namespace aipu::python {

void bind_compile(pybind11::module_& module);
void bind_runtime(pybind11::module_& module);
void bind_lanes(pybind11::module_& module);
void bind_te(pybind11::module_& module);
void bind_registry(pybind11::module_& module);

// Raises an error as a Python exception: RuntimeError, ValueError for invalid arguments, OSError for files.
[[noreturn]] void throw_status(const Status& status);

template <typename T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw_status(result.status());
  return std::move(result).value();
}

}  // namespace aipu::python
