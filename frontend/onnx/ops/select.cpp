// Ops whose output extent depends on data: NonZero, Compress, Unique, NonMaxSuppression, Range, OneHot. A counting op
// over the same inputs runs first; its result becomes the last operand, and the extent a run symbol on it.
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

void counted(OpContext& c) {
  const std::string& op = c.op_type();
  const size_t operands = op == "NonMaxSuppression" ? 5 : op == "Compress" ? 2 : 1;
  const size_t required = op == "NonMaxSuppression" || op == "Compress" ? 2 : 1;
  c.expect_inputs(required, operands);
  auto attributes = c.pass_attributes(op);
  if (!c.ok()) return;
  ValueId count, kept;
  if (op == "NonZero") {
    count = c.emit("aipu::CountNonZero", {}, {c.input(0)});
  } else if (op == "Compress") {
    count = c.emit("aipu::CountNonZero", {}, {c.input(1)});
  } else if (op == "Unique") {
    AttributeList axis;
    if (attributes.has("axis")) axis.emplace_back("axis", attributes.i("axis"));
    count = c.emit("aipu::CountUnique", axis, {c.input(0)});
  } else {
    Attributes center;
    center.set("center_point_box", attributes.i_or("center_point_box", 0));
    const std::vector<ValueId> both =
        c.emit_named("aipu::CountNonMaxSuppression", std::move(center), c.inputs, {"count", "kept"});
    if (!c.ok()) return;
    count = both[0];
    kept = both[1];
  }
  std::vector<ValueId> inputs = c.inputs;
  inputs.resize(operands);
  if (kept.valid()) inputs.push_back(kept);
  inputs.push_back(count);
  c.emit_outputs(op, std::move(attributes), std::move(inputs));
}

// Over floats known only at run time the count, ceil((limit - start) / delta), is computed by ordinary nodes.
void range(OpContext& c) {
  c.expect_inputs(3, 3);
  if (!c.ok()) return;
  const bool constant = c.graph().constant(c.input(0)) != nullptr && c.graph().constant(c.input(1)) != nullptr &&
                        c.graph().constant(c.input(2)) != nullptr;
  if (!is_floating(c.dtype(c.input(0))) || constant) return pass(c);
  const ValueId length = c.emit("Sub", {}, {c.input(1), c.input(0)});
  const ValueId zero = c.scalar(c.dtype(length), 0);
  // A delta of 0 gives no number of steps: none, and the Range itself says what is wrong.
  const ValueId quotient =
      c.emit("Where", {}, {c.emit("Equal", {}, {c.input(2), zero}), zero, c.emit("Div", {}, {length, c.input(2)})});
  const ValueId steps = c.emit("Ceil", {}, {quotient});
  const ValueId count = c.emit("Reshape", {}, {c.cast(steps, DType::kI64), c.int64s({1})});
  c.emit_output("Range", {}, {c.input(0), c.input(1), c.input(2), count});
}

// The depth may be a float; as an extent it is an integer.
void one_hot(OpContext& c) {
  c.expect_inputs(3, 3);
  auto attributes = c.pass_attributes("OneHot");
  if (!c.ok()) return;
  const ValueId depth = is_floating(c.dtype(c.input(1))) ? c.cast(c.input(1), DType::kI64) : c.input(1);
  c.emit_outputs("OneHot", std::move(attributes), {c.input(0), depth, c.input(2)});
}

}  // namespace aipu::frontend
