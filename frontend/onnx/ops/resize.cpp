// Upsample and Resize: older forms sample at x / scale, rounding down.
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

using graph::Constant;

namespace {

void emit_asymmetric(OpContext& c, const std::string& mode, ValueId scales) {
  if (mode != "nearest" && mode != "linear" && mode != "bilinear")
    return c.fail_unsupported(str_cat("mode '", mode, "' is not supported"));
  c.emit_output("Resize",
                {{"mode", mode == "nearest" ? std::string("nearest") : std::string("linear")},
                 {"coordinate_transformation_mode", std::string("asymmetric")},
                 {"nearest_mode", std::string("floor")}},
                {c.input(0), {}, scales});
}

}  // namespace

void upsample_before_9(OpContext& c) {
  c.expect_inputs(1, 1);
  const std::string mode = c.take_string("mode", "nearest");
  if (!c.ok()) return;
  std::vector<float> scales;
  if (c.version() < 7) {
    if (c.rank(c.input(0)) != 4)
      return c.fail_invalid(str_cat("needs an input of rank 4, found ", c.type(c.input(0)).text()));
    const double height = c.take_float("height_scale", 1);
    const double width = c.take_float("width_scale", 1);
    scales = {1, 1, static_cast<float>(height), static_cast<float>(width)};
  }
  if (const auto given = c.take_floats("scales")) scales.assign(given->begin(), given->end());
  if (!c.ok()) return;
  emit_asymmetric(c, mode, c.constant(Constant::of<float>(DType::kF32, {static_cast<int64_t>(scales.size())}, scales)));
}

void resize_before_11(OpContext& c) {
  c.expect_inputs(2, 2);
  const std::string mode = c.take_string("mode", "nearest");
  if (!c.ok()) return;
  emit_asymmetric(c, mode, c.input(1));
}

// Empty tensors stand for absent operands in models of opsets 11 and 12.
void resize(OpContext& c) {
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (c.has_input(i) && c.rank(c.input(i)) == 1 && c.type(c.input(i)).shape[0] == Dim(0)) c.inputs[i] = {};
  }
  while (!c.inputs.empty() && !c.inputs.back().valid()) c.inputs.pop_back();
  pass(c);
}

}  // namespace aipu::frontend
