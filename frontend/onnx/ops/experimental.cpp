// Experimental operators of ONNX 1.0 and 1.1, which left without a successor; ONNX Runtime still runs them.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

namespace {

// x * alpha + beta
ValueId affine_of(OpContext& c, ValueId x, double alpha, double beta) {
  const ValueId y = scaled(c, x, alpha);
  return beta == 0 ? y : add(c, y, c.scalar(c.dtype(y), beta));
}

}  // namespace

void affine(OpContext& c) {
  c.expect_inputs(1, 1);
  const double alpha = c.take_float("alpha", 1), beta = c.take_float("beta", 0);
  c.set_output(0, affine_of(c, c.input(0), alpha, beta));
}

void scale(OpContext& c) {
  c.expect_inputs(1, 1);
  c.set_output(0, affine_of(c, c.input(0), c.take_float("scale", 1), 0));
}

// The bias is one number for each channel.
void image_scaler(OpContext& c) {
  c.expect_inputs(1, 1);
  const double factor = c.take_float("scale", 1);
  const auto bias = c.take_floats("bias").value_or(std::vector<double>());
  const ValueId y = affine_of(c, c.input(0), factor, 0);
  if (!c.ok() || bias.empty()) return c.set_output(0, y);
  if (c.rank(y) != 4 || c.type(y).shape[1] != Dim(static_cast<int64_t>(bias.size())))
    return c.fail_invalid(str_cat("has a bias of ", bias.size(), " channels, the input is ", c.type(y).text()));
  const std::vector<float> numbers(bias.begin(), bias.end());
  const auto channels = static_cast<int64_t>(bias.size());
  const ValueId offset =
      c.constant(graph::Constant::of<float>(DType::kF32, {channels, 1, 1}, std::span<const float>(numbers)));
  c.set_output(0, add(c, y, c.cast(offset, c.dtype(y))));
}

// alpha * ln(exp(beta * x) + 1)
void parametric_softplus(OpContext& c) {
  c.expect_inputs(1, 1);
  for (const char* name : {"alpha", "beta"}) c.require_attribute(name);
  const double alpha = c.take_float("alpha", 1), beta = c.take_float("beta", 1);
  c.set_output(0, scaled(c, c.emit("Softplus", {}, {scaled(c, c.input(0), beta)}), alpha));
}

// alpha * tanh(beta * x)
void scaled_tanh(OpContext& c) {
  c.expect_inputs(1, 1);
  for (const char* name : {"alpha", "beta"}) c.require_attribute(name);
  const double alpha = c.take_float("alpha", 1), beta = c.take_float("beta", 1);
  c.set_output(0, scaled(c, c.emit("Tanh", {}, {scaled(c, c.input(0), beta)}), alpha));
}

// Borders are [left, top, right, bottom]; with `scale`, [height, width], the last two don't count.
void crop(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto border = c.take_ints("border").value_or(std::vector<int64_t>());
  const auto size = c.take_ints("scale");
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  if (c.rank(x) != 4) return c.fail_invalid(str_cat("the input must have rank 4, found ", c.type(x).text()));
  if (border.size() != 4 || (size && size->size() != 2))
    return c.fail_invalid("needs a border of four numbers, and a scale of two if any");
  ValueId y = x;
  for (const int64_t axis : {2, 3}) {
    const auto k = static_cast<size_t>(axis - 2);
    const int64_t begin = border[1 - k], end = border[3 - k];
    // A border of 0 ends where the image does.
    y = slice(c, y, axis, begin, size ? begin + (*size)[k] : end == 0 ? INT64_MAX : -end);
  }
  c.set_output(0, y);
}

}  // namespace aipu::frontend
