// From nodes with six kinds of comparisons, sets and NaN rules to nodes with one comparison, x <= threshold, laid out
// so that children are neighbours: a walk reads 8 bytes per level, and the comparison's flag is a part of the step.
#include "frontend/onnx/ops/ml/tree_tables.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

namespace aipu::frontend::ml {

Result<TreeMode> parse_tree_mode(std::string_view name) {
  static constexpr std::pair<std::string_view, TreeMode> kModes[] = {
      {"LEAF", TreeMode::kLeaf},           {"BRANCH_LEQ", TreeMode::kLessEqual},
      {"BRANCH_LT", TreeMode::kLess},      {"BRANCH_GTE", TreeMode::kGreaterEqual},
      {"BRANCH_GT", TreeMode::kGreater},   {"BRANCH_EQ", TreeMode::kEqual},
      {"BRANCH_NEQ", TreeMode::kNotEqual}, {"BRANCH_MEMBER", TreeMode::kMember},
  };
  for (const auto& [text, mode] : kModes) {
    if (text == name) return mode;
  }
  return invalid_model(str_cat("has a node of mode '", name, "'"));
}

namespace {

// A node of the one kind: x <= threshold, NaN where missing_is_true says.
struct Split {
  int64_t feature = 0;
  double threshold = 0;
  bool missing_is_true = false;
  int64_t if_true = -1, if_false = -1;  // splits; -1 - leaf: the node of the forest that is a leaf
};

class Splitter {
 public:
  Splitter(const Forest& forest, DType compare) : forest_(forest), single_(compare == DType::kF32) {}

  std::vector<Split> splits;

  // The split (or leaf) that stands for each node of the forest that is reached from the root.
  Result<int64_t> add_tree(int64_t root) {
    AIPU_ASSIGN_OR_RETURN(const int64_t first, reserve(root));
    while (!pending_.empty()) {
      const auto [node, split] = pending_.back();
      pending_.pop_back();
      AIPU_RETURN_IF_ERROR(fill(forest_.nodes[static_cast<size_t>(node)], split));
    }
    return first;
  }

  // For the end: parents before their children. A branch that is left over has parents in a circle, and no walk may
  // come back to where it was.
  Result<std::vector<size_t>> parents_first() const {
    for (size_t i = 0; i < forest_.nodes.size(); ++i) {
      if (forest_.nodes[i].mode != TreeMode::kLeaf && (i >= split_of_.size() || split_of_[i] < 0))
        return invalid_model("has a branch that no tree reaches");
    }
    // From the splits that nobody leads to (any more) on; what is never among them leads back to itself.
    std::vector<int64_t> parents(splits.size());
    const auto for_children = [](const Split& split, const auto& visit) {
      for (const int64_t child : {split.if_true, split.if_false}) {
        if (child >= 0) visit(static_cast<size_t>(child));
      }
    };
    for (const Split& split : splits) for_children(split, [&](size_t child) { ++parents[child]; });
    std::vector<size_t> free;
    for (size_t i = 0; i < splits.size(); ++i) {
      if (parents[i] == 0) free.push_back(i);
    }
    for (size_t k = 0; k < free.size(); ++k) {
      for_children(splits[free[k]], [&](size_t child) {
        if (--parents[child] == 0) free.push_back(child);
      });
    }
    if (free.size() != splits.size()) return invalid_model("has a branch that leads back to itself");
    return free;
  }

 private:
  static constexpr size_t kMostSplits = size_t{1} << 30;

  // The place of a node of the forest; what it does is filled in later.
  Result<int64_t> reserve(int64_t node) {
    if (node < 0 || node >= static_cast<int64_t>(forest_.nodes.size()))
      return invalid_model("has a branch without its children");
    if (forest_.nodes[static_cast<size_t>(node)].mode == TreeMode::kLeaf) return -1 - node;
    if (split_of_.size() < forest_.nodes.size()) split_of_.resize(forest_.nodes.size(), -1);
    // Exporters write a set of categories as comparisons that share the child for "true".
    if (const int64_t shared = split_of_[static_cast<size_t>(node)]; shared >= 0) return shared;
    const int64_t split = add();
    split_of_[static_cast<size_t>(node)] = split;
    pending_.emplace_back(node, split);
    return split;
  }

  int64_t add() {
    splits.emplace_back();
    return static_cast<int64_t>(splits.size()) - 1;
  }

  double below(double threshold) const {
    constexpr double kLeast = -std::numeric_limits<double>::infinity();
    // Nothing is below the least number: NaN is a threshold that no number passes.
    if (threshold == kLeast) return std::numeric_limits<double>::quiet_NaN();
    return single_ ? static_cast<double>(std::nextafterf(static_cast<float>(threshold), -INFINITY))
                   : std::nextafter(threshold, kLeast);
  }

  Status fill(const TreeNode& node, int64_t at) {
    if (splits.size() > kMostSplits) return out_of_range("has too many nodes");
    if (node.feature < 0 || node.feature > std::numeric_limits<int32_t>::max())
      return invalid_model(str_cat("has a node of feature ", node.feature));
    AIPU_ASSIGN_OR_RETURN(const int64_t yes, reserve(node.if_true));
    AIPU_ASSIGN_OR_RETURN(const int64_t no, reserve(node.if_false));
    const bool missing = node.missing_is_true;
    switch (node.mode) {
      case TreeMode::kLessEqual:
        set(at, node, node.threshold, missing, yes, no);
        break;
      case TreeMode::kLess:
        set(at, node, below(node.threshold), missing, yes, no);
        break;
      case TreeMode::kGreater:
      case TreeMode::kGreaterEqual:
        if (std::isnan(node.threshold)) {  // no number is greater
          set(at, node, node.threshold, missing, yes, no);
        } else {
          set(at, node, node.mode == TreeMode::kGreater ? node.threshold : below(node.threshold), !missing, no, yes);
        }
        break;
      case TreeMode::kEqual:
        equal(at, node, node.threshold, missing, yes, no);
        break;
      case TreeMode::kNotEqual:
        equal(at, node, node.threshold, false, no, yes);  // NaN differs from everything
        break;
      case TreeMode::kMember:
        members(at, node, yes, no);
        break;
      case TreeMode::kLeaf:
        break;
    }
    return {};
  }

  void set(int64_t at, const TreeNode& node, double threshold, bool missing, int64_t yes, int64_t no) {
    // Where NaN alone passes, it is what everything else does not: NaN is taken for the least number where it passes,
    // and nothing is less or equal to a threshold of NaN.
    if (missing && std::isnan(threshold)) {
      threshold = std::numeric_limits<double>::infinity();
      missing = false;
      std::swap(yes, no);
    }
    splits[static_cast<size_t>(at)] = {node.feature, threshold, missing, yes, no};
  }

  // x <= value, and not x <= the number below it
  void equal(int64_t at, const TreeNode& node, double value, bool missing, int64_t yes, int64_t no) {
    const int64_t second = add();
    set(at, node, value, missing, second, no);
    set(second, node, below(value), false, no, yes);
  }

  // A binary search in the sorted members.
  void members(int64_t at, const TreeNode& node, int64_t yes, int64_t no) {
    if (node.members.empty()) {
      // NaN alone may be a member.
      return set(at, node, std::numeric_limits<double>::quiet_NaN(), node.missing_is_true, yes, no);
    }
    struct Range {
      int64_t at;
      size_t first, last;  // of members
      bool takes_missing;  // NaN comes here, and is a member
    };
    std::vector<Range> ranges{{at, 0, node.members.size(), node.missing_is_true}};
    while (!ranges.empty()) {
      const Range range = ranges.back();
      ranges.pop_back();
      if (range.last - range.first == 1) {
        equal(range.at, node, node.members[range.first], range.takes_missing, yes, no);
        continue;
      }
      const size_t middle = (range.first + range.last) / 2;
      const int64_t low = add(), high = add();
      set(range.at, node, node.members[middle - 1], range.takes_missing, low, high);
      ranges.push_back({low, range.first, middle, range.takes_missing});
      ranges.push_back({high, middle, range.last, false});
    }
  }

  const Forest& forest_;
  const bool single_;
  std::vector<std::pair<int64_t, int64_t>> pending_;  // node of the forest, its split
  std::vector<int64_t> split_of_;                     // by node of the forest, -1: not reached yet
};

// A node as it is laid out. Without a split it is a leaf, whose value is `value_distance` away.
struct Record {
  int64_t split = -1;
  int64_t child = 0;  // the record for "false", that for "true" is the one before it; a leaf is its own
  int64_t value_distance = 0;
  int64_t leaf = -1;  // the record is the value of this node of the forest
};

// The children of a split lie side by side, "true" first, behind them the values of those that are leaves, behind these
// the children of the first child. A split that has several parents is there for each of them, its children once.
class Layout {
 public:
  explicit Layout(const std::vector<Split>& splits) : splits_(splits), children_(splits.size(), -1) {}

  std::vector<Record> records;

  int64_t add_tree(int64_t root) {
    const auto first = static_cast<int64_t>(records.size());
    add_side_by_side({&root, 1});
    while (!waiting_.empty()) {
      const int64_t split = waiting_.back();
      waiting_.pop_back();
      int64_t& place = children_[static_cast<size_t>(split)];
      if (place >= 0) continue;
      place = static_cast<int64_t>(records.size());
      const Split& parent = splits_[static_cast<size_t>(split)];
      add_side_by_side(std::array{parent.if_true, parent.if_false});
    }
    return first;
  }

  // For the end.
  void set_children() {
    for (size_t i = 0; i < records.size(); ++i) {
      const int64_t split = records[i].split;
      records[i].child = split >= 0 ? children_[static_cast<size_t>(split)] + 1 : static_cast<int64_t>(i);
    }
  }

 private:
  void add_side_by_side(std::span<const int64_t> nodes) {
    const size_t first = records.size();
    for (const int64_t node : nodes) records.push_back({.split = std::max<int64_t>(node, -1)});
    for (size_t k = 0; k < nodes.size(); ++k) {
      if (nodes[k] >= 0) continue;
      records[first + k].value_distance = static_cast<int64_t>(records.size() - (first + k));
      records.push_back({.leaf = -1 - nodes[k]});
    }
    for (size_t k = nodes.size(); k-- > 0;) {
      if (nodes[k] >= 0) waiting_.push_back(nodes[k]);
    }
  }

  const std::vector<Split>& splits_;
  std::vector<int64_t> children_;  // by split: where they are, -1: nowhere yet
  std::vector<int64_t> waiting_;   // splits whose children are to be placed
};

template <typename T>
ConstantPtr list_of(DType dtype, const std::vector<T>& elements) {
  return graph::Constant::of<T>(dtype, {static_cast<int64_t>(elements.size())}, std::span<const T>(elements));
}

// Trees whose tables fit the second-level cache together, with the rows that they are walked for.
constexpr int64_t kBlockBytes = int64_t{1} << 18;

// Trees that are walked together.
struct Block {
  int64_t first_tree = 0, first_record = 0;  // children are counted from this record on
};

std::vector<Block> blocks_of(const Layout& layout, const std::vector<int64_t>& roots, int64_t record_bytes) {
  std::vector<Block> blocks;
  for (size_t tree = 0; tree < roots.size(); ++tree) {
    const int64_t end = tree + 1 < roots.size() ? roots[tree + 1] : static_cast<int64_t>(layout.records.size());
    if (tree == 0 || (end - blocks.back().first_record) * record_bytes > kBlockBytes)
      blocks.push_back({static_cast<int64_t>(tree), roots[tree]});
  }
  // Trees that share nodes may lead back to an earlier block.
  for (size_t b = 0; b < blocks.size(); ++b) {
    const size_t end = b + 1 < blocks.size() ? static_cast<size_t>(blocks[b + 1].first_record) : layout.records.size();
    for (auto i = static_cast<size_t>(blocks[b].first_record); i < end; ++i) {
      if (layout.records[i].child >= blocks[b].first_record) continue;
      for (Block& block : blocks) block.first_record = 0;
      return blocks;
    }
  }
  return blocks;
}

// Of a leaf with one target, which it may name several times, or not at all.
double only_weight(const std::vector<LeafWeight>& weights, std::string_view aggregate) {
  if (aggregate != "sum") {
    if (weights.empty()) return std::numeric_limits<double>::quiet_NaN();  // which is no weight to the kernel
    const auto [least, greatest] = std::minmax_element(
        weights.begin(), weights.end(), [](const LeafWeight& a, const LeafWeight& b) { return a.weight < b.weight; });
    return aggregate == "min" ? least->weight : greatest->weight;
  }
  double sum = 0;
  for (const LeafWeight& entry : weights) sum += entry.weight;
  return sum;
}

// Word: int32 with float32 thresholds, int64 with float64 ones.
template <typename Word, typename Real>
void pack(const Layout& layout, const std::vector<Split>& splits, const Forest& forest,
          const std::vector<int64_t>& roots, const std::vector<Block>& blocks, std::string_view aggregate,
          TreeTables* out) {
  std::vector<Word> words;
  std::vector<Word> leaf_targets;
  std::vector<Real> leaf_weights;
  words.reserve(layout.records.size() * 2);
  const auto bits = static_cast<unsigned>(out->feature_bits);
  const auto child_word = [&](const Record& record, int64_t block_first) {
    return static_cast<Word>(static_cast<Word>(record.child - block_first) * (Word{1} << (bits + 2)));
  };
  size_t block = 0;
  for (size_t i = 0; i < layout.records.size(); ++i) {
    const Record& record = layout.records[i];
    while (block + 1 < blocks.size() &&
           static_cast<int64_t>(i) >= roots[static_cast<size_t>(blocks[block + 1].first_tree)])
      ++block;
    const int64_t block_first = blocks[block].first_record;
    if (record.split >= 0) {
      const Split& split = splits[static_cast<size_t>(record.split)];
      words.push_back(std::bit_cast<Word>(static_cast<Real>(split.threshold)));
      const auto flag = static_cast<Word>(split.missing_is_true ? 1 : 0);
      words.push_back(static_cast<Word>(child_word(record, block_first) + flag * (Word{1} << bits) +
                                        static_cast<Word>(split.feature)));
      continue;
    }
    if (record.leaf < 0) {
      // A NaN, the low bits of which say where the value is.
      words.push_back(static_cast<Word>(std::bit_cast<Word>(std::numeric_limits<Real>::quiet_NaN()) |
                                        static_cast<Word>(record.value_distance)));
      words.push_back(static_cast<Word>(child_word(record, block_first) + (Word{2} << bits)));
      continue;
    }
    const auto& weights = forest.nodes[static_cast<size_t>(record.leaf)].weights;
    if (forest.targets == 1) {
      words.push_back(std::bit_cast<Word>(static_cast<Real>(only_weight(weights, aggregate))));
      words.push_back(0);
      continue;
    }
    if (out->leaves == "single") {
      words.push_back(static_cast<Word>(weights[0].target));
      words.push_back(std::bit_cast<Word>(static_cast<Real>(weights[0].weight)));
      continue;
    }
    words.push_back(static_cast<Word>(leaf_weights.size()));
    words.push_back(static_cast<Word>(weights.size()));
    for (const LeafWeight& entry : weights) {
      leaf_targets.push_back(static_cast<Word>(entry.target));
      leaf_weights.push_back(static_cast<Real>(entry.weight));
    }
  }
  const DType word = sizeof(Word) == 4 ? DType::kI32 : DType::kI64;
  std::vector<Word> starts, ranges;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const auto end = b + 1 < blocks.size() ? static_cast<size_t>(blocks[b + 1].first_tree) : roots.size();
    for (auto tree = static_cast<size_t>(blocks[b].first_tree); tree < end; ++tree)
      starts.push_back(static_cast<Word>(roots[tree] - blocks[b].first_record));
    ranges.push_back(static_cast<Word>(blocks[b].first_tree));
    ranges.push_back(static_cast<Word>(blocks[b].first_record));
  }
  ranges.push_back(static_cast<Word>(roots.size()));
  ranges.push_back(0);
  if (leaf_weights.empty()) leaf_targets.push_back(0), leaf_weights.push_back(0);
  out->nodes = list_of(word, words);
  out->roots = list_of(word, starts);
  out->blocks =
      graph::Constant::of<Word>(word, {static_cast<int64_t>(blocks.size()) + 1, 2}, std::span<const Word>(ranges));
  out->leaf_targets = list_of(word, leaf_targets);
  out->leaf_weights = list_of(sizeof(Real) == 4 ? DType::kF32 : DType::kF64, leaf_weights);
}

// How many comparisons a tree takes, rounded up, if each passes as often as not.
int64_t mean_levels(const std::vector<Split>& splits, const std::vector<size_t>& parents_first,
                    const std::vector<int64_t>& trees) {
  std::vector<double> visits(splits.size());
  const auto add = [&](int64_t split, double count) {
    if (split >= 0) visits[static_cast<size_t>(split)] += count;
  };
  for (const int64_t tree : trees) add(tree, 1);
  double sum = 0;
  for (const size_t split : parents_first) {
    sum += visits[split];
    add(splits[split].if_true, visits[split] / 2);
    add(splits[split].if_false, visits[split] / 2);
  }
  return trees.empty() ? 0 : static_cast<int64_t>(std::ceil(sum / static_cast<double>(trees.size())));
}

struct Heights {
  int64_t mean = 0, most = 0;  // of the trees; the mean is rounded up
};

// The comparisons on the longest way through a tree.
Heights heights_of(const std::vector<Split>& splits, const std::vector<size_t>& parents_first,
                   const std::vector<int64_t>& trees) {
  std::vector<int64_t> heights(splits.size());
  const auto height = [&](int64_t split) { return split >= 0 ? heights[static_cast<size_t>(split)] : 0; };
  for (size_t i = parents_first.size(); i-- > 0;) {
    const Split& split = splits[parents_first[i]];
    heights[parents_first[i]] = 1 + std::max(height(split.if_true), height(split.if_false));
  }
  Heights out;
  int64_t sum = 0;
  for (const int64_t tree : trees) {
    sum += height(tree);
    out.most = std::max(out.most, height(tree));
  }
  const auto count = static_cast<int64_t>(trees.size());
  if (count > 0) out.mean = (sum + count - 1) / count;
  return out;
}

// Trees fit the data: few comparisons pass as often as not, and ways are longer than mean_levels() by so many levels.
constexpr int64_t kLongerWays = 2;

// "dense" if every leaf has all targets, in order, "single" if it has one of several.
std::string_view kind_of_leaves(const Forest& forest) {
  bool dense = forest.targets > 1, single = dense;
  for (const TreeNode& node : forest.nodes) {
    if (node.mode != TreeMode::kLeaf) continue;
    single &= node.weights.size() == 1;
    dense &= static_cast<int64_t>(node.weights.size()) == forest.targets;
    for (size_t k = 0; k < node.weights.size(); ++k) dense &= node.weights[k].target == static_cast<int32_t>(k);
  }
  return dense ? "dense" : single ? "single" : "listed";
}

}  // namespace

Result<TreeTables> make_tree_tables(const Forest& forest, DType compare, std::string_view aggregate) {
  Splitter splitter(forest, compare);
  std::vector<int64_t> trees;
  for (const int64_t root : forest.roots) {
    AIPU_ASSIGN_OR_RETURN(const int64_t split, splitter.add_tree(root));
    trees.push_back(split);
  }
  AIPU_ASSIGN_OR_RETURN(const std::vector<size_t> order, splitter.parents_first());
  Layout layout(splitter.splits);
  std::vector<int64_t> roots;
  roots.reserve(trees.size());
  for (const int64_t tree : trees) roots.push_back(layout.add_tree(tree));
  layout.set_children();
  TreeTables out;
  int64_t most_feature = 0;
  for (const Split& split : splitter.splits) {
    out.tracks_missing |= split.missing_is_true;
    most_feature = std::max(most_feature, split.feature);
  }
  if (layout.records.size() > size_t{1} << 30) return out_of_range("has too many nodes");
  out.features = most_feature + 1;
  out.feature_bits = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(most_feature)));
  out.leaves = kind_of_leaves(forest);
  out.levels = mean_levels(splitter.splits, order, trees);
  const Heights heights = heights_of(splitter.splits, order, trees);
  out.height = heights.most;
  out.row_levels = std::min(out.levels + kLongerWays, heights.mean);
  if (compare == DType::kF32) {
    const std::vector<Block> blocks = blocks_of(layout, roots, 2 * sizeof(int32_t));
    int64_t most_child = 0;
    for (size_t b = 0; b < blocks.size(); ++b) {
      const size_t tree = b + 1 < blocks.size() ? static_cast<size_t>(blocks[b + 1].first_tree) : roots.size();
      const int64_t end = tree < roots.size() ? roots[tree] : static_cast<int64_t>(layout.records.size());
      most_child = std::max(most_child, end - blocks[b].first_record);
    }
    // One bit says where NaN goes, one is that of leaves, one the sign.
    if (out.feature_bits + std::bit_width(static_cast<uint64_t>(most_child)) + 3 <= 32) {
      pack<int32_t, float>(layout, splitter.splits, forest, roots, blocks, aggregate, &out);
      return out;
    }
  }
  const std::vector<Block> blocks = blocks_of(layout, roots, 2 * sizeof(int64_t));
  pack<int64_t, double>(layout, splitter.splits, forest, roots, blocks, aggregate, &out);
  return out;
}

ValueId emit_forest(OpContext& c, ValueId x, const Forest& forest, DType compare, std::string_view aggregate) {
  if (!c.ok()) return {};
  auto tables = make_tree_tables(forest, compare, aggregate);
  if (!tables.ok()) {
    c.fail(std::move(tables).status());
    return {};
  }
  const ValueId y = c.emit("aipu::TreeEnsemble",
                           {{"aggregate", std::string(aggregate)},
                            {"targets", forest.targets},
                            {"features", tables->features},
                            {"feature_bits", tables->feature_bits},
                            {"missing", int64_t{tables->tracks_missing}},
                            {"leaves", std::string(tables->leaves)},
                            {"levels", tables->levels},
                            {"row_levels", tables->row_levels},
                            {"height", tables->height}},
                           {x, c.constant(tables->nodes), c.constant(tables->roots), c.constant(tables->blocks),
                            c.constant(tables->leaf_targets), c.constant(tables->leaf_weights)});
  return c.cast(y, compare);
}

}  // namespace aipu::frontend::ml
