// How conversion, loading and the first run grow with the number of nodes: a line per model and size with the seconds of
// each stage, so that a reader sees which stage leaves the straight line.
//
//   aipu-conversion-bench [--nodes 1000,10000,50000] [--models relu_chain,equal_adds]
#include <fmt/format.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gbuilder/build.h"
#include "models/onnx_builder.h"
#include "runtime/base/dtype.h"
#include "runtime/session.h"

namespace {

using aipu::DType;
using aipu::models::OnnxBuilder;
using aipu::models::TensorData;

using Make = std::function<void(OnnxBuilder&, int)>;

// One value after the other.
void relu_chain(OnnxBuilder& b, int nodes) {
  std::string x = b.input("x", DType::kF32, {"N", 8});
  for (int k = 0; k < nodes; ++k) x = b.op(k % 2 == 0 ? "Relu" : "Neg", {x});
  b.output(x, "y", DType::kF32, {"N", 8});
}

// All of them compute the same.
void equal_adds(OnnxBuilder& b, int nodes) {
  const std::string x = b.input("x", DType::kF32, {"N", 8});
  std::string last = x;
  std::vector<std::string> sums;
  for (int k = 0; k < nodes; ++k) sums.push_back(b.op("Add", {x, x}));
  b.output(b.op("Max", {sums.front(), sums.back()}), "y", DType::kF32, {"N", 8});
}

// A chain, and every node has a number of its own.
void own_numbers(OnnxBuilder& b, int nodes) {
  std::string x = b.input("x", DType::kF32, {"N", 8});
  for (int k = 0; k < nodes; ++k) x = b.op("Add", {x, b.scalar(1 + 0.001f * static_cast<float>(k))});
  b.output(x, "y", DType::kF32, {"N", 8});
}

// The same with vectors.
void own_vectors(OnnxBuilder& b, int nodes) {
  std::string x = b.input("x", DType::kF32, {"N", 8});
  for (int k = 0; k < nodes; ++k) {
    const auto v = static_cast<float>(k);
    x = b.op("Add", {x, b.initializer(TensorData::f32({8}, {v, v, v, 1, 2, 3, 4, 5}))});
  }
  b.output(x, "y", DType::kF32, {"N", 8});
}

// One value with as many users, which one Concat brings together.
void one_concat(OnnxBuilder& b, int nodes) {
  const std::string x = b.input("x", DType::kF32, {"N", 8});
  std::vector<std::string> parts;
  for (int k = 0; k < nodes; ++k) parts.push_back(b.op("Mul", {x, b.scalar(0.001f * static_cast<float>(k))}));
  b.output(b.op("Concat", parts, {{"axis", 1}}), "y", DType::kF32, {"N", 8 * nodes});
}

void many_outputs(OnnxBuilder& b, int nodes) {
  const std::string x = b.input("x", DType::kF32, {"N", 8});
  for (int k = 0; k < nodes; ++k) {
    b.output(b.op("Mul", {x, b.scalar(0.001f * static_cast<float>(k))}), fmt::format("y{}", k), DType::kF32, {"N", 8});
  }
}

// Blocks of a convolution, a scale per channel and an activation.
void conv_blocks(OnnxBuilder& b, int nodes) {
  std::string x = b.input("x", DType::kF32, {"N", 4, 8, 8});
  for (int k = 0; k < nodes; k += 3) x = b.relu(b.conv_bn(x, 4, 4, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  b.output(x, "y", DType::kF32, {"N", 4, 8, 8});
}

// Every extent depends on the data before.
void data_dependent(OnnxBuilder& b, int nodes) {
  std::string x = b.input("x", DType::kI64, {2, 8});
  for (int k = 0; k < nodes; ++k) x = b.op("NonZero", {x});
  b.output(x, "y", DType::kI64, {2, ""});
}

// Most exported graphs are full of this.
void shape_arithmetic(OnnxBuilder& b, int nodes) {
  std::string x = b.input("x", DType::kF32, {"N", 4, 2});
  for (int k = 0; k < nodes; k += 6) x = b.op("Relu", {b.reshape(x, {b.extent(x, 0), int64_t{4}, int64_t{2}})});
  b.output(x, "y", DType::kF32, {"N", 4, 2});
}

void unused_initializers(OnnxBuilder& b, int nodes) {
  const std::string x = b.input("x", DType::kF32, {"N", 8});
  for (int k = 0; k < nodes; ++k) b.scalar(static_cast<float>(k));
  b.output(b.relu(x), "y", DType::kF32, {"N", 8});
}

const std::vector<std::pair<std::string, Make>> kModels = {{"relu_chain", relu_chain},
                                                           {"equal_adds", equal_adds},
                                                           {"own_numbers", own_numbers},
                                                           {"own_vectors", own_vectors},
                                                           {"one_concat", one_concat},
                                                           {"many_outputs", many_outputs},
                                                           {"conv_blocks", conv_blocks},
                                                           {"data_dependent", data_dependent},
                                                           {"shape_arithmetic", shape_arithmetic},
                                                           {"unused_initializers", unused_initializers}};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct LoadingTimes {
  double load = 0, first_run = 0;  // seconds; the first run plans the memory
};

// Inputs are zeros, symbolic extents 1.
aipu::Result<LoadingTimes> load_and_run(const std::string& path) {
  LoadingTimes times;
  auto start = std::chrono::steady_clock::now();
  AIPU_ASSIGN_OR_RETURN(const auto model, aipu::runtime::Model::load(path));
  times.load = seconds_since(start);
  start = std::chrono::steady_clock::now();
  AIPU_ASSIGN_OR_RETURN(const auto session, aipu::runtime::Session::create(model));
  std::vector<std::vector<std::byte>> data;
  for (size_t i = 0; i < model->inputs().size(); ++i) {
    const auto& input = model->inputs()[i];
    std::vector<int64_t> shape;
    size_t bytes = aipu::dtype_bytes(input.dtype);
    for (const auto& extent : input.shape) {
      shape.push_back(std::max<int64_t>(extent.extent, 1));
      bytes *= static_cast<size_t>(shape.back());
    }
    data.emplace_back(bytes);
    AIPU_RETURN_IF_ERROR(session->bind_input(i, {input.dtype, shape, data.back().data()}));
  }
  AIPU_RETURN_IF_ERROR(session->run());
  times.first_run = seconds_since(start);
  return times;
}

int convert(const std::string& name, const Make& make, int nodes, const std::string& folder) {
  OnnxBuilder builder(name, 1);
  make(builder, nodes);
  aipu::gbuilder::BuildOptions options;
  options.model = folder + "/" + name + ".onnx";
  options.output = folder + "/" + name + ".aipu.bin";
  if (const aipu::Status saved = builder.save(options.model); !saved.ok()) {
    fmt::print(stderr, "{}\n", saved.message());
    return 1;
  }
  const auto report = aipu::gbuilder::build_model(options);
  if (!report.ok()) {
    fmt::print(stderr, "{}\n", report.status().message());
    return 1;
  }
  const auto times = load_and_run(options.output);
  if (!times.ok()) {
    fmt::print(stderr, "{}\n", times.status().message());
    return 1;
  }
  double total = 0;
  for (const auto& [stage, seconds] : report->stage_seconds) total += seconds;
  fmt::print("{:20} {:7} {:8.2f} {:8} {:8.2f} {:9.2f}", name, nodes, total, report->kernels, times->load,
             times->first_run);
  for (const auto& [stage, seconds] : report->stage_seconds) fmt::print(" {:9.2f}", seconds);
  fmt::print("\n");
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("How conversion and loading grow with the number of nodes: seconds, kernels, seconds per stage.");
  std::vector<int> sizes = {1000, 10000, 50000};
  std::vector<std::string> names;
  app.add_option("--nodes", sizes, "numbers of nodes, separated by commas")->delimiter(',');
  app.add_option("--models", names, "which models, separated by commas (default: all)")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("aipu_conversion_{}", getpid());
  std::filesystem::create_directories(folder);
  fmt::print("{:20} {:>7} {:>8} {:>8} {:>8} {:>9}", "model", "nodes", "convert", "kernels", "load", "first run");
  for (const char* stage : {"import", "passes", "partition", "setup", "lower", "compile", "plan", "record", "encode"}) {
    fmt::print(" {:>9}", stage);
  }
  fmt::print("\n");
  int failures = 0;
  for (const auto& [name, make] : kModels) {
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
    for (const int nodes : sizes) failures += convert(name, make, nodes, folder.string());
  }
  std::filesystem::remove_all(folder);
  return failures == 0 ? 0 : 1;
}
