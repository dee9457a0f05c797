// Copies of tensors in other memories.
#include <algorithm>

#include "kernels/te/block_schedule.h"

namespace aipu::te {

std::vector<BlockNodePtr> BlockSchedule::readers_of(const Tensor& tensor) const {
  std::vector<BlockNodePtr> blocks = blocks_below(*function_.root);
  std::erase_if(blocks, [&](const BlockNodePtr& block) { return !reads(*block, tensor); });
  return blocks;
}

std::vector<BlockNodePtr> BlockSchedule::writers_of(const Tensor& tensor) const {
  std::vector<BlockNodePtr> blocks = blocks_below(*function_.root);
  std::erase_if(blocks, [&](const BlockNodePtr& block) { return !writes(*block, tensor); });
  return blocks;
}

bool BlockSchedule::is_local(const Tensor& tensor) const {
  return std::any_of(function_.buffers.begin(), function_.buffers.end(),
                     [&](const LocalBuffer& buffer) { return buffer.tensor == tensor; });
}

Result<Tensor> BlockSchedule::nth_tensor(std::string_view primitive, const BlockNode& block, size_t index,
                                         bool written) const {
  AIPU_RETURN_IF_ERROR(check_present(primitive, block));
  const std::vector<Tensor> tensors = written ? tensors_written_by(block) : tensors_read_by(block);
  if (index < tensors.size()) return tensors[index];
  return invalid_argument(str_cat(primitive, ": block '", block.name, "' ", written ? "writes " : "reads ",
                                  tensors.size(), " buffers, there is no buffer ", index));
}

std::string BlockSchedule::free_name(const std::string& name) const {
  const auto taken = [&](const std::string& candidate) {
    const auto is_it = [&](const Tensor& tensor) { return tensor.op && tensor.name() == candidate; };
    const std::vector<BlockNodePtr> blocks = blocks_below(*function_.root);
    return std::any_of(function_.params.begin(), function_.params.end(),
                       [&](const Parameter& p) { return is_it(p.tensor); }) ||
           std::any_of(function_.buffers.begin(), function_.buffers.end(),
                       [&](const LocalBuffer& b) { return is_it(b.tensor); }) ||
           std::any_of(blocks.begin(), blocks.end(), [&](const BlockNodePtr& b) { return b->name == candidate; });
  };
  std::string unique = name;
  for (int k = 1; taken(unique); ++k) unique = str_cat(name, "_", k);
  return unique;
}

void BlockSchedule::place(const BlockNodePtr& block, const std::vector<Range>& domain, LoopNode* parent, size_t at) {
  block->conditions.clear();
  std::vector<LoopNodePtr> loops;
  Substitution bindings;
  Analyzer analyzer = analyzer_at(function_, *parent);
  for (size_t i = 0; i < block->axes.size(); ++i) {
    BlockAxis& axis = block->axes[i];
    const Type type = axis.var->type;
    const Expr min = make_cast(type, substitute(domain[i].min, bindings));
    const Expr extent = analyzer.simplify(make_cast(type, substitute(domain[i].extent, bindings)));
    axis.binding = min;
    if (as_int(extent) != 1) {
      auto loop = std::make_shared<LoopNode>();
      loop->var = make_var(str_cat("ax", i), type);
      loop->extent = extent;
      analyzer.bind(loop->var, {make_int(0, type), extent});
      axis.binding = add(min, loop->var);
      loops.push_back(std::move(loop));
    }
    axis.binding = analyzer.simplify(axis.binding);
    const Expr end = make_cast(type, substitute(axis.extent, bindings));
    for (const Expr& condition :
         {make_binary(BinaryOp::kGe, axis.binding, make_int(0, type)), less(axis.binding, end)}) {
      if (!analyzer.prove(condition)) block->conditions.push_back(condition);
    }
    bindings[axis.var.get()] = axis.binding;
  }
  TreeNodePtr nest = block;
  for (size_t i = loops.size(); i-- > 0;) {
    append(loops[i].get(), std::move(nest));
    nest = loops[i];
  }
  insert(parent, at, std::move(nest));
}

BlockNodePtr BlockSchedule::add_copy(const Tensor& from, const Tensor& to, const std::vector<Range>& domain,
                                     LoopNode* parent, size_t at) {
  auto block = std::make_shared<BlockNode>();
  std::vector<Expr> point;
  for (size_t d = 0; d < from.shape().size(); ++d) {
    const Expr& extent = from.shape()[d];
    point.push_back(make_var(str_cat("v", d), extent->type));
    block->axes.push_back({point.back(), IterKind::kDataPar, extent, nullptr});
  }
  block->body = make_stmt(Store{to, point, make_expr(from.type(), Read{from.op, from.value_index, point})});
  place(block, domain, parent, at);
  return block;
}

Result<BlockNodePtr> BlockSchedule::cache_read(const BlockNodePtr& block, size_t index, const std::string& scope,
                                               std::vector<BlockNodePtr> readers) {
  AIPU_ASSIGN_OR_RETURN(const Tensor tensor, nth_tensor("cache_read", *block, index, false));
  if (readers.empty()) readers = readers_of(tensor);
  std::vector<BlockNodePtr> writers = writers_of(tensor);
  for (const BlockNodePtr& reader : readers) {
    AIPU_RETURN_IF_ERROR(check_present("cache_read", *reader));
    if (!reads(*reader, tensor))
      return invalid_argument(str_cat("cache_read: block '", reader->name, "' does not read '", tensor.name(), "'"));
    if (writes(*reader, tensor) && reader->has_reduction_axis())
      return invalid_argument(str_cat("cache_read: block '", reader->name, "' updates '", tensor.name(),
                                      "', it has to read what it wrote"));
  }
  std::erase_if(writers, [&](const BlockNodePtr& writer) {
    return std::find(readers.begin(), readers.end(), writer) != readers.end();
  });
  LoopNode* parent = function_.root.get();
  if (!writers.empty()) {
    std::vector<BlockNodePtr> all = writers;
    all.insert(all.end(), readers.begin(), readers.end());
    parent = common_loop(all);
  }
  size_t at = parent->body.size();
  for (const BlockNodePtr& reader : readers) at = std::min(at, child_with(*parent, *reader));
  for (const BlockNodePtr& writer : writers) {
    if (child_with(*parent, *writer) >= at)
      return invalid_argument(
          str_cat("cache_read: block '", writer->name, "' writes '", tensor.name(), "' after it has been read"));
  }
  const std::vector<Range> domain = region_of(function_, readers, tensor, AccessKind::kReads, *parent);
  const Tensor cache{make_placeholder(free_name(tensor.name() + "_" + scope), tensor.shape(), tensor.type()), 0};
  function_.buffers.push_back({cache, scope});
  Change to_cache;
  to_cache = [&](const Expr& e) -> Expr {
    const Read* read = e->as<Read>();
    if (read == nullptr || Tensor{read->op, read->value_index} != tensor) return nullptr;
    std::vector<Expr> indices;
    for (const Expr& i : read->indices) indices.push_back(rewrite(i, to_cache));
    return make_expr(e->type, Read{cache.op, cache.value_index, std::move(indices)});
  };
  for (const BlockNodePtr& reader : readers) {
    reader->body = rewrite_values(reader->body, to_cache);
    reader->init = rewrite_values(reader->init, to_cache);
  }
  BlockNodePtr copy = add_copy(tensor, cache, domain, parent, at);
  copy->name = cache.name();
  return copy;
}

Result<BlockNodePtr> BlockSchedule::cache_write(const BlockNodePtr& block, size_t index, const std::string& scope) {
  AIPU_ASSIGN_OR_RETURN(const Tensor tensor, nth_tensor("cache_write", *block, index, true));
  const std::vector<BlockNodePtr> writers = writers_of(tensor);
  std::vector<BlockNodePtr> readers = readers_of(tensor);
  std::erase_if(readers, [&](const BlockNodePtr& reader) { return writes(*reader, tensor); });
  for (const BlockNodePtr& writer : writers) {
    if (writers.size() == 1 && reads(*writer, tensor))
      return invalid_argument(str_cat("cache_write: block '", writer->name, "' reads what was in '", tensor.name(),
                                      "' before, which the cache does not hold"));
  }
  LoopNode* parent = function_.root.get();
  if (!readers.empty()) {
    std::vector<BlockNodePtr> all = writers;
    all.insert(all.end(), readers.begin(), readers.end());
    parent = common_loop(all);
  }
  size_t at = 0;
  for (const BlockNodePtr& writer : writers) at = std::max(at, child_with(*parent, *writer) + 1);
  for (const BlockNodePtr& reader : readers) {
    if (child_with(*parent, *reader) < at)
      return invalid_argument(
          str_cat("cache_write: block '", reader->name, "' reads '", tensor.name(), "' before it is complete"));
  }
  const std::vector<Range> domain = region_of(function_, writers, tensor, AccessKind::kWrites, *parent);
  const Tensor cache{make_placeholder(free_name(tensor.name() + "_" + scope), tensor.shape(), tensor.type()), 0};
  const BufferTargets targets = {{{tensor.op.get(), tensor.value_index}, {cache, {}}}};
  for (const BlockNodePtr& writer : writers) {
    writer->body = bind_buffers(writer->body, targets, {});
    writer->init = bind_buffers(writer->init, targets, {});
  }
  BlockNodePtr copy = add_copy(cache, tensor, domain, parent, at);
  function_.buffers.push_back({cache, scope});
  copy->name = cache.name();
  return copy;
}

TreeNodePtr BlockSchedule::counterpart(const TreeNode& node) const {
  if (node.parent == nullptr) return function_.root;
  return std::static_pointer_cast<LoopNode>(counterpart(*node.parent))->body[index_in_parent(node)];
}

Result<BlockNodePtr> BlockSchedule::read_at(const LoopNodePtr& loop, const BlockNodePtr& block, size_t index,
                                            const std::string& scope) {
  AIPU_RETURN_IF_ERROR(check_present("read_at", *loop));
  if (!is_inside(*block, *loop))
    return invalid_argument(str_cat("read_at: block '", block->name, "' is not inside loop '", loop->name(), "'"));
  AIPU_ASSIGN_OR_RETURN(const Tensor tensor, nth_tensor("read_at", *block, index, false));
  std::vector<BlockNodePtr> readers = readers_of(tensor);
  std::erase_if(readers, [&](const BlockNodePtr& reader) { return !is_inside(*reader, *loop); });
  for (const BlockNodePtr& writer : writers_of(tensor)) {
    if (is_inside(*writer, *loop))
      return invalid_argument(
          str_cat("read_at: block '", writer->name, "' writes '", tensor.name(), "' inside loop '", loop->name(), "'"));
  }
  AIPU_ASSIGN_OR_RETURN(BlockNodePtr copy, cache_read(block, index, scope, std::move(readers)));
  AIPU_RETURN_IF_ERROR(compute_at(copy, loop));  // nothing is left that it could refuse
  return copy;
}

Result<BlockNodePtr> BlockSchedule::write_at(const LoopNodePtr& loop, const BlockNodePtr& block, size_t index,
                                             const std::string& scope) {
  AIPU_RETURN_IF_ERROR(check_present("write_at", *loop));
  if (!is_inside(*block, *loop))
    return invalid_argument(str_cat("write_at: block '", block->name, "' is not inside loop '", loop->name(), "'"));
  // Whether the copy may stand there is known when there is one.
  BlockSchedule trial(function_.copy());
  const auto block_there = std::static_pointer_cast<BlockNode>(trial.counterpart(*block));
  const auto loop_there = std::static_pointer_cast<LoopNode>(trial.counterpart(*loop));
  AIPU_ASSIGN_OR_RETURN(const BlockNodePtr copy_there, trial.cache_write(block_there, index, scope));
  AIPU_RETURN_IF_ERROR(trial.reverse_compute_at(copy_there, loop_there));
  AIPU_ASSIGN_OR_RETURN(BlockNodePtr copy, cache_write(block, index, scope));
  AIPU_RETURN_IF_ERROR(reverse_compute_at(copy, loop));
  return copy;
}

Status BlockSchedule::set_scope(const BlockNodePtr& block, size_t index, const std::string& scope) {
  AIPU_ASSIGN_OR_RETURN(const Tensor tensor, nth_tensor("set_scope", *block, index, true));
  for (LocalBuffer& buffer : function_.buffers) {
    if (buffer.tensor != tensor) continue;
    buffer.scope = scope;
    return {};
  }
  return invalid_argument(
      str_cat("set_scope: '", tensor.name(), "' is a parameter, which lies where the caller put it"));
}

Status BlockSchedule::storage_align(const BlockNodePtr& block, size_t index, int axis, int64_t factor, int64_t offset) {
  AIPU_ASSIGN_OR_RETURN(const Tensor tensor, nth_tensor("storage_align", *block, index, true));
  const auto refused = [&](const auto&... why) {
    return invalid_argument(str_cat("storage_align: '", tensor.name(), "' ", why...));
  };
  const auto rank = static_cast<int>(tensor.shape().size());
  const int dimension = axis < 0 ? axis + rank : axis;
  if (dimension < 0 || dimension >= rank) return refused("has no dimension ", axis);
  if (factor < 1) return refused("needs a factor of at least 1, not ", factor);
  for (LocalBuffer& buffer : function_.buffers) {
    if (buffer.tensor != tensor) continue;
    buffer.alignment.resize(static_cast<size_t>(rank));
    buffer.alignment[static_cast<size_t>(dimension)] = {factor, offset};
    return {};
  }
  return refused("is a parameter, which lies as the caller laid it out");
}

}  // namespace aipu::te
