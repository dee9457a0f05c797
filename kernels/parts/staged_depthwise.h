// Depthwise convolutions through the local memory of TECs: templates/depthwise_staged.py, and how large its tiles are.
#pragma once

#include <string>

#include "codegen/targets/target.h"
#include "kernels/parts/depthwise.h"
#include "kernels/parts/spatial.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

struct StagedDepthwise {
  int64_t segment = 0, block = 0;               // results of a row, channels; 0: not staged
  int64_t image = 0, weights = 0, results = 0;  // elements of a buffer
  int64_t last = 0;                             // results of the last segment of a row
  std::string text;                             // a line for people
};

struct DepthwiseTypes {
  DType image, weights, results;
};

// The tiles of fewest cycles by the target's timing figures that fit its memories; not staged where the target has no
// staging, shapes are not known or the image has depth.
StagedDepthwise plan_staged_depthwise(const tir::Target& target, const SpatialGeometry& geometry, int lanes,
                                      const DepthwiseTypes& types);

// `params` has those of the epilogue, X and ACC, `arguments` have x, out and extras; weights are [taps][channels
// rounded up to whole vectors] of the type of sums.
Status launch_staged_depthwise(SetupContext& context, const StagedDepthwise& staged, const SpatialGeometry& geometry,
                               int lanes, const DepthwiseSums& sums, const TensorRef& weights,
                               dsl::TemplateParams params, KernelArguments arguments);

}  // namespace aipu::kernels
