// Gelu and its approximations, with a bias in front.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

void gelu(OpContext& c) {
  c.expect_inputs(1, 1);
  c.emit_output("Gelu", {}, {c.input(0)});
}

void bias_gelu(OpContext& c) {
  c.expect_inputs(2, 2);
  c.emit_output("Gelu", {}, {add(c, c.input(0), c.input(1))});
}

void fast_gelu(OpContext& c) {
  c.expect_inputs(1, 2);
  c.emit_output("Gelu", {{"approximate", std::string("tanh")}}, {add_if(c, c.input(0), c.input(1))});
}

void quick_gelu(OpContext& c) {
  c.expect_inputs(1, 1);
  c.emit_output("Swish", {{"alpha", c.take_float("alpha", 1.702)}}, {c.input(0)});
}

// The first half of the last axis times the Gelu of the second.
void bias_split_gelu(OpContext& c) {
  c.expect_inputs(2, 2);
  const ValueId x = add(c, c.input(0), c.input(1));
  if (!c.ok()) return;
  const auto extent = c.type(x).shape.empty() ? std::nullopt : c.type(x).shape.back().constant();
  if (!extent || *extent % 2 != 0)
    return c.fail_unsupported(str_cat("the last axis of ", c.type(x).text(), " does not split into halves"));
  const ValueId gate = c.emit("Gelu", {}, {slice(c, x, -1, *extent / 2, *extent)});
  c.emit_output("Mul", {}, {slice(c, x, -1, 0, *extent / 2), gate});
}

void bias_add(OpContext& c) {
  c.expect_inputs(3, 3);
  c.emit_output("Add", {}, {add(c, c.input(0), c.input(1)), c.input(2)});
}

// The bias broadcasts as NumPy's would; axes from `axis` on are one.
void bias_softmax(OpContext& c) {
  c.expect_inputs(2, 2);
  c.ignore("is_inner_broadcast");
  if (!c.ok()) return;
  const ValueId sum = add(c, c.input(0), c.input(1));
  const int64_t axis = c.take_axis("axis", 1, c.rank(sum));
  if (axis == c.rank(sum) - 1) return c.emit_output("Softmax", {{"axis", axis}}, {sum});
  const ValueId rows = c.emit("Softmax", {{"axis", int64_t{1}}}, {c.emit("Flatten", {{"axis", axis}}, {sum})});
  c.emit_output("Reshape", {}, {rows, c.shape_of(sum)});
}

}  // namespace aipu::frontend::microsoft
