// Ensembles of decision trees as the tables that the op aipu::TreeEnsemble walks (graph/ops/trees.cpp says what they
// hold). Private to frontend/onnx/ops/ml.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "frontend/onnx/op_context.h"

namespace aipu::frontend::ml {

enum class TreeMode : uint8_t { kLeaf, kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kMember };

Result<TreeMode> parse_tree_mode(std::string_view name);  // "BRANCH_LEQ", ..., "LEAF"

struct LeafWeight {
  int32_t target = 0;
  double weight = 0;
};

// Of all trees, in one vector: children are places in it. Nodes may share children.
struct TreeNode {
  TreeMode mode = TreeMode::kLeaf;
  int64_t feature = 0;
  double threshold = 0;
  int64_t if_true = -1, if_false = -1;
  bool missing_is_true = false;     // where NaN goes
  std::vector<double> members;      // of kMember: sorted, no NaN
  std::vector<LeafWeight> weights;  // of a leaf
};

struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<int64_t> roots;
  int64_t targets = 1;
};

// What a node without a tree means to the op; compared in `compare` (float32 or float64).
struct TreeTables {
  ConstantPtr nodes, roots, blocks, leaf_targets, leaf_weights;
  int64_t feature_bits = 0;  // of the second word of a node
  int64_t features = 0;      // at least so many columns
  bool tracks_missing = false;
  std::string_view leaves = "listed";
  int64_t levels = 0, row_levels = 0, height = 0;
};

Result<TreeTables> make_tree_tables(const Forest& forest, DType compare, std::string_view aggregate);

// The sums (least, greatest weights) of the trees for the rows of x: [N, targets] of `compare`.
ValueId emit_forest(OpContext& c, ValueId x, const Forest& forest, DType compare, std::string_view aggregate);

}  // namespace aipu::frontend::ml
