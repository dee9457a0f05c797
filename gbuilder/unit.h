// What becomes a plan, and what its groups are for people.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gbuilder/build.h"
#include "gbuilder/plan/plan.h"
#include "graph/ir/graph.h"

namespace aipu::gbuilder {

// The model, the body of a loop, a branch.
struct Unit {
  const graph::Graph* graph = nullptr;
  std::vector<PlannedGroup> groups;
  std::vector<std::vector<uint32_t>> kernel_of;  // by group and launch: a kernel's number, or kNone
  std::map<graph::NodeId, std::vector<Unit>> bodies;
};

GroupReport group_report(const graph::Graph& graph, const graph::Group& group);

// "group 3 by conv: Conv* Relu  // ..." with " on TARGET" where that is not "".
std::string group_line(const Unit& unit, size_t group, const std::string& target = "");

// For the dump: a line per group with its plugin, operators and ONNX nodes, those of the bodies behind them.
std::string groups_text(const Unit& unit);

}  // namespace aipu::gbuilder
