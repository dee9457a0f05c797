#include "kernels/te/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernels/te/print.h"

namespace aipu::te {

bool BlockNode::has_reduction_axis() const {
  return std::any_of(axes.begin(), axes.end(), [](const BlockAxis& a) { return a.kind == IterKind::kCommReduce; });
}

// --- the tree ---

void append(LoopNode* parent, TreeNodePtr child) { insert(parent, parent->body.size(), std::move(child)); }

void insert(LoopNode* parent, size_t at, TreeNodePtr child) {
  child->parent = parent;
  parent->body.insert(parent->body.begin() + static_cast<ptrdiff_t>(at), std::move(child));
}

size_t index_in_parent(const TreeNode& node) {
  const auto& body = node.parent->body;
  return static_cast<size_t>(
      std::find_if(body.begin(), body.end(), [&](const TreeNodePtr& n) { return n.get() == &node; }) - body.begin());
}

void replace(const TreeNode& old, TreeNodePtr node) {
  LoopNode* parent = old.parent;
  node->parent = parent;
  TreeNodePtr& place = parent->body[index_in_parent(old)];
  place->parent = nullptr;
  place = std::move(node);
}

void remove(TreeNode* node) {
  LoopNode* parent = node->parent;
  const size_t at = index_in_parent(*node);
  node->parent = nullptr;
  parent->body.erase(parent->body.begin() + static_cast<ptrdiff_t>(at));
  if (parent->body.empty() && !parent->is_root()) remove(parent);
}

namespace {

void collect_blocks(const LoopNode& loop, std::vector<BlockNodePtr>* blocks) {
  for (const TreeNodePtr& child : loop.body) {
    if (auto block = std::dynamic_pointer_cast<BlockNode>(child))
      blocks->push_back(std::move(block));
    else
      collect_blocks(static_cast<const LoopNode&>(*child), blocks);
  }
}

}  // namespace

std::vector<BlockNodePtr> blocks_below(const LoopNode& loop) {
  std::vector<BlockNodePtr> blocks;
  collect_blocks(loop, &blocks);
  return blocks;
}

std::vector<LoopNode*> loops_around(const TreeNode& node) {
  std::vector<LoopNode*> loops;
  for (LoopNode* loop = node.parent; loop != nullptr && !loop->is_root(); loop = loop->parent) loops.push_back(loop);
  std::reverse(loops.begin(), loops.end());
  return loops;
}

bool is_inside(const TreeNode& node, const LoopNode& loop) {
  for (const TreeNode* at = &node; at != nullptr; at = at->parent) {
    if (at == &loop) return true;
  }
  return false;
}

LoopNode* common_loop(const std::vector<BlockNodePtr>& blocks) {
  LoopNode* loop = blocks.front()->parent;
  const auto holds_all = [&] {
    return std::all_of(blocks.begin(), blocks.end(), [&](const BlockNodePtr& b) { return is_inside(*b, *loop); });
  };
  while (!holds_all()) loop = loop->parent;
  return loop;
}

size_t child_with(const LoopNode& loop, const TreeNode& node) {
  const TreeNode* child = &node;
  while (child->parent != &loop) child = child->parent;
  return index_in_parent(*child);
}

void substitute_below(const TreeNodePtr& node, const Substitution& values) {
  if (auto* block = dynamic_cast<BlockNode*>(node.get())) {
    for (BlockAxis& axis : block->axes) axis.binding = substitute(axis.binding, values);
    for (Expr& condition : block->conditions) condition = substitute(condition, values);
    return;
  }
  auto& loop = static_cast<LoopNode&>(*node);
  if (!loop.is_root()) loop.extent = substitute(loop.extent, values);
  for (const TreeNodePtr& child : loop.body) substitute_below(child, values);
}

namespace {

TreeNodePtr copy_of(const TreeNode& node) {
  if (const auto* block = dynamic_cast<const BlockNode*>(&node)) {
    auto copy = std::make_shared<BlockNode>();
    copy->name = block->name;
    copy->axes = block->axes;
    copy->conditions = block->conditions;
    copy->init = block->init;
    copy->body = block->body;
    copy->annotations = block->annotations;
    return copy;
  }
  const auto& loop = static_cast<const LoopNode&>(node);
  auto copy = std::make_shared<LoopNode>();
  copy->var = loop.var;
  copy->extent = loop.extent;
  copy->kind = loop.kind;
  copy->thread = loop.thread;
  copy->annotations = loop.annotations;
  for (const TreeNodePtr& child : loop.body) append(copy.get(), copy_of(*child));
  return copy;
}

}  // namespace

BlockFunction BlockFunction::copy() const {
  BlockFunction made{name, params, buffers};
  made.root = std::static_pointer_cast<LoopNode>(copy_of(*root));
  return made;
}

// --- what blocks access ---

namespace {

class AccessFinder {
 public:
  BlockAccesses found;

  void visit(const Stmt& stmt) {
    if (!stmt) return;
    std::visit(Overloaded{
                   [&](const For& n) {
                     found.loops.push_back({nullptr, n.var, n.extent});
                     read(n.extent);
                     visit(n.body);
                   },
                   [&](const If& n) {
                     read(n.condition);
                     visit(n.then_body);
                     visit(n.else_body);
                   },
                   [&](const Store& n) {
                     read(n.value);
                     for (const Expr& index : n.indices) read(index);
                     found.writes.push_back({n.tensor, n.indices});
                   },
                   [&](const Let& n) {
                     read(n.value);
                     visit(n.body);
                   },
                   [&](const Seq& n) {
                     for (const Stmt& child : n.body) visit(child);
                   },
                   [](const auto&) {},  // blocks have no others
               },
               stmt->node);
  }

 private:
  // Outer reads before those in their indices, left before right.
  void read(const Expr& e) {
    if (const Read* n = e->as<Read>()) found.reads.push_back({Tensor{n->op, n->value_index}, n->indices});
    for_each_child(e, [this](const Expr& child) { read(child); });
  }
};

std::vector<Tensor> distinct(const std::vector<BlockAccess>& accesses) {
  std::vector<Tensor> tensors;
  for (const BlockAccess& access : accesses) {
    if (std::find(tensors.begin(), tensors.end(), access.tensor) == tensors.end()) tensors.push_back(access.tensor);
  }
  return tensors;
}

bool contains(const std::vector<Tensor>& tensors, const Tensor& tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

}  // namespace

BlockAccesses accesses_of(const BlockNode& block) {
  AccessFinder finder;
  finder.visit(block.init);
  finder.visit(block.body);
  return std::move(finder.found);
}

std::vector<Tensor> tensors_read_by(const BlockNode& block) {
  const BlockAccesses accesses = accesses_of(block);
  std::vector<Tensor> tensors = distinct(accesses.reads);
  if (block.init) {
    const std::vector<Tensor> written = distinct(accesses.writes);
    std::erase_if(tensors, [&](const Tensor& t) { return contains(written, t); });
  }
  return tensors;
}

std::vector<Tensor> tensors_written_by(const BlockNode& block) { return distinct(accesses_of(block).writes); }

bool reads(const BlockNode& block, const Tensor& tensor) { return contains(tensors_read_by(block), tensor); }
bool writes(const BlockNode& block, const Tensor& tensor) { return contains(tensors_written_by(block), tensor); }

Stmt rewrite_values(const Stmt& stmt, const Change& change) {
  if (!stmt) return stmt;
  const auto changed = [&](const Expr& e) { return rewrite(e, change); };
  return std::visit(Overloaded{
                        [&](const For& n) -> Stmt {
                          return make_stmt(For{n.var, changed(n.extent), n.kind, n.thread, n.shared_out,
                                               rewrite_values(n.body, change)});
                        },
                        [&](const If& n) -> Stmt {
                          return make_stmt(If{changed(n.condition), rewrite_values(n.then_body, change),
                                              rewrite_values(n.else_body, change)});
                        },
                        [&](const Store& n) -> Stmt {
                          std::vector<Expr> indices;
                          for (const Expr& index : n.indices) indices.push_back(changed(index));
                          return make_stmt(Store{n.tensor, std::move(indices), changed(n.value)});
                        },
                        [&](const Let& n) -> Stmt {
                          return make_stmt(Let{n.var, changed(n.value), rewrite_values(n.body, change)});
                        },
                        [&](const Seq& n) -> Stmt {
                          std::vector<Stmt> parts;
                          for (const Stmt& child : n.body) parts.push_back(rewrite_values(child, change));
                          return make_stmt(Seq{std::move(parts)});
                        },
                        [&](const auto&) -> Stmt { return stmt; },  // blocks have no others
                    },
                    stmt->node);
}

Analyzer analyzer_at(const BlockFunction& function, const TreeNode& node) {
  Analyzer analyzer;
  const auto sizes_in = [&](const Tensor& tensor) {
    for (const Expr& extent : tensor.shape()) {
      walk(extent, [&](const Expr& e) {
        if (e->as<Var>() != nullptr) analyzer.assume_non_negative(e);
      });
    }
  };
  for (const Parameter& param : function.params) {
    if (param.tensor.op) sizes_in(param.tensor);
  }
  for (const LocalBuffer& buffer : function.buffers) sizes_in(buffer.tensor);
  for (const LoopNode* loop : loops_around(node))
    analyzer.bind(loop->var, {make_int(0, loop->var->type), loop->extent});
  if (const auto* loop = dynamic_cast<const LoopNode*>(&node); loop != nullptr && !loop->is_root())
    analyzer.bind(loop->var, {make_int(0, loop->var->type), loop->extent});
  return analyzer;
}

namespace {

Range covering(const Interval& touched, const Expr& extent, Analyzer* analyzer) {
  const Expr zero = make_int(0, extent->type);
  if (!touched.bounded()) return {zero, extent};
  const auto typed = [&](const Expr& e) { return analyzer->simplify(make_cast(extent->type, e)); };
  const Expr lo = typed(touched.lo), hi = typed(touched.hi);
  if (analyzer->prove_le(lo, zero) && analyzer->prove_le(extent, add(hi, make_int(1, hi->type)))) return {zero, extent};
  return {lo, analyzer->simplify(add(sub(hi, lo), make_int(1, lo->type)))};
}

// The loops around a block inside of `scope`, and those in its statements.
std::vector<Loop> loops_between(const BlockNode& block, const BlockAccesses& accesses, const LoopNode& scope) {
  std::vector<Loop> loops;
  for (const LoopNode* loop : loops_around(block)) {
    if (loop != &scope && is_inside(*loop, scope)) loops.push_back({nullptr, loop->var, loop->extent});
  }
  loops.insert(loops.end(), accesses.loops.begin(), accesses.loops.end());
  return loops;
}

}  // namespace

std::vector<Range> region_of(const BlockFunction& function, const std::vector<BlockNodePtr>& blocks,
                             const Tensor& tensor, AccessKind kind, const LoopNode& scope) {
  Analyzer outside = analyzer_at(function, scope);
  std::vector<std::optional<Interval>> touched(tensor.shape().size());
  for (const BlockNodePtr& block : blocks) {
    const BlockAccesses accesses = accesses_of(*block);
    const std::vector<Loop> loops = loops_between(*block, accesses, scope);
    Analyzer inside = analyzer_at(function, *block);
    bind_loops(accesses.loops, &inside);
    Substitution values;
    for (const BlockAxis& axis : block->axes) values[axis.var.get()] = axis.binding;
    std::vector<BlockAccess> list;
    if (kind != AccessKind::kWrites) list = accesses.reads;
    if (kind != AccessKind::kReads) list.insert(list.end(), accesses.writes.begin(), accesses.writes.end());
    for (const BlockAccess& access : list) {
      if (access.tensor != tensor) continue;
      for (size_t d = 0; d < touched.size(); ++d) {
        const Expr index = inside.simplify(substitute(access.indices[d], values));
        const Interval range = relaxed(index, loops, 0, &inside);
        touched[d] = touched[d] ? outside.hull(*touched[d], range) : range;
      }
    }
  }
  std::vector<Range> region;
  for (size_t d = 0; d < touched.size(); ++d)
    region.push_back(covering(touched[d].value_or(Interval{}), tensor.shape()[d], &outside));
  return region;
}

// --- text ---

namespace {

std::string kind_text(const LoopNode& loop) {
  switch (loop.kind) {
    case LoopKind::kSerial:
      return "range";
    case LoopKind::kParallel:
      return "parallel";
    case LoopKind::kVectorized:
      return "vectorized";
    case LoopKind::kUnrolled:
      return "unrolled";
    case LoopKind::kThread:
      return fmt::format("thread {}", loop.thread->thread_tag);
  }
  return "range";
}

std::string notes_text(const TreeNode& node, const std::string& pad) {
  std::string text;
  for (const auto& [key, value] : node.annotations) text += fmt::format("{}# {}: {}\n", pad, key, to_text(value));
  return text;
}

std::string text_of(const TreeNode& node, int indent) {
  const std::string pad(static_cast<size_t>(indent) * 4, ' ');
  if (const auto* block = dynamic_cast<const BlockNode*>(&node)) {
    const std::string inner = pad + "    ";
    std::string text = notes_text(node, pad) + fmt::format("{}with block(\"{}\"):\n", pad, block->name);
    for (const Expr& condition : block->conditions) text += fmt::format("{}where({})\n", inner, to_text(condition));
    for (const BlockAxis& axis : block->axes) {
      text += fmt::format("{}{} = axis.{}({}, {})\n", inner, to_text(axis.var),
                          axis.kind == IterKind::kCommReduce ? "reduce" : "spatial", to_text(axis.extent),
                          to_text(axis.binding));
    }
    if (block->init) text += inner + "with init():\n" + to_text(block->init, indent + 2);
    return text + to_text(block->body, indent + 1);
  }
  const auto& loop = static_cast<const LoopNode&>(node);
  std::string text;
  if (!loop.is_root())
    text = notes_text(node, pad) +
           fmt::format("{}for {} in {}({}):\n", pad, loop.name(), kind_text(loop), to_text(loop.extent));
  for (const TreeNodePtr& child : loop.body) text += text_of(*child, loop.is_root() ? indent : indent + 1);
  return text;
}

}  // namespace

std::string to_text(const BlockFunction& function) {
  std::string text = to_text(Function{function.name, function.params, nullptr});
  text = text.substr(0, text.find('\n') + 1);
  for (const LocalBuffer& buffer : function.buffers) {
    std::string extents;
    for (const Expr& e : buffer.tensor.shape()) extents += (extents.empty() ? "" : ", ") + to_text(e);
    text += fmt::format("    {} = alloc_buffer(({}{}), \"{}\", \"{}\")\n", buffer.tensor.name(), extents,
                        buffer.tensor.shape().size() == 1 ? "," : "", type_text(buffer.tensor.type()), buffer.scope);
  }
  return text + text_of(*function.root, 1);
}

}  // namespace aipu::te
