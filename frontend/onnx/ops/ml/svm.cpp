// SVMClassifier and SVMRegressor: kernels of the rows with the support vectors, and what is made of them.
#include <cmath>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/ml/converters.h"
#include "frontend/onnx/ops/ml/scores.h"

namespace aipu::frontend::ml {

namespace {

struct Kernel {
  std::string type;  // of rows of coefficients instead of support vectors always LINEAR, as ONNX Runtime has it
  double gamma = 0, coef0 = 0, degree = 0;
};

Kernel take_kernel(OpContext& c) {
  Kernel kernel{.type = c.take_string("kernel_type", "LINEAR")};
  const auto parameters = floats_or_none(c, "kernel_params");
  if (!parameters.empty()) {
    if (parameters.size() != 3) {
      c.fail_invalid(str_cat("has ", parameters.size(), " kernel_params, they must be gamma, coef0, degree"));
      return kernel;
    }
    kernel.gamma = parameters[0], kernel.coef0 = parameters[1], kernel.degree = parameters[2];
  }
  return kernel;
}

// The kernel of each row of the input with each of the vectors: [N, count].
ValueId kernels(OpContext& c, const std::vector<double>& vectors, int64_t count, const Kernel& kernel) {
  const ValueId x = rows_of(c, as_real(c, c.input(0)));
  const auto size = static_cast<int64_t>(vectors.size());
  if (!c.ok()) return {};
  if (count < 1 || size % count != 0) {
    c.fail_invalid(str_cat("has ", size, " coordinates for ", count, " support vectors"));
    return {};
  }
  const int64_t features = size / count;
  const auto number = [&](double value) { return c.scalar(DType::kF32, value); };
  if (kernel.type == "RBF") {
    // Vectors are columns, so that those of many are computed side by side.
    const ValueId columns = c.transpose(floats(c, DType::kF32, vectors, {count, features}), {1, 0});
    return c.emit("aipu::RadialKernel", {{"gamma", kernel.gamma}}, {x, columns});
  }
  const ValueId matrix = floats(c, DType::kF32, vectors, {count, features});
  const ValueId dots = c.emit("Gemm", {{"transB", int64_t{1}}}, {x, matrix});
  if (kernel.type == "LINEAR") return dots;
  const ValueId inner = add(c, scaled(c, dots, kernel.gamma), number(kernel.coef0));
  if (kernel.type == "SIGMOID") return c.emit("Tanh", {}, {inner});
  if (kernel.type == "POLY") return c.emit("Pow", {}, {inner, number(kernel.degree)});
  c.fail_invalid(str_cat("attribute 'kernel_type' is '", kernel.type, "'"));
  return {};
}

// The sums of kernels times the columns of a matrix, [N, width]. In float64: the coefficients of one class are above 0,
// those of the other below, and what is left of both is small beside them.
ValueId weighed(OpContext& c, ValueId kernels, const std::vector<double>& matrix, int64_t width) {
  const int64_t vectors = static_cast<int64_t>(matrix.size()) / width;
  const ValueId weights = floats(c, DType::kF64, matrix, {vectors, width});
  return c.cast(matmul(c, c.cast(kernels, DType::kF64), weights), DType::kF32);
}

struct Classifier {
  Kernel kernel;
  std::vector<double> vectors, coefficients, rho, a, b;
  std::vector<int64_t> per_class;
  PostTransform transform = PostTransform::kNone;
  Labels labels;
};

// The decisions between all pairs of classes: [N, pairs]. One product: the kernels times a matrix that has the
// coefficients of pair (i, j) at the vectors of i and j.
ValueId decisions(OpContext& c, const Classifier& svm, int64_t classes, int64_t vectors) {
  const auto n = static_cast<size_t>(vectors), count = static_cast<size_t>(classes);
  const size_t pairs = count * (count - 1) / 2;
  std::vector<double> matrix(n * pairs);
  std::vector<size_t> first(count + 1);
  for (size_t i = 0; i < count; ++i) first[i + 1] = first[i] + static_cast<size_t>(svm.per_class[i]);
  size_t pair = 0;
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j, ++pair) {
      for (size_t v = first[i]; v < first[i + 1]; ++v) matrix[v * pairs + pair] = svm.coefficients[(j - 1) * n + v];
      for (size_t v = first[j]; v < first[j + 1]; ++v) matrix[v * pairs + pair] = svm.coefficients[i * n + v];
    }
  }
  const auto width = static_cast<int64_t>(pairs);
  const ValueId k = kernels(c, svm.vectors, vectors, svm.kernel);
  if (!c.ok()) return {};
  return add(c, weighed(c, k, matrix, width), floats(c, DType::kF32, svm.rho, {width}));
}

// [N, classes]: for each class in how many pairs it wins.
ValueId votes(OpContext& c, ValueId scores, int64_t classes) {
  const auto count = static_cast<size_t>(classes);
  const size_t pairs = count * (count - 1) / 2;
  std::vector<double> wins(pairs * count), losses(count);
  size_t pair = 0;
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j, ++pair) {
      wins[pair * count + i] = 1;
      wins[pair * count + j] = -1;
      losses[j] += 1;
    }
  }
  const ValueId won = c.cast(c.emit("Greater", {}, {scores, c.scalar(DType::kF32, 0)}), DType::kF32);
  return c.emit("Gemm", {},
                {won, floats(c, DType::kF32, wins, {static_cast<int64_t>(pairs), classes}),
                 floats(c, DType::kF32, losses, {classes})});
}

ValueId probabilities(OpContext& c, ValueId scores, const Classifier& svm, int64_t classes) {
  const auto pairs = static_cast<int64_t>(svm.rho.size());
  const ValueId a = floats(c, DType::kF32, svm.a, {pairs}), b = floats(c, DType::kF32, svm.b, {pairs});
  const ValueId p = c.emit("Sigmoid", {}, {c.emit("Neg", {}, {add(c, multiply(c, scores, a), b)})});
  return c.emit("aipu::CouplePairs", {{"classes", classes}}, {p});
}

// One-against-one, of support vectors.
void vector_classifier(OpContext& c, const Classifier& svm) {
  const auto classes = static_cast<int64_t>(svm.per_class.size());
  int64_t vectors = 0;
  for (const int64_t count : svm.per_class) {
    if (count < 0 || count > (int64_t{1} << 31)) return c.fail_invalid("has vectors_per_class out of range");
    vectors += count;
  }
  const int64_t pairs = classes * (classes - 1) / 2;
  if (classes < 2 || static_cast<int64_t>(svm.rho.size()) != pairs ||
      static_cast<int64_t>(svm.coefficients.size()) != vectors * (classes - 1))
    return c.fail_invalid("has coefficients, rho and vectors_per_class that do not fit each other");
  if (svm.labels.count != classes)
    return c.fail_invalid(str_cat("has ", svm.labels.count, " labels for ", classes, " classes"));
  const ValueId scores = decisions(c, svm, classes, vectors);
  const bool probable = !svm.a.empty();
  if (probable && (static_cast<int64_t>(svm.a.size()) != pairs || svm.a.size() != svm.b.size()))
    return c.fail_invalid("has prob_a and prob_b that do not fit rho");
  const ValueId shown = probable ? probabilities(c, scores, svm, classes) : scores;
  // Most votes decide, not the greatest probability.
  c.set_output(0, labels_at(c, svm.labels, arg_max(c, votes(c, scores, classes))));
  c.set_output(1, classes > 2 || probable
                      ? transformed_targets(c, shown, svm.transform)
                      : two_scores(c, scores, svm.transform != PostTransform::kNone, svm.transform));
}

// A row of coefficients per class instead of support vectors.
void linear_svm(OpContext& c, const Classifier& svm) {
  const int64_t classes = svm.labels.count;
  if (svm.rho.empty()) return c.fail_invalid("needs rho");
  const ValueId scores =
      add(c, kernels(c, svm.coefficients, classes, Kernel{"LINEAR"}), c.scalar(DType::kF32, svm.rho[0]));
  ValueId best = arg_max(c, scores);
  if (classes == 2) {
    // ONNX Runtime asks the greater score as if it were the only one, that of the second class.
    bool all_positive = true;
    for (const double value : svm.coefficients) all_positive &= value >= 0;
    const ValueId greatest = c.emit("ReduceMax", {{"keepdims", int64_t{0}}}, {scores, c.int64s({1})});
    const ValueId second = all_positive ? c.emit("GreaterOrEqual", {}, {greatest, c.scalar(DType::kF32, 0.5)})
                                        : c.emit("Greater", {}, {greatest, c.scalar(DType::kF32, 0)});
    best = c.emit("Where", {}, {second, c.int64_scalar(1), best});
  }
  c.set_output(0, labels_at(c, svm.labels, best));
  c.set_output(1, transformed_targets(c, scores, svm.transform));
}

}  // namespace

void svm_classifier(OpContext& c) {
  c.expect_inputs(1, 1);
  Classifier svm;
  svm.kernel = take_kernel(c);
  svm.vectors = floats_or_none(c, "support_vectors");
  svm.coefficients = floats_or_none(c, "coefficients");
  svm.rho = floats_or_none(c, "rho");
  svm.a = floats_or_none(c, "prob_a");
  svm.b = floats_or_none(c, "prob_b");
  svm.per_class = ints_or_none(c, "vectors_per_class");
  svm.transform = take_post_transform(c);
  svm.labels = take_labels(c, "classlabels_ints", "classlabels_strings");
  if (!c.ok()) return;
  svm.per_class.empty() ? linear_svm(c, svm) : vector_classifier(c, svm);
}

void svm_regressor(OpContext& c) {
  c.expect_inputs(1, 1);
  const Kernel kernel = take_kernel(c);
  const auto vectors = floats_or_none(c, "support_vectors");
  const auto coefficients = floats_or_none(c, "coefficients");
  const auto rho = floats_or_none(c, "rho");
  const int64_t count = c.take_int("n_supports", 0);
  const bool one_class = c.take_int("one_class", 0) != 0;
  const PostTransform transform = take_post_transform(c);
  if (!c.ok()) return;
  if (rho.size() != 1) return c.fail_invalid(str_cat("has ", rho.size(), " elements of rho, expected 1"));
  ValueId y;
  if (count > 0) {
    if (static_cast<int64_t>(coefficients.size()) != count)
      return c.fail_invalid(str_cat("has ", coefficients.size(), " coefficients for ", count, " support vectors"));
    const ValueId k = kernels(c, vectors, count, kernel);
    if (!c.ok()) return;
    y = weighed(c, k, coefficients, 1);
  } else {
    y = kernels(c, coefficients, 1, Kernel{"LINEAR"});
  }
  y = add(c, y, c.scalar(DType::kF32, rho[0]));
  if (one_class) {
    const ValueId inside = c.emit("Greater", {}, {y, c.scalar(DType::kF32, 0)});
    y = c.emit("Where", {}, {inside, c.scalar(DType::kF32, 1), c.scalar(DType::kF32, -1)});
  }
  c.set_output(0, transformed_targets(c, y, transform));
}

}  // namespace aipu::frontend::ml
