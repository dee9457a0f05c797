// The whole road from a model file to aipu.bin: what aipugb does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/base/signature_block.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

// Where a conversion is.
struct Progress {
  std::string_view stage;      // of print_pipeline()
  size_t done = 0, total = 0;  // total 0: this stage is not counted
  std::string_view what;       // is counted: "kernels"
};

// The stages, in order; --stop-after takes these names and those of graph passes.
//   import, passes, partition, setup, lower, compile, plan, record, encode
// A model of the file that is made, and what is asked for it alone.
struct EntryOptions {
  // What the runtime is asked for it by. "": its file's name without the extension, or, of a file with one model, what
  // that is called.
  std::string entry;
  std::string model;                          // ONNX, or Compass IR text
  std::string weights;                        // of Compass IR text; "" = beside it, with the extension .bin
  std::vector<std::string> shapes;            // NAME=1x3x224x224
  std::vector<std::string> sequence_lengths;  // NAME=3, NAME=none
  // Graph inputs of an ONNX model that become constants (frontend::ImportOptions::constant_inputs).
  std::map<std::string, graph::ConstantPtr> constant_inputs;
  std::vector<std::string> exposed;  // values of an ONNX model that become outputs (frontend::ImportOptions::exposed)
  std::vector<std::string> preprocess, postprocess;  // nodes around an ONNX model (frontend/onnx/processing.h)
  int64_t cache_length = 0;  // rows of caches that would grow by Concat (gbuilder/hold_caches.h); 0: they grow
};

// The file, and its first model.
struct BuildOptions : EntryOptions {
  std::vector<EntryOptions> more_entries;  // further models of the file, which share constants and kernels with it
  std::string output;                      // "" = nothing is written
  std::string target;                      // "" = host; of the call of a DSL kernel, what that was compiled for
  // trade accuracy for speed: longer sums of Winograd's F(4x4, 3x3); not in constants, which are computed as always
  bool fast_math = false;
  std::string precision;       // what products multiply: "" (or fp32), bf16, int8 (the model is quantised already)
  std::string precision_file;  // by name of node, see gbuilder/precision.h
  // Without what only people and the interpreter read: C, TIR, Compass IR, the graph's text.
  bool strip = false;
  std::vector<std::string> plugins;         // files
  std::vector<std::string> target_plugins;  // libraries of targets, see load_targets()
  // Operators that are in no file: what messages call them, and the text of a `.py` plugin.
  std::vector<std::pair<std::string, std::string>> plugin_texts;
  std::string emit_c;                         // folder for the generated C
  std::string emit_ir;                        // prefix for compass_ir text and weights: PREFIX.txt, PREFIX.bin
  std::string dump_ir;                        // folder for everything in between
  std::vector<std::string> disabled_passes;   // graph or lowering passes
  std::vector<std::string> disabled_plugins;  // by name; others claim what they would have claimed
  std::string stop_after;
  int jobs = 0;  // 0: as many as there are CPUs
  bool use_cache = true;
  bool verify = true;  // check the command buffers while recording
  // Makes the signature of the file that is written; null: it has none.
  FileSigner sign;
  std::string command_line;  // for the reproducer
  // Called at the start of each stage and when something is done, by one thread at a time, not always the same; false
  // ends the conversion with an error.
  std::function<bool(const Progress&)> progress;
};

// A group of the partition: the plugin that computes it, and the ONNX operators of its nodes.
struct GroupReport {
  std::string plugin;
  std::string target;                                             // of several; "": there is one
  std::vector<std::string> ops;                                   // sorted, each once
  std::vector<std::pair<std::string, graph::Dim>> multiply_adds;  // by ONNX operator, of nodes that have some
};

// Of all models of the file together, but for arenas, which are those of the model with the largest.
struct BuildReport {
  std::vector<std::pair<std::string, double>> stage_seconds;
  std::vector<std::string> warnings;
  std::string target;
  std::string stopped_after;  // "" when the whole road was taken
  std::string graph_text;     // the graph where --stop-after stopped
  std::vector<GroupReport> group_list;
  size_t nodes = 0, groups = 0, launches = 0, kernels = 0, compiled_units = 0, translation_units = 0, commands = 0;
  uint64_t constant_bytes = 0, file_bytes = 0;
  std::vector<std::string> entry_names;  // of a file with several models
  bool has_memory_plan = false;          // sizes are known without inputs
  int64_t arena_bytes = 0, arena_lower_bound_bytes = 0;
};

// What the program aipugb prints of a report, whole lines: seconds per stage; sizes of the plan; the file that is made.
std::string stage_times(const BuildReport& report);
std::string plan_sizes(const BuildReport& report);
std::string result_line(const BuildReport& report, const std::string& output);

// Makes the targets of libraries known (options.target_plugins), to the whole process; build_model() does so too.
Status load_target_plugins(const BuildOptions& options);

// Whether the names in the options are known (target, stages, passes) and their values have the right form; opens no
// file.
Status check_options(const BuildOptions& options);

// The weights of Compass IR text: IR.bin beside IR.txt unless given; "" where there are none, which is fine for a text
// without constants.
std::string weights_path(const EntryOptions& options);

// Errors are one line and start with the file of the model at fault; nothing is written then. An internal error leaves
// <output>.repro/ behind: the last good graph and the command line.
Result<BuildReport> build_model(const BuildOptions& options);

// The graph passes, the stages and the operator plugins, for --print-pipeline.
std::string print_pipeline();

// All targets with their facts, for --targets.
std::string print_targets();

}  // namespace aipu::gbuilder
