// Which region of a producer is computed.
#include <algorithm>
#include <functional>
#include <set>

#include "kernels/te/lower.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

class Bounds {
 public:
  Bounds(const Schedule& schedule, const std::vector<OperationPtr>& whole, Threads threads)
      : schedule_(schedule), threads_(threads) {
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
    std::map<const Stage*, std::vector<Expr>> bodies = schedule_.bodies();
    for (const StagePtr& stage : schedule_.stages) {
      if (stage->op->is_placeholder()) continue;
      const auto body = bodies.find(stage.get());
      const bool inlined = stage->op->compute() != nullptr && body == bodies.end();
      if (!inlined)
        nests_.emplace(stage.get(), Nest{stage, body == bodies.end() ? std::vector<Expr>{} : std::move(body->second)});
      else if (stage->is_output || whole_.contains(stage.get()))
        return invalid_argument(
            str_cat("compute_inline: '", stage->op->name, "' is an output or an argument, which has to be computed"));
    }
    return {};
  }

  // Where a stage is computed: what it says itself, else the scan whose steps need it, else its group.
  void find_place(Nest* nest) const {
    const Stage& stage = *nest->stage;
    if (stage.attach == Attach::kAt || stage.attach == Attach::kScanUpdate) {
      nest->parent = stage.attach_stage.lock();
      nest->parent_axis = stage.attach_ivar;
      return;
    }
    for (StagePtr group = stage.group.lock(); group; group = group->group.lock()) {
      if (group->attach == Attach::kRoot) continue;
      nest->parent = group->attach_stage.lock();
      nest->parent_axis = group->attach_ivar;
      return;
    }
    // Stages that a rewrite has made of what is in the steps.
    for (const StagePtr& scan : schedule_.stages) {
      if (scan->op->scan() == nullptr) continue;
      const std::vector<StagePtr> body = schedule_.body_of_scan(*scan);
      if (std::find(body.begin(), body.end(), nest->stage) == body.end()) continue;
      nest->parent = scan;
      nest->parent_axis = scan->op->scan()->axis;
      return;
    }
  }

  // The loops around a stage: those of the stage that it is attached to, up to the axis, and what is around that one.
  Status place(Nest* nest) {
    Stage& stage = *nest->stage;
    find_place(nest);
    const StagePtr parent = nest->parent;
    if (!nest->parent_axis) {
      if (stage.double_buffer)
        return invalid_argument(str_cat("double_buffer: '", stage.op->name, "' is not computed inside a loop"));
      return {};
    }
    if (parent == nest->stage)
      return invalid_argument(str_cat("compute_at: stage '", stage.op->name, "' is attached at itself"));
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
    const IterVarPtr leaf = current_leaf(parent->relations, nest->parent_axis);
    for (const Loop& loop : around.loops) {
      nest->enclosing.push_back(loop);
      if (loop.axis == leaf) return {};
    }
    return invalid_argument(str_cat("compute_at: axis '", nest->parent_axis->name(), "' is no loop of stage '",
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
    const bool statement = op.compute() == nullptr;  // which is run as a whole
    const std::vector<Expr>& shape = Tensor{nest->stage->op, 0}.shape();
    std::vector<std::optional<Interval>> needed(shape.size());
    bool read = false;
    for (const Nest* consumer : done_) AIPU_RETURN_IF_ERROR(add_reads(*nest, *consumer, &needed, &read));
    const bool seen = whole_.contains(nest->stage.get()) || nest->stage->is_output;
    const bool in_parts = seen && !statement && !nest->stage->is_output && nest->parent && read_once(*nest);
    const bool all = (seen && !in_parts) || !read || statement;
    if (seen && nest->stage->attach == Attach::kScanUpdate) {
      return invalid_argument(str_cat("scan '", nest->parent->op->name, "': its update '", op.name,
                                      "' is an argument or an output, which has memory of its own"));
    }
    Analyzer analyzer = analyzer_for(nest->enclosing);
    const size_t made_at_once =
        op.compute() != nullptr && op.compute()->call ? op.compute()->call->schedulable : shape.size();
    for (size_t i = 0; i < shape.size(); ++i)
      nest->region.push_back(covering(needed[i], shape[i], all || i >= made_at_once, &analyzer));
    if (all && !statement && nest->parent) {
      return invalid_argument(str_cat("compute_at: '", op.name,
                                      "' is an argument, which has to be computed whole, and "
                                      "is attached inside '",
                                      nest->parent->op->name, "'"));
    }
    return {};
  }

  // Whether exactly one element of an operation that is computed whole needs each element of a producer: what the
  // iterations of a loop need of it are parts that make up all of it, and no two have an element in common.
  bool read_once(const Nest& producer) const {
    const OperationPtr& op = producer.stage->op;
    const std::vector<Expr>& shape = Tensor{op, 0}.shape();
    const Nest* reader = nullptr;
    std::optional<Needs> indices;
    for (const Nest* consumer : done_) {
      for (const Needs& read : consumer->body.empty() ? reads_as_a_whole(*consumer, op) : reads_of(*consumer, op)) {
        if (reader != nullptr && reader != consumer) return false;
        reader = consumer;
        if (indices && indices->indices != read.indices) return false;
        indices = read;
      }
    }
    if (reader == nullptr || reader->parent || reader->body.empty() || reader->compute().call) return false;
    std::set<const ExprNode*> used;
    for (size_t d = 0; d < shape.size(); ++d) {
      bool own = false;
      for (const IterVarPtr& axis : reader->compute().axis) {
        if (axis->var == indices->indices[d])
          own = used.insert(axis->var.get()).second && Analyzer().prove_equal(axis->dom->extent, shape[d]);
      }
      if (!own) return false;
    }
    return used.size() == reader->compute().axis.size();
  }

  // What one element of an operation needs of a tensor: indices that its loops decide, or whole dimensions (null).
  struct Needs {
    std::vector<Expr> indices;
  };
  std::vector<Needs> reads_of(const Nest& consumer, const OperationPtr& producer) const {
    std::vector<Needs> found;
    if (const auto& call = consumer.compute().call) {  // both ends of what the intrinsic is given
      for (size_t k = 0; k < call->inputs.size(); ++k) {
        if (schedule_.find(call->inputs[k].op.get())->op != producer) continue;
        Needs first, last;
        for (const Range& range : call->regions[k]) {
          Expr low = range.min, extent = range.extent;
          match_index_types(low, extent);
          first.indices.push_back(low);
          last.indices.push_back(add(low, sub(extent, make_int(1, extent->type))));
        }
        found.push_back(std::move(first));
        found.push_back(std::move(last));
      }
      return found;
    }
    for (const Expr& body : consumer.body) {
      walk(body, [&](const Expr& e) {
        const Read* r = e->as<Read>();
        if (r != nullptr && r->op == producer) found.push_back({r->indices});
      });
    }
    return found;
  }
  std::vector<Needs> reads_as_a_whole(const Nest& consumer, const OperationPtr& producer) const {
    std::vector<Needs> found;
    const auto is_producer = [&](const Tensor& tensor) { return schedule_.find(tensor.op.get())->op == producer; };
    if (const Extern* external = consumer.stage->op->external()) {
      for (const Tensor& input : external->inputs) {
        if (is_producer(input)) found.push_back({std::vector<Expr>(input.shape().size())});
      }
    }
    const Scan* scan = consumer.stage->op->scan();
    for (size_t s = 0; scan != nullptr && s < scan->state.size(); ++s) {
      const Needs whole{std::vector<Expr>(scan->state[s].shape().size())};
      if (is_producer(scan->init[s])) found.push_back(whole);
      if (!is_producer(scan->update[s])) continue;
      found.push_back(whole);
      found.back().indices[0] = scan->axis->var;
    }
    return found;
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

  // The tag of the threads that the iterations of a loop are; empty: of none.
  std::string_view tag_of(const Loop& loop) const {
    for (const StagePtr& stage : schedule_.stages) {
      const auto found = stage->attributes.find(loop.axis.get());
      if (found != stage->attributes.end() && found->second.bind_thread) return found->second.bind_thread->thread_tag;
    }
    return loop.axis->thread_tag;
  }

  enum class Seen : uint8_t { kByAll, kByBlock, kByWarp, kByThread };

  // Who sees the memory of a stage: its scope says it, or what it is computed inside.
  Seen seen_by(const Nest& nest) const {
    const std::string& scope = nest.stage->scope;
    if (scope == "shared" || scope == "lsram") return Seen::kByBlock;
    if (scope == "warp") return Seen::kByWarp;
    if (!scope.empty()) return scope == "global" ? Seen::kByAll : Seen::kByThread;
    auto seen = Seen::kByAll;
    for (const Loop& loop : nest.enclosing) {
      const auto kind = thread_kind(tag_of(loop));
      if (kind == ThreadKind::kBlock) seen = std::max(seen, Seen::kByBlock);
      if (kind == ThreadKind::kThread || kind == ThreadKind::kVirtual) seen = Seen::kByThread;
    }
    return seen;
  }

  // Whether a loop stands still while a producer is computed. `outside`: it is around the producer.
  bool stands_still(const Nest& producer, const Loop& loop, bool outside) const {
    const std::string_view tag = tag_of(loop);
    const auto kind = thread_kind(tag);
    if (threads_ == Threads::kLoops || !kind || kind == ThreadKind::kTec) return outside;
    if (threads_ == Threads::kBlocks) {
      return outside && !(is_memory_of_block(producer.stage->scope) && kind == ThreadKind::kThread);
    }
    switch (seen_by(producer)) {
      case Seen::kByAll:
        return false;
      case Seen::kByBlock:
        return kind == ThreadKind::kBlock;
      case Seen::kByWarp:
        return tag != "threadIdx.x";
      default:
        return true;
    }
  }

  // What one consumer reads of a producer while the loops around the producer stand still.
  Status add_reads(const Nest& producer, const Nest& consumer, std::vector<std::optional<Interval>>* needed,
                   bool* read) {
    const OperationPtr& op = producer.stage->op;
    const std::vector<Needs> reads = consumer.body.empty() ? reads_as_a_whole(consumer, op) : reads_of(consumer, op);
    if (reads.empty()) return {};
    *read = true;
    const std::vector<Loop> loops = all_loops(consumer);
    if (!begins_with(loops, producer.enclosing)) {
      return invalid_argument(str_cat("compute_at: '", op->name, "' is computed inside a loop of '",
                                      producer.parent ? producer.parent->op->name : "?", "', but its consumer '",
                                      consumer.stage->op->name, "' is not inside that loop"));
    }
    Analyzer analyzer = analyzer_for(loops);
    std::vector<Loop> ordered = loops;  // those that stand still first
    const auto outside = [&](const Loop& loop) {
      return std::any_of(producer.enclosing.begin(), producer.enclosing.end(),
                         [&](const Loop& around) { return around.axis == loop.axis; });
    };
    const auto still = std::stable_partition(
        ordered.begin(), ordered.end(), [&](const Loop& loop) { return stands_still(producer, loop, outside(loop)); });
    const auto fixed = static_cast<size_t>(still - ordered.begin());
    const Substitution values = root_values(consumer, consumer.values);
    for (const Needs& r : reads) {
      for (size_t i = 0; i < r.indices.size(); ++i) {
        const Interval range =
            r.indices[i] ? relaxed(analyzer.simplify(substitute(r.indices[i], values)), ordered, fixed, &analyzer)
                         : Interval{};
        auto& sum = (*needed)[i];
        sum = sum ? analyzer.hull(*sum, range) : range;
      }
    }
    return {};
  }

  const Schedule& schedule_;
  const Threads threads_;
  std::set<const Stage*> whole_;
  std::map<const Stage*, Nest> nests_;
  std::vector<Nest*> done_;
};

}  // namespace

Result<std::map<const Stage*, Nest>> infer_bounds(const Schedule& schedule, const std::vector<OperationPtr>& whole,
                                                  Threads threads) {
  return Bounds(schedule, whole, threads).run();
}

}  // namespace aipu::te
