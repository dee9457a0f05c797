// Targets and the compiler.
#include "codegen/targets/target.h"
#include "frontend/python/bindings.h"

namespace aipu::python {

namespace py = pybind11;

namespace {

py::dict target_row(const tir::Target& target) {
  py::dict row;
  row["name"] = target.name;
  row["family"] = target.family == tir::TargetFamily::kHost ? "host" : "compass";
  row["version"] = target.version;
  row["core_count"] = target.core_count;
  row["tec_count"] = target.tec_count;
  row["vector_width"] = target.vector_bits;
  row["lsram_bytes"] = target.lsram_bytes;
  row["shared_bytes"] = target.shared_bytes;
  return row;
}

}  // namespace

void bind_compile(py::module_& module) {
  module.def(
      "target", [](const std::string& name) { return target_row(value_or_throw(tir::find_target(name))); }, py::arg("name"),
      "The row of a target by name, \"host\" and \"compass -mcpu=NAME\" resolved; ValueError for unknown names.");
}

}  // namespace aipu::python
