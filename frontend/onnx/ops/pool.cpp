// Pooling and sampling ops whose attributes changed.
#include <cmath>

#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

// LpPool-1, GlobalLpPool-1: p was a float.
void lp_pool(OpContext& c) {
  const auto it = c.attributes.find("p");
  if (it != c.attributes.end() && it->second.kind == OnnxAttribute::Kind::kFloat) {
    const double p = it->second.f;
    if (p != std::floor(p) || p < 1 || p > 1000)
      return c.fail_unsupported(str_cat("p = ", p, " is not supported, it must be an integer"));
    it->second.kind = OnnxAttribute::Kind::kInt;
    it->second.i = static_cast<int64_t>(p);
  }
  pass(c);
}

void roi_align_before_16(OpContext& c) {
  c.expect_inputs(3, 3);
  auto attributes = c.pass_attributes("RoiAlign");
  attributes.set("coordinate_transformation_mode", std::string("output_half_pixel"));
  c.emit_outputs("RoiAlign", std::move(attributes), c.inputs);
}

// The modes were named after the two-dimensional case.
void grid_sample_before_20(OpContext& c) {
  c.expect_inputs(2, 2);
  std::string mode = c.take_string("mode", "bilinear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  auto attributes = c.pass_attributes("GridSample");
  attributes.set("mode", mode);
  c.emit_outputs("GridSample", std::move(attributes), c.inputs);
}

}  // namespace aipu::frontend
