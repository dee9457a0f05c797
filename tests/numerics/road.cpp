#include "tests/numerics/road.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "codegen/targets/target.h"
#include "frontend/onnx/import.h"
#include "gbuilder/build.h"
#include "runtime/session.h"

namespace aipu::test {

std::string temporary_path(const std::string& name) {
  static const std::string folder = [] {
    std::string path = std::filesystem::temp_directory_path() / ("aipu-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(path);
    return path;
  }();
  return folder + "/" + name;
}

Result<std::map<std::string, Tensor>> run_road(const std::string& onnx_path,
                                               const std::map<std::string, Tensor>& inputs,
                                               const RoadOptions& options) {
  gbuilder::BuildOptions build;
  build.model = onnx_path;
  build.output = onnx_path + "." + options.target + ".aipu.bin";
  build.target = options.target;
  build.fast_math = options.fast_math;
  build.jobs = 1;
  AIPU_RETURN_IF_ERROR(gbuilder::build_model(build).status());
  runtime::LoadOptions load;
  load.backend = options.backend;
  AIPU_ASSIGN_OR_RETURN(auto model, runtime::Model::load(build.output, load));
  runtime::SessionOptions session_options;
  session_options.threads = options.threads;
  AIPU_ASSIGN_OR_RETURN(auto session, runtime::Session::create(model, session_options));
  for (size_t i = 0; i < model->inputs().size(); ++i) {
    const auto given = inputs.find(model->inputs()[i].name);
    if (given == inputs.end()) return not_found("no value for input " + model->inputs()[i].name);
    AIPU_RETURN_IF_ERROR(session->bind_input(i, {DType::kF32, given->second.shape, given->second.data.data()}));
  }
  AIPU_RETURN_IF_ERROR(session->run());
  std::map<std::string, Tensor> outputs;
  for (size_t i = 0; i < model->outputs().size(); ++i) {
    AIPU_ASSIGN_OR_RETURN(const runtime::TensorView view, session->output(i));
    Tensor tensor;
    tensor.shape.assign(view.shape.begin(), view.shape.end());
    size_t count = 1;
    for (const int64_t extent : tensor.shape) count *= static_cast<size_t>(extent);
    tensor.data.resize(count);
    if (view.dtype != DType::kF32) return unsupported("an output that is not float32");
    if (count > 0) std::memcpy(tensor.data.data(), view.data, count * sizeof(float));
    outputs[model->outputs()[i].name] = std::move(tensor);
  }
  return outputs;
}

Result<std::map<std::string, Tensor>> run_reference(const std::string& onnx_path,
                                                    const std::map<std::string, Tensor>& inputs) {
  frontend::ImportOptions options;
  for (const auto& [name, tensor] : inputs) options.shapes[name] = tensor.shape;
  AIPU_ASSIGN_OR_RETURN(auto graph, frontend::import_onnx(onnx_path, options));
  return reference::run_with_dnnl(*graph, inputs);
}

Tensor random_tensor(std::mt19937& random, std::vector<int64_t> shape, float low, float high) {
  Tensor tensor{std::move(shape), {}};
  size_t count = 1;
  for (const int64_t extent : tensor.shape) count *= static_cast<size_t>(extent);
  std::uniform_real_distribution<float> uniform(low, high);
  tensor.data.resize(count);
  for (float& element : tensor.data) element = uniform(random);
  return tensor;
}

std::vector<std::string> runnable_targets() {
  std::vector<std::string> targets = {"host-baseline", "X2_1204"};
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) targets.emplace_back("host-avx2");
  if (const auto host = tir::find_target("host"); host.ok() && host->name.starts_with("host-avx512"))
    targets.emplace_back("host-avx512");
  return targets;
}

void expect_close(const Tensor& actual, const Tensor& expected, double rtol, double atol, const std::string& what) {
  ASSERT_EQ(actual.shape, expected.shape) << what;
  for (size_t i = 0; i < actual.data.size(); ++i) {
    const double a = actual.data[i], e = expected.data[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    ASSERT_LE(std::abs(a - e), atol + rtol * std::abs(e))
        << what << ": element " << i << " is " << a << ", expected " << e;
  }
}

}  // namespace aipu::test
