// Softmax, LogSoftmax and Hardmax before opset 13 see their input as a matrix: axes before `axis` are rows, the others
// columns.
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

//   x [a,b,c,d], axis=2   ->   Flatten(axis=2) [a*b, c*d] -> Softmax(axis=1) -> Reshape [a,b,c,d]
void softmax_before_13(OpContext& c) {
  c.expect_inputs(1, 1);
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  const Shape& shape = c.type(x).shape;
  const int64_t axis = c.take_axis("axis", 1, c.rank(x));
  if (!c.ok()) return;
  // One axis besides extents of 1 is enough: no matrix needed.
  int64_t wide = axis;
  int wide_axes = 0;
  for (int64_t i = axis; i < c.rank(x); ++i) {
    if (shape[static_cast<size_t>(i)] == Dim(1)) continue;
    wide = i;
    ++wide_axes;
  }
  if (wide_axes <= 1 && axis < c.rank(x)) return c.emit_output(c.op_type(), {{"axis", wide}}, {x});
  const ValueId matrix = c.emit("Flatten", {{"axis", axis}}, {x});
  const ValueId rows = c.emit(c.op_type(), {{"axis", int64_t{1}}}, {matrix});
  c.emit_output("Reshape", {}, {rows, c.shape_of(x)});
}

}  // namespace aipu::frontend
