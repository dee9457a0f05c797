// Ensembles of decision trees, look-ups of keys, counts of n-grams, probabilities of pairs, radial kernels, norms of
// short rows: what the importers of classical models need kernels for.
#include "graph/ops/op_list.h"

namespace aipu::graph {
namespace {

// aipu::TreeEnsemble(x, nodes, roots, blocks, leaf_targets, leaf_weights): what the trees say of each row of x.
//
// nodes: two words each (int32, thresholds float32; or int64 and float64). A branch: the threshold's bits; and
// child << (feature_bits + 2) | flag << feature_bits | feature. It goes on at the node `child`, counted from where its
// block of trees begins, or at the one before that if x <= threshold; NaN takes this way if the flag is set (`missing`:
// some flag is; the threshold is not NaN then). A leaf has the bit 2 << feature_bits, is its own child, and its
// threshold is NaN, of which the lowest two bits say how many nodes behind it its value is. That is the number's bits;
// of several targets, by `leaves`, the first of its entries in leaf_targets and leaf_weights and how many they are
// ("listed"; "dense": all have the targets 0, 1, ... in order), or the target and the number's bits ("single": every
// leaf speaks of one target). blocks [B + 1, 2]: ranges of trees that fit the cache together: the first of each and the
// node from which its nodes are counted; and the end. roots: where each tree begins in its block. Sums are taken block
// by block. levels: a guess of how deep most leaves are, row_levels: the same for walks of many rows through a tree;
// height: the longest way.
Status infer_tree_ensemble(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 2));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 3, 2));
  const Attributes& attributes = ctx.attributes();
  const int64_t targets = attributes.i("targets");
  const int64_t bits = attributes.i("feature_bits");
  if (targets < 1 || bits < 0 || bits > 30) return invalid_model("has tables that do not fit each other");
  const auto features = ctx.input(0).shape[1].constant();
  if (features && *features < attributes.i("features")) {
    return invalid_model(
        str_cat("looks at ", attributes.i("features"), " features, the input is ", ctx.input(0).text()));
  }
  const DType real = ctx.input(1).dtype == DType::kI32 ? DType::kF32 : DType::kF64;
  if (ctx.input(5).dtype != real) return invalid_model("has tables that do not fit each other");
  set_output(ctx, 0, real, {ctx.input(0).shape[0], targets});
  return {};
}

Status verify_tree_ensemble(const Graph&, const Node& node) {
  AIPU_RETURN_IF_ERROR(expect_choice(node, "aggregate", {"sum", "min", "max"}));
  return expect_choice(node, "leaves", {"listed", "dense", "single"});
}

// Rows are apart.
AxisMap row_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  map.link(0, 0, 0, 0).apart(0, 0);
  return map.take();
}

OpDef tree_ensemble_op() {
  OpDef def;
  def.name = "aipu::TreeEnsemble";
  def.inputs = {operand("x", kNumeric), operand("nodes", "i"),        operand("roots", "i"),
                operand("blocks", "i"), operand("leaf_targets", "i"), operand("leaf_weights", "f")};
  def.outputs = {operand("y", "f")};
  def.attributes = {attr::s("aggregate", "sum"),
                    attr::i("targets", 1),
                    attr::required("features", AttributeKind::kInt),
                    attr::required("feature_bits", AttributeKind::kInt),
                    attr::i("missing", 0),
                    attr::s("leaves", "listed"),
                    attr::i("levels", 0),
                    attr::i("row_levels", 0),
                    attr::i("height", int64_t{1} << 30)};
  def.infer = infer_tree_ensemble;
  def.verify = verify_tree_ensemble;
  def.axes = row_axes;
  return def;
}

// aipu::FindKey(x, keys): where each element of x is among the keys, which are sorted and different; their number where
// it is none of them (`required`: that is a fault). NaN is at `nan_at`. Strings stand in the order of their numbers.
Status infer_find_key(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 1}));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 1));
  set_output(ctx, 0, DType::kI64, ctx.input(0).shape);
  return {};
}

AxisMap element_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  for (size_t k = 0; k < map.output_rank(0); ++k) map.link(0, k, 0, k).apart(0, k);
  return map.take();
}

OpDef find_key_op() {
  OpDef def;
  def.name = "aipu::FindKey";
  def.inputs = {operand("x", "iufs"), operand("keys", "iufs")};
  def.outputs = {operand("places", "i")};
  def.attributes = {attr::i("nan_at", -1), attr::i("required", 0)};
  def.traits = kFaults;
  def.infer = infer_find_key;
  def.axes = element_axes;
  return def;
}

// aipu::CouplePairs(p): probabilities of classes from those of i against j for all pairs i < j, in this order, by the
// second method of Wu, Lin and Weng (2004), as libsvm iterates it.
Status infer_couple_pairs(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 2));
  const int64_t classes = ctx.attributes().i("classes");
  if (classes < 2 || classes > 4096) return invalid_model(str_cat("has ", classes, " classes"));
  AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(0).shape[1], classes * (classes - 1) / 2, "the number of pairs"));
  set_output(ctx, 0, DType::kF32, {ctx.input(0).shape[0], classes});
  return {};
}

OpDef couple_pairs_op() {
  OpDef def;
  def.name = "aipu::CouplePairs";
  def.inputs = {operand("p", "f")};
  def.outputs = {operand("y", "f")};
  def.attributes = {attr::required("classes", AttributeKind::kInt)};
  def.infer = infer_couple_pairs;
  def.axes = row_axes;
  return def;
}

// aipu::RadialKernel(x, vectors): exp(-gamma * |x[n] - v|^2) of each row of x [N, C] with each column v of vectors
// [C, count].
Status infer_radial_kernel(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 2));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 2));
  AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(0).shape[1], ctx.input(1).shape[0], "the number of features"));
  set_output(ctx, 0, DType::kF32, {ctx.input(0).shape[0], ctx.input(1).shape[1]});
  return {};
}

OpDef radial_kernel_op() {
  OpDef def;
  def.name = "aipu::RadialKernel";
  def.inputs = {operand("x", "f"), operand("vectors", "f")};
  def.outputs = {operand("y", "f")};
  def.attributes = {attr::required("gamma", AttributeKind::kFloat)};
  def.infer = infer_radial_kernel;
  def.axes = row_axes;
  return def;
}

// aipu::DivideByNorm(x): the rows along the last axis, of a constant extent, over their norm; those of norm 0 as they
// are.
Status infer_divide_by_norm(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 1));
  if (ctx.input(0).shape.back().constant_or(0) < 1) return invalid_model("has rows of unknown extent, or empty ones");
  set_output(ctx, 0, ctx.input(0).dtype, ctx.input(0).shape);
  return {};
}

Status verify_divide_by_norm(const Graph&, const Node& node) {
  return expect_choice(node, "norm", {"l1", "l2", "max"});
}

AxisMap leading_axes(const Graph& graph, const Node& node) {
  AxisMapBuilder map(graph, node);
  for (size_t k = 0; k + 1 < map.output_rank(0); ++k) map.link(0, k, 0, k).apart(0, k);
  return map.take();
}

OpDef divide_by_norm_op() {
  OpDef def;
  def.name = "aipu::DivideByNorm";
  def.inputs = {operand("x", "f")};
  def.outputs = {operand("y", "f")};
  def.attributes = {attr::required("norm", AttributeKind::kString)};
  def.infer = infer_divide_by_norm;
  def.verify = verify_divide_by_norm;
  def.axes = leading_axes;
  return def;
}

// aipu::CountGrams(x, grams, columns): how often each of the grams (int64[count, n], rows in ascending order, all
// different) occurs in each row of x: n elements that follow each other, or stand 2, 3, ... `skips` + 1 apart. The
// counts of gram i go to column columns[i] of `size`.
Status infer_count_grams(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 0, 2));
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, 2));
  const int64_t size = ctx.attributes().i("size");
  if (size < 1 || ctx.attributes().i("skips") < 0 || !ctx.input(1).shape[1].constant())
    return invalid_model("has tables that do not fit each other");
  AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(2).shape[0], ctx.input(1).shape[0], "the number of columns"));
  set_output(ctx, 0, DType::kF32, {ctx.input(0).shape[0], size});
  return {};
}

OpDef count_grams_op() {
  OpDef def;
  def.name = "aipu::CountGrams";
  def.inputs = {operand("x", "is"), operand("grams", "is"), operand("columns", "i")};
  def.outputs = {operand("counts", "f")};
  def.attributes = {attr::required("size", AttributeKind::kInt), attr::i("skips", 0)};
  def.infer = infer_count_grams;
  def.axes = row_axes;
  return def;
}

}  // namespace

std::vector<OpDef> trees_ops() {
  return {tree_ensemble_op(), find_key_op(),       couple_pairs_op(),
          radial_kernel_op(), divide_by_norm_op(), count_grams_op()};
}

}  // namespace aipu::graph
