// Binding a stage of a model to the values of its symbols: sizes, places in memory, and commands with all numbers
// filled in.
//
// What is left for a run is to put in the addresses that changed (patch()) and to hand the steps to the engines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/meter.h"
#include "runtime/executor/model_state.h"
#include "runtime/loader/expressions.h"

namespace aipu::runtime {

// The pieces of memory that tensors live in, each with a base address that the session knows: inputs, outputs, the
// constants, one arena per stage. What the host does beside a device has arenas of its own, and reads inputs and
// constants where the host has them.
struct Roots {
  uint32_t inputs = 0, outputs = 0, stages = 0;  // counts
  uint32_t input(uint32_t i) const { return i; }
  uint32_t output(uint32_t i) const { return inputs + i; }
  uint32_t constants() const { return inputs + outputs; }
  uint32_t arena(uint32_t stage) const { return inputs + outputs + 1 + stage; }
  uint32_t host_arena(uint32_t stage) const { return arena(stages) + stage; }
  uint32_t host_input(uint32_t i) const { return arena(2 * stages) + i; }
  uint32_t host_constants() const { return host_input(inputs); }
  uint32_t count() const { return host_constants() + 1; }
  // The same memory as the host reaches it.
  uint32_t host_side(uint32_t root) const {
    return root < inputs ? host_input(root) : root == constants() ? host_constants() : root;
  }
  bool is_written(uint32_t root) const { return root >= output(0) && root != constants() && root < host_input(0); }
};

struct Placement {
  uint32_t root = 0;
  int64_t offset = 0;
  int64_t size = 0;
  bool known = false;
  // in a batch loop: bytes from a sample to the next, from a lane to the next
  int64_t sample_stride = 0, lane_stride = 0;
};

// A command with its numbers. Words, from `first_word` on: tec: the kernel's arguments. dma: destination, source,
// width, times, destination stride, source stride (times 0: nothing to do). host: the address of the condition of an
// If, or of the tensors of the symbols of a BindSymbols; the value of a Check; of work as of tec and dma.
struct Step {
  static constexpr uint32_t kFine = 0xffffffffu;

  uint32_t first_word = 0;
  uint32_t word_count = 0;
  uint32_t kernel = 0;
  uint32_t max_tecs = 1;
  int64_t operations = 0;  // tec: arithmetic by the definition of the layer, for profiles; 0: not counted
  bool left_out = false;   // tec: nobody uses what it writes
  bool overlaps = false;   // dma: source and destination are in the same piece of memory and touch
  bool to_host = false, from_host = false;  // dma: one end is in the host's memory, the other one on the device
  uint32_t error = kFine;  // index into StagePlan::errors: the command has no valid numbers, and fails if it is reached
};

// What is known of one stage. Its size does not grow with what belongs to the others: a model may have many stages.
struct StagePlan {
  // The key: which plan of an earlier stage it goes on from, and the values of ModelTables::stage_symbols[stage].
  uint64_t id = 0;     // of this plan; no other one of the session has it
  uint64_t after = 0;  // id of that plan, 0 for the first stage
  int64_t bytes = 0;   // that making it took, which are more than it keeps
  std::vector<SymbolValue> symbols;
  std::vector<Placement> placements;  // as ModelTables::stage_tensors[stage]
  std::vector<Step> steps;            // as ModelTables::stages[stage]
  std::vector<unsigned long long> words;
  std::vector<uint64_t> extents;  // parallel to words: bytes from an address to the end of its tensor, 0 for numbers
  std::vector<uint8_t> writable;  // parallel to words: 1 for an address that the command may write to
  std::vector<Status> errors;     // without the command that they are about
  int64_t arena_bytes = 0, host_arena_bytes = 0;
  // The batch loops (ModelTables::batch_loops) that are run sample by sample for these symbols; their commands have no
  // steps of their own. Each lane runs a sample at a time, in memory of its own; lanes run side by side.
  struct Loop {
    uint32_t first = 0, last = 0;  // positions in programs[0]
    int64_t samples = 0;
    uint32_t lanes = 1;
    std::vector<Step> steps;  // of the first sample in the first lane; the others differ in addresses only
    uint32_t first_word = 0, word_count = 0;
    int64_t lane_bytes = 0;  // of the arena: memory of the loop's own tensors, per lane
    struct Stride {
      uint32_t word;  // from first_word on
      int64_t bytes;
    };
    std::vector<Stride> sample_strides, lane_strides;
    std::vector<std::vector<unsigned long long>> lane_words;  // per lane: the words of the sample that it runs
  };
  std::vector<Loop> loops;  // ascending
  // The loop that has the command at a position of programs[0], or null.
  Loop* loop_with(uint32_t position) {
    const auto loop = std::partition_point(loops.begin(), loops.end(),
                                           [&](const Loop& candidate) { return candidate.last < position; });
    return loop != loops.end() && loop->first <= position ? &*loop : nullptr;
  }
  struct KnownOutput {
    uint32_t index;
    int64_t size;
    std::vector<int64_t> shape;
  };
  std::vector<KnownOutput> outputs;  // that become known in this stage

  // Writes the addresses of roots that moved since the last call.
  void patch(std::span<std::byte* const> roots);

  struct Patch {
    uint32_t root;
    uint32_t word;
    int64_t offset;
  };
  std::vector<Patch> patches;  // by root
  struct PatchedRoot {
    uint32_t root;
    uint32_t first, end;  // of its patches
    std::byte* patched_to;
  };
  std::vector<PatchedRoot> patched_roots;  // those that have patches

  // device_run.cpp. Parallel to words, where it is asked for: 1 + the root of the input or output of the model that an
  // address is in, or 0.
  std::vector<uint32_t> callers_roots;
};

// `earlier[s]` is the plan of stage s < stage, null if that stage was skipped. Errors name the tensor or command. The
// plan's id is the caller's to set. `meter` counts what the plan takes. `lanes`: the most samples of a batch loop that
// are run side by side; 0: batch loops are run for all samples at once. `values`: of the expressions of this stage and
// those before, for the symbols.
Result<std::unique_ptr<StagePlan>> make_stage_plan(const detail::ModelState& model, uint32_t stage,
                                                   std::span<const SymbolValue> symbols, const ExpressionValues& values,
                                                   std::span<StagePlan* const> earlier, int64_t memory_limit_bytes,
                                                   uint32_t lanes, Meter& meter);

// The error of a kCheck host command that does not hold.
Status check_status(const detail::ModelState& model, const ExpressionValues& values, uint32_t program,
                    const ModelTables::ScheduledCommand& command);

// The commands that one waits for, in the order of the file: body(const fb::Wait&).
template <typename Body>
void for_each_wait(const fb::Model& root, uint32_t program, const ModelTables::ScheduledCommand& command, Body&& body) {
  const fb::Program& buffers = *items(root.programs())[program];
  const auto all_of = [&](const auto& row) {
    for (uint32_t i = 0; i < row.wait_count(); ++i) body(*items(root.waits())[row.first_wait() + i]);
  };
  if (command.engine == fb::Engine::kTec) all_of(*items(buffers.tec())[command.index]);
  if (command.engine == fb::Engine::kDma) all_of(*items(buffers.dma())[command.index]);
  if (command.engine == fb::Engine::kHost) all_of(*items(buffers.host())[command.index]);
}

// A launch as it is in the file: a row of a program, or of the host's work.
struct LaunchRow {
  const fb::Program* rows = nullptr;  // null: the command launches nothing
  uint32_t index = 0;
  explicit operator bool() const { return rows != nullptr; }
  const fb::TecCommand& operator*() const { return *items(rows->tec())[index]; }
};
LaunchRow launch_row(const fb::Model& root, uint32_t program, const ModelTables::ScheduledCommand& command);

// "tec command 17, kernel 'k012_conv', from 'neck/conv3' (Conv)".
std::string command_text(const detail::ModelState& model, uint32_t program,
                         const ModelTables::ScheduledCommand& command);

}  // namespace aipu::runtime
