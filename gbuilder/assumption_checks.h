#pragma once

#include "kernels/plugin.h"

namespace aipu::gbuilder {

// Adds to a group that has been set up the checks of what its kernels rely on and the shapes of a run decide
// (graph/ops/assumptions.h).
void check_assumptions(kernels::SetupContext* context);

}  // namespace aipu::gbuilder
