// The semantic check of an aipu.bin: every index, offset, size, id, enum value, operand order, wait and argument,
// before anything is executed.
//
// What it proves is what the executor relies on without looking again:
//  - all indices are in range, all enumerations have known values;
//  - the engines cannot deadlock: every wait names a command of a smaller sequence, and each engine's buffer is in
//    sequence order;
//  - programs form a tree below programs[0], of bounded depth;
//  - a command only uses expressions whose symbols are bound before it, and arena memory within its planned lifetime;
//  - nothing writes to inputs or constants; constants lie within their section;
//  - kernels of the device and of the host beside it get no addresses of each other's memory;
//  - calls fit the bodies that they run: numbers, types and ranks of inputs and results; each body is a model for which
//    all of this holds, and belongs to one call, which one command runs;
//  - each entry is a model for which all of this holds, with kernels and constants of the outermost one, and has a name
//    of its own;
//  - batch loops are stretches of TEC and DMA commands of one stage that do not overlap.
// Sizes that depend on symbols are checked when the shapes are bound (executor/plan.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/loader/model_file.h"

namespace aipu::runtime {

// Stage 0 ends at the first BindSymbols command in sequence order, stage 1 at the second, ...: what can be evaluated
// together.
struct ModelTables {
  struct ScheduledCommand {
    fb::Engine engine;
    uint32_t index;  // in its engine's buffer
    uint32_t sequence;
    uint32_t stage;
    uint32_t slot;  // position among the commands of its stage, over all programs
  };

  // in the order in which a single caller runs them; all waits are satisfied by it
  std::vector<std::vector<ScheduledCommand>> programs;
  // per stage: its commands, as (program, position in `programs`)
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> stages;
  // first stage in which all symbols of the expression have been bound
  std::vector<uint32_t> expression_stage;
  std::vector<std::vector<uint32_t>> stage_expressions;  // ascending
  std::vector<uint32_t> tensor_root;                     // through views
  // first stage in which size, shape and (views) place are known
  std::vector<uint32_t> tensor_stage;
  // Per stage, its tensors and symbols: a plan of a stage holds nothing about the others.
  std::vector<std::vector<uint32_t>> stage_tensors;  // ascending
  std::vector<uint32_t> tensor_slot;                 // position in stage_tensors
  std::vector<std::vector<uint32_t>> stage_symbols;  // that get their values at its beginning
  std::vector<uint32_t> input_of_tensor;             // position in `inputs`, or kNone
  std::vector<uint32_t> output_of_tensor;
  struct BatchLoop {
    uint32_t first, last;  // positions in programs[0], inclusive
    uint32_t symbol;
    uint32_t stage;
    uint32_t condition;  // expression, or kNone
  };
  std::vector<BatchLoop> batch_loops;  // ascending
  // of arena tensors that are used in one batch loop only, and their views; otherwise kNone
  std::vector<uint32_t> loop_of_tensor;
  uint32_t stage_count = 1;
  std::vector<ModelTables> bodies;   // as Model.bodies
  std::vector<ModelTables> entries;  // as Model.entries
};

// Whether a command of the host runs what Call describes.
constexpr bool runs_bodies(fb::HostOp op) {
  return op == fb::HostOp::kLoop || op == fb::HostOp::kScan || op == fb::HostOp::kBranch;
}
// The first input of a body that the call's own inputs stand for, and the first output that is a result: a loop's body
// takes an iteration and a condition before, and gives a condition.
constexpr uint32_t first_input(fb::HostOp op) { return op == fb::HostOp::kLoop ? 2 : 0; }
constexpr uint32_t first_result(fb::HostOp op) { return op == fb::HostOp::kLoop ? 1 : 0; }
inline uint32_t result_count(fb::HostOp op, const fb::Model& body) {
  return items(body.outputs()).size() - first_result(op);
}

constexpr uint32_t kMaxProgramDepth = 32;
constexpr uint32_t kMaxRank = 64;
constexpr uint32_t kMaxTecs = 64;
constexpr uint32_t kMaxEntries = 1024;  // besides the first

// What a model of a file is asked for by.
inline std::string_view entry_name(const fb::Model& model) {
  return text(model.entry_name() != nullptr ? model.entry_name() : model.model_name());
}

// `meter`, if there is one, counts the memory of the tables and ends the check when its time is over.
Result<ModelTables> check_model(const ModelFile& file, Meter* meter = nullptr);

}  // namespace aipu::runtime
