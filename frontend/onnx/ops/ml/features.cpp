// Operators on columns of features, before a model sees them.
#include <cmath>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/ml/converters.h"
#include "frontend/onnx/ops/ml/scores.h"

namespace aipu::frontend::ml {

// The columns (along the last axis) that Y names.
void array_feature_extractor(OpContext& c) {
  c.expect_inputs(2, 2);
  if (!c.ok()) return;
  ValueId x = c.input(0);
  if (c.rank(x) == 0) return c.fail_invalid("takes X of rank 1 or more");
  if (c.rank(x) == 1) x = c.unsqueeze(x, {0});  // ONNX Runtime's result has a row then
  const ValueId y = reshape(c, c.input(1), {-1});
  c.emit_output("Gather", {{"axis", int64_t{c.rank(x) - 1}}}, {x, y});
}

void binarizer(OpContext& c) {
  c.expect_inputs(1, 1);
  const double threshold = c.take_float("threshold", 0);
  const ValueId x = c.input(0);
  const DType dtype = c.dtype(x);
  if (!c.ok()) return;
  // Of integers what lies above a fraction lies above its floor.
  const ValueId limit = c.scalar(dtype, is_integer(dtype) ? std::floor(threshold) : threshold);
  c.emit_output("Cast", {{"to", dtype}}, {c.emit("Greater", {}, {x, limit})});
}

// The inputs side by side as float32: of each so many columns as inputdimensions says, missing ones are 0.
void feature_vectorizer(OpContext& c) {
  c.expect_inputs(1, 1000000);
  const auto widths = c.take_ints("inputdimensions");
  if (!c.ok()) return;
  if (!widths || widths->size() != c.inputs.size())
    return c.fail_invalid("needs an element of inputdimensions for each input");
  std::vector<ValueId> parts;
  for (size_t i = 0; i < c.inputs.size() && c.ok(); ++i) {
    ValueId x = as_real(c, c.input(i));
    if (c.rank(x) == 1) x = c.unsqueeze(x, {1});
    if (c.rank(x) > 2) x = c.emit("Flatten", {{"axis", int64_t{1}}}, {x});
    if (!c.ok()) return;
    if (c.rank(x) != 2) return c.fail_invalid("takes inputs of rank 1 or 2");
    const int64_t width = (*widths)[i];
    if (width < 0) return c.fail_invalid(str_cat("has the input dimension ", width));
    const Dim missing = Dim(width) - c.type(x).shape[1];
    if (!(missing == Dim(0))) x = c.emit("Pad", {{"pads", Shape{0, 0, 0, missing}}}, {x});
    parts.push_back(x);
  }
  if (parts.size() == 1) return c.emit_output("Identity", {}, parts);
  c.emit_output("Concat", {{"axis", int64_t{1}}}, parts);
}

// What equals replaced_value (or is NaN, if that is) becomes its column's imputed value.
void imputer(OpContext& c) {
  c.expect_inputs(1, 1);
  const ValueId x = c.input(0);
  const DType dtype = c.dtype(x);
  auto reals = c.take_floats("imputed_value_floats");
  const auto ints = c.take_ints("imputed_value_int64s");
  const double replaced_real = c.take_float("replaced_value_float", 0);
  const int64_t replaced_int = c.take_int("replaced_value_int64", 0);
  if (!c.ok()) return;
  const bool integers = is_integer(dtype);
  if (integers && ints) reals.emplace(ints->begin(), ints->end());
  if (!reals || reals->empty()) {
    return c.fail_invalid(
        str_cat("needs imputed_value_", integers ? "int64s" : "floats", ", which fits ", c.type(x).text()));
  }
  const std::vector<int64_t> shape{static_cast<int64_t>(reals->size())};
  const ValueId imputed =
      integers && ints ? c.cast(c.int64s(*ints), dtype) : c.cast(floats(c, DType::kF64, *reals, shape), dtype);
  const bool nan = !integers && std::isnan(replaced_real);
  const ValueId missing =
      nan ? c.emit("IsNaN", {}, {x})
          : c.emit("Equal", {},
                   {x, integers ? c.cast(c.int64s({replaced_int}), dtype) : c.scalar(dtype, replaced_real)});
  c.emit_output("Where", {}, {missing, imputed, x});
}

// Rows divided by their norm; a row of norm 0 stays.
void normalizer(OpContext& c) {
  c.expect_inputs(1, 1);
  const std::string norm = c.take_string("norm", "MAX");
  if (!c.ok()) return;
  ValueId x = as_real(c, c.input(0));
  const int rank = c.rank(x);
  if (rank < 1) return c.fail_invalid("takes X of rank 1 or more");
  // Short rows, the classes of a classifier, are divided by a kernel of their own.
  const auto extent = c.type(x).shape.back().constant();
  if (extent && *extent >= 1 && *extent <= 8) {
    const std::string_view kind = norm == "MAX" ? "max" : norm == "L1" ? "l1" : norm == "L2" ? "l2" : "";
    if (!kind.empty()) return c.emit_output("aipu::DivideByNorm", {{"norm", std::string(kind)}}, {x});
  }
  const ValueId axis = c.int64s({rank - 1});
  const auto reduced = [&](std::string_view op) { return c.emit(op, {{"keepdims", int64_t{1}}}, {x, axis}); };
  ValueId size;
  if (norm == "MAX") {
    size = reduced("ReduceMax");
  } else if (norm == "L1") {
    size = reduced("ReduceL1");
  } else if (norm == "L2") {
    size = reduced("ReduceL2");
  } else {
    return c.fail_invalid(str_cat("attribute 'norm' is '", norm, "', expected one of: MAX, L1, L2"));
  }
  const ValueId zero = c.emit("Equal", {}, {size, c.scalar(DType::kF32, 0)});
  c.emit_output("Div", {}, {x, c.emit("Where", {}, {zero, c.scalar(DType::kF32, 1), size})});
}

// (x - offset) * scale
void scaler(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto offset = c.take_floats("offset");
  const auto scale = c.take_floats("scale");
  if (!c.ok()) return;
  const auto row = [&](const std::vector<double>& values) {
    return floats(c, DType::kF32, values, {static_cast<int64_t>(values.size())});
  };
  ValueId y = as_real(c, c.input(0));
  if (offset && !offset->empty()) y = subtract(c, y, row(*offset));
  if (scale && !scale->empty()) y = multiply(c, y, row(*scale));
  c.emit_output("Identity", {}, {y});
}

}  // namespace aipu::frontend::ml
