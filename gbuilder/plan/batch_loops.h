// Which commands may be run once per sample instead of once per batch. A large batch of a convolutional network sends
// every activation through memory; one sample's may stay in the caches from layer to layer, at the price of reading the
// weights once per sample. Where a sample has many rows that price is hidden: products fetch the weights that come next
// while they multiply, and need fewer bytes in that time than memory delivers.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gbuilder/plan/plan.h"

namespace aipu::gbuilder {

// Whether the node treats every sample of a batch by itself: each of its values either does not depend on `symbol`, or
// has `symbol` (or a constant multiple of it) as its first extent and nowhere else, and sample i of the results depends
// on sample i of the operands only.
bool keeps_samples_apart(const graph::Graph& graph, const graph::Node& node, const std::string& symbol);

struct FoundBatchLoop {
  uint32_t first = 0, last = 0, symbol = 0;  // as PlanBatchLoop
  std::optional<graph::Dim> condition;
};

// The loops of programs[0] that are worth it: by sequence, not overlapping. `group_of_command[sequence]` is the index
// of the group that a command belongs to, kNone for commands of none. Needs lifetimes.
std::vector<FoundBatchLoop> find_batch_loops(const Plan& plan, const graph::Graph& graph,
                                             std::span<const PlannedGroup> groups,
                                             std::span<const uint32_t> group_of_command);

}  // namespace aipu::gbuilder
