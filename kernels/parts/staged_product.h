// Convolutions and matrix products through the local memory of TECs: templates/staged_product.py, and how large its
// tiles are (staged_tiling.cpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/parts/fusion.h"
#include "kernels/parts/spatial.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// The operands: x has `channels` channels in all, of which each of `groups` groups multiplies group_in by its part of
// the weights. `element` is the type of x; a vector has as many elements of it as fit, and so have the weights.
struct ProductShape {
  int64_t channels = 1, groups = 1, group_in = 1, group_out = 1;
  DType element = DType::kI8;
  DType result = DType::kF32;  // what is stored
  // The epilogue's operands: bytes per result of those that have an element for each, how many have one per column,
  // and one for all.
  int64_t extra_bytes = 0, column_extras = 0, scalar_extras = 0;
  // Lines and columns of zeros that are the border of the image: what they are multiplied by is left out.
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// Leaves out what no window reaches of the border below and beside an image.
void trim_border(SpatialGeometry* geometry);

// Sets the border of an image that gets its padding, of zeros, as `padded` says.
void describe_border(const SpatialGeometry& padded, ProductShape* shape);

// Sets the result and the operands of the epilogue of the anchor's group.
Status describe_epilogue(const SetupContext& context, const AnchorArithmetic& arithmetic, ProductShape* shape);

// Where a weight lies in the operand that is packed, in elements: group * group + column * column + channel * channel +
// tap * tap, taps counted through the window (kd, kh, kw).
struct WeightStrides {
  int64_t group = 0, column = 1, channel = 1, tap = 0;
};

// Columns of pixels from a tile's first one on that are no border: left <= column < end.
struct InnerColumns {
  static constexpr int64_t kNoEnd = 4096;  // as in the template
  int64_t left = 0, end = kNoEnd;
  bool are_all() const { return left == 0 && end == kNoEnd; }
};

// `count` register tiles of `height` pixels from pixel `first` of a unit on. With a split that many pixels of a tile
// end a row and the others begin the next one. Some of its rows may have border above or below.
struct PixelRun {
  int64_t height = 1, split = 0, count = 1, first = 0;
  InnerColumns inner;  // of the row that a tile begins in
  bool top = false, bottom = false;
};

// For each operand in local memory.
inline constexpr int kStagedProductBuffers = 2;

struct StagedProduct {
  int lanes = 8;                     // of 32 bits
  int64_t depth = 8;                 // elements of a vector
  int64_t columns = 1;               // of a register tile
  int64_t taps = 1;                  // of a register tile
  int64_t stride = 1, dilation = 1;  // within a register tile
  std::vector<int64_t> heights;      // of register tiles
  int64_t pixels = 1;                // of a segment, at most
  int64_t rows = 1;                  // of results of a unit, each with a segment
  std::vector<PixelRun> runs;        // of a unit, where all are alike
  InnerColumns inner;                // of a row that a tile does not begin in
  bool is_row = false;               // segments are whole rows
  int64_t vectors = 1;               // of a panel
  int64_t blocks = 1, block = 1;     // of the channels of a group: how many, and their channels
  int64_t parts = 1;                 // in which the weights of a block come
  int64_t lines = 1, run = 1;        // as in the template
  int64_t unit_lines = 1;            // of the windows of a unit's rows
  int out_buffers = 2;               // for results and the epilogue's operands
  int w_buffers = 2;                 // for weights; 1 where those of a panel stay
  bool masked = false;               // depths end within a vector
  bool lines_apart = false;          // of pixels: each line of a unit follows the one before
  bool skips_lines = false;          // of the border
  int64_t pool_bytes = 0;            // of local memory
  // Elements of a buffer.
  int64_t x_capacity = 0, w_capacity = 0, sum_capacity = 0, out_capacity = 0;
  std::string text;  // a line for people
  int64_t panel() const { return vectors * lanes; }
};

// Whether products of that type are made by a native multiply-add on whole vectors of both operands, whose sums are
// int32 or float32.
bool has_staged_products(const tir::Target& target, DType element);

// The cheapest tiling that fits the memories of the target, by its timing figures; nothing where the target has no
// staging, the image has padding, or no tiling fits. Registers: a tile's sums, the weights of a step and a vector of a
// pixel, or the pixels under a tap and a vector of weights.
std::optional<StagedProduct> plan_staged_product(const tir::Target& target, const SpatialGeometry& geometry,
                                                 const ProductShape& shape);

// Weights as the template reads them, elements as they are. `source` has `element`'s size, or is int8 beside uint8.
graph::ConstantPtr pack_staged(const StagedProduct& plan, const ProductShape& shape, graph::ConstantPtr source,
                               const WeightStrides& strides);

// What is beside x and the weights.
struct StagedOperands {
  PointerArgument x;
  TensorRef weights;
  // Per column, padded to whole panels; start of the type of sums, scale of float32.
  std::optional<TensorRef> start, scale;
};

// Instantiates and launches the kernel for the anchor's group, and notes the tiling. `geometry` as planned. Sums are of
// type int32 or float32, which `accumulator` is too, or float32 where there is a scale.
Status launch_staged_product(SetupContext& context, const StagedProduct& plan, const SpatialGeometry& geometry,
                             const ProductShape& shape, const StagedOperands& operands,
                             const AnchorArithmetic& arithmetic);

}  // namespace aipu::kernels
