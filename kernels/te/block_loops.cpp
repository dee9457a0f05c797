// Loops of blocks: split, fuse, reorder, annotations.
#include <algorithm>
#include <set>

#include "kernels/te/block_schedule.h"
#include "kernels/te/print.h"
#include "kernels/te/schedule.h"

namespace aipu::te {

namespace {

LoopNodePtr shared(LoopNode* loop) { return std::static_pointer_cast<LoopNode>(loop->shared_from_this()); }

LoopNodePtr make_loop(std::string name, Expr extent) {
  auto loop = std::make_shared<LoopNode>();
  loop->var = make_var(std::move(name), extent->type);
  loop->extent = std::move(extent);
  return loop;
}

void take_body(LoopNode* from, LoopNode* to) {
  to->body = std::move(from->body);
  from->body.clear();
  for (const TreeNodePtr& child : to->body) child->parent = to;
}

}  // namespace

Status BlockSchedule::check_present(std::string_view primitive, const TreeNode& node) const {
  if (is_inside(node, *function_.root)) return {};
  const auto* block = dynamic_cast<const BlockNode*>(&node);
  return invalid_argument(str_cat(primitive, ": ", block != nullptr ? "block" : "loop", " '",
                                  block != nullptr ? block->name : static_cast<const LoopNode&>(node).name(),
                                  "' is no longer in the function; a primitive has replaced it"));
}

Result<BlockNodePtr> BlockSchedule::get_block(const std::string& name) const {
  std::string known;
  std::vector<BlockNodePtr> found;
  for (const BlockNodePtr& block : blocks_below(*function_.root)) {
    if (block->name == name) found.push_back(block);
    known += (known.empty() ? "" : ", ") + block->name;
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) return invalid_argument(str_cat("get_block: no block is named '", name, "', there are ", known));
  return invalid_argument(str_cat("get_block: ", found.size(), " blocks are named '", name, "'"));
}

Result<std::vector<LoopNodePtr>> BlockSchedule::get_loops(const BlockNodePtr& block) const {
  AIPU_RETURN_IF_ERROR(check_present("get_loops", *block));
  std::vector<LoopNodePtr> loops;
  for (LoopNode* loop : loops_around(*block)) loops.push_back(shared(loop));
  return loops;
}

Result<std::vector<LoopNodePtr>> BlockSchedule::split(const LoopNodePtr& loop, const std::vector<Expr>& factors,
                                                      bool guard) {
  AIPU_RETURN_IF_ERROR(check_present("split", *loop));
  const auto refused = [&](std::string_view why) {
    return invalid_argument(str_cat("split: loop '", loop->name(), "' ", why));
  };
  if (loop->kind != LoopKind::kSerial) return refused("is annotated or bound; split it before");
  if (factors.empty()) return refused("needs at least one factor");
  const Type type = loop->extent->type;
  Analyzer analyzer = analyzer_at(function_, *loop);
  Expr product = make_int(1, type);
  std::vector<Expr> extents;
  for (const Expr& factor : factors) {
    extents.push_back(factor ? make_cast(type, factor) : nullptr);
    if (!factor) continue;
    if (const auto known = as_int(factor); known && *known < 1) return refused("needs factors that are at least 1");
    product = mul(product, extents.back());
  }
  const auto open = std::count(extents.begin(), extents.end(), nullptr);
  if (open > 1) return refused("has more than one factor None");
  if (open == 1) {
    const Expr rest = floordiv(add(loop->extent, sub(product, make_int(1, type))), product);
    *std::find(extents.begin(), extents.end(), nullptr) = analyzer.simplify(rest);
    product = mul(product, analyzer.simplify(rest));
  } else if (!analyzer.prove_le(loop->extent, product)) {
    return refused(
        str_cat("has extent ", to_text(loop->extent), ", which its factors do not cover: ", to_text(product)));
  }
  std::vector<LoopNodePtr> parts;
  Expr value;
  for (size_t i = 0; i < extents.size(); ++i) {
    parts.push_back(make_loop(str_cat(loop->name(), "_", i), extents[i]));
    value = value ? add(mul(value, extents[i]), parts[i]->var) : parts[i]->var;
    if (i > 0) append(parts[i - 1].get(), parts[i]);
  }
  replace(*loop, parts.front());
  take_body(loop.get(), parts.back().get());
  for (const TreeNodePtr& child : parts.back()->body) substitute_below(child, {{loop->var.get(), value}});
  if (guard && !analyzer.prove_equal(product, loop->extent)) {
    for (const BlockNodePtr& block : blocks_below(*parts.back()))
      block->conditions.push_back(less(value, loop->extent));
  }
  return parts;
}

Result<LoopNodePtr> BlockSchedule::fuse(const std::vector<LoopNodePtr>& loops) {
  if (loops.empty()) return invalid_argument("fuse: no loop is given");
  for (size_t i = 0; i < loops.size(); ++i) {
    const LoopNode& loop = *loops[i];
    AIPU_RETURN_IF_ERROR(check_present("fuse", loop));
    const auto refused = [&](std::string_view why) {
      return invalid_argument(str_cat("fuse: loop '", loop.name(), "' ", why));
    };
    if (loop.kind != LoopKind::kSerial) return refused("is annotated or bound; fuse it before");
    if (i == 0) continue;
    if (loop.parent != loops[i - 1].get() || loops[i - 1]->body.size() != 1)
      return refused(str_cat("is not the only child of loop '", loops[i - 1]->name(), "'"));
    for (size_t k = 0; k < i; ++k) {
      if (uses(loop.extent, loops[k]->var.get())) return refused("has an extent that depends on the loop around it");
    }
  }
  if (loops.size() == 1) return loops.front();
  std::string name;
  Expr extent = make_int(1, loops.front()->extent->type);
  for (const LoopNodePtr& loop : loops) {
    Expr own = loop->extent;
    match_index_types(extent, own);
    extent = mul(extent, own);
    name += loop->name() + "_";
  }
  LoopNodePtr fused = make_loop(name + "fused", Analyzer(analyzer_at(function_, *loops.front())).simplify(extent));
  Substitution values;
  Expr rest = fused->var;
  for (size_t i = loops.size(); i-- > 0;) {
    const LoopNode& loop = *loops[i];
    const Expr own = make_cast(rest->type, loop.extent);
    values[loop.var.get()] = make_cast(loop.var->type, i == 0 ? rest : floormod(rest, own));
    rest = floordiv(rest, own);
  }
  replace(*loops.front(), fused);
  take_body(loops.back().get(), fused.get());
  for (size_t i = 1; i < loops.size(); ++i) loops[i]->parent = nullptr;
  for (const TreeNodePtr& child : fused->body) substitute_below(child, values);
  return fused;
}

Status BlockSchedule::reorder(const std::vector<LoopNodePtr>& order) {
  if (order.empty()) return {};
  for (size_t i = 0; i < order.size(); ++i) {
    AIPU_RETURN_IF_ERROR(check_present("reorder", *order[i]));
    if (std::find(order.begin(), order.begin() + static_cast<ptrdiff_t>(i), order[i]) !=
        order.begin() + static_cast<ptrdiff_t>(i))
      return invalid_argument(str_cat("reorder: loop '", order[i]->name(), "' is given twice"));
  }
  const auto depth = [](const LoopNodePtr& loop) { return loops_around(*loop).size(); };
  const auto less_deep = [&](const LoopNodePtr& a, const LoopNodePtr& b) { return depth(a) < depth(b); };
  LoopNode* bottom = std::max_element(order.begin(), order.end(), less_deep)->get();
  const LoopNode* top = std::min_element(order.begin(), order.end(), less_deep)->get();
  std::vector<LoopNodePtr> chain;  // from top to bottom
  for (LoopNode* loop = bottom; loop != nullptr && !loop->is_root(); loop = loop == top ? nullptr : loop->parent) {
    chain.insert(chain.begin(), shared(loop));
    if (loop != bottom && loop->body.size() != 1)
      return invalid_argument(str_cat("reorder: loop '", loop->name(), "' has more than one child"));
  }
  std::vector<LoopNodePtr> changed = chain;
  size_t next = 0;
  for (LoopNodePtr& place : changed) {
    if (std::find(order.begin(), order.end(), place) != order.end()) place = order[next++];
  }
  if (next != order.size() || chain.front().get() != top)
    return invalid_argument(str_cat("reorder: loop '", order[next < order.size() ? next : 0]->name(),
                                    "' is not in one nest with the others"));
  for (size_t i = 0; i < changed.size(); ++i) {
    for (size_t k = i + 1; k < changed.size(); ++k) {
      if (uses(changed[i]->extent, changed[k]->var.get()))
        return invalid_argument(str_cat("reorder: the extent of loop '", changed[i]->name(), "' depends on loop '",
                                        changed[k]->name(), "', which would be inside it"));
    }
  }
  LoopNode* parent = chain.front()->parent;
  const size_t at = index_in_parent(*chain.front());
  std::vector<TreeNodePtr> innermost = std::move(bottom->body);
  for (const LoopNodePtr& loop : changed) loop->body.clear();
  parent->body[at] = changed.front();
  changed.front()->parent = parent;
  for (size_t i = 1; i < changed.size(); ++i) append(changed[i - 1].get(), changed[i]);
  for (TreeNodePtr& child : innermost) append(changed.back().get(), std::move(child));
  return {};
}

// The iterations of a loop must not meet in one element.
Status BlockSchedule::check_data_parallel(std::string_view primitive, const LoopNode& loop) const {
  for (const BlockNodePtr& block : blocks_below(loop)) {
    for (const BlockAxis& axis : block->axes) {
      if (axis.kind == IterKind::kCommReduce && uses(axis.binding, loop.var.get())) {
        return invalid_argument(str_cat(primitive, ": loop '", loop.name(), "' is a reduction loop of block '",
                                        block->name, "', by its axis '", to_text(axis.var), "'"));
      }
    }
  }
  return {};
}

Status BlockSchedule::annotate(const LoopNodePtr& loop, LoopKind kind) {
  const std::string_view primitive = kind == LoopKind::kVectorized ? "vectorize"
                                     : kind == LoopKind::kUnrolled ? "unroll"
                                                                   : "parallel";
  AIPU_RETURN_IF_ERROR(check_present(primitive, *loop));
  if (kind != LoopKind::kUnrolled) AIPU_RETURN_IF_ERROR(check_data_parallel(primitive, *loop));
  if (kind != LoopKind::kParallel && !as_int(loop->extent)) {
    return invalid_argument(
        str_cat(primitive, ": the extent of loop '", loop->name(), "' is not constant: ", to_text(loop->extent)));
  }
  loop->kind = kind;
  return {};
}

Result<LoopNodePtr> BlockSchedule::add_unit_loop(const TreeNodePtr& node) {
  AIPU_RETURN_IF_ERROR(check_present("add_unit_loop", *node));
  const LoopNodePtr loop = make_loop("u", make_int(1));
  replace(*node, loop);
  append(loop.get(), node);
  return loop;
}

Status BlockSchedule::note(const TreeNodePtr& node, const std::string& key, Expr value) {
  AIPU_RETURN_IF_ERROR(check_present("annotate", *node));
  std::erase_if(node->annotations, [&](const auto& pair) { return pair.first == key; });
  node->annotations.emplace_back(key, std::move(value));
  return {};
}

Status BlockSchedule::remove_note(const TreeNodePtr& node, const std::string& key) {
  AIPU_RETURN_IF_ERROR(check_present("unannotate", *node));
  if (std::erase_if(node->annotations, [&](const auto& pair) { return pair.first == key; }) == 0)
    return invalid_argument(str_cat("unannotate: there is no annotation '", key, "'"));
  return {};
}

Status BlockSchedule::bind(const LoopNodePtr& loop, const std::string& thread_tag) {
  AIPU_RETURN_IF_ERROR(check_present("bind", *loop));
  if (!thread_kind(thread_tag)) return invalid_argument(str_cat("bind: unknown thread tag '", thread_tag, "'"));
  AIPU_RETURN_IF_ERROR(check_data_parallel("bind", *loop));
  const auto around_or_below = [&](const LoopNode& other) {
    return other.thread && other.thread->thread_tag == thread_tag;
  };
  for (const LoopNode* around : loops_around(*loop)) {
    if (around_or_below(*around))
      return invalid_argument(str_cat("bind: loop '", around->name(), "' around '", loop->name(), "' is bound to ",
                                      thread_tag, " already"));
  }
  loop->kind = LoopKind::kThread;
  loop->thread =
      std::make_shared<IterVar>(IterVar{make_var(thread_tag), std::nullopt, IterKind::kThreadIndex, thread_tag});
  return {};
}

}  // namespace aipu::te
