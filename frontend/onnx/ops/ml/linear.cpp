// LinearClassifier and LinearRegressor: X W^T + b, and what is made of the scores.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/ml/converters.h"
#include "frontend/onnx/ops/ml/scores.h"

namespace aipu::frontend::ml {

namespace {

// X [N, C] times the coefficients [targets, C], plus the intercepts: [N, targets].
ValueId products(OpContext& c, const std::vector<double>& coefficients, const std::vector<double>& intercepts,
                 int64_t targets) {
  const ValueId x = rows_of(c, as_real(c, c.input(0)));
  const auto size = static_cast<int64_t>(coefficients.size());
  if (targets < 1 || size % targets != 0)
    c.fail_invalid(str_cat("has ", size, " coefficients for ", targets, " targets"));
  if (!intercepts.empty() && static_cast<int64_t>(intercepts.size()) != targets)
    c.fail_invalid(str_cat("has ", intercepts.size(), " intercepts for ", targets, " targets"));
  if (!c.ok()) return {};
  std::vector<ValueId> operands{x, floats(c, DType::kF32, coefficients, {targets, size / targets})};
  if (!intercepts.empty()) operands.push_back(floats(c, DType::kF32, intercepts, {targets}));
  return c.emit("Gemm", {{"transB", int64_t{1}}}, std::move(operands));
}

}  // namespace

void linear_regressor(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto coefficients = floats_or_none(c, "coefficients");
  const auto intercepts = floats_or_none(c, "intercepts");
  const int64_t targets = c.take_int("targets", 1);
  const PostTransform transform = take_post_transform(c);
  c.set_output(0, transformed_targets(c, products(c, coefficients, intercepts, targets), transform));
}

void linear_classifier(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto coefficients = floats_or_none(c, "coefficients");
  const auto intercepts = floats_or_none(c, "intercepts");
  c.ignore("multi_class");  // ONNX Runtime does not look at it
  const PostTransform transform = take_post_transform(c);
  const Labels labels = take_labels(c, "classlabels_ints", "classlabels_strings");
  if (!c.ok()) return;
  const int64_t rows = intercepts.empty() ? labels.count : static_cast<int64_t>(intercepts.size());
  if (rows != labels.count && !(rows == 1 && labels.count == 2))
    return c.fail_invalid(str_cat("has ", rows, " intercepts for ", labels.count, " labels"));
  const ValueId scores = products(c, coefficients, intercepts, rows);
  if (rows == 1 && labels.count == 2) {
    const ValueId second = c.emit("Greater", {}, {c.squeeze(scores, {1}), c.scalar(DType::kF32, 0)});
    c.set_output(0, label_if(c, labels, second));
    c.set_output(1, two_scores(c, scores, true, transform));
    return;
  }
  c.set_output(0, labels_at(c, labels, arg_max(c, scores)));
  c.set_output(1, transformed(c, scores, transform));
}

}  // namespace aipu::frontend::ml
