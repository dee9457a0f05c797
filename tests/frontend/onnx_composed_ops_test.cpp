// Operators that the importer writes as others: what they become, the types of their results, and the exact text of
// errors.
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "graph/ir/graph.h"
#include "models/onnx_builder.h"

namespace aipu::frontend {
namespace {

using models::Extents;
using models::NamedAttributes;
using models::OnnxBuilder;
using Ints = std::vector<int64_t>;

// The types of the outputs of one node over float32 inputs "a", "b", ..., or the error.
std::string types(int64_t opset, const std::string& op, const std::vector<Extents>& inputs,
                  const NamedAttributes& attributes = {}, size_t outputs = 1,
                  const std::vector<std::pair<size_t, Ints>>& constants = {}) {
  OnnxBuilder b;
  b.set_opset(opset);
  std::vector<std::string> names;
  for (const Extents& extents : inputs) {
    names.push_back(
        extents.empty() ? "" : b.input(std::string(1, static_cast<char>('a' + names.size())), DType::kF32, extents));
  }
  for (const auto& [position, elements] : constants) {
    if (names.size() <= position) names.resize(position + 1);
    names[position] = b.ints(elements);
  }
  for (const auto& name : b.node(op, names, attributes, outputs)) b.output(name);
  const std::string bytes = b.serialize();
  const auto graph = import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx", {});
  if (!graph.ok()) return graph.status().message();
  std::string text;
  for (const auto& output : (*graph)->outputs())
    text += (text.empty() ? "" : " ") + (*graph)->type(output.value).text();
  return text;
}

TEST(ComposedOps, Attention) {
  const NamedAttributes heads = {{"q_num_heads", 4}, {"kv_num_heads", 2}};
  EXPECT_EQ(types(23, "Attention", {{"N", "S", 32}, {"N", "T", 16}, {"N", "T", 24}}, heads), "float32[N,S,48]");
  EXPECT_EQ(types(23, "Attention",
                  {{"N", 4, "S", 8}, {"N", 2, "T", 8}, {"N", 2, "T", 6}, {}, {"N", 2, "P", 8}, {"N", 2, "P", 6}},
                  {{"is_causal", 1}, {"qk_matmul_output_mode", 3}}, 4),
            "float32[N,4,S,6] float32[N,2,P + T,8] float32[N,2,P + T,6] float32[N,4,S,P + T]");
  EXPECT_EQ(types(23, "Attention", {{"N", "S", 32}, {"N", "T", 16}, {"N", "T", 16}}),
            "m.onnx: node '/Attention' (Attention): operands of rank 3 need a positive q_num_heads");
  EXPECT_EQ(types(23, "Attention", {{"N", 3, "S", 8}, {"N", 2, "T", 8}, {"N", 2, "T", 8}}),
            "m.onnx: node '/Attention' (Attention): 3 heads of queries do not divide by 2 heads of keys");
  EXPECT_EQ(types(23, "Attention", {{"N", 2, "S", 8}, {"N", 2, "T", 8}, {"N", 2, "T", 8}, {}, {"N", 2, "P", 8}}),
            "m.onnx: node '/Attention' (Attention): past_key and past_value come together");
}

TEST(ComposedOps, RotaryEmbedding) {
  EXPECT_EQ(
      types(23, "RotaryEmbedding", {{"N", 4, "S", 16}, {"N", "S", 4}, {"N", "S", 4}}, {{"rotary_embedding_dim", 8}}),
      "float32[N,4,S,16]");
  EXPECT_EQ(types(23, "RotaryEmbedding", {{"N", "S", 64}, {"N", "S", 8}, {"N", "S", 8}},
                  {{"num_heads", 4}, {"interleaved", 1}}),
            "float32[N,S,64]");
  EXPECT_EQ(types(23, "RotaryEmbedding", {{"N", "S", 64}, {"N", "S", 8}, {"N", "S", 8}}),
            "m.onnx: node '/RotaryEmbedding' (RotaryEmbedding): an input of rank 3 needs a positive num_heads");
  EXPECT_EQ(
      types(23, "RotaryEmbedding", {{"N", 4, "S", 6}, {"N", "S", 4}, {"N", "S", 4}}, {{"rotary_embedding_dim", 8}}),
      "m.onnx: node '/RotaryEmbedding' (RotaryEmbedding): rotary_embedding_dim is 8 of a head size of 6");
}

TEST(ComposedOps, Caches) {
  EXPECT_EQ(types(24, "TensorScatter", {{"N", 2, 64, 8}, {"N", 2, "S", 8}}, {{"mode", "circular"}}, 1, {{2, {3}}}),
            "float32[N,2,64,8]");
  EXPECT_EQ(
      types(24, "TensorScatter", {{"N", 2, 64, 8}, {"N", 2, "S", 8}}, {{"axis", 0}}),
      "m.onnx: node '/TensorScatter' (TensorScatter): axis 0 of float32[N,2,64,8] is the batch or does not exist");
}

TEST(ComposedOps, Images) {
  EXPECT_EQ(types(18, "CenterCropPad", {{"N", 3, "H", 20}}, {{"axes", Ints{2, -1}}}, 1, {{1, {16, 31}}}),
            "float32[N,3,16,31]");
  EXPECT_EQ(types(18, "CenterCropPad", {{"N", 3}}, {}, 1, {{1, {4}}}),
            "m.onnx: node '/CenterCropPad' (CenterCropPad): shape must have 2 elements, found int64[1]");
  EXPECT_EQ(types(20, "AffineGrid", {{"N", 2, 3}}, {}, 1, {{1, {5, 3, 7, 9}}}), "float32[N,7,9,2]");
  EXPECT_EQ(types(20, "AffineGrid", {{"N", 3, 4}}, {{"align_corners", 1}}, 1, {{1, {5, 3, 6, 7, 9}}}),
            "float32[N,6,7,9,3]");
  EXPECT_EQ(types(20, "AffineGrid", {{"N", 3, 3}}, {}, 1, {{1, {5, 3, 7, 9}}}),
            "m.onnx: node '/AffineGrid' (AffineGrid): theta must be [N,2,3] or [N,3,4], found float32[N,3,3]");
}

// The axis was an attribute that counted from the batch, and its default another one.
TEST(ComposedOps, FourierTransformBefore20) {
  EXPECT_EQ(types(17, "DFT", {{"N", 10, 12, 1}}, {{"onesided", 1}}), "float32[N,6,12,2]");
  EXPECT_EQ(types(17, "DFT", {{"N", 10, 12, 1}}, {{"onesided", 1}, {"axis", 2}}), "float32[N,10,7,2]");
  EXPECT_EQ(types(20, "DFT", {{"N", 10, 12, 1}}, {{"onesided", 1}}), "float32[N,10,7,2]");
}

// "If this axis is 1, squeeze it", of an extent that only the run knows.
TEST(ComposedOps, SqueezeIfItCan) {
  const auto type_of = [](const char* otherwise) {
    OnnxBuilder then_branch("then");
    then_branch.node_to("Squeeze", {"x", "axes"}, {"then_out"});
    then_branch.output("then_out");
    OnnxBuilder else_branch("else");
    else_branch.node_to(otherwise, {"x"}, {"else_out"});
    else_branch.output("else_out");
    OnnxBuilder b;
    b.input("x", DType::kF32, {2, "M"});
    b.initializer(models::TensorData::i64({1}, {1}), "axes");
    const auto extent = b.op("Gather", {b.op("Shape", {"x"}), b.initializer(models::TensorData::i64({}, {1}))});
    const auto is_one = b.op("Equal", {extent, b.initializer(models::TensorData::i64({}, {1}))});
    b.output(b.op("If", {is_one}, {{"then_branch", &then_branch}, {"else_branch", &else_branch}}));
    const std::string bytes = b.serialize();
    const auto graph = import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx", {});
    return graph.ok() ? (*graph)->type((*graph)->outputs()[0].value).text() : graph.status().message();
  };
  EXPECT_EQ(type_of("Identity"), "float32[2]");
  EXPECT_EQ(type_of("Neg"),
            "m.onnx: 1 node is not supported: If-17 (1 node: '/If'): output 0 is float32[2] in one branch and "
            "float32[2,M] in the other; "
            "the rank must not depend on data");
}

TEST(ComposedOps, WhatIsNoImageIsNamed) {
  EXPECT_EQ(types(20, "ImageDecoder", {{"N"}}),
            "m.onnx: node '/ImageDecoder' (ImageDecoder): takes the bytes of an image, uint8[N], found float32[N]");
}

}  // namespace
}  // namespace aipu::frontend
