// Blocks to loop nests.
#include <algorithm>
#include <set>

#include "kernels/te/block.h"

namespace aipu::te {

namespace {

Stmt guarded(const Expr& condition, Stmt body) {
  return make_stmt(If{make_expr(condition->type, Call{"likely", {condition}}), std::move(body)});
}

// --- reductions: what their results start from becomes a block of its own ---

class ReductionSplitter {
 public:
  explicit ReductionSplitter(BlockNode* block) : block_(*block), around_(loops_around(*block)) {}

  size_t outermost() const {
    size_t first = around_.size();
    for (size_t i = around_.size(); i-- > 0;) {
      if (feeds(*around_[i], IterKind::kCommReduce)) first = i;
    }
    return first;
  }

  // Null where it cannot stand there.
  BlockNodePtr before(size_t first) {
    if (first > outermost() || !can_stand_before(first)) return nullptr;
    Stmt init = std::move(block_.init);
    block_.init = nullptr;
    auto node = std::make_shared<BlockNode>();
    node->name = block_.name + "_init";
    node->body = std::move(init);
    node->axes = block_.axes;
    std::erase_if(node->axes, [](const BlockAxis& axis) { return axis.kind == IterKind::kCommReduce; });
    for (const Expr& condition : block_.conditions) {
      if (!uses_reduction_loop(condition, first)) node->conditions.push_back(condition);
    }
    TreeNodePtr nest = node;
    Substitution own;
    for (size_t i = around_.size(); i-- > first;) {
      const LoopNode& loop = *around_[i];
      if (!feeds(loop, IterKind::kDataPar)) continue;
      auto copy = std::make_shared<LoopNode>();
      copy->var = make_var(loop.name() + "_init", loop.var->type);
      copy->extent = loop.extent;
      copy->kind = loop.kind;
      copy->thread = loop.thread;
      own[loop.var.get()] = copy->var;
      append(copy.get(), std::move(nest));
      nest = std::move(copy);
    }
    substitute_below(nest, own);
    TreeNode& place = first < around_.size() ? static_cast<TreeNode&>(*around_[first]) : block_;
    insert(place.parent, index_in_parent(place), std::move(nest));
    return node;
  }

  // Where data axes come from a reduction's loop too, the init stays where it is, under the condition that this is the
  // first point.
  void at_first() {
    block_.body = sequence({make_stmt(If{at_first_point(), std::move(block_.init)}), block_.body});
    block_.init = nullptr;
  }

 private:
  bool feeds(const LoopNode& loop, IterKind kind) const {
    return std::any_of(block_.axes.begin(), block_.axes.end(),
                       [&](const BlockAxis& axis) { return axis.kind == kind && uses(axis.binding, loop.var.get()); });
  }

  bool uses_reduction_loop(const Expr& condition, size_t first) const {
    for (size_t i = first; i < around_.size(); ++i) {
      if (!feeds(*around_[i], IterKind::kDataPar) && uses(condition, around_[i]->var.get())) return true;
    }
    return false;
  }

  bool can_stand_before(size_t first) const {
    for (size_t i = first; i < around_.size(); ++i) {
      const bool data = feeds(*around_[i], IterKind::kDataPar);
      if (data && feeds(*around_[i], IterKind::kCommReduce)) return false;
      for (const Expr& condition : block_.conditions) {
        if (data && uses(condition, around_[i]->var.get()) && uses_reduction_loop(condition, first)) return false;
      }
      for (size_t k = first; k < i; ++k) {
        if (data && uses(around_[i]->extent, around_[k]->var.get()) && !feeds(*around_[k], IterKind::kDataPar))
          return false;
      }
    }
    return true;
  }

  Expr at_first_point() const {
    Expr all;
    for (const BlockAxis& axis : block_.axes) {
      if (axis.kind == IterKind::kCommReduce)
        all = make_and(all, make_binary(BinaryOp::kEq, axis.var, make_int(0, axis.var->type)));
    }
    return all ? all : make_bool(true);
  }

  BlockNode& block_;
  std::vector<LoopNode*> around_;
};

// --- the nests ---

class BlockWriter {
 public:
  explicit BlockWriter(const BlockFunction& function) : function_(function.copy()) {}

  Function run() {
    for (const BlockNodePtr& block : blocks_below(*function_.root)) {
      if (block->init && !separate_init(block.get())) ReductionSplitter(block.get()).at_first();
    }
    place_memory();
    return {function_.name, function_.params, statements(*function_.root)};
  }

 private:
  struct Memory {
    const LocalBuffer* buffer;
    std::vector<Range> region;
  };

  // Around the first child of the innermost loop in which all who touch a buffer stand, up to the loop's end.
  void place_memory() {
    const std::vector<BlockNodePtr> blocks = blocks_below(*function_.root);
    for (const LocalBuffer& buffer : function_.buffers) {
      std::vector<BlockNodePtr> users;
      std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(users), [&](const BlockNodePtr& block) {
        const BlockAccesses accesses = accesses_of(*block);
        const auto is_it = [&](const BlockAccess& access) { return access.tensor == buffer.tensor; };
        return std::any_of(accesses.reads.begin(), accesses.reads.end(), is_it) ||
               std::any_of(accesses.writes.begin(), accesses.writes.end(), is_it);
      });
      if (users.empty()) continue;
      LoopNode* loop = common_loop(users);
      if (loop->kind == LoopKind::kVectorized) loop->kind = LoopKind::kSerial;  // lanes have no memory of their own
      memory_[{loop, child_with(*loop, *users.front())}].push_back(
          {&buffer, region_of(function_, users, buffer.tensor, AccessKind::kBoth, *loop)});
    }
  }

  Stmt statements(const LoopNode& loop) {
    Stmt all;
    for (size_t i = loop.body.size(); i-- > 0;) {
      const TreeNode& child = *loop.body[i];
      const auto* block = dynamic_cast<const BlockNode*>(&child);
      all = sequence({block != nullptr ? block_statement(*block) : loop_statement(static_cast<const LoopNode&>(child)),
                      std::move(all)});
      const auto found = memory_.find({&loop, i});
      if (found == memory_.end()) continue;
      for (const Memory& m : found->second)
        all = make_stmt(Realize{m.buffer->tensor.op, in_values(m.region), m.buffer->scope, m.buffer->alignment,
                                std::move(all), m.buffer->tensor.value_index});
    }
    return all;
  }

  std::vector<Range> in_values(std::vector<Range> region) const {
    for (Range& range : region) range = {substitute(range.min, values_), substitute(range.extent, values_)};
    return region;
  }

  Stmt loop_statement(const LoopNode& loop) {
    Analyzer analyzer = analyzer_at(function_, loop);
    const Expr extent = analyzer.simplify(substitute(loop.extent, values_));
    if (as_int(extent) == 1) {
      values_[loop.var.get()] = make_int(0, loop.var->type);
      return statements(loop);
    }
    const bool thread = loop.thread && thread_kind(loop.thread->thread_tag) != ThreadKind::kVirtual;
    const bool shared_out = loop.kind == LoopKind::kParallel || thread;
    Stmt body = statements(loop);
    return body ? make_stmt(For{loop.var, extent, loop.kind, loop.thread, shared_out, std::move(body)}) : nullptr;
  }

  Stmt block_statement(const BlockNode& block) {
    Analyzer analyzer = analyzer_at(function_, block);
    Substitution values;
    for (const BlockAxis& axis : block.axes)
      values[axis.var.get()] = analyzer.simplify(substitute(axis.binding, values_));
    Stmt body = simplified(bind_buffers(block.body, {}, values), analyzer);
    std::set<std::string> seen;
    Expr all;
    for (const Expr& condition : block.conditions) {
      const Expr simple = analyzer.simplify(substitute(condition, values_));
      if (!analyzer.prove(simple) && seen.insert(structural_key(simple)).second) all = make_and(all, simple);
    }
    return all ? guarded(all, std::move(body)) : body;
  }

  // With indices and conditions in their shortest form. `analyzer`: a copy, since it learns of the loops inside.
  static Stmt simplified(const Stmt& stmt, Analyzer analyzer) {
    return std::visit(
        Overloaded{
            [&](const For& n) -> Stmt {
              analyzer.bind(n.var, {make_int(0, n.var->type), n.extent});
              return make_stmt(For{n.var, analyzer.simplify(n.extent), n.kind, n.thread, n.shared_out,
                                   simplified(n.body, analyzer)});
            },
            [&](const If& n) -> Stmt {
              const Expr condition = analyzer.simplify_value(n.condition);
              if (as_int(condition) == 1) return simplified(n.then_body, analyzer);
              return make_stmt(If{condition, simplified(n.then_body, analyzer),
                                  n.else_body ? simplified(n.else_body, analyzer) : nullptr});
            },
            [&](const Store& n) -> Stmt {
              std::vector<Expr> indices;
              for (const Expr& index : n.indices) indices.push_back(analyzer.simplify_value(index));
              return make_stmt(Store{n.tensor, std::move(indices), analyzer.simplify_value(n.value)});
            },
            [&](const Let& n) -> Stmt {
              return make_stmt(Let{n.var, analyzer.simplify_value(n.value), simplified(n.body, analyzer)});
            },
            [&](const Seq& n) -> Stmt {
              std::vector<Stmt> parts;
              for (const Stmt& child : n.body) parts.push_back(simplified(child, analyzer));
              return sequence(std::move(parts));
            },
            [&](const auto&) -> Stmt { return stmt; },
        },
        stmt->node);
  }

  BlockFunction function_;
  std::map<std::pair<const LoopNode*, size_t>, std::vector<Memory>> memory_;  // by the child that it begins before
  Substitution values_;                                                       // of loops that are run once
};

}  // namespace

BlockNodePtr separate_init(BlockNode* block, std::optional<size_t> first) {
  ReductionSplitter splitter(block);
  return splitter.before(first.value_or(splitter.outermost()));
}

Function lower_blocks(const BlockFunction& function) { return BlockWriter(function).run(); }

}  // namespace aipu::te
