// Reductions whose axes, and TopK whose k, were attributes.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"
#include "frontend/onnx/ops/run_time_axes.h"

namespace aipu::frontend {

void reduce_with_axes_attribute(OpContext& c) {
  c.expect_inputs(1, 1);
  const auto axes = c.take_ints("axes");
  const int64_t keepdims = c.take_int("keepdims", 1);
  std::vector<ValueId> inputs{c.input(0)};
  // An empty list means all axes, as no list does.
  if (axes && !axes->empty()) inputs.push_back(c.int64s(*axes));
  c.emit_output(c.op_type(), {{"keepdims", keepdims}}, inputs);
}

// An axis that only the run knows picks among the results for all axes.
void cumulative(OpContext& c) {
  c.expect_inputs(2, 2);
  if (!c.ok() || c.constant_ints(c.input(1))) return pass(c);
  const ValueId x = c.input(0);
  const auto attributes = c.pass_attributes(c.op_type());
  std::vector<ValueId> results;
  for (int64_t axis = 0; axis < c.rank(x); ++axis) {
    results.push_back(c.emit(c.op_type(), listed(attributes), {x, c.int64_scalar(axis)}));
  }
  if (results.empty()) return c.fail_invalid(str_cat("the input has no axis, ", c.type(x).text()));
  c.set_output(0, of_axis(c, results, c.input(1), c.rank(x)));
}

void top_k_before_10(OpContext& c) {
  c.expect_inputs(1, 1);
  c.require_attribute("k");
  const ValueId k = c.int64s({c.take_int("k", 0)});
  auto attributes = c.pass_attributes("TopK");
  c.emit_outputs("TopK", std::move(attributes), {c.input(0), k});
}

}  // namespace aipu::frontend
