// templates/depthwise_bytes.py: depthwise convolutions of bytes by dot products.
#pragma once

#include <optional>

#include "kernels/parts/spatial.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// How a row of results is cut, and the columns outside the image that its first and its last tile meet.
struct ByteTiles {
  int64_t tiles, width;
  int64_t before, behind;
};

// None: the target has no such products, or tiles meet what is outside the image elsewhere than at its ends.
std::optional<ByteTiles> plan_depthwise_bytes(const tir::Target& target, const SpatialGeometry& geometry);

struct ByteOperands {
  bool flip = false;            // x is int8, and taken as uint8: 128 more
  int64_t zero = 0;             // of x as it is taken
  std::vector<int8_t> weights;  // [channel][tap]
  std::vector<int32_t> start;   // per channel: bias - zero * sum of weights
  std::vector<float> factors;   // of the sums, per channel; empty: they are stored as int32
};

// `params` has those of the epilogue, X and ACC, `arguments` have x, out and extras.
Status launch_depthwise_bytes(SetupContext& context, const SpatialGeometry& geometry, const ByteTiles& tiles,
                              const ByteOperands& operands, dsl::TemplateParams params, KernelArguments arguments);

}  // namespace aipu::kernels
