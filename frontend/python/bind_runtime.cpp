// Loading and running an aipu.bin.
#include "frontend/python/bindings.h"

namespace aipu::python {

void bind_runtime(pybind11::module_&) {}

}  // namespace aipu::python
