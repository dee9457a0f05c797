// Fields that came after the first versions of the format: overloads of functions, metadata, and fields of a future
// that nobody knows.
#include <aipu_onnx/onnx.pb.h>
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "graph/ir/graph.h"
#include "models/onnx_builder.h"

namespace aipu::frontend {
namespace {

using models::OnnxBuilder;

onnx::ModelProto message_of(const OnnxBuilder& builder) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(builder.serialize()));
  return model;
}

Result<std::unique_ptr<graph::Graph>> import(const onnx::ModelProto& model,
                                             std::vector<std::string>* warnings = nullptr) {
  const std::string bytes = model.SerializeAsString();
  ImportOptions options;
  options.warnings = warnings;
  return import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx", options);
}

std::string ops_or_error(const onnx::ModelProto& model) {
  const auto graph = import(model);
  if (!graph.ok()) return graph.status().message();
  std::string ops;
  for (const auto id : (*graph)->topological_order()) ops += (ops.empty() ? "" : " ") + (*graph)->node(id).op;
  return ops;
}

// y = F(x), where F is Neg, and Abs in the overload "second".
onnx::ModelProto two_overloads() {
  OnnxBuilder b;
  for (const char* op : {"Neg", "Abs"}) {
    OnnxBuilder body;
    body.node_to(op, {body.input("x", DType::kF32, {})}, {"y"});
    body.output("y");
    b.add_function("my.domain", "F", body);
  }
  b.output(b.op("F", {b.input("in", DType::kF32, {4})}, {}, "my.domain"));
  auto model = message_of(b);
  model.mutable_functions(1)->set_overload("second");
  return model;
}

void add_unknown(google::protobuf::Message* message) {
  message->GetReflection()->MutableUnknownFields(message)->AddVarint(200, 1);
}

onnx::ModelProto relu() {
  OnnxBuilder b;
  const auto y = b.op("LeakyRelu", {b.input("x", DType::kF32, {4})}, {{"alpha", 0.5}});
  b.output(b.op("Add", {y, b.initializer(models::TensorData::f32({1}, {1}), "w")}));
  return message_of(b);
}

TEST(OnnxFields, OverloadsOfAFunctionAreToldApart) {
  auto model = two_overloads();
  EXPECT_EQ(ops_or_error(model), "Neg");
  model.mutable_graph()->mutable_node(0)->set_overload("second");
  EXPECT_EQ(ops_or_error(model), "Abs");
  model.mutable_graph()->mutable_node(0)->set_overload("third");
  EXPECT_EQ(ops_or_error(model),
            "m.onnx: node '/F' (F) calls the overload 'third' of a function, which the model does not have");
  model.mutable_functions(1)->clear_overload();
  EXPECT_EQ(ops_or_error(model), "m.onnx: function 'my.domain::F' is there twice");
}

TEST(OnnxFields, MetadataAndDevicesChangeNothing) {
  auto model = relu();
  for (auto* entry : {model.mutable_graph()->mutable_node(0)->add_metadata_props(),
                      model.mutable_graph()->mutable_initializer(0)->add_metadata_props(), model.add_metadata_props(),
                      model.mutable_graph()->add_metadata_props()}) {
    entry->set_key("namespace");
    entry->set_value("layer.0");
  }
  model.mutable_graph()->mutable_node(0)->add_device_configurations()->set_configuration_id("d");
  model.add_configuration()->set_name("d");
  std::vector<std::string> warnings;
  EXPECT_TRUE(import(model, &warnings).ok());
  EXPECT_TRUE(warnings.empty());
}

TEST(OnnxFields, UnknownFieldsThatMayChangeTheMeaningAreRefused) {
  const std::string tail =
      " has the field 200, which this build does not know (IR version 8, known are versions up to 14)";
  auto node = relu();
  add_unknown(node.mutable_graph()->mutable_node(0));
  EXPECT_EQ(ops_or_error(node), "m.onnx: NodeProto '/LeakyRelu'" + tail);
  auto attribute = relu();
  add_unknown(attribute.mutable_graph()->mutable_node(0)->mutable_attribute(0));
  EXPECT_EQ(ops_or_error(attribute), "m.onnx: AttributeProto 'alpha'" + tail);
  auto tensor = relu();
  add_unknown(tensor.mutable_graph()->mutable_initializer(0));
  EXPECT_EQ(ops_or_error(tensor), "m.onnx: TensorProto 'w'" + tail);
  auto type = relu();
  add_unknown(type.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type());
  EXPECT_EQ(ops_or_error(type), "m.onnx: Tensor 'x'" + tail);
}

TEST(OnnxFields, UnknownKindsOfAttributesAreRefused) {
  auto model = relu();
  auto* attribute = model.mutable_graph()->mutable_node(0)->mutable_attribute(0);
  attribute->clear_type();
  attribute->GetReflection()->MutableUnknownFields(attribute)->AddVarint(20, 99);  // the number of `type`
  EXPECT_NE(ops_or_error(model).find("AttributeProto 'alpha' has the field 20"), std::string::npos);
}

TEST(OnnxFields, UnknownFieldsOfTheModelItselfAreAWarning) {
  auto model = relu();
  add_unknown(&model);
  std::vector<std::string> warnings;
  EXPECT_TRUE(import(model, &warnings).ok());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "ModelProto has the field 200, which this build does not know (IR version 8, known are versions up to 14)");
}

}  // namespace
}  // namespace aipu::frontend
