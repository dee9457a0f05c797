// aipugb: converts a model to aipu.bin. Exit code 0 on success, 1 on any error, which is one line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "gbuilder/build.h"
#include "graph/ir/graph.h"

namespace {

void print_report(const aipu::gbuilder::BuildOptions& options, const aipu::gbuilder::BuildReport& report, bool quiet,
                  bool verbose, bool time_stages) {
  if (!quiet) {
    for (const std::string& warning : report.warnings) fmt::print(stderr, "warning: {}\n", warning);
  }
  if (verbose || time_stages) {
    for (const auto& [stage, seconds] : report.stage_seconds) fmt::print("{:10} {:8.1f} ms\n", stage, seconds * 1e3);
  }
  if (!report.stopped_after.empty()) {
    if (!quiet) fmt::print("{}", report.graph_text);
    return;
  }
  if (verbose) {
    fmt::print("{} nodes, {} groups, {} kernel launches, {} commands, constants {} bytes\n", report.nodes,
               report.groups, report.launches, report.commands, report.constant_bytes);
    if (report.has_memory_plan) {
      fmt::print("arena {} bytes, {:.3f} times what is alive at once\n", report.arena_bytes,
                 report.arena_lower_bound_bytes == 0
                     ? 1.0
                     : static_cast<double>(report.arena_bytes) / static_cast<double>(report.arena_lower_bound_bytes));
    } else {
      fmt::print("arena: its size depends on the inputs\n");
    }
  }
  if (quiet) return;
  double seconds = 0;
  for (const auto& stage : report.stage_seconds) seconds += stage.second;
  fmt::print("{}: {} bytes for {}, {} kernels ({} of {} C files compiled, the rest from the cache), {:.2f} s\n",
             options.output, report.file_bytes, report.target, report.kernels, report.compiled_units,
             report.translation_units, seconds);
}

// NAME=16000, NAME=0.5, NAME=[1,2], NAME=true
bool add_constant(const std::string& text, aipu::gbuilder::BuildOptions* options) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  std::string list = text.substr(equals + 1);
  const bool is_list = list.size() >= 2 && list.front() == '[' && list.back() == ']';
  if (is_list) list = list.substr(1, list.size() - 2);
  std::vector<double> numbers;
  std::vector<int64_t> integers;
  std::vector<uint8_t> flags;
  size_t count = 0;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ','); ++count) {
    if (item == "true" || item == "false") {
      flags.push_back(item == "true" ? 1 : 0);
      continue;
    }
    const char* end = item.data() + item.size();
    int64_t integer = 0;
    double number = 0;
    if (const auto r = std::from_chars(item.data(), end, integer); r.ec == std::errc() && r.ptr == end)
      integers.push_back(integer);
    if (const auto r = std::from_chars(item.data(), end, number); r.ec != std::errc() || r.ptr != end) return false;
    numbers.push_back(number);
  }
  if (count == 0 || (!is_list && count != 1)) return false;
  const std::vector<int64_t> shape =
      is_list ? std::vector<int64_t>{static_cast<int64_t>(count)} : std::vector<int64_t>{};
  using aipu::graph::Constant;
  auto& constant = options->constant_inputs[text.substr(0, equals)];
  if (flags.size() == count) {
    constant = Constant::of<uint8_t>(aipu::DType::kBool, shape, flags);
  } else if (integers.size() == count) {
    constant = Constant::of<int64_t>(aipu::DType::kI64, shape, integers);
  } else if (numbers.size() == count) {
    const std::vector<float> floats(numbers.begin(), numbers.end());
    constant = Constant::of<float>(aipu::DType::kF32, shape, floats);
  }
  return constant != nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  aipu::gbuilder::BuildOptions options;
  bool quiet = false, verbose = false, no_cache = false, time_passes = false, pipeline = false, verify = true;
  std::vector<std::string> constants;
  CLI::App app{"Converts an ONNX model, or Compass IR text with weights, to aipu.bin", "aipugb"};
  app.add_option("model", options.model, "MODEL.onnx, or IR.txt");
  app.add_option("weights", options.weights, "IR.bin, the weights of IR.txt (default: IR.txt with the extension .bin)");
  app.add_option("-o,--output", options.output, "the aipu.bin to write");
  app.add_option("--target", options.target, "host, host-baseline, host-avx2, host-avx512, X2_1204, ...")
      ->capture_default_str();
  app.add_flag("--fast-math", options.fast_math,
               "trade accuracy for speed: large 3x3 convolutions by Winograd's F(4x4), errors several times those of "
               "float32 sums, NaN and infinities spread over tiles of 4x4 pixels (no NaN is lost)");
  app.add_option("--shape", options.shapes, "NAME=1x3x224x224: fixes the extents of an input; -1 keeps one")
      ->take_all();
  app.add_option("--constant", constants,
                 "NAME=16000 or NAME=[1,2]: makes an input a constant (int64; with a point float32; true, false)")
      ->take_all();
  app.add_option("--plugin", options.plugins, "a shared library with operators")->take_all();
  app.add_option("--emit-c", options.emit_c, "folder for the generated C");
  app.add_option("--emit-ir", options.emit_ir, "prefix for Compass IR: PREFIX.txt and PREFIX.bin");
  app.add_option("--dump-ir", options.dump_ir,
                 "folder for the graph after each pass, TIR, C, plan and command buffers");
  app.add_option("--disable-plugin", options.disabled_plugins, "an operator plugin to leave out, such as winograd")
      ->take_all();
  app.add_option("--disable-pass", options.disabled_passes, "a graph or lowering pass to leave out")->take_all();
  app.add_option("--stop-after", options.stop_after, "a stage or graph pass; prints the graph there");
  app.add_option("--jobs", options.jobs, "threads and C compilers at a time (default: one per CPU)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--no-cache", no_cache, "compile all kernels anew");
  app.add_flag("--verify,!--no-verify", verify, "prove the command buffers while recording them (default)");
  app.add_flag("--time-passes", time_passes, "print what each stage took");
  app.add_flag("--print-pipeline", pipeline, "print the passes and stages and exit");
  app.add_flag("-q,--quiet", quiet, "print errors only");
  app.add_flag("-v,--verbose", verbose, "print more");
  for (const char* name : {"--shape", "--constant", "--plugin", "--disable-pass", "--disable-plugin"})
    app.get_option(name)->allow_extra_args(false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "aipugb: {}\n", error.what());
    return 1;
  }
  if (pipeline) {
    fmt::print("{}", aipu::gbuilder::print_pipeline());
    return 0;
  }
  if (options.model.empty()) {
    fmt::print(stderr, "aipugb: which model? Give MODEL.onnx (see --help)\n");
    return 1;
  }
  if (options.output.empty() && options.stop_after.empty() && options.emit_c.empty() && options.emit_ir.empty() &&
      options.dump_ir.empty()) {
    fmt::print(stderr, "aipugb: nothing to do: give -o OUT.aipu.bin (see --help)\n");
    return 1;
  }
  for (const std::string& text : constants) {
    if (!add_constant(text, &options)) {
      fmt::print(stderr,
                 "aipugb: --constant {}: expected NAME=VALUE or NAME=[VALUE,...], of integers, of numbers with a "
                 "point, or of true and false\n",
                 text);
      return 1;
    }
  }
  options.use_cache = !no_cache;
  options.verify = verify;
  options.command_line = std::accumulate(argv + 1, argv + argc, std::string("aipugb"),
                                         [](std::string line, const char* word) { return line + " " + word; });
  const auto report = aipu::gbuilder::build_model(options);
  if (!report.ok()) {
    fmt::print(stderr, "aipugb: {}\n", report.status().message());
    return 1;
  }
  print_report(options, *report, quiet, verbose, time_passes);
  return 0;
}
