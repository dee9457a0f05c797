#include "kernels/parts/column_blocks.h"

#include <vector>

namespace aipu::kernels {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

namespace {

// The only node that reads the value; invalid: there are others.
NodeId only_user(const Graph& graph, ValueId value) {
  if (graph.is_graph_output(value)) return {};
  const std::vector<NodeId> users = graph.users(value);
  return users.size() == 1 ? users[0] : NodeId();
}

}  // namespace

std::optional<ColumnBlocks> column_blocks(const Graph& graph, ValueId value) {
  ColumnBlocks blocks;
  blocks.reshape = only_user(graph, value);
  if (!blocks.reshape.valid() || graph.node(blocks.reshape).op != "Reshape") return std::nullopt;
  const ValueId apart = graph.node(blocks.reshape).outputs[0];
  blocks.transpose = only_user(graph, apart);
  if (!blocks.transpose.valid() || graph.node(blocks.transpose).op != "Transpose") return std::nullopt;

  const graph::Shape &whole = graph.type(value).shape, &parts = graph.type(apart).shape;
  const size_t rank = whole.size();
  if (rank < 2 || parts.size() != rank + 1) return std::nullopt;
  for (size_t i = 0; i + 1 < rank; ++i) {
    if (!(whole[i] == parts[i])) return std::nullopt;
  }
  blocks.count = parts[rank - 1].constant_or(0);
  blocks.columns = parts[rank].constant_or(0);
  if (blocks.count < 2 || blocks.columns < 1) return std::nullopt;
  std::vector<int64_t> perm{0, static_cast<int64_t>(rank) - 1};
  for (size_t i = 1; i + 1 < rank; ++i) perm.push_back(static_cast<int64_t>(i));
  perm.push_back(static_cast<int64_t>(rank));
  const auto& given = graph.node(blocks.transpose).attributes.ints("perm");
  return std::vector<int64_t>(given.begin(), given.end()) == perm ? std::optional(blocks) : std::nullopt;
}

std::optional<ColumnBlocks> column_blocks_of(const Graph& graph, std::span<const NodeId> nodes) {
  if (nodes.size() < 3 || graph.node(nodes.back()).op != "Transpose") return std::nullopt;
  return column_blocks(graph, graph.node(nodes[nodes.size() - 2]).inputs[0]);
}

}  // namespace aipu::kernels
