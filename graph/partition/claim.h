// How the partitioner asks plugins without knowing them. `graph` owns this interface, `kernels` implements it,
// `gbuilder` wires the two.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace aipu::graph {

enum class EngineKind : uint8_t { kTec, kDma, kHost };

// What graph-level decisions may depend on; the rest of the target is the kernels' business.
struct ClaimTarget {
  std::string name;        // "host-avx2", "X2_1204", ...
  bool fast_math = false;  // algorithms that lose more digits than the direct sums are welcome
};

// A set of nodes that becomes one kernel (or a short chain of kernels) made by one plugin.
struct Claim {
  NodeId anchor;
  std::vector<NodeId> nodes;  // topological order, the anchor among them
  int score = 0;
};

// nullopt: the node's op is none of the plugin's business. An error of code kUnsupported: it is, but not with this
// dtype, shape or attribute, as the message says. Other errors end the conversion.
using ClaimResult = Result<std::optional<Claim>>;

class Claimer {
 public:
  virtual ~Claimer() = default;
  virtual std::string_view name() const = 0;
  // What this plugin would do with the node as the anchor of a group.
  virtual ClaimResult claim(const Graph& graph, NodeId anchor, const ClaimTarget& target) const = 0;
};

struct Group {
  const Claimer* owner = nullptr;
  NodeId anchor;
  std::vector<NodeId> nodes;
  std::vector<ValueId> inputs;   // from outside, constants included, first use order, each once
  std::vector<ValueId> outputs;  // used outside (or graph outputs), in node order
  uint32_t target = 0;           // of several: which one computes it
};

struct Unclaimed {
  NodeId node;
  std::vector<std::string> reasons;  // "<plugin>: <why not>"
};

// Gives every live node to exactly one group: anchors in topological order of preference, highest score first, ties to
// the plugin listed first. Groups are convex (no path leaves and re-enters) and come out in execution order; only the
// last node's outputs leave a group of several nodes. A claim that would break this, or wants nodes that have gone to
// another group, loses nodes from its end until it does not; the plugin then sets up what is left. Nodes that nobody
// wants are all reported in one error that lists op, node name, count and the reasons. Claimers that are `preferred`
// (among each other as above) are asked about every node first, and get what they want whatever the others' scores: the
// others never take such a node along.
Result<std::vector<Group>> partition(const Graph& graph, std::span<const Claimer* const> claimers,
                                     const ClaimTarget& target, std::span<const Claimer* const> preferred = {});

// One of several targets, of which the best one comes first.
struct PartitionTarget {
  ClaimTarget target;
  // Whether it can compute a group that somebody claims; the error says why not. Null: it computes what is claimed.
  std::function<Status(const Group&)> accepts = nullptr;
  std::set<NodeId> left_to_others = {};  // it takes none of these nodes
};
// The same for several targets: each in its turn gets what is claimed for it and what it accepts, of the nodes that
// those before it have left. A claim that a target refuses loses nodes from its end until it does not; a node that is
// refused by itself is offered to the next claimer, then to the next target.
Result<std::vector<Group>> partition_for_targets(const Graph& graph, std::span<const Claimer* const> claimers,
                                                 std::span<const PartitionTarget> targets,
                                                 std::span<const Claimer* const> preferred = {});

}  // namespace aipu::graph
