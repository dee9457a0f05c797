// Hand-built models: old opsets, functions, sub-graphs, external data, symbols, and the exact text of errors.
#include "frontend/onnx/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "graph/ir/graph.h"
#include "graph/ir/op_def.h"
#include "models/onnx_builder.h"
#include "runtime/base/file.h"

namespace aipu::frontend {
namespace {

using graph::Graph;
using models::OnnxBuilder;
using models::TensorData;
using Imported = Result<std::unique_ptr<Graph>>;

Imported import(const OnnxBuilder& builder, const ImportOptions& options = {}) {
  const std::string bytes = builder.serialize();
  return import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx", options);
}

std::string error_of(const Imported& graph) { return graph.ok() ? "no error" : graph.status().message(); }

// "Flatten Softmax Reshape": the ops in execution order.
std::string ops_of(const Graph& graph) {
  std::string text;
  for (const auto id : graph.topological_order()) text += (text.empty() ? "" : " ") + graph.node(id).op;
  return text;
}

const graph::Node& only(const Graph& graph, const std::string& op) {
  for (const auto id : graph.topological_order()) {
    if (graph.node(id).op == op) return graph.node(id);
  }
  static const graph::Node kNone;
  ADD_FAILURE() << "no " << op << " in " << ops_of(graph);
  return kNone;
}

std::string output_type(const Graph& graph, size_t i = 0) { return graph.type(graph.outputs().at(i).value).text(); }

std::vector<int64_t> constant_input(const Graph& graph, const graph::Node& node, size_t i) {
  const auto* constant = i < node.inputs.size() ? graph.constant(node.inputs[i]) : nullptr;
  if (constant == nullptr) {
    ADD_FAILURE() << node.op << " has no constant input " << i;
    return {};
  }
  return constant->to_int64s();
}

// One node over float32 inputs "a", "b", ... of the given shapes.
struct OneNode {
  OneNode(int64_t opset, const std::string& op, const std::vector<models::Extents>& inputs,
          const models::NamedAttributes& attributes = {}, size_t outputs = 1) {
    builder.set_opset(opset);
    std::vector<std::string> names;
    for (const auto& extents : inputs)
      names.push_back(builder.input(std::string(1, static_cast<char>('a' + names.size())), DType::kF32, extents));
    for (const auto& name : builder.node(op, names, attributes, outputs)) builder.output(name);
  }
  OnnxBuilder builder;
};

Imported import_node(int64_t opset, const std::string& op, const std::vector<models::Extents>& inputs,
                     const models::NamedAttributes& attributes = {}, size_t outputs = 1) {
  return import(OneNode(opset, op, inputs, attributes, outputs).builder);
}

#define ASSERT_IMPORTED(graph) ASSERT_TRUE((graph).ok()) << (graph).status().message()

using Ints = std::vector<int64_t>;

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

// ---- constants

TEST(OnnxImport, ConstantInAllForms) {
  OnnxBuilder b;
  std::vector<std::string> values;
  values.push_back(b.op("Constant", {}, {{"value", TensorData::f32({2}, {1, 2})}}));
  values.push_back(b.op("Constant", {}, {{"value_int", 7}}));
  values.push_back(b.op("Constant", {}, {{"value_ints", Ints{1, 2, 3}}}));
  values.push_back(b.op("Constant", {}, {{"value_float", 0.5}}));
  values.push_back(b.op("Constant", {}, {{"value_floats", std::vector<double>{1, 2}}}));
  for (const auto& value : values) b.output(value);
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  const std::vector<std::string> types{"float32[2]", "int64[]", "int64[3]", "float32[]", "float32[2]"};
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(output_type(**graph, i), types[i]);
    EXPECT_NE((*graph)->constant((*graph)->outputs()[i].value), nullptr);
  }
}

TEST(OnnxImport, StringsAreNumbersOfATable) {
  OnnxBuilder b;
  b.output(b.op("Constant", {}, {{"value_string", "text"}}));
  b.output(b.op("Constant", {}, {{"value_strings", std::vector<std::string>{"b", "", "text", "b"}}}));
  EXPECT_EQ(error_of(import(b)), "m.onnx: the model has strings, for which there is no table (ImportOptions::strings)");
  ImportOptions options;
  options.strings = std::make_shared<graph::StringTable>();
  const auto graph = import(b, options);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph, 0), "string[]");
  EXPECT_EQ(output_type(**graph, 1), "string[4]");
  EXPECT_EQ(options.strings->texts(), (std::vector<std::string>{"", "text", "b"}));
  EXPECT_EQ((*graph)->constant((*graph)->outputs()[1].value)->to_int64s(), (std::vector<int64_t>{2, 0, 1, 2}));
}

TEST(OnnxImport, TypedDataOfEveryElementType) {
  const auto elements = [](DType dtype, const std::vector<std::byte>& bytes) -> std::string {
    OnnxBuilder b;
    b.output(b.op("Identity", {b.typed_initializer({dtype, {2}, bytes}, "w")}));
    const auto graph = import(b);
    if (!graph.ok()) return graph.status().message();
    const auto& node = only(**graph, "Identity");
    const auto* constant = (*graph)->constant(node.inputs[0]);
    if (constant->dtype() != dtype || !std::ranges::equal(constant->bytes(), bytes)) return "differs";
    return "same";
  };
  for (const DType dtype : {DType::kBool, DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kU32,
                            DType::kI64, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    std::vector<std::byte> bytes(2 * dtype_bytes(dtype));
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(dtype == DType::kBool ? i % 2 : 0x35 + 17 * i);
    EXPECT_EQ(elements(dtype, bytes), "same") << dtype_name(dtype);
  }
  EXPECT_EQ(elements(DType::kI32, std::vector<std::byte>(12)),
            "m.onnx: node '/Identity' (Identity): tensor 'w' has 3 elements in int32_data, its shape needs 2");
}

TEST(OnnxImport, SparseInitializersBecomeDense) {
  const auto dense = [](const TensorData& indices, std::vector<int64_t> shape) -> Imported {
    OnnxBuilder b;
    b.sparse_initializer(TensorData::f32({2}, {5, 7}), indices, std::move(shape), "w");
    b.output(b.op("Identity", {"w"}));
    return import(b);
  };
  for (const auto& indices : {TensorData::i64({2}, {1, 5}), TensorData::i64({2, 2}, {0, 1, 1, 2})}) {
    const auto graph = dense(indices, {2, 3});
    ASSERT_IMPORTED(graph);
    EXPECT_EQ((*graph)->constant(only(**graph, "Identity").inputs[0])->to_doubles(),
              (std::vector<double>{0, 5, 0, 0, 0, 7}));
  }
  const std::string where = "m.onnx: node '/Identity' (Identity): sparse tensor 'w' ";
  EXPECT_EQ(error_of(dense(TensorData::i64({2}, {1, 6}), {2, 3})), where + "has the index 6 of 6 elements");
  EXPECT_EQ(error_of(dense(TensorData::i64({2, 2}, {0, 1, 2, 2}), {2, 3})),
            where + "has the index 2 in an axis of extent 2");
  EXPECT_EQ(error_of(dense(TensorData::i64({2}, {1, 2}), {1 << 20, 1 << 20})),
            where + "is more than 268435456 bytes when dense");
}

TEST(OnnxImport, InitializersListedAsInputsAreNoInputs) {
  OnnxBuilder b;
  b.set_ir_version(3);
  const auto x = b.input("x", DType::kF32, {2});
  b.input("w", DType::kF32, {2});
  b.initializer(TensorData::f32({2}, {1, 2}), "w");
  b.output(b.op("Add", {x, "w"}));
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  ASSERT_EQ((*graph)->inputs().size(), 1u);
  EXPECT_NE((*graph)->constant(only(**graph, "Add").inputs[1]), nullptr);
}

TEST(OnnxImport, LargeWeightsAreBorrowed) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {1024});
  b.output(b.op("Add", {x, b.weight({1024}, 1.0)}));
  const std::string bytes = b.serialize();
  const auto graph = import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx");
  ASSERT_IMPORTED(graph);
  EXPECT_EQ((*graph)->constant(only(**graph, "Add").inputs[1])->bytes().size(), 4096u);
}

// ---- external data

class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("aipu_external_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "model");
    const auto x = builder_.input("x", DType::kF32, {4});
    builder_.output(builder_.op("Add", {x, builder_.initializer(TensorData::f32({4}, {1, 2, 3, 4}), "w")}));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "model" / "m.onnx").string(); }

  std::filesystem::path folder_;
  OnnxBuilder builder_;
};

TEST_F(ExternalData, IsReadFromBesideTheModel) {
  ASSERT_TRUE(builder_.save_with_external_data(path(), "m.data", 1).ok());
  const auto graph = import_onnx(path());
  ASSERT_IMPORTED(graph);
  EXPECT_EQ((*graph)->constant(only(**graph, "Add").inputs[1])->to_doubles(), (std::vector<double>{1, 2, 3, 4}));
}

TEST_F(ExternalData, TruncatedFile) {
  ASSERT_TRUE(builder_.save_with_external_data(path(), "m.data", 1).ok());
  std::filesystem::resize_file(folder_ / "model" / "m.data", 12);
  EXPECT_EQ(error_of(import_onnx(path())),
            path() + ": node '/Add' (Add): tensor 'w' needs bytes 0 to 16 of 'm.data', which has 12");
}

// What is imported is in memory: the files may be cut off behind the importer's back, a mapping would end in SIGBUS.
TEST_F(ExternalData, FilesThatAreCutOffAfterTheyWereRead) {
  constexpr int64_t kCount = 100000;
  const std::vector<float> inside(kCount, 2), outside(kCount, 3);
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {kCount});
  const auto sum = b.op("Add", {x, b.initializer(TensorData::f32({kCount}, outside), "outside")});
  const auto product = b.op("Mul", {sum, b.initializer(TensorData::f32({kCount}, outside), "shared")});
  b.output(b.op("Sub", {product, b.initializer(TensorData::f32({kCount - 1, 1}, {inside.begin() + 1, inside.end()}))}));
  ASSERT_TRUE(b.save_with_external_data(path(), "m.data", kCount * sizeof(float)).ok());
  const auto graph = import_onnx(path());
  ASSERT_IMPORTED(graph);
  std::filesystem::resize_file(path(), 0);
  std::filesystem::resize_file(folder_ / "model" / "m.data", 0);
  const auto last = [&](const char* op) {
    return (*graph)->constant(only(**graph, op).inputs[1])->to_doubles().back();
  };
  EXPECT_EQ(last("Add"), 3);
  EXPECT_EQ(last("Mul"), 3);
  EXPECT_EQ(last("Sub"), 2);
}

TEST_F(ExternalData, MayNotLeaveTheFolder) {
  ASSERT_TRUE(builder_.save_with_external_data(path(), "../m.data", 1).ok());
  EXPECT_EQ(error_of(import_onnx(path())), path() +
                                               ": node '/Add' (Add): tensor 'w' has the external data location "
                                               "'../m.data'; it must be a path below the model's folder");
}

TEST_F(ExternalData, SymbolicLinksMayNotLeaveTheFolderEither) {
  ASSERT_TRUE(builder_.save_with_external_data(path(), "m.data", 1).ok());
  std::filesystem::rename(folder_ / "model" / "m.data", folder_ / "outside.data");
  std::filesystem::create_symlink(folder_ / "outside.data", folder_ / "model" / "m.data");
  EXPECT_EQ(error_of(import_onnx(path())), path() +
                                               ": node '/Add' (Add): tensor 'w' has the external data location "
                                               "'m.data', which leads out of the model's folder");
}

TEST_F(ExternalData, NeedsAFolder) {
  ASSERT_TRUE(builder_.save_with_external_data(path(), "m.data", 1).ok());
  const auto text = read_text_file(path());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(error_of(import_onnx_from_memory(std::as_bytes(std::span(*text)), "m.onnx")),
            "m.onnx: node '/Add' (Add): tensor 'w' keeps its data in another file, and this model has no folder");
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

// ---- hostile bytes

TEST(OnnxImport, NotAModel) {
  const std::string garbage = "this is no protobuf";
  EXPECT_EQ(error_of(import_onnx_from_memory(std::as_bytes(std::span(garbage)), "m.onnx")),
            "m.onnx: not an ONNX model: the protobuf is damaged or truncated");
  EXPECT_EQ(error_of(import_onnx_from_memory({}, "m.onnx")), "m.onnx: not an ONNX model: there is no graph in it");
}

TEST(OnnxImport, TensorsAreNotTrusted) {
  const auto with_weight = [](TensorData data) {
    OnnxBuilder b;
    b.output(b.op("Neg", {b.initializer(std::move(data), "w")}));
    return error_of(import(b));
  };
  const std::string where = "m.onnx: node '/Neg' (Neg): tensor 'w' ";
  EXPECT_EQ(with_weight({DType::kF32, {int64_t{1} << 60}, {}}),
            where + "has 0 bytes of data, its shape and type need 4611686018427387904");
  EXPECT_EQ(with_weight({DType::kF32, {int64_t{1} << 62}, {}}), where + "has a size beyond 64 bits");
  EXPECT_EQ(with_weight({DType::kF32, {int64_t{1} << 40}, {}}),
            where + "has 0 bytes of data, its shape and type need 4398046511104");
  EXPECT_EQ(with_weight({DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}, {}}), where + "has a size beyond 64 bits");
  EXPECT_EQ(with_weight({DType::kF32, {-1}, {}}), where + "has the negative extent -1");
  EXPECT_EQ(with_weight({DType::kF32, std::vector<int64_t>(40, 1), {}}), where + "has rank 40, the limit is 32");
}

TEST(OnnxImport, TruncationsAndFlippedBitsAreErrorsOrModels) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {"N", 3, 8, 8});
  b.output(b.relu(b.conv_bn(x, 3, 4, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}})));
  const std::string good = b.serialize();
  int errors = 0;
  const auto attempt = [&](const std::string& bytes) {
    const auto graph = import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx");
    if (graph.ok()) return;
    ++errors;
    EXPECT_EQ(graph.status().message().find('\n'), std::string::npos);
  };
  for (size_t size = 0; size < good.size(); ++size) attempt(good.substr(0, size));
  EXPECT_GT(errors, static_cast<int>(good.size()) - 8);  // a cut at a field's end may leave a model
  for (size_t bit = 0; bit < good.size() * 8; bit += 3) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    attempt(flipped);
  }
}

}  // namespace
}  // namespace aipu::frontend
