// Exact arithmetic of integers of 8 and 16 bits, and what looks for numbers that are none.
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

// Unsigned where all of them are.
DType sum_dtype(OpContext& c, std::initializer_list<ValueId> values) {
  for (const ValueId value : values) {
    if (!is_unsigned_int(c.dtype(value))) return DType::kI32;
  }
  return DType::kU32;
}

}  // namespace

void matmul_integer16(OpContext& c) {
  c.expect_inputs(2, 2);
  if (!c.ok()) return;
  const DType dtype = sum_dtype(c, {c.input(0), c.input(1)});
  c.set_output(0, matmul(c, c.cast(c.input(0), dtype), c.cast(c.input(1), dtype)));
}

// (A - its zero point) * (B - its zero point)
void mul_integer(OpContext& c) {
  c.expect_inputs(1, 4);
  if (!c.has_input(2)) return c.fail_invalid("needs input 2");
  const auto centred = [&](size_t i) {
    const ValueId x = c.cast(c.input(i), DType::kI32);
    return c.has_input(i + 1) ? subtract(c, x, c.cast(c.input(i + 1), DType::kI32)) : x;
  };
  c.set_output(0, multiply(c, centred(0), centred(2)));
}

void reduce_sum_integer(OpContext& c) {
  c.expect_inputs(1, 1);
  const int64_t keepdims = c.take_int("keepdims", 1);
  const auto axes = c.take_ints("axes");
  if (!c.ok()) return;
  const ValueId x = c.input(0);
  std::vector<ValueId> operands{c.cast(x, sum_dtype(c, {x}))};
  if (axes) operands.push_back(c.int64s(*axes));
  c.set_output(0, c.emit("ReduceSum", {{"keepdims", keepdims}}, operands));
}

// Of all elements of all operands.
void is_all_finite(OpContext& c) {
  const bool nan_only = c.take_int("isnan_only", 0) != 0, infinite_only = c.take_int("isinf_only", 0) != 0;
  if (c.ok() && nan_only && infinite_only) return c.fail_invalid("has both isnan_only and isinf_only");
  c.expect_inputs(1, c.inputs.size());
  ValueId all;
  for (size_t i = 0; c.ok() && i < c.inputs.size(); ++i) {
    const ValueId x = c.input(i);
    ValueId found;
    if (!infinite_only) found = c.emit("IsNaN", {}, {x});
    if (!nan_only) {
      const ValueId infinite = c.emit("IsInf", {}, {x});
      found = found.valid() ? c.emit("Or", {}, {found, infinite}) : infinite;
    }
    const ValueId fine = c.emit("ReduceMin", {{"keepdims", int64_t{0}}}, {c.emit("Not", {}, {found})});
    all = all.valid() ? c.emit("And", {}, {all, fine}) : fine;
  }
  c.set_output(0, all);
}

}  // namespace aipu::frontend::microsoft
