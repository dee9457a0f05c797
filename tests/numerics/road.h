// The whole road in a test: a model made by OnnxBuilder is converted, loaded and run, and the same model is run by an
// independent reference.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "models/onnx_builder.h"
#include "tests/reference/dnnl_executor.h"

namespace aipu::test {

using reference::Tensor;

struct RoadOptions {
  std::string target = "host";
  std::string backend;  // "" = the target's own, "interp"
  int threads = 2;
  bool fast_math = false;
  std::string precision = {};                      // as --precision has it
  std::string precision_file = {};                 // as --precision-file has it
  std::vector<std::string> disabled_plugins = {};  // as --disable-plugin has them
  std::vector<std::string> disabled_passes = {};   // as --disable-pass has them
  int64_t* cycles = nullptr;  // where to put what the run takes in virtual time, if it is asked for
};

// Converts the model and runs it; the outputs by name. Inputs and outputs of other element types than float32 are
// converted on the way. Files live in a temporary folder of the test.
Result<std::map<std::string, Tensor>> run_road(const std::string& onnx_path,
                                               const std::map<std::string, Tensor>& inputs, const RoadOptions& options);

// The same inputs through oneDNN.
Result<std::map<std::string, Tensor>> run_reference(const std::string& onnx_path,
                                                    const std::map<std::string, Tensor>& inputs);

// Uniform in [low, high).
Tensor random_tensor(std::mt19937& random, std::vector<int64_t> shape, float low = -1, float high = 1);

// Targets whose kernels this machine can run: always the baseline and X2_1204, others where the CPU has them.
std::vector<std::string> runnable_targets();

// Whether the CPU runs code for host-avx512-bf16 and -vnni, whether or not that is what `host` takes.
bool cpu_has_bf16();
bool cpu_has_avx512_vnni();

// Runs the saved model on runnable_targets(), and with `interpret` also in the interpreter, which must give what the
// compiled code does to the bit. Tolerances are those of expect_close().
void expect_on_targets(const std::string& onnx_path, const std::map<std::string, Tensor>& inputs,
                       const std::map<std::string, Tensor>& expected, double rtol, double atol, bool interpret = false);

// What a model must give for its inputs, within tolerance * (1 + |expected|).
struct Check {
  std::string name;  // of the files
  std::map<std::string, Tensor> inputs, expected;
  double tolerance = 0;
};

// Checks the model on each target, compiled by gcc, by clang, and interpreted; these must give the same to the bit.
void expect_everywhere(const models::OnnxBuilder& b, const Check& check, const std::vector<std::string>& targets);

// Fails the test with the first position where |actual - expected| > atol + rtol * |expected|.
void expect_close(const Tensor& actual, const Tensor& expected, double rtol, double atol, const std::string& what);

// The groups of the saved model as it is converted for a target, as --dump-ir lists them: a line for each, with the
// plugin that claimed it and the ops in it.
std::string groups_of(const std::string& onnx_path, const std::string& target, const std::string& precision = "");

std::string temporary_path(const std::string& name);

}  // namespace aipu::test
