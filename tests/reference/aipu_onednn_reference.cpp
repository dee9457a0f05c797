// aipu-onednn-reference MODEL.onnx --output OUT.npy [--input NAME=FILE.npy | --seed S [--save-input FILE.npy]] [--shape
// NAME=1x3x224x224]
//
// Runs a float32 model with oneDNN primitives, for comparison with aipurun. With --seed the inputs are made up (uniform
// in [-1, 1)).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <random>

#include "frontend/onnx/import.h"
#include "runtime/base/file.h"
#include "runtime/tools/npy.h"
#include "tests/reference/dnnl_executor.h"

namespace {

struct Arguments {
  std::string model, output, save_input;
  std::vector<std::string> inputs, shapes;
  uint32_t seed = 1;
};

aipu::Status run(const Arguments& arguments) {
  AIPU_RETURN_IF_ERROR(aipu::prepare_output(arguments.output));
  if (!arguments.save_input.empty()) AIPU_RETURN_IF_ERROR(aipu::prepare_output(arguments.save_input));
  aipu::frontend::ImportOptions options;
  for (const std::string& shape : arguments.shapes)
    AIPU_RETURN_IF_ERROR(aipu::frontend::parse_shape_option(shape, &options.shapes));
  AIPU_ASSIGN_OR_RETURN(auto graph, aipu::frontend::import_onnx(arguments.model, options));
  std::map<std::string, aipu::reference::Tensor> inputs;
  for (const std::string& text : arguments.inputs) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos) return aipu::invalid_argument("--input wants NAME=FILE.npy");
    AIPU_ASSIGN_OR_RETURN(const aipu::tools::Array array, aipu::tools::read_npy(text.substr(equals + 1)));
    if (array.dtype != aipu::DType::kF32) return aipu::unsupported("the oneDNN reference takes float32 inputs only");
    aipu::reference::Tensor tensor{array.shape, std::vector<float>(array.data.size() / sizeof(float))};
    std::memcpy(tensor.data.data(), array.data.data(), array.data.size());
    inputs[text.substr(0, equals)] = std::move(tensor);
  }
  std::mt19937 random(arguments.seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const auto id : graph->inputs()) {
    const auto& value = graph->value(id);
    if (inputs.contains(value.name)) continue;
    const auto shape = aipu::graph::static_shape(value.type.shape);
    if (!shape)
      return aipu::invalid_argument(
          fmt::format("input '{}' has shape {}; give --shape", value.name, aipu::graph::shape_text(value.type.shape)));
    AIPU_ASSIGN_OR_RETURN(const int64_t count, aipu::tools::element_count(*shape));
    aipu::reference::Tensor tensor{*shape, std::vector<float>(static_cast<size_t>(count))};
    for (float& element : tensor.data) element = uniform(random);
    if (!arguments.save_input.empty())
      AIPU_RETURN_IF_ERROR(
          aipu::tools::write_npy(arguments.save_input, aipu::DType::kF32, tensor.shape, tensor.data.data()));
    inputs[value.name] = std::move(tensor);
  }
  AIPU_ASSIGN_OR_RETURN(const auto outputs, aipu::reference::run_with_dnnl(*graph, inputs));
  const auto& first = outputs.at(graph->outputs().front().name);
  return aipu::tools::write_npy(arguments.output, aipu::DType::kF32, first.shape, first.data.data());
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Runs a float32 ONNX model with oneDNN, for comparison");
  app.add_option("model", arguments.model, "ONNX file")->required();
  app.add_option("--output", arguments.output, "where the first output goes")->required();
  app.add_option("--input", arguments.inputs, "NAME=FILE.npy");
  app.add_option("--shape", arguments.shapes, "NAME=1x3x224x224");
  app.add_option("--seed", arguments.seed, "for inputs that are not given");
  app.add_option("--save-input", arguments.save_input, "where a made-up input goes");
  CLI11_PARSE(app, argc, argv);
  const aipu::Status status = run(arguments);
  if (!status.ok()) {
    fmt::print(stderr, "aipu-onednn-reference: error: {}\n", status.message());
    return 1;
  }
  return 0;
}
