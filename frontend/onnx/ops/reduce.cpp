// Reductions whose axes, and TopK whose k, were attributes.
#include "frontend/onnx/ops/converters.h"

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

void top_k_before_10(OpContext& c) {
  c.expect_inputs(1, 1);
  c.require_attribute("k");
  const ValueId k = c.int64s({c.take_int("k", 0)});
  auto attributes = c.pass_attributes("TopK");
  c.emit_outputs("TopK", std::move(attributes), {c.input(0), k});
}

}  // namespace aipu::frontend
