// Functions that are inlined, and branches and bodies that see what is around them.
#include <gtest/gtest.h>

#include "tests/frontend/import_model.h"

namespace aipu::frontend {
namespace {

// ---- functions

TEST(OnnxImport, FunctionsAreInlinedWithTheirAttributes) {
  OnnxBuilder body;
  body.set_opset(17);
  const auto x = body.input("x", DType::kF32, {});
  body.node_to("LeakyRelu", {x}, {"y"}, {{"alpha", 0.0}});
  body.set_attribute_reference("y", "alpha", "slope");
  body.node_to("Neg", {"y"}, {"z"});
  body.output("z");

  OnnxBuilder b;
  b.add_function("my.domain", "NegLeaky", body, {"slope"});
  const auto in = b.input("in", DType::kF32, {4});
  const auto first = b.op("NegLeaky", {in}, {{"slope", 0.25}}, "my.domain");
  b.output(b.op("NegLeaky", {first}, {}, "my.domain"));
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(ops_of(**graph), "LeakyRelu Neg LeakyRelu Neg");
  const auto order = (*graph)->topological_order();
  EXPECT_EQ((*graph)->node(order[0]).attributes.f("alpha"), 0.25);
  EXPECT_NEAR((*graph)->node(order[2]).attributes.f("alpha"), 0.01, 1e-6);  // not given: LeakyRelu's own default
  EXPECT_EQ(graph::origins_text((*graph)->node(order[0]).origins), "'/NegLeaky//y' (LeakyRelu)");
}

TEST(OnnxImport, FunctionsHaveDefaultsForTheirAttributes) {
  OnnxBuilder body;
  body.node_to("LeakyRelu", {body.input("x", DType::kF32, {})}, {"y"}, {{"alpha", 0.0}});
  body.set_attribute_reference("y", "alpha", "slope");
  body.output("y");
  OnnxBuilder b;
  b.add_function("my.domain", "Leaky", body, {}, {{"slope", 0.125}});
  b.output(b.op("Leaky", {b.op("Leaky", {b.input("in", DType::kF32, {4})}, {}, "my.domain")}, {{"slope", 0.5}},
                "my.domain"));
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  const auto order = (*graph)->topological_order();
  ASSERT_EQ(order.size(), 2u);
  EXPECT_EQ((*graph)->node(order[0]).attributes.f("alpha"), 0.125);
  EXPECT_EQ((*graph)->node(order[1]).attributes.f("alpha"), 0.5);
}

TEST(OnnxImport, RecursiveFunctionsAreRefused) {
  OnnxBuilder body;
  body.set_opset(1, "my.domain");
  body.input("x", DType::kF32, {});
  body.node_to("Again", {"x"}, {"y"}, {}, "my.domain");
  body.output("y");
  OnnxBuilder b;
  b.add_function("my.domain", "Again", body);
  b.output(b.op("Again", {b.input("in", DType::kF32, {4})}, {}, "my.domain"));
  EXPECT_NE(error_of(import(b)).find("functions call each other more than 32 deep"), std::string::npos)
      << error_of(import(b));
}

// Found by tests/fuzz/onnx_fuzz_test.cpp: such graphs were handed on.
TEST(OnnxImport, NegativeExtentsAreRefusedAtTheirNode) {
  OnnxBuilder b;
  b.node_to("Tile", {b.input("x", DType::kF32, {2, 3}), b.ints({-1, 1})}, {"y"});
  b.output("y");
  EXPECT_EQ(error_of(import(b)),
            "m.onnx: node '/y' (Tile): output 0 would be float32[-2,3], which has a negative extent");
  OnnxBuilder c;
  c.node_to("OneHot",
            {c.input("ids", DType::kI64, {3}), c.initializer(TensorData::i64({}, {-1})),
             c.initializer(TensorData::f32({2}, {0, 1}))},
            {"y"});
  c.output("y");
  EXPECT_EQ(error_of(import(c)),
            "m.onnx: node '/y' (OneHot): output 0 would be float32[3,-1], which has a negative extent");
}

// Also found by the fuzzer: this was an internal error.
TEST(OnnxImport, AnOutputThatTheOpDoesNotHave) {
  OnnxBuilder b;
  b.node_to("Constant", {}, {"one", "two"}, {{"value_float", 1.0}});
  b.output("two");
  EXPECT_EQ(error_of(import(b)), "m.onnx: node '/one' (Constant): has no output 1");
}

// ---- sub-graphs

TEST(OnnxImport, SubgraphsCaptureOuterValues) {
  OnnxBuilder then_branch("then");
  then_branch.node_to("Add", {"x", "w"}, {"then_out"});
  then_branch.output("then_out");
  OnnxBuilder else_branch("else");
  else_branch.node_to("Mul", {"x", "y"}, {"else_out"});
  else_branch.output("else_out");
  OnnxBuilder b;
  const auto condition = b.input("c", DType::kBool, {});
  b.input("x", DType::kF32, {"N", 4});
  b.node_to("Neg", {"x"}, {"y"});
  b.initializer(TensorData::f32({4}, {1, 2, 3, 4}), "w");
  b.output(b.op("If", {condition}, {{"then_branch", &then_branch}, {"else_branch", &else_branch}}));
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  const auto& node = only(**graph, "If");
  ASSERT_EQ(node.subgraphs.size(), 2u);
  EXPECT_EQ(node.subgraphs[0]->captured_count, 1);  // x; w is a constant and needs no capture
  EXPECT_EQ(node.subgraphs[1]->captured_count, 2);  // x and y
  ASSERT_EQ(node.inputs.size(), 4u);
  EXPECT_EQ((*graph)->value(node.inputs[1]).name, "x");
  EXPECT_EQ((*graph)->value(node.inputs[2]).name, "x");
  EXPECT_EQ((*graph)->value(node.inputs[3]).name, "y");
  EXPECT_EQ(output_type(**graph), "float32[N,4]");
  EXPECT_EQ(graph::verify_graph(**graph).message(), "");
}

TEST(OnnxImport, CapturesPassThroughNestedSubgraphs) {
  OnnxBuilder inner("inner");
  inner.node_to("Add", {"x", "x"}, {"inner_out"});
  inner.output("inner_out");
  OnnxBuilder inner_else("inner_else");
  inner_else.node_to("Identity", {"x"}, {"inner_else_out"});
  inner_else.output("inner_else_out");
  OnnxBuilder outer("outer");
  outer.node_to("If", {"c"}, {"outer_out"}, {{"then_branch", &inner}, {"else_branch", &inner_else}});
  outer.output("outer_out");
  OnnxBuilder outer_else("outer_else");
  outer_else.node_to("Neg", {"x"}, {"outer_else_out"});
  outer_else.output("outer_else_out");
  OnnxBuilder b;
  b.input("c", DType::kBool, {});
  b.input("x", DType::kF32, {2});
  b.output(b.op("If", {"c"}, {{"then_branch", &outer}, {"else_branch", &outer_else}}));
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(only(**graph, "If").subgraphs[0]->captured_count, 2);  // c and x, for the inner one
  EXPECT_EQ(graph::verify_graph(**graph).message(), "");
}

TEST(OnnxImport, ADecidedIfIsTheBranchItTakes) {
  OnnxBuilder then_branch("then");
  then_branch.node_to("Squeeze", {"x", "axes"}, {"then_out"});
  then_branch.output("then_out");
  OnnxBuilder else_branch("else");
  else_branch.node_to("Identity", {"x"}, {"else_out"});
  else_branch.output("else_out");
  OnnxBuilder b;
  b.input("x", DType::kF32, {2, 3});
  b.initializer(TensorData::i64({1}, {1}), "axes");  // would not fit: the extent is 3
  const auto extent = b.op("Gather", {b.op("Shape", {"x"}), b.initializer(TensorData::i64({}, {1}))});
  const auto is_one = b.op("Equal", {extent, b.initializer(TensorData::i64({}, {1}))});
  b.output(b.op("If", {is_one}, {{"then_branch", &then_branch}, {"else_branch", &else_branch}}));
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(ops_of(**graph).find("If"), std::string::npos);
  EXPECT_EQ(output_type(**graph), "float32[2,3]");
}

TEST(OnnxImport, LoopCarriesAndStacks) {
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go", DType::kBool, {});
  body.input("sum", DType::kF32, {4});
  body.node_to("Identity", {"go"}, {"go_on"});
  body.node_to("Add", {"sum", "x"}, {"next"});
  body.node_to("Neg", {"next"}, {"scan"});
  for (const char* name : {"go_on", "next", "scan"}) body.output(name);
  OnnxBuilder b;
  b.input("x", DType::kF32, {4});
  const auto trips = b.initializer(TensorData::i64({}, {5}));
  for (const auto& out : b.node("Loop", {trips, "", "x"}, {{"body", &body}}, 2)) b.output(out);
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph, 0), "float32[4]");
  EXPECT_EQ(output_type(**graph, 1), "float32[5,4]");
  EXPECT_EQ(graph::verify_graph(**graph).message(), "");
}

}  // namespace
}  // namespace aipu::frontend
