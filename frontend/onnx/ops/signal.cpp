// DFT; window functions: a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), N = size (periodic) or size - 1.
#include <algorithm>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"
#include "frontend/onnx/ops/run_time_axes.h"

namespace aipu::frontend {

void window(OpContext& c) {
  c.expect_inputs(1, 1);
  const bool periodic = c.take_int("periodic", 1) != 0;
  const int64_t number = c.take_int("output_datatype", 1);
  const auto dtype = number > 0 && number < 100 ? dtype_from_onnx(static_cast<int>(number)) : std::nullopt;
  if (!dtype || !(is_integer(*dtype) || is_floating(*dtype)))
    return c.fail_unsupported(str_cat("output_datatype ", number, " is not supported"));
  const ValueId size = c.input(0);
  const DType index = c.dtype(size);
  double a0 = 0.5;
  double a1 = 0.5;
  double a2 = 0;
  if (c.op_type() == "HammingWindow") a0 = 25.0 / 46.0, a1 = 21.0 / 46.0;
  if (c.op_type() == "BlackmanWindow") a0 = 0.42, a1 = 0.5, a2 = 0.08;
  if (!c.ok()) return;
  const ValueId n = c.cast(c.emit("Range", {}, {c.scalar(index, 0), size, c.scalar(index, 1)}), DType::kF32);
  const ValueId count = periodic ? size : c.emit("Sub", {}, {size, c.scalar(index, 1)});
  const auto cosine = [&](double turns) {
    const ValueId scaled = c.emit("Mul", {}, {n, c.scalar(DType::kF32, turns * 2 * 3.14159265358979323846)});
    return c.emit("Cos", {}, {c.emit("Div", {}, {scaled, c.cast(count, DType::kF32)})});
  };
  const auto weighted = [&](double weight, double turns) {
    return c.emit("Mul", {}, {cosine(turns), c.scalar(DType::kF32, weight)});
  };
  ValueId y = c.emit("Sub", {}, {c.scalar(DType::kF32, a0), weighted(a1, 1)});
  if (a2 != 0) y = c.emit("Add", {}, {y, weighted(a2, 2)});
  c.set_output(0, c.cast(y, *dtype));
}

// An axis that only the run knows picks among the results for all axes. A length or one side changes the extent of the
// axis: their shapes differ then.
void dft(OpContext& c) {
  if (!is_run_time(c, 2) || c.rank(c.input(0)) < 2) return pass(c);
  c.expect_inputs(1, 3);
  const ValueId x = c.input(0);
  const auto attributes = c.pass_attributes("DFT");
  std::vector<ValueId> results;
  for (int64_t axis = 0; axis < c.rank(x) - 1; ++axis)
    results.push_back(c.emit("DFT", listed(attributes), {x, c.input(1), c.int64_scalar(axis)}));
  if (!c.ok()) return;
  const bool have_one_shape = std::all_of(
      results.begin(), results.end(), [&](ValueId result) { return c.type(result).shape == c.type(results[0]).shape; });
  const auto choose = have_one_shape ? of_axis : of_axis_with_shape;
  c.set_output(0, choose(c, results, c.input(2), c.rank(x)));
}

// The axis was an attribute.
void dft_before_20(OpContext& c) {
  c.expect_inputs(1, 2);
  const int64_t axis = c.take_int("axis", 1);
  auto attributes = c.pass_attributes("DFT");
  c.emit_outputs("DFT", std::move(attributes), {c.input(0), c.input(1), c.int64_scalar(axis)});
}

}  // namespace aipu::frontend
