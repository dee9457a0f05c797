// Concat written in place: what its operands' producers write goes straight to its place in the result, and the copies are gone.
#pragma once

#include <vector>

#include "gbuilder/plan.h"

namespace aipu::gbuilder {

// For every copy of a Concat whose source is used by nothing else and written by a launch that can write rows at any distance
// (kernels::StridedOutput): sends the launch to the result, declares the source a view of it, drops the copy. Returns how many were
// dropped.
int place_concats(const graph::Graph& graph, std::vector<PlannedGroup>* groups);

}  // namespace aipu::gbuilder
