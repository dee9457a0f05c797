// aipurun: runs an aipu.bin once.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "runtime/base/file.h"
#include "runtime/tools/compare.h"
#include "runtime/tools/inputs.h"

namespace aipu::tools {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> inputs, expects, shapes;
  std::string output_dir, profile, backend;
  Tolerance tolerance;
  int threads = 0;
  bool random = false, quiet = false;
  uint64_t seed = 1;
};

// Names of ONNX values may hold anything; files may not.
std::string file_name(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    result += plain ? c : '_';
  }
  if (result.empty() || result[0] == '.') result.insert(0, "_");
  return result + ".npy";
}

Result<std::vector<Array>> read_inputs(const Options& options, const runtime::Model& model) {
  std::map<size_t, Array> given;
  std::map<size_t, std::vector<int64_t>> shapes;
  for (const std::string& text : options.inputs) {
    AIPU_ASSIGN_OR_RETURN(const auto named, split_named(text, model.inputs(), "input"));
    AIPU_ASSIGN_OR_RETURN(given[named.first], read_npy(named.second));
    shapes[named.first] = given[named.first].shape;
  }
  for (const std::string& text : options.shapes) {
    AIPU_ASSIGN_OR_RETURN(const auto named, split_named(text, model.inputs(), "input"));
    if (given.count(named.first) == 0) {
      AIPU_ASSIGN_OR_RETURN(shapes[named.first], parse_shape(named.second));
    }
  }
  std::vector<Array> inputs(model.inputs().size());
  std::string missing;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (given.count(i) != 0) {
      inputs[i] = std::move(given[i]);
    } else if (!options.random) {
      missing += (missing.empty() ? "" : ", ") + model.inputs()[i].text();
    }
  }
  if (!missing.empty())
    return invalid_argument(str_cat("no value for ", missing, "; give --input NAME=FILE.npy, or --random"));
  if (options.random) {
    AIPU_ASSIGN_OR_RETURN(const auto complete, complete_shapes(model, shapes));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].dtype != DType::kVoid) continue;
      AIPU_ASSIGN_OR_RETURN(inputs[i], random_array(model.inputs()[i].dtype, complete[i], options.seed + i));
    }
  }
  return inputs;
}

Status run(const Options& options, bool* all_equal) {
  runtime::LoadOptions load_options;
  load_options.backend = options.backend;
  AIPU_ASSIGN_OR_RETURN(const auto model, runtime::Model::load(options.model, load_options));
  if (!options.output_dir.empty()) AIPU_RETURN_IF_ERROR(make_folder(options.output_dir));
  if (!options.profile.empty()) AIPU_RETURN_IF_ERROR(prepare_output(options.profile));
  AIPU_ASSIGN_OR_RETURN(const auto inputs, read_inputs(options, *model));
  std::vector<std::pair<size_t, Array>> expected;
  for (const std::string& text : options.expects) {
    AIPU_ASSIGN_OR_RETURN(const auto named, split_named(text, model->outputs(), "output"));
    AIPU_ASSIGN_OR_RETURN(Array array, read_npy(named.second));
    expected.emplace_back(named.first, std::move(array));
  }
  runtime::SessionOptions session_options;
  session_options.threads = options.threads;
  session_options.profile = !options.profile.empty();
  AIPU_ASSIGN_OR_RETURN(const auto session, runtime::Session::create(model, session_options));
  AIPU_RETURN_IF_ERROR(bind_all(*session, inputs));
  AIPU_RETURN_IF_ERROR(session->run());
  if (!options.profile.empty()) AIPU_RETURN_IF_ERROR(session->write_profile(options.profile));

  std::vector<std::string> written;
  for (size_t i = 0; i < model->outputs().size(); ++i) {
    AIPU_ASSIGN_OR_RETURN(const runtime::TensorView view, session->output(i));
    const std::string& name = model->outputs()[i].name;
    if (!options.quiet) {
      std::printf("%s %s%s %s\n", name.c_str(), std::string(dtype_name(view.dtype)).c_str(),
                  shape_text(view.shape).c_str(), summary({view.dtype, view.shape, view.data}).c_str());
    }
    if (options.output_dir.empty()) continue;
    std::string file = file_name(name);
    // Two names may become the same file name.
    if (std::find(written.begin(), written.end(), file) != written.end()) file = str_cat(i, "_", file);
    written.push_back(file);
    AIPU_RETURN_IF_ERROR(write_npy(options.output_dir + "/" + file, view.dtype, view.shape, view.data));
  }
  for (const auto& [index, array] : expected) {
    AIPU_ASSIGN_OR_RETURN(const runtime::TensorView view, session->output(index));
    const Comparison result = compare({view.dtype, view.shape, view.data}, span_of(array), options.tolerance);
    const std::string& name = model->outputs()[index].name;
    if (result.equal) {
      if (!options.quiet)
        std::printf("%s: as expected (max abs error %.3g, max rel error %.3g)\n", name.c_str(), result.max_absolute,
                    result.max_relative);
    } else {
      std::fflush(stdout);
      std::fprintf(stderr, "aipurun: output '%s' is not as expected: %s\n", name.c_str(), result.message.c_str());
      *all_equal = false;
    }
  }
  return {};
}

int main_inner(int argc, char** argv) {
  Options options;
  CLI::App app("Runs an aipu.bin once. Outputs are summarised, written and compared as asked for.", "aipurun");
  app.add_option("model", options.model, "aipu.bin")->required();
  app.add_option("--input", options.inputs, "NAME=FILE.npy: value of an input")->take_all();
  app.add_flag("--random", options.random, "make up inputs that are not given");
  app.add_option("--seed", options.seed, "of --random");
  app.add_option("--shape", options.shapes, "NAME=1x3x224x224: shape of a made-up input")->take_all();
  app.add_option("--output-dir", options.output_dir, "folder for the outputs, as NAME.npy");
  app.add_option("--expect", options.expects, "NAME=FILE.npy: compare an output; exit code 1 if it differs")
      ->take_all();
  app.add_option("--rtol", options.tolerance.relative, "relative tolerance of --expect")->capture_default_str();
  app.add_option("--atol", options.tolerance.absolute, "absolute tolerance of --expect")->capture_default_str();
  app.add_option("--threads", options.threads, "threads for kernels; 0: one per CPU")->check(CLI::NonNegativeNumber);
  app.add_option("--profile", options.profile, "write a Chrome trace (chrome://tracing, ui.perfetto.dev)");
  app.add_option(
      "--backend", options.backend,
      "native, sim, interp, null or the name of a back end library; default: what the model is compiled for");
  app.add_flag("-q,--quiet", options.quiet, "print errors only");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  bool all_equal = true;
  const Status status = run(options, &all_equal);
  if (!status.ok()) {
    std::fflush(stdout);
    std::fprintf(stderr, "aipurun: %s\n", status.message().c_str());
  }
  return status.ok() && all_equal ? 0 : 1;
}

}  // namespace
}  // namespace aipu::tools

int main(int argc, char** argv) {
  aipu::runtime::enable_crash_reports();
  try {
    return aipu::tools::main_inner(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "aipurun: %s\n", error.what());
    return 1;
  }
}
