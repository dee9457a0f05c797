// Convolutions and matrix products through the local memory of TECs: templates/staged_product.py, and how large its
// tiles are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/parts/spatial.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// The operands: x has `channels` channels in all, of which each of `groups` groups multiplies group_in by its part of
// the weights. A step multiplies `depth` channels of a pixel by `lanes` columns per vector.
struct ProductShape {
  int64_t channels = 1, groups = 1, group_in = 1, group_out = 1;
  int64_t depth = 1;
  int element_bytes = 1;  // of x and of the weights
  int lanes = 8;
};

struct StagedProduct {
  int64_t vectors = 1;                     // of a panel
  std::vector<int64_t> heights;            // of register tiles
  int64_t pixels = 1;                      // of a segment, at most
  bool merged = false;                     // taps and channels of a kernel row are one run
  int64_t taps = 1, steps = 1;             // runs of a kernel row, steps of a run
  int64_t block = 1;                       // steps of a run per chunk
  int64_t chunks = 1;                      // per unit
  int64_t pool_bytes = 0;                  // of local memory
  int64_t x_capacity = 0, w_capacity = 0;  // elements of a buffer
  std::string text;                        // a line for people
  int64_t columns(int lanes) const { return vectors * lanes; }
};

// The cheapest tiling that fits the memories of the target, by its timing figures; nothing where the target has no
// staging, the image has padding, or no tiling fits. Registers: a tile's sums, a vector of weights, a broadcast word of
// each of its pixels.
std::optional<StagedProduct> plan_staged_product(const tir::Target& target, const SpatialGeometry& geometry,
                                                 const ProductShape& shape);

// The template's parameters that the tiling decides, and its arguments but for pointers and the epilogue's.
void bind_staged_product(const StagedProduct& plan, const ProductShape& shape, dsl::TemplateParams* params);
void bind_staged_product(const StagedProduct& plan, const SpatialGeometry& geometry, const ProductShape& shape,
                         KernelArguments* arguments);
// TECs that get a unit.
graph::Dim staged_product_tecs(const StagedProduct& plan, const SpatialGeometry& geometry, const ProductShape& shape);

}  // namespace aipu::kernels
