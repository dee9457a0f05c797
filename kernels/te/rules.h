// Schedules by rule: what a definition without a schedule of its own gets.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kernels/te/schedule.h"

namespace aipu::te {

// What kind of machine runs the loops.
enum class Machine : uint8_t {
  kCpu,      // threads with wide vectors: long chunks, one register at a time
  kCompass,  // TECs, which hide the latency of loads by several registers at once, and copy to their local memory
  kGpu,      // blocks of threads, no vectors
};
// "cpu", "compass", "gpu"; nullopt for another name.
std::optional<Machine> find_machine(std::string_view name);

// What the rules choose by numbers, each with what a tuner may try instead. Numbers are positive.
struct Knobs {
  int64_t lanes = 0;    // of a vector
  int64_t chunk = 0;    // elements of an elementwise nest that one iteration of its parallel loop computes
  int64_t sums = 0;     // vectors of sums that a tile of a reduction holds in registers
  int64_t panels = 0;   // parallel panels of tiles from which on tiles are not parallel themselves
  int64_t blocks = 0;   // of rows, each of a TEC
  int64_t threads = 0;  // of a block
};
struct Knob {
  std::string_view name;
  int64_t Knobs::*value;
  std::vector<int64_t> choices;
};
// Those that the rules of a machine look at.
std::vector<Knob> knobs_of(Machine machine);
// What the rules choose themselves.
Knobs default_knobs(Machine machine);

// The stages that the outputs need, by primitives that a user could write: elementwise producers are inlined, the outer
// loops become the work of threads or TECs, the innermost one becomes vectors with a mask for its tail.
Result<SchedulePtr> schedule_by_rules(const std::vector<OperationPtr>& outputs, Machine machine, const Knobs& knobs);

}  // namespace aipu::te
