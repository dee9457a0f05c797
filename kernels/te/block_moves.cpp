// Blocks at other places: under a loop of a consumer or producer, or inside of one.
#include <algorithm>

#include "kernels/te/block_schedule.h"
#include "kernels/te/print.h"

namespace aipu::te {

namespace {

// Which axis each index is; nothing where one is no axis alone, or two are the same.
std::optional<std::vector<size_t>> axes_in(const BlockNode& block, const std::vector<Expr>& indices) {
  std::vector<size_t> axes;
  for (const Expr& index : indices) {
    const auto axis = std::find_if(block.axes.begin(), block.axes.end(),
                                   [&](const BlockAxis& a) { return a.var.get() == index.get(); });
    const auto at = static_cast<size_t>(axis - block.axes.begin());
    if (axis == block.axes.end() || std::find(axes.begin(), axes.end(), at) != axes.end()) return std::nullopt;
    axes.push_back(at);
  }
  return axes;
}

Range hull(const Range& a, const Range& b, Analyzer* analyzer) {
  const auto last = [](const Range& r) { return add(r.min, sub(r.extent, make_int(1, r.extent->type))); };
  const Interval both = analyzer->hull({a.min, last(a)}, {b.min, last(b)});
  if (!both.bounded()) return {};
  return {both.lo, analyzer->simplify(add(sub(both.hi, both.lo), make_int(1, both.hi->type)))};
}

// Widens the ranges of the axes that index a tensor by a region of it.
void add_region(const std::vector<size_t>& axes, const std::vector<Range>& region, Analyzer* analyzer,
                std::vector<std::optional<Range>>* ranges) {
  for (size_t d = 0; d < region.size(); ++d) {
    std::optional<Range>& axis = (*ranges)[axes[d]];
    axis = axis ? hull(*axis, region[d], analyzer) : region[d];
  }
}

std::vector<Range> whole_domain(const BlockNode& block) {
  std::vector<Range> domain;
  for (const BlockAxis& axis : block.axes) domain.push_back({make_int(0, axis.var->type), axis.extent});
  return domain;
}

// A block that is one store of a value.
const Store* only_store(const BlockNode& block) {
  return block.init || block.has_reduction_axis() ? nullptr : block.body->as<Store>();
}

}  // namespace

void BlockSchedule::drop_buffer(const Tensor& tensor) {
  std::erase_if(function_.buffers, [&](const LocalBuffer& buffer) { return buffer.tensor == tensor; });
}

std::vector<BlockNodePtr> BlockSchedule::get_producers(const BlockNodePtr& block) const {
  std::vector<BlockNodePtr> found;
  for (const BlockNodePtr& other : blocks_below(*function_.root)) {
    const std::vector<Tensor> written = tensors_written_by(*other);
    if (other != block &&
        std::any_of(written.begin(), written.end(), [&](const Tensor& tensor) { return reads(*block, tensor); }))
      found.push_back(other);
  }
  return found;
}

std::vector<BlockNodePtr> BlockSchedule::get_consumers(const BlockNodePtr& block) const {
  std::vector<BlockNodePtr> found;
  for (const BlockNodePtr& other : blocks_below(*function_.root)) {
    const std::vector<Tensor> written = tensors_written_by(*block);
    if (other != block &&
        std::any_of(written.begin(), written.end(), [&](const Tensor& tensor) { return reads(*other, tensor); }))
      found.push_back(other);
  }
  return found;
}

std::vector<BlockNodePtr> BlockSchedule::get_child_blocks(const LoopNode* loop) const {
  return blocks_below(loop == nullptr ? *function_.root : *loop);
}

std::vector<BlockNodePtr> BlockSchedule::get_output_blocks() const {
  std::vector<BlockNodePtr> blocks = blocks_below(*function_.root);
  std::erase_if(blocks, [&](const BlockNodePtr& block) {
    const std::vector<Tensor> written = tensors_written_by(*block);
    return std::all_of(written.begin(), written.end(), [&](const Tensor& tensor) { return is_local(tensor); });
  });
  return blocks;
}

// A block whose points may be computed again and elsewhere: nobody else writes its results, it does not need what was
// in them, what it reads is not overwritten behind it, and nobody reads before it what it overwrites.
Status BlockSchedule::check_movable(std::string_view primitive, const BlockNode& block) const {
  bool behind = false;
  for (const BlockNodePtr& other : blocks_below(*function_.root)) {
    if (other.get() == &block) {
      behind = true;
      continue;
    }
    const BlockNode& first = behind ? block : *other;
    const BlockNode& second = behind ? *other : block;
    for (const Tensor& tensor : tensors_written_by(second)) {
      if (reads(first, tensor))
        return invalid_argument(str_cat(primitive, ": block '", second.name, "' overwrites '", tensor.name(),
                                        "', which '", first.name, "' reads before"));
    }
  }
  for (const Tensor& tensor : tensors_written_by(block)) {
    if (writers_of(tensor).size() > 1)
      return invalid_argument(
          str_cat(primitive, ": '", tensor.name(), "' is written by other blocks than '", block.name, "' too"));
    if (reads(block, tensor))
      return invalid_argument(str_cat(primitive, ": block '", block.name, "' reads what was in '", tensor.name(),
                                      "' before: it is neither a complete block nor a reduction with an init"));
  }
  return {};
}

// All that the block reads is computed before child `at` of the loop is run.
Status BlockSchedule::check_before(std::string_view primitive, const BlockNode& block, const LoopNode& loop,
                                   size_t at) const {
  for (const BlockNodePtr& writer : blocks_below(*function_.root)) {
    const std::vector<Tensor> written = tensors_written_by(*writer);
    const auto needed = std::find_if(written.begin(), written.end(), [&](const Tensor& t) { return reads(block, t); });
    if (writer.get() == &block || needed == written.end()) continue;
    const LoopNode* common = &loop;
    size_t place = at;
    while (!is_inside(*writer, *common)) {
      place = index_in_parent(*common);
      common = common->parent;
    }
    if (child_with(*common, *writer) >= place)
      return invalid_argument(str_cat(primitive, ": block '", block.name, "' reads '", needed->name(), "', which '",
                                      writer->name, "' computes later than at loop '", loop.name(), "'"));
  }
  return {};
}

// The values of the axes for which the consumers below the loop read the block's results.
Result<std::vector<Range>> BlockSchedule::domain_for_readers(const BlockNode& block,
                                                             const std::vector<BlockNodePtr>& consumers,
                                                             const LoopNode& loop) const {
  Analyzer analyzer = analyzer_at(function_, loop);
  std::vector<std::optional<Range>> needed(block.axes.size());
  for (const BlockAccess& write : accesses_of(block).writes) {
    const auto axes = axes_in(block, write.indices);
    if (!axes)
      return unsupported(str_cat("compute_at: block '", block.name, "' stores to '", write.tensor.name(),
                                 "' at other indices than its axes"));
    add_region(*axes, region_of(function_, consumers, write.tensor, AccessKind::kReads, loop), &analyzer, &needed);
  }
  std::vector<Range> domain = whole_domain(block);
  for (size_t i = 0; i < domain.size(); ++i) {
    if (needed[i] && needed[i]->min) domain[i] = *needed[i];
    if (!needed[i] && block.axes[i].kind == IterKind::kDataPar)
      return unsupported(str_cat("compute_at: axis '", to_text(block.axes[i].var), "' of block '", block.name,
                                 "' is no index of what it stores"));
  }
  return domain;
}

Status BlockSchedule::compute_at(const BlockNodePtr& block, const LoopNodePtr& loop) {
  AIPU_RETURN_IF_ERROR(check_present("compute_at", *block));
  AIPU_RETURN_IF_ERROR(check_present("compute_at", *loop));
  const auto refused = [&](const auto&... why) {
    return invalid_argument(str_cat("compute_at: block '", block->name, "' ", why...));
  };
  if (is_inside(*block, *loop)) return refused("is inside loop '", loop->name(), "' already");
  AIPU_RETURN_IF_ERROR(check_movable("compute_at", *block));
  for (const Tensor& tensor : tensors_written_by(*block)) {
    if (!is_local(tensor)) return refused("computes '", tensor.name(), "', an output, which is computed at its place");
  }
  const std::vector<BlockNodePtr> consumers = get_consumers(block);
  if (consumers.empty()) return refused("has no consumer");
  size_t at = loop->body.size();
  for (const BlockNodePtr& consumer : consumers) {
    if (!is_inside(*consumer, *loop))
      return refused("has the consumer '", consumer->name, "', which is not inside loop '", loop->name(), "'");
    at = std::min(at, child_with(*loop, *consumer));
  }
  AIPU_RETURN_IF_ERROR(check_before("compute_at", *block, *loop, at));
  AIPU_ASSIGN_OR_RETURN(const std::vector<Range> domain, domain_for_readers(*block, consumers, *loop));
  const BlockNodePtr kept = block;
  remove(block.get());
  place(kept, domain, loop.get(), at);
  return {};
}

// The values of the axes for which the block reads what the producers below the loop have computed.
Result<std::vector<Range>> BlockSchedule::domain_for_writers(const BlockNode& block,
                                                             const std::vector<BlockNodePtr>& producers,
                                                             const LoopNode& loop) const {
  Analyzer analyzer = analyzer_at(function_, loop);
  std::vector<std::optional<Range>> computed(block.axes.size());
  for (const BlockAccess& read : accesses_of(block).reads) {
    const bool from_here =
        std::any_of(producers.begin(), producers.end(), [&](const BlockNodePtr& p) { return writes(*p, read.tensor); });
    if (!from_here) continue;
    const auto axes = axes_in(block, read.indices);
    if (!axes)
      return unsupported(str_cat("reverse_compute_at: block '", block.name, "' reads '", read.tensor.name(),
                                 "' at other indices than its axes"));
    add_region(*axes, region_of(function_, producers, read.tensor, AccessKind::kWrites, loop), &analyzer, &computed);
  }
  std::vector<Range> domain = whole_domain(block);
  for (size_t i = 0; i < domain.size(); ++i) {
    if (!computed[i] || !computed[i]->min) continue;
    const bool whole = is_zero(computed[i]->min) && analyzer.prove_le(domain[i].extent, computed[i]->extent);
    if (block.axes[i].kind == IterKind::kCommReduce && !whole)
      return invalid_argument(str_cat("reverse_compute_at: block '", block.name, "' reduces over more than is ",
                                      "computed in an iteration of loop '", loop.name(), "'"));
    domain[i] = *computed[i];
  }
  return domain;
}

Status BlockSchedule::reverse_compute_at(const BlockNodePtr& block, const LoopNodePtr& loop) {
  AIPU_RETURN_IF_ERROR(check_present("reverse_compute_at", *block));
  AIPU_RETURN_IF_ERROR(check_present("reverse_compute_at", *loop));
  const auto refused = [&](const auto&... why) {
    return invalid_argument(str_cat("reverse_compute_at: block '", block->name, "' ", why...));
  };
  if (is_inside(*block, *loop)) return refused("is inside loop '", loop->name(), "' already");
  AIPU_RETURN_IF_ERROR(check_movable("reverse_compute_at", *block));
  std::vector<BlockNodePtr> producers = get_producers(block);
  std::erase_if(producers, [&](const BlockNodePtr& producer) { return !is_inside(*producer, *loop); });
  if (producers.empty()) return refused("has no producer inside loop '", loop->name(), "'");
  for (const BlockNodePtr& consumer : get_consumers(block)) {
    if (is_inside(*consumer, *loop))
      return refused("has the consumer '", consumer->name, "' inside loop '", loop->name(), "'");
  }
  size_t at = 0;
  for (const BlockNodePtr& producer : producers) {
    at = std::max(at, child_with(*loop, *producer) + 1);
    for (const LoopNode* around = loop.get(); !is_inside(*block, *around); around = around->parent) {
      const auto sums = [&](const BlockAxis& axis) {
        return axis.kind == IterKind::kCommReduce && uses(axis.binding, around->var.get());
      };
      if (std::any_of(producer->axes.begin(), producer->axes.end(), sums))
        return refused("needs the result of '", producer->name, "', which is complete behind its reduction loop '",
                       around->name(), "' only");
    }
  }
  AIPU_RETURN_IF_ERROR(check_before("reverse_compute_at", *block, *loop, at));
  AIPU_ASSIGN_OR_RETURN(const std::vector<Range> domain, domain_for_writers(*block, producers, *loop));
  const BlockNodePtr kept = block;
  remove(block.get());
  place(kept, domain, loop.get(), at);
  return {};
}

Status BlockSchedule::compute_inline(const BlockNodePtr& block) {
  AIPU_RETURN_IF_ERROR(check_present("compute_inline", *block));
  const Store* store = only_store(*block);
  const auto axes = store != nullptr ? axes_in(*block, store->indices) : std::nullopt;
  const auto refused = [&](std::string_view why) {
    return invalid_argument(str_cat("compute_inline: block '", block->name, "' ", why));
  };
  if (!axes || axes->size() != block->axes.size()) return refused("is more than one store at its axes");
  const Tensor tensor = store->tensor;
  if (!is_local(tensor)) return refused("computes an output");
  AIPU_RETURN_IF_ERROR(check_movable("compute_inline", *block));
  const std::vector<BlockNodePtr> consumers = get_consumers(block);
  if (consumers.empty()) return refused("has no consumer");
  Change inlined;
  inlined = [&](const Expr& e) -> Expr {
    const Read* read = e->as<Read>();
    if (read == nullptr || Tensor{read->op, read->value_index} != tensor) return nullptr;
    Substitution values;
    for (size_t d = 0; d < axes->size(); ++d)
      values[block->axes[(*axes)[d]].var.get()] = rewrite(read->indices[d], inlined);
    return substitute(store->value, values);
  };
  const BlockNodePtr kept = block;
  const Stmt body = block->body;  // holds `store`
  for (const BlockNodePtr& consumer : consumers) {
    consumer->body = rewrite_values(consumer->body, inlined);
    consumer->init = rewrite_values(consumer->init, inlined);
  }
  remove(block.get());
  drop_buffer(tensor);
  return {};
}

Status BlockSchedule::reverse_compute_inline(const BlockNodePtr& block) {
  AIPU_RETURN_IF_ERROR(check_present("reverse_compute_inline", *block));
  const auto refused = [&](const auto&... why) {
    return invalid_argument(str_cat("reverse_compute_inline: block '", block->name, "' ", why...));
  };
  const Store* store = only_store(*block);
  if (store == nullptr) return refused("is more than one store");
  AIPU_RETURN_IF_ERROR(check_movable("reverse_compute_inline", *block));
  const std::vector<BlockNodePtr> producers = get_producers(block);
  if (producers.size() != 1) return refused("has ", producers.size(), " producers, not one");
  BlockNode& producer = *producers.front();
  const Store* made = only_store(producer);
  if (made == nullptr) return refused("has the producer '", producer.name, "', which is more than one store");
  const Tensor between = made->tensor;
  if (!is_local(between) || readers_of(between).size() != 1 || writers_of(between).size() != 1)
    return refused("is not the only one that needs '", between.name(), "'");
  Substitution values;
  for (const BlockAccess& read : accesses_of(*block).reads) {
    if (read.tensor != between) continue;
    const auto axes = axes_in(*block, read.indices);
    if (!axes || axes->size() != block->axes.size())
      return refused("reads '", between.name(), "' at other indices than its axes");
    for (size_t d = 0; d < axes->size(); ++d) {
      const Expr& var = block->axes[(*axes)[d]].var;
      const auto [known, is_new] = values.emplace(var.get(), made->indices[d]);
      if (!is_new && structural_key(known->second) != structural_key(made->indices[d]))
        return refused("reads '", between.name(), "' at several places");
      if (!Analyzer(analyzer_at(function_, producer)).prove_equal(block->axes[(*axes)[d]].extent, between.shape()[d]))
        return refused("needs a part of '", between.name(), "' alone");
    }
  }
  Change change = [&](const Expr& e) -> Expr {
    const Read* read = e->as<Read>();
    return read != nullptr && Tensor{read->op, read->value_index} == between ? made->value : nullptr;
  };
  std::vector<Expr> indices;
  for (const Expr& index : store->indices) indices.push_back(substitute(index, values));
  const Expr value = substitute(rewrite(store->value, change), values);
  const BlockNodePtr kept = block;
  const Tensor result = store->tensor;
  producer.body = make_stmt(Store{result, std::move(indices), value});
  remove(block.get());
  drop_buffer(between);
  return {};
}

}  // namespace aipu::te
