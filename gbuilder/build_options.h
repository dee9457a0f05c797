// The words of BuildOptions: names of stages and passes, and what build.cpp makes of other options.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/onnx/import.h"
#include "gbuilder/build.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kStages = {{
    {"import", "the model file becomes a graph"},
    {"passes", "the graph passes above"},
    {"partition", "op plugins claim groups of nodes"},
    {"setup", "plugins instantiate kernel templates, pack constants, state launches"},
    {"lower", "TIR to printable TIR, kernel by kernel"},
    {"compile", "C and one shared object of all kernels"},
    {"plan", "schedule, tensors, lifetimes, symbols, waits"},
    {"record", "a command buffer per engine"},
    {"encode", "aipu.bin"},
}};

// Not a pass over the graph, but asked for like one.
inline constexpr std::string_view kBatchLoops = "batch_loops";

const std::string& target_name(const BuildOptions& options);
bool is_graph_pass(const std::string& name);
bool is_lowering_pass(const std::string& name);

// The models of the file; the options outlive the result.
std::vector<const EntryOptions*> entries_of(const BuildOptions& options);

// What they are asked for by, of a file with several; "" of a file's only model that nobody has given a name. An error
// where that is no name, or two have one.
Result<std::vector<std::string>> entry_names(const BuildOptions& options);

// Adds what --preprocess and --postprocess ask for.
Status parse_processing(const EntryOptions& options, frontend::ImportOptions* parsed);

}  // namespace aipu::gbuilder
