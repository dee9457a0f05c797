// What two targets hand to each other, and which of the first one's groups had better be the second one's for it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/partition/claim.h"

namespace aipu::graph {

// A value that a group of one target computes and another target reads, once, however many groups of it do.
struct Crossing {
  ValueId value;
  uint32_t from = 0, to = 0;  // targets
};

// `is_body`: its inputs and outputs are where the first target reads and writes them. Otherwise who calls the model has
// them for both. In the order of the groups that compute them.
std::vector<Crossing> find_crossings(const Graph& graph, std::span<const Group> groups, bool is_body);

// The cost model, in bytes: what the value has, and a constant for the transfer's start and who waits for it. An extent
// that only a run knows counts as kUnknownExtent.
constexpr int64_t kCrossingStartBytes = 4096;
constexpr int64_t kUnknownExtent = 32;
int64_t crossing_cost(const Graph& graph, ValueId value);

// Nodes of groups of target 0 that take little more than reading their operands, and which target 1 should compute so
// that the crossings of all values cost least; as few as that takes. (A minimum cut between the groups that are target
// 1's and those of target 0 that are worth having there.)
std::vector<NodeId> nodes_to_move(const Graph& graph, std::span<const Group> groups, bool is_body);

}  // namespace aipu::graph
