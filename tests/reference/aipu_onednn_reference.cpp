// aipu-onednn-reference: runs a float32 model with oneDNN primitives, for comparison with aipurun. Inputs that are not
// given are made up, uniform in [-1, 1).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "frontend/onnx/import.h"
#include "runtime/base/file.h"
#include "runtime/tools/cli.h"
#include "runtime/tools/npy.h"
#include "tests/reference/dnnl_executor.h"

namespace {

struct Arguments {
  std::string model, output, save_input;
  std::vector<std::string> inputs, shapes;
  uint32_t seed = 1;
};

using Inputs = std::map<std::string, aipu::reference::Tensor>;

std::string input_names(const aipu::graph::Graph& graph) {
  std::string names;
  for (const auto id : graph.inputs()) names += (names.empty() ? "'" : ", '") + graph.value(id).name + "'";
  return names;
}

// The arrays of --input.
aipu::Result<Inputs> given_inputs(const Arguments& arguments, const aipu::graph::Graph& graph) {
  Inputs inputs;
  for (const std::string& text : arguments.inputs) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0)
      return aipu::invalid_argument(fmt::format("--input {}: expected NAME=FILE.npy", text));
    const std::string name = text.substr(0, equals);
    const auto known = std::find_if(graph.inputs().begin(), graph.inputs().end(),
                                    [&](const auto id) { return graph.value(id).name == name; });
    if (known == graph.inputs().end())
      return aipu::not_found(fmt::format("--input: there is no input '{}' (inputs: {})", name, input_names(graph)));
    AIPU_ASSIGN_OR_RETURN(const aipu::tools::Array array, aipu::tools::read_npy(text.substr(equals + 1)));
    if (array.dtype != aipu::DType::kF32) return aipu::unsupported("the oneDNN reference takes float32 inputs only");
    const auto shape = aipu::graph::static_shape(graph.value(*known).type.shape);
    if (shape && *shape != array.shape)
      return aipu::invalid_argument(fmt::format("input '{}': expected the shape {}, found {}", name,
                                                aipu::tools::shape_text(*shape), aipu::tools::shape_text(array.shape)));
    aipu::reference::Tensor tensor{array.shape, std::vector<float>(array.data.size() / sizeof(float))};
    std::memcpy(tensor.data.data(), array.data.data(), array.data.size());
    if (!inputs.emplace(name, std::move(tensor)).second)
      return aipu::invalid_argument(fmt::format("--input {}: '{}' is given twice", text, name));
  }
  return inputs;
}

aipu::Status run(const aipu::tools::Tool& tool, const Arguments& arguments) {
  const bool seed_given = tool.app.count("--seed") > 0;
  AIPU_RETURN_IF_ERROR(aipu::prepare_output(arguments.output));
  if (!arguments.save_input.empty()) AIPU_RETURN_IF_ERROR(aipu::prepare_output(arguments.save_input));
  aipu::frontend::ImportOptions options;
  for (const std::string& shape : arguments.shapes)
    AIPU_RETURN_IF_ERROR(aipu::frontend::parse_shape_option(shape, &options.shapes));
  AIPU_ASSIGN_OR_RETURN(auto graph, aipu::frontend::import_onnx(arguments.model, options));
  AIPU_ASSIGN_OR_RETURN(Inputs inputs, given_inputs(arguments, *graph));
  const size_t made_up = graph->inputs().size() - inputs.size();
  if (!arguments.save_input.empty() && made_up != 1)
    return aipu::invalid_argument(
        fmt::format("--save-input is for the one input that is made up; {} are, of {}", made_up, input_names(*graph)));
  if (made_up == 0 && seed_given) tool.warn("--seed: every input is given, nothing is made up");
  std::mt19937 random(arguments.seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const auto id : graph->inputs()) {
    const auto& value = graph->value(id);
    if (inputs.contains(value.name)) continue;
    if (value.type.dtype != aipu::DType::kF32)
      return aipu::unsupported(fmt::format("input '{}' is {}; the oneDNN reference takes float32 inputs only",
                                           value.name, aipu::dtype_name(value.type.dtype)));
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
  if (graph->outputs().size() > 1)
    tool.warn(fmt::format("the model has {} outputs; only '{}' is written", graph->outputs().size(),
                          graph->outputs().front().name));
  const auto& first = outputs.at(graph->outputs().front().name);
  return aipu::tools::write_npy(arguments.output, aipu::DType::kF32, first.shape, first.data.data());
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  aipu::tools::Tool tool("aipu-onednn-reference", "Runs a float32 ONNX model with oneDNN, for comparison with aipurun.",
                         "resnet18.onnx --shape input=1x3x224x224 -o expected.npy --save-input input.npy");
  CLI::App& app = tool.app;
  app.add_option("model", arguments.model, "an ONNX model")->required()->type_name("FILE");
  app.add_option("-o,--output", arguments.output, "where the first output goes")->required()->type_name("FILE");
  aipu::tools::add_list(app, "--input", arguments.inputs, "NAME=FILE.npy: value of an input")->type_name("NAME=FILE");
  aipu::tools::add_list(app, "--shape", arguments.shapes, "NAME=1x3x224x224: fixes the extents of an input")
      ->type_name("NAME=SHAPE");
  app.add_option("--seed", arguments.seed, "of an input that is not given")
      ->check(aipu::tools::whole_number(0, 0xffffffff))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--save-input", arguments.save_input, "where a made-up input goes")->type_name("FILE");
  return tool.run(argc, argv, [&] {
    const aipu::Status status = run(tool, arguments);
    return status.ok() ? 0 : tool.fail(status);
  });
}
