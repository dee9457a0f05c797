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
  Reduce copy = *reduce;
  for (Expr& e : copy.source) e = analyzer->simplify_value(substitute(e, values));
  for (Expr& e : copy.init) e = analyzer->simplify_value(substitute(e, values));
  // the guards first: the user's condition may read what is out of bounds beyond them
  copy.condition = make_and(condition, analyzer->simplify_value(substitute(copy.condition, values)));
  return make_expr(expr->type, std::move(copy));
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
    for (Expr& body : std::get<Compute>(op.what).body) body = rewrite(body, change);
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
  cache.reduce_axis = op.compute()->reduce_axis;
  const OperationPtr cached = make_operation(free_name(op.name, scope), op.tag, std::move(cache));

  AxisValues place;
  for (const IterVarPtr& axis : op.compute()->axis) {
    copy.axis.push_back(copy_axis(*axis, ""));
    place[axis.get()] = copy.axis.back()->var;
    analyzer.bind(copy.axis.back()->var, *axis->dom);
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

  // New stage: the axis becomes a data axis, the other reduction leaves stay reductions. Data axes keep their roots.
  Compute factored;
  AxisValues leaves;
  AxisValues data;
  for (const IterVarPtr& root : op.compute()->axis) {
    factored.axis.push_back(copy_axis(*root, ""));
    data[root.get()] = factored.axis.back()->var;
    analyzer.bind(factored.axis.back()->var, *root->dom);
  }
  for (const auto& [leaf, value] : leaf_values(nest, data)) leaves[leaf] = value;
  for (const Loop& loop : nest.loops) {
    if (!stage->is_reduction_axis(loop.axis.get())) continue;
    const Expr var = make_var(loop.axis->name(), loop.axis->var->type);
    const Range of_leaf{make_int(0, var->type), loop.extent};
    analyzer.bind(var, of_leaf);
    leaves[loop.axis.get()] = var;
    if (loop.axis == axis)
      factored.axis.insert(factored.axis.begin() + position,
                           std::make_shared<IterVar>(IterVar{var, of_leaf, IterKind::kDataPar}));
    else
      factored.reduce_axis.push_back(std::make_shared<IterVar>(IterVar{var, of_leaf, IterKind::kCommReduce}));
  }
  AxisValues all = axis_values(nest, leaves);
  for (const auto& [root, var] : data) all[root] = var;
  Substitution roots;
  for (const IterVarPtr& root : stage->root_axes()) {
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
