// Block schedules for Python: functions of blocks and the primitives on them. The interface is aipu/schedule.py.
#include <pybind11/stl.h>

#include "frontend/python/bind_schedule.h"
#include "frontend/python/environment.h"
#include "kernels/dsl/parse_blocks.h"
#include "kernels/te/block_schedule.h"
#include "kernels/te/from_tir.h"

namespace aipu::python {

namespace py = pybind11;

namespace {

using te::BlockFunction;
using te::BlockNode;
using te::BlockNodePtr;
using te::BlockSchedule;
using te::Expr;
using te::LoopNode;
using te::LoopNodePtr;
using te::TreeNode;

// Errors of primitives become the exception that aipu/schedule.py registers, ScheduleError.
py::object& error_class() {
  static auto* type = new py::object(py::reinterpret_borrow<py::object>(PyExc_RuntimeError));
  return *type;
}

void checked(const Status& status) {
  if (status.ok()) return;
  PyErr_SetString(error_class().ptr(), status.message().c_str());
  throw py::error_already_set();
}
template <typename T>
T checked(Result<T> result) {
  if (!result.ok()) checked(result.status());
  return std::move(result).value();
}

// (function, "", "") or (None, diagnostics of the language, why it cannot be scheduled).
py::tuple parse_blocks(const py::object& function, const std::string& target) {
  PythonCapture capture(target);
  tir::BlockMarks marks;
  auto module = [&]() -> Result<tir::Module> {
    AIPU_ASSIGN_OR_RETURN(const dsl::CapturedFunction entry, capture.decorated(function));
    return dsl::parse_blocks(entry, &marks);
  }();
  if (!module.ok()) return py::make_tuple(py::none(), module.status().message(), "");
  auto blocks = te::block_function(*module, marks);
  if (!blocks.ok()) return py::make_tuple(py::none(), "", blocks.status().message());
  return py::make_tuple(std::move(*blocks), "", "");
}

// Tensors with their strides, and variables.
std::vector<te::Parameter> parameter_list(const py::list& params) {
  std::vector<te::Parameter> list;
  for (const py::handle& item : params) {
    if (py::isinstance<te::Tensor>(item))
      list.push_back({item.cast<te::Tensor>(), nullptr});
    else
      list.push_back({{}, item.cast<Expr>()});
  }
  return list;
}

void bind_functions(py::module_& m) {
  const py::class_<TreeNode, te::TreeNodePtr> node(m, "TreeNode", "A loop or a block.");
  py::class_<LoopNode, TreeNode, LoopNodePtr>(m, "LoopRV", "A loop of a schedule.")
      .def_property_readonly("name", &LoopNode::name)
      .def_readonly("extent", &LoopNode::extent)
      .def_property_readonly("kind", [](const LoopNode& loop) { return static_cast<int>(loop.kind); })
      .def("__repr__", [](const LoopNode& loop) { return "loop " + loop.name(); });
  py::class_<BlockNode, TreeNode, BlockNodePtr>(m, "BlockRV", "A block of a schedule.")
      .def_readonly("name", &BlockNode::name)
      .def_property_readonly("reads", [](const BlockNode& block) { return te::tensors_read_by(block); })
      .def_property_readonly("writes", [](const BlockNode& block) { return te::tensors_written_by(block); })
      .def("__repr__", [](const BlockNode& block) { return "block " + block.name; });
  py::class_<BlockFunction>(m, "BlockFunction", "Loops around blocks; a schedule changes a copy.")
      .def_readonly("name", &BlockFunction::name)
      .def_property_readonly("params",
                             [](const BlockFunction& function) { return list_of_parameters(function.params); })
      .def("named",
           [](const BlockFunction& function, std::string name) {
             BlockFunction copy = function.copy();
             copy.name = std::move(name);
             return copy;
           })
      .def("lower", [](const BlockFunction& function) { return te::lower_blocks(function); })
      .def("text", [](const BlockFunction& function) { return te::to_text(function); });
  m.def("parse_blocks", &parse_blocks);
  m.def("block_function", [](const py::list& params, std::string name) {
    return checked(te::block_function(parameter_list(params), std::move(name)));
  });
}

}  // namespace

void bind_schedule(py::module_& module) {
  py::module_ m = module.def_submodule("schedule", "Block schedules. Not for direct use: aipu.schedule.");
  bind_functions(m);
  py::class_<BlockSchedule>(m, "BlockSchedule")
      .def(py::init([](const BlockFunction& function) { return BlockSchedule(function.copy()); }))
      .def_property_readonly("function", [](const BlockSchedule& s) { return s.function().copy(); })
      .def("get_block", [](const BlockSchedule& s, const std::string& name) { return checked(s.get_block(name)); })
      .def("get_loops", [](const BlockSchedule& s, const BlockNodePtr& block) { return checked(s.get_loops(block)); })
      .def("get_producers", &BlockSchedule::get_producers)
      .def("get_consumers", &BlockSchedule::get_consumers)
      .def("get_child_blocks", [](const BlockSchedule& s, const LoopNode* loop) { return s.get_child_blocks(loop); })
      .def("get_output_blocks", &BlockSchedule::get_output_blocks)
      .def("add_unit_loop",
           [](BlockSchedule& s, const te::TreeNodePtr& node) { return checked(s.add_unit_loop(node)); })
      .def("note", [](BlockSchedule& s, const te::TreeNodePtr& node, const std::string& key,
                      Expr value) { checked(s.note(node, key, std::move(value))); })
      .def("remove_note", [](BlockSchedule& s, const te::TreeNodePtr& node,
                             const std::string& key) { checked(s.remove_note(node, key)); })
      .def("decompose_reduction", [](BlockSchedule& s, const BlockNodePtr& block,
                                     const LoopNodePtr& loop) { return checked(s.decompose_reduction(block, loop)); })
      .def("rfactor", [](BlockSchedule& s, const LoopNodePtr& loop,
                         int factor_axis) { return checked(s.rfactor(loop, factor_axis)); })
      .def("storage_align", [](BlockSchedule& s, const BlockNodePtr& block, size_t index, int axis, int64_t factor,
                               int64_t offset) { checked(s.storage_align(block, index, axis, factor, offset)); })
      .def("split", [](BlockSchedule& s, const LoopNodePtr& loop, const std::vector<Expr>& factors,
                       bool guard) { return checked(s.split(loop, factors, guard)); })
      .def("fuse", [](BlockSchedule& s, const std::vector<LoopNodePtr>& loops) { return checked(s.fuse(loops)); })
      .def("reorder", [](BlockSchedule& s, const std::vector<LoopNodePtr>& loops) { checked(s.reorder(loops)); })
      .def("annotate", [](BlockSchedule& s, const LoopNodePtr& loop,
                          int kind) { checked(s.annotate(loop, static_cast<te::LoopKind>(kind))); })
      .def("bind",
           [](BlockSchedule& s, const LoopNodePtr& loop, const std::string& tag) { checked(s.bind(loop, tag)); })
      .def("cache_read",
           [](BlockSchedule& s, const BlockNodePtr& block, size_t index, const std::string& scope,
              std::vector<BlockNodePtr> readers) {
             return checked(s.cache_read(block, index, scope, std::move(readers)));
           })
      .def("cache_write", [](BlockSchedule& s, const BlockNodePtr& block, size_t index,
                             const std::string& scope) { return checked(s.cache_write(block, index, scope)); })
      .def("read_at", [](BlockSchedule& s, const LoopNodePtr& loop, const BlockNodePtr& block, size_t index,
                         const std::string& scope) { return checked(s.read_at(loop, block, index, scope)); })
      .def("write_at", [](BlockSchedule& s, const LoopNodePtr& loop, const BlockNodePtr& block, size_t index,
                          const std::string& scope) { return checked(s.write_at(loop, block, index, scope)); })
      .def("set_scope", [](BlockSchedule& s, const BlockNodePtr& block, size_t index,
                           const std::string& scope) { checked(s.set_scope(block, index, scope)); })
      .def("compute_at", [](BlockSchedule& s, const BlockNodePtr& block,
                            const LoopNodePtr& loop) { checked(s.compute_at(block, loop)); })
      .def("reverse_compute_at", [](BlockSchedule& s, const BlockNodePtr& block,
                                    const LoopNodePtr& loop) { checked(s.reverse_compute_at(block, loop)); })
      .def("compute_inline", [](BlockSchedule& s, const BlockNodePtr& block) { checked(s.compute_inline(block)); })
      .def("reverse_compute_inline",
           [](BlockSchedule& s, const BlockNodePtr& block) { checked(s.reverse_compute_inline(block)); });
  m.def("set_error_class", [](py::object type) { error_class() = std::move(type); });
}

}  // namespace aipu::python
