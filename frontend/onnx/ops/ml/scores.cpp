#include "frontend/onnx/ops/ml/scores.h"

#include <limits>

#include "frontend/onnx/ops/compose.h"

namespace aipu::frontend::ml {

PostTransform take_post_transform(OpContext& c) {
  static constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const auto it = c.attributes.find("post_transform");
  if (it != c.attributes.end() && it->second.kind == OnnxAttribute::Kind::kInt) {
    const int64_t number = c.take_int("post_transform", 0);
    if (number < 0 || number > 4) c.fail_invalid(str_cat("attribute 'post_transform' is ", number));
    return static_cast<PostTransform>(number);
  }
  const std::string name = c.take_string("post_transform", "NONE");
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<PostTransform>(i);
  }
  c.fail_invalid(str_cat("attribute 'post_transform' is '", name, "'"));
  return PostTransform::kNone;
}

ValueId floats(OpContext& c, DType dtype, const std::vector<double>& values, std::vector<int64_t> shape) {
  auto constant = graph::Constant::of<double>(DType::kF64, std::move(shape), std::span<const double>(values));
  if (constant == nullptr) {
    c.fail_invalid("has attributes of lengths that do not fit each other");
    return {};
  }
  if (dtype == DType::kF64) return c.constant(std::move(constant));
  const std::vector<float> narrow(values.begin(), values.end());
  return c.constant(graph::Constant::of<float>(DType::kF32, constant->shape(), std::span<const float>(narrow)));
}

ValueId rows_of(OpContext& c, ValueId x) {
  if (!c.ok()) return x;
  if (c.rank(x) == 1) return c.unsqueeze(x, {0});
  if (c.rank(x) != 2) c.fail_invalid(str_cat("takes X of rank 2, found ", c.type(x).text()));
  return x;
}

std::vector<int64_t> ints_or_none(OpContext& c, std::string_view name) {
  return c.take_ints(name).value_or(std::vector<int64_t>());
}

std::vector<double> floats_or_none(OpContext& c, std::string_view name) {
  return c.take_floats(name).value_or(std::vector<double>());
}

namespace {

// Winitzki's approximation of the inverse error function, as ONNX Runtime takes it: sqrt(2) * erfinv(2 x - 1)
ValueId probit(OpContext& c, ValueId p) {
  const DType dtype = c.dtype(p);
  const auto number = [&](double value) { return c.scalar(dtype, value); };
  const ValueId x = subtract(c, scaled(c, p, 2), number(1));
  const ValueId log = c.emit("Log", {}, {multiply(c, subtract(c, number(1), x), add(c, number(1), x))});
  const ValueId v = add(c, scaled(c, log, 0.5), number(2 / (3.14159 * 0.147)));
  const ValueId root = c.emit("Sqrt", {}, {subtract(c, multiply(c, v, v), scaled(c, log, 1 / 0.147))});
  const ValueId size = c.emit("Sqrt", {}, {subtract(c, root, v)});
  const ValueId negative = c.emit("Less", {}, {x, number(0)});
  const ValueId sign = c.emit("Where", {}, {negative, number(-1), number(1)});
  return scaled(c, multiply(c, sign, size), 1.41421356);
}

// Softmax of what is not 0; zeros stay.
ValueId softmax_zero(OpContext& c, ValueId x) {
  const DType dtype = c.dtype(x);
  const ValueId zero = c.scalar(dtype, 0);
  const ValueId size = c.emit("Abs", {}, {x});
  const ValueId counts = c.emit("Greater", {}, {size, c.scalar(dtype, 1e-7)});
  const ValueId greatest = c.emit("ReduceMax", {{"keepdims", int64_t{1}}}, {x, c.int64s({1})});
  const ValueId e = c.emit("Exp", {}, {subtract(c, x, greatest)});
  const ValueId terms = c.emit("Where", {}, {counts, e, zero});
  const ValueId sum = c.emit("ReduceSum", {{"keepdims", int64_t{1}}}, {terms, c.int64s({1})});
  const ValueId some = c.emit("Greater", {}, {sum, zero});
  return c.emit("Div", {}, {terms, c.emit("Where", {}, {some, sum, c.scalar(dtype, 1)})});
}

}  // namespace

ValueId transformed(OpContext& c, ValueId scores, PostTransform transform) {
  switch (transform) {
    case PostTransform::kNone:
      return scores;
    case PostTransform::kSoftmax:
      return c.emit("Softmax", {{"axis", int64_t{1}}}, {scores});
    case PostTransform::kLogistic:
      return c.emit("Sigmoid", {}, {scores});
    case PostTransform::kSoftmaxZero:
      return softmax_zero(c, scores);
    case PostTransform::kProbit:
      return probit(c, scores);
  }
  return scores;
}

ValueId transformed_targets(OpContext& c, ValueId scores, PostTransform transform) {
  const bool single = c.ok() && c.type(scores).shape.back() == Dim(1);
  return single && transform != PostTransform::kProbit ? scores : transformed(c, scores, transform);
}

ValueId two_scores(OpContext& c, ValueId s, bool complement, PostTransform transform) {
  if (transform == PostTransform::kProbit) {
    const ValueId p = transformed(c, s, transform);
    return concat(c, 1, {p, p});
  }
  const ValueId negative = c.emit("Neg", {}, {s});
  if (transform == PostTransform::kLogistic) return transformed(c, concat(c, 1, {negative, s}), transform);
  return concat(c, 1, {complement ? add(c, negative, c.scalar(c.dtype(s), 1)) : negative, s});
}

Labels take_labels(OpContext& c, std::string_view ints, std::string_view strings) {
  const auto numbers = c.take_ints(ints);
  const auto names = c.take_strings(strings);
  if (!c.ok()) return {};
  if (names && !names->empty()) {
    if (numbers && !numbers->empty()) c.fail_invalid(str_cat("has both ", ints, " and ", strings));
    return {c.strings(*names), static_cast<int64_t>(names->size())};
  }
  if (!numbers || numbers->empty()) {
    c.fail_invalid(str_cat("needs ", ints, " or ", strings));
    return {};
  }
  bool are_places = true;
  for (size_t i = 0; i < numbers->size(); ++i) are_places &= (*numbers)[i] == static_cast<int64_t>(i);
  return {c.int64s(*numbers), static_cast<int64_t>(numbers->size()), are_places};
}

ValueId arg_max(OpContext& c, ValueId scores) {
  return c.emit("ArgMax", {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}, {scores});
}

ValueId labels_at(OpContext& c, const Labels& labels, ValueId places) {
  return labels.are_places ? places : gather(c, labels.values, places);
}

ValueId label_if(OpContext& c, const Labels& labels, ValueId condition) {
  if (labels.are_places) return c.cast(condition, DType::kI64);
  const auto label = [&](int64_t i) { return slice(c, labels.values, 0, i, i + 1); };
  return c.emit("Where", {}, {condition, label(1), label(0)});
}

}  // namespace aipu::frontend::ml
