// Block schedules, a part of aipu._native beside those in bindings.h.
#pragma once

#include <pybind11/pybind11.h>

namespace aipu::python {

void bind_schedule(pybind11::module_& module);  // after bind_te, whose classes it uses

}  // namespace aipu::python
