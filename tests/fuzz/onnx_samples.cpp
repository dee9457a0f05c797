#include "tests/fuzz/onnx_samples.h"

#include <climits>

#include "models/networks.h"
#include "models/onnx_builder.h"

namespace aipu::fuzz {
namespace {

using models::OnnxBuilder;
using models::TensorData;

std::string convolutions() {
  OnnxBuilder b("convolutions", 3);
  auto x = b.input("x", DType::kF32, {"N", 3, 8, 8});
  x = b.max_pool(b.relu(b.conv(x, 3, 4, {.kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}})), 2, 2);
  x = b.conv_bn(x, 4, 4, {.kernel = {1, 1}, .groups = 2});
  x = b.op("Flatten", {b.op("GlobalAveragePool", {x})}, {{"axis", 1}});
  b.output(b.op("Softmax", {b.gemm(x, 4, 3)}, {{"axis", -1}}), "y", DType::kF32, {"N", 3});
  return b.serialize();
}

std::string control_flow() {
  OnnxBuilder then_branch("then");
  then_branch.node_to("Add", {"x", "w"}, {"then_out"});
  then_branch.output("then_out");
  OnnxBuilder else_branch("else");
  else_branch.node_to("Mul", {"x", "x"}, {"else_out"});
  else_branch.output("else_out");
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go_in", DType::kBool, {});
  body.input("state", DType::kF32, {2, 3});
  body.node_to("Identity", {"go_in"}, {"go_out"});
  body.node_to("Add", {"state", "x"}, {"next"});
  body.output("go_out");
  body.output("next");
  OnnxBuilder step("step");
  step.input("sum", DType::kF32, {3});
  step.input("row", DType::kF32, {3});
  step.node_to("Add", {"sum", "row"}, {"total"});
  step.node_to("Identity", {"total"}, {"each"});
  step.output("total");
  step.output("each");
  OnnxBuilder b("control");
  const auto c = b.input("c", DType::kBool, {});
  const auto trips = b.input("trips", DType::kI64, {});
  b.input("x", DType::kF32, {2, 3});
  b.initializer(TensorData::f32({3}, {1, 2, 3}), "w");
  const auto chosen = b.op("If", {c}, {{"then_branch", &then_branch}, {"else_branch", &else_branch}});
  b.output(b.op("Loop", {trips, c, chosen}, {{"body", &body}}));
  const auto zeros = b.initializer(TensorData::f32({3}, {0, 0, 0}));
  for (const auto& y : b.node("Scan", {zeros, chosen}, {{"body", &step}, {"num_scan_inputs", 1}}, 2)) b.output(y);
  return b.serialize();
}

std::string functions() {
  OnnxBuilder leaky;
  leaky.node_to("LeakyRelu", {"x"}, {"y"});
  leaky.set_attribute_reference("y", "alpha", "slope");
  leaky.input_of_any_shape("x", DType::kF32);
  leaky.output("y");
  OnnxBuilder twice;
  twice.set_opset(1, "my.domain");
  twice.input_of_any_shape("a", DType::kF32);
  twice.node_to("Leaky", {"a"}, {"b"}, {{"slope", 0.25}}, "my.domain");
  twice.node_to("Leaky", {"b"}, {"c"}, {}, "my.domain");
  twice.output("c");
  OnnxBuilder b("functions");
  b.set_opset(1, "my.domain");
  b.add_function("my.domain", "Leaky", leaky, {}, {{"slope", 0.125}});
  b.add_function("my.domain", "Twice", twice);
  b.output(b.op("Twice", {b.input("in", DType::kF32, {"N", 4})}, {}, "my.domain"));
  return b.serialize();
}

std::string quantized() {
  OnnxBuilder b("quantized", 5);
  const auto scale = b.scalar(0.5F);
  const auto zero = b.initializer(TensorData::of<uint8_t>(DType::kU8, {}, {128}));
  const auto x = b.op("QuantizeLinear", {b.input("x", DType::kF32, {1, 2, 4, 4}), scale, zero});
  const auto w = b.initializer(TensorData::of<uint8_t>(DType::kU8, {3, 2, 1, 1}, {1, 2, 3, 4, 5, 6}));
  const auto y = b.op("QLinearConv", {x, scale, zero, w, scale, zero, scale, zero});
  b.output(b.op("DequantizeLinear", {y, scale, zero}));
  const auto rows = b.op("Reshape", {x, b.ints({8, 4})});
  const auto m = b.initializer(TensorData::of<uint8_t>(DType::kU8, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  b.output(b.op("MatMulInteger", {rows, m, zero}));
  return b.serialize();
}

std::string shapes() {
  OnnxBuilder b("shapes");
  const auto x = b.input("x", DType::kF32, {"N", "M", 6});
  const auto n = b.op("Gather", {b.op("Shape", {x}), b.ints({0})});
  const auto shape = b.op("Concat", {n, b.ints({-1, 3, 2})}, {{"axis", 0}});
  auto y = b.op("Reshape", {x, shape});
  y = b.op("Slice", {y, b.ints({0, 1}), b.ints({INT64_MAX, -1}), b.ints({1, 2}), b.ints({1, 1})});
  y = b.op("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  y = b.op("Pad", {y, b.ints({0, 0, 1, 0, 0, 0, 1, 0})});
  y = b.op("Expand", {y, b.ints({1, 1, 1, 1})});
  const auto parts = b.node("Split", {y, b.ints({1, 1})}, {{"axis", 3}}, 2);
  y = b.op("Concat", {parts[1], parts[0]}, {{"axis", 3}});
  y = b.op("Tile", {y, b.ints({1, 2, 1, 1})});
  y = b.op("Squeeze", {b.op("Unsqueeze", {y, b.ints({0})}), b.ints({0})});
  b.output(b.op("Gather", {y, b.ints({0, -1})}, {{"axis", 1}}));
  b.output(b.op("NonZero", {x}));
  b.output(b.op("Range", {b.initializer(TensorData::i64({}, {0})), b.op("Squeeze", {n}),
                          b.initializer(TensorData::i64({}, {2}))}));
  b.output(b.op("ConstantOfShape", {n}));
  b.output(b.op("Resize", {x, "", "", b.ints({1, 4, 12})}, {{"mode", "nearest"}}));
  b.output(b.op("OneHot", {b.input("ids", DType::kI64, {"K"}), b.initializer(TensorData::i64({}, {5})),
                           b.initializer(TensorData::f32({2}, {0, 1}))}));
  const auto top = b.node("TopK", {x, b.ints({2})}, {}, 2);
  b.output(top[0]);
  b.output(b.op("Einsum", {x, x}, {{"equation", "nmk,nlk->nml"}}));
  return b.serialize();
}

std::string recurrent() {
  OnnxBuilder b("recurrent", 4);
  const auto x = b.input("x", DType::kF32, {"S", 2, 3});
  const auto y = b.node("LSTM", {x, b.weight({1, 16, 3}, 0.1), b.weight({1, 16, 4}, 0.1), b.weight({1, 32}, 0.1)},
                        {{"hidden_size", 4}}, 3);
  for (const auto& value : y) b.output(value);
  b.output(
      b.layer_norm(b.op("GRU", {x, b.weight({1, 12, 3}, 0.1), b.weight({1, 12, 4}, 0.1)}, {{"hidden_size", 4}}), 4));
  return b.serialize();
}

std::string tensors() {
  OnnxBuilder b("tensors");
  const auto x = b.input("x", DType::kF32, {2, 3});
  const auto typed = b.typed_initializer(TensorData::f32({3}, {1, 2, 3}));
  const auto sparse =
      b.sparse_initializer(TensorData::f32({2}, {5, 6}), TensorData::i64({2, 2}, {0, 1, 1, 2}), {2, 3}, "sparse");
  const auto constant = b.op("Constant", {}, {{"value", models::AttributeData(TensorData::f32({2, 1}, {7, 8}))}});
  b.output(b.op("Sum", {x, typed, sparse, constant}));
  return b.serialize();
}

std::string attention() {
  OnnxBuilder b("attention", 6);
  b.set_opset(24);
  const auto cache = b.weight({16, 2}, 0.5);
  const auto turned =
      b.op("RotaryEmbedding",
           {b.input("q", DType::kF32, {1, "S", 16}), cache, cache, b.initializer(TensorData::i64({1, 3}, {0, 1, 2}))},
           {{"num_heads", 4}});
  const auto kept =
      b.op("TensorScatter", {b.weight({1, 2, 8, 4}, 1), b.input("k", DType::kF32, {1, 2, 3, 4}), b.ints({2})},
           {{"mode", "circular"}});
  const auto queries = b.transpose(b.op("Reshape", {turned, b.ints({0, 0, 4, 4})}), {0, 2, 1, 3});
  for (const auto& y :
       b.node("Attention", {queries, kept, kept, b.weight({3, 8}, 1)}, {{"is_causal", 1}, {"softcap", 2.0}}, 3))
    b.output(y);
  return b.serialize();
}

std::string sampling() {
  OnnxBuilder b("sampling", 7);
  b.set_opset(20);
  const auto x = b.input("x", DType::kF32, {1, 4, 6, 6});
  const auto grid = b.op("AffineGrid", {b.weight({1, 2, 3}, 0.5), b.ints({1, 4, 6, 6})}, {{"align_corners", 1}});
  const auto sampled = b.op("GridSample", {x, grid}, {{"mode", "cubic"}, {"padding_mode", "reflection"}});
  const auto moved = b.op(
      "DeformConv",
      {sampled, b.weight({2, 2, 3, 3}, 0.3), b.weight({1, 18, 4, 4}, 1), b.weight({2}, 1), b.weight({1, 9, 4, 4}, 1)},
      {{"group", 2}});
  const auto pooled = b.node(
      "MaxPool", {moved}, {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}}, 2);
  b.output(b.op("MaxUnpool", pooled,
                {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}}));
  b.output(b.op("RoiAlign", {x, b.weight({3, 4}, 3), b.ints({0, 0, 0})}, {{"output_height", 2}, {"output_width", 2}}));
  b.output(b.op("Col2Im", {b.op("Reshape", {x, b.ints({1, 16, 9})}), b.ints({4, 4}), b.ints({2, 2})}));
  b.output(b.op("CenterCropPad", {x, b.ints({3, 9})}, {{"axes", std::vector<int64_t>{2, -1}}}));
  return b.serialize();
}

std::string signals() {
  OnnxBuilder b("signals", 8);
  b.set_opset(20);
  const auto number = [&](int64_t value) { return b.initializer(TensorData::i64({}, {value})); };
  const auto x = b.input("x", DType::kF32, {2, "T", 1});
  const auto frames = b.op("STFT", {x, number(2), b.weight({8}, 1), number(8)});
  b.output(b.op("DFT", {frames, number(6), number(2)}, {{"inverse", 1}}));
  const auto mel = b.op("MelWeightMatrix", {number(3), number(8), number(16000), b.scalar(20), b.scalar(7000)});
  b.output(b.op("Einsum", {frames, mel}, {{"equation", "btfc,fm->bmt"}}));
  b.output(b.op("Det", {b.weight({2, 3, 3}, 1)}));
  return b.serialize();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> sample_models() {
  return {{"convolutions", convolutions()},
          {"control_flow", control_flow()},
          {"functions", functions()},
          {"quantized", quantized()},
          {"shapes", shapes()},
          {"recurrent", recurrent()},
          {"tensors", tensors()},
          {"attention", attention()},
          {"sampling", sampling()},
          {"signals", signals()}};
}

}  // namespace aipu::fuzz
