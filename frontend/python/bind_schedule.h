// Block schedules, a part of aipu._native beside those in bindings.h.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "kernels/te/stmt.h"

namespace aipu::python {

void bind_schedule(pybind11::module_& module);  // after bind_te, whose classes it uses

// Tensors and variables (bind_te_lower.cpp).
pybind11::list list_of_parameters(const std::vector<te::Parameter>& params);

}  // namespace aipu::python
