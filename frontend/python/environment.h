// Names of a kernel resolved in Python: the closure and the globals of the function that uses them, by value when the
// kernel is compiled.
#pragma once

#include <pybind11/pybind11.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/dsl/environment.h"
#include "runtime/base/status.h"

namespace aipu::python {

// Converts objects between Python and the DSL front end for one compilation. Holds the global interpreter lock
// throughout its life; the environments it makes must not outlive it.
class PythonCapture {
 public:
  explicit PythonCapture(std::string target);

  // A decorated function, with its source parsed. Errors carry the diagnostics of the source.
  Result<dsl::CapturedFunction> decorated(pybind11::handle function);
  // Any object: numbers, strings, containers, arrays and types by value, functions with their source where there is
  // one, the rest opaque.
  dsl::Captured capture(pybind11::handle object);
  // The way back, for calls of Python functions.
  pybind11::object to_python(const dsl::Captured& captured);

  const std::string& target() const { return target_; }
  // The helpers in aipu/_capture.py.
  pybind11::object helper(const char* name) const { return helpers_.attr(name); }

 private:
  Result<dsl::CapturedFunction> parse(pybind11::handle function, pybind11::handle wrapper);
  dsl::Captured opaque(pybind11::handle object, std::string script = {});
  // `function` with arguments given in advance; `object` as it is if that is no function with source.
  dsl::Captured with_bound(dsl::Captured function, const pybind11::tuple& args, const pybind11::dict& keywords,
                           pybind11::handle object);
  dsl::Captured plain_function(pybind11::handle function);
  dsl::CapturedRecordType record_type(pybind11::handle record);

  std::string target_;
  int depth_ = 0;  // of the containers being captured
  pybind11::object helpers_;
  pybind11::object script_;
  pybind11::object prim_func_, macro_, type_object_, pointer_type_, record_, data_type_;
  pybind11::object ndarray_, generic_, numpy_dtype_, partial_;
  pybind11::dict script_names_;  // id of a function of the script module -> its name
  struct Parsed {
    dsl::CapturedFunction function;
    pybind11::object object;  // keeps the identity alive
  };
  std::map<PyObject*, Parsed> functions_;
};

}  // namespace aipu::python
