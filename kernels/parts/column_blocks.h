// A product whose columns a Reshape takes apart and a Transpose puts each block of them in front of the pixels, as the
// heads of detectors do: [N, ..., blocks * columns] becomes [N, blocks, ..., columns]. Where the blocks are computed
// apart each of them is written where it belongs, and nothing is moved.
#pragma once

#include <optional>
#include <span>

#include "graph/ir/graph.h"

namespace aipu::kernels {

struct ColumnBlocks {
  graph::NodeId reshape, transpose;
  int64_t count = 0, columns = 0;
};

// What becomes of a value that nothing else reads; nullopt: something else.
std::optional<ColumnBlocks> column_blocks(const graph::Graph& graph, graph::ValueId value);

// The same of a group's nodes, if they end in such a Transpose.
std::optional<ColumnBlocks> column_blocks_of(const graph::Graph& graph, std::span<const graph::NodeId> nodes);

}  // namespace aipu::kernels
