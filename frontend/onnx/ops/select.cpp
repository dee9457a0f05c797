// Ops whose output extent depends on data: NonZero, Compress, Unique, NonMaxSuppression. A counting op over the same inputs runs first; its result becomes
// the last operand, and the extent a run symbol on it.
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

void counted(OpContext& c) {
  const std::string& op = c.op_type();
  const size_t operands = op == "NonMaxSuppression" ? 5 : op == "Compress" ? 2 : 1;
  const size_t required = op == "NonMaxSuppression" || op == "Compress" ? 2 : 1;
  c.expect_inputs(required, operands);
  auto attributes = c.pass_attributes(op);
  if (!c.ok()) return;
  ValueId count;
  if (op == "NonZero") {
    count = c.emit("aipu::CountNonZero", {}, {c.input(0)});
  } else if (op == "Compress") {
    count = c.emit("aipu::CountNonZero", {}, {c.input(1)});
  } else if (op == "Unique") {
    AttributeList axis;
    if (attributes.has("axis")) axis.emplace_back("axis", attributes.i("axis"));
    count = c.emit("aipu::CountUnique", axis, {c.input(0)});
  } else {
    const int64_t center = attributes.i_or("center_point_box", 0);
    count = c.emit("aipu::CountNonMaxSuppression", {{"center_point_box", center}}, c.inputs);
  }
  std::vector<ValueId> inputs = c.inputs;
  inputs.resize(operands);
  inputs.push_back(count);
  c.emit_outputs(op, std::move(attributes), std::move(inputs));
}

}  // namespace aipu::frontend
