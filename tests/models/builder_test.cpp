// The networks of models/ are the same bytes for the same seed, and import with the shapes they promise.
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "models/networks.h"

namespace aipu::models {
namespace {

TEST(Networks, SameSeedSameBytes) {
  // The others are large, and made of the same layers.
  for (const std::string_view name :
       {"sample_cnn", "squeezenet", "resnet18_int8", "shufflenet", "yolo_v5n", "vit_tiny16", "soft_cap", "unit_rows"}) {
    const Network* network = find_network(name);
    ASSERT_NE(network, nullptr) << name;
    const std::string first = network->build(7)->serialize();
    EXPECT_EQ(first, network->build(7)->serialize()) << name;
    EXPECT_NE(first, network->build(8)->serialize()) << name;
  }
}

TEST(Networks, WeightsAreTheSameOnEveryMachine) {
  OnnxBuilder b("g", 1);
  b.weight({4}, 1.0);
  const std::string bytes = b.serialize();
  const float expected[] = {-1.19190311f, 1.38230371f, -0.576385498f, -0.440024853f};
  const std::string raw(reinterpret_cast<const char*>(expected), sizeof(expected));
  EXPECT_NE(bytes.find(raw), std::string::npos);
}

TEST(Networks, ImportWithSymbolicBatch) {
  const std::map<std::string_view, std::string> outputs{{"sample_cnn", "float32[N,10]"},
                                                        {"mlp", "float32[N,10]"},
                                                        {"alexnet", "float32[N,1000]"},
                                                        {"inception_v1", "float32[N,1000]"},
                                                        {"densenet121", "float32[N,1000]"},
                                                        {"squeezenet", "float32[N,1000]"},
                                                        {"resnet18", "float32[N,1000]"},
                                                        {"resnet50", "float32[N,1000]"},
                                                        {"resnet18_int8", "float32[N,1000]"},
                                                        {"shufflenet", "float32[N,1000]"},
                                                        {"mobilenet_v2", "float32[N,1000]"},
                                                        {"mobilenet_v3_large", "float32[N,1000]"},
                                                        {"efficientnet_b0", "float32[N,1000]"},
                                                        {"yolo_v5n", "float32[N,25200,85]"},
                                                        {"vit_tiny16", "float32[N,1000]"},
                                                        {"bert2", "float32[N,seq,768]"},
                                                        {"lstm_acoustic", "float32[N,frames,2000]"},
                                                        {"transformer_block", "float32[N,seq,64]"}};
  for (const auto& network : networks()) {
    const auto it = outputs.find(network.name);
    if (it == outputs.end()) continue;  // custom operators: *_plugin_test; the rest are large and of the same layers
    const std::string bytes = network.build(1)->serialize();
    const auto graph = frontend::import_onnx_from_memory(std::as_bytes(std::span(bytes)), std::string(network.name));
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ((*graph)->type((*graph)->outputs()[0].value).text(), it->second) << network.name;
    EXPECT_EQ(graph::verify_graph(**graph).message(), "") << network.name;
  }
  EXPECT_EQ(find_network("nothing"), nullptr);
}

}  // namespace
}  // namespace aipu::models
