// recognise_operators: operators that an exporter has written out become one node again, where nobody else uses what is
// in between.
//
//   x ─ ReduceMean, Sub, Pow(2), ReduceMean, Add(eps), Sqrt, Div ─ Mul(scale) ─ Add(bias)
//                                                                  => LayerNormalization(x, scale, bias)
//   x ─ Pow(2), ReduceMean, Add(eps), Sqrt, Div ─ Mul(scale)       => RMSNormalization(x, scale)
//   Reshape ─ InstanceNormalization(x, 1, 0)                       => Reshape ─ LayerNormalization{axis=2}(x)
//   Reshape ─ BatchNormalization(x, 1, 0, ReduceMean, ReduceSumSquare / extent) ─ Reshape
//                                                                  => LayerNormalization(x, scale, bias)
//   x * 0.5 * (1 + Erf(x / sqrt(2)))                               => Gelu(x)
//   x * 0.5 * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))      => Gelu{approximate="tanh"}(x)
//   x * Sigmoid(alpha * x)                                         => Swish{alpha}(x)
//   x * Clip(x + 3, 0, 6) / 6, x * HardSigmoid{1/6, 0.5}(x)        => HardSwish(x)
//   Clip(x + 3, 0, 6) / 6                                          => HardSigmoid{1/6, 0.5}(x)
//   x * Tanh(Softplus(x))                                          => Mish(x)
//
// The activations are in recognise_activations.cpp, the normalisations in recognise_normalizations.cpp.
#include "graph/passes/recognise_operators.h"

#include <algorithm>
#include <cmath>

#include "graph/ir/op_def.h"
#include "graph/passes/passes.h"

namespace aipu::graph {
namespace {

// The last node becomes the new one: it keeps its place in the order of execution, which a branch's locality depends
// on.
Status replace(Graph& graph, Recognised found) {
  OriginSet origins;
  for (const NodeId id : found.match.nodes()) merge_origins(&origins, std::as_const(graph).node(id).origins);
  Node& last = graph.node(found.last);
  last.op = std::move(found.op);
  last.attributes = std::move(found.attributes);
  last.inputs = std::move(found.inputs);
  last.origins = std::move(origins);
  const OpDef* def = graph.find_op(last.op);
  if (def == nullptr) return internal_error(str_cat("no record of ", last.op));
  AIPU_RETURN_IF_ERROR(check_node_schema(*def, graph, &last));
  AIPU_RETURN_IF_ERROR(graph.infer_node(found.last));
  // At once, so that later patterns do not see their users.
  bool erased = true;
  while (erased) {
    erased = false;
    for (const NodeId id : found.match.nodes()) {
      const Node& node = std::as_const(graph).node(id);
      if (node.erased || id == found.last || graph.user_count(node.outputs[0]) != 0) continue;
      graph.erase_node(id);
      erased = true;
    }
  }
  return {};
}

}  // namespace

void Match::add(NodeId node) {
  if (std::find(nodes_.begin(), nodes_.end(), node) == nodes_.end()) nodes_.push_back(node);
}

bool Match::is_closed(const Graph& graph, NodeId last) const {
  for (const NodeId id : nodes_) {
    const Node& node = graph.node(id);
    if (node.outputs.size() != 1) return false;
    if (id == last) continue;
    if (graph.is_graph_output(node.outputs[0])) return false;
    for (const NodeId user : graph.users(node.outputs[0])) {
      if (std::find(nodes_.begin(), nodes_.end(), user) == nodes_.end()) return false;
    }
  }
  return true;
}

bool is_about(double value, double expected, DType dtype) {
  const double tolerance = dtype == DType::kBF16 ? 8e-3 : dtype == DType::kF16 ? 2e-3 : 1e-6;
  return std::abs(value - expected) <= tolerance * std::abs(expected);
}

Result<int> recognise_operators(Graph& graph, PassContext&) {
  int count = 0;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = std::as_const(graph).node(id);
    if (node.erased || node.outputs.empty() || !node.outputs[0].valid() ||
        !is_floating(graph.type(node.outputs[0]).dtype))
      continue;
    const OriginSet origins = node.origins;
    auto found = recognise_normalization(graph, id);
    if (!found.ok()) return std::move(found).status().context(str_cat("node ", origins_text(origins)));
    if (!*found) *found = recognise_activation(graph, id);
    if (!*found) continue;
    if (Status status = replace(graph, std::move(**found)); !status.ok()) {
      return std::move(status).context(str_cat("node ", origins_text(origins)));
    }
    ++count;
  }
  if (count != 0) graph.erase_dead_nodes();
  return count;
}

}  // namespace aipu::graph
