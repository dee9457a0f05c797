// What the two families of recognise_operators share: the set of nodes that a pattern has matched, and its replacement.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/passes/rewrite.h"

namespace aipu::graph {

// The nodes of a pattern, each once.
class Match {
 public:
  void add(NodeId node);
  const std::vector<NodeId>& nodes() const { return nodes_; }
  // Whether what the nodes compute is used by each other only, but for the result of `last`, which is one of them.
  bool is_closed(const Graph& graph, NodeId last) const;

 private:
  std::vector<NodeId> nodes_;
};

// A pattern found: `last` of its nodes computes what `op` computes from `inputs`.
struct Recognised {
  std::string op;
  Attributes attributes;
  std::vector<ValueId> inputs;
  Match match;
  NodeId last;
};

// `value` within the rounding of a number written down in `dtype`, a few roundings for 16-bit types; 0 only by itself.
bool is_about(double value, double expected, DType dtype);

// What `anchor` is the middle of: Erf, Tanh, Sigmoid, HardSigmoid, Clip, Min or Max of an activation written out.
std::optional<Recognised> recognise_activation(const Graph& graph, NodeId anchor);

// What `root`, a Div, Mul or Add, is the last common operation of: LayerNormalization or RMSNormalization written out.
// Scale and bias that follow are taken along. Or `root` is the InstanceNormalization of a GroupNorm, or the
// BatchNormalization of Keras' LayerNormalization. May add constants and Reshapes of scale and bias, hence the mutable
// graph.
Result<std::optional<Recognised>> recognise_normalization(Graph& graph, NodeId root);

}  // namespace aipu::graph
