// Compass IR: a text, and behind its first NUL the weights. What is read goes through the graph passes and survives
// being written and read once more.
#include "frontend/ir/compass_ir.h"
#include "frontend/onnx/import.h"
#include "graph/ir/graph.h"
#include "graph/passes/pass.h"
#include "tests/fuzz/onnx_samples.h"
#include "tests/fuzz/targets/target.h"

namespace aipu::fuzz {
namespace {

std::pair<std::string, std::string> split(std::string_view input) {
  const size_t end = std::min(input.find('\0'), input.size());
  return {std::string(input.substr(0, end)), std::string(input.substr(std::min(end + 1, input.size())))};
}

std::string join(const frontend::CompassIr& ir) {
  std::string input = ir.text + '\0';
  input.append(reinterpret_cast<const char*>(ir.weights.data()), ir.weights.size());
  return input;
}

}  // namespace

void one_input(std::string_view input) {
  const auto [text, weights] = split(input);
  const auto bytes = std::as_bytes(std::span(weights));
  if (const auto call = frontend::read_dsl_ir(text, bytes, nullptr); !call.ok()) check_error(call.status());
  const auto graph = frontend::read_compass_ir(text, bytes, nullptr);
  if (!graph.ok()) return check_error(graph.status());
  const Status valid = graph::verify_graph(**graph);
  check(valid.ok(), "what was read is not valid: " + valid.message());
  const frontend::CompassIr written = frontend::write_compass_ir(**graph);
  const auto again = frontend::read_compass_ir(written.text, written.weights, nullptr);
  check(again.ok(), "what was written cannot be read: " + again.status().message());
  check(graph::print_graph(**again) == graph::print_graph(**graph), "what was written is another graph");
  graph::PassContext context;
  if (const Status passed = graph::run_passes(**graph, graph::graph_pipeline(), context, {}); !passed.ok())
    check_error(passed);
}

uint64_t runs() { return 1500; }

std::vector<std::string> seeds() {
  std::vector<std::string> result;
  for (const auto& [name, bytes] : sample_models()) {
    const auto graph = frontend::import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx", {});
    check(graph.ok(), graph.status().message());
    result.push_back(join(frontend::write_compass_ir(**graph)));
  }
  frontend::DslCall call;
  call.entry = "f";
  call.inputs = {{DType::kF32, {2, 3}}};
  call.outputs = {{DType::kF32, {2, 3}}};
  call.attributes = {{"n", "6"}};
  result.push_back(join(frontend::write_dsl_ir(call)));
  return result;
}

std::string mutate(const std::string& input, const std::string& other, Random& random) {
  const auto [text, weights] = split(input);
  const bool cut = below(random, 8) == 0;
  return mutate_tokens(text, split(other).first, random) + '\0' +
         weights.substr(0, cut ? below(random, weights.size()) : weights.size());
}

}  // namespace aipu::fuzz
