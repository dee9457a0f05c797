// The networks of models/ spell normalisations and activations as exporters do; recognise_operators finds every one of
// them.
#include <gtest/gtest.h>

#include <map>

#include "frontend/onnx/import.h"
#include "graph/passes/pass.h"
#include "models/networks.h"

namespace aipu::models {
namespace {

// How often each op occurs after the passes up to and with recognise_operators.
std::map<std::string, int> ops_of(std::string_view name) {
  const Network* network = find_network(name);
  if (network == nullptr) {
    ADD_FAILURE() << "no network " << name;
    return {};
  }
  const std::string bytes = network->build(1)->serialize();
  const auto graph = frontend::import_onnx_from_memory(std::as_bytes(std::span(bytes)), std::string(name));
  if (!graph.ok()) {
    ADD_FAILURE() << graph.status().message();
    return {};
  }
  graph::PassContext context;
  graph::RunOptions options;
  options.stop_after = "recognise_operators";
  const Status status = graph::run_passes(**graph, graph::graph_pipeline(), context, options);
  EXPECT_TRUE(status.ok()) << status.message();
  std::map<std::string, int> counts;
  for (const graph::NodeId id : (*graph)->topological_order()) ++counts[std::as_const(**graph).node(id).op];
  return counts;
}

TEST(Recognised, Bert) {
  auto ops = ops_of("bert2");
  EXPECT_EQ(ops["LayerNormalization"], 5);  // behind the embedding, and two per layer
  EXPECT_EQ(ops["Gelu"], 2);
  EXPECT_EQ(ops["ReduceMean"] + ops["Sqrt"] + ops["Pow"] + ops["Erf"], 0);
}

TEST(Recognised, Gpt) {
  auto ops = ops_of("gpt2_6l");
  EXPECT_EQ(ops["Gelu"], 6);
  EXPECT_EQ(ops["Tanh"] + ops["Pow"], 0);
}

TEST(Recognised, VisionTransformer) {
  auto ops = ops_of("vit_tiny16");
  EXPECT_EQ(ops["Gelu"], 12);
  EXPECT_EQ(ops["Erf"], 0);
}

TEST(Recognised, EfficientNet) {
  auto ops = ops_of("efficientnet_b0");
  EXPECT_EQ(ops["Swish"], 49);    // stem and head, two per block but one in the first, one in each squeeze
  EXPECT_EQ(ops["Sigmoid"], 16);  // the gates of 16 blocks
}

TEST(Recognised, Detector) {
  auto ops = ops_of("yolo_v5n");
  EXPECT_EQ(ops["Swish"], 57);
  EXPECT_EQ(ops["Sigmoid"], 3);  // of the three heads
}

TEST(Recognised, TransformerBlock) {
  auto ops = ops_of("transformer_block");
  EXPECT_EQ(ops["Gelu"], 1);
}

}  // namespace
}  // namespace aipu::models
