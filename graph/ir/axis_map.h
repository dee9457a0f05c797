// Where the axes of a node's outputs come from (the axis mapping of tract, github.com/sonos/tract): what passes and the
// planner need to know of an op in order to move its axes, or to compute it part by part.
#pragma once

#include <vector>

namespace aipu::graph {

struct OutputAxis {
  static constexpr int kNone = -1;
  // Per input: its axis that runs along with this one, or kNone: any position of this axis may need all of the input.
  std::vector<int> from;
  // Let this axis and those of `from` be cut into the same number of equal parts (an axis of extent 1 that is broadcast
  // stays whole): each part of the output is then computed by the same rule from the same part of those inputs, and
  // from the whole of the others.
  bool apart = false;
};

// Per output, per axis. Empty for outputs that are absent.
using AxisMap = std::vector<std::vector<OutputAxis>>;

}  // namespace aipu::graph
