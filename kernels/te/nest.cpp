#include "kernels/te/nest.h"

#include <algorithm>
#include <set>

#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

Expr ceil_div(const Expr& a, const Expr& b) { return floordiv(add(a, sub(b, make_int(1, b->type))), b); }

Expr times(Expr a, Expr b) {
  match_index_types(a, b);
  return mul(a, b);
}

Expr plus(Expr a, Expr b) {
  match_index_types(a, b);
  return add(a, b);
}

class DomainDown {
 public:
  DomainDown(Nest* nest, Analyzer* analyzer) : nest_(*nest), analyzer_(*analyzer) {}

  void run() {
    for (const Relation& relation : nest_.stage->relations) std::visit([&](const auto& r) { derive(r); }, relation);
  }

 private:
  void set(const IterVarPtr& axis, const Expr& extent) {
    const Expr typed = make_cast(axis->var->type, extent);
    nest_.domain[axis.get()] = {make_int(0, axis->var->type), analyzer_.simplify(typed)};
  }

  // A part is not longer than the whole, unless a thread's extent was asked for.
  Expr tightened(const Expr& whole, Expr part, const IterVarPtr& axis) {
    part = make_cast(whole->type, part);
    const auto attributes = nest_.stage->attributes.find(axis.get());
    const bool bound = attributes != nest_.stage->attributes.end() && attributes->second.bind_thread != nullptr;
    if (!bound && as_int(whole) != 0 && analyzer_.prove_le(whole, part)) return whole;
    return part;
  }

  void derive(const Split& r) {
    const Expr whole = nest_.domain.at(r.parent.get()).extent;
    if (r.factor) {
      const Expr factor = tightened(whole, r.factor, r.inner);
      set(r.inner, factor);
      set(r.outer, ceil_div(whole, factor));
    } else {
      const Expr parts = tightened(whole, r.nparts, r.outer);
      set(r.outer, parts);
      set(r.inner, ceil_div(whole, parts));
    }
  }
  void derive(const Fuse& r) {
    set(r.fused, times(nest_.domain.at(r.outer.get()).extent, nest_.domain.at(r.inner.get()).extent));
  }
  void derive(const Singleton& r) { set(r.iter, make_int(1)); }

  Nest& nest_;
  Analyzer& analyzer_;
};

class IndexUp {
 public:
  IndexUp(const Nest& nest, const AxisValues& leaves) : nest_(nest), values_(leaves) {}

  AxisValues run() {
    const auto& relations = nest_.stage->relations;
    for (auto r = relations.rbegin(); r != relations.rend(); ++r)
      std::visit([&](const auto& relation) { derive(relation); }, *r);
    return values_;
  }

 private:
  void set(const IterVarPtr& axis, const Expr& from_zero) {
    values_[axis.get()] = make_cast(axis->var->type, from_zero);
  }
  // Leaves without a value are not asked for.
  bool known(const IterVarPtr& a, const IterVarPtr& b) const {
    return values_.contains(a.get()) && values_.contains(b.get());
  }

  void derive(const Split& r) {
    if (!known(r.outer, r.inner)) return;
    const Expr length = nest_.domain.at(r.inner.get()).extent;
    set(r.parent, plus(times(values_.at(r.outer.get()), length), values_.at(r.inner.get())));
  }
  void derive(const Fuse& r) {
    if (!values_.contains(r.fused.get())) return;
    Expr fused = values_.at(r.fused.get()), length = nest_.domain.at(r.inner.get()).extent;
    match_index_types(fused, length);
    set(r.outer, floordiv(fused, length));
    set(r.inner, floormod(fused, length));
  }
  void derive(const Singleton&) {}

  const Nest& nest_;
  AxisValues values_;
};

}  // namespace

void assume_sizes(const Schedule& schedule, Analyzer* analyzer) {
  const auto sizes_in = [&](const Expr& extent) {
    walk(extent, [&](const Expr& e) {
      if (e->as<Var>() != nullptr) analyzer->assume_non_negative(e);
    });
  };
  for (const StagePtr& stage : schedule.stages) {
    for (const OperationPtr& op : {stage->op, stage->origin_op}) {
      for (int v = 0; v < op->output_count(); ++v) {
        for (const Expr& extent : Tensor{op, v}.shape()) sizes_in(extent);
      }
    }
  }
}

void bind_loops(const std::vector<Loop>& loops, Analyzer* analyzer) {
  for (const Loop& loop : loops) {
    if (!loop.trivial()) analyzer->bind(loop.var, {make_int(0, loop.var->type), loop.extent});
  }
}

Interval relaxed(const Expr& index, const std::vector<Loop>& loops, size_t fixed, Analyzer* analyzer) {
  Interval range{index, index};
  for (size_t i = loops.size(); i-- > fixed;) {
    const Loop& loop = loops[i];
    if (loop.trivial()) continue;
    const Interval of_loop{make_int(0, loop.var->type), sub(loop.extent, make_int(1, loop.var->type))};
    if (range.lo) range.lo = analyzer->interval(range.lo, loop.var, of_loop).lo;
    if (range.hi) range.hi = analyzer->interval(range.hi, loop.var, of_loop).hi;
  }
  bool data = false;
  walk(index, [&](const Expr& e) { data |= e->as<Read>() != nullptr; });
  return data ? Interval{} : range;
}

AxisValues axis_values(const Nest& nest, const AxisValues& leaves) { return IndexUp(nest, leaves).run(); }

Substitution root_values(const Nest& nest, const AxisValues& values) {
  Substitution substitution;
  for (const IterVarPtr& axis : nest.stage->root_axes()) {
    const auto value = values.find(axis.get());
    if (value == values.end()) continue;
    substitution[axis->var.get()] = add(value->second, make_cast(axis->var->type, nest.domain.at(axis.get()).min));
  }
  return substitution;
}

namespace {

// Steps are run one after the other; threads around them are loops of the stages inside.
Status derive_scan(Nest* nest, Analyzer* analyzer) {
  const Stage& stage = *nest->stage;
  const Scan& scan = *stage.op->scan();
  if (!stage.relations.empty())
    return unsupported(str_cat("stage '", stage.op->name, "': splitting the steps of a scan is not supported"));
  nest->domain[scan.axis.get()] = {scan.axis->dom->min, analyzer->simplify(scan.axis->dom->extent)};
  for (const IterVarPtr& axis : scan.spatial) nest->domain[axis.get()] = *axis->dom;
  for (const IterVarPtr& thread : stage.env_threads) nest->domain[thread.get()] = *thread->dom;
  for (const IterVarPtr& axis : stage.leaf_iter_vars) {
    const Type type = axis->var->type;
    Loop loop{axis, make_int(0, type), make_int(1, type)};
    if (axis == scan.axis) loop.extent = nest->domain.at(axis.get()).extent;
    if (axis == scan.axis && as_int(loop.extent) != 1) loop.var = make_var(axis->name(), type);
    nest->values[axis.get()] = loop.var;
    nest->loops.push_back(loop);
  }
  return {};
}

}  // namespace

Status derive_loops(Nest* nest, Analyzer* analyzer) {
  if (nest->stage->op->scan() != nullptr) return derive_scan(nest, analyzer);
  if (nest->stage->op->compute() == nullptr) return {};
  const Compute& compute = nest->compute();
  for (size_t i = 0; i < compute.axis.size(); ++i) nest->domain[compute.axis[i].get()] = nest->region[i];
  for (const IterVarPtr& axis : compute.reduce_axis) {
    if (!tensors_read(axis->dom->min).empty() || !tensors_read(axis->dom->extent).empty()) {
      return unsupported(str_cat("stage '", nest->stage->op->name, "': the domain of reduction axis '", axis->name(),
                                 "' is data, which is not supported"));
    }
    nest->domain[axis.get()] = *axis->dom;
  }
  DomainDown(nest, analyzer).run();
  // Domains of reduction axes may depend on data axes: those come first.
  AxisValues leaves;
  const auto make_loop = [&](const IterVarPtr& axis) {
    const Type type = axis->var->type;
    Loop loop{axis, nullptr, nest->domain.at(axis.get()).extent};
    loop.var = as_int(loop.extent) == 1 ? make_int(0, type) : make_var(axis->name(), type);
    leaves[axis.get()] = loop.var;
    return loop;
  };
  std::map<const IterVar*, Loop> loops;
  for (const IterVarPtr& axis : nest->stage->leaf_iter_vars) {
    if (!nest->stage->is_reduction_axis(axis.get())) loops[axis.get()] = make_loop(axis);
  }
  const Substitution data = root_values(*nest, axis_values(*nest, leaves));
  for (auto& [axis, range] : nest->domain) {
    if (!nest->stage->is_reduction_axis(axis)) continue;
    range = {analyzer->simplify(substitute(range.min, data)), analyzer->simplify(substitute(range.extent, data))};
  }
  for (const IterVarPtr& axis : compute.reduce_axis) {
    const Range& range = nest->domain.at(axis.get());
    const auto is_data = [&](const ExprNode* var) {
      return std::any_of(compute.axis.begin(), compute.axis.end(),
                         [&](const IterVarPtr& data_axis) { return data_axis->var.get() == var; });
    };
    if (uses_any(range.min, is_data) || uses_any(range.extent, is_data)) {
      return invalid_argument(str_cat("stage '", nest->stage->op->name, "': the domain of reduction axis '",
                                      axis->name(), "' depends on a data axis that is fused with a reduction axis"));
    }
  }
  for (const IterVarPtr& axis : nest->stage->leaf_iter_vars) {
    if (nest->stage->is_reduction_axis(axis.get())) loops[axis.get()] = make_loop(axis);
  }
  std::set<const ExprNode*> later;
  for (const auto& [axis, loop] : loops) later.insert(loop.var.get());
  for (const IterVarPtr& axis : nest->stage->leaf_iter_vars) {
    Loop& loop = loops.at(axis.get());
    if (uses_any(loop.extent, [&](const ExprNode* var) { return later.contains(var); })) {
      return invalid_argument(str_cat("stage '", nest->stage->op->name, "': the domain of loop '", axis->name(),
                                      "' depends on a loop inside it; reorder them"));
    }
    later.erase(loop.var.get());
    nest->loops.push_back(loop);
  }
  nest->values = axis_values(*nest, leaves);
  return {};
}

namespace {

class Guards {
 public:
  Guards(const Nest& nest, const AxisValues& values, bool data_only, Analyzer* analyzer)
      : nest_(nest), values_(values), data_only_(data_only), analyzer_(*analyzer) {}

  std::vector<Expr> run() {
    // From the leaves up. That an outer part stays within its extent follows from the guard of the whole.
    const auto& relations = nest_.stage->relations;
    for (auto r = relations.rbegin(); r != relations.rend(); ++r) {
      if (const auto* split = std::get_if<Split>(&*r)) visit(*split);
      if (const auto* fuse = std::get_if<Fuse>(&*r)) visit(*fuse);
    }
    for (const IterVarPtr& axis : nest_.stage->root_axes()) {
      if (!wanted(axis)) continue;
      if (unsure_.contains(axis.get())) require_below(axis);
      within_domain(axis);
    }
    return conditions_;
  }

 private:
  bool wanted(const IterVarPtr& axis) const {
    return values_.contains(axis.get()) && !(data_only_ && nest_.stage->is_pure_reduction(axis.get()));
  }

  void visit(const Split& r) {
    if (!wanted(r.parent)) return;
    if (unsure_.contains(r.inner.get())) require_below(r.inner);
    Expr covered = times(nest_.domain.at(r.outer.get()).extent, nest_.domain.at(r.inner.get()).extent);
    Expr whole = nest_.domain.at(r.parent.get()).extent;
    match_index_types(covered, whole);
    if (unsure_.contains(r.outer.get()) || !analyzer_.prove_equal(covered, whole)) unsure_.insert(r.parent.get());
  }
  // The inner index is a remainder, which is always within its extent.
  void visit(const Fuse& r) {
    if (wanted(r.outer) && unsure_.contains(r.fused.get())) unsure_.insert(r.outer.get());
  }

  void require_below(const IterVarPtr& axis) {
    require(less_than(values_.at(axis.get()), nest_.domain.at(axis.get()).extent));
  }

  static Expr less_than(Expr a, Expr b) {
    match_index_types(a, b);
    return less(a, b);
  }

  // The region of a data axis may be larger than what is declared.
  void within_domain(const IterVarPtr& axis) {
    if (nest_.stage->is_reduction_axis(axis.get()) || !axis->dom) return;
    const Range& range = nest_.domain.at(axis.get());
    if (is_zero(range.min) && analyzer_.prove_le(range.extent, axis->dom->extent)) return;
    const Expr value = plus(values_.at(axis.get()), range.min);
    require(make_binary(BinaryOp::kGe, value, make_int(0, value->type)));
    require(less_than(value, axis->dom->extent));
  }

  void require(const Expr& condition) {
    if (analyzer_.prove(condition)) return;
    const Expr simple = analyzer_.simplify(condition);
    if (seen_.insert(structural_key(simple)).second) conditions_.push_back(simple);
  }

  const Nest& nest_;
  const AxisValues& values_;
  bool data_only_;
  Analyzer& analyzer_;
  std::set<const IterVar*> unsure_;
  std::set<std::string> seen_;
  std::vector<Expr> conditions_;
};

}  // namespace

std::vector<Expr> guards(const Nest& nest, const AxisValues& values, bool data_only, Analyzer* analyzer) {
  return Guards(nest, values, data_only, analyzer).run();
}

}  // namespace aipu::te
