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
  params->set("PREFETCH", static_cast<int64_t>(target.vector_bits >= 512 ? 64 : 0))
      .set("STREAMS", false)
      .set("LAST", tile.vectors);
}

namespace {

constexpr int kFewRows = 12;

// Of a block of rows, the left operand, the output and what is added to it stay in the second-level cache while the
// panels pass by.
constexpr int64_t kCacheElements = 96 * 1024;
// Of deep products the right operand is what takes the time to fetch: as many rows as possible for each of its panels,
// which leave the output no room.
constexpr int64_t kDeep = 768, kDeepElements = 192 * 1024;

// Vectors of the last panel to be multiplied: those that have columns, where the others are more than a twelfth of the
// product.
int last_vectors(const tir::Target& target, const Dim& columns, const RegisterTile& tile, int lanes) {
  const auto count = columns.constant();
  if (!count || target.element_products || target.vector_registers < 32) return tile.vectors;
  const int64_t vectors = (*count + lanes - 1) / lanes, panels = (vectors + tile.vectors - 1) / tile.vectors;
  const int64_t empty = panels * tile.vectors - vectors;
  constexpr int64_t kWorthOne = 12;
  return empty * kWorthOne < panels * tile.vectors ? tile.vectors : tile.vectors - static_cast<int>(empty);
}

// Elements of a right operand from which on it comes from memory, whatever lies between two uses.
constexpr int64_t kLargeRightElements = int64_t{2} << 20;

// Tiles whose rows have so many elements in all.
Dim fitting_tiles(const Dim& elements, const Dim& row_elements, int height) {
  return graph::max(graph::floordiv(elements, graph::max(row_elements * Dim(height), 1)), 2);
}

// Depths whose products are cut into parts (gemm_in_parts() of the template), and the greatest part.
constexpr int64_t kDepthOfParts = 2560, kPartDepth = 1024;
// Whose sums wait between two parts.
constexpr int64_t kPanelsOfPart = 24;
// About as many of such a depth are kDeepElements: of no more the panels pass by only once as it is.
constexpr int64_t kFewTiles = 4;

// The depth of a part, 0 for products that are not cut: where few rows meet the right operand, and on CPUs that do not
// wait for it.
int64_t part_depth(const SetupContext& context, const GemmArguments& p, const RegisterTile& tile) {
  const auto depth = p.depth.constant();
  if (!depth || *depth < kDepthOfParts || p.batches != Dim(1) || p.left_step != Dim(1)) return 0;
  if (p.row_count.exact && p.row_count.multiple <= kFewTiles * tile.rows) return 0;
  if (context.target().vector_bits < 512 || context.is_in_bands()) return 0;
  constexpr int64_t kWhole = 64;
  const int64_t parts = (*depth + kPartDepth - 1) / kPartDepth;
  return ((*depth + parts - 1) / parts + kWhole - 1) / kWhole * kWhole;
}

KernelArguments common_arguments(SetupContext& context, const GemmArguments& p, const Epilogue& epilogue) {
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
  arguments.scalars({{"lda", p.left_row}, {"ldc", p.columns}});
  return arguments;
}

// `part` as part_depth() gives it, of the depth; `height` of the tallest tile.
Status launch_in_parts(SetupContext& context, const RegisterTile& tile, int lanes, const GemmArguments& p,
                       const Epilogue& epilogue, dsl::TemplateParams params, int64_t part, int64_t height) {
  params.set("PANELS_OF_A_PART", kPanelsOfPart);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("matmul.py", "gemm_in_parts", params));
  const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
  const Dim tiles = graph::max(graph::ceildiv(p.rows, height), 1);
  const Dim block_tiles = graph::min(fitting_tiles(kDeepElements, part, tile.rows), tiles);
  const Dim units = tiles * graph::max(graph::ceildiv(p.columns, panel_width), 1);
  const Dim tecs = graph::min(units, tec_count());
  const int64_t element_bytes = context.target().vector_bits / 8 / lanes;
  KernelArguments arguments = common_arguments(context, p, epilogue);
  arguments.pointer(
      "scratch", context.add_workspace(tecs * block_tiles * Dim(height * kPanelsOfPart * panel_width * element_bytes)));
  arguments.scalar("block_tiles", block_tiles)
      .scalar("part_depth", graph::select(graph::lt(kFewTiles * tile.rows, p.rows), Dim(part), p.depth));
  return context.launch(std::move(kernel), arguments, tecs);
}

}  // namespace

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
  params.set("ROW_ALONE", heights.back() == 1 && !context.target().element_products);
  const Dim right_elements = p.depth * p.columns;
  params.set("STREAMS", context.target().vector_bits >= 512 && right_elements.constant_or(0) >= kLargeRightElements);
  params.set("LAST", last_vectors(context.target(), p.columns, tile, lanes));
  reuse_operand_memory(context, epilogue, &params);
  if (const int64_t part = part_depth(context, p, tile); part > 0)
    return launch_in_parts(context, tile, lanes, p, epilogue, params, part, heights.front());
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("matmul.py", "gemm", params));
  const Dim panels = graph::ceildiv(p.columns, panel_width), panel_matrix = panels * p.depth * Dim(panel_width);
  // A right operand that fits into the second-level cache passes by for every other tile, so that the rows are read and
  // written from one end to the other.
  const Dim is_wide = graph::lt(p.depth, Dim(kDeep));
  const Dim row_elements = p.depth + graph::select(is_wide, p.columns * Dim(2), Dim(0));
  const Dim fitting =
      fitting_tiles(graph::select(is_wide, Dim(kCacheElements), Dim(kDeepElements)), row_elements, tile.rows);
  const Dim block_tiles =
      graph::select(graph::lt(p.depth * panels * Dim(panel_width), Dim(kCacheElements)), Dim(2), fitting);
  KernelArguments arguments = common_arguments(context, p, epilogue);
  arguments.scalars({{"a_step", p.left_step}, {"a_zero", 0}});
  arguments.record("a_batch", {{"outer", p.left_batch_outer}, {"inner", p.left_batch_inner}});
  arguments.record("b_batch",
                   {{"outer", p.right_batch_outer * panel_matrix}, {"inner", p.right_batch_inner * panel_matrix}});
  arguments.scalar("block_tiles", block_tiles);
  return context.launch(std::move(kernel), arguments,
                        graph::max(p.batches * panels * graph::ceildiv(p.rows, tile.rows), 1));
}

}  // namespace aipu::kernels
