// Constant in all its attribute forms; Gemm.
#include <cmath>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

using graph::Constant;

void constant(OpContext& c) {
  c.expect_inputs(0, 0);
  if (c.attributes.size() != 1)
    return c.fail_invalid(str_cat("needs exactly one value attribute, found ", c.attributes.size()));
  const std::string name = c.attributes.begin()->first;
  if (name == "value" || name == "sparse_value") {
    c.set_output(0, c.constant(c.take_tensor(name)));
  } else if (name == "value_int") {
    c.set_output(0, c.int64_scalar(c.take_int(name, 0)));
  } else if (name == "value_ints") {
    c.set_output(0, c.int64s(c.take_ints(name).value_or(std::vector<int64_t>{})));
  } else if (name == "value_float") {
    c.set_output(0, c.scalar(DType::kF32, c.take_float(name, 0)));
  } else if (name == "value_floats") {
    const auto values = c.take_floats(name).value_or(std::vector<double>{});
    const std::vector<float> floats(values.begin(), values.end());
    c.set_output(0, c.constant(Constant::of<float>(DType::kF32, {static_cast<int64_t>(floats.size())}, floats)));
  } else if (name == "value_string") {
    c.set_output(0, c.squeeze(c.strings({c.take_string(name, "")}), {0}));
  } else if (name == "value_strings") {
    c.set_output(0, c.strings(c.take_strings(name).value_or(std::vector<std::string>{})));
  }
}

// A C of one column is added by itself: kernels take rows and whole matrices.
void gemm(OpContext& c) {
  c.ignore("broadcast");  // before opset 7: C is broadcast only then, and otherwise has the full shape
  const ValueId addend = c.input(2);
  const Shape shape = c.type(addend).shape;
  if (!c.ok() || shape.size() != 2 || shape[1] != Dim(1) || shape[0] == Dim(1)) return pass(c);
  c.expect_inputs(2, 3);
  const double beta = c.take_float("beta", 1);
  const ValueId product = c.emit("Gemm", listed(c.pass_attributes("Gemm")), {c.input(0), c.input(1)});
  if (!c.ok()) return;
  if (is_integer(c.dtype(product)) && beta != std::floor(beta))
    return c.fail_unsupported("a fractional beta on an integer matrix is not supported");
  const ValueId sum = beta == 0 ? product : add(c, product, scaled(c, addend, beta));
  if (c.ok() && c.type(sum).shape != c.type(product).shape)
    return c.fail_invalid(str_cat("C ", c.type(addend).text(), " does not broadcast to ", c.type(product).text()));
  c.set_output(0, sum);
}

}  // namespace aipu::frontend
