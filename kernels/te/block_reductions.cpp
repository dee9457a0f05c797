// Reductions of blocks: where they start, results of their own for the iterations of a loop.
#include <algorithm>
#include <optional>

#include "kernels/te/block_schedule.h"
#include "kernels/te/print.h"

namespace aipu::te {

namespace {

// A reduction of one value: `store` puts what was there, combined with something, back.
struct Combination {
  const Store* store;
  BinaryOp op;
  Expr source;
  std::vector<Expr> conditions;  // around the store
};

std::optional<Combination> combination_of(const BlockNode& block) {
  Combination found{};
  const StmtNode* stmt = block.body.get();
  while (const If* branch = stmt->as<If>()) {
    if (branch->else_body) return std::nullopt;
    found.conditions.push_back(branch->condition);
    stmt = branch->then_body.get();
  }
  found.store = stmt->as<Store>();
  const Binary* value = found.store == nullptr ? nullptr : found.store->value->as<Binary>();
  if (value == nullptr) return std::nullopt;
  const auto is_result = [&](const Expr& e) {
    const Read* read = e->as<Read>();
    if (read == nullptr || Tensor{read->op, read->value_index} != found.store->tensor) return false;
    return std::equal(read->indices.begin(), read->indices.end(), found.store->indices.begin(),
                      found.store->indices.end(),
                      [](const Expr& a, const Expr& b) { return structural_key(a) == structural_key(b); });
  };
  found.op = value->op;
  found.source = is_result(value->a) ? value->b : value->a;
  if (!is_result(value->a) && !is_result(value->b)) return std::nullopt;
  return found;
}

// What changes nothing when it is combined; null where there is no such value.
Expr identity_of(BinaryOp op, Type type) {
  const auto number = [&](int value) { return make_cast(type, make_int(value)); };
  switch (op) {
    case BinaryOp::kAdd:
      return number(0);
    case BinaryOp::kMul:
      return number(1);
    case BinaryOp::kMin:
      return max_value(type);
    case BinaryOp::kMax:
      return min_value(type);
    default:
      return nullptr;
  }
}

}  // namespace

Result<BlockNodePtr> BlockSchedule::decompose_reduction(const BlockNodePtr& block, const LoopNodePtr& loop) {
  AIPU_RETURN_IF_ERROR(check_present("decompose_reduction", *block));
  AIPU_RETURN_IF_ERROR(check_present("decompose_reduction", *loop));
  const auto refused = [&](const auto&... why) {
    return invalid_argument(str_cat("decompose_reduction: block '", block->name, "' ", why...));
  };
  if (!block->init) return refused("is no reduction with an init");
  const std::vector<LoopNode*> around = loops_around(*block);
  const auto place = std::find(around.begin(), around.end(), loop.get());
  if (place == around.end()) return refused("is not inside loop '", loop->name(), "'");
  const std::string name = free_name(block->name + "_init");
  BlockNodePtr init = separate_init(block.get(), static_cast<size_t>(place - around.begin()));
  if (!init) return refused("starts its reduction outside of loop '", loop->name(), "'");
  init->name = name;
  return init;
}

Result<BlockNodePtr> BlockSchedule::rfactor(const LoopNodePtr& loop, int factor_axis) {
  AIPU_RETURN_IF_ERROR(check_present("rfactor", *loop));
  const auto refused = [&](const auto&... why) {
    return invalid_argument(str_cat("rfactor: loop '", loop->name(), "' ", why...));
  };
  const std::vector<BlockNodePtr> below = blocks_below(*loop);
  if (below.size() != 1) return refused("has ", below.size(), " blocks inside, not one");
  const BlockNodePtr& block = below.front();
  const auto combined = combination_of(*block);
  if (!block->init || !combined)
    return refused("is around block '", block->name, "', which is no reduction of a value");
  const Tensor result = combined->store->tensor;
  const Expr identity = identity_of(combined->op, result.type());
  if (!identity) return refused("is around block '", block->name, "', whose values have no neutral one");
  const auto rank = static_cast<int>(result.shape().size());
  const int position = factor_axis < 0 ? factor_axis + rank + 1 : factor_axis;
  if (position < 0 || position > rank) return refused("has the factor_axis ", factor_axis, ", which is out of range");
  for (const LoopNode* l : loops_around(*loop)) {
    if (uses(loop->extent, l->var.get())) return refused("has an extent that depends on the loops around it");
  }

  // The nest of the block alone: all loops of the reduction are in it.
  LoopNode* top = block->parent;
  const std::vector<LoopNode*> around = loops_around(*block);
  const auto axis_uses = [&](const LoopNode& l, IterKind kind) {
    return std::any_of(block->axes.begin(), block->axes.end(),
                       [&](const BlockAxis& axis) { return axis.kind == kind && uses(axis.binding, l.var.get()); });
  };
  if (!axis_uses(*loop, IterKind::kCommReduce)) return refused("is no reduction loop of block '", block->name, "'");
  if (top->is_root() || top->body.size() != 1) return refused("is not a nest around block '", block->name, "' alone");
  while (!top->parent->is_root() && top->parent->body.size() == 1) top = top->parent;
  for (const LoopNode* l : around) {
    const bool reduces = axis_uses(*l, IterKind::kCommReduce);
    if (reduces && axis_uses(*l, IterKind::kDataPar))
      return refused("reduces beside loop '", l->name(), "', which counts data too");
    if (reduces && !is_inside(*l, *top))
      return refused("reduces beside loop '", l->name(), "', which has other blocks");
  }

  // In the block: an axis for each loop that a reduction axis with this loop in it comes from.
  Substitution of_loops, of_axes;
  std::vector<BlockAxis> axes;
  BlockAxis factor{make_var("v_" + loop->name(), loop->var->type), IterKind::kDataPar, loop->extent, loop->var};
  of_loops[loop->var.get()] = factor.var;
  const auto stays = [&](const BlockAxis& axis) {
    return axis.kind == IterKind::kDataPar || !uses(axis.binding, loop->var.get());
  };
  for (const BlockAxis& axis : block->axes) {
    if (stays(axis)) axes.push_back(axis);
  }
  for (const LoopNode* l : around) {
    const bool is_part = std::any_of(block->axes.begin(), block->axes.end(), [&](const BlockAxis& axis) {
      return !stays(axis) && uses(axis.binding, l->var.get());
    });
    if (!is_part || l == loop.get()) continue;
    axes.push_back({make_var("v_" + l->name(), l->var->type), IterKind::kCommReduce, l->extent, l->var});
    of_loops[l->var.get()] = axes.back().var;
  }
  for (const BlockAxis& axis : block->axes) {
    if (!stays(axis)) of_axes[axis.var.get()] = substitute(axis.binding, of_loops);
  }
  // Conditions on the reduction are asked inside: a result that no iteration reaches has to be the neutral value.
  std::vector<Expr> outside, inside;
  for (const Expr& condition : block->conditions) {
    const bool reduces = std::any_of(around.begin(), around.end(), [&](const LoopNode* l) {
      return axis_uses(*l, IterKind::kCommReduce) && uses(condition, l->var.get());
    });
    if (!reduces) {
      outside.push_back(condition);
      continue;
    }
    const Expr own = substitute(condition, of_loops);
    for (const LoopNode* l : around) {
      if (uses(own, l->var.get())) return refused("reduces under a condition of other loops: ", to_text(condition));
    }
    inside.push_back(own);
  }

  std::vector<Expr> shape = result.shape();
  shape.insert(shape.begin() + position, loop->extent);
  const std::string name = free_name(block->name + "_rf");
  const Tensor parts{make_placeholder(name, std::move(shape), result.type()), 0};
  std::vector<Expr> indices = combined->store->indices;
  indices.insert(indices.begin() + position, factor.var);
  const Expr part = make_expr(result.type(), Read{parts.op, parts.value_index, indices});
  Stmt update =
      make_stmt(Store{parts, indices, make_binary(combined->op, part, bind_buffers(combined->source, {}, of_axes))});
  for (const Expr& condition : combined->conditions)
    update = make_stmt(If{bind_buffers(condition, {}, of_axes), std::move(update)});
  for (const Expr& condition : inside) update = make_stmt(If{condition, std::move(update)});

  // The reduction over the parts, behind the nest, in loops like those that the data axes come from.
  auto rest = std::make_shared<BlockNode>();
  rest->name = block->name;
  Substitution of_rest, loops_of_rest;
  TreeNodePtr nest = rest;
  auto last = std::make_shared<LoopNode>();
  last->var = make_var(loop->name(), loop->var->type);
  last->extent = loop->extent;
  append(last.get(), std::move(nest));
  nest = last;
  for (size_t i = around.size(); i-- > 0;) {
    const LoopNode& l = *around[i];
    if (!is_inside(l, *top) || axis_uses(l, IterKind::kCommReduce)) continue;
    auto copy = std::make_shared<LoopNode>();
    copy->var = make_var(l.name(), l.var->type);
    copy->extent = l.extent;
    copy->kind = l.kind;
    copy->thread = l.thread;
    loops_of_rest[l.var.get()] = copy->var;
    append(copy.get(), std::move(nest));
    nest = std::move(copy);
  }
  for (const BlockAxis& axis : block->axes) {
    if (axis.kind != IterKind::kDataPar) continue;
    const Expr var = make_var(axis.var->as<Var>()->name, axis.var->type);
    of_rest[axis.var.get()] = var;
    rest->axes.push_back({var, IterKind::kDataPar, substitute(axis.extent, of_rest), axis.binding});
  }
  rest->axes.push_back(
      {make_var(factor.var->as<Var>()->name, factor.var->type), IterKind::kCommReduce, loop->extent, last->var});
  rest->conditions = outside;
  rest->init = bind_buffers(block->init, {}, of_rest);
  std::vector<Expr> whole;
  for (const Expr& index : combined->store->indices) whole.push_back(substitute(index, of_rest));
  std::vector<Expr> place_of_part = whole;
  place_of_part.insert(place_of_part.begin() + position, rest->axes.back().var);
  rest->body =
      make_stmt(Store{result, whole,
                      make_binary(combined->op, make_expr(result.type(), Read{result.op, result.value_index, whole}),
                                  make_expr(result.type(), Read{parts.op, parts.value_index, place_of_part}))});
  substitute_below(nest, loops_of_rest);
  block->name = name;
  block->axes = std::move(axes);
  block->axes.insert(block->axes.begin(), factor);
  block->conditions = std::move(outside);
  block->init = make_stmt(Store{parts, indices, identity});
  block->body = std::move(update);
  function_.buffers.push_back({parts, "global"});
  insert(top->parent, index_in_parent(*top) + 1, std::move(nest));
  return block;
}

}  // namespace aipu::te
