// Rules for reductions: what follows from which axis is consecutive in memory.
#pragma once

#include <set>

#include "kernels/te/rules.h"

namespace aipu::te {

// Where all that an output needs is one row of it after the other (a softmax, a normalisation): its rows in parallel,
// everything else inside. The stages that have a schedule then; none where it is not so.
Result<std::set<const Stage*>> schedule_rows(Schedule& schedule, Machine machine, const Knobs& knobs);

// A reduction by itself, or with the one elementwise stage that reads it. The stages that have a schedule then.
Result<std::set<const Stage*>> schedule_reduction(Schedule& schedule, const StagePtr& stage, Machine machine,
                                                  const Knobs& knobs);

}  // namespace aipu::te
