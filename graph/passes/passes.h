// The passes of the graph, each in its own source file, run in the order of pipeline.cpp. Every pass returns the number
// of rewrites it made, leaves no dead nodes behind, and costs about n log n. Sub-graphs are visited by the runner, not
// by the passes.
#pragma once

#include "graph/passes/pass.h"

namespace aipu::graph {

Result<int> lower_stored_types(Graph& graph, PassContext& context);
Result<int> eliminate_dead_nodes(Graph& graph, PassContext& context);
Result<int> inline_control_flow(Graph& graph, PassContext& context);
Result<int> resolve_shape_operands(Graph& graph, PassContext& context);
Result<int> fold_data(Graph& graph, PassContext& context);
Result<int> block_quantized_products(Graph& graph, PassContext& context);
Result<int> fold_constants(Graph& graph, PassContext& context);
Result<int> common_subexpressions(Graph& graph, PassContext& context);
Result<int> simplify_algebra(Graph& graph, PassContext& context);
Result<int> integer_arithmetic(Graph& graph, PassContext& context);
Result<int> recognise_operators(Graph& graph, PassContext& context);
Result<int> fold_batch_normalization(Graph& graph, PassContext& context);
Result<int> merge_branches(Graph& graph, PassContext& context);
Result<int> decompose(Graph& graph, PassContext& context);
Result<int> assign_layout(Graph& graph, PassContext& context);
Result<int> sink_transposes(Graph& graph, PassContext& context);
Result<int> lower_precision(Graph& graph, PassContext& context);
Result<int> widen_halves(Graph& graph, PassContext& context);
Result<int> hold_bfloats(Graph& graph, PassContext& context);
Result<int> unsigned_bytes(Graph& graph, PassContext& context);
Result<int> tabulate_bytes(Graph& graph, PassContext& context);
Result<int> sink_reshapes(Graph& graph, PassContext& context);

}  // namespace aipu::graph
