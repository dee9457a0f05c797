// From a schedule to kernels, for Python: lowering, launches of a device, the interpreter.
#include <pybind11/stl.h>

#include <cstring>

#include "codegen/cuda_c/cuda_text.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/parameter_analysis.h"
#include "codegen/tir/text.h"
#include "frontend/python/array.h"
#include "frontend/python/bind_schedule.h"
#include "frontend/python/bind_te.h"
#include "frontend/python/bindings.h"
#include "kernels/te/lower.h"
#include "kernels/te/print.h"
#include "kernels/te/stmt.h"
#include "kernels/te/to_device.h"
#include "kernels/te/to_tir.h"
#include "kernels/te/visit.h"
#include "runtime/base/temporary.h"

namespace aipu::python {

namespace py = pybind11;
using te::Expr;

namespace {

py::list workspace_list(const std::vector<te::Workspace>& workspaces) {
  py::list list;
  for (const te::Workspace& w : workspaces) list.append(py::make_tuple(w.name, te::type_text(w.type), w.elements));
  return list;
}

// A launch: (name, kernel IR, CUDA C, arguments, names of thread axes, their extents); a loop: (var, extent, steps).
py::list step_list(const std::vector<te::DeviceStep>& steps) {
  py::list list;
  for (const te::DeviceStep& step : steps) {
    if (const auto* loop = std::get_if<te::DeviceLoop>(&step.what)) {
      list.append(py::make_tuple(loop->var, loop->extent, step_list(loop->body)));
      continue;
    }
    const auto& launch = std::get<te::DeviceLaunch>(step.what);
    const tir::PrimFunc& entry = launch.module.entry();
    std::vector<bool> written = tir::written_parameters(launch.module);
    written.resize(launch.arguments.size());
    py::list axes;
    for (size_t i = launch.arguments.size(); i < entry.params.size(); ++i) axes.append(entry.params[i]->name);
    list.append(py::make_tuple(entry.name, tir::print_module(launch.module),
                               checked(tir::cuda_text(entry.name, launch.module)), launch.arguments, axes,
                               launch.extents, written));
  }
  return list;
}

tir::InterpreterArgument scalar_argument(const py::handle& value, const std::string& dtype) {
  const DType element = type_of(dtype).element;
  tir::InterpreterArgument argument;
  if (element == DType::kF32) {
    const auto number = value.cast<float>();
    std::memcpy(&argument.word, &number, sizeof(number));
  } else if (element == DType::kF64) {
    const auto number = value.cast<double>();
    std::memcpy(&argument.word, &number, sizeof(number));
  } else if (is_floating(element)) {
    throw py::type_error("a scalar argument of type " + dtype + " is not supported by the interpreter");
  } else {
    argument.word = static_cast<uint64_t>(value.cast<int64_t>());
  }
  return argument;
}

// Runs a kernel on arrays (dtype "") and scalars, every access checked.
void interpret(const te::Kernel& kernel, const py::list& arguments, int tec_count) {
  std::vector<tir::InterpreterArgument> words;
  std::vector<std::unique_ptr<ArrayBuffer>> buffers;
  for (const py::handle& item : arguments) {
    const auto pair = item.cast<py::tuple>();
    const auto dtype = pair[1].cast<std::string>();
    if (!dtype.empty()) {
      words.push_back(scalar_argument(pair[0], dtype));
      continue;
    }
    auto buffer = std::make_unique<ArrayBuffer>();
    if (buffer->acquire(pair[0].cast<py::object>()) == DType::kVoid)
      throw py::type_error("an array of an unknown type");
    tir::InterpreterArgument argument;
    argument.data = static_cast<std::byte*>(buffer->view().buf);
    argument.bytes = static_cast<size_t>(buffer->view().len);
    argument.writable = buffer->view().readonly == 0;
    argument.is_pointer = true;
    words.push_back(argument);
    buffers.push_back(std::move(buffer));
  }
  const Status status = [&] {
    const py::gil_scoped_release released;
    return tir::interpret_all(kernel.module, tec_count, words);
  }();
  checked(status);
}

// Of pairs: a tensor and the strides of its memory, or a variable and anything.
std::vector<te::Parameter> parameters_of(const py::list& params) {
  std::vector<te::Parameter> list;
  for (const py::handle& item : params) {
    const auto pair = item.cast<py::tuple>();
    if (py::isinstance<te::Tensor>(pair[0]))
      list.push_back({pair[0].cast<te::Tensor>(), nullptr, pair[1].cast<std::vector<Expr>>()});
    else
      list.push_back({{}, pair[0].cast<Expr>()});
  }
  return list;
}

}  // namespace

py::list list_of_parameters(const std::vector<te::Parameter>& params) {
  py::list list;
  for (const te::Parameter& param : params) {
    if (param.tensor.op)
      list.append(param.tensor);
    else
      list.append(param.var);
  }
  return list;
}

void bind_te_lowering(py::module_& m) {
  m.def("has_packed_call", &te::has_packed_call);
  py::class_<te::Function>(m, "NativeFunction")
      .def_readonly("name", &te::Function::name)
      .def_property_readonly("body", [](const te::Function& f) { return f.body; })
      .def("text", [](const te::Function& f) { return te::to_text(f); })
      .def_property_readonly("has_packed_call", [](const te::Function& f) { return te::has_packed_call(f.body); })
      .def_property_readonly("tensors",
                             [](const te::Function& f) {
                               std::vector<te::Tensor> list;
                               for (const te::Parameter& param : f.params) {
                                 if (param.tensor.op) list.push_back(param.tensor);
                               }
                               return list;
                             })
      .def_property_readonly("params", [](const te::Function& f) { return list_of_parameters(f.params); })
      .def("to_tir", [](const te::Function& f) { return checked(te::to_tir(f)); })
      .def("to_device", [](const te::Function& f) { return checked(te::to_device(f)); });
  py::class_<te::Kernel>(m, "Kernel")
      .def_readonly("sizes", &te::Kernel::sizes)
      .def_property_readonly("workspaces", [](const te::Kernel& k) { return workspace_list(k.workspaces); })
      .def("text", [](const te::Kernel& k) { return tir::print_module(k.module); })
      .def("interpret", &interpret, py::arg("arguments"), py::arg("tec_count"));
  py::class_<te::DeviceProgram>(m, "DeviceProgram")
      .def_readonly("sizes", &te::DeviceProgram::sizes)
      .def_property_readonly("workspaces", [](const te::DeviceProgram& p) { return workspace_list(p.workspaces); })
      .def_property_readonly("steps", [](const te::DeviceProgram& p) { return step_list(p.steps); });
  m.def(
      "lower",
      [](const te::Schedule& schedule, const py::list& params, std::string name, bool shared_by_threads, bool shown) {
        const te::Purpose purpose = shown ? te::Purpose::kShown : te::Purpose::kRun;
        return checked(
            te::lower_schedule(schedule, parameters_of(params), std::move(name), shared_by_threads, purpose));
      },
      py::arg("schedule"), py::arg("params"), py::arg("name"), py::arg("shared_by_threads") = false,
      py::arg("shown") = false);
  m.def("function_of", [](std::string name, const py::list& params, te::Stmt body) {
    return te::Function{std::move(name), parameters_of(params), std::move(body)};
  });
  m.def("cuda_prelude", &tir::cuda_prelude, "What the CUDA C of kernels stands on.");
  // `known`: tensors with their strides and boxes.
  m.def("outline", [](std::string name, const te::Stmt& body,
                      const std::vector<std::tuple<te::Tensor, std::vector<Expr>, std::vector<te::Range>>>& known) {
    std::vector<te::Parameter> list;
    for (const auto& [tensor, strides, box] : known) list.push_back({tensor, nullptr, strides, box});
    return te::outline(std::move(name), body, list);
  });
  m.def("infer_bounds", [](const te::Schedule& schedule) {
    const auto nests = checked(te::infer_bounds(schedule, {}, te::Threads::kDeclared));
    te::Substitution axes;  // in place of the loops that they have become
    for (const auto& [stage, nest] : nests) {
      for (const te::Loop& loop : nest.loops) axes[loop.var.get()] = loop.axis->var;
    }
    py::list list;
    for (const auto& [stage, nest] : nests) {
      for (const te::IterVarPtr& axis : stage->all_iter_vars) {
        const te::Range& range = nest.domain.at(axis.get());
        list.append(
            py::make_tuple(axis, te::Range{te::substitute(range.min, axes), te::substitute(range.extent, axes)}));
      }
    }
    return list;
  });
  py::class_<Temporary>(m, "TemporaryFolder", "A new folder, removed with all that is in it when the object goes.")
      .def(py::init([](const std::string& prefix) { return value_or_throw(Temporary::create_folder(prefix)); }))
      .def_property_readonly("path", &Temporary::path);
}

}  // namespace aipu::python
