// What follows from a stage's relations: ranges, loops, the values of its axes, guards.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/te/arith/analyzer.h"
#include "kernels/te/schedule.h"
#include "kernels/te/visit.h"

namespace aipu::te {

// A loop that is written, for a leaf axis. Its variable counts from 0; with extent 1 there is no loop and the variable
// is 0.
struct Loop {
  IterVarPtr axis;
  Expr var, extent;
  bool trivial() const { return var->as<Var>() == nullptr; }
};

using AxisValues = std::map<const IterVar*, Expr>;

// A stage whose ranges are known.
struct Nest {
  StagePtr stage;
  std::vector<Expr> body;                  // with inlined producers in it; empty if it is no compute
  StagePtr parent = nullptr;               // that it is computed inside; null at root
  IterVarPtr parent_axis = nullptr;        // the loop of it
  std::vector<Loop> enclosing;             // of what the stage is attached to, outermost first
  std::vector<Range> region;               // of the data axes
  std::map<const IterVar*, Range> domain;  // of all axes; those made by relations start at 0
  std::vector<Loop> loops;                 // one per leaf
  AxisValues values;                       // of all axes, over the loops' variables
  const Compute& compute() const { return *stage->op->compute(); }
};

// Facts that hold everywhere: sizes are at least 0.
void assume_sizes(const Schedule& schedule, Analyzer* analyzer);
void bind_loops(const std::vector<Loop>& loops, Analyzer* analyzer);

// domain down: the ranges of all axes from the regions of the root axes, and the loops.
Status derive_loops(Nest* nest, Analyzer* analyzer);

// index up: the values of all axes when the leaves have the values `leaves`.
AxisValues axis_values(const Nest& nest, const AxisValues& leaves);

// The values of an index over all iterations of the loops from `fixed` on. What data decides is unbounded.
Interval relaxed(const Expr& index, const std::vector<Loop>& loops, size_t fixed, Analyzer* analyzer);

// The root axes' variables, as expressions over the loops.
Substitution root_values(const Nest& nest, const AxisValues& values);

// What has to hold where the body is run: neither an uneven split nor a region larger than the domain is computed
// beyond its end. Proved conditions are left out. `data_only`: those of the data axes.
std::vector<Expr> guards(const Nest& nest, const AxisValues& values, bool data_only, Analyzer* analyzer);

}  // namespace aipu::te
