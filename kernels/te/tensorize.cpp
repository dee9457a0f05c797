// Whether the loops inside an axis are what an intrinsic declares, and the statements that take their place.
#include <algorithm>
#include <set>

#include "kernels/te/lower.h"
#include "kernels/te/print.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

using Strides = std::function<Expr(const Tensor&, size_t)>;

// The strides of what a buffer of an intrinsic stands for; `values` gets those of the buffer that are variables.
Status bind_strides(const TensorIntrin& intrin, size_t k, const Tensor& own, const std::string& where,
                    const Strides& stride, Analyzer* analyzer, Substitution* values) {
  const auto wrong = [&](std::string_view why) { return invalid_argument(str_cat(where, why)); };
  const Tensor& buffer = intrin.buffers[k];
  const size_t rank = buffer.shape().size(), skipped = own.shape().size() - rank;
  std::vector<Expr> extents;
  for (const Expr& extent : buffer.shape()) extents.push_back(substitute(extent, *values));
  const std::vector<Expr> natural = strides_of(extents, {});
  for (size_t d = 0; d < rank; ++d) {
    const Expr real = stride(own, skipped + d);
    const Expr& declared = intrin.strides[k].empty() ? natural[d] : intrin.strides[k][d];
    if (declared->as<Var>() != nullptr && !values->contains(declared.get())) {
      if (!real) return wrong(str_cat("the strides of '", own.name(), "' are not known"));
      (*values)[declared.get()] = real;
      continue;
    }
    const Expr expected = substitute(declared, *values);
    if (as_int(extents[d]) == 1) continue;
    if (!real || !analyzer->prove_equal(real, expected)) {
      return wrong(str_cat("dimension ", d, " of '", own.name(), "' has stride ", to_text(real), ", the buffer '",
                           buffer.name(), "' needs ", to_text(expected)));
    }
  }
  return {};
}

class Matcher {
 public:
  Matcher(const Nest& nest, size_t at, const TensorIntrin& intrin, Analyzer* analyzer,
          const std::function<Expr(const Tensor&, size_t)>& stride)
      : nest_(nest),
        at_(at),
        intrin_(intrin),
        declared_(*intrin.op->compute()),
        analyzer_(*analyzer),
        stride_(stride),
        values_(root_values(nest, nest.values)) {}

  Result<Tensorized> run() {
    AIPU_RETURN_IF_ERROR(check_loops());
    AIPU_RETURN_IF_ERROR(match_axes(nest_.compute().axis, declared_.axis, &output_));
    std::vector<Range> reduced;
    AIPU_RETURN_IF_ERROR(match_axes(nest_.compute().reduce_axis, declared_.reduce_axis, &reduced));
    AIPU_RETURN_IF_ERROR(match_inputs());
    AIPU_RETURN_IF_ERROR(match_body());
    return bind();
  }

 private:
  Status wrong(std::string_view why) const {
    return invalid_argument(str_cat("tensorize of stage '", nest_.stage->op->name, "' by '", intrin_.name, "': ", why));
  }

  // Neither threads nor guards are inside.
  Status check_loops() {
    if (nest_.stage->store_predicate) return wrong("the stage has a store predicate");
    std::set<const ExprNode*> inside;
    for (size_t i = at_; i < nest_.loops.size(); ++i) {
      const Loop& loop = nest_.loops[i];
      const auto found = nest_.stage->attributes.find(loop.axis.get());
      if (found != nest_.stage->attributes.end() && found->second.bind_thread)
        return wrong(str_cat("axis '", loop.axis->name(), "' is bound to a thread"));
      inside.insert(loop.var.get());
    }
    for (const Expr& guard : guards(nest_, nest_.values, false, &analyzer_)) {
      if (uses_any(guard, [&](const ExprNode* var) { return inside.contains(var); }))
        return wrong(str_cat("a guard inside of the intrinsic: ", to_text(guard)));
    }
    return {};
  }

  Result<Range> region(const Expr& index) {
    const Interval range = relaxed(analyzer_.simplify(substitute(index, values_)), nest_.loops, at_, &analyzer_);
    if (!range.bounded()) return wrong(str_cat("the region of ", to_text(index), " is not known"));
    const Expr lo = analyzer_.simplify(range.lo), hi = analyzer_.simplify(range.hi);
    return Range{lo, analyzer_.simplify(add(sub(hi, lo), make_int(1, lo->type)))};
  }

  // What the declaration does not have, are leading dimensions of extent 1.
  Status match_extents(std::string_view what, const std::vector<Range>& own, const std::vector<Expr>& declared) {
    if (own.size() < declared.size())
      return wrong(str_cat(what, " has ", own.size(), " dimensions, declared are ", declared.size()));
    const size_t skipped = own.size() - declared.size();
    for (size_t i = 0; i < own.size(); ++i) {
      const Expr expected = i < skipped ? make_int(1) : declared[i - skipped];
      if (!analyzer_.prove_equal(own[i].extent, expected)) {
        return wrong(str_cat("dimension ", i, " of ", what, " has extent ", to_text(own[i].extent), ", declared is ",
                             to_text(expected)));
      }
    }
    return {};
  }

  Status match_axes(const std::vector<IterVarPtr>& own, const std::vector<IterVarPtr>& declared,
                    std::vector<Range>* ranges) {
    std::vector<Expr> extents;
    for (const IterVarPtr& axis : declared) extents.push_back(axis->dom->extent);
    for (const IterVarPtr& axis : own) {
      AIPU_ASSIGN_OR_RETURN(Range range, region(axis->var));
      ranges->push_back(std::move(range));
    }
    AIPU_RETURN_IF_ERROR(match_extents(ranges == &output_ ? "the result" : "the reduction", *ranges, extents));
    const size_t skipped = own.size() - declared.size();
    for (size_t i = 0; i < own.size(); ++i) {
      Expr value = (*ranges)[i].min;
      if (i >= skipped) {
        Expr var = declared[i - skipped]->var;
        match_index_types(value, var);
        value = add(value, var);
      }
      places_[own[i]->var.get()] = value;
    }
    for (const IterVarPtr& axis : declared) analyzer_.bind(axis->var, *axis->dom);
    return {};
  }

  Status match_inputs() {
    for (const Expr& body : nest_.body) {
      for (const Tensor& tensor : tensors_read(body)) {
        if (std::find(inputs_.begin(), inputs_.end(), tensor) == inputs_.end()) inputs_.push_back(tensor);
      }
    }
    if (inputs_.size() != intrin_.inputs.size())
      return wrong(str_cat("the body reads ", inputs_.size(), " tensors, declared are ", intrin_.inputs.size()));
    for (size_t k = 0; k < inputs_.size(); ++k) {
      AIPU_ASSIGN_OR_RETURN(std::vector<Range> read, region_read(inputs_[k]));
      AIPU_RETURN_IF_ERROR(match_extents(str_cat("'", inputs_[k].name(), "'"), read, intrin_.inputs[k].shape()));
      regions_.push_back(std::move(read));
    }
    return {};
  }

  Result<std::vector<Range>> region_read(const Tensor& tensor) {
    std::vector<Interval> hulls;
    for (const Expr& body : nest_.body) {
      walk(body, [&](const Expr& e) {
        const Read* read = e->as<Read>();
        if (read == nullptr || Tensor{read->op, read->value_index} != tensor) return;
        for (size_t d = 0; d < read->indices.size(); ++d) {
          const Interval range =
              relaxed(analyzer_.simplify(substitute(read->indices[d], values_)), nest_.loops, at_, &analyzer_);
          if (d == hulls.size())
            hulls.push_back(range);
          else
            hulls[d] = analyzer_.hull(hulls[d], range);
        }
      });
    }
    std::vector<Range> result;
    for (const Interval& range : hulls) {
      if (!range.bounded()) return wrong(str_cat("what is read of '", tensor.name(), "' is not known"));
      const Expr lo = analyzer_.simplify(range.lo), hi = analyzer_.simplify(range.hi);
      result.push_back({lo, analyzer_.simplify(add(sub(hi, lo), make_int(1, lo->type)))});
    }
    return result;
  }

  // The own expression over the declared axes, reading the declared inputs.
  Expr rewritten(const Expr& e) {
    Change change;
    change = [&](const Expr& x) -> Expr {
      const Read* read = x->as<Read>();
      if (read == nullptr) return nullptr;
      const auto found = std::find(inputs_.begin(), inputs_.end(), Tensor{read->op, read->value_index});
      const auto k = static_cast<size_t>(found - inputs_.begin());
      const Tensor& input = intrin_.inputs[k];
      const size_t skipped = read->indices.size() - input.shape().size();
      std::vector<Expr> indices;
      for (size_t d = skipped; d < read->indices.size(); ++d) {
        Expr index = substitute(read->indices[d], places_), min = regions_[k][d].min;
        match_index_types(index, min);
        indices.push_back(analyzer_.simplify(sub(index, min)));
      }
      return make_expr(x->type, Read{input.op, input.value_index, std::move(indices)});
    };
    return analyzer_.simplify_value(substitute(rewrite(e, change), places_));
  }

  std::string key(const Expr& e) { return structural_key(analyzer_.simplify_value(e)); }

  // How values are combined, whatever the variables are called.
  static std::string combiner_key(const Combiner& combiner, std::vector<Expr>* vars) {
    Substitution names;
    size_t i = 0;
    for (const auto* list : {&combiner.lhs, &combiner.rhs}) {
      for (const Expr& var : *list) {
        if (i == vars->size()) vars->push_back(make_var(str_cat("x", i), var->type));
        names[var.get()] = (*vars)[i++];
      }
    }
    std::string text;
    for (const Expr& e : combiner.result) text += structural_key(substitute(e, names)) + ";";
    return text;
  }

  Status match_body() {
    if (nest_.body.size() != declared_.body.size())
      return wrong(str_cat("the stage has ", nest_.body.size(), " outputs, declared are ", declared_.body.size()));
    for (size_t v = 0; v < nest_.body.size(); ++v) {
      const Expr &own = nest_.body[v], &declared = declared_.body[v];
      Status differs =
          wrong(str_cat("the body is ", to_text(own), ", declared is ", to_text(declared), "; they differ"));
      const Reduce *a = own->as<Reduce>(), *b = declared->as<Reduce>();
      if (own->type != declared->type || (a == nullptr) != (b == nullptr)) return differs;
      if (a == nullptr) {
        if (key(rewritten(own)) != key(declared)) return differs;
        continue;
      }
      std::vector<Expr> vars;
      const std::string combined = combiner_key(*a->combiner, &vars);
      if (a->source.size() != b->source.size() || a->value_index != b->value_index ||
          combined != combiner_key(*b->combiner, &vars) || !a->init.empty() || !b->init.empty() ||
          key(rewritten(a->condition)) != key(b->condition))
        return differs;
      for (size_t i = 0; i < a->source.size(); ++i) {
        if (key(rewritten(a->source[i])) != key(b->source[i])) return differs;
      }
    }
    return {};
  }

  Result<Tensorized> bind() {
    BufferTargets targets;
    Substitution strides;
    for (size_t k = 0; k < intrin_.buffers.size(); ++k) {
      const bool is_input = k < inputs_.size();
      const Tensor own = is_input ? inputs_[k] : Tensor{nest_.stage->op, static_cast<int>(k - inputs_.size())};
      BufferTarget target{own, {}};
      for (const Range& range : is_input ? regions_[k] : output_) target.base.push_back(range.min);
      const std::string where = str_cat("tensorize of stage '", nest_.stage->op->name, "' by '", intrin_.name, "': ");
      AIPU_RETURN_IF_ERROR(bind_strides(intrin_, k, own, where, stride_, &analyzer_, &strides));
      targets[{intrin_.buffers[k].op.get(), intrin_.buffers[k].value_index}] = std::move(target);
    }
    Tensorized made;
    made.body = bind_buffers(intrin_.body, targets, strides);
    made.init = bind_buffers(intrin_.reduce_init, targets, strides);
    made.update = bind_buffers(intrin_.reduce_update, targets, strides);
    return made;
  }

  const Nest& nest_;
  size_t at_;
  const TensorIntrin& intrin_;
  const Compute& declared_;
  Analyzer& analyzer_;
  const std::function<Expr(const Tensor&, size_t)>& stride_;
  Substitution values_;  // of the root axes over the loops
  Substitution places_;  // of the root axes over the declared ones
  std::vector<Range> output_;
  std::vector<Tensor> inputs_;
  std::vector<std::vector<Range>> regions_;
};

}  // namespace

Result<Tensorized> bind_call(const Nest& nest, const Schedule& schedule, Analyzer* analyzer, const Strides& stride) {
  const Compute& compute = nest.compute();
  const TensorCall& call = *compute.call;
  const TensorIntrin& intrin = *call.intrin;
  const Substitution roots = root_values(nest, nest.values);
  const auto here = [&](const Expr& e) { return analyzer->simplify_value(substitute(e, roots)); };
  Substitution values;
  for (const auto& [var, value] : call.values) values[var.get()] = here(value);
  BufferTargets targets;
  for (size_t k = 0; k < intrin.buffers.size(); ++k) {
    const bool is_input = k < call.inputs.size();
    const Tensor own = is_input ? Tensor{schedule.find(call.inputs[k].op.get())->op, call.inputs[k].value_index}
                                : Tensor{nest.stage->op, static_cast<int>(k - call.inputs.size())};
    BufferTarget target{own, {}};
    for (size_t d = 0; d < own.shape().size(); ++d) {
      const bool inner = !is_input && d >= call.schedulable;
      target.base.push_back(is_input ? here(call.regions[k][d].min)
                            : inner  ? nest.region[d].min
                                     : here(compute.axis[d]->var));
    }
    const std::string where = str_cat("stage '", nest.stage->op->name, "' calls '", intrin.name, "': ");
    AIPU_RETURN_IF_ERROR(bind_strides(intrin, k, own, where, stride, analyzer, &values));
    targets[{intrin.buffers[k].op.get(), intrin.buffers[k].value_index}] = std::move(target);
  }
  return Tensorized{bind_buffers(intrin.body, targets, values), bind_buffers(intrin.reduce_init, targets, values),
                    bind_buffers(intrin.reduce_update, targets, values)};
}

Result<Tensorized> tensorize(const Nest& nest, size_t at, const TensorIntrin& intrin, Analyzer* analyzer,
                             const std::function<Expr(const Tensor&, size_t dimension)>& stride) {
  return Matcher(nest, at, intrin, analyzer, stride).run();
}

}  // namespace aipu::te
