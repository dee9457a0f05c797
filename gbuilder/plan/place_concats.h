// Concat written in place: what its operands' producers write goes straight to its place in the result, and the copies
// are gone. An operand that is itself a copy (a part of a Split) is copied from where that came from.
#pragma once

#include <vector>

#include "gbuilder/plan/plan.h"

namespace aipu::gbuilder {

// For every copy of a Concat whose source is used by nothing else: if a launch that can write rows at any distance
// (kernels::StridedRows) writes the source, it is sent to the result, the source becomes a view of it, and the copy
// goes; if a copy of the same rows writes the source, that copy goes, and the Concat's reads what it read. A Concat of
// a Concat and more (each layer of a DenseNet adds its channels to those before) is one memory that grows, if the
// launches that read the first one can read rows at any distance. An operand that is one run of the result (of one
// sample, joined along an axis in front of which all extents are 1) is made there by whatever launches make it, through
// views and Concats of its own; if there are more samples, by launches that walk samples any distance apart. Where
// parts of a Split stay what and where they were, what is split is made in the result, and only the others are written.
// Returns how many copies were dropped.
int place_concats(const graph::Graph& graph, std::vector<PlannedGroup>* groups);

}  // namespace aipu::gbuilder
