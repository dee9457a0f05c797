// Loops whose elements are read in the middle and something else at the ends, as padding makes them.
#pragma once

#include <optional>

#include "kernels/te/arith/analyzer.h"
#include "kernels/te/stmt.h"

namespace aipu::te {

// A loop around a store of if_then_else, whose condition is about what does not change in the loop and about bounds of
// its variable: as three loops without a choice, of which the middle one can become a copy. Nullopt: it is something
// else. Before a middle that is empty or beyond the ends the first one is as long as needed.
std::optional<Stmt> split_padding(const For& loop, Analyzer* analyzer);

}  // namespace aipu::te
