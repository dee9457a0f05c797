// Compass IR: graphs survive the round trip, a DSL call has the reference's exact form, damaged texts are one-line
// errors.
#include "frontend/ir/compass_ir.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "frontend/onnx/import.h"
#include "models/networks.h"
#include "models/onnx_builder.h"
#include "tests/frontend/onnx_cases.h"

namespace aipu::frontend {
namespace {

using graph::Graph;
using models::OnnxBuilder;
using models::TensorData;

Result<std::unique_ptr<Graph>> read_back(const CompassIr& ir) { return read_compass_ir(ir.text, ir.weights, nullptr); }

bool has_strings(const Graph& graph) {
  const auto is_string = [&](graph::ValueId id) { return id.valid() && graph.type(id).dtype == DType::kString; };
  const auto order = graph.topological_order();
  return std::any_of(graph.inputs().begin(), graph.inputs().end(), is_string) ||
         std::any_of(order.begin(), order.end(), [&](graph::NodeId node) {
           const auto& outputs = graph.node(node).outputs;
           return std::any_of(outputs.begin(), outputs.end(), is_string);
         });
}

void expect_round_trip(const Graph& graph, const std::string& name) {
  const CompassIr ir = write_compass_ir(graph);
  // What strings mean is in no graph, so that nobody reads them back as something else.
  if (has_strings(graph)) {
    EXPECT_NE(read_back(ir).status().message().find("unknown element type 'string'"), std::string::npos) << name;
    return;
  }
  EXPECT_EQ(write_compass_ir(graph, false).text, ir.text) << name;
  const auto again = read_back(ir);
  ASSERT_TRUE(again.ok()) << name << ": " << again.status().message();
  EXPECT_EQ(graph::print_graph(**again), graph::print_graph(graph)) << name;
  EXPECT_EQ(write_compass_ir(**again).text, ir.text) << name;
}

std::unique_ptr<Graph> imported(const OnnxBuilder& builder) {
  const std::string bytes = builder.serialize();
  auto graph = import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(*graph) : nullptr;
}

std::unique_ptr<Graph> small_graph() {
  OnnxBuilder b("small graph");
  const auto x = b.input("x:0", DType::kF32, {"N", 3, "H", 8});
  const auto y = b.op("Resize",
                      {b.relu(b.conv(x, 3, 2, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}})), "",
                       b.initializer(TensorData::f32({4}, {1, 1, 2, 2}))},
                      {{"mode", "nearest"}});
  b.output(b.op("Reshape", {y, b.ints({0, -1})}), "out put", DType::kF32, {"N", ""});
  return imported(b);
}

TEST(CompassIr, SmallGraph) {
  const auto graph = small_graph();
  ASSERT_NE(graph, nullptr);
  expect_round_trip(*graph, "small");
}

TEST(CompassIr, HeaderAndLayersHaveTheReferencesKeys) {
  OnnxBuilder b("tiny");
  b.output(b.op("LeakyRelu", {b.input("x", DType::kF32, {"N", 4})}, {{"alpha", 0.5}}), "y", DType::kF32, {"N", 4});
  const auto graph = imported(b);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(write_compass_ir(*graph).text,
            "model_name=tiny\n"
            "layer_number=4\n"
            "data_format=NHWC\n"
            "precision=float32\n"
            "batch_size=1\n"
            "input_tensors=[x]\n"
            "output_tensors=[y]\n"
            "compat_quantized_model=false\n"
            "format=aipu-graph-1\n"
            "output_names=[y]\n"
            "\n"
            "layer_id=0\n"
            "layer_name=x\n"
            "layer_type=Input\n"
            "layer_bottom=[]\n"
            "layer_bottom_shape=[]\n"
            "layer_bottom_type=[]\n"
            "layer_top=[x]\n"
            "layer_top_shape=[[N, 4]]\n"
            "layer_top_type=[float32]\n"
            "\n"
            "layer_id=1\n"
            "layer_name=LeakyRelu\n"
            "layer_type=LeakyRelu\n"
            "layer_bottom=[x]\n"
            "layer_bottom_shape=[[N, 4]]\n"
            "layer_bottom_type=[float32]\n"
            "layer_top=[LeakyRelu]\n"
            "layer_top_shape=[[N, 4]]\n"
            "layer_top_type=[float32]\n"
            "layer_origins=\"/LeakyRelu\" \"LeakyRelu\"\n"
            "attr.alpha=float 0.5\n"
            "\n"
            "layer_id=2\n"
            "layer_name=y\n"
            "layer_type=Identity\n"
            "layer_bottom=[LeakyRelu]\n"
            "layer_bottom_shape=[[N, 4]]\n"
            "layer_bottom_type=[float32]\n"
            "layer_top=[y]\n"
            "layer_top_shape=[[N, 4]]\n"
            "layer_top_type=[float32]\n"
            "layer_origins=\"/y\" \"Identity\"\n"
            "\n"
            "layer_id=3\n"
            "layer_name=N\n"
            "layer_type=Symbol\n"
            "symbol_kind=extent\n"
            "symbol_tensor=x\n"
            "symbol_index=0\n");
}

TEST(CompassIr, SubgraphsWithCapturesAndRunSymbols) {
  OnnxBuilder then_branch("then");
  then_branch.node_to("Add", {"x", "w"}, {"then_out"});
  then_branch.output("then_out");
  OnnxBuilder else_branch("else");
  else_branch.node_to("Mul", {"x", "x"}, {"else_out"});
  else_branch.output("else_out");
  OnnxBuilder b;
  b.input("c", DType::kBool, {});
  b.input("x", DType::kF32, {"N", 4});
  b.initializer(TensorData::f32({4}, {1, 2, 3, 4}), "w");
  b.output(b.op("If", {"c"}, {{"then_branch", &then_branch}, {"else_branch", &else_branch}}));
  b.output(b.op("NonZero", {"x"}));
  const auto graph = imported(b);
  ASSERT_NE(graph, nullptr);
  expect_round_trip(*graph, "subgraphs");
}

TEST(CompassIr, EveryNetworkAndModel) {
  for (const auto& network : models::networks()) {
    if (network.needs_plugin || network.many_weights) continue;
    const auto graph = imported(*network.build(1));
    ASSERT_NE(graph, nullptr) << network.name;
    expect_round_trip(*graph, std::string(network.name));
  }
  for (const auto& c : development_models()) {
    const auto graph = import_onnx(c.model);
    if (graph.ok()) expect_round_trip(**graph, c.name);
  }
  for (const auto& c : onnx_backend_cases()) {
    const auto graph = import_onnx(c.model);
    if (graph.ok()) expect_round_trip(**graph, c.name);
  }
}

TEST(CompassIr, DslCallInTheReferencesForm) {
  DslCall call;
  call.entry = "func";
  call.inputs = {{DType::kI8, {4, 8}}, {DType::kI8, {32}}};
  call.outputs = {{DType::kI8, {32}}};
  const std::vector<float> values(16, 0.5f);
  call.constants = {{"w", graph::Constant::of<float>(DType::kF32, {16}, values)}};
  call.attributes = {{"n", "1000"}};
  const CompassIr ir = write_dsl_ir(call);
  EXPECT_EQ(ir.text,
            "model_name=unknown\n"
            "layer_number=3\n"
            "data_format=NHWC\n"
            "precision=float32\n"
            "batch_size=1\n"
            "input_tensors=[input0,input1]\n"
            "output_tensors=[output0]\n"
            "compat_quantized_model=false\n"
            "\n"
            "layer_id=0\n"
            "layer_name=0_input\n"
            "layer_type=Input\n"
            "layer_bottom=[]\n"
            "layer_bottom_shape=[]\n"
            "layer_bottom_type=[]\n"
            "layer_top=[input0]\n"
            "layer_top_shape=[4, 8]\n"
            "layer_top_type=[int8]\n"
            "\n"
            "layer_id=1\n"
            "layer_name=1_input\n"
            "layer_type=Input\n"
            "layer_bottom=[]\n"
            "layer_bottom_shape=[]\n"
            "layer_bottom_type=[]\n"
            "layer_top=[input1]\n"
            "layer_top_shape=[32]\n"
            "layer_top_type=[int8]\n"
            "\n"
            "layer_id=2\n"
            "layer_name=dsl_func\n"
            "layer_type=DSL_func\n"
            "layer_bottom=[input0,input1]\n"
            "layer_bottom_shape=[[4, 8], [32]]\n"
            "layer_bottom_type=[int8,int8]\n"
            "layer_top=[output0]\n"
            "layer_top_shape=[[32]]\n"
            "layer_top_type=[int8]\n"
            "w_type=float32\n"
            "w_shape=[16]\n"
            "w_offset=0\n"
            "w_size=64\n"
            "n=1000\n");
  EXPECT_EQ(ir.weights.size(), 64u);

  const auto again = read_dsl_ir(ir.text, ir.weights, nullptr);
  ASSERT_TRUE(again.ok()) << again.status().message();
  const CompassIr twice = write_dsl_ir(*again);
  EXPECT_EQ(twice.text, ir.text);
  EXPECT_EQ(twice.weights, ir.weights);
  EXPECT_EQ(read_back(ir).status().message(),
            "layer type DSL_func: unknown operator; a plugin can define it (--plugin FILE; plugins=[FILE] in Python)");
}

TEST(CompassIr, Errors) {
  const auto error = [](const std::string& text) {
    const auto graph = read_compass_ir(text, {}, nullptr);
    return graph.ok() ? std::string("no error") : graph.status().message();
  };
  const std::string header = "model_name=m\noutput_tensors=[x]\noutput_names=[x]\nformat=aipu-graph-1\n";
  EXPECT_EQ(error(""), "not a Compass IR text: it is empty");
  EXPECT_EQ(error("garbage\n"), "line 1: expected key=value");
  EXPECT_EQ(error("a=1\na=2\n"), "line 2: 'a' is there twice");
  EXPECT_EQ(error("format=other\n"), "format 'other' is not known, this build reads aipu-graph-1");
  EXPECT_EQ(error(header), "layer at line 1: output_tensors: 'x' is not defined above");
  const std::string constant =
      "\nlayer_type=Constant\nlayer_top=[x]\nlayer_top_shape=[[4]]\nlayer_top_type=[float32]\nweights_type="
      "float32\nweights_shape=[4]"
      "\nweights_offset=0\n";
  EXPECT_EQ(error(header + constant + "weights_size=16\n"),
            "layer at line 6: weights: bytes 0 to 0+16 are not in the weights, which have 0");
  EXPECT_EQ(error(header + constant + "weights_size=12\n"),
            "layer at line 6: weights: the size 12 does not fit float32[4]");
  EXPECT_EQ(error(header + "\nlayer_type=Input\nlayer_top=[x]\nlayer_top_shape=[[4]\nlayer_top_type=[float32]\n"),
            "layer at line 6: layer_top_shape: expected ']', found the end");
}

// Well-formed, but no valid graph: that is the text's fault.
TEST(CompassIr, ATextThatContradictsItselfIsAnInvalidModel) {
  const auto graph = small_graph();
  ASSERT_NE(graph, nullptr);
  CompassIr bad = write_compass_ir(*graph);
  const size_t relu = bad.text.find("layer_type=Relu");
  const size_t type = bad.text.find("layer_top_type=[float32]", relu);
  ASSERT_NE(type, std::string::npos);
  bad.text.replace(type, sizeof "layer_top_type=[float32]" - 1, "layer_top_type=[int8]");
  const auto result = read_back(bad);
  EXPECT_EQ(result.status().code(), ErrorCode::kInvalidModel) << result.status().message();
}

TEST(CompassIr, DamagedTextsAreErrorsOrGraphs) {
  const auto graph = small_graph();
  ASSERT_NE(graph, nullptr);
  const CompassIr good = write_compass_ir(*graph);
  for (size_t at = 0; at < good.text.size(); ++at) {
    for (const char replacement : {'\n', '9', ']', '-'}) {
      CompassIr bad = good;
      bad.text[at] = replacement;
      const auto result = read_back(bad);
      EXPECT_EQ(result.status().message().find('\n'), std::string::npos);
    }
    const auto cut = read_compass_ir(std::string_view(good.text).substr(0, at), good.weights, nullptr);
    EXPECT_EQ(cut.status().message().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace aipu::frontend
