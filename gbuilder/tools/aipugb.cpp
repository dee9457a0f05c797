// aipugb: converts a model to aipu.bin.
#include <fmt/format.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "frontend/onnx/supported_ops.h"
#include "gbuilder/build.h"
#include "gbuilder/build_options.h"
#include "gbuilder/explain.h"
#include "gbuilder/tools/entry_arguments.h"
#include "gbuilder/tools/progress_line.h"
#include "gbuilder/tools/quantize.h"
#include "graph/ir/graph.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/signature/signature.h"
#include "runtime/tools/cli.h"

namespace {

using aipu::json_string;
using aipu::Status;
using aipu::tools::Tool;

struct Options {
  aipu::gbuilder::BuildOptions build;
  aipu::gbuilder::EntryArguments entries;
  aipu::gbuilder::QuantizeOptions quantize;
  std::string json, sign;
  bool quiet = false, verbose = false, no_cache = false, time_passes = false, pipeline = false, targets = false,
       explain = false, supported_ops = false;
};

void print_report(const Tool& tool, const Options& all, const aipu::gbuilder::BuildReport& report) {
  const bool quiet = all.quiet, verbose = all.verbose;
  const aipu::gbuilder::BuildOptions& options = all.build;
  if (!quiet) {
    for (const std::string& warning : report.warnings) tool.warn(warning);
  }
  if (verbose || all.time_passes) aipu::tools::print(stage_times(report));
  if (!report.stopped_after.empty()) {
    if (!quiet) aipu::tools::print(report.graph_text);
    return;
  }
  if (verbose) aipu::tools::print(plan_sizes(report));
  if (!quiet) aipu::tools::print(result_line(report, options.output));
}

std::string json(const Options& options, const aipu::gbuilder::BuildReport& report) {
  std::string stages, warnings;
  for (const auto& [stage, seconds] : report.stage_seconds)
    stages += fmt::format("{}{}: {:.6f}", stages.empty() ? "" : ", ", json_string(stage), seconds);
  for (const std::string& warning : report.warnings) warnings += (warnings.empty() ? "" : ", ") + json_string(warning);
  std::string entries;
  for (const std::string& name : report.entry_names) entries += (entries.empty() ? "" : ", ") + json_string(name);
  if (!entries.empty()) entries = fmt::format("  \"entries\": [{}],\n", entries);
  return fmt::format(
      "{{\n  \"model\": {},\n{}  \"output\": {},\n  \"target\": {},\n  \"bytes\": {},\n  \"nodes\": {},\n  \"groups\": "
      "{},\n"
      "  \"kernels\": {},\n  \"launches\": {},\n  \"commands\": {},\n  \"compiled_units\": {},\n"
      "  \"translation_units\": {},\n  \"constant_bytes\": {},\n  \"arena_bytes\": {},\n"
      "  \"stage_seconds\": {{{}}},\n  \"warnings\": [{}]\n}}\n",
      json_string(options.build.model), entries, json_string(options.build.output), json_string(report.target),
      report.file_bytes, report.nodes, report.groups, report.kernels, report.launches, report.commands,
      report.compiled_units, report.translation_units, report.constant_bytes,
      report.has_memory_plan ? std::to_string(report.arena_bytes) : "null", stages, warnings);
}

// What is wrong with the command line, "" if nothing is; before any file is opened.
std::string usage_error(Options& options) {
  aipu::gbuilder::BuildOptions& build = options.build;
  std::string error = set_entries(options.entries, &build);
  if (!error.empty()) return error;
  if (options.explain && !build.more_entries.empty()) return "--explain is about one model at a time";
  if (options.explain && build.model.ends_with(".txt")) return "--explain is for ONNX models";
  if (!options.explain && build.output.empty() && build.stop_after.empty() && build.emit_c.empty() &&
      build.emit_ir.empty() && build.dump_ir.empty())
    return "nothing to do: give -o OUT.aipu.bin (see --help)";
  for (const aipu::gbuilder::EntryOptions* entry : entries_of(build)) {
    if (!entry->model.ends_with(".txt")) continue;
    if (!entry->constant_inputs.empty())
      return "--constant is for ONNX models; in Compass IR a constant is written as one";
    if (!entry->sequence_lengths.empty()) return "--sequence-length is for ONNX models";
  }
  error = aipu::gbuilder::quantize_usage_error(options.quantize, &build);
  if (error.empty() && options.explain && !options.quantize.data.empty())
    error = "--explain is about the model as it is: leave out --quantize";
  if (!error.empty()) return error;
  aipu::gbuilder::BuildOptions checked = build;
  if (!options.quantize.data.empty()) checked.precision.clear();  // "mixed" becomes a precision file
  const Status status = aipu::gbuilder::check_options(checked);
  return status.message();
}

void warn_of_no_use(const Tool& tool, const Options& options) {
  const aipu::gbuilder::BuildOptions& build = options.build;
  if (build.stop_after.empty() || build.stop_after == "encode") return;
  if (!build.output.empty())
    tool.warn(fmt::format("-o: '{}' is not written, --stop-after {} ends before it", build.output, build.stop_after));
}

void add_options(Tool& tool, Options& options) {
  using aipu::tools::add_list;
  CLI::App& app = tool.app;
  aipu::gbuilder::BuildOptions& build = options.build;
  app.add_option("model", options.entries.models,
                 "an ONNX model, or Compass IR text (.txt) with its weights (default: the file beside it, IR.bin); "
                 "several become entries of one file, which share constants and kernels")
      ->type_name("MODEL");

  const char* group = "What to make";
  add_list(app, "--entry", options.entries.entries,
           "NAME=MODEL: a model of the file, and what aipurun --entry asks for it by; of those given without, that is "
           "the name of the file. Options for one of several models begin with it: --shape NAME:INPUT=1x3x224x224")
      ->type_name("NAME=MODEL")
      ->group(group);
  app.add_option("-o,--output", build.output, "the aipu.bin to write")->type_name("FILE")->group(group);
  app.add_option("--target", build.target, "host, host-baseline, host-avx2, host-avx512, X2_1204, ...")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--fast-math", build.fast_math,
               "trade accuracy for speed: longer sums in large 3x3 convolutions by Winograd's F(4x4), errors several "
               "times those of direct float32 sums")
      ->group(group);
  app.add_option(
         "--precision", build.precision,
         "what products and convolutions multiply: fp32 (default); bf16, summed in float32, faster where the CPU "
         "has an instruction for it; fp16, twice as fast on X2; int8, of models that are quantised already or by "
         "--quantize; mixed, with "
         "--quantize: int8, bf16 or fp32 by layer, what is cheapest within --max-error")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--precision-file", build.precision_file,
                 "precisions by name of node, a line PATTERN fp32 (bf16, fp16) each, * stands for any text; the first "
                 "that fits counts, --precision where none does")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--quantize", options.quantize.data,
         "make 8-bit integers of a float32 model by typical inputs: a folder, .npz, .npy, table, list or folder "
         "of test_data_set_*, by python3 -m aipu.quantization; the QDQ model is written too")
      ->type_name("DATA")
      ->group(group);
  app.add_option(
         "--max-error", options.quantize.max_error,
         "of --quantize: what the outputs may differ from float32 on DATA, such as top1=0.005 or relative=0.02; "
         "the cheapest layers that have to stay in a higher precision do")
      ->type_name("METRIC=BOUND")
      ->group(group);
  app.add_option("--quantized-model", options.quantize.model,
                 "of --quantize: the QDQ model to write (default: OUT.int8.onnx beside OUT.aipu.bin)")
      ->type_name("FILE")
      ->group(group);
  add_list(app, "--quantize-option", options.quantize.more,
           "of --quantize: an option of python3 -m aipu.quantization without its dashes, such as calibration=mse, "
           "limit=200 or no-bias-correction")
      ->type_name("NAME=VALUE")
      ->group(group);
  app.add_flag("--strip", build.strip,
               "leave out what only people and the interpreter read: C, TIR, Compass IR, the graph as text; --backend "
               "interp and --sandbox cannot run the file")
      ->group(group);
  app.add_option(
         "--sign", options.sign,
         "sign the file with a private Ed25519 key, a PEM file (openssl genpkey -algorithm ed25519); who has the "
         "public half can refuse others: aipurun --trusted-key")
      ->type_name("KEY")
      ->group(group);
  add_list(app, "--shape", options.entries.shapes, "NAME=1x3x224x224: fixes the extents of an input; -1 keeps one")
      ->type_name("NAME=SHAPE")
      ->group(group);
  add_list(app, "--constant", options.entries.constants,
           "NAME=16000 or NAME=[1,2]: makes an input a constant (int64; with a point float32; true, false)")
      ->type_name("NAME=VALUE")
      ->group(group);
  add_list(app, "--expose", options.entries.exposed,
           "a value between the nodes of the graph, by its ONNX name, as one more output; * stands for any text")
      ->type_name("NAME")
      ->group(group);
  add_list(app, "--preprocess", options.entries.preprocess,
           "NAME:uint8,nhwc,scale=255,mean=0.5:0.5:0.5,std=0.2:0.2:0.2,resize=224x224: the input is given as images, "
           "(x / scale - mean) / std of which the model gets; becomes part of the model (to=nhwc: that takes NHWC)")
      ->type_name("NAME:WORDS")
      ->group(group);
  add_list(app, "--postprocess", options.entries.postprocess,
           "NAME:softmax,topk=5,axis=-1 of an output, or of boxes NAME:nms,scores=NAME,iou=0.5,score=0.3,max=100; the "
           "indices are one more output")
      ->type_name("NAME:WORDS")
      ->group(group);
  add_list(app, "--target-plugin", build.target_plugins, "targets of your own: a shared library")
      ->type_name("FILE")
      ->group(group);
  add_list(app, "--sequence-length", options.entries.sequence_lengths,
           "NAME=3: how many elements an input has that is a sequence (NAME[0], NAME[1], ...); NAME=none: an optional "
           "without a value")
      ->type_name("NAME=N")
      ->group(group);
  add_list(app, "--cache-length", options.entries.cache_lengths,
           "caches that would grow by a Concat (past_key_values) become buffers of N rows, in which a step may write "
           "its own; the further input past_length says how many there are")
      ->type_name("N")
      ->group(group);
  add_list(app, "--plugin", build.plugins,
           "operators of your own: a shared library or a .py file; or the plugin of IR.txt that a build of a kernel "
           "wrote")
      ->type_name("FILE")
      ->group(group);

  group = "What to show";
  app.add_option("--emit-c", build.emit_c, "folder for the generated C")->type_name("DIR")->group(group);
  app.add_option("--emit-ir", build.emit_ir, "Compass IR, as PREFIX.txt and PREFIX.bin")
      ->type_name("PREFIX")
      ->group(group);
  app.add_option("--dump-ir", build.dump_ir, "folder for the graph after each pass, TIR, C, plan and command buffers")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--stop-after", build.stop_after, "a stage or graph pass; prints the graph there")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--json", options.json, "write the report to a file; - for the standard output")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--time-passes", options.time_passes, "print what each stage took")->group(group);
  app.add_flag("--explain", options.explain,
               "print the operators of the model with their numbers, what computes them and what is not supported; "
               "nothing is compiled or written. Exit code 1 if something is not supported")
      ->group(group);
  app.add_flag("--print-pipeline", options.pipeline, "print the passes, stages and operator plugins and exit")
      ->group(group);
  app.add_flag("--supported-ops", options.supported_ops,
               "print the operators that can be converted, as Markdown, and exit")
      ->group(group);
  app.add_flag("--targets", options.targets, "print the targets, those of --target-plugin too, and exit")->group(group);
  auto* quiet = app.add_flag("-q,--quiet", options.quiet, "print errors only")->group(group);
  app.add_flag("-v,--verbose", options.verbose, "print more")->group(group)->excludes(quiet);

  group = "How to work";
  app.add_option("--jobs", build.jobs, "threads and C compilers at a time (default: one per CPU)")
      ->check(aipu::tools::whole_number(1, 1024))
      ->type_name("N")
      ->group(group);
  app.add_flag("--no-cache", options.no_cache, "compile all kernels anew")->group(group);
  app.add_flag("--verify,!--no-verify", build.verify, "prove the command buffers while recording them (default)")
      ->group(group);
  add_list(app, "--disable-plugin", build.disabled_plugins, "an operator plugin to leave out, such as winograd")
      ->type_name("NAME")
      ->group(group);
  add_list(app, "--disable-pass", build.disabled_passes, "a graph or lowering pass to leave out")
      ->type_name("NAME")
      ->group(group);
}

int explain(const Tool& tool, const aipu::gbuilder::BuildOptions& build) {
  bool supported = false;
  const auto text = aipu::gbuilder::explain_model(build, &supported);
  if (!text.ok()) return tool.fail(text.status());
  aipu::tools::print(*text);
  return supported ? 0 : 1;
}

int convert(const Tool& tool, Options& options) {
  aipu::gbuilder::BuildOptions& build = options.build;
  if (options.pipeline) {
    if (!options.entries.models.empty()) tool.warn("--print-pipeline: the model is not read");
    fmt::print("{}", aipu::gbuilder::print_pipeline());
    return 0;
  }
  if (options.supported_ops) {
    if (!options.entries.models.empty()) tool.warn("--supported-ops: the model is not read");
    aipu::tools::print(aipu::frontend::supported_ops_page());
    return 0;
  }
  if (const Status status = aipu::gbuilder::load_target_plugins(build); !status.ok()) return tool.fail(status);
  if (options.targets) {
    if (!options.entries.models.empty()) tool.warn("--targets: the model is not read");
    fmt::print("{}", aipu::gbuilder::print_targets());
    return 0;
  }
  if (const std::string error = usage_error(options); !error.empty()) return tool.fail_usage(error);
  if (options.explain) return explain(tool, build);
  const bool to_file = !options.json.empty() && options.json != "-";
  if (to_file) {
    if (const Status status = aipu::prepare_output(options.json); !status.ok()) return tool.fail(status);
  }
  if (!options.sign.empty()) {
    auto signer = aipu::runtime::file_signer(options.sign);
    if (!signer.ok()) return tool.fail(std::move(signer).status().context("--sign"));
    build.sign = std::move(*signer);
  }
  warn_of_no_use(tool, options);
  if (!options.quantize.data.empty()) {
    options.quantize.constants = options.entries.constants;
    const bool silent = options.quiet || options.json == "-";
    const auto code = aipu::gbuilder::quantize(options.quantize, silent, options.quiet, &build);
    if (!code.ok()) return tool.fail(code.status());
    if (*code != 0) return *code;
  }
  build.use_cache = !options.no_cache;
  ProgressLine line(options.quiet);
  build.progress = line.callback();
  const auto report = aipu::gbuilder::build_model(build);
  line.clear();
  if (!report.ok()) return tool.fail(report.status());
  if (options.json != "-") print_report(tool, options, *report);
  if (options.json == "-") fmt::print("{}", json(options, *report));
  if (!to_file) return 0;
  const Status status = aipu::write_file_atomically(options.json, json(options, *report));
  return status.ok() ? 0 : tool.fail(status);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Tool tool("aipugb", "Converts an ONNX model, or Compass IR text with weights, to aipu.bin",
            "resnet18.onnx -o resnet18.aipu.bin --shape input=1x3x224x224");
  add_options(tool, options);
  options.build.command_line =
      std::accumulate(argv + 1, argv + argc, std::string("aipugb"),
                      [](const std::string& line, const char* word) { return line + " " + word; });
  return tool.run(argc, argv, [&] { return convert(tool, options); });
}
