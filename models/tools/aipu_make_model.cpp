// aipu-make-model: writes one of the project's own models.
#include <string>

#include "models/networks.h"
#include "runtime/base/file.h"
#include "runtime/tools/cli.h"

namespace {

std::string model_list() {
  std::string text = "the models:";
  for (const auto& network : aipu::models::networks()) {
    std::string name(network.name);
    name.resize(std::max<size_t>(name.size() + 1, 20), ' ');
    text += "\n  " + name + std::string(network.summary);
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  using aipu::Status;
  std::string name, output;
  uint64_t seed = 1;
  aipu::tools::Tool tool("aipu-make-model", "Writes one of the project's own models as ONNX; " + model_list(),
                         "resnet18 -o resnet18.onnx");
  tool.app.add_option("model", name, "which of the models above")->required()->type_name("NAME");
  tool.app.add_option("-o,--output", output, "the file to write")->required()->type_name("FILE.onnx");
  tool.app.add_option("--seed", seed, "of the weights")
      ->check(aipu::tools::seed_number())
      ->type_name("N")
      ->capture_default_str();
  return tool.run(argc, argv, [&] {
    const auto* network = aipu::models::find_network(name);
    if (network == nullptr) return tool.fail_usage("there is no model '" + name + "'; --help lists them");
    Status status = aipu::prepare_output(output);
    if (status.ok()) status = network->build(seed)->save(output);
    return status.ok() ? 0 : tool.fail(status);
  });
}
