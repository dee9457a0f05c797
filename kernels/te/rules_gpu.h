// Rules for reductions on a GPU: who of a block's threads adds up what.
#pragma once

#include <set>

#include "kernels/te/rules.h"

namespace aipu::te {

// An axis whose iterations are the blocks or threads of a tag.
Status bind_to(Stage& stage, const IterVarPtr& axis, const char* tag);

// A reduction, with the one elementwise stage that reads it where that is in the same kernel. The stages that have a
// schedule then; none where one thread per element is as good.
Result<std::set<const Stage*>> schedule_reduction_on_gpu(Schedule& schedule, const StagePtr& stage, const Knobs& knobs);

// Where all that an output needs is one row of it after the other (`rows`: its axes before those of a row): a block for
// each row, which keeps in its memory what is in between. The stages that have a schedule then; none where a row is
// too short for that, or too long.
Result<std::set<const Stage*>> schedule_rows_on_gpu(Schedule& schedule, const StagePtr& out,
                                                    const std::vector<StagePtr>& members, size_t rows,
                                                    const Knobs& knobs);

}  // namespace aipu::te
