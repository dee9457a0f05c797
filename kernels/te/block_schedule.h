// Primitives on functions of blocks. Each checks first and changes the tree then: after an error nothing has changed.
#pragma once

#include <string>
#include <vector>

#include "kernels/te/block.h"

namespace aipu::te {

class BlockSchedule {
 public:
  explicit BlockSchedule(BlockFunction function) : function_(std::move(function)) {}

  const BlockFunction& function() const { return function_; }

  Result<BlockNodePtr> get_block(const std::string& name) const;
  Result<std::vector<LoopNodePtr>> get_loops(const BlockNodePtr& block) const;  // outermost first
  std::vector<BlockNodePtr> get_producers(const BlockNodePtr& block) const;
  std::vector<BlockNodePtr> get_consumers(const BlockNodePtr& block) const;
  std::vector<BlockNodePtr> get_child_blocks(const LoopNode* loop) const;  // null: of the function
  std::vector<BlockNodePtr> get_output_blocks() const;                     // that write parameters

  // Loops (block_loops.cpp). Of `factors` one may be null: what is left, rounded up. Where they do not make the extent
  // exactly, a condition keeps the blocks below within it, unless `guard` is false.
  Result<std::vector<LoopNodePtr>> split(const LoopNodePtr& loop, const std::vector<Expr>& factors, bool guard = true);
  Result<LoopNodePtr> fuse(const std::vector<LoopNodePtr>& loops);
  Status reorder(const std::vector<LoopNodePtr>& order);
  Status annotate(const LoopNodePtr& loop, LoopKind kind);  // kParallel, kVectorized, kUnrolled
  // A loop that is run once, around a loop or a block.
  Result<LoopNodePtr> add_unit_loop(const TreeNodePtr& node);
  // Notes on a loop or a block, which nothing here reads.
  Status note(const TreeNodePtr& node, const std::string& key, Expr value);
  Status remove_note(const TreeNodePtr& node, const std::string& key);

  // Reductions (block_reductions.cpp). What the results start from as a block of its own, in front of the loop.
  Result<BlockNodePtr> decompose_reduction(const BlockNodePtr& block, const LoopNodePtr& loop);
  // The iterations of a reduction loop get results of their own, in a new buffer with one dimension more, at
  // `factor_axis`; the block reduces over these then, in loops of its own. The new block.
  Result<BlockNodePtr> rfactor(const LoopNodePtr& loop, int factor_axis);
  Status bind(const LoopNodePtr& loop, const std::string& thread_tag);

  // Copies (block_caches.cpp). The index counts the tensors that the block reads (writes), in order of first use.
  // `readers`: who reads the copy from then on; empty: all that read the tensor.
  Result<BlockNodePtr> cache_read(const BlockNodePtr& block, size_t index, const std::string& scope,
                                  std::vector<BlockNodePtr> readers = {});
  Result<BlockNodePtr> cache_write(const BlockNodePtr& block, size_t index, const std::string& scope);
  Result<BlockNodePtr> read_at(const LoopNodePtr& loop, const BlockNodePtr& block, size_t index,
                               const std::string& scope);
  Result<BlockNodePtr> write_at(const LoopNodePtr& loop, const BlockNodePtr& block, size_t index,
                                const std::string& scope);
  Status set_scope(const BlockNodePtr& block, size_t index, const std::string& scope);
  // The stride of a dimension of a local buffer that the block writes leaves the rest `offset`.
  Status storage_align(const BlockNodePtr& block, size_t index, int axis, int64_t factor, int64_t offset);

  // Places (block_moves.cpp). A producer goes before its first consumer inside the loop, a consumer behind its last
  // producer there, for the region that the others need (make).
  Status compute_at(const BlockNodePtr& block, const LoopNodePtr& loop);
  Status reverse_compute_at(const BlockNodePtr& block, const LoopNodePtr& loop);
  Status compute_inline(const BlockNodePtr& block);
  Status reverse_compute_inline(const BlockNodePtr& block);

 private:
  Status check_present(std::string_view primitive, const TreeNode& node) const;
  Status check_data_parallel(std::string_view primitive, const LoopNode& loop) const;
  std::vector<BlockNodePtr> readers_of(const Tensor& tensor) const;
  std::vector<BlockNodePtr> writers_of(const Tensor& tensor) const;
  bool is_local(const Tensor& tensor) const;

  Result<Tensor> nth_tensor(std::string_view primitive, const BlockNode& block, size_t index, bool written) const;
  std::string free_name(const std::string& name) const;
  TreeNodePtr counterpart(const TreeNode& node) const;  // of a copy of this function, or of what it is a copy of
  BlockNodePtr add_copy(const Tensor& from, const Tensor& to, const std::vector<Range>& domain, LoopNode* parent,
                        size_t at);
  // Puts a block that stands nowhere into new loops over these values of its axes, under the conditions that keep it
  // within them.
  void place(const BlockNodePtr& block, const std::vector<Range>& domain, LoopNode* parent, size_t at);
  Status check_movable(std::string_view primitive, const BlockNode& block) const;
  Status check_before(std::string_view primitive, const BlockNode& block, const LoopNode& loop, size_t at) const;
  Result<std::vector<Range>> domain_for_readers(const BlockNode& block, const std::vector<BlockNodePtr>& consumers,
                                                const LoopNode& loop) const;
  Result<std::vector<Range>> domain_for_writers(const BlockNode& block, const std::vector<BlockNodePtr>& producers,
                                                const LoopNode& loop) const;
  void drop_buffer(const Tensor& tensor);

  BlockFunction function_;
};

}  // namespace aipu::te
