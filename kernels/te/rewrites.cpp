// Primitives that make new stages: caches and factored reductions. They rewrite operations; the ranges and guards that
// they need come from the passes of nest.h, as lowering has them.
#include <algorithm>
#include <set>

#include "kernels/te/nest.h"
#include "kernels/te/schedule.h"

namespace aipu::te {

namespace {

Status refused(std::string_view primitive, const Operation& op, std::string_view why) {
  return invalid_argument(str_cat(primitive, " of '", op.name, "': ", why));
}

Expr zero_of(Type type) { return is_floating(type.element) ? make_float(0, type) : make_int(0, type); }

IterVarPtr copy_axis(const IterVar& axis, const std::string& suffix) {
  return std::make_shared<IterVar>(
      IterVar{make_var(axis.name() + suffix, axis.var->type), axis.dom, IterKind::kDataPar});
}

std::vector<Expr> variables_of(const std::vector<IterVarPtr>& axes) {
  std::vector<Expr> vars;
  for (const IterVarPtr& axis : axes) vars.push_back(axis->var);
  return vars;
}

OperationPtr make_operation(std::string name, std::string tag, Compute compute) {
  for (const IterVarPtr& axis : compute.axis) compute.shape.push_back(axis->dom->extent);
  return std::make_shared<Operation>(Operation{std::move(name), std::move(tag), std::move(compute)});
}

Expr read_element(const OperationPtr& op, int value_index, std::vector<Expr> indices) {
  const Type type = Tensor{op, value_index}.type();
  return make_expr(type, Read{op, value_index, std::move(indices)});
}

// index down: what the leaf data axes are at the place that the root axes have.
AxisValues leaf_values(const Nest& nest, AxisValues values) {
  for (const Relation& relation : nest.stage->relations) {
    if (const auto* split = std::get_if<Split>(&relation); split != nullptr && values.contains(split->parent.get())) {
      Expr parent = values.at(split->parent.get()), length = nest.domain.at(split->inner.get()).extent;
      match_index_types(parent, length);
      values[split->outer.get()] = floordiv(parent, length);
      values[split->inner.get()] = floormod(parent, length);
    }
    if (const auto* fuse = std::get_if<Fuse>(&relation); fuse != nullptr && values.contains(fuse->outer.get())) {
      Expr outer = values.at(fuse->outer.get()), inner = values.at(fuse->inner.get());
      Expr length = nest.domain.at(fuse->inner.get()).extent;
      match_index_types(outer, length);
      match_index_types(outer, inner);
      values[fuse->fused.get()] = add(mul(outer, make_cast(outer->type, length)), inner);
    }
    if (const auto* single = std::get_if<Singleton>(&relation)) values[single->iter.get()] = make_int(0);
  }
  return values;
}

// The stage over its whole domain.
Result<Nest> whole_nest(const Schedule& schedule, const StagePtr& stage, Analyzer* analyzer) {
  Nest nest{stage, stage->op->compute()->body};
  for (const Expr& extent : stage->op->compute()->shape) nest.region.push_back({make_int(0, extent->type), extent});
  assume_sizes(schedule, analyzer);
  AIPU_RETURN_IF_ERROR(derive_loops(&nest, analyzer));
  bind_loops(nest.loops, analyzer);
  return nest;
}

Expr all_of(const std::vector<Expr>& conditions) {
  Expr all;
  for (const Expr& condition : conditions) all = make_and(all, condition);
  return all;
}

Expr with_condition(const Expr& expr, const Expr& condition, const Substitution& values, Analyzer* analyzer) {
  const Reduce* reduce = expr->as<Reduce>();
  if (reduce == nullptr) {
    Expr value = analyzer->simplify_value(substitute(expr, values));
    if (!condition) return value;
    return make_expr(expr->type, Call{"if_then_else", {condition, value, zero_of(expr->type)}});
  }
  Reduce copy = *substitute(expr, values)->as<Reduce>();
  for (Expr& e : copy.source) e = analyzer->simplify_value(e);
  for (Expr& e : copy.init) e = analyzer->simplify_value(e);
  // the guards first: the user's condition may read what is out of bounds beyond them
  copy.condition = make_and(condition, analyzer->simplify_value(copy.condition));
  return make_expr(expr->type, std::move(copy));
}

// The axes that an axis is made of, and all that is made of these.
std::set<const IterVar*> relatives(const Stage& stage, const IterVar* axis) {
  std::set<const IterVar*> found = {axis};
  for (auto r = stage.relations.rbegin(); r != stage.relations.rend(); ++r) {
    if (const auto* split = std::get_if<Split>(&*r);
        split != nullptr && (found.contains(split->outer.get()) || found.contains(split->inner.get())))
      found.insert(split->parent.get());
    if (const auto* fuse = std::get_if<Fuse>(&*r); fuse != nullptr && found.contains(fuse->fused.get()))
      found.insert({fuse->outer.get(), fuse->inner.get()});
  }
  for (const Relation& r : stage.relations) {
    if (const auto* split = std::get_if<Split>(&r); split != nullptr && found.contains(split->parent.get()))
      found.insert({split->outer.get(), split->inner.get()});
    if (const auto* fuse = std::get_if<Fuse>(&r);
        fuse != nullptr && (found.contains(fuse->outer.get()) || found.contains(fuse->inner.get())))
      found.insert(fuse->fused.get());
  }
  return found;
}

}  // namespace

void Schedule::insert_before(const StagePtr& place, StagePtr stage) {
  stage_of_[stage->op.get()] = stage;
  stages.insert(std::find(stages.begin(), stages.end(), place), std::move(stage));
}

void Schedule::replace(const StagePtr& stage, OperationPtr op, bool keep_schedule) {
  stage_of_[op.get()] = stage;
  kept_.push_back(stage->op);
  stage->op = std::move(op);
  if (keep_schedule) return;
  stage->relations.clear();
  stage->attributes.clear();
  stage->all_iter_vars = stage->root_axes();
  stage->leaf_iter_vars = stage->all_iter_vars;
}

std::string Schedule::free_name(std::string name, const std::string& scope) const {
  const auto taken = [&](const std::string& text) {
    return std::any_of(stages.begin(), stages.end(), [&](const StagePtr& s) { return s->op->name == text; });
  };
  while (taken(name + "." + scope)) name += ".d";
  return name + "." + scope;
}

Result<Tensor> Schedule::cache_read(const Tensor& tensor, const std::string& scope,
                                    const std::vector<OperationPtr>& readers) {
  const StagePtr producer = find(tensor.op.get());
  if (!producer) return refused("cache_read", *tensor.op, "it is not part of the schedule");
  if (readers.empty()) return refused("cache_read", *tensor.op, "no readers are given");
  const auto is_tensor = [&](const Read& read) {
    return find(read.op.get()) == producer && read.value_index == tensor.value_index;
  };
  std::vector<StagePtr> stages_of_readers;
  for (const OperationPtr& reader : readers) {
    const StagePtr stage = find(reader.get());
    bool reads = false;
    if (stage && stage->op->compute() != nullptr) {
      for (const Expr& body : stage->op->compute()->body) {
        walk(body, [&](const Expr& e) { reads |= e->as<Read>() != nullptr && is_tensor(*e->as<Read>()); });
      }
    }
    if (!reads) return refused("cache_read", *tensor.op, str_cat("'", reader->name, "' does not read it"));
    stages_of_readers.push_back(stage);
  }
  const Tensor source{producer->op, tensor.value_index};
  Compute copy;
  for (size_t i = 0; i < source.shape().size(); ++i) {
    const Expr& extent = source.shape()[i];
    const Expr var = make_var(str_cat("ax", i), extent->type);
    copy.axis.push_back(std::make_shared<IterVar>(IterVar{var, Range{make_int(0, extent->type), extent}}));
  }
  copy.body = {read_element(source.op, source.value_index, variables_of(copy.axis))};
  const OperationPtr cache = make_operation(free_name(source.name(), scope), "", std::move(copy));
  auto stage = std::make_shared<Stage>(cache);
  stage->scope = scope;
  Change change;
  change = [&](const Expr& e) -> Expr {
    const Read* read = e->as<Read>();
    if (read == nullptr || !is_tensor(*read)) return nullptr;
    std::vector<Expr> indices;
    for (const Expr& index : read->indices) indices.push_back(rewrite(index, change));
    return read_element(cache, 0, std::move(indices));
  };
  for (const StagePtr& reader : stages_of_readers) {
    Operation op = *reader->op;
    auto& compute = std::get<Compute>(op.what);
    for (Expr& body : compute.body) body = rewrite(body, change);
    if (compute.call) {
      TensorCall call = *compute.call;
      for (Tensor& input : call.inputs) {
        if (find(input.op.get()) == producer && input.value_index == tensor.value_index) input = {cache, 0};
      }
      compute.call = std::make_shared<TensorCall>(std::move(call));
    }
    replace(reader, std::make_shared<Operation>(std::move(op)), true);
  }
  const auto place = std::find(stages.begin(), stages.end(), producer);
  insert_before(place + 1 == stages.end() ? nullptr : *(place + 1), std::move(stage));
  return Tensor{cache, 0};
}

Result<std::vector<Tensor>> Schedule::cache_write(const std::vector<Tensor>& tensors, const std::string& scope) {
  if (tensors.empty()) return invalid_argument("cache_write: no tensors are given");
  const StagePtr stage = find(tensors.front().op.get());
  if (!stage) return refused("cache_write", *tensors.front().op, "it is not part of the schedule");
  const Operation& op = *stage->op;
  if (op.compute() == nullptr) return refused("cache_write", op, "it is no compute, which alone can be moved");
  for (const Tensor& tensor : tensors) {
    if (find(tensor.op.get()) != stage)
      return refused("cache_write", op, "the tensors are not outputs of one operation");
  }
  if (tensors.size() != static_cast<size_t>(op.output_count()))
    return refused("cache_write", op, str_cat("all ", op.output_count(), " outputs have to be given"));
  if (stage->attach == Attach::kInline || stage->attach == Attach::kInlined)
    return refused("cache_write", op, "it is inlined");
  Analyzer analyzer;
  AIPU_ASSIGN_OR_RETURN(const Nest nest, whole_nest(*this, stage, &analyzer));

  // The leaf data axes are the axes of the cache; reduction axes stay what they are.
  for (const IterVarPtr& leaf : stage->leaf_iter_vars) {
    if (stage->is_reduction_axis(leaf.get()) && stage->counts_data(leaf.get()))
      return refused("cache_write", op, str_cat("axis '", leaf->name(), "' is fused of a data and a reduction axis"));
  }
  Compute cache, copy;
  std::vector<const IterVar*> leaves;
  AxisValues values;
  for (const Loop& loop : nest.loops) {
    if (stage->is_reduction_axis(loop.axis.get())) continue;
    const Expr var = make_var(loop.axis->name() + ".c", loop.axis->var->type);
    cache.axis.push_back(std::make_shared<IterVar>(IterVar{var, Range{make_int(0, var->type), loop.extent}}));
    values[loop.axis.get()] = var;
    leaves.push_back(loop.axis.get());
    analyzer.bind(var, {make_int(0, var->type), loop.extent});
  }
  const AxisValues all = axis_values(nest, values);
  Substitution roots;
  for (const IterVarPtr& axis : op.compute()->axis) roots[axis->var.get()] = analyzer.simplify(all.at(axis.get()));
  const Expr condition = all_of(guards(nest, all, true, &analyzer));
  for (const Expr& body : op.compute()->body) cache.body.push_back(with_condition(body, condition, roots, &analyzer));
  if (const auto& made_by = op.compute()->call) {
    if (condition) return refused("cache_write", op, "its loops have guards around the intrinsic that it calls");
    TensorCall call = *made_by;
    call.schedulable = leaves.size() - (op.compute()->axis.size() - made_by->schedulable);
    for (std::vector<Range>& region : call.regions) {
      for (Range& range : region) range = {substitute(range.min, roots), substitute(range.extent, roots)};
    }
    for (auto& [var, value] : call.values) value = substitute(value, roots);
    cache.call = std::make_shared<TensorCall>(std::move(call));
  }
  cache.reduce_axis = op.compute()->reduce_axis;
  for (IterVarPtr& axis : cache.reduce_axis) {  // whose domain may depend on the data axes
    const Range dom{substitute(axis->dom->min, roots), substitute(axis->dom->extent, roots)};
    if (dom.min == axis->dom->min && dom.extent == axis->dom->extent) continue;
    axis = std::make_shared<IterVar>(IterVar{axis->var, dom, axis->kind, axis->thread_tag});
  }
  for (Expr& body : cache.body) {
    const Reduce* reduce = body->as<Reduce>();
    if (reduce == nullptr) continue;
    Reduce moved = *reduce;
    moved.axis = cache.reduce_axis;
    body = make_expr(body->type, std::move(moved));
  }
  const OperationPtr cached = make_operation(free_name(op.name, scope), op.tag, std::move(cache));

  AxisValues place;
  for (const IterVarPtr& axis : op.compute()->axis) {
    copy.axis.push_back(axis);  // who has the tensor finds its loops by them
    place[axis.get()] = axis->var;
    analyzer.bind(axis->var, *axis->dom);
  }
  const AxisValues down = leaf_values(nest, place);
  std::vector<Expr> indices;
  for (const IterVar* leaf : leaves) indices.push_back(analyzer.simplify(make_cast(leaf->var->type, down.at(leaf))));
  std::vector<Tensor> result;
  for (int v = 0; v < op.output_count(); ++v) {
    copy.body.push_back(read_element(cached, v, indices));
    result.push_back({cached, v});
  }
  auto cache_stage = std::make_shared<Stage>(cached);
  cache_stage->scope = scope;
  const OperationPtr copied = make_operation(op.name, "", std::move(copy));
  insert_before(stage, std::move(cache_stage));
  replace(stage, copied, false);
  return result;
}

Result<std::vector<Tensor>> Schedule::rfactor(const Tensor& tensor, const IterVarPtr& axis, int factor_axis) {
  const StagePtr stage = find(tensor.op.get());
  if (!stage) return refused("rfactor", *tensor.op, "it is not part of the schedule");
  const Operation& op = *stage->op;
  const Reduce* reduce = op.reduction();
  if (reduce == nullptr) return refused("rfactor", op, "it is no reduction");
  if (op.compute()->call) return refused("rfactor", op, "it calls an intrinsic");
  if (axis->kind != IterKind::kCommReduce)
    return refused("rfactor", op, str_cat("axis '", axis->name(), "' is no reduction axis"));
  if (std::find(stage->leaf_iter_vars.begin(), stage->leaf_iter_vars.end(), axis) == stage->leaf_iter_vars.end())
    return refused("rfactor", op, str_cat("axis '", axis->name(), "' is none of the leaf axes"));
  const auto rank = static_cast<int>(op.compute()->axis.size());
  const int position = factor_axis < 0 ? rank + 1 + factor_axis : factor_axis;
  if (position < 0 || position > rank)
    return refused("rfactor", op, str_cat("factor_axis ", factor_axis, " is out of range"));
  for (const Expr& body : op.compute()->body) {
    if (body->as<Reduce>()->source.size() != op.compute()->body.size())
      return refused("rfactor", op, "not all values of its reduction are outputs");
  }
  Analyzer analyzer;
  AIPU_ASSIGN_OR_RETURN(const Nest nest, whole_nest(*this, stage, &analyzer));
  const Range& range = nest.domain.at(axis.get());
  if (!is_zero(range.min)) return refused("rfactor", op, str_cat("axis '", axis->name(), "' does not start at 0"));

  // What the axis is made of, and what else is made of that. The other reduction axes stay as they are.
  const std::set<const IterVar*> touched = relatives(*stage, axis.get());
  for (const IterVarPtr& leaf : stage->leaf_iter_vars) {
    if (touched.contains(leaf.get()) && stage->counts_data(leaf.get()))
      return refused("rfactor", op,
                     str_cat("axis '", axis->name(), "' is fused with a data axis in '", leaf->name(), "'"));
  }

  // New stage: the axis becomes a data axis; variables are those of the old one, so that their loops can be found.
  Compute factored;
  AxisValues leaves;
  factored.axis = op.compute()->axis;
  for (const IterVarPtr& root : op.compute()->reduce_axis) {
    if (!touched.contains(root.get())) factored.reduce_axis.push_back(root);
  }
  for (const Loop& loop : nest.loops) {
    if (!touched.contains(loop.axis.get())) continue;
    const auto is_loop = [&](const ExprNode* var) {
      return std::any_of(nest.loops.begin(), nest.loops.end(), [&](const Loop& l) { return l.var.get() == var; });
    };
    if (uses_any(loop.extent, is_loop))
      return refused("rfactor", op, str_cat("the domain of axis '", loop.axis->name(), "' depends on a data axis"));
    const Expr var = loop.axis->var;
    const Range of_leaf{make_int(0, var->type), loop.extent};
    analyzer.bind(var, of_leaf);
    leaves[loop.axis.get()] = var;
    const bool is_factor = loop.axis == axis;
    const auto copy =
        std::make_shared<IterVar>(IterVar{var, of_leaf, is_factor ? IterKind::kDataPar : IterKind::kCommReduce});
    if (is_factor)
      factored.axis.insert(factored.axis.begin() + position, copy);
    else
      factored.reduce_axis.push_back(copy);
  }
  AxisValues all = axis_values(nest, leaves);
  Substitution roots;
  for (const IterVarPtr& root : stage->root_axes()) {
    if (!touched.contains(root.get())) {
      analyzer.bind(root->var, *root->dom);
      all[root.get()] = sub(root->var, make_cast(root->var->type, root->dom->min));
      continue;
    }
    const Expr value = add(all.at(root.get()), make_cast(root->var->type, nest.domain.at(root.get()).min));
    roots[root->var.get()] = analyzer.simplify(value);
  }
  Expr condition;
  for (const Expr& guard : guards(nest, all, false, &analyzer)) condition = make_and(condition, guard);
  const std::vector<Expr> no_init;
  for (const Expr& body : op.compute()->body) {
    Reduce copy = *body->as<Reduce>();
    copy.init.clear();
    copy.axis = factored.reduce_axis;
    const Expr plain = make_expr(body->type, std::move(copy));
    factored.body.push_back(with_condition(plain, condition, roots, &analyzer));
  }
  if (factored.reduce_axis.empty()) {  // nothing is left to reduce: the elements, or the identity where a guard says no
    for (Expr& body : factored.body) {
      const Reduce copy = *body->as<Reduce>();
      const auto k = static_cast<size_t>(copy.value_index);
      body = as_int(copy.condition) == 1
                 ? copy.source[k]
                 : make_expr(body->type,
                             Call{"if_then_else", {copy.condition, copy.source[k], reduce->combiner->identity[k]}});
    }
  }
  const OperationPtr rf = make_operation(free_name(op.name, "rf"), op.tag, std::move(factored));

  Compute rest;
  for (const IterVarPtr& root : op.compute()->axis) rest.axis.push_back(copy_axis(*root, ""));
  const Expr last = make_var(axis->name() + ".v", axis->var->type);
  rest.reduce_axis = {
      std::make_shared<IterVar>(IterVar{last, Range{make_int(0, last->type), range.extent}, IterKind::kCommReduce})};
  std::vector<Expr> indices = variables_of(rest.axis);
  indices.insert(indices.begin() + position, last);
  Substitution own;
  for (size_t i = 0; i < rest.axis.size(); ++i) own[op.compute()->axis[i]->var.get()] = rest.axis[i]->var;
  std::vector<Tensor> result;
  for (int v = 0; v < op.output_count(); ++v) {
    Reduce copy = *op.compute()->body[static_cast<size_t>(v)]->as<Reduce>();
    // Output v of the new stage holds value value_index of the reduction.
    for (int u = 0; u < op.output_count(); ++u) {
      const auto k = static_cast<size_t>(op.compute()->body[static_cast<size_t>(u)]->as<Reduce>()->value_index);
      copy.source[k] = read_element(rf, u, indices);
    }
    copy.axis = rest.reduce_axis;
    copy.condition = make_bool(true);
    for (Expr& e : copy.init) e = substitute(e, own);
    rest.body.push_back(make_expr(op.compute()->body[static_cast<size_t>(v)]->type, std::move(copy)));
    result.push_back({rf, v});
  }
  const OperationPtr final_op = make_operation(op.name, op.tag, std::move(rest));
  insert_before(stage, std::make_shared<Stage>(rf));
  replace(stage, final_op, false);
  return result;
}

}  // namespace aipu::te
