// NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss.
#include "graph/ops/op_list.h"

namespace aipu::graph {
namespace {

// Scores [N, C, d...], labels [N, d...], weights [C].
Status infer_loss(InferContext& ctx) {
  AIPU_RETURN_IF_ERROR(expect_rank_at_least(ctx, 0, 2));
  AIPU_RETURN_IF_ERROR(same_dtype(ctx, {0, 2}));
  const TensorType& scores = ctx.input(0);
  Shape labels = scores.shape;
  labels.erase(labels.begin() + 1);
  AIPU_RETURN_IF_ERROR(expect_rank(ctx, 1, static_cast<int>(labels.size())));
  for (size_t k = 0; k < labels.size(); ++k) {
    AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(1).shape[k], labels[k], str_cat("extent ", k, " of the labels")));
  }
  if (ctx.has_input(2)) {
    AIPU_RETURN_IF_ERROR(expect_rank(ctx, 2, 1));
    AIPU_RETURN_IF_ERROR(expect_equal(ctx.input(2).shape[0], scores.shape[1], "the extent of the weights"));
  }
  set_output(ctx, 0, scores.dtype, ctx.attributes().s("reduction") == "none" ? labels : Shape());
  set_output(ctx, 1, scores.dtype, scores.shape);
  return {};
}

OpDef loss_op(std::string name) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = {operand("input", "f"), operand("target", kIndex), optional_operand("weight", "f")};
  def.outputs = {operand("loss", "f")};
  def.attributes = {attr::optional("ignore_index", AttributeKind::kInt), attr::s("reduction", "mean")};
  def.infer = infer_loss;
  def.verify = [](const Graph&, const Node& node) { return expect_choice(node, "reduction", {"none", "mean", "sum"}); };
  def.axes = axes::mixed();
  return def;
}

OpDef negative_log_likelihood_loss_op() { return loss_op("NegativeLogLikelihoodLoss"); }

OpDef softmax_cross_entropy_loss_op() {
  OpDef def = loss_op("SoftmaxCrossEntropyLoss");
  def.outputs.push_back(optional_operand("log_prob", "f"));
  return def;
}

}  // namespace

std::vector<OpDef> loss_ops() {
  return {
      negative_log_likelihood_loss_op(),
      softmax_cross_entropy_loss_op(),
  };
}

}  // namespace aipu::graph
