// Statements of `te` for Python: those that lowering makes, to look at, and those that are written by hand.
#include <pybind11/stl.h>

#include "frontend/python/bind_te.h"
#include "kernels/te/double_buffer.h"
#include "kernels/te/print.h"
#include "kernels/te/stmt.h"
#include "kernels/te/visit.h"

namespace aipu::python {

namespace py = pybind11;
using te::Expr;

namespace {

std::string kind_of(const te::StmtNode& s) {
  static constexpr const char* kNames[] = {"For",     "IfThenElse", "Store",      "LetStmt", "Realize",
                                           "SeqStmt", "AttrStmt",   "PackedCall", "While"};
  return kNames[s.node.index()];
}

// In elements.
std::vector<Expr> strides_of(const te::Realize& n) {
  std::vector<Expr> extents;
  for (const te::Range& range : te::box_of(n)) extents.push_back(range.extent);
  return te::strides_of(extents, n.alignment);
}

// Of each dimension's stride: factor and offset; empty where they are natural.
std::vector<std::pair<int64_t, int64_t>> alignment_of(const te::Realize& n) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const te::Alignment& a : n.alignment) pairs.emplace_back(a.factor, a.offset);
  return pairs;
}

// Values, and views as (tensor, ranges, which dimensions are dropped, whether the address alone).
py::list arguments_of(const te::PackedCall& n) {
  py::list list;
  for (const te::PackedArgument& arg : n.args) {
    if (arg.value)
      list.append(arg.value);
    else
      list.append(py::make_tuple(arg.view->tensor, arg.view->region, arg.view->dropped, arg.view->pointer));
  }
  return list;
}

py::dict fields_of(const te::StmtNode& s) {
  py::dict f;
  std::visit(te::Overloaded{
                 [&](const te::For& n) {
                   f["loop_var"] = n.var;
                   f["min"] = te::make_int(0, n.var->type);
                   f["extent"] = n.extent;
                   f["kind"] = static_cast<int>(n.kind);
                   f["thread_binding"] = n.thread;
                   f["shared_out"] = n.shared_out;
                   f["body"] = n.body;
                 },
                 [&](const te::If& n) {
                   f["condition"] = n.condition;
                   f["then_case"] = n.then_body;
                   f["else_case"] = n.else_body;
                 },
                 [&](const te::While& n) {
                   f["condition"] = n.condition;
                   f["body"] = n.body;
                 },
                 [&](const te::Store& n) {
                   f["producer"] = n.tensor;
                   f["indices"] = n.indices;
                   f["value"] = n.value;
                 },
                 [&](const te::Let& n) {
                   f["var"] = n.var;
                   f["value"] = n.value;
                   f["body"] = n.body;
                 },
                 [&](const te::Realize& n) {
                   f["producer"] = te::Tensor{n.op, n.value_index};
                   f["bounds"] = te::box_of(n);
                   f["scope"] = n.scope;
                   f["body"] = n.body;
                   f["strides"] = strides_of(n);
                   f["alignment"] = alignment_of(n);
                 },
                 [&](const te::Seq& n) { f["seq"] = n.body; },
                 [&](const te::Pragma& n) {
                   const bool scope = n.key == te::kDoubleBufferScope || n.key == te::kPrefetchScope;
                   f["attr_key"] = scope ? n.key : "pragma_" + n.key;
                   f["value"] = n.value;
                   f["body"] = n.body;
                 },
                 [&](const te::PackedCall& n) {
                   f["function"] = n.name;
                   f["is_c"] = n.is_c;
                   f["args"] = arguments_of(n);
                 },
             },
             s.node);
  return f;
}

// The statements that are written by hand, for externs and intrinsics.
void bind_handwritten(py::module_& m) {
  // `shared_out`: by default that of parallel loops.
  m.def(
      "stmt_for",
      [](Expr var, Expr extent, int kind, te::Stmt body, te::IterVarPtr thread, std::optional<bool> shared_out) {
        const auto loop = static_cast<te::LoopKind>(kind);
        const bool shared = shared_out.value_or(loop == te::LoopKind::kParallel);
        return te::make_stmt(
            te::For{std::move(var), std::move(extent), loop, std::move(thread), shared, std::move(body)});
      },
      py::arg("var"), py::arg("extent"), py::arg("kind"), py::arg("body"), py::arg("thread") = nullptr,
      py::arg("shared_out") = std::nullopt);
  m.def(
      "stmt_if",
      [](Expr condition, te::Stmt body, te::Stmt otherwise) {
        return te::make_stmt(te::If{std::move(condition), std::move(body), std::move(otherwise)});
      },
      py::arg("condition"), py::arg("body"), py::arg("otherwise") = nullptr);
  m.def("stmt_while", [](Expr condition, te::Stmt body) {
    return te::make_stmt(te::While{std::move(condition), std::move(body)});
  });
  m.def("stmt_store", [](te::Tensor tensor, std::vector<Expr> indices, const Expr& value) {
    const te::Type type = tensor.type();
    return te::make_stmt(te::Store{std::move(tensor), std::move(indices), checked(te::convert(type, value))});
  });
  m.def("stmt_seq", [](std::vector<te::Stmt> body) {
    te::Stmt all = te::sequence(std::move(body));
    return all ? all : te::make_stmt(te::Seq{});
  });
  m.def("stmt_let", [](Expr var, Expr value, te::Stmt body) {
    return te::make_stmt(te::Let{std::move(var), std::move(value), std::move(body)});
  });
  m.def("stmt_pragma", [](std::string key, Expr value, te::Stmt body) {
    return te::make_stmt(te::Pragma{std::move(key), std::move(value), std::move(body)});
  });
  m.def(
      "stmt_realize",
      [](const te::Tensor& tensor, std::string scope, te::Stmt body, std::vector<te::Range> bounds,
         const std::vector<std::pair<int64_t, int64_t>>& alignment) {
        std::vector<te::Alignment> strides;
        for (const auto& [factor, offset] : alignment) strides.push_back({factor, offset});
        return te::make_stmt(te::Realize{tensor.op, std::move(bounds), std::move(scope), std::move(strides),
                                         std::move(body), tensor.value_index});
      },
      py::arg("tensor"), py::arg("scope"), py::arg("body"), py::arg("bounds") = std::vector<te::Range>{},
      py::arg("alignment") = std::vector<std::pair<int64_t, int64_t>>{});
  // Arguments: expressions, or (tensor, ranges, whether the address alone), (tensor, ranges, dropped dimensions,
  // whether the address alone).
  m.def("stmt_packed", [](std::string name, const py::list& args, bool is_c) {
    te::PackedCall call{std::move(name), {}, is_c};
    for (const py::handle& arg : args) {
      if (!py::isinstance<py::tuple>(arg)) {
        call.args.push_back({arg.cast<Expr>(), std::nullopt});
        continue;
      }
      const auto view = arg.cast<py::tuple>();
      std::vector<bool> dropped;
      if (view.size() == 4) dropped = view[2].cast<std::vector<bool>>();
      call.args.push_back({nullptr, te::View{view[0].cast<te::Tensor>(), view[1].cast<std::vector<te::Range>>(),
                                             std::move(dropped), view[view.size() - 1].cast<bool>()}});
    }
    return te::make_stmt(std::move(call));
  });
}

}  // namespace

void bind_te_statements(py::module_& m) {
  py::class_<te::StmtNode, te::Stmt>(m, "Stmt", "A statement; `node` says which, the parts are attributes.")
      .def_property_readonly("node", [](const te::StmtNode& s) { return kind_of(s); })
      .def(
          "fields", [](const te::StmtNode& s) { return fields_of(s); }, "The parts by name.")
      .def_property_readonly("address", [](const te::Stmt& s) { return reinterpret_cast<uintptr_t>(s.get()); })
      .def("text", [](const te::Stmt& s) { return te::to_text(s); });
  bind_handwritten(m);
}

}  // namespace aipu::python
