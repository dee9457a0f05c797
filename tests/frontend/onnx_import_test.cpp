// Hand-built models: old opsets, symbols, exposed values, and the exact text of errors.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/frontend/import_model.h"

namespace aipu::frontend {
namespace {

// ---- old opsets

TEST(OnnxImport, SoftmaxBefore13FlattensAtTheAxis) {
  const auto graph = import_node(11, "Softmax", {{2, 3, 4}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(ops_of(**graph), "Flatten Softmax Shape Reshape");
  EXPECT_EQ(only(**graph, "Flatten").attributes.i("axis"), 1);
  EXPECT_EQ(output_type(**graph), "float32[2,3,4]");
}

TEST(OnnxImport, SoftmaxBefore13NeedsNoMatrixWhereOneAxisIsWide) {
  auto graph = import_node(9, "Softmax", {{1, 1000, 1, 1}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(ops_of(**graph), "Softmax");
  EXPECT_EQ(only(**graph, "Softmax").attributes.i("axis"), 1);
  graph = import_node(9, "LogSoftmax", {{"N", 7, 5}}, {{"axis", 2}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(ops_of(**graph), "LogSoftmax");
  EXPECT_EQ(only(**graph, "LogSoftmax").attributes.i("axis"), 2);
}

TEST(OnnxImport, SoftmaxSince13KeepsItsAxis) {
  const auto graph = import_node(13, "Softmax", {{2, 3, 4}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(ops_of(**graph), "Softmax");
  EXPECT_EQ(only(**graph, "Softmax").attributes.i("axis"), 2);
}

TEST(OnnxImport, BroadcastBefore7AlignsAtTheAxis) {
  const auto graph = import_node(6, "Add", {{2, 3, 4, 5}, {3, 4}}, {{"broadcast", 1}, {"axis", 1}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(ops_of(**graph), "Unsqueeze Add");
  EXPECT_EQ(output_type(**graph), "float32[2,3,4,5]");
  EXPECT_EQ(constant_input(**graph, only(**graph, "Unsqueeze"), 1), (Ints{2}));
  EXPECT_EQ(error_of(import_node(6, "Mul", {{2, 3}, {2, 3}}, {{"broadcast", 1}, {"axis", 1}})),
            "m.onnx: node '/Mul' (Mul): operand B float32[2,3] does not fit into float32[2,3] from axis 1");
}

TEST(OnnxImport, AttributesThatBecameInputs) {
  auto graph = import_node(10, "Clip", {{4}}, {{"min", -1.0}, {"max", 6.0}});
  ASSERT_IMPORTED(graph);
  const auto& clip = only(**graph, "Clip");
  ASSERT_EQ(clip.inputs.size(), 3u);
  EXPECT_EQ((*graph)->constant(clip.inputs[1])->to_doubles(), std::vector<double>{-1.0});
  EXPECT_EQ((*graph)->constant(clip.inputs[2])->to_doubles(), std::vector<double>{6.0});

  graph = import_node(11, "Squeeze", {{1, 3, 1}}, {{"axes", Ints{0}}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[3,1]");
  graph = import_node(9, "Unsqueeze", {{3}}, {{"axes", Ints{0, 2}}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[1,3,1]");
  graph = import_node(9, "Slice", {{4, 6}}, {{"starts", Ints{1, -3}}, {"ends", Ints{3, 1000}}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[2,3]");
  graph = import_node(2, "Pad", {{4, 6}}, {{"pads", Ints{1, 0, 2, 3}}, {"value", 1.5}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[7,9]");
  EXPECT_EQ(constant_input(**graph, only(**graph, "Pad"), 1), (Ints{1, 0, 2, 3}));
  graph = import_node(9, "Split", {{6, 2}}, {{"split", Ints{2, 4}}}, 2);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph, 1), "float32[4,2]");
  graph = import_node(9, "TopK", {{3, 8}}, {{"k", 5}}, 2);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph, 1), "int64[3,5]");
  graph = import_node(11, "ReduceSum", {{2, 3, 4}}, {{"axes", Ints{1}}, {"keepdims", 0}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[2,4]");
  graph = import_node(1, "Reshape", {{2, 6}}, {{"shape", Ints{0, 3, -1}}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[2,3,2]");
}

TEST(OnnxImport, UpsampleBecomesResizeByFloor) {
  auto graph =
      import_node(7, "Upsample", {{1, 1, 2, 3}}, {{"scales", std::vector<double>{1, 1, 2, 3}}, {"mode", "nearest"}});
  ASSERT_IMPORTED(graph);
  const auto& resize = only(**graph, "Resize");
  EXPECT_EQ(resize.attributes.s("coordinate_transformation_mode"), "asymmetric");
  EXPECT_EQ(resize.attributes.s("nearest_mode"), "floor");
  EXPECT_EQ(output_type(**graph), "float32[1,1,4,9]");
  graph =
      import_node(1, "Upsample", {{1, 1, 2, 3}}, {{"width_scale", 3.0}, {"height_scale", 2.0}, {"mode", "bilinear"}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(only(**graph, "Resize").attributes.s("mode"), "linear");
  EXPECT_EQ(output_type(**graph), "float32[1,1,4,9]");
}

TEST(OnnxImport, DropoutIsIdentity) {
  auto graph = import_node(10, "Dropout", {{"N", 3}}, {{"ratio", 0.3}}, 2);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(only(**graph, "Identity").inputs[0], (*graph)->inputs()[0]);
  EXPECT_EQ(output_type(**graph, 1), "bool[N,3]");
  graph = import_node(7, "Dropout", {{"N", 3}}, {{"ratio", 0.3}}, 2);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph, 1), "float32[N,3]");  // the mask had the data's type then
}

TEST(OnnxImport, BatchNormalizationForms) {
  const std::vector<models::Extents> inputs{{"N", 4, 5}, {4}, {4}, {4}, {4}};
  auto graph = import_node(7, "BatchNormalization", inputs, {{"spatial", 1}, {"momentum", 0.9}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(ops_of(**graph), "BatchNormalization");
  const std::string wrong = error_of(import_node(7, "BatchNormalization", inputs, {{"spatial", 0}}));
  EXPECT_NE(wrong.find("spatial = 0 takes statistics of the shape of an example, [4,5], found float32[4]"),
            std::string::npos)
      << wrong;
  const std::vector<models::Extents> per_activation{{"N", 4, 5}, {4, 5}, {4, 5}, {4, 5}, {4, 5}};
  graph = import_node(7, "BatchNormalization", per_activation, {{"spatial", 0}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[N,4,5]");
  graph = import_node(15, "BatchNormalization", inputs, {{"training_mode", 1}}, 3);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph, 0), "float32[N,4,5]");
  EXPECT_EQ(output_type(**graph, 2), "float32[4]");
}

TEST(OnnxImport, CastByName) {
  const auto graph = import_node(5, "Cast", {{3}}, {{"to", "INT64"}});
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "int64[3]");
}

TEST(OnnxImport, GroupNormalizationRepeatsScalesPerChannel) {
  const auto graph = import_node(18, "GroupNormalization", {{"N", 6, 5}, {2}, {2}}, {{"num_groups", 2}});
  ASSERT_IMPORTED(graph);
  const auto& node = only(**graph, "GroupNormalization");
  EXPECT_EQ((*graph)->type(node.inputs[1]).text(), "float32[6]");
}

TEST(OnnxImport, NegativeLogLikelihoodIsComposed) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {"N", 5, 7});
  const auto t = b.input("t", DType::kI64, {"N", 7});
  b.output(b.op("NegativeLogLikelihoodLoss", {x, t}, {{"reduction", "mean"}, {"ignore_index", -1}}));
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[]");
  EXPECT_NE(ops_of(**graph).find("GatherElements"), std::string::npos);
  EXPECT_EQ(graph::verify_graph(**graph).message(), "");
}

TEST(OnnxImport, ExtentsThatDataDecidesAreCounted) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {3, 4});
  b.output(b.op("NonZero", {x}));
  b.output(b.op("Range", {b.input("from", DType::kF32, {}), b.input("to", DType::kF32, {}), b.scalar(0.5f)}));
  b.output(b.op("OneHot",
                {b.input("i", DType::kI64, {2}), b.input("depth", DType::kF32, {}), b.input("v", DType::kF32, {2})}));
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  for (size_t i = 0; i < 3; ++i) {
    const auto& shape = (*graph)->type((*graph)->outputs()[i].value).shape;
    ASSERT_FALSE(shape.empty());
    EXPECT_FALSE(shape[i == 0 ? 1 : i - 1].is_constant()) << output_type(**graph, i);
  }
  EXPECT_NE(ops_of(**graph).find("aipu::CountNonZero"), std::string::npos);
  EXPECT_EQ(graph::verify_graph(**graph).message(), "");
}

// ---- symbols and --shape

TEST(OnnxImport, SameDimParamIsTheSameSymbol) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {"batch size", 3, ""});
  const auto y = b.input("y", DType::kF32, {"batch size", 3, "?"});
  b.output(b.op("MatMul", {x, b.op("Transpose", {y}, {{"perm", Ints{0, 2, 1}}})}));
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ((*graph)->type((*graph)->inputs()[0]).text(), "float32[batch_size,3,x_2]");
  EXPECT_EQ((*graph)->type((*graph)->inputs()[1]).text(), "float32[batch_size,3,y_2]");
}

TEST(OnnxImport, DistinctDimParamsStayDistinct) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input("x", DType::kF32, {"a b", "a_b", "max", ""})}));
  b.input("x_3", DType::kF32, {"x_3"});
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[a_b,a_b_2,max_,x_3_2]");
}

TEST(OnnxImport, ShapeOptions) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {"N", 3});
  const auto y = b.input("y", DType::kF32, {"N", "M"});
  b.output(b.op("Concat", {x, y}, {{"axis", 1}}));
  const auto with = [&](const std::string& text) {
    ImportOptions options;
    const auto status = parse_shape_option(text, &options.shapes);
    return status.ok() ? import(b, options) : Imported(status);
  };
  const auto graph = with("x=8x3");
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[8,M + 3]");
  EXPECT_EQ(error_of(with("x=8x4")), "m.onnx: --shape: input 'x' is float32[N,3] in the model, extent 1 cannot be 4");
  EXPECT_EQ(error_of(with("x=8")),
            "m.onnx: --shape: input 'x' is float32[N,3] in the model, the shape given has 1 extents");
  EXPECT_EQ(error_of(with("z=8")), "m.onnx: --shape: there is no input 'z' (inputs: 'x', 'y')");
  EXPECT_EQ(error_of(with("x=8xq")), "--shape x=8xq: expected NAME=1x3x224x224");
  EXPECT_EQ(error_of(with("=8")), "--shape =8: expected NAME=1x3x224x224");
  EXPECT_EQ(error_of(with("x=8x")), "--shape x=8x: expected NAME=1x3x224x224");
}

TEST(OnnxImport, AnInputWithoutShapeNeedsOne) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input_of_any_shape("x", DType::kF32)}));
  EXPECT_EQ(error_of(import(b)), "m.onnx: input 'x' has no shape; give one with --shape x=...");
  ImportOptions options;
  options.shapes["x"] = {-1, 4};
  const auto graph = import(b, options);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[x_0,4]");
}

TEST(OnnxImport, ConstantInputsDecideWhatDependsOnThem) {
  OnnxBuilder b;
  b.set_opset(13);
  const auto x = b.input("x", DType::kF32, {2, 3});
  const auto axes = b.input("axes", DType::kI64, {1});
  b.output(b.op("Unsqueeze", {x, axes}));
  ImportOptions options;
  options.constant_inputs["axes"] = graph::Constant::int64s({1});
  const auto graph = import(b, options);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph), "float32[2,1,3]");
  EXPECT_EQ((*graph)->inputs().size(), 1u);
  options.constant_inputs["axes"] = graph::Constant::int64s({1, 2});
  EXPECT_EQ(error_of(import(b, options)),
            "m.onnx: input 'axes' cannot be a constant int64[2], the model declares another type");
}

// ---- values that become outputs

// The outputs of x -> Relu "a/mid" -> Neg "a/out" -> Exp "y", beside which nothing uses an Abs; or the error.
std::string exposed_by(const std::vector<std::string>& patterns) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {4});
  b.node_to("Relu", {x}, {"a/mid"});
  b.node_to("Abs", {x}, {"b/unused"});
  b.node_to("Neg", {"a/mid"}, {"a/out"});
  b.node_to("Exp", {"a/out"}, {"y"});
  b.output("y");
  ImportOptions options;
  options.exposed = patterns;
  const auto graph = import(b, options);
  if (!graph.ok()) return graph.status().message();
  std::string names;
  for (const auto& output : (*graph)->outputs()) names += (names.empty() ? "" : " ") + output.name;
  return names;
}

TEST(OnnxImport, ExposedValuesAreOutputsBehindTheModels) {
  EXPECT_EQ(exposed_by({}), "y");
  EXPECT_EQ(exposed_by({"a/out", "a/mid"}), "y a/mid a/out");
  EXPECT_EQ(exposed_by({"*"}), "y a/mid b/unused a/out");
  EXPECT_EQ(exposed_by({"a/*", "a/mid"}), "y a/mid a/out");
  EXPECT_EQ(exposed_by({"*/*u*"}), "y b/unused a/out");
  EXPECT_EQ(exposed_by({"**d"}), "y a/mid b/unused");
  EXPECT_EQ(exposed_by({"y"}), "y");
}

TEST(OnnxImport, AnUnknownValueToExposeIsAnErrorWithNearNames) {
  EXPECT_EQ(exposed_by({"a/mit"}),
            "m.onnx: --expose: no value of the outermost graph is called 'a/mit'; did you mean 'a/mid'?");
  EXPECT_EQ(exposed_by({"model/encoder/out"}),
            "m.onnx: --expose: no value of the outermost graph is called 'model/encoder/out' (among its 4 values: "
            "'a/out')");
  EXPECT_EQ(exposed_by({"q*"}),
            "m.onnx: --expose: no value of the outermost graph is called 'q*' (among its 4 values: 'a/mid', "
            "'b/unused', 'a/out')");
}

// ---- order, errors

TEST(OnnxImport, NodesMayBeInAnyOrder) {
  OnnxBuilder b;
  b.input("x", DType::kF32, {2});
  b.node_to("Neg", {"y"}, {"z"});
  b.node_to("Relu", {"x"}, {"y"});
  b.output("z");
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(ops_of(**graph), "Relu Neg");
  OnnxBuilder cycle;
  cycle.node_to("Neg", {"y"}, {"z"});
  cycle.node_to("Relu", {"z"}, {"y"});
  cycle.output("z");
  EXPECT_EQ(error_of(import(cycle)), "m.onnx: node '/z' (Neg) is part of a cycle");
}

TEST(OnnxImport, UnsupportedOperatorsAreReportedTogether) {
  OnnxBuilder hidden("then");
  hidden.node_to("Frobnicate", {"x"}, {"hidden_out"}, {}, "com.acme");
  hidden.output("hidden_out");
  OnnxBuilder plain("else");
  plain.node_to("Identity", {"x"}, {"plain_out"});
  plain.output("plain_out");
  OnnxBuilder b;
  b.set_opset(1, "com.acme");
  b.set_opset(1, "ai.onnx.preview.training");
  b.input("x", DType::kF32, {2});
  b.input("c", DType::kBool, {});
  std::string value = "x";
  for (int i = 0; i < 4; ++i) value = b.op("Frobnicate", {value}, {}, "com.acme");
  value = b.op("Gradient", {value}, {}, "ai.onnx.preview.training");
  b.op("NoSuchOp", {value});
  b.op("If", {"c"}, {{"then_branch", &hidden}, {"else_branch", &plain}});
  b.output(value);
  EXPECT_EQ(
      error_of(import(b)),
      "m.onnx: 7 nodes are not supported: "
      "NoSuchOp-17 (1 node: '/NoSuchOp'): unknown operator; in a domain of its own a plugin can define it (--plugin "
      "FILE; plugins=[FILE] in Python); "
      "ai.onnx.preview.training::Gradient (1 node: '/Gradient'): gradients are not supported; "
      "com.acme::Frobnicate (5 nodes: '/Frobnicate', '/Frobnicate_1', '/Frobnicate_2', ...): unknown operator; a "
      "plugin can define it "
      "(--plugin FILE; plugins=[FILE] in Python)");
}

TEST(OnnxImport, RefusalsInsideOpsAreCollectedToo) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {2, 3});
  b.output(b.op("Cast", {x}, {{"to", 99}}));
  b.set_opset(1, "ai.onnx.preview.training");
  b.output(b.op("Gradient", {x}, {}, "ai.onnx.preview.training"));
  EXPECT_EQ(error_of(import(b)),
            "m.onnx: 2 nodes are not supported: Cast-17 (1 node: '/Cast'): element type number 99 in attribute 'to' "
            "is not supported; ai.onnx.preview.training::Gradient (1 node: '/Gradient'): gradients are not supported");
}

TEST(OnnxImport, UnknownAttributesAreNotDropped) {
  EXPECT_EQ(error_of(import_node(17, "Relu", {{2}}, {{"surprise", 1}})),
            "m.onnx: 1 node is not supported: Relu-17 (1 node: '/Relu'): attribute 'surprise' is not known");
  EXPECT_EQ(error_of(import_node(17, "LeakyRelu", {{2}}, {{"alpha", 1}})),
            "m.onnx: node '/LeakyRelu' (LeakyRelu): attribute 'alpha' is an int, it must be a float");
}

TEST(OnnxImport, BrokenReferences) {
  OnnxBuilder undefined;
  undefined.node_to("Relu", {"nowhere"}, {"y"});
  undefined.output("y");
  EXPECT_EQ(error_of(import(undefined)), "m.onnx: node '/y' (Relu): input 'nowhere' is not defined");
  OnnxBuilder twice;
  twice.input("x", DType::kF32, {2});
  twice.node_to("Relu", {"x"}, {"y"});
  twice.node_to("Neg", {"x"}, {"y"});
  twice.output("y");
  EXPECT_EQ(error_of(import(twice)), "m.onnx: node '/y' (Neg): value 'y' is defined twice");
  OnnxBuilder no_output;
  no_output.input("x", DType::kF32, {2});
  EXPECT_EQ(error_of(import(no_output)), "m.onnx: the graph has no outputs");
  no_output.output("x2");
  EXPECT_EQ(error_of(import(no_output)), "m.onnx: output 'x2' is not defined");
}

TEST(OnnxImport, DeclaredOutputs) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input("x", DType::kF32, {2, 3})}), "y", DType::kI32, {2, 3});
  EXPECT_EQ(error_of(import(b)), "m.onnx: output 'y' is declared int32, the graph makes float32");
  OnnxBuilder stale;
  stale.output(stale.op("Relu", {stale.input("x", DType::kF32, {2, 3})}), "y", DType::kF32, {1, 3});
  std::vector<std::string> warnings;
  ImportOptions options;
  options.warnings = &warnings;
  ASSERT_IMPORTED(import(stale, options));
  EXPECT_EQ(warnings, std::vector<std::string>{"output 'y' has the shape float32[2,3], the model declares another"});
}

TEST(OnnxImport, Opsets) {
  {
    std::vector<std::string> warnings;
    ImportOptions options;
    options.warnings = &warnings;
    ASSERT_IMPORTED(import(OneNode(99, "Relu", {{2}}, {}, 1).builder, options));
    EXPECT_EQ(warnings, std::vector<std::string>{"the model is of opset 99, this build knows opsets up to 28; its "
                                                 "operators are taken as they were then"});
    EXPECT_EQ(error_of(import_node(99, "Relu", {{2}}, {{"novel", 1}})),
              "m.onnx: 1 node is not supported: Relu-99 (1 node: '/Relu'): attribute 'novel' is not known");
  }
  EXPECT_EQ(error_of(import_node(9, "Range", {{}, {}, {}})),
            "m.onnx: 1 node is not supported: Range-9 (1 node: '/Range'): the model's opset is too old for it");
  OnnxBuilder b;
  b.output(b.op("Thing", {b.input("x", DType::kF32, {2})}, {}, "com.acme"));
  EXPECT_EQ(error_of(import(b)),
            "m.onnx: node '/Thing' (Thing) is of domain 'com.acme', which the model's opset imports do not list");
}

}  // namespace
}  // namespace aipu::frontend
