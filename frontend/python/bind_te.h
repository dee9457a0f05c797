// The parts of aipu._native.te, and what they share.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "kernels/te/expr.h"
#include "runtime/base/status.h"

namespace aipu::python {

void bind_te_expressions(pybind11::module_& m);
void bind_te_operations(pybind11::module_& m);
void bind_te_statements(pybind11::module_& m);
void bind_te_schedules(pybind11::module_& m);
void bind_te_lowering(pybind11::module_& m);

// Raises an error of `te` as the exception that aipu/te registers, TVMError.
[[noreturn]] void throw_te(const Status& status);

template <typename T>
T checked(Result<T> result) {
  if (!result.ok()) throw_te(result.status());
  return std::move(result).value();
}
inline void checked(const Status& status) {
  if (!status.ok()) throw_te(status);
}

// TypeError for what is no dtype.
te::Type type_of(const std::string& text);

}  // namespace aipu::python
