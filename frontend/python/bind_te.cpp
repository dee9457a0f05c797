// Tensor expressions for Python: the nodes, the schedule's primitives, lowering. Operators and conversions of Python's
// values are in aipu/te.
#include <pybind11/stl.h>

#include <cstring>
#include <map>

#include "codegen/cuda_c/cuda_text.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "frontend/python/array.h"
#include "frontend/python/bind_schedule.h"
#include "frontend/python/bindings.h"
#include "kernels/te/functions.h"
#include "kernels/te/lower.h"
#include "kernels/te/print.h"
#include "kernels/te/rules.h"
#include "kernels/te/to_device.h"
#include "kernels/te/to_tir.h"
#include "kernels/te/visit.h"
#include "runtime/base/temporary.h"

namespace aipu::python {

namespace py = pybind11;
using te::Expr;
using te::ExprNode;

namespace {

// Errors of `te` become the exception that aipu/te registers, TVMError.
py::object& error_class() {
  static auto* type = new py::object(py::reinterpret_borrow<py::object>(PyExc_RuntimeError));
  return *type;
}

[[noreturn]] void throw_te(const Status& status) {
  PyErr_SetString(error_class().ptr(), status.message().c_str());
  throw py::error_already_set();
}

template <typename T>
T checked(Result<T> result) {
  if (!result.ok()) throw_te(result.status());
  return std::move(result).value();
}
void checked(const Status& status) {
  if (!status.ok()) throw_te(status);
}

te::Type type_of(const std::string& text) {
  const auto type = te::parse_type(text);
  if (!type) throw py::type_error("unknown dtype \"" + text + "\"");
  return *type;
}

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

std::string kind_of(const te::StmtNode& s) {
  static constexpr const char* kNames[] = {"For",     "IfThenElse", "Store",    "LetStmt",
                                           "Realize", "SeqStmt",    "AttrStmt", "PackedCall"};
  return kNames[s.node.index()];
}

// The memory of each output: the tensor, its box, the strides in elements.
py::list outputs_of(const te::Realize& n) {
  py::list list;
  for (int v = 0; v < n.op->output_count(); ++v) {
    const std::vector<te::Range> box = te::box_of(n, v);
    std::vector<Expr> extents;
    for (const te::Range& range : box) extents.push_back(range.extent);
    list.append(py::make_tuple(te::Tensor{n.op, v}, box, te::strides_of(extents, n.alignment)));
  }
  return list;
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
                   f["body"] = n.body;
                 },
                 [&](const te::If& n) {
                   f["condition"] = n.condition;
                   f["then_case"] = n.then_body;
                   f["else_case"] = py::none();
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
                   f["producer"] = te::Tensor{n.op, 0};
                   f["bounds"] = te::box_of(n, 0);
                   f["scope"] = n.scope;
                   f["body"] = n.body;
                   f["outputs"] = outputs_of(n);
                 },
                 [&](const te::Seq& n) { f["seq"] = n.body; },
                 [&](const te::Pragma& n) {
                   f["attr_key"] = "pragma_" + n.key;
                   f["value"] = n.value;
                   f["body"] = n.body;
                 },
                 [&](const te::PackedCall& n) {
                   f["function"] = n.name;
                   f["args"] = arguments_of(n);
                 },
             },
             s.node);
  return f;
}

void bind_expressions(py::module_& m) {
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
  m.def("likely", [](Expr c) { return te::make_expr(c->type, te::Call{"likely", {c}}); });
  m.def("call",
        [](const std::string& name, std::vector<Expr> args) { return checked(te::call(name, std::move(args))); });
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
  if (const te::Extern* external = op.external()) {
    f["inputs"] = external->inputs;
    f["body"] = external->body;
  }
  return f;
}

void bind_operations(py::module_& m) {
  using te::Operation;
  py::class_<te::Combiner, te::CombinerPtr>(m, "CommReducer")
      .def(py::init([](std::string name, std::vector<Expr> lhs, std::vector<Expr> rhs, std::vector<Expr> result,
                       std::vector<Expr> identity) {
        return std::make_shared<te::Combiner>(
            te::Combiner{std::move(name), std::move(lhs), std::move(rhs), std::move(result), std::move(identity)});
      }))
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
                               return op.compute() != nullptr ? op.compute()->reduce_axis
                                                              : std::vector<te::IterVarPtr>{};
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

py::dict relation_fields(const te::Relation& relation) {
  py::dict f;
  std::visit(te::Overloaded{
                 [&](const te::Split& r) {
                   f["kind"] = "Split";
                   f["parent"] = r.parent;
                   f["outer"] = r.outer;
                   f["inner"] = r.inner;
                   f["factor"] = r.factor;
                   f["nparts"] = r.nparts;
                 },
                 [&](const te::Fuse& r) {
                   f["kind"] = "Fuse";
                   f["outer"] = r.outer;
                   f["inner"] = r.inner;
                   f["fused"] = r.fused;
                 },
                 [&](const te::Singleton& r) {
                   f["kind"] = "Singleton";
                   f["iter"] = r.iter;
                 },
             },
             relation);
  return f;
}

te::Machine machine_of(const std::string& name) {
  const auto found = te::find_machine(name);
  if (!found) throw py::value_error("unknown kind of machine: " + name);
  return *found;
}

// The rules' own choice, with these values in it.
te::Knobs knobs_of(te::Machine machine, std::map<std::string, int64_t> values) {
  te::Knobs knobs = te::default_knobs(machine);
  for (const te::Knob& knob : te::knobs_of(machine)) {
    const auto value = values.find(std::string(knob.name));
    if (value == values.end()) continue;
    knobs.*knob.value = value->second;
    values.erase(value);
  }
  if (!values.empty()) throw py::value_error("the rules have no choice " + values.begin()->first);
  return knobs;
}

void bind_schedules(py::module_& m) {
  using te::IterVarPtr;
  using te::Stage;
  py::class_<Stage, te::StagePtr>(m, "Stage")
      .def_readonly("op", &Stage::op)
      .def_readonly("origin_op", &Stage::origin_op)
      .def_readonly("all_iter_vars", &Stage::all_iter_vars)
      .def_readonly("leaf_iter_vars", &Stage::leaf_iter_vars)
      .def_readonly("scope", &Stage::scope)
      .def_readonly("is_output", &Stage::is_output)
      .def_readonly("attach_ivar", &Stage::attach_ivar)
      .def_property_readonly("attach_stage", [](const Stage& s) { return s.attach_stage.lock(); })
      .def_property_readonly("attach_type", [](const Stage& s) { return static_cast<int>(s.attach); })
      .def("relation_fields",
           [](const Stage& s) {
             py::list list;
             for (const te::Relation& relation : s.relations) list.append(relation_fields(relation));
             return list;
           })
      .def("attribute_fields",
           [](const Stage& s) {
             py::list list;
             for (const IterVarPtr& axis : s.all_iter_vars) {
               const auto found = s.attributes.find(axis.get());
               if (found == s.attributes.end()) continue;
               const te::IterAttributes& a = found->second;
               list.append(py::make_tuple(axis, static_cast<int>(a.kind), a.bind_thread, a.pragmas, a.align_factor,
                                          a.align_offset, a.prefetch));
             }
             return list;
           })
      .def("native_split", [](Stage& s, const IterVarPtr& parent, Expr factor,
                              Expr nparts) { return checked(s.split(parent, std::move(factor), std::move(nparts))); })
      .def("native_fuse", [](Stage& s, const std::vector<IterVarPtr>& axes) { return checked(s.fuse_all(axes)); })
      .def("native_reorder", [](Stage& s, const std::vector<IterVarPtr>& axes) { checked(s.reorder(axes)); })
      .def("native_annotate", [](Stage& s, const IterVarPtr& axis,
                                 int kind) { checked(s.annotate(axis, static_cast<te::IterKind>(kind))); })
      .def("native_bind",
           [](Stage& s, const IterVarPtr& axis, const IterVarPtr& thread) { checked(s.bind(axis, thread)); })
      .def("native_pragma", [](Stage& s, const IterVarPtr& axis, std::string key,
                               Expr value) { checked(s.pragma(axis, std::move(key), std::move(value))); })
      .def("native_compute_at",
           [](Stage& s, const te::StagePtr& parent, const IterVarPtr& axis) { checked(s.compute_at(parent, axis)); })
      .def("native_compute_inline", [](Stage& s) { checked(s.compute_inline()); })
      .def("native_compute_root", [](Stage& s) { checked(s.compute_root()); })
      .def("native_tensorize",
           [](Stage& s, const IterVarPtr& axis, const std::shared_ptr<te::TensorIntrin>& intrin) {
             checked(s.tensorize(axis, intrin));
           })
      .def("native_storage_align", [](Stage& s, const IterVarPtr& axis, int64_t factor,
                                      int64_t offset) { checked(s.storage_align(axis, factor, offset)); })
      .def("native_prefetch", [](Stage& s, const te::Tensor& tensor, const IterVarPtr& axis,
                                 Expr offset) { checked(s.prefetch(tensor, axis, std::move(offset))); })
      .def("native_env_threads",
           [](Stage& s, const std::vector<IterVarPtr>& threads) { checked(s.set_env_threads(threads)); })
      .def("native_double_buffer", [](Stage& s) { checked(s.set_double_buffer()); })
      .def("native_rolling_buffer", [](Stage& s) { checked(s.set_rolling_buffer()); })
      .def_readonly("double_buffered", &Stage::double_buffer)
      .def_readonly("rolling", &Stage::rolling_buffer)
      .def_readonly("threads_around", &Stage::env_threads)
      .def_readonly("is_group", &Stage::is_group)
      .def_property_readonly("group", [](const Stage& s) { return s.group.lock(); })
      .def_readonly("store_predicate", &Stage::store_predicate)
      .def("native_set_store_predicate", [](Stage& s, Expr predicate) { s.store_predicate = std::move(predicate); })
      .def("native_set_scope", [](Stage& s, std::string scope) { s.scope = std::move(scope); });
  py::class_<te::Schedule, te::SchedulePtr>(m, "Schedule")
      .def(py::init([](const std::vector<te::OperationPtr>& ops) { return te::Schedule::create(ops); }))
      .def_readonly("stages", &te::Schedule::stages)
      .def_readonly("outputs", &te::Schedule::outputs)
      .def_readonly("groups", &te::Schedule::groups)
      .def(
          "native_create_group",
          [](te::Schedule& s, const std::vector<te::OperationPtr>& outputs, const std::vector<te::OperationPtr>& inputs,
             bool include_inputs) { return checked(s.create_group(outputs, inputs, include_inputs)); })
      .def("normalize", &te::Schedule::normalized, "A copy; attachments name present loops, inlined stages say so.")
      .def("native_scan_body", [](const te::Schedule& s, const te::StagePtr& scan) { return s.body_of_scan(*scan); })
      .def("native_cache_read",
           [](te::Schedule& s, const te::Tensor& tensor, const std::string& scope,
              const std::vector<te::OperationPtr>& readers) { return checked(s.cache_read(tensor, scope, readers)); })
      .def("native_cache_write", [](te::Schedule& s, const std::vector<te::Tensor>& tensors,
                                    const std::string& scope) { return checked(s.cache_write(tensors, scope)); })
      .def("native_rfactor", [](te::Schedule& s, const te::Tensor& tensor, const IterVarPtr& axis,
                                int factor_axis) { return checked(s.rfactor(tensor, axis, factor_axis)); })
      .def("find", [](const te::Schedule& s, const te::OperationPtr& op) { return s.find(op.get()); });
  m.def("schedule_by_rules", [](const std::vector<te::OperationPtr>& outputs, const std::string& machine,
                                const std::map<std::string, int64_t>& knobs) {
    const te::Machine found = machine_of(machine);
    return checked(te::schedule_by_rules(outputs, found, knobs_of(found, knobs)));
  });
  m.def("knobs_of_rules", [](const std::string& machine) {
    const te::Machine found = machine_of(machine);
    const te::Knobs knobs = te::default_knobs(found);
    py::dict values;
    for (const te::Knob& knob : te::knobs_of(found)) values[py::cast(knob.name)] = knobs.*knob.value;
    return values;
  });
  m.def("choices_of_rules", [](const std::string& machine) {
    py::dict choices;
    for (const te::Knob& knob : te::knobs_of(machine_of(machine))) choices[py::cast(knob.name)] = knob.choices;
    return choices;
  });
}

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
    py::list axes;
    for (size_t i = launch.arguments.size(); i < entry.params.size(); ++i) axes.append(entry.params[i]->name);
    list.append(py::make_tuple(entry.name, tir::print_module(launch.module),
                               checked(tir::cuda_text(entry.name, launch.module)), launch.arguments, axes,
                               launch.extents));
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

// The statements that are written by hand, for externs and intrinsics.
void bind_statements(py::module_& m) {
  m.def("stmt_for", [](Expr var, Expr extent, int kind, te::Stmt body) {
    const auto loop = static_cast<te::LoopKind>(kind);
    const bool shared_out = loop == te::LoopKind::kParallel;
    return te::make_stmt(te::For{std::move(var), std::move(extent), loop, nullptr, shared_out, std::move(body)});
  });
  m.def("stmt_if", [](Expr condition, te::Stmt body) {
    return te::make_stmt(te::If{std::move(condition), std::move(body)});
  });
  m.def("stmt_store", [](te::Tensor tensor, std::vector<Expr> indices, const Expr& value) {
    const te::Type type = tensor.type();
    return te::make_stmt(te::Store{std::move(tensor), std::move(indices), checked(te::convert(type, value))});
  });
  m.def("stmt_seq", [](std::vector<te::Stmt> body) { return te::make_stmt(te::Seq{std::move(body)}); });
  m.def("stmt_let", [](Expr var, Expr value, te::Stmt body) {
    return te::make_stmt(te::Let{std::move(var), std::move(value), std::move(body)});
  });
  m.def("stmt_pragma", [](std::string key, Expr value, te::Stmt body) {
    return te::make_stmt(te::Pragma{std::move(key), std::move(value), std::move(body)});
  });
  m.def("stmt_realize", [](const te::Tensor& tensor, std::string scope, te::Stmt body) {
    return te::make_stmt(te::Realize{tensor.op, {}, std::move(scope), {}, std::move(body)});
  });
  // Arguments: expressions, or (tensor, ranges, whether the address alone).
  m.def("stmt_packed", [](std::string name, const py::list& args) {
    te::PackedCall call{std::move(name), {}};
    for (const py::handle& arg : args) {
      if (!py::isinstance<py::tuple>(arg)) {
        call.args.push_back({arg.cast<Expr>(), std::nullopt});
        continue;
      }
      const auto view = arg.cast<py::tuple>();
      call.args.push_back(
          {nullptr,
           te::View{view[0].cast<te::Tensor>(), view[1].cast<std::vector<te::Range>>(), {}, view[2].cast<bool>()}});
    }
    return te::make_stmt(std::move(call));
  });
}

void bind_lowering(py::module_& m) {
  py::class_<te::StmtNode, te::Stmt>(m, "Stmt", "A statement; `node` says which, the parts are attributes.")
      .def_property_readonly("node", [](const te::StmtNode& s) { return kind_of(s); })
      .def(
          "fields", [](const te::StmtNode& s) { return fields_of(s); }, "The parts by name.")
      .def_property_readonly("address", [](const te::Stmt& s) { return reinterpret_cast<uintptr_t>(s.get()); })
      .def("text", [](const te::Stmt& s) { return te::to_text(s); });
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
      [](const te::Schedule& schedule, const py::list& params, std::string name, bool shared_by_threads) {
        std::vector<te::Parameter> list;
        for (const py::handle& item : params) {
          const auto pair = item.cast<py::tuple>();
          if (py::isinstance<te::Tensor>(pair[0]))
            list.push_back({pair[0].cast<te::Tensor>(), nullptr, pair[1].cast<std::vector<Expr>>()});
          else
            list.push_back({{}, pair[0].cast<Expr>()});
        }
        return checked(te::lower_schedule(schedule, std::move(list), std::move(name), shared_by_threads));
      },
      py::arg("schedule"), py::arg("params"), py::arg("name"), py::arg("shared_by_threads") = false);
  m.def("cuda_prelude", &tir::cuda_prelude, "What the CUDA C of kernels stands on.");
  // `known`: tensors with their strides and boxes.
  m.def("outline", [](std::string name, const te::Stmt& body,
                      const std::vector<std::tuple<te::Tensor, std::vector<Expr>, std::vector<te::Range>>>& known) {
    std::vector<te::Parameter> list;
    for (const auto& [tensor, strides, box] : known) list.push_back({tensor, nullptr, strides, box});
    return te::outline(std::move(name), body, list);
  });
  bind_statements(m);
  m.def("infer_bounds", [](const te::Schedule& schedule) {
    const auto nests = checked(te::infer_bounds(schedule, {}));
    py::list list;
    for (const auto& [stage, nest] : nests) {
      for (const te::IterVarPtr& axis : stage->all_iter_vars)
        list.append(py::make_tuple(axis, nest.domain.at(axis.get())));
    }
    return list;
  });
  py::class_<Temporary>(m, "TemporaryFolder", "A new folder, removed with all that is in it when the object goes.")
      .def(py::init([](const std::string& prefix) { return value_or_throw(Temporary::create_folder(prefix)); }))
      .def_property_readonly("path", &Temporary::path);
  m.def("set_error_class", [](py::object type) { error_class() = std::move(type); });
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

void bind_te(py::module_& module) {
  py::module_ m = module.def_submodule("te", "Tensor expressions. Not for direct use: aipu.te.");
  bind_expressions(m);
  bind_operations(m);
  bind_schedules(m);
  bind_lowering(m);
}

}  // namespace aipu::python
