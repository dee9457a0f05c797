// Networks with operators of a custom domain between built-in ones; they need the plugins of models/custom_op.
#include "models/architectures.h"

namespace aipu::models {

std::unique_ptr<OnnxBuilder> build_soft_cap(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("soft_cap", seed);
  b->set_opset(1, "example");
  auto x = b->input("input", DType::kF32, {"N", 64});
  x = b->op("SoftCap", {b->gemm(x, 64, 40)}, {{"cap", 1.5}}, "example");
  b->output(b->relu(x), "output", DType::kF32, {"N", 40});
  return b;
}

std::unique_ptr<OnnxBuilder> build_hard_shrink(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("hard_shrink", seed);
  b->set_opset(1, "example");
  auto x = b->input("input", DType::kF32, {"N", 64});
  x = b->op("HardShrink", {b->gemm(x, 64, 37)}, {{"lambd", 0.25}}, "example");
  b->output(b->gemm(x, 37, 40), "output", DType::kF32, {"N", 40});
  return b;
}

std::unique_ptr<OnnxBuilder> build_unit_rows(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("unit_rows", seed);
  b->set_opset(1, "example");
  auto x = b->input("input", DType::kF32, {"N", "seq", 64});
  const auto results = b->node("UnitRows", {b->linear(x, 64, 45)}, {}, 2, "example");
  b->output(results[0], "output", DType::kF32, {"N", "seq", 45});
  b->output(results[1], "norm", DType::kF32, {"N", "seq", 1});
  return b;
}

std::unique_ptr<OnnxBuilder> build_blend(uint64_t seed) {
  auto b = std::make_unique<OnnxBuilder>("blend", seed);
  b->set_opset(1, "example");
  const auto x = b->input("input", DType::kF32, {"N", 3, 32, 32});
  const auto residual = b->input("residual", DType::kF32, {"N", 16, 32, 32});
  const auto scale = b->weight({16, 1, 1}, 1);
  ConvOptions same;
  same.pads = {1, 1, 1, 1};
  auto y = b->op("Blend", {b->conv(x, 3, 16, same), scale, residual}, {{"limit", 2.0}}, "example");
  y = b->op("HardSwish", {y});
  b->output(b->conv(y, 16, 8, same), "output", DType::kF32, {"N", 8, 32, 32});
  return b;
}

}  // namespace aipu::models
