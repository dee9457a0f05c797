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
  kCompass,  // TECs, which hide the latency of loads by several registers at once
  kGpu,      // blocks of threads, no vectors
};
// "cpu", "compass", "gpu"; nullopt for another name.
std::optional<Machine> find_machine(std::string_view name);

// The stages that the outputs need, by primitives that a user could write: elementwise producers are inlined, the outer
// loops become the work of threads or TECs, the innermost one becomes vectors with a mask for its tail.
Result<SchedulePtr> schedule_by_rules(const std::vector<OperationPtr>& outputs, Machine machine);

}  // namespace aipu::te
