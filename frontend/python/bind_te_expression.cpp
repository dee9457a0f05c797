// Expressions and axes of `te` for Python, and what can be said of them.
#include <pybind11/stl.h>

#include <algorithm>

#include "frontend/python/bind_te.h"
#include "kernels/te/arith/analyzer.h"
#include "kernels/te/functions.h"
#include "kernels/te/operation.h"
#include "kernels/te/print.h"
#include "kernels/te/visit.h"

namespace aipu::python {

namespace py = pybind11;
using te::Expr;
using te::ExprNode;

namespace {

// The class of a node as Python knows it.
std::string kind_of(const ExprNode& e) {
  return std::visit(te::Overloaded{
                        [](const te::IntImm&) -> std::string { return "IntImm"; },
                        [](const te::FloatImm&) -> std::string { return "FloatImm"; },
                        [](const te::StringImm&) -> std::string { return "StringImm"; },
                        [](const te::Var& n) -> std::string { return n.size ? "SizeVar" : "Var"; },
                        [](const te::Binary& n) { return std::string(te::binary_row(n.op).node); },
                        [](const te::Not&) -> std::string { return "Not"; },
                        [](const te::Select&) -> std::string { return "Select"; },
                        [](const te::Cast&) -> std::string { return "Cast"; },
                        [](const te::Call&) -> std::string { return "Call"; },
                        [](const te::Read&) -> std::string { return "ProducerLoad"; },
                        [](const te::Reduce&) -> std::string { return "Reduce"; },
                    },
                    e.node);
}

// The parts of a node by the names that Python sees.
py::dict fields_of(const ExprNode& e) {
  py::dict f;
  std::visit(te::Overloaded{
                 [&](const te::IntImm& n) {
                   if (is_bool(e.type.element))
                     f["value"] = n.value != 0;
                   else
                     f["value"] = n.value;
                 },
                 [&](const te::FloatImm& n) { f["value"] = n.value; },
                 [&](const te::StringImm& n) { f["value"] = n.value; },
                 [&](const te::Var& n) { f["name"] = n.name; },
                 [&](const te::Binary& n) {
                   f["a"] = n.a;
                   f["b"] = n.b;
                 },
                 [&](const te::Not& n) { f["a"] = n.a; },
                 [&](const te::Select& n) {
                   f["condition"] = n.condition;
                   f["true_value"] = n.true_value;
                   f["false_value"] = n.false_value;
                 },
                 [&](const te::Cast& n) { f["value"] = n.value; },
                 [&](const te::Call& n) {
                   f["function"] = n.name;
                   f["args"] = n.args;
                 },
                 [&](const te::Read& n) {
                   f["producer"] = te::Tensor{n.op, n.value_index};
                   f["indices"] = n.indices;
                 },
                 [&](const te::Reduce& n) {
                   f["combiner"] = n.combiner;
                   f["source"] = n.source;
                   f["axis"] = n.axis;
                   f["condition"] = n.condition;
                   f["value_index"] = n.value_index;
                   f["init"] = n.init;
                 },
             },
             e.node);
  return f;
}

}  // namespace

void bind_te_expressions(py::module_& m) {
  py::class_<ExprNode, Expr>(m, "PrimExpr", "An expression; `node` says which, the parts are attributes.")
      .def_property_readonly("node", [](const ExprNode& e) { return kind_of(e); })
      .def_property_readonly("dtype", [](const ExprNode& e) { return te::type_text(e.type); })
      .def(
          "fields", [](const ExprNode& e) { return fields_of(e); }, "The parts by name.")
      .def("text", [](const Expr& e) { return te::to_text(e); })
      .def(
          "key", [](const Expr& e) { return te::structural_key(e); }, "Equal for equal expressions.")
      .def("same_as", [](const Expr& a, const Expr& b) { return a == b; });
  py::class_<te::Range>(m, "NativeRange")
      .def(py::init([](Expr min, Expr extent) {
        return te::Range{std::move(min), std::move(extent)};
      }))
      .def_readonly("min", &te::Range::min)
      .def_readonly("extent", &te::Range::extent);
  py::class_<te::IterVar, te::IterVarPtr>(m, "IterVar", "An axis: a variable with a domain.")
      .def(py::init([](Expr var, std::optional<te::Range> dom, int kind, std::string tag) {
             return std::make_shared<te::IterVar>(
                 te::IterVar{std::move(var), std::move(dom), static_cast<te::IterKind>(kind), std::move(tag)});
           }),
           py::arg("var"), py::arg("dom"), py::arg("kind"), py::arg("thread_tag") = "")
      .def_readonly("var", &te::IterVar::var)
      .def_property_readonly("native_dom", [](const te::IterVar& i) { return i.dom; })
      .def_property_readonly("iter_type", [](const te::IterVar& i) { return static_cast<int>(i.kind); })
      .def_readonly("thread_tag", &te::IterVar::thread_tag);
  m.def("int_imm", [](int64_t value, const std::string& dtype) { return te::make_int(value, type_of(dtype)); });
  m.def("float_imm", [](double value, const std::string& dtype) { return te::make_float(value, type_of(dtype)); });
  m.def("string_imm", [](std::string value) {
    return te::make_expr(te::Type::scalar(DType::kString), te::StringImm{std::move(value)});
  });
  m.def("variable", [](std::string name, const std::string& dtype, bool size) {
    return te::make_var(std::move(name), type_of(dtype), size);
  });
  m.def("binary", [](const std::string& node, Expr a, Expr b) {
    const auto op = te::find_binary(node);
    if (!op) throw py::value_error("no operation " + node);
    return checked(te::binary(*op, std::move(a), std::move(b)));
  });
  m.def("common_dtype", [](const std::string& a, const std::string& b) {
    return te::type_text(checked(te::common_type(type_of(a), type_of(b))));
  });
  m.def("logical_not", [](Expr a) { return te::make_not(std::move(a)); });
  m.def("cast", [](const std::string& dtype, Expr e) { return checked(te::convert(type_of(dtype), std::move(e))); });
  m.def("select", [](Expr c, Expr a, Expr b) {
    const te::Type type = a->type;
    return te::make_expr(type, te::Select{std::move(c), std::move(a), std::move(b)});
  });
  m.def("if_then_else", [](const Expr& c, const Expr& a, const Expr& b) { return checked(te::if_then_else(c, a, b)); });
  m.def("reinterpret",
        [](const std::string& dtype, Expr e) { return checked(te::reinterpret(type_of(dtype), std::move(e))); });
  m.def("likely", [](Expr c) { return te::make_expr(c->type, te::Call{"likely", {c}}); });
  m.def("call",
        [](const std::string& name, std::vector<Expr> args) { return checked(te::call(name, std::move(args))); });
  // A value of a function that is called by name: the name, then what it is given.
  m.def("packed_value", [](const std::string& kind, const std::string& dtype, std::vector<Expr> args) {
    return te::make_expr(type_of(dtype), te::Call{kind, std::move(args)});
  });
  m.def("function_names", [] {
    std::vector<std::string> names;
    for (const std::string_view name : te::function_names()) names.emplace_back(name);
    return names;
  });
  m.def("min_value", [](const std::string& dtype) { return te::min_value(type_of(dtype)); });
  m.def("max_value", [](const std::string& dtype) { return te::max_value(type_of(dtype)); });
  m.def("is_dtype", [](const std::string& dtype) { return te::parse_type(dtype).has_value(); });
  m.def("substitute", [](const Expr& e, const std::vector<std::pair<Expr, Expr>>& values) {
    te::Substitution map;
    for (const auto& [var, value] : values) map[var.get()] = value;
    return te::substitute(e, map);
  });
  m.def("variables", [](const Expr& e) {
    std::vector<Expr> found;
    te::walk(e, [&](const Expr& x) {
      if (x->as<te::Var>() != nullptr && std::find(found.begin(), found.end(), x) == found.end()) found.push_back(x);
    });
    return found;
  });
  py::class_<te::Analyzer>(m, "NativeAnalyzer")
      .def(py::init<>())
      .def("bind", [](te::Analyzer& a, const Expr& var, const te::Range& range) { a.bind(var, range); })
      .def("assume_non_negative", &te::Analyzer::assume_non_negative)
      .def("simplify", [](te::Analyzer& a, const Expr& e) { return a.simplify(e); })
      .def("can_prove", &te::Analyzer::prove)
      .def("const_bound",
           [](te::Analyzer& a, const Expr& e) {
             const te::ConstBound bound = a.bound(e);
             return py::make_tuple(bound.lo, bound.hi);
           })
      .def("interval", [](te::Analyzer& a, const Expr& e, const Expr& var, const Expr& lo, const Expr& hi) {
        const te::Interval range = a.interval(e, var, {lo, hi});
        return py::make_tuple(range.lo, range.hi);
      });
}

}  // namespace aipu::python
