// Short names for what decompositions emit again and again. Private to frontend/onnx.
#pragma once

#include "frontend/onnx/op_context.h"

namespace aipu::frontend {

inline ValueId add(OpContext& c, ValueId a, ValueId b) { return c.emit("Add", {}, {a, b}); }
// a where there is no b
inline ValueId add_if(OpContext& c, ValueId a, ValueId b) { return b.valid() ? add(c, a, b) : a; }
inline ValueId subtract(OpContext& c, ValueId a, ValueId b) { return c.emit("Sub", {}, {a, b}); }
inline ValueId multiply(OpContext& c, ValueId a, ValueId b) { return c.emit("Mul", {}, {a, b}); }
inline ValueId matmul(OpContext& c, ValueId a, ValueId b) { return c.emit("MatMul", {}, {a, b}); }
inline ValueId gather(OpContext& c, ValueId x, ValueId indices, int64_t axis = 0) {
  return c.emit("Gather", {{"axis", axis}}, {x, indices});
}
inline ValueId concat(OpContext& c, int64_t axis, std::vector<ValueId> parts) {
  return c.emit("Concat", {{"axis", axis}}, std::move(parts));
}
inline ValueId where(OpContext& c, ValueId condition, ValueId yes, ValueId no) {
  return c.emit("Where", {}, {condition, yes, no});
}
inline AttributeList listed(const Attributes& attributes) { return {attributes.all().begin(), attributes.all().end()}; }
// ONNX's rules for 0 and -1 hold.
inline ValueId reshape(OpContext& c, ValueId x, std::vector<int64_t> shape) {
  return c.emit("Reshape", {}, {x, c.int64s(std::move(shape))});
}
inline ValueId slice(OpContext& c, ValueId x, int64_t axis, int64_t begin, int64_t end) {
  return c.emit("Slice", {}, {x, c.int64s({begin}), c.int64s({end}), c.int64s({axis})});
}
// The operand times a number of its own type; itself where that is 1.
inline ValueId scaled(OpContext& c, ValueId x, double factor) {
  return factor == 1 ? x : multiply(c, x, c.scalar(c.dtype(x), factor));
}
inline ValueId swap_last_two(OpContext& c, ValueId x) {
  std::vector<int64_t> permutation;
  for (int64_t axis = 0; axis < c.rank(x); ++axis) permutation.push_back(axis);
  if (permutation.size() >= 2) std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return c.transpose(x, std::move(permutation));
}

}  // namespace aipu::frontend
