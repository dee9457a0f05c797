// Which region of a producer is computed.
#include <algorithm>
#include <functional>
#include <set>

#include "kernels/te/lower.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

// Where a stage is attached now: the axis of compute_at may have been split or fused since.
IterVarPtr current_leaf(const Stage& parent, IterVarPtr axis) {
  for (const Relation& relation : parent.relations) {
    if (const auto* split = std::get_if<Split>(&relation); split != nullptr && split->parent == axis)
      axis = split->inner;
    if (const auto* fuse = std::get_if<Fuse>(&relation);
        fuse != nullptr && (fuse->inner == axis || fuse->outer == axis))
      axis = fuse->fused;
  }
  return axis;
}

class Bounds {
 public:
  Bounds(const Schedule& schedule, const std::vector<OperationPtr>& whole) : schedule_(schedule) {
    for (const OperationPtr& op : whole) whole_.insert(schedule.find(op.get()).get());
  }

  Result<std::map<const Stage*, Nest>> run() {
    AIPU_RETURN_IF_ERROR(inline_stages());
    for (auto stage = schedule_.stages.rbegin(); stage != schedule_.stages.rend(); ++stage) {
      if (!nests_.contains(stage->get())) continue;
      Nest& nest = nests_.at(stage->get());
      AIPU_RETURN_IF_ERROR(place(&nest));
      AIPU_RETURN_IF_ERROR(find_region(&nest));
      Analyzer analyzer = analyzer_for(nest.enclosing);
      AIPU_RETURN_IF_ERROR(derive_loops(&nest, &analyzer));
      done_.push_back(&nest);
    }
    return std::move(nests_);
  }

 private:
  Analyzer analyzer_for(const std::vector<Loop>& loops) const {
    Analyzer analyzer;
    assume_sizes(schedule_, &analyzer);
    bind_loops(loops, &analyzer);
    return analyzer;
  }

  // The bodies of all stages that are computed, reads going to the present operation of a stage.
  Status inline_stages() {
    std::map<const Stage*, Expr> inlined;
    Change change;
    change = [&](const Expr& e) -> Expr {
      const Read* read = e->as<Read>();
      if (read == nullptr) return nullptr;
      const StagePtr stage = schedule_.find(read->op.get());
      std::vector<Expr> indices;
      for (const Expr& index : read->indices) indices.push_back(rewrite(index, change));
      const auto body = inlined.find(stage.get());
      if (body == inlined.end()) return make_expr(e->type, Read{stage->op, read->value_index, std::move(indices)});
      Substitution values;
      const auto& axis = stage->op->compute()->axis;
      for (size_t i = 0; i < axis.size(); ++i) values[axis[i]->var.get()] = indices[i];
      return substitute(body->second, values);
    };
    for (const StagePtr& stage : schedule_.stages) {
      const Compute* compute = stage->op->compute();
      if (compute == nullptr) continue;
      std::vector<Expr> body;
      for (const Expr& e : compute->body) body.push_back(rewrite(e, change));
      if (stage->attach == Attach::kInline) {
        if (stage->is_output || whole_.contains(stage.get()))
          return invalid_argument(
              str_cat("compute_inline: '", stage->op->name, "' is an output or an argument, which has to be computed"));
        inlined[stage.get()] = body.front();
      } else {
        nests_.emplace(stage.get(), Nest{stage, std::move(body)});
      }
    }
    return {};
  }

  // The loops around a stage: those of the stage that it is attached to, up to the axis, and what is around that one.
  Status place(Nest* nest) {
    Stage& stage = *nest->stage;
    if (stage.attach != Attach::kAt) return {};
    const StagePtr parent = stage.attach_stage.lock();
    if (stage.is_output)
      return invalid_argument(str_cat("compute_at: '", stage.op->name, "' is an output, which is computed at root"));
    const auto found = parent == nullptr ? nests_.end() : nests_.find(parent.get());
    if (found == nests_.end() || std::find(done_.begin(), done_.end(), &found->second) == done_.end()) {
      return invalid_argument(str_cat("compute_at: '", stage.op->name, "' is computed inside '",
                                      parent ? parent->op->name : "?",
                                      "', which is inlined or does not come after it"));
    }
    const Nest& around = found->second;
    nest->enclosing = around.enclosing;
    const IterVarPtr leaf = current_leaf(*parent, stage.attach_ivar);
    for (const Loop& loop : around.loops) {
      nest->enclosing.push_back(loop);
      if (loop.axis == leaf) return {};
    }
    return invalid_argument(str_cat("compute_at: axis '", stage.attach_ivar->name(), "' is no loop of stage '",
                                    parent->op->name, "' any more"));
  }

  static std::vector<Loop> all_loops(const Nest& nest) {
    std::vector<Loop> loops = nest.enclosing;
    loops.insert(loops.end(), nest.loops.begin(), nest.loops.end());
    return loops;
  }

  static bool begins_with(const std::vector<Loop>& loops, const std::vector<Loop>& prefix) {
    return prefix.size() <= loops.size() && std::equal(prefix.begin(), prefix.end(), loops.begin(),
                                                       [](const Loop& a, const Loop& b) { return a.var == b.var; });
  }

  Status find_region(Nest* nest) {
    const Operation& op = *nest->stage->op;
    const std::vector<Expr>& shape = op.compute()->shape;
    std::vector<std::optional<Interval>> needed(shape.size());
    bool read = false;
    for (const Nest* consumer : done_) AIPU_RETURN_IF_ERROR(add_reads(*nest, *consumer, &needed, &read));
    const bool all = whole_.contains(nest->stage.get()) || nest->stage->is_output || !read;
    Analyzer analyzer = analyzer_for(nest->enclosing);
    for (size_t i = 0; i < shape.size(); ++i) nest->region.push_back(covering(needed[i], shape[i], all, &analyzer));
    if (all && nest->stage->attach == Attach::kAt) {
      return invalid_argument(str_cat("compute_at: '", op.name,
                                      "' is an argument, which has to be computed whole, and "
                                      "is attached inside '",
                                      nest->stage->attach_stage.lock()->op->name, "'"));
    }
    return {};
  }

  static Range covering(const std::optional<Interval>& needed, const Expr& extent, bool all, Analyzer* analyzer) {
    const Expr zero = make_int(0, extent->type);
    if (all || !needed || !needed->bounded()) return {zero, extent};
    const auto typed = [&](const Expr& e) { return make_cast(extent->type, e); };
    const Expr lo = analyzer->simplify(typed(needed->lo)), hi = analyzer->simplify(typed(needed->hi));
    if (analyzer->prove_le(lo, zero) &&
        analyzer->prove_lt(sub(extent, make_int(1, extent->type)), add(hi, make_int(1, hi->type))))
      return {zero, extent};
    return {lo, analyzer->simplify(add(sub(hi, lo), make_int(1, lo->type)))};
  }

  // What one consumer reads of a producer while the loops around the producer stand still.
  Status add_reads(const Nest& producer, const Nest& consumer, std::vector<std::optional<Interval>>* needed,
                   bool* read) {
    std::vector<const Read*> reads;
    const OperationPtr& op = producer.stage->op;
    for (const Expr& body : consumer.body) {
      walk(body, [&](const Expr& e) {
        const Read* r = e->as<Read>();
        if (r != nullptr && r->op == op) reads.push_back(r);
      });
    }
    if (reads.empty()) return {};
    *read = true;
    const std::vector<Loop> loops = all_loops(consumer);
    if (!begins_with(loops, producer.enclosing)) {
      return invalid_argument(str_cat("compute_at: '", op->name, "' is computed inside a loop of '",
                                      producer.stage->attach_stage.lock()->op->name, "', but its consumer '",
                                      consumer.stage->op->name, "' is not inside that loop"));
    }
    Analyzer analyzer = analyzer_for(loops);
    const Substitution values = root_values(consumer, consumer.values);
    for (const Read* r : reads) {
      for (size_t i = 0; i < r->indices.size(); ++i) {
        const Interval range =
            relaxed(analyzer.simplify(substitute(r->indices[i], values)), loops, producer.enclosing.size(), &analyzer);
        auto& sum = (*needed)[i];
        sum = sum ? analyzer.hull(*sum, range) : range;
      }
    }
    return {};
  }

  // The values of an index over all iterations of the loops from `fixed` on.
  static Interval relaxed(const Expr& index, const std::vector<Loop>& loops, size_t fixed, Analyzer* analyzer) {
    Interval range{index, index};
    for (size_t i = loops.size(); i-- > fixed;) {
      const Loop& loop = loops[i];
      if (loop.trivial()) continue;
      const Interval of_loop{make_int(0, loop.var->type), sub(loop.extent, make_int(1, loop.var->type))};
      if (range.lo) range.lo = analyzer->interval(range.lo, loop.var, of_loop).lo;
      if (range.hi) range.hi = analyzer->interval(range.hi, loop.var, of_loop).hi;
    }
    // Data decides: anything.
    bool data = false;
    walk(index, [&](const Expr& e) { data |= e->as<Read>() != nullptr; });
    return data ? Interval{} : range;
  }

  const Schedule& schedule_;
  std::set<const Stage*> whole_;
  std::map<const Stage*, Nest> nests_;
  std::vector<Nest*> done_;
};

}  // namespace

Result<std::map<const Stage*, Nest>> infer_bounds(const Schedule& schedule, const std::vector<OperationPtr>& whole) {
  return Bounds(schedule, whole).run();
}

}  // namespace aipu::te
