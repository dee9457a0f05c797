// templates/depthwise.py: what depthwise convolutions of floating-point numbers and of 8-bit integers have in common.
#pragma once

#include "kernels/parts/spatial.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// What becomes of the sums, and what they begin with.
struct DepthwiseSums {
  DType type;  // of the sums and of the weights
  // Of 8-bit integers, exact in float32: what they begin with, per channel. Channels are rounded up to whole vectors.
  graph::ConstantPtr start = nullptr;
  graph::ConstantPtr factors = nullptr;  // of such sums, per channel; they are stored as int32 where there are none
  int64_t zero = 0;                      // of such images: what stands around them
};

// Of a row of `out` results; 0: of any number.
int64_t depthwise_tile_width(const tir::Target& target, int64_t out);

// The parameters that say so, and the arguments.
void set_depthwise_sums(const DepthwiseSums& sums, int lanes, dsl::TemplateParams* params);
void bind_sums(SetupContext& context, const DepthwiseSums& sums, KernelArguments* arguments);

// The blocks of rows that results are computed by.
struct DepthwiseBlocks {
  graph::Dim rows, ahead;  // `ahead`: whether the next block is fetched
  graph::Dim units;        // of rows and vectors of channels
};
// With the parameters that say how memory is fetched.
DepthwiseBlocks set_depthwise_blocks(SetupContext& context, const SpatialGeometry& geometry, int lanes,
                                     dsl::TemplateParams* params);

// Not staged. `params` has those of the epilogue, X and ACC, `arguments` have x, out and extras; weights are
// [taps][channels rounded up to whole vectors].
Status launch_depthwise(SetupContext& context, const SpatialGeometry& geometry, int lanes, const DepthwiseSums& sums,
                        const TensorRef& weights, dsl::TemplateParams params, KernelArguments arguments);

}  // namespace aipu::kernels
