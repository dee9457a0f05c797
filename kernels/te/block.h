// Functions as loops around named blocks: what block schedules transform. Unlike the nests of te::Schedule, which
// follow from relations when they are lowered, a primitive changes this tree at once, so that what users see is what
// runs.
//
// A block computes one point of its axes. Its statements know its axes alone; what the axes are in terms of the loops
// around it is said by their bindings. So loops may be changed without looking into blocks, and blocks moved without
// looking at loops.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/te/nest.h"
#include "kernels/te/stmt.h"

namespace aipu::te {

struct LoopNode;
using LoopNodePtr = std::shared_ptr<LoopNode>;

// A loop or a block. One that a primitive has taken out of the function has no parent any more.
struct TreeNode : std::enable_shared_from_this<TreeNode> {
  TreeNode() = default;
  TreeNode(const TreeNode&) = delete;
  TreeNode& operator=(const TreeNode&) = delete;
  virtual ~TreeNode() = default;

  LoopNode* parent = nullptr;
  std::vector<std::pair<std::string, Expr>> annotations;  // notes of the user, which the text shows
};
using TreeNodePtr = std::shared_ptr<TreeNode>;

// The root of a function is a loop without a variable: its body is run once.
struct LoopNode final : TreeNode {
  Expr var, extent;  // from 0
  LoopKind kind = LoopKind::kSerial;
  IterVarPtr thread;  // of kThread
  std::vector<TreeNodePtr> body;

  bool is_root() const { return var == nullptr; }
  const std::string& name() const { return var->as<Var>()->name; }
};

struct BlockAxis {
  Expr var;
  IterKind kind;  // kDataPar or kCommReduce
  Expr extent;    // from 0
  Expr binding;   // over the variables of the loops around the block
};

struct BlockNode final : TreeNode {
  std::string name;
  std::vector<BlockAxis> axes;
  std::vector<Expr> conditions;  // over the loops' variables: the block is run where all hold
  Stmt init;                     // null, or what stands before the first point of the reduction axes
  Stmt body;

  bool has_reduction_axis() const;
};
using BlockNodePtr = std::shared_ptr<BlockNode>;

// Memory that the function has for itself.
struct LocalBuffer {
  Tensor tensor;
  std::string scope;
  std::vector<Alignment> alignment = {};  // of the dimensions' strides; empty: compact
};

struct BlockFunction {
  std::string name;
  std::vector<Parameter> params;  // their tensors are placeholders
  std::vector<LocalBuffer> buffers;
  LoopNodePtr root = std::make_shared<LoopNode>();

  BlockFunction copy() const;  // with a tree of its own
};

// --- the tree ---

void append(LoopNode* parent, TreeNodePtr child);
void insert(LoopNode* parent, size_t at, TreeNodePtr child);
size_t index_in_parent(const TreeNode& node);
void replace(const TreeNode& old, TreeNodePtr node);  // in the parent's body
// Takes a node out, and the loops around it that are empty then.
void remove(TreeNode* node);

std::vector<BlockNodePtr> blocks_below(const LoopNode& loop);  // in order
std::vector<LoopNode*> loops_around(const TreeNode& node);     // outermost first, without the root
bool is_inside(const TreeNode& node, const LoopNode& loop);    // also the loop itself
LoopNode* common_loop(const std::vector<BlockNodePtr>& blocks);
// The child of `loop` in which a node stands.
size_t child_with(const LoopNode& loop, const TreeNode& node);
// Puts values for variables of loops into all that stands below.
void substitute_below(const TreeNodePtr& node, const Substitution& values);

// --- what blocks access ---

struct BlockAccess {
  Tensor tensor;
  std::vector<Expr> indices;  // over the block's axes and the loops in its statements
};
struct BlockAccesses {
  std::vector<BlockAccess> reads, writes;  // in order
  std::vector<Loop> loops;                 // in its statements, outermost first
};
BlockAccesses accesses_of(const BlockNode& block);
// Each tensor once, in order of first use. A reduction's reads of its own result do not count.
std::vector<Tensor> tensors_read_by(const BlockNode& block);
std::vector<Tensor> tensors_written_by(const BlockNode& block);
bool reads(const BlockNode& block, const Tensor& tensor);
bool writes(const BlockNode& block, const Tensor& tensor);

// The statement with other expressions; what it stores to stays.
Stmt rewrite_values(const Stmt& stmt, const Change& change);

// Knows the loops around a node, and that sizes are at least 0.
Analyzer analyzer_at(const BlockFunction& function, const TreeNode& node);

// The box of a tensor that these blocks access while the loops from `scope` outwards stand still; what has no provable
// bound is the whole dimension.
enum class AccessKind : uint8_t { kReads, kWrites, kBoth };
std::vector<Range> region_of(const BlockFunction& function, const std::vector<BlockNodePtr>& blocks,
                             const Tensor& tensor, AccessKind kind, const LoopNode& scope);

// --- making and lowering ---

// The unscheduled function of what computes the parameters: a block per operation, named after it. Errors: scans and
// statements of one's own.
Result<BlockFunction> block_function(const std::vector<Parameter>& params, std::string name);

// What a reduction's results start from becomes a block of its own, in front of loop `first` of those around the block;
// without `first` in front of the outermost that a reduction axis comes from. Null where it cannot stand there: nothing
// has changed then.
BlockNodePtr separate_init(BlockNode* block, std::optional<size_t> first = std::nullopt);

// Loop nests for to_tir: blocks become guarded statements, memory is as large as what is touched of it.
Function lower_blocks(const BlockFunction& function);

std::string to_text(const BlockFunction& function);

}  // namespace aipu::te
