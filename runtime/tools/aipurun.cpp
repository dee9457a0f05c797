// aipurun: runs an aipu.bin once, or over a data set.
#include <cstdio>

#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/tools/cli.h"
#include "runtime/tools/compare.h"
#include "runtime/tools/inputs.h"
#include "runtime/tools/limits.h"
#include "runtime/tools/python_program.h"
#include "runtime/tools/tensor_dump.h"

namespace aipu::tools {
namespace {

struct Options {
  std::string model, entry;
  std::vector<std::string> inputs, expects, shapes, dumped;
  std::string output_dir, profile, backend, dataset;
  std::vector<std::string> dataset_options;
  Tolerance tolerance;
  Limits limits;
  int threads = 0;
  bool random = false, quiet = false, sandbox = false, cycles = false;
  uint64_t seed = 1;
};

Result<std::vector<Array>> read_inputs(const Tool& tool, const Options& options, const runtime::Model& model) {
  std::map<size_t, Array> given;
  AIPU_ASSIGN_OR_RETURN(auto shapes, named_shapes(options.shapes, model));
  AIPU_ASSIGN_OR_RETURN(const auto files, named_values(options.inputs, model.inputs(), "input", "--input"));
  for (const auto& [index, file] : files) {
    if (shapes.count(index) != 0)
      return invalid_argument(
          str_cat("--shape beside --input '", model.inputs()[index].name, "', whose file has a shape"));
    AIPU_ASSIGN_OR_RETURN(Array array, read_npy(file));
    given[index] = with_type(std::move(array), model.inputs()[index].dtype);
    shapes[index] = given[index].shape;
  }
  if (options.random && given.size() == model.inputs().size())
    tool.warn("--random: every input is given, nothing is made up");
  std::vector<Array> inputs(model.inputs().size());
  std::string missing;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (given.count(i) != 0) {
      inputs[i] = std::move(given[i]);
    } else if (!options.random) {
      const std::string& name = model.inputs()[i].name;
      missing += str_cat(missing.empty() ? "'" : ", '", name, "'", model.inputs()[i].text().substr(name.size()));
    }
  }
  if (!missing.empty())
    return invalid_argument(str_cat("no value for ", missing, "; give --input NAME=FILE.npy, or --random"));
  if (options.random) {
    AIPU_ASSIGN_OR_RETURN(const auto complete, complete_shapes(model, shapes, OpenExtents::kOne));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].dtype != DType::kVoid) continue;
      AIPU_ASSIGN_OR_RETURN(inputs[i], random_array(model.inputs()[i].dtype, complete[i], options.seed + i));
    }
  }
  return inputs;
}

Status run(const Tool& tool, const Options& options, bool* all_equal) {
  runtime::LoadOptions load_options;
  load_options.backend = options.backend;
  options.limits.apply(&load_options);
  load_options.sandbox = options.sandbox;
  load_options.entry = options.entry;
  AIPU_ASSIGN_OR_RETURN(const auto model, runtime::Model::load(options.model, load_options));
  if (!model->warning().empty()) tool.warn(model->warning());
  if (!options.output_dir.empty()) AIPU_RETURN_IF_ERROR(make_folder(options.output_dir));
  if (!options.profile.empty()) AIPU_RETURN_IF_ERROR(prepare_output(options.profile));
  AIPU_ASSIGN_OR_RETURN(const auto inputs, read_inputs(tool, options, *model));
  std::vector<std::pair<size_t, Array>> expected;
  AIPU_ASSIGN_OR_RETURN(const auto files, named_values(options.expects, model->outputs(), "output", "--expect"));
  for (const auto& [index, file] : files) {
    AIPU_ASSIGN_OR_RETURN(Array array, read_npy(file));
    expected.emplace_back(index, with_type(std::move(array), model->outputs()[index].dtype));
  }
  warn_of_null(tool, model->backend());
  runtime::SessionOptions session_options;
  session_options.threads = options.threads;
  options.limits.apply(&session_options);
  session_options.profile = !options.profile.empty();
  session_options.cycles = options.cycles || session_options.profile;
  TensorFolder folder(options.output_dir);
  TensorDump dump(options.dumped, options.output_dir.empty() ? nullptr : &folder, options.quiet);
  if (!options.dumped.empty())
    session_options.inspect = [&dump](const runtime::WrittenTensor& tensor) { dump.take(tensor); };
  AIPU_ASSIGN_OR_RETURN(const auto session, runtime::Session::create(model, session_options));
  AIPU_RETURN_IF_ERROR(bind_all(*session, inputs));
  AIPU_RETURN_IF_ERROR(session->run());
  AIPU_RETURN_IF_ERROR(dump.end());
  if (options.cycles) {
    if (!session->cycles()) return no_cycles(model->target(), model->backend());
    std::printf("%lld cycles\n", static_cast<long long>(*session->cycles()));
  }
  if (!options.profile.empty()) AIPU_RETURN_IF_ERROR(session->write_profile(options.profile));

  for (size_t i = 0; i < model->outputs().size(); ++i) {
    AIPU_ASSIGN_OR_RETURN(const runtime::TensorView view, session->output(i));
    const std::string& name = model->outputs()[i].name;
    if (!options.quiet) {
      std::printf("%s %s%s %s\n", printable(name).c_str(), std::string(dtype_name(view.dtype)).c_str(),
                  shape_text(view.shape).c_str(), summary({view.dtype, view.shape, view.data}).c_str());
    }
    if (!options.output_dir.empty()) AIPU_RETURN_IF_ERROR(folder.write(name, view));
  }
  for (const auto& [index, array] : expected) {
    AIPU_ASSIGN_OR_RETURN(const runtime::TensorView view, session->output(index));
    const Comparison result = compare({view.dtype, view.shape, view.data}, span_of(array), options.tolerance);
    const std::string& name = model->outputs()[index].name;
    if (result.equal) {
      if (!options.quiet)
        std::printf("%s: as expected (max abs error %.3g, max rel error %.3g)\n", printable(name).c_str(),
                    result.max_absolute, result.max_relative);
    } else {
      tool.fail(invalid_argument(str_cat("output '", name, "' is not as expected: ", result.message)));
      *all_equal = false;
    }
  }
  return {};
}

void add_options(Tool& tool, Options& options) {
  CLI::App& app = tool.app;
  app.add_option("model", options.model, "an aipu.bin")->required()->type_name("FILE");
  add_entry(app, options.entry);
  app.add_option("options", options.dataset_options, "behind --: more options of --dataset, such as -- --batch 8")
      ->type_name("WORD");
  const char* group = "What goes in";
  add_list(app, "--input", options.inputs, "NAME=FILE.npy: value of an input")->type_name("NAME=FILE")->group(group);
  app.add_flag("--random", options.random, "make up inputs that are not given")->group(group);
  app.add_option("--seed", options.seed, "of --random")->check(seed_number())->type_name("N")->group(group);
  add_list(app, "--shape", options.shapes,
           "NAME=1x3x224x224: shape of a made-up input; symbols that are not given are 1")
      ->type_name("NAME=SHAPE")
      ->group(group);
  app.add_option("--dataset", options.dataset,
                 "run over a folder, .npz, .npy, list (.txt), table, or - for paths on the standard input, by "
                 "python3 -m aipu.batch, which batches and goes on where a run was ended; results go to --output-dir")
      ->type_name("PATH")
      ->group(group);
  group = "What comes out";
  app.add_option("--output-dir", options.output_dir, "folder for the outputs, as NAME.npy")
      ->type_name("DIR")
      ->group(group);
  add_list(app, "--dump-tensors", options.dumped,
           "name or pattern, such as 'encoder/*', of tensors between the layers: a line of statistics for each that "
           "the run writes, and NAME.npy in --output-dir")
      ->type_name("PATTERN")
      ->group(group);
  add_list(app, "--expect", options.expects, "NAME=FILE.npy: compare an output; exit code 1 if it differs")
      ->type_name("NAME=FILE")
      ->group(group);
  app.add_option("--rtol", options.tolerance.relative, "relative tolerance of --expect")
      ->check(tolerance_number())
      ->type_name("X")
      ->capture_default_str()
      ->group(group);
  app.add_option("--atol", options.tolerance.absolute, "absolute tolerance of --expect")
      ->check(tolerance_number())
      ->type_name("X")
      ->capture_default_str()
      ->group(group);
  app.add_option("--profile", options.profile, "write a Chrome trace (chrome://tracing, ui.perfetto.dev)")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--cycles", options.cycles,
               "print how many cycles the run would take on the NPU: x2 estimates, interp counts")
      ->group(group);
  app.add_flag("-q,--quiet", options.quiet, "print errors only")->group(group);
  group = "How to run";
  add_threads(app, options.threads)->group(group);
  app.add_option("--backend", options.backend,
                 "native, sim, interp, null or the name of a back end library; default: what the model is compiled for")
      ->type_name("NAME")
      ->group(group);
  add_limit_options(app, &options.limits);
  app.add_flag(
         "--sandbox", options.sandbox,
         "interpret it in a process of its own that can do nothing but compute and is killed when its time is over; "
         "limits that are not given are those of --untrusted")
      ->group("Limits");
}

// Options that would change nothing.
std::string dataset_usage_error(const Tool& tool, const Options& options) {
  if (options.output_dir.empty()) return "--dataset writes results: give --output-dir DIR";
  for (const CLI::Option* option : tool.app.get_options()) {
    static constexpr std::string_view kTaken[] = {"--dataset", "--output-dir", "--threads", "--quiet",
                                                  "model",     "options",      "--entry"};
    const std::string name = option->get_name();
    if (option->count() > 0 && std::find(std::begin(kTaken), std::end(kTaken), name) == std::end(kTaken))
      return name + " is of a single run; --dataset takes the options of python3 -m aipu.batch behind --";
  }
  return "";
}

std::string usage_error(const Tool& tool, const Options& options) {
  const auto given = [&](const char* option) { return tool.app.count(option) > 0; };
  if (given("--dataset")) return dataset_usage_error(tool, options);
  if (!options.dataset_options.empty()) return "The following argument was not expected: " + options.dataset_options[0];
  if (!options.random && given("--seed")) return "--seed is of --random, which is not given";
  if (!options.random && given("--shape")) return "--shape is of inputs made up by --random, which is not given";
  if (options.expects.empty() && (given("--rtol") || given("--atol")))
    return "--rtol and --atol are of --expect, which is not given";
  if (options.sandbox && given("--profile")) return "there are no profiles from within a --sandbox";
  if (options.sandbox && !options.dumped.empty()) return "nothing is seen of tensors within a --sandbox";
  if (options.sandbox && options.cycles) return "there are no cycles from within a --sandbox";
  if (options.sandbox && given("--threads")) return "--threads changes nothing with --sandbox, which interprets";
  if (options.sandbox && given("--backend") && options.backend != "interp")
    return "--sandbox interprets: --backend " + options.backend + " is not for it";
  return "";
}

Status run_over(const Tool& tool, const Options& options) {
  std::vector<std::string> words = {"-o", options.output_dir};
  words.insert(words.end(), options.dataset_options.begin(), options.dataset_options.end());
  if (tool.app.count("--threads") > 0) words.insert(words.end(), {"--threads", std::to_string(options.threads)});
  if (options.quiet) words.emplace_back("--quiet");
  if (!options.entry.empty()) words.insert(words.end(), {"--entry", options.entry});
  words.insert(words.end(), {"--", options.model, options.dataset});
  // Batches, manifests and what a killed run goes on with are there, and there alone.
  return become({"aipu.batch", "aipurun", "--dataset", std::move(words)});
}

int main_body(const Tool& tool, const Options& options) {
  if (const std::string error = usage_error(tool, options); !error.empty()) return tool.fail_usage(error);
  warn_of_threads(tool, options.threads);
  if (!options.dataset.empty()) return tool.fail(run_over(tool, options));
  bool all_equal = true;
  const Status status = run(tool, options, &all_equal);
  if (!status.ok()) return tool.fail(status);
  return all_equal ? 0 : kFailed;
}

}  // namespace
}  // namespace aipu::tools

int main(int argc, char** argv) {
  aipu::runtime::enable_crash_reports();
  aipu::tools::Options options;
  aipu::tools::Tool tool("aipurun",
                         "Runs an aipu.bin once, or over a data set. Outputs are summarised, written and compared as "
                         "asked for.",
                         "resnet18.aipu.bin --input input=image.npy --output-dir out");
  aipu::tools::add_options(tool, options);
  return tool.run(argc, argv, [&] { return aipu::tools::main_body(tool, options); });
}
