// Where arena tensors end up and how good that is, for shapes that are known: the report of aipugb and aipudump. The
// runtime solves the same problem with the same solver when a model is bound; nothing here is written to the file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gbuilder/plan/plan.h"

namespace aipu::gbuilder {

struct MemoryPlan {
  std::vector<int64_t> offsets;  // per tensor of the plan; -1: not in the arena
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;  // the most that is alive at once
  int64_t activation_bytes = 0;   // the most that is alive at once of the model's own tensors, without workspaces
  double ratio() const {
    return lower_bound_bytes == 0 ? 1.0 : static_cast<double>(arena_bytes) / static_cast<double>(lower_bound_bytes);
  }
};

// `symbols` gives values to symbols by name; a size that depends on another one is an error that names it. The number
// of TECs is the target's unless it is given, and 1 where the target leaves it open.
Result<MemoryPlan> plan_memory(const Plan& plan, const std::map<std::string, int64_t>& symbols = {});

std::string print_memory_plan(const Plan& plan, const MemoryPlan& memory);

}  // namespace aipu::gbuilder
