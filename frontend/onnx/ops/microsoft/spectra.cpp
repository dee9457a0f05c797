// Fourier transforms of real signals, and products of complex numbers: of both the last axis is [real, imaginary].
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

// How many axes the signal has; they are the last ones.
int64_t take_signal_axes(OpContext& c, int64_t behind) {
  const int64_t count = c.take_int("signal_ndim", 1);
  if (c.take_int("onesided", 1) != 1) c.fail_unsupported("onesided = 0 is not supported");
  if (c.take_int("normalized", 0) != 0) c.fail_unsupported("normalized = 1 is not supported");
  if (c.ok() && (count < 1 || count > c.rank(c.input(0)) - behind))
    c.fail_invalid(str_cat("signal_ndim is ", count, ", the input ", c.type(c.input(0)).text()));
  return count;
}

ValueId transformed(OpContext& c, ValueId x, int64_t axis, bool inverse, bool onesided) {
  return c.emit("DFT", {{"inverse", int64_t{inverse}}, {"onesided", int64_t{onesided}}},
                {x, ValueId(), c.int64_scalar(axis)});
}

}  // namespace

void rfft(OpContext& c) {
  c.expect_inputs(1, 1);
  if (!c.ok()) return;
  const int64_t axes = take_signal_axes(c, 0);
  const int64_t last = c.rank(c.input(0)) - 1;
  ValueId y = transformed(c, c.unsqueeze(c.input(0), {-1}), last, false, true);
  for (int64_t k = 1; k < axes; ++k) y = transformed(c, y, last - k, false, false);
  c.set_output(0, y);
}

// The last axis is even: what one side is of does not say otherwise.
void irfft(OpContext& c) {
  c.expect_inputs(1, 1);
  if (!c.ok()) return;
  const int64_t axes = take_signal_axes(c, 1);
  if (!c.ok()) return;
  ValueId y = c.input(0);
  const int64_t last = c.rank(y) - 2;
  for (int64_t k = 1; k < axes; ++k) y = transformed(c, y, last - k, true, false);
  // The other side: elements n / 2 - 1 to 1, conjugate.
  const ValueId back = c.emit("Slice", {}, {y, c.int64s({-2}), c.int64s({0}), c.int64s({last}), c.int64s({-1})});
  const ValueId sign = c.constant(graph::Constant::of<float>(DType::kF32, {2}, std::array{1.0F, -1.0F}));
  const ValueId whole = concat(c, last, {y, multiply(c, back, c.cast(sign, c.dtype(y)))});
  c.set_output(0, c.squeeze(slice(c, transformed(c, whole, last, true, false), -1, 0, 1), {-1}));
}

// Times the second operand, or its conjugate.
void complex_mul(OpContext& c) {
  c.expect_inputs(2, 2);
  if (!c.ok()) return;
  const bool conjugate = c.op_type() == "ComplexMulConj";
  const auto part = [&](size_t i, int64_t k) { return slice(c, c.input(i), -1, k, k + 1); };
  const ValueId a = part(0, 0), b = part(0, 1), x = part(1, 0), y = part(1, 1);
  const auto sum = [&](ValueId left, ValueId right, bool minus) {
    return c.emit(minus ? "Sub" : "Add", {}, {left, right});
  };
  const ValueId real = sum(multiply(c, a, x), multiply(c, b, y), !conjugate);
  const ValueId imaginary = sum(multiply(c, b, x), multiply(c, a, y), conjugate);
  c.set_output(0, concat(c, -1, {real, imaginary}));
}

}  // namespace aipu::frontend::microsoft
