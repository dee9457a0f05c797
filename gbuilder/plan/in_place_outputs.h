#pragma once

#include "gbuilder/plan/plan.h"

namespace aipu::gbuilder {

// Outputs that may be given the memory of an input (PlanTensor::in_place_of), such as caches that a step adds rows to.
//
// What has to hold is seen in the commands: all that reads the input is one copy of it, as a whole, to the output, and
// nothing touches the output before. With the same memory for both the copy moves nothing, and whatever comes behind it
// works on the output alone.
void find_outputs_in_place(Plan* plan);

}  // namespace aipu::gbuilder
