// Tensors and the operations of `te` for Python: computes, scans, externs, intrinsics.
#include <pybind11/stl.h>

#include "frontend/python/bind_te.h"
#include "kernels/te/operation.h"
#include "kernels/te/schedule.h"
#include "kernels/te/stmt.h"
#include "kernels/te/visit.h"

namespace aipu::python {

namespace py = pybind11;
using te::Expr;

namespace {

py::dict parts_of(const te::Operation& op) {
  py::dict f;
  if (const te::Scan* scan = op.scan()) {
    f["scan_axis"] = scan->axis;
    f["init"] = scan->init;
    f["update"] = scan->update;
    f["state_placeholder"] = scan->state;
    f["inputs"] = scan->inputs;
    f["spatial_axis_"] = scan->spatial;
  }
  if (const te::Compute* compute = op.compute(); compute != nullptr && compute->call) {
    f["schedulable_ndim"] = compute->call->schedulable;
    f["inputs"] = compute->call->inputs;
    f["native_regions"] = compute->call->regions;
    f["native_intrin"] = compute->call->intrin;
  }
  if (const te::Extern* external = op.external()) {
    f["inputs"] = external->inputs;
    f["input_buffers"] = external->input_buffers;
    f["output_buffers"] = external->output_buffers;
    f["body"] = external->body;
  }
  return f;
}

}  // namespace

void bind_te_operations(py::module_& m) {
  using te::Operation;
  py::class_<te::Combiner, te::CombinerPtr>(m, "CommReducer")
      .def(py::init([](std::string name, std::vector<Expr> lhs, std::vector<Expr> rhs, std::vector<Expr> result,
                       std::vector<Expr> identity) {
        return std::make_shared<te::Combiner>(
            te::Combiner{std::move(name), std::move(lhs), std::move(rhs), std::move(result), std::move(identity)});
      }))
      .def_readonly("name", &te::Combiner::name)
      .def_readonly("lhs", &te::Combiner::lhs)
      .def_readonly("rhs", &te::Combiner::rhs)
      .def_readonly("result", &te::Combiner::result)
      .def_readonly("identity_element", &te::Combiner::identity);
  py::class_<te::Tensor>(m, "Tensor", "An output of an operation.")
      .def_readonly("op", &te::Tensor::op)
      .def_readonly("value_index", &te::Tensor::value_index)
      .def_property_readonly("native_shape", [](const te::Tensor& t) { return t.shape(); })
      .def_property_readonly("dtype", [](const te::Tensor& t) { return te::type_text(t.type()); })
      .def_property_readonly("name", &te::Tensor::name)
      .def_property_readonly(
          "identity",
          [](const te::Tensor& t) { return py::make_tuple(reinterpret_cast<uintptr_t>(t.op.get()), t.value_index); })
      .def("same_as", [](const te::Tensor& a, const te::Tensor& b) { return a == b; })
      .def("element", [](const te::Tensor& t, std::vector<Expr> indices) {
        auto element = te::element(t, std::move(indices));
        if (!element.ok()) throw py::value_error(element.status().message());
        return std::move(element).value();
      });
  py::class_<Operation, te::OperationPtr>(m, "Operation")
      .def_readonly("name", &Operation::name)
      .def_readonly("tag", &Operation::tag)
      .def_property_readonly("is_compute", [](const Operation& op) { return op.compute() != nullptr; })
      .def_property_readonly("kind",
                             [](const Operation& op) {
                               static constexpr const char* kNames[] = {"placeholder", "compute", "scan", "extern"};
                               return kNames[op.what.index()];
                             })
      .def_property_readonly("attr_items", [](const Operation& op) { return op.attrs; })
      .def(
          "parts", [](const Operation& op) { return parts_of(op); }, "Of a scan or an extern, by name.")
      .def_property_readonly("num_outputs", &Operation::output_count)
      .def_property_readonly("axis",
                             [](const Operation& op) {
                               return op.compute() != nullptr ? op.compute()->axis : std::vector<te::IterVarPtr>{};
                             })
      .def_property_readonly("reduce_axis",
                             [](const Operation& op) {
                               std::vector<te::IterVarPtr> axes;
                               if (const te::Compute* compute = op.compute()) {
                                 axes = compute->reduce_axis;
                                 if (compute->call) axes.resize(compute->call->reduced);
                               }
                               return axes;
                             })
      .def_property_readonly(
          "body",
          [](const Operation& op) { return op.compute() != nullptr ? op.compute()->body : std::vector<Expr>{}; })
      .def_property_readonly("input_tensors", [](const Operation& op) { return te::tensors_read(op); })
      .def("output", [](const te::OperationPtr& op, int i) {
        if (i < 0 || i >= op->output_count()) throw py::index_error("no such output of " + op->name);
        return te::Tensor{op, i};
      });
  m.def("placeholder", [](std::string name, std::vector<Expr> shape, const std::string& dtype) {
    return te::Tensor{te::make_placeholder(std::move(name), std::move(shape), type_of(dtype)), 0};
  });
  using Attributes = std::vector<std::pair<std::string, Expr>>;
  const auto with = [](const te::OperationPtr& op, Attributes attrs) {
    if (attrs.empty()) return op;
    auto copy = std::make_shared<Operation>(*op);
    copy->attrs = std::move(attrs);
    return te::OperationPtr(std::move(copy));
  };
  m.def("compute", [with](std::string name, std::string tag, std::vector<te::IterVarPtr> axis, std::vector<Expr> body,
                          Attributes attrs) {
    return with(checked(te::make_compute(std::move(name), std::move(tag), std::move(axis), std::move(body))),
                std::move(attrs));
  });
  // An expression with elements of other tensors, at their places from `base` on, and with values of variables.
  m.def("read_regions",
        [](const Expr& e, const std::vector<std::tuple<te::Tensor, te::Tensor, std::vector<Expr>>>& targets,
           const std::vector<std::pair<Expr, Expr>>& values) {
          te::BufferTargets map;
          for (const auto& [from, to, base] : targets) map[{from.op.get(), from.value_index}] = {to, base};
          te::Substitution substitution;
          for (const auto& [var, value] : values) substitution[var.get()] = value;
          return te::bind_buffers(e, map, substitution);
        });
  // The operation, made by a call of an intrinsic.
  m.def("tensor_call", [](const te::OperationPtr& op, const std::shared_ptr<te::TensorIntrin>& intrin,
                          size_t schedulable, size_t reduced, std::vector<te::Tensor> inputs,
                          std::vector<std::vector<te::Range>> regions, std::vector<std::pair<Expr, Expr>> values) {
    auto copy = std::make_shared<Operation>(*op);
    std::get<te::Compute>(copy->what).call = std::make_shared<te::TensorCall>(
        te::TensorCall{intrin, schedulable, reduced, std::move(inputs), std::move(regions), std::move(values)});
    return te::OperationPtr(std::move(copy));
  });
  m.def("scan", [with](std::string name, std::string tag, std::vector<te::Tensor> init, std::vector<te::Tensor> update,
                       std::vector<te::Tensor> state, std::vector<te::Tensor> inputs, Attributes attrs) {
    te::Scan scan{nullptr, std::move(init), std::move(update), std::move(state), std::move(inputs), {}};
    return with(checked(te::make_scan(std::move(name), std::move(tag), std::move(scan))), std::move(attrs));
  });
  m.def("extern",
        [with](std::string name, std::string tag, std::vector<te::Tensor> inputs, std::vector<te::Tensor> input_buffers,
               std::vector<te::Tensor> output_buffers, te::Stmt body, Attributes attrs) {
          te::Extern what{std::move(inputs), std::move(input_buffers), std::move(output_buffers), std::move(body)};
          return with(std::make_shared<Operation>(Operation{std::move(name), std::move(tag), std::move(what)}),
                      std::move(attrs));
        });
  py::class_<te::TensorIntrin, std::shared_ptr<te::TensorIntrin>>(m, "NativeIntrin")
      .def(py::init([](std::string name, te::OperationPtr op, std::vector<te::Tensor> inputs,
                       std::vector<te::Tensor> buffers, std::vector<std::vector<Expr>> strides, te::Stmt body,
                       te::Stmt init, te::Stmt update) {
        return std::make_shared<te::TensorIntrin>(
            te::TensorIntrin{std::move(name), std::move(op), std::move(inputs), std::move(buffers), std::move(strides),
                             std::move(body), std::move(init), std::move(update)});
      }));
  m.def("reduce", [](te::CombinerPtr combiner, std::vector<Expr> source, std::vector<te::IterVarPtr> axis,
                     Expr condition, std::vector<Expr> init, int value_index) {
    return checked(te::make_reduce(std::move(combiner), std::move(source), std::move(axis), std::move(condition),
                                   std::move(init), value_index));
  });
}

}  // namespace aipu::python
