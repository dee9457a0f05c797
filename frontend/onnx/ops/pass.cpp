// Ops whose ONNX form is the canonical form.
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

void pass(OpContext& c) {
  c.ignore("consumed_inputs");  // a memory hint of opsets before 6
  auto attributes = c.pass_attributes(c.op_type());
  c.emit_outputs(c.op_type(), std::move(attributes), c.inputs);
}

void pass_axis_1_by_default(OpContext& c) {
  if (!c.has_attribute("axis")) {
    c.emit_output(c.op_type(), {{"axis", int64_t{1}}}, c.inputs);
  } else {
    pass(c);
  }
}

}  // namespace aipu::frontend
