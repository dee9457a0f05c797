#include "kernels/parts/gemm.h"

#include <algorithm>
#include <utility>

namespace aipu::kernels {

using graph::Dim;

bool sums_pairs(const tir::Target& target, DType left, const graph::Constant* right, const Dim& depth) {
  return target.bf16_dot_products && left == DType::kBF16 && right != nullptr && depth.is_constant() &&
         *depth.constant() % 2 == 0;
}

DType panel_dtype(DType accumulator, bool pairs) { return pairs ? DType::kBF16 : accumulator; }

void set_tile_params(const tir::Target& target, const RegisterTile& tile, int lanes, DType accumulator,
                     dsl::TemplateParams* params, bool pairs) {
  params->set("PANEL", panel_dtype(accumulator, pairs)).set("PAIRS", pairs);
  params->set("ACC", accumulator).set("VL", lanes).set("NV", tile.vectors).set("USE_FMA", is_floating(accumulator));
  params->set("BY_ELEMENT", target.element_products);
  params->set("PAIRS_TO_ODD", target.machine == "aarch64");
  params->set("PREFETCH", static_cast<int64_t>(target.vector_bits >= 512 ? 64 : 0));
}

namespace {
constexpr int kFewRows = 12;
}

Status launch_gemm(SetupContext& context, const RegisterTile& tile, int lanes, const GemmArguments& p,
                   const Epilogue& epilogue, dsl::TemplateParams params) {
  const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
  // Rows that are a multiple of a page apart compete for the same lines of the nearest cache: fewer of them at a time,
  // unless that cuts them up too much.
  constexpr int64_t kPageElements = 1024;
  std::vector<int64_t> heights = tile_heights(p.row_count, tile.rows);
  if (const auto row = p.left_row.constant(); row && *row % kPageElements == 0 && tile.rows > kFewRows) {
    const std::vector<int64_t> fewer = tile_heights(p.row_count, kFewRows);
    if (fewer.back() + 2 >= kFewRows || heights.back() == 1) heights = fewer;
  }
  params.set("HEIGHTS", heights).set("A_ZERO", false).set("UNIT_DEPTH", p.left_step == Dim(1));
  reuse_operand_memory(context, epilogue, &params);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("gemm.py", "gemm", params));
  const Dim panels = graph::ceildiv(p.columns, panel_width), panel_matrix = panels * p.depth * Dim(panel_width);
  // Of a block of rows, the left operand, the output and what is added to it stay in the second-level cache while the
  // panels pass by. A right operand that fits there itself passes by for every other tile, so that the rows are read
  // and written from one end to the other.
  constexpr int64_t kCacheElements = 96 * 1024;
  // Of deep products the right operand is what takes the time to fetch: as many rows as possible for each of its
  // panels, which leave the output no room.
  constexpr int64_t kDeep = 768, kDeepElements = 192 * 1024;
  const Dim is_wide = graph::lt(p.depth, Dim(kDeep));
  const Dim row_elements = p.depth + graph::select(is_wide, p.columns * Dim(2), Dim(0));
  const Dim fitting = graph::max(graph::floordiv(graph::select(is_wide, Dim(kCacheElements), Dim(kDeepElements)),
                                                 graph::max(row_elements * Dim(tile.rows), 1)),
                                 2);
  const Dim block_tiles =
      graph::select(graph::lt(p.depth * panels * Dim(panel_width), Dim(kCacheElements)), Dim(2), fitting);
  KernelArguments arguments;
  arguments.pointer("a", p.left)
      .pointer("b", p.right)
      .pointer("out", context.value(epilogue.result))
      .list("extras", epilogue.extra_arguments);
  arguments.record("product", {{"batches", p.batches},
                               {"inner_batches", p.inner_batches},
                               {"rows", p.rows},
                               {"columns", p.columns},
                               {"depth", p.depth}});
  arguments.scalars({{"lda", p.left_row}, {"a_step", p.left_step}, {"ldc", p.columns}, {"a_zero", 0}});
  arguments.record("a_batch", {{"outer", p.left_batch_outer}, {"inner", p.left_batch_inner}});
  arguments.record("b_batch",
                   {{"outer", p.right_batch_outer * panel_matrix}, {"inner", p.right_batch_inner * panel_matrix}});
  arguments.scalar("block_tiles", block_tiles);
  return context.launch(std::move(kernel), arguments,
                        graph::max(p.batches * panels * graph::ceildiv(p.rows, tile.rows), 1));
}

}  // namespace aipu::kernels
