// An acoustic model: three LSTM layers of 512 over 80 filter-bank values per frame, and 2000 senones.
#include <cmath>

#include "models/architectures.h"

namespace aipu::models {

std::unique_ptr<OnnxBuilder> build_lstm_acoustic(uint64_t seed) {
  constexpr int64_t kInput = 80;
  constexpr int64_t kHidden = 512;
  constexpr int64_t kOutputs = 2000;
  auto builder = std::make_unique<OnnxBuilder>("lstm_acoustic", seed);
  OnnxBuilder& b = *builder;
  const auto features = b.input("features", DType::kF32, {"N", "frames", kInput});
  auto x = b.transpose(features, {1, 0, 2});  // nn.LSTM(batch_first=True)
  const auto state_shape = b.op("Concat", {b.ints({1}), b.extent(features, 0), b.ints({kHidden})}, {{"axis", 0}});
  int64_t in = kInput;
  for (int layer = 0; layer < 3; ++layer) {
    const auto zeros = [&] {
      return b.op("ConstantOfShape", {state_shape}, {{"value", TensorData::f32({1}, {0.0f})}});
    };
    const double scale = 1.5 / std::sqrt(static_cast<double>(kHidden));
    const auto w = b.weight({1, 4 * kHidden, in}, 1.5 / std::sqrt(static_cast<double>(in)));
    const auto r = b.weight({1, 4 * kHidden, kHidden}, scale);
    const auto y = b.node("LSTM", {x, w, r, b.weight({1, 8 * kHidden}, 0.1, "b"), "", zeros(), zeros()},
                          {{"hidden_size", kHidden}}, 3);
    x = b.op("Squeeze", {y[0], b.ints({1})});
    in = kHidden;
  }
  const auto logits = b.linear(b.transpose(x, {1, 0, 2}), kHidden, kOutputs, 2.0);
  b.output(logits, "senones", DType::kF32, {"N", "frames", kOutputs});
  return builder;
}

}  // namespace aipu::models
