// Constant in all its attribute forms; Gemm.
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
  } else if (name == "value_string" || name == "value_strings") {
    c.fail_unsupported("strings are not supported");
  }
}

void gemm(OpContext& c) {
  c.ignore("broadcast");  // before opset 7: C is broadcast only then, and otherwise has the full shape
  pass(c);
}

}  // namespace aipu::frontend
