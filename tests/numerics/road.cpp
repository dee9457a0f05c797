#include "tests/numerics/road.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "codegen/targets/target.h"
#include "frontend/onnx/import.h"
#include "gbuilder/build.h"
#include "runtime/base/half.h"
#include "runtime/session.h"

namespace aipu::test {

std::string groups_of(const std::string& onnx_path, const std::string& target, const std::string& precision) {
  gbuilder::BuildOptions build;
  build.model = onnx_path;
  build.output = onnx_path + ".groups.aipu.bin";
  build.dump_ir = onnx_path + ".dump";
  build.target = target;
  build.precision = precision;
  EXPECT_TRUE(gbuilder::build_model(build).ok());
  std::ifstream groups(build.dump_ir + "/groups.txt");
  std::stringstream text;
  text << groups.rdbuf();
  return text.str();
}

std::string temporary_path(const std::string& name) {
  static const std::string folder = [] {
    std::string path = std::filesystem::temp_directory_path() / ("aipu-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(path);
    return path;
  }();
  return folder + "/" + name;
}

namespace {

// Calls f with a value of the element type; false: there is no conversion.
template <typename F>
bool with_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      f(float{});
      return true;
    case DType::kF64:
      f(double{});
      return true;
    case DType::kI64:
      f(int64_t{});
      return true;
    case DType::kI32:
      f(int32_t{});
      return true;
    case DType::kBool:
    case DType::kU8:
      f(uint8_t{});
      return true;
    default:
      return false;
  }
}

Result<std::vector<std::byte>> encoded(const std::vector<float>& data, DType dtype) {
  std::vector<std::byte> bytes(data.size() * static_cast<size_t>(dtype_bytes(dtype)));
  if (dtype == DType::kF16 || dtype == DType::kBF16) {
    for (size_t i = 0; i < data.size(); ++i) {
      const uint16_t bits = dtype == DType::kF16 ? f16_from_f32(data[i]) : bf16_from_f32(data[i]);
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
    return bytes;
  }
  const bool known = with_element(dtype, [&]<typename T>(T) {
    for (size_t i = 0; i < data.size(); ++i) {
      const T element = static_cast<T>(data[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  if (!known) return unsupported("an input of " + std::string(dtype_name(dtype)));
  return bytes;
}

Result<std::vector<float>> decoded(const runtime::TensorView& view, size_t count) {
  std::vector<float> data(count);
  const auto* bytes = static_cast<const std::byte*>(view.data);
  if (view.dtype == DType::kF16 || view.dtype == DType::kBF16) {
    for (size_t i = 0; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, bytes + 2 * i, 2);
      data[i] = view.dtype == DType::kF16 ? f32_from_f16(bits) : f32_from_bf16(bits);
    }
    return data;
  }
  const bool known = with_element(view.dtype, [&]<typename T>(T element) {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&element, bytes + i * sizeof(T), sizeof(T));
      data[i] = static_cast<float>(element);
    }
  });
  if (!known) return unsupported("an output of " + std::string(dtype_name(view.dtype)));
  return data;
}

// Kernels for another kind of CPU run on the remote device, whose process is of that kind; "": what the file says.
Result<std::string> backend_for(const std::string& target) {
  AIPU_ASSIGN_OR_RETURN(const tir::Target row, tir::find_target(target));
  return row.machine == tir::kThisMachine ? std::string() : std::string("remote");
}

}  // namespace

Result<std::map<std::string, Tensor>> run_road(const std::string& onnx_path,
                                               const std::map<std::string, Tensor>& inputs,
                                               const RoadOptions& options) {
  gbuilder::BuildOptions build;
  build.model = onnx_path;
  build.output = onnx_path + "." + options.target + ".aipu.bin";
  build.target = options.target;
  build.fast_math = options.fast_math;
  build.disabled_plugins = options.disabled_plugins;
  build.disabled_passes = options.disabled_passes;
  build.precision = options.precision;
  build.precision_file = options.precision_file;
  build.jobs = 1;
  AIPU_RETURN_IF_ERROR(gbuilder::build_model(build).status());
  runtime::LoadOptions load;
  load.backend = options.backend;
  if (load.backend.empty()) {
    AIPU_ASSIGN_OR_RETURN(load.backend, backend_for(options.target));
  }
  AIPU_ASSIGN_OR_RETURN(auto model, runtime::Model::load(build.output, load));
  runtime::SessionOptions session_options;
  session_options.threads = options.threads;
  session_options.cycles = options.cycles != nullptr;
  AIPU_ASSIGN_OR_RETURN(auto session, runtime::Session::create(model, session_options));
  std::vector<std::vector<std::byte>> bytes(model->inputs().size());
  for (size_t i = 0; i < model->inputs().size(); ++i) {
    const auto given = inputs.find(model->inputs()[i].name);
    if (given == inputs.end()) return not_found("no value for input " + model->inputs()[i].name);
    const DType dtype = model->inputs()[i].dtype;
    AIPU_ASSIGN_OR_RETURN(bytes[i], encoded(given->second.data, dtype));
    AIPU_RETURN_IF_ERROR(session->bind_input(i, {dtype, given->second.shape, bytes[i].data()}));
  }
  AIPU_RETURN_IF_ERROR(session->run());
  if (options.cycles != nullptr) *options.cycles = session->cycles().value_or(-1);
  std::map<std::string, Tensor> outputs;
  for (size_t i = 0; i < model->outputs().size(); ++i) {
    AIPU_ASSIGN_OR_RETURN(const runtime::TensorView view, session->output(i));
    Tensor tensor;
    tensor.shape.assign(view.shape.begin(), view.shape.end());
    size_t count = 1;
    for (const int64_t extent : tensor.shape) count *= static_cast<size_t>(extent);
    AIPU_ASSIGN_OR_RETURN(tensor.data, decoded(view, count));
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

#if defined(__x86_64__)
bool cpu_has_bf16() { return __builtin_cpu_supports("avx512bf16") != 0; }
bool cpu_has_avx512_vnni() { return __builtin_cpu_supports("avx512vnni") != 0; }
#else
bool cpu_has_bf16() { return false; }
bool cpu_has_avx512_vnni() { return false; }
#endif

std::vector<std::string> runnable_targets() {
  if (const char* named = std::getenv("AIPU_TEST_TARGETS"); named != nullptr && *named != '\0') {
    std::vector<std::string> targets;
    std::istringstream words{std::string(named)};
    for (std::string name; std::getline(words, name, ',');) targets.push_back(name);
    return targets;
  }
  std::vector<std::string> targets = {"host-baseline", "X2_1204"};
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) targets.emplace_back("host-avx2");
  if (const auto host = tir::find_target("host"); host.ok() && host->vector_bits == 512)
    targets.emplace_back("host-avx512");
  return targets;
}

namespace {

// To the bit, but for what a NaN's bits are.
void expect_same(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.shape, expected.shape) << what;
  for (size_t i = 0; i < actual.data.size(); ++i) {
    const float a = actual.data[i], e = expected.data[i];
    if (std::isnan(a) && std::isnan(e)) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(e))
        << what << ": element " << i << " is " << a << ", expected " << e;
  }
}

}  // namespace

void expect_on_targets(const std::string& onnx_path, const std::map<std::string, Tensor>& inputs,
                       const std::map<std::string, Tensor>& expected, double rtol, double atol, bool interpret) {
  for (const std::string& target : runnable_targets()) {
    const auto actual = run_road(onnx_path, inputs, {.target = target});
    ASSERT_TRUE(actual.ok()) << target << ": " << actual.status().message();
    for (const auto& [name, tensor] : expected)
      expect_close(actual->at(name), tensor, rtol, atol, target + ", " + name);
  }
  if (!interpret) return;
  const auto native = run_road(onnx_path, inputs, {.target = "host-baseline"});
  const auto interpreted = run_road(onnx_path, inputs, {.target = "host-baseline", .backend = "interp"});
  ASSERT_TRUE(native.ok() && interpreted.ok()) << native.status().message() << interpreted.status().message();
  for (const auto& [name, tensor] : *native) expect_close(interpreted->at(name), tensor, 0, 0, "interpreter, " + name);
}

void expect_everywhere(const models::OnnxBuilder& b, const Check& check, const std::vector<std::string>& targets) {
  const std::string path = temporary_path(check.name + ".onnx");
  ASSERT_TRUE(b.save(path).ok());
  for (const std::string& target : targets) {
    std::optional<std::map<std::string, Tensor>> first;
    for (const auto& [compiler, backend] : {std::pair("gcc", ""), std::pair("clang", ""), std::pair("gcc", "interp")}) {
      SCOPED_TRACE(check.name + " on " + target + " by " + compiler + " " + backend);
      if (std::system((std::string(compiler) + " --version > /dev/null 2>&1").c_str()) != 0) continue;
      ::setenv("AIPU_CC", compiler, 1);
      const auto actual = run_road(path, check.inputs, {.target = target, .backend = backend});
      ::unsetenv("AIPU_CC");
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      for (const auto& [name, tensor] : check.expected) {
        ASSERT_TRUE(actual->contains(name)) << name;
        expect_close(actual->at(name), tensor, check.tolerance, check.tolerance, name);
        // Whoever runs the program, its results are the same.
        if (first) expect_same(actual->at(name), first->at(name), name + ", beside gcc's");
      }
      if (!first) first = *actual;
    }
  }
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
