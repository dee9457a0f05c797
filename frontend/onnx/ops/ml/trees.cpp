// Ensembles of decision trees: TreeEnsemble, TreeEnsembleClassifier, TreeEnsembleRegressor.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/ml/converters.h"
#include "frontend/onnx/ops/ml/scores.h"
#include "frontend/onnx/ops/ml/tree_tables.h"

namespace aipu::frontend::ml {

namespace {

std::vector<double> numbers(const ConstantPtr& tensor) {
  return tensor != nullptr ? tensor->to_doubles() : std::vector<double>();
}

// The floats `name`, or the tensor `name`_as_tensor.
std::vector<double> take_numbers(OpContext& c, const std::string& name) {
  auto listed = c.take_floats(name);
  const ConstantPtr tensor = c.take_tensor(name + "_as_tensor");
  if (listed && tensor != nullptr) c.fail_invalid(str_cat("has both ", name, " and ", name, "_as_tensor"));
  return listed ? std::move(*listed) : numbers(tensor);
}

struct NodeKey {
  int64_t tree, node;
  friend bool operator==(const NodeKey&, const NodeKey&) = default;
};
struct NodeKeyHash {
  size_t operator()(const NodeKey& key) const {
    return std::hash<int64_t>()(key.tree) * size_t{0x9E3779B97F4A7C15} + std::hash<int64_t>()(key.node);
  }
};
using NodePlaces = std::unordered_map<NodeKey, int64_t, NodeKeyHash>;

// The nodes of a classifier or regressor, each with its place; no weights yet.
Status take_nodes(OpContext& c, Forest* forest, NodePlaces* places) {
  const auto trees = ints_or_none(c, "nodes_treeids");
  const auto ids = ints_or_none(c, "nodes_nodeids");
  const auto features = ints_or_none(c, "nodes_featureids");
  const auto modes = c.take_strings("nodes_modes").value_or(std::vector<std::string>());
  const auto thresholds = take_numbers(c, "nodes_values");
  const auto yes = ints_or_none(c, "nodes_truenodeids");
  const auto no = ints_or_none(c, "nodes_falsenodeids");
  const auto missing = ints_or_none(c, "nodes_missing_value_tracks_true");
  c.ignore("nodes_hitrates");
  c.ignore("nodes_hitrates_as_tensor");
  if (!c.ok()) return c.status();
  const size_t count = ids.size();
  for (const size_t size : {trees.size(), features.size(), modes.size(), thresholds.size(), yes.size(), no.size()}) {
    if (size != count) return invalid_model("has attributes nodes_* of different lengths");
  }
  if (count == 0 || (!missing.empty() && missing.size() != count))
    return invalid_model("has attributes nodes_* of different lengths");
  forest->nodes.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (!places->emplace(NodeKey{trees[i], ids[i]}, static_cast<int64_t>(i)).second)
      return invalid_model(str_cat("has node ", ids[i], " of tree ", trees[i], " twice"));
  }
  std::vector<bool> is_child(count);
  const auto child = [&](size_t parent, int64_t id) -> int64_t {
    const auto found = places->find({trees[parent], id});
    if (found == places->end()) return -1;
    is_child[static_cast<size_t>(found->second)] = true;
    return found->second;
  };
  for (size_t i = 0; i < count; ++i) {
    TreeNode& node = forest->nodes[i];
    AIPU_ASSIGN_OR_RETURN(node.mode, parse_tree_mode(modes[i]));
    if (node.mode == TreeMode::kMember) return invalid_model("has a node of mode 'BRANCH_MEMBER'");
    if (node.mode == TreeMode::kLeaf) continue;
    node.feature = features[i];
    node.threshold = thresholds[i];
    node.missing_is_true = !missing.empty() && missing[i] != 0;
    node.if_true = child(i, yes[i]);
    node.if_false = child(i, no[i]);
  }
  std::set<int64_t> rooted;
  for (size_t i = 0; i < count; ++i) {
    if (is_child[i]) continue;
    if (!rooted.insert(trees[i]).second) return invalid_model(str_cat("has two roots in tree ", trees[i]));
    forest->roots.push_back(static_cast<int64_t>(i));
  }
  if (rooted.size() != std::set<int64_t>(trees.begin(), trees.end()).size())
    return invalid_model("has a tree without a root");
  return {};
}

struct Weights {
  std::vector<int64_t> trees, nodes, targets;
  std::vector<double> values;
};

// The attributes <prefix>_treeids and so on.
Weights take_weights(OpContext& c, const std::string& prefix) {
  Weights w;
  w.trees = ints_or_none(c, prefix + "_treeids");
  w.nodes = ints_or_none(c, prefix + "_nodeids");
  w.targets = ints_or_none(c, prefix + "_ids");
  w.values = take_numbers(c, prefix + "_weights");
  if (w.trees.size() != w.nodes.size() || w.trees.size() != w.targets.size() || w.trees.size() != w.values.size())
    c.fail_invalid(str_cat("has attributes ", prefix, "_* of different lengths"));
  return w;
}

Status add_weights(const Weights& weights, const NodePlaces& places, int64_t targets, Forest* forest) {
  for (size_t i = 0; i < weights.values.size(); ++i) {
    const auto found = places.find({weights.trees[i], weights.nodes[i]});
    if (found == places.end())
      return invalid_model(
          str_cat("has a weight for node ", weights.nodes[i], " of tree ", weights.trees[i], ", which is not there"));
    if (weights.targets[i] < 0 || weights.targets[i] >= targets)
      return invalid_model(str_cat("has a weight for target ", weights.targets[i], " of ", targets));
    forest->nodes[static_cast<size_t>(found->second)].weights.push_back(
        {static_cast<int32_t>(weights.targets[i]), weights.values[i]});
  }
  for (TreeNode& node : forest->nodes) {
    std::stable_sort(node.weights.begin(), node.weights.end(),
                     [](const LeafWeight& a, const LeafWeight& b) { return a.target < b.target; });
  }
  return {};
}

// float64 for float64 inputs, else float32; so do the thresholds and weights.
DType compared_in(OpContext& c) { return c.dtype(c.input(0)) == DType::kF64 ? DType::kF64 : DType::kF32; }

// The rows as the op takes them.
ValueId walked_rows(OpContext& c) {
  const ValueId x = c.input(0);
  return rows_of(c, c.dtype(x) == DType::kF16 ? c.cast(x, DType::kF32) : x);
}

ValueId plus_base(OpContext& c, ValueId scores, const std::vector<double>& base) {
  if (base.empty()) return scores;
  return add(c, scores, floats(c, c.dtype(scores), base, {static_cast<int64_t>(base.size())}));
}

// SUM, AVERAGE, MIN or MAX of the trees, the base values and the transformation.
ValueId aggregated(OpContext& c, const Forest& forest, std::string_view function, const std::vector<double>& base,
                   PostTransform transform) {
  if (!base.empty() && static_cast<int64_t>(base.size()) != forest.targets) {
    c.fail_invalid(str_cat("has ", base.size(), " base values for ", forest.targets, " targets"));
    return {};
  }
  const std::string_view kind = function == "MIN" ? "min" : function == "MAX" ? "max" : "sum";
  ValueId y = emit_forest(c, walked_rows(c), forest, compared_in(c), kind);
  if (function == "AVERAGE") {
    y = c.emit("Div", {}, {y, c.scalar(compared_in(c), static_cast<double>(forest.roots.size()))});
  }
  return transformed_targets(c, plus_base(c, y, base), transform);
}

struct TwoClasses {
  ValueId scores;    // [N, 2]
  ValueId decisive;  // [N, 1]: the second label where it is above `least`
  double least = 0;
};

// What ONNX Runtime does where there are two labels: it depends on which of them the leaves speak of, on the sign of
// the weights and on the number of base values.
TwoClasses two_classes(OpContext& c, Forest* forest, const std::vector<double>& base, PostTransform transform) {
  bool first = false, second = false, all_positive = true;
  for (const TreeNode& node : forest->nodes) {
    for (const LeafWeight& entry : node.weights) {
      (entry.target == 0 ? first : second) = true;
      all_positive &= entry.weight >= 0;
    }
  }
  const DType dtype = compared_in(c);
  const double limit = all_positive ? 0.5 : 0;
  if (first && second) {
    ValueId scores = emit_forest(c, walked_rows(c), *forest, dtype, "sum");
    if (base.size() == 1) scores = plus_base(c, scores, {base[0], 0});
    if (base.size() == 2) {
      const ValueId s = add(c, slice(c, scores, 1, 0, 1), c.scalar(dtype, base[1]));
      scores = concat(c, 1, {c.emit("Neg", {}, {s}), s});
    }
    return {transformed(c, scores, transform), slice(c, scores, 1, 1, 2), 0};
  }
  forest->targets = 1;
  const ValueId s = emit_forest(c, walked_rows(c), *forest, dtype, "sum");
  const ValueId nothing = multiply(c, s, c.scalar(dtype, 0));
  if (second) {
    const ValueId t = base.size() == 2 ? add(c, nothing, c.scalar(dtype, base[1])) : s;
    return {transformed(c, concat(c, 1, {nothing, t}), transform), t, limit};
  }
  const ValueId t = base.empty() ? s : add(c, s, c.scalar(dtype, base[0]));
  if (base.size() == 2) return {transformed(c, concat(c, 1, {t, nothing}), transform), t, limit};
  return {two_scores(c, t, all_positive, transform), t, limit};
}

}  // namespace

void tree_ensemble_regressor(OpContext& c) {
  c.expect_inputs(1, 1);
  Forest forest;
  NodePlaces places;
  if (auto status = take_nodes(c, &forest, &places); !status.ok()) return c.fail(std::move(status));
  forest.targets = c.take_int("n_targets", 1);
  const std::string function = c.take_string("aggregate_function", "SUM");
  const PostTransform transform = take_post_transform(c);
  const auto base = take_numbers(c, "base_values");
  const Weights weights = take_weights(c, "target");
  if (!c.ok()) return;
  if (function != "SUM" && function != "AVERAGE" && function != "MIN" && function != "MAX")
    return c.fail_invalid(str_cat("attribute 'aggregate_function' is '", function, "'"));
  if (auto status = add_weights(weights, places, forest.targets, &forest); !status.ok())
    return c.fail(std::move(status));
  c.set_output(0, c.cast(aggregated(c, forest, function, base, transform), DType::kF32));
}

void tree_ensemble_classifier(OpContext& c) {
  c.expect_inputs(1, 1);
  Forest forest;
  NodePlaces places;
  if (auto status = take_nodes(c, &forest, &places); !status.ok()) return c.fail(std::move(status));
  const PostTransform transform = take_post_transform(c);
  const auto base = take_numbers(c, "base_values");
  const Weights weights = take_weights(c, "class");
  const Labels labels = take_labels(c, "classlabels_int64s", "classlabels_strings");
  if (!c.ok()) return;
  forest.targets = labels.count;
  if (auto status = add_weights(weights, places, labels.count, &forest); !status.ok()) return c.fail(std::move(status));
  const DType dtype = compared_in(c);
  if (labels.count == 2) {
    if (base.size() > 2) return c.fail_invalid(str_cat("has ", base.size(), " base values for 2 classes"));
    const TwoClasses two = two_classes(c, &forest, base, transform);
    const ValueId is_second = c.emit("Greater", {}, {two.decisive, c.scalar(dtype, two.least)});
    c.set_output(0, label_if(c, labels, c.squeeze(is_second, {1})));
    c.set_output(1, c.cast(two.scores, DType::kF32));
    return;
  }
  if (!base.empty() && static_cast<int64_t>(base.size()) != labels.count)
    return c.fail_invalid(str_cat("has ", base.size(), " base values for ", labels.count, " classes"));
  const ValueId scores = plus_base(c, emit_forest(c, walked_rows(c), forest, dtype, "sum"), base);
  if (labels.count == 1) {
    // There is no other label: ONNX Runtime gives 1 or 0.
    if (c.dtype(labels.values) == DType::kString)
      return c.fail_unsupported("a single class with a string as its label has no other one to give");
    const ValueId is_class = c.emit("Greater", {}, {c.squeeze(scores, {1}), c.scalar(dtype, 0)});
    c.set_output(0, c.cast(is_class, DType::kI64));
    c.set_output(1, c.cast(transformed_targets(c, scores, transform), DType::kF32));
    return;
  }
  c.set_output(0, labels_at(c, labels, arg_max(c, scores)));
  c.set_output(1, c.cast(transformed(c, scores, transform), DType::kF32));
}

namespace {

constexpr TreeMode kModes[] = {TreeMode::kLessEqual, TreeMode::kLess,     TreeMode::kGreaterEqual, TreeMode::kGreater,
                               TreeMode::kEqual,     TreeMode::kNotEqual, TreeMode::kMember};

// The sets of the BRANCH_MEMBER nodes stand one behind the other in the order of the nodes, each ended by NaN.
Status give_members(const std::vector<double>& values, Forest* forest, size_t branches) {
  size_t next = 0;
  for (size_t i = 0; i < branches; ++i) {
    TreeNode& node = forest->nodes[i];
    if (node.mode != TreeMode::kMember) continue;
    for (; next < values.size() && !std::isnan(values[next]); ++next) node.members.push_back(values[next]);
    if (next >= values.size()) return invalid_model("has fewer sets in membership_values than nodes of BRANCH_MEMBER");
    ++next;
    std::sort(node.members.begin(), node.members.end());
    node.members.erase(std::unique(node.members.begin(), node.members.end()), node.members.end());
  }
  return {};
}

Status take_v5_forest(OpContext& c, Forest* forest) {
  const auto features = ints_or_none(c, "nodes_featureids");
  const ConstantPtr modes = c.take_tensor("nodes_modes");
  const auto splits = numbers(c.take_tensor("nodes_splits"));
  const auto yes = ints_or_none(c, "nodes_truenodeids");
  const auto no = ints_or_none(c, "nodes_falsenodeids");
  const auto yes_leafs = ints_or_none(c, "nodes_trueleafs");
  const auto no_leafs = ints_or_none(c, "nodes_falseleafs");
  const auto missing = ints_or_none(c, "nodes_missing_value_tracks_true");
  const auto members = numbers(c.take_tensor("membership_values"));
  const auto roots = ints_or_none(c, "tree_roots");
  const auto targets = ints_or_none(c, "leaf_targetids");
  const auto weights = numbers(c.take_tensor("leaf_weights"));
  c.ignore("nodes_hitrates");
  forest->targets = c.take_int("n_targets", 1);
  if (!c.ok()) return c.status();
  const size_t count = features.size();
  if (modes == nullptr || !is_integer(modes->dtype())) return invalid_model("needs the attribute 'nodes_modes'");
  const auto kinds = modes->to_int64s();
  for (const size_t size : {kinds.size(), splits.size(), yes.size(), no.size(), yes_leafs.size(), no_leafs.size()}) {
    if (size != count) return invalid_model("has attributes nodes_* of different lengths");
  }
  if (!missing.empty() && missing.size() != count) return invalid_model("has attributes nodes_* of different lengths");
  if (targets.size() != weights.size()) return invalid_model("has attributes leaf_* of different lengths");
  // A leaf may be named by several nodes: each gets its own.
  forest->nodes.resize(count);
  const auto child = [&](int64_t id, bool leaf) -> int64_t {
    if (!leaf) return id >= 0 && id < static_cast<int64_t>(count) ? id : -1;
    if (id < 0 || id >= static_cast<int64_t>(weights.size())) return -1;
    TreeNode end;
    end.weights.push_back({static_cast<int32_t>(targets[static_cast<size_t>(id)]), weights[static_cast<size_t>(id)]});
    forest->nodes.push_back(std::move(end));
    return static_cast<int64_t>(forest->nodes.size()) - 1;
  };
  for (const int64_t target : targets) {
    if (target < 0 || target >= forest->targets)
      return invalid_model(str_cat("has a weight for target ", target, " of ", forest->targets));
  }
  for (size_t i = 0; i < count; ++i) {
    if (kinds[i] < 0 || kinds[i] >= static_cast<int64_t>(std::size(kModes)))
      return invalid_model(str_cat("has a node of mode ", kinds[i]));
    const int64_t if_true = child(yes[i], yes_leafs[i] != 0), if_false = child(no[i], no_leafs[i] != 0);
    TreeNode& node = forest->nodes[i];
    node.mode = kModes[kinds[i]];
    node.feature = features[i];
    node.threshold = splits[i];
    node.missing_is_true = !missing.empty() && missing[i] != 0;
    node.if_true = if_true;
    node.if_false = if_false;
  }
  AIPU_RETURN_IF_ERROR(give_members(members, forest, count));
  for (const int64_t root : roots) {
    if (root < 0 || root >= static_cast<int64_t>(count)) return invalid_model(str_cat("has a tree at node ", root));
    forest->roots.push_back(root);
  }
  return {};
}

}  // namespace

void tree_ensemble(OpContext& c) {
  static constexpr std::string_view kFunctions[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  c.expect_inputs(1, 1);
  Forest forest;
  if (auto status = take_v5_forest(c, &forest); !status.ok()) return c.fail(std::move(status));
  const int64_t function = c.take_int("aggregate_function", 1);
  const PostTransform transform = take_post_transform(c);
  if (!c.ok()) return;
  if (function < 0 || function > 3) return c.fail_invalid(str_cat("attribute 'aggregate_function' is ", function));
  const ValueId y = aggregated(c, forest, kFunctions[function], {}, transform);
  c.set_output(0, c.cast(y, c.dtype(c.input(0))));
}

}  // namespace aipu::frontend::ml
