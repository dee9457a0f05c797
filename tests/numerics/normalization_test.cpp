// Layer, RMS and instance normalisation against double precision on every target: extents around a vector, around a
// block of them and as transformers have them; and normalisations and activations written out, which the graph passes
// make one node of.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::NamedAttributes;
using models::OnnxBuilder;
using models::TensorData;

using Tensors = std::map<std::string, Tensor>;

constexpr double kEpsilon = 1e-5;

struct Normalized {
  Tensor y, mean, inverse;
};

// x seen as [outer, extent, inner]; scale and bias, where given, run along `extent` if inner is 1, else along `inner`.
Normalized normalized(const Tensor& x, int64_t outer, int64_t extent, int64_t inner, bool centre, const Tensor* scale,
                      const Tensor* bias) {
  Normalized result;
  result.y = x;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t k) { return static_cast<size_t>((o * extent + k) * inner + i); };
      double mean = 0, square = 0;
      for (int64_t k = 0; centre && k < extent; ++k) mean += x.data[at(k)];
      mean /= static_cast<double>(extent);
      for (int64_t k = 0; k < extent; ++k) square += (x.data[at(k)] - mean) * (x.data[at(k)] - mean);
      const double inverse = 1 / std::sqrt(square / static_cast<double>(extent) + kEpsilon);
      result.mean.data.push_back(static_cast<float>(mean));
      result.inverse.data.push_back(static_cast<float>(inverse));
      for (int64_t k = 0; k < extent; ++k) {
        const auto parameter = static_cast<size_t>(inner == 1 ? k : i);
        double value = (x.data[at(k)] - mean) * inverse;
        if (scale != nullptr) value *= scale->data[parameter];
        if (bias != nullptr) value += bias->data[parameter];
        result.y.data[at(k)] = static_cast<float>(value);
      }
    }
  }
  return result;
}

std::string saved(const OnnxBuilder& b, const std::string& name) {
  std::string path = temporary_path(name + ".onnx");
  EXPECT_TRUE(b.save(path).ok());
  return path;
}

// Around 4, 8 and 16 lanes, around blocks of four vectors, and whole and odd numbers of blocks.
constexpr int64_t kWidths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 79, 127, 129, 768, 3072};

TEST(Normalization, LayerAndRms) {
  OnnxBuilder b("normalizations", 1);
  b.set_opset(23);
  const std::string x = b.input("x", DType::kF32, {"N", "W"}), s = b.input("s", DType::kF32, {"W"}),
                    c = b.input("c", DType::kF32, {"W"});
  const NamedAttributes attributes = {{"axis", -1}, {"epsilon", kEpsilon}};
  b.node_to("LayerNormalization", {x, s, c}, {"layer", "mean", "inverse"}, attributes);
  b.output("layer", "layer", DType::kF32, {"N", "W"});
  b.output("mean", "mean", DType::kF32, {"N", ""});
  b.output("inverse", "inverse", DType::kF32, {"N", ""});
  b.output(b.op("LayerNormalization", {x, s}, attributes), "no_bias", DType::kF32, {"N", "W"});
  b.output(b.op("RMSNormalization", {x, s}, attributes), "rms", DType::kF32, {"N", "W"});
  // Reads what nobody else does: the output takes over its memory.
  b.output(b.op("LayerNormalization", {b.op("Neg", {x}), s, c}, attributes), "in_place", DType::kF32, {"N", "W"});
  const std::string path = saved(b, "normalizations");
  for (const int64_t width : kWidths) {
    SCOPED_TRACE("width " + std::to_string(width));
    std::mt19937 random(static_cast<unsigned>(width));
    const int64_t rows = width > 100 ? 5 : 4;
    // A mean far from 0 beside the deviation: what a variance from sums of squares would lose.
    Tensors inputs = {{"x", random_tensor(random, {rows, width}, 30, 32)},
                      {"s", random_tensor(random, {width})},
                      {"c", random_tensor(random, {width})}};
    const Tensor &in = inputs["x"], &scale = inputs["s"], &bias = inputs["c"];
    Normalized layer = normalized(in, rows, width, 1, true, &scale, &bias);
    layer.mean.shape = layer.inverse.shape = {rows, 1};
    Tensor negative = in;
    for (float& element : negative.data) element = -element;
    Tensors expected = {{"layer", layer.y}, {"mean", layer.mean}, {"inverse", layer.inverse}};
    expected["no_bias"] = normalized(in, rows, width, 1, true, &scale, nullptr).y;
    expected["rms"] = normalized(in, rows, width, 1, false, &scale, nullptr).y;
    expected["in_place"] = normalized(negative, rows, width, 1, true, &scale, &bias).y;
    expect_on_targets(path, inputs, expected, 2e-5, 3e-5, width == 33);
    if (HasFatalFailure()) return;
  }
}

TEST(Normalization, HalfPrecision) {
  OnnxBuilder b("half", 1);
  b.set_opset(23);
  const std::string x = b.op("Cast", {b.input("x", DType::kF32, {"N", "W"})}, {{"to", 10}});
  const std::string s = b.op("Cast", {b.input("s", DType::kF32, {"W"})}, {{"to", 10}});
  const NamedAttributes attributes = {{"axis", -1}, {"epsilon", kEpsilon}};
  b.output(b.op("Cast", {b.op("LayerNormalization", {x, s, s}, attributes)}, {{"to", 1}}), "layer", DType::kF32,
           {"N", "W"});
  b.output(b.op("Cast", {b.op("RMSNormalization", {x, s}, attributes)}, {{"to", 1}}), "rms", DType::kF32, {"N", "W"});
  const std::string path = saved(b, "half");
  for (const int64_t width : {1, 15, 16, 17, 64, 100, 768}) {
    SCOPED_TRACE("width " + std::to_string(width));
    std::mt19937 random(static_cast<unsigned>(width));
    Tensors inputs = {{"x", random_tensor(random, {3, width}, -2, 3)}, {"s", random_tensor(random, {width})}};
    // Numbers that half precision has.
    for (auto& [name, tensor] : inputs) {
      for (float& element : tensor.data) element = std::round(element * 256) / 256;
    }
    const Tensor &in = inputs["x"], &scale = inputs["s"];
    const Tensors expected = {{"layer", normalized(in, 3, width, 1, true, &scale, &scale).y},
                              {"rms", normalized(in, 3, width, 1, false, &scale, nullptr).y}};
    expect_on_targets(path, inputs, expected, 1e-3, 1e-3);
    if (HasFatalFailure()) return;
  }
}

// The same integers as of the two kernels apart, which a second user of the normalised values makes them.
TEST(Normalization, Quantised) {
  for (const int64_t rows : {1, 4, 7}) {
    for (const int64_t extent : {5, 64, 197}) {
      OnnxBuilder b("quantised", 7);
      b.set_opset(17);
      const auto x = b.input("x", DType::kF32, {rows, extent}), again = b.input("again", DType::kF32, {rows, extent});
      std::vector<float> scale(static_cast<size_t>(extent));
      for (size_t i = 0; i < scale.size(); ++i) scale[i] = 0.5f + 0.01f * static_cast<float>(i);
      const auto scales = b.initializer(TensorData::f32({extent}, scale));
      const auto zero = b.initializer(TensorData::of<uint8_t>(DType::kU8, {}, {117}));
      const auto quantised = [&](const std::string& y) {
        const auto q = b.op("QuantizeLinear", {y, b.scalar(0.06f), zero});
        return b.op("DequantizeLinear", {q, b.scalar(0.06f), zero});
      };
      b.output(quantised(b.op("LayerNormalization", {x, scales})), "together", DType::kF32, {rows, extent});
      const auto seen = b.op("LayerNormalization", {again, scales});
      b.output(quantised(seen), "apart", DType::kF32, {rows, extent});
      b.output(seen, "seen", DType::kF32, {rows, extent});
      const std::string path = saved(b, "quantised");
      Tensor input{{rows, extent}, {}};
      for (int64_t i = 0; i < rows * extent; ++i)
        input.data.push_back(std::sin(static_cast<float>(i * i)) * static_cast<float>(1 + i % 5));
      for (const std::string& target : runnable_targets()) {
        const auto actual = run_road(path, {{"x", input}, {"again", input}}, {.target = target});
        ASSERT_TRUE(actual.ok()) << target << ": " << actual.status().message();
        expect_close(actual->at("together"), actual->at("apart"), 0, 0, target);
        expect_close(actual->at("together"), actual->at("seen"), 0, 0.031, target + ", half a step");
      }
    }
  }
}

TEST(Normalization, Instance) {
  OnnxBuilder b("instance", 1);
  const std::string x = b.input("x", DType::kF32, {"N", "C", "H", "W"});
  const std::string s = b.input("s", DType::kF32, {"C"}), c = b.input("c", DType::kF32, {"C"});
  b.output(b.op("InstanceNormalization", {x, s, c}, {{"epsilon", kEpsilon}}), "y", DType::kF32, {"N", "C", "H", "W"});
  const std::string path = saved(b, "instance");
  for (const auto& [channels, pixels] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 2}, {8, 3}, {17, 4}, {16, 5}, {33, 27}}) {
    SCOPED_TRACE(std::to_string(channels) + " channels");
    std::mt19937 random(static_cast<unsigned>(channels));
    const Tensors inputs = {{"x", random_tensor(random, {2, channels, pixels, 3}, 3, 5)},
                            {"s", random_tensor(random, {channels})},
                            {"c", random_tensor(random, {channels})}};
    // NCHW: every (image, channel) is a row of its own, with a scale and bias of one number.
    Tensor expected = normalized(inputs.at("x"), 2 * channels, pixels * 3, 1, true, nullptr, nullptr).y;
    for (size_t i = 0; i < expected.data.size(); ++i) {
      const size_t channel = i / static_cast<size_t>(pixels * 3) % static_cast<size_t>(channels);
      expected.data[i] = expected.data[i] * inputs.at("s").data[channel] + inputs.at("c").data[channel];
    }
    expect_on_targets(path, inputs, {{"y", expected}}, 2e-5, 2e-5, channels == 17);
    if (HasFatalFailure()) return;
  }
}

// Scales and biases that broadcast inside the normalised axes, or along the rows.
TEST(Normalization, BroadcastScale) {
  OnnxBuilder b("broadcast", 1);
  std::mt19937 random(11);
  const Tensor column = random_tensor(random, {5, 1}), row = random_tensor(random, {5});
  const std::string x = b.input("x", DType::kF32, {5, 5});
  const std::string c = b.initializer(TensorData::f32({5, 1}, column.data)),
                    r = b.initializer(TensorData::f32({5}, row.data));
  b.output(b.op("LayerNormalization", {x, c, r}, {{"axis", 0}, {"epsilon", kEpsilon}}), "all", DType::kF32, {5, 5});
  b.output(b.op("LayerNormalization", {x, c}, {{"axis", 1}, {"epsilon", kEpsilon}}), "rows", DType::kF32, {5, 5});
  const Tensors inputs = {{"x", random_tensor(random, {5, 5})}};
  Tensor all = normalized(inputs.at("x"), 1, 25, 1, true, nullptr, nullptr).y;
  Tensor rows = normalized(inputs.at("x"), 5, 5, 1, true, nullptr, nullptr).y;
  for (size_t i = 0; i < 25; ++i) {
    all.data[i] = all.data[i] * column.data[i / 5] + row.data[i % 5];
    rows.data[i] *= column.data[i / 5];
  }
  expect_on_targets(saved(b, "broadcast"), inputs, {{"all", all}, {"rows", rows}}, 1e-5, 1e-5);
}

// As an op, and as PyTorch exports it; 6 channels in 3 groups, extents that are known when the model is run.
TEST(Normalization, Group) {
  OnnxBuilder b("group", 1);
  b.set_opset(21);
  std::mt19937 random(7);
  const Tensor scale = random_tensor(random, {6}), bias = random_tensor(random, {6});
  const std::string x = b.input("x", DType::kF32, {"N", 6, "H", "W"});
  const auto constant = [&](std::vector<int64_t> shape, std::vector<float> data) {
    return b.initializer(TensorData::f32(std::move(shape), std::move(data)));
  };
  b.output(b.op("GroupNormalization", {x, constant({6}, scale.data), constant({6}, bias.data)},
                {{"num_groups", 3}, {"epsilon", kEpsilon}}),
           "op", DType::kF32, {"N", 6, "H", "W"});
  const std::string rows = b.op("Reshape", {x, b.ints({0, 3, -1})});
  const std::string normal = b.op("InstanceNormalization", {rows, constant({3}, {1, 1, 1}), constant({3}, {0, 0, 0})},
                                  {{"epsilon", kEpsilon}});
  const std::string back = b.op("Reshape", {normal, b.op("Shape", {x})});
  const std::string scaled = b.op("Mul", {back, constant({6, 1, 1}, scale.data)});
  b.output(b.op("Add", {scaled, constant({6, 1, 1}, bias.data)}), "written_out", DType::kF32, {"N", 6, "H", "W"});
  const std::string path = saved(b, "group");
  for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 3}, {5, 7}, {16, 16}}) {
    SCOPED_TRACE(std::to_string(height) + " x " + std::to_string(width));
    const Tensors inputs = {{"x", random_tensor(random, {2, 6, height, width}, 1, 3)}};
    Tensor expected = normalized(inputs.at("x"), 2 * 3, 2 * height * width, 1, true, nullptr, nullptr).y;
    for (size_t i = 0; i < expected.data.size(); ++i) {
      const size_t channel = i / static_cast<size_t>(height * width) % 6;
      expected.data[i] = expected.data[i] * scale.data[channel] + bias.data[channel];
    }
    expect_on_targets(path, inputs, {{"op", expected}, {"written_out", expected}}, 2e-5, 2e-5);
    if (HasFatalFailure()) return;
  }
}

std::string mean_of(OnnxBuilder& b, const std::string& x) {
  return b.op("ReduceMean", {x}, {{"axes", std::vector<int64_t>{-1}}});
}

TEST(Normalization, WrittenOut) {
  OnnxBuilder b("written_out", 1);
  b.set_opset(13);
  constexpr int64_t kWidth = 37;
  std::mt19937 random(3);
  const Tensor scale = random_tensor(random, {kWidth}), bias = random_tensor(random, {kWidth});
  const std::string s = b.initializer(TensorData::f32({kWidth}, scale.data)),
                    c = b.initializer(TensorData::f32({kWidth}, bias.data));
  const std::string x = b.input("x", DType::kF32, {"N", kWidth});
  const std::string epsilon = b.scalar(static_cast<float>(kEpsilon));
  const auto out = [&](const std::string& value, const std::string& name) {
    b.output(value, name, DType::kF32, {"N", kWidth});
  };

  const std::string centred = b.op("Sub", {x, mean_of(b, x)}), again = b.op("Sub", {x, mean_of(b, x)});
  const std::string variance = mean_of(b, b.op("Pow", {again, b.scalar(2)}));
  const std::string normal = b.op("Div", {centred, b.op("Sqrt", {b.op("Add", {variance, epsilon})})});
  out(b.op("Add", {c, b.op("Mul", {s, normal})}), "layer");

  const std::string square = b.op("Mul", {x, x});
  const std::string inverse = b.op("Reciprocal", {b.op("Sqrt", {b.op("Add", {epsilon, mean_of(b, square)})})});
  out(b.op("Mul", {b.op("Mul", {inverse, x}), s}), "rms");

  const std::string mean = mean_of(b, x), distance = b.op("Sub", {x, mean});
  const std::string spread = mean_of(b, b.op("Mul", {distance, distance}));
  const std::string m = b.op("Mul", {b.op("Reciprocal", {b.op("Sqrt", {b.op("Add", {spread, epsilon})})}), s});
  out(b.op("Add", {b.op("Mul", {x, m}), b.op("Sub", {c, b.op("Mul", {mean, m})})}), "keras");

  // No scale: one of ones is made.
  const std::string plain = b.op("Sub", {x, mean_of(b, x)});
  const std::string power = b.op("Add", {mean_of(b, b.op("Mul", {plain, plain})), epsilon});
  out(b.op("Mul", {plain, b.op("Pow", {power, b.scalar(-0.5)})}), "plain");

  const Tensors inputs = {{"x", random_tensor(random, {3, kWidth}, -3, 5)}};
  const Tensor& in = inputs.at("x");
  const Tensor layer = normalized(in, 3, kWidth, 1, true, &scale, &bias).y;
  expect_on_targets(saved(b, "written_out"), inputs,
                    {{"layer", layer},
                     {"keras", layer},
                     {"rms", normalized(in, 3, kWidth, 1, false, &scale, nullptr).y},
                     {"plain", normalized(in, 3, kWidth, 1, true, nullptr, nullptr).y}},
                    2e-5, 1e-5, true);
}

TEST(Activation, WrittenOut) {
  OnnxBuilder b("activations", 1);
  b.set_opset(14);
  const std::string x = b.input("x", DType::kF32, {"N"});
  std::map<std::string, std::function<double(double)>> references;
  const auto out = [&](const std::string& value, const std::string& name, std::function<double(double)> reference) {
    b.output(value, name, DType::kF32, {"N"});
    references[name] = std::move(reference);
  };
  const auto number = [&](double value) { return b.scalar(static_cast<float>(value)); };
  const auto mul = [&](const std::string& p, const std::string& q) { return b.op("Mul", {p, q}); };
  const auto add = [&](const std::string& p, const std::string& q) { return b.op("Add", {p, q}); };

  const std::string erf = b.op("Erf", {b.op("Div", {x, number(std::sqrt(2.0))})});
  out(mul(mul(x, add(erf, number(1))), number(0.5)), "gelu",
      [](double v) { return v * 0.5 * (1 + std::erf(v / std::sqrt(2.0))); });
  const std::string inner = mul(add(x, mul(b.op("Pow", {x, number(3)}), number(0.044715))), number(0.7978845608028654));
  out(mul(mul(x, number(0.5)), add(b.op("Tanh", {inner}), number(1))), "gelu_tanh",
      [](double v) { return v * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); });
  out(mul(b.op("Sigmoid", {x}), x), "silu", [](double v) { return v * (1 / (1 + std::exp(-v))); });
  out(mul(b.op("Sigmoid", {mul(x, number(1.702))}), x), "quick_gelu",
      [](double v) { return v * (1 / (1 + std::exp(-1.702f * v))); });
  const std::string clipped = b.op("Clip", {add(x, number(3)), number(0), number(6)});
  out(mul(x, b.op("Div", {clipped, number(6)})), "hard_swish",
      [](double v) { return v * (std::min(std::max(v + 3, 0.0), 6.0) / 6); });
  out(b.op("Div", {b.op("Clip", {add(x, number(3)), number(0), number(6)}), number(6)}), "hard_sigmoid",
      [](double v) { return std::isnan(v) ? v : std::min(std::max(v + 3, 0.0), 6.0) / 6; });
  out(mul(x, b.op("Tanh", {b.op("Softplus", {x})})), "mish",
      [](double v) { return v * std::tanh(v > 50 ? v : std::log1p(std::exp(v))); });

  Tensor values{{}, {0.0f, -0.0f, 1e-30f, -1e-30f, 88.0f, -88.0f, 1e4f, -1e4f, 3e38f, -3e38f, INFINITY}};
  for (int i = -240; i <= 240; ++i) values.data.push_back(static_cast<float>(i) / 16);
  values.shape = {static_cast<int64_t>(values.data.size())};
  const std::string path = saved(b, "activations");
  Tensors expected;
  for (const auto& [name, reference] : references) {
    Tensor& tensor = expected[name] = values;
    for (float& element : tensor.data) element = static_cast<float>(reference(element));
  }
  expect_on_targets(path, {{"x", values}}, expected, 2e-6, 1e-6, true);

  // Minus infinity times 0 is no number, here as in the graph that was written out; a NaN stays one in everything that
  // x is a factor of.
  const Tensors odd = {{"x", Tensor{{2}, {-INFINITY, std::numeric_limits<float>::quiet_NaN()}}}};
  const Tensor nan{{2}, {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::quiet_NaN()}};
  Tensors none;
  for (const auto& [name, reference] : references) {
    if (name != "hard_sigmoid") none[name] = nan;
  }
  expect_on_targets(path, odd, none, 0, 0);
}

}  // namespace
}  // namespace aipu::test
