#include "kernels/te/lower.h"

#include <algorithm>
#include <functional>
#include <set>

#include "kernels/te/double_buffer.h"
#include "kernels/te/print.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

Expr replace_reads(const Expr& e, const Substitution& values, Analyzer* analyzer) {
  return analyzer->simplify_value(substitute(e, values));
}

class Writer {
 public:
  Writer(const Schedule& schedule, std::map<const Stage*, Nest> nests, std::set<const Stage*> given,
         const std::vector<Parameter>& params)
      : schedule_(schedule), nests_(std::move(nests)), given_(std::move(given)), params_(params) {}

  Result<Stmt> run() {
    AIPU_RETURN_IF_ERROR(alias_scans());
    std::vector<Nest*> roots;
    for (const StagePtr& stage : schedule_.stages) {
      const auto found = nests_.find(stage.get());
      if (found == nests_.end()) continue;
      if (found->second.parent)
        attached_[found->second.enclosing.size()].push_back(&found->second);
      else
        roots.push_back(&found->second);
    }
    Stmt body;
    for (auto nest = roots.rbegin(); nest != roots.rend(); ++nest) body = before(**nest, std::move(body));
    if (!error_.ok()) return std::move(error_);
    return aliases_.empty() ? body : bind_buffers(body, aliases_, {});
  }

 private:
  using LoopVars = std::map<const IterVar*, Expr>;

  // The producer's nest, then `body`, with memory for what is produced.
  Stmt before(const Nest& producer, Stmt body) {
    Stmt filling = nest(producer);
    if (producer.stage->double_buffer && !has_own_memory(producer))
      fail(str_cat("double_buffer: '", producer.stage->op->name, "' lies in memory that is given"));
    if (producer.stage->double_buffer && filling)
      filling = make_stmt(Pragma{std::string(kDoubleBufferScope), nullptr, std::move(filling)});
    Stmt both = realized(producer, sequence({std::move(filling), std::move(body)}));
    for (const Nest* scan : begun_by(producer)) both = realized_whole(*scan, std::move(both));
    return both;
  }

  // Neither that of the caller nor that of a scan, which begins with its init.
  bool has_own_memory(const Nest& n) const {
    bool aliased = true;
    for (int v = 0; v < n.stage->op->output_count(); ++v) aliased &= aliases_.contains({n.stage->op.get(), v});
    return !aliased && !given_.contains(n.stage.get()) && n.stage->op->scan() == nullptr;
  }

  Stmt realized(const Nest& n, Stmt body) {
    if (!has_own_memory(n)) return body;
    if (n.stage->op->external() != nullptr) return realized_whole(n, std::move(body));
    return realize_all(n.stage->op, n.region, n.stage->scope, alignment_of(*n.stage), std::move(body));
  }

  // Outputs of scans and statements may have different shapes: one box for each.
  Stmt realized_whole(const Nest& n, Stmt body) {
    if (given_.contains(n.stage.get())) return body;
    return realize_all(n.stage->op, {}, n.stage->scope, {}, std::move(body));
  }

  static std::vector<Alignment> alignment_of(const Stage& stage) {
    std::vector<Alignment> alignment;
    bool any = false;
    for (const IterVarPtr& axis : stage.op->compute()->axis) {
      const auto found = stage.attributes.find(axis.get());
      alignment.emplace_back();
      if (found == stage.attributes.end() || found->second.align_factor == 0) continue;
      alignment.back() = {found->second.align_factor, found->second.align_offset};
      any = true;
    }
    if (!any) alignment.clear();
    return alignment;
  }

  // The scans whose memory is first written by this stage.
  std::vector<const Nest*> begun_by(const Nest& n) const {
    const auto found = begins_.find(n.stage.get());
    return found == begins_.end() ? std::vector<const Nest*>{} : found->second;
  }

  // Init, update and state of a scan are parts of its memory.
  Status alias_scans() {
    for (const StagePtr& stage : schedule_.stages) {
      const Scan* scan = stage->op->scan();
      if (scan == nullptr) continue;
      const auto wrong = [&](const Tensor& tensor, std::string_view why) {
        return invalid_argument(str_cat("scan '", stage->op->name, "': '", tensor.name(), "' ", why));
      };
      const Nest& nest = nests_.at(stage.get());
      const Nest* first = nullptr;
      for (size_t s = 0; s < scan->state.size(); ++s) {
        const Tensor whole{stage->op, static_cast<int>(s)};
        for (const Tensor* part : {&scan->init[s], &scan->update[s], &scan->state[s]}) {
          const StagePtr of_part = schedule_.find(part->op.get());
          const bool is_state = part == &scan->state[s];
          if (is_state && !of_part) continue;  // nobody reads it
          const auto part_nest = nests_.find(of_part.get());
          if (!is_state && part_nest == nests_.end()) return wrong(*part, "is an argument, and has to be computed");
          if (given_.contains(of_part.get()) && !is_state)
            return wrong(*part, "is an argument, which has memory of its own");
          if (!aliases_.emplace(std::pair(of_part->op.get(), part->value_index), BufferTarget{whole, {}}).second)
            return wrong(*part, "stands for two states; give each its own");
          if (part != &scan->init[s]) continue;
          if (part_nest->second.enclosing.size() > nest.enclosing.size())
            return wrong(*part, "is its init, and is computed inside its steps");
          if (first == nullptr || is_before(*of_part, *first->stage)) first = &part_nest->second;
        }
      }
      begins_[first->stage.get()].push_back(&nest);
    }
    return {};
  }

  bool is_before(const Stage& a, const Stage& b) const {
    for (const StagePtr& stage : schedule_.stages) {
      if (stage.get() == &a || stage.get() == &b) return stage.get() == &a;
    }
    return false;
  }

  Stmt nest(const Nest& n) {
    Analyzer analyzer;
    assume_sizes(schedule_, &analyzer);
    bind_loops(n.enclosing, &analyzer);
    bind_loops(n.loops, &analyzer);
    const size_t count = n.loops.size();
    if (n.stage->op->scan() != nullptr) return loops(n, 0, count, nullptr);
    if (const Extern* external = n.stage->op->external()) return statement(n, *external);
    for (size_t i = 0; i < count; ++i) {
      const auto found = n.stage->attributes.find(n.loops[i].axis.get());
      if (found != n.stage->attributes.end() && found->second.tensor_intrin)
        return tensorized(n, i, *found->second.tensor_intrin, &analyzer);
    }
    if (n.compute().call) {
      size_t at = 0;
      while (at < count && !n.compute().inside_call(n.loops[at].axis.get())) ++at;
      return tensorized(n, at, *n.compute().call->intrin, &analyzer);
    }
    const Reduce* reduce = n.body.front()->as<Reduce>();
    if (reduce == nullptr) return loops(n, 0, count, store_values(n, &analyzer));
    size_t first = count;
    for (size_t i = count; i-- > 0;) {
      if (n.stage->is_reduction_axis(n.loops[i].axis.get())) first = i;
    }
    Stmt update = loops(n, first, count, update_values(n, *reduce, &analyzer));
    Stmt init = init_values(n, *reduce, first);
    return loops(n, 0, first, sequence({std::move(init), std::move(update)}));
  }

  Stmt statement(const Nest& n, const Extern& external) {
    BufferTargets targets;
    for (size_t i = 0; i < external.inputs.size(); ++i) {
      const Tensor& input = external.inputs[i];
      const Tensor& buffer = external.input_buffers[i];
      targets[{buffer.op.get(), buffer.value_index}] = {Tensor{schedule_.find(input.op.get())->op, input.value_index},
                                                        {}};
    }
    for (size_t v = 0; v < external.output_buffers.size(); ++v) {
      const Tensor& buffer = external.output_buffers[v];
      targets[{buffer.op.get(), buffer.value_index}] = {Tensor{n.stage->op, static_cast<int>(v)}, {}};
    }
    return bind_buffers(external.body, targets, {});
  }

  // The loops outside the intrinsic. Reduction loops among them start with `init`, or with `body` in their first
  // iteration.
  Stmt tensorized(const Nest& n, size_t at, const TensorIntrin& intrin, Analyzer* analyzer) {
    for (const auto& [count, producers] : attached_) {
      for (const Nest* p : producers) {
        if (p->parent == n.stage && count > n.enclosing.size() + at)
          fail(str_cat("tensorize: '", p->stage->op->name, "' is computed inside the intrinsic '", intrin.name, "'"));
      }
    }
    for (const Loop& loop : n.loops) {
      if (n.stage->is_reduction_axis(loop.axis.get()) && n.stage->counts_data(loop.axis.get()))
        fail(str_cat("tensorize of stage '", n.stage->op->name, "': axis '", loop.axis->name(),
                     "' is fused of a data and a reduction axis"));
    }
    const auto strides = [this](const Tensor& tensor, size_t dimension) { return stride(tensor, dimension); };
    auto made =
        n.compute().call ? bind_call(n, schedule_, analyzer, strides) : tensorize(n, at, intrin, analyzer, strides);
    if (!made.ok()) {
      if (error_.ok()) error_ = std::move(made).status();
      return nullptr;
    }
    size_t first = at;
    Expr starts;
    for (size_t i = at; i-- > 0;) {
      if (n.loops[i].trivial() || !n.stage->is_reduction_axis(n.loops[i].axis.get())) continue;
      first = i;
      starts = make_and(make_binary(BinaryOp::kEq, n.loops[i].var, make_int(0, n.loops[i].var->type)), starts);
    }
    const std::vector<Expr> conditions = guards(n, n.values, false, analyzer);
    if (first == at) return loops(n, 0, at, guarded(conditions, made->body));
    if (!made->update) {
      fail(str_cat("tensorize of stage '", n.stage->op->name, "': a reduction loop is outside of '", intrin.name,
                   "', which has no reduce_update"));
      return nullptr;
    }
    if (!made->init) {
      Stmt both = sequence({make_stmt(If{starts, made->body}), make_stmt(If{make_not(starts), made->update})});
      return loops(n, 0, at, guarded(conditions, std::move(both)));
    }
    Stmt init = guarded(guards(n, n.values, true, analyzer), made->init);
    for (size_t i = at; i-- > first;) {
      if (!n.stage->is_reduction_axis(n.loops[i].axis.get())) init = loop(n, n.loops[i], n.loops[i].var, init);
    }
    Stmt update = loops(n, first, at, guarded(conditions, made->update));
    return loops(n, 0, first, sequence({std::move(init), std::move(update)}));
  }

  // Of a dimension of a tensor's memory; null where it is not known.
  Expr stride(const Tensor& tensor, size_t dimension) {
    const auto alias = aliases_.find({tensor.op.get(), tensor.value_index});
    const Tensor place = alias == aliases_.end() ? tensor : alias->second.tensor;
    for (const Parameter& param : params_) {
      if (param.tensor.op == place.op && !param.strides.empty()) return param.strides[dimension];
    }
    const StagePtr stage = schedule_.find(place.op.get());
    const auto nest = nests_.find(stage.get());
    std::vector<Expr> extents = place.shape();
    std::vector<Alignment> alignment;
    if (nest != nests_.end() && !given_.contains(stage.get()) && place.op->compute() != nullptr) {
      alignment = alignment_of(*stage);
      for (size_t d = 0; d < extents.size(); ++d) {
        extents[d] = nest->second.region[d].extent;
        if (!as_int(extents[d])) return nullptr;
      }
    }
    return strides_of(extents, alignment)[dimension];
  }

  // The loops from `first` to before `last` around a body, producers that are attached at each at its start.
  Stmt loops(const Nest& n, size_t first, size_t last, Stmt body) {
    for (size_t i = last; i-- > first;) {
      body = attach(n, i, std::move(body));
      body = loop(n, n.loops[i], n.loops[i].var, std::move(body));
    }
    return body;
  }

  Stmt attach(const Nest& n, size_t i, Stmt body) {
    const auto found = attached_.find(n.enclosing.size() + i + 1);
    if (found == attached_.end()) return body;
    for (auto producer = found->second.rbegin(); producer != found->second.rend(); ++producer) {
      const Nest& p = **producer;
      if (p.parent == n.stage && p.enclosing.back().axis == n.loops[i].axis) body = before(p, std::move(body));
    }
    return body;
  }

  Stmt loop(const Nest& n, const Loop& loop, const Expr& var, Stmt body) {
    const auto found = n.stage->attributes.find(loop.axis.get());
    const IterAttributes attributes = found == n.stage->attributes.end() ? IterAttributes{} : found->second;
    if (var->as<Var>() != nullptr) {
      LoopKind kind = LoopKind::kSerial;
      if (attributes.kind == IterKind::kParallelized) kind = LoopKind::kParallel;
      if (attributes.kind == IterKind::kVectorized) kind = LoopKind::kVectorized;
      if (attributes.kind == IterKind::kUnrolled) kind = LoopKind::kUnrolled;
      if ((kind == LoopKind::kVectorized || kind == LoopKind::kUnrolled) && !as_int(loop.extent)) {
        fail(str_cat("stage '", n.stage->op->name, "': loop '", loop.axis->name(), "' is ",
                     kind == LoopKind::kVectorized ? "vectorized" : "unrolled", ", but its extent is not constant"));
      }
      if (attributes.bind_thread) kind = LoopKind::kThread;
      const bool shared_out = kind == LoopKind::kParallel || is_shared_out(n, loop, attributes.bind_thread);
      body = make_stmt(For{var, loop.extent, kind, attributes.bind_thread, shared_out, std::move(body)});
    }
    for (const auto& [tensor, offset] : attributes.prefetch) {
      if (var->as<Var>() != nullptr) body = make_stmt(Pragma{std::string(kPrefetchScope), offset, std::move(body)});
    }
    for (const auto& [key, value] : attributes.pragmas) {
      if (key == "debug_skip_region") body = make_stmt(Seq{});
      body = make_stmt(Pragma{key, value, std::move(body)});
    }
    return body;
  }

  // Threads are loops: each computes what it needs itself, so that nothing has to be exchanged between them.
  bool is_shared_out(const Nest& n, const Loop& loop, const IterVarPtr& thread) {
    if (!thread) return false;
    const auto kind = thread_kind(thread->thread_tag);
    if (!kind) fail(str_cat("stage '", n.stage->op->name, "': unknown thread tag '", thread->thread_tag, "'"));
    if (thread->dom && n.enclosing.empty() && !Analyzer().prove_equal(thread->dom->extent, loop.extent)) {
      fail(str_cat("stage '", n.stage->op->name, "': loop '", loop.axis->name(), "' has extent ", to_text(loop.extent),
                   ", the thread axis '", thread->name(), "' that it is bound to ", to_text(thread->dom->extent)));
    }
    return kind != ThreadKind::kVirtual && !n.stage->is_reduction_axis(loop.axis.get());
  }

  // The predicate of the final store, over the loops that threads have become. One that asks for a thread of a
  // cross-thread reduction holds: that reduction is a loop here.
  Expr store_predicate(const Nest& n, const Substitution& values) {
    Expr predicate = n.stage->store_predicate;
    if (!predicate) return nullptr;
    Substitution threads = values;
    std::set<const ExprNode*> reduced;
    std::vector<Loop> loops = n.enclosing;
    loops.insert(loops.end(), n.loops.begin(), n.loops.end());
    for (StagePtr stage = n.stage; stage; stage = nests_.at(stage.get()).parent) {
      for (const Loop& loop : loops) {
        const auto found = stage->attributes.find(loop.axis.get());
        if (found == stage->attributes.end() || !found->second.bind_thread) continue;
        const ExprNode* thread = found->second.bind_thread->var.get();
        if (stage == n.stage && stage->is_reduction_axis(loop.axis.get())) reduced.insert(thread);
        threads.emplace(thread, loop.var);
      }
    }
    // So does one that asks for a thread that nothing around is bound to.
    for (const StagePtr& stage : schedule_.stages) {
      for (const auto& [axis, attributes] : stage->attributes) {
        if (!attributes.bind_thread) continue;
        const ExprNode* thread = attributes.bind_thread->var.get();
        if (!threads.contains(thread)) reduced.insert(thread);
      }
    }
    if (uses_any(predicate, [&](const ExprNode* var) { return reduced.contains(var); })) return nullptr;
    return substitute(predicate, threads);
  }

  void fail(std::string message) {
    if (error_.ok()) error_ = invalid_argument(std::move(message));
  }

  // The place of the data axes in the tensor.
  static std::vector<Expr> place(const Nest& n, const Substitution& values, Analyzer* analyzer) {
    std::vector<Expr> indices;
    for (const IterVarPtr& axis : n.compute().axis) indices.push_back(analyzer->simplify(values.at(axis->var.get())));
    return indices;
  }

  static Stmt guarded(const std::vector<Expr>& conditions, Stmt body) {
    Expr all;
    for (const Expr& condition : conditions)
      all = make_and(all, make_expr(condition->type, Call{"likely", {condition}}));
    return all ? make_stmt(If{all, std::move(body)}) : body;
  }

  Stmt predicated(const Nest& n, const Substitution& values, Stmt body) {
    const Expr predicate = store_predicate(n, values);
    return predicate ? make_stmt(If{predicate, std::move(body)}) : body;
  }

  Stmt store_values(const Nest& n, Analyzer* analyzer) {
    const Substitution values = root_values(n, n.values);
    const std::vector<Expr> indices = place(n, values, analyzer);
    std::vector<Stmt> stores;
    for (size_t v = 0; v < n.body.size(); ++v) {
      const Tensor tensor{n.stage->op, static_cast<int>(v)};
      stores.push_back(make_stmt(Store{tensor, indices, replace_reads(n.body[v], values, analyzer)}));
    }
    return guarded(guards(n, n.values, false, analyzer), predicated(n, values, sequence(std::move(stores))));
  }

  // The identities, over the data loops inside the outermost reduction loop.
  Stmt init_values(const Nest& n, const Reduce& reduce, size_t first) {
    Analyzer analyzer;
    assume_sizes(schedule_, &analyzer);
    bind_loops(n.enclosing, &analyzer);
    AxisValues leaves;
    std::vector<std::pair<const Loop*, Expr>> own;
    for (size_t i = 0; i < n.loops.size(); ++i) {
      const Loop& loop = n.loops[i];
      if (n.stage->is_pure_reduction(loop.axis.get())) continue;
      Expr var = loop.var;
      if (i >= first && !loop.trivial()) var = make_var(loop.axis->name() + ".init", loop.var->type);
      if (!loop.trivial()) bind_loops({Loop{loop.axis, var, loop.extent}}, &analyzer);
      leaves[loop.axis.get()] = var;
      if (i >= first) own.emplace_back(&loop, var);
    }
    const AxisValues all = axis_values(n, leaves);
    const Substitution values = root_values(n, all);
    const std::vector<Expr> indices = place(n, values, &analyzer);
    std::vector<Stmt> stores;
    for (size_t v = 0; v < n.body.size(); ++v) {
      const Reduce& own_reduce = *n.body[v]->as<Reduce>();
      const auto& starts = own_reduce.init.empty() ? reduce.combiner->identity : own_reduce.init;
      const Expr& start = starts[static_cast<size_t>(own_reduce.value_index)];
      check_init(n, start, first);
      const Tensor tensor{n.stage->op, static_cast<int>(v)};
      stores.push_back(make_stmt(Store{tensor, indices, replace_reads(start, values, &analyzer)}));
    }
    Stmt body = guarded(guards(n, all, true, &analyzer), predicated(n, values, sequence(std::move(stores))));
    for (auto l = own.rbegin(); l != own.rend(); ++l) body = loop(n, *l->first, l->second, std::move(body));
    return body;
  }

  // What an init value reads has to be there before the reduction loops.
  void check_init(const Nest& n, const Expr& start, size_t first) {
    for (const Tensor& tensor : tensors_read(start)) {
      const StagePtr stage = schedule_.find(tensor.op.get());
      const auto producer = nests_.find(stage.get());
      if (producer != nests_.end() && producer->second.enclosing.size() > n.enclosing.size() + first) {
        fail(str_cat("stage '", n.stage->op->name, "': its init reads '", stage->op->name,
                     "', which is computed inside the reduction"));
      }
    }
  }

  // All new values are computed from the old ones before any is stored.
  Stmt update_values(const Nest& n, const Reduce& reduce, Analyzer* analyzer) {
    const Substitution values = root_values(n, n.values);
    const std::vector<Expr> indices = place(n, values, analyzer);
    const Combiner& combiner = *reduce.combiner;
    // Output v holds the value value_index of its own reduction; others are not kept anywhere.
    Substitution operands;
    std::vector<Expr> held(combiner.lhs.size());
    for (size_t v = 0; v < n.body.size(); ++v) {
      const auto k = static_cast<size_t>(n.body[v]->as<Reduce>()->value_index);
      held[k] = make_expr(n.body[v]->type, Read{n.stage->op, static_cast<int>(v), indices});
    }
    for (size_t k = 0; k < combiner.lhs.size(); ++k) {
      if (!held[k]) {
        fail(str_cat("stage '", n.stage->op->name, "': value ", k, " of the reduction is no output of the compute"));
        return nullptr;
      }
      operands[combiner.lhs[k].get()] = held[k];
      operands[combiner.rhs[k].get()] = replace_reads(reduce.source[k], values, analyzer);
    }
    std::vector<Stmt> stores;
    std::vector<std::pair<Expr, Expr>> temporaries;
    for (size_t v = 0; v < n.body.size(); ++v) {
      const auto k = static_cast<size_t>(n.body[v]->as<Reduce>()->value_index);
      // Of the axes first: a combiner may use them.
      Expr value = substitute(replace_reads(combiner.result[k], values, analyzer), operands);
      if (n.body.size() > 1) {
        temporaries.emplace_back(make_var(str_cat(n.stage->op->name, ".v", v, ".new"), value->type), value);
        value = temporaries.back().first;
      }
      stores.push_back(make_stmt(Store{Tensor{n.stage->op, static_cast<int>(v)}, indices, value}));
    }
    Stmt body = sequence(std::move(stores));
    for (auto t = temporaries.rbegin(); t != temporaries.rend(); ++t)
      body = make_stmt(Let{t->first, t->second, std::move(body)});
    body = predicated(n, values, std::move(body));
    std::vector<Expr> conditions = guards(n, n.values, false, analyzer);
    const Expr where = replace_reads(reduce.condition, values, analyzer);
    // The guards come first: they keep the reads of the condition within bounds.
    if (as_int(where) != 1) body = make_stmt(If{where, std::move(body)});
    return guarded(conditions, std::move(body));
  }

  const Schedule& schedule_;
  std::map<const Stage*, Nest> nests_;
  std::set<const Stage*> given_;
  const std::vector<Parameter>& params_;
  BufferTargets aliases_;
  std::map<const Stage*, std::vector<const Nest*>> begins_;
  std::map<size_t, std::vector<Nest*>> attached_;  // by the number of loops around them, in order of stages
  Status error_;
};

Status check_params(const Schedule& schedule, const std::vector<Parameter>& params) {
  std::set<const ExprNode*> vars;
  std::set<std::pair<const Stage*, int>> tensors;
  for (const Parameter& param : params) {
    if (!param.tensor.op) {
      if (!vars.insert(param.var.get()).second)
        return invalid_argument(str_cat("lower: variable '", param.var->as<Var>()->name, "' is given twice"));
      continue;
    }
    const StagePtr stage = schedule.find(param.tensor.op.get());
    if (stage && !tensors.insert({stage.get(), param.tensor.value_index}).second)
      return invalid_argument(str_cat("lower: tensor '", param.tensor.name(), "' is given twice"));
  }
  for (const auto& [stage, value] : tensors) {
    for (int v = 0; v < stage->op->output_count(); ++v) {
      if (!tensors.contains({stage, v})) {
        return unsupported(str_cat("lower: '", stage->op->name, "' has ", stage->op->output_count(),
                                   " outputs, and not all of them are arguments"));
      }
    }
  }
  return {};
}

}  // namespace

Result<Function> lower_schedule(const Schedule& schedule, std::vector<Parameter> params, std::string name,
                                bool shared_by_threads, Purpose purpose) {
  AIPU_RETURN_IF_ERROR(check_params(schedule, params));
  std::vector<OperationPtr> whole;
  std::set<const Stage*> given;
  for (Parameter& param : params) {
    if (!param.tensor.op) continue;
    const StagePtr stage = schedule.find(param.tensor.op.get());
    if (!stage) continue;
    param.tensor.op = stage->op;
    whole.push_back(stage->op);
    given.insert(stage.get());
  }
  AIPU_ASSIGN_OR_RETURN(auto nests,
                        infer_bounds(schedule, whole, shared_by_threads ? Threads::kBlocks : Threads::kLoops));
  AIPU_ASSIGN_OR_RETURN(Stmt body, Writer(schedule, std::move(nests), std::move(given), params).run());
  if (purpose == Purpose::kRun && !shared_by_threads) {
    AIPU_ASSIGN_OR_RETURN(body, inject_double_buffers(body));
  }
  return Function{std::move(name), std::move(params), std::move(body), shared_by_threads};
}

}  // namespace aipu::te
