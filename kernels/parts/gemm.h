// The matrix multiplication kernel (templates/matmul.py) as plugins use it: MatMul and Gemm, 1x1 convolutions.
#pragma once

#include "kernels/parts/fusion.h"
#include "kernels/parts/register_tile.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// out[b, m, n] = epilogue(sum over k of left[b, m, k] * right[b, k, n]); `right` is packed in panels of vectors * lanes
// columns. Strides in elements.
struct GemmArguments {
  TensorRef left, right;
  RowCount row_count;  // what is known of `rows`
  graph::Dim batches = 1, inner_batches = 1, rows = 1, columns = 1, depth = 1;
  graph::Dim left_row, left_step = 1;
  graph::Dim left_batch_outer = 0, left_batch_inner = 0;
  graph::Dim right_batch_outer = 0, right_batch_inner = 0;  // in matrices of `right`
};

// Whether products of `left` (elements of a row side by side) with a constant of the same type are summed in pairs
// (PAIRS of templates/gemm.py): bfloat16 on a target with an instruction for it, `depth` neighbours even.
bool sums_pairs(const tir::Target& target, DType left, const graph::Constant* right, const graph::Dim& depth);

// The dtype of the packed right operand (PANEL).
DType panel_dtype(DType accumulator, bool pairs);

// VL, NV, ACC, USE_FMA and PREFETCH: what all product kernels need to know of their accumulators; PANEL, PAIRS: of what
// they read.
void set_tile_params(const tir::Target& target, const RegisterTile& tile, int lanes, DType accumulator,
                     dsl::TemplateParams* params, bool pairs = false);

// Instantiates and launches the kernel; `params` must have A and have been through set_tile_params() and
// bind_epilogue().
Status launch_gemm(SetupContext& context, const RegisterTile& tile, int lanes, const GemmArguments& arguments,
                   const Epilogue& epilogue, dsl::TemplateParams params);

}  // namespace aipu::kernels
