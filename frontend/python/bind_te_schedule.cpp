// Schedules of `te` for Python: stages with their primitives, and the rules that make schedules.
#include <pybind11/stl.h>

#include <map>

#include "frontend/python/bind_te.h"
#include "kernels/te/rules.h"
#include "kernels/te/schedule.h"
#include "kernels/te/stmt.h"
#include "kernels/te/visit.h"

namespace aipu::python {

namespace py = pybind11;
using te::Expr;

namespace {

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

te::Relation relation_of(const py::dict& f) {
  const auto axis = [&](const char* key) { return f[key].cast<te::IterVarPtr>(); };
  const auto kind = f["kind"].cast<std::string>();
  if (kind == "Split")
    return te::Split{axis("parent"), axis("outer"), axis("inner"), f["factor"].cast<Expr>(), f["nparts"].cast<Expr>()};
  if (kind == "Fuse") return te::Fuse{axis("outer"), axis("inner"), axis("fused")};
  return te::Singleton{axis("iter")};
}

// A stage of what Python has read of one that was written; places of other stages are set when all are there.
te::StagePtr stage_of(const py::dict& f) {
  using Axes = std::vector<te::IterVarPtr>;
  auto stage = std::make_shared<te::Stage>(f["op"].cast<te::OperationPtr>());
  stage->origin_op = f["origin_op"].cast<te::OperationPtr>();
  stage->all_iter_vars = f["all_iter_vars"].cast<Axes>();
  stage->leaf_iter_vars = f["leaf_iter_vars"].cast<Axes>();
  for (const py::handle& relation : f["relations"].cast<py::list>())
    stage->relations.push_back(relation_of(relation.cast<py::dict>()));
  for (const py::handle& item : f["attributes"].cast<py::list>()) {
    const auto row = item.cast<py::tuple>();
    te::IterAttributes& a = stage->attributes[row[0].cast<te::IterVarPtr>().get()];
    a.kind = static_cast<te::IterKind>(row[1].cast<int>());
    a.bind_thread = row[2].cast<te::IterVarPtr>();
    a.pragmas = row[3].cast<std::vector<std::pair<std::string, Expr>>>();
    a.align_factor = row[4].cast<int64_t>();
    a.align_offset = row[5].cast<int64_t>();
    a.prefetch = row[6].cast<std::vector<std::pair<te::Tensor, Expr>>>();
  }
  stage->attach = static_cast<te::Attach>(f["attach_type"].cast<int>());
  stage->attach_ivar = f["attach_ivar"].cast<te::IterVarPtr>();
  stage->is_group = f["is_group"].cast<bool>();
  stage->child_count = f["num_child_stages"].cast<int>();
  stage->scope = f["scope"].cast<std::string>();
  stage->is_output = f["is_output"].cast<bool>();
  stage->double_buffer = f["double_buffered"].cast<bool>();
  stage->rolling_buffer = f["rolling"].cast<bool>();
  stage->env_threads = f["threads_around"].cast<Axes>();
  stage->store_predicate = f["store_predicate"].cast<Expr>();
  return stage;
}

// Of the stages, then the groups, in order; `attach_stage` and `group` count among these, -1: none.
te::SchedulePtr restored_schedule(std::vector<te::OperationPtr> outputs, const py::list& rows) {
  auto schedule = std::make_shared<te::Schedule>();
  schedule->outputs = std::move(outputs);
  std::vector<te::StagePtr> all;
  for (const py::handle& row : rows) all.push_back(stage_of(row.cast<py::dict>()));
  for (size_t i = 0; i < all.size(); ++i) {
    const auto f = rows[i].cast<py::dict>();
    const int at = f["attach_stage"].cast<int>(), group = f["group"].cast<int>();
    if (at >= 0) all[i]->attach_stage = all.at(static_cast<size_t>(at));
    if (group >= 0) all[i]->group = all.at(static_cast<size_t>(group));
    schedule->adopt(all[i]);
  }
  return schedule;
}

}  // namespace

void bind_te_schedules(py::module_& m) {
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
                                          a.align_offset, a.prefetch, a.tensor_intrin));
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
      .def_readonly("num_child_stages", &Stage::child_count)
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
      .def("native_copy", &te::Schedule::copy)
      .def("native_transform_layout",
           [](te::Schedule& s, const te::StagePtr& stage, const std::vector<Expr>& from, const std::vector<Expr>& to,
              const std::vector<IterVarPtr>& axis,
              const std::vector<Expr>& inverse) { checked(s.transform_layout(stage, from, to, axis, inverse)); })
      .def("native_scan_body", [](const te::Schedule& s, const te::StagePtr& scan) { return s.body_of_scan(*scan); })
      .def("native_cache_read",
           [](te::Schedule& s, const te::Tensor& tensor, const std::string& scope,
              const std::vector<te::OperationPtr>& readers) { return checked(s.cache_read(tensor, scope, readers)); })
      .def("native_cache_write", [](te::Schedule& s, const std::vector<te::Tensor>& tensors,
                                    const std::string& scope) { return checked(s.cache_write(tensors, scope)); })
      .def("native_rfactor", [](te::Schedule& s, const te::Tensor& tensor, const IterVarPtr& axis,
                                int factor_axis) { return checked(s.rfactor(tensor, axis, factor_axis)); })
      .def("find", [](const te::Schedule& s, const te::OperationPtr& op) { return s.find(op.get()); });
  m.def("restored_schedule", &restored_schedule);
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

}  // namespace aipu::python
