#include "gbuilder/tools/quantize.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "gbuilder/precision.h"
#include "runtime/base/text.h"
#include "runtime/tools/python_program.h"

namespace aipu::gbuilder {
namespace {

constexpr std::string_view kMixed = "mixed";

std::string without(std::string_view path, std::string_view ending) {
  return std::string(path.ends_with(ending) ? path.substr(0, path.size() - ending.size()) : path);
}

// OUT.aipu.bin: OUT.int8.onnx.
std::string quantized_path(const QuantizeOptions& options, const BuildOptions& build) {
  return options.model.empty() ? without(build.output, ".aipu.bin") + ".int8.onnx" : options.model;
}

// As aipu.quantization calls it.
std::string precision_path(const std::string& model) { return without(model, ".onnx") + ".precision.txt"; }

}  // namespace

std::string quantize_usage_error(const QuantizeOptions& options, BuildOptions* build) {
  if (options.data.empty()) {
    if (build->precision == kMixed)
      return "--precision mixed chooses by data: give --quantize DATA and --max-error METRIC=BOUND";
    const std::pair<bool, const char*> given[] = {{!options.max_error.empty(), "--max-error"},
                                                  {!options.model.empty(), "--quantized-model"},
                                                  {!options.more.empty(), "--quantize-option"}};
    for (const auto& [is_given, name] : given)
      if (is_given) return fmt::format("{} is of --quantize, which is not given", name);
    return "";
  }
  if (build->precision.empty()) build->precision = kInt8;
  if (build->precision != kInt8 && build->precision != kMixed)
    return fmt::format("--quantize makes int8 or mixed, --precision is '{}'", build->precision);
  if (build->model.ends_with(".txt")) return "--quantize is for ONNX models";
  if (!build->more_entries.empty())
    return "--quantize is for one model at a time: quantise each (--quantized-model FILE), and convert what that makes";
  if (build->output.empty() && options.model.empty())
    return "--quantize writes a model: give -o OUT.aipu.bin or --quantized-model FILE";
  if (build->precision == kMixed && options.max_error.empty())
    return "--precision mixed needs a bound: give --max-error METRIC=BOUND";
  if (build->precision == kMixed && !build->precision_file.empty())
    return "--precision mixed chooses the precision of each layer: it takes no --precision-file";
  return "";
}

Result<int> quantize(const QuantizeOptions& options, bool silent, bool quiet, BuildOptions* build) {
  const std::string output = quantized_path(options, *build);
  std::vector<std::string> words = {"--output", output, "--precision", build->precision};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.push_back(str_cat(name, "=", value));
  };
  const auto add_each = [&](const char* name, const std::vector<std::string>& values) {
    for (const std::string& value : values) add(name, value);
  };
  add("--target", build->target);
  add("--max-error", options.max_error);
  add_each("--constant", options.constants);
  add_each("--shape", build->shapes);
  add_each("--sequence-length", build->sequence_lengths);
  add_each("--plugin", build->plugins);
  add_each("--target-plugin", build->target_plugins);
  if (build->jobs > 0) add("--jobs", std::to_string(build->jobs));
  if (quiet) words.emplace_back("--quiet");
  for (const std::string& option : options.more) words.push_back("--" + option);
  words.insert(words.end(), {"--", build->model, options.data});
  AIPU_ASSIGN_OR_RETURN(const int code,
                        tools::run_child({"aipu.quantization", "aipugb", "--quantize", std::move(words)}, silent));
  if (code != 0) return code;
  build->model = output;
  if (build->precision == kMixed) {
    build->precision.clear();
    build->precision_file = precision_path(output);
  }
  return 0;
}

}  // namespace aipu::gbuilder
