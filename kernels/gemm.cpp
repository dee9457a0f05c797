#include "kernels/gemm.h"

namespace aipu::kernels {

using graph::Dim;

void set_tile_params(const tir::Target& target, const RegisterTile& tile, int lanes, DType stored, DType accumulator,
                     dsl::TemplateParams* params) {
  params->set("ACC", accumulator).set("VL", lanes).set("NV", tile.vectors).set("USE_FMA", is_floating(accumulator));
  params->set("A", stored).set("X", stored);
  params->set("PREFETCH", static_cast<int64_t>(target.vector_bits >= 512 ? 64 : 0));
}

Status launch_gemm(SetupContext& context, const RegisterTile& tile, int lanes, const GemmArguments& p, const Epilogue& epilogue,
                   dsl::TemplateParams params) {
  const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
  params.set("HEIGHTS", tile_heights(p.row_count, tile.rows)).set("A_ZERO", false).set("UNIT_DEPTH", p.left_step == Dim(1));
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("gemm.py", "gemm", params));
  std::vector<KernelArgument> arguments = {PointerArgument{p.left}, PointerArgument{p.right},
                                           PointerArgument{context.value(epilogue.result)}};
  arguments.insert(arguments.end(), epilogue.extra_arguments.begin(), epilogue.extra_arguments.end());
  const Dim panels = graph::ceildiv(p.columns, panel_width), panel_matrix = panels * p.depth * Dim(panel_width);
  // A block of rows keeps its part of the left operand in the second-level cache while the panels pass by.
  constexpr int64_t kBlockElements = 96 * 1024;
  const Dim block_tiles = graph::max(graph::floordiv(kBlockElements, graph::max(p.depth * Dim(tile.rows), 1)), 4);
  for (const Dim& scalar :
       {p.batches, p.rows, p.columns, p.depth, p.left_row, p.left_step, p.columns, p.left_batch_outer, p.left_batch_inner,
        p.right_batch_outer * panel_matrix, p.right_batch_inner * panel_matrix, p.inner_batches, block_tiles, Dim(0)}) {
    arguments.emplace_back(ScalarArgument{scalar});
  }
  context.launch(std::move(kernel), std::move(arguments), graph::max(p.batches * panels * graph::ceildiv(p.rows, tile.rows), 1));
  return {};
}

}  // namespace aipu::kernels
