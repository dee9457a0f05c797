// Geometry of ops with spatial axes: where the axes are in each layout, and the extents that sliding windows give.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ops/infer.h"

namespace aipu::graph {

// Positions of the axes of a kSpatial operand: [N, C, spatial...] or [N, spatial..., C], as its node's `layout`
// attribute says.
class SpatialLayout {
 public:
  SpatialLayout(const Attributes& attributes, int rank);

  int spatial_rank() const { return rank_ - 2; }
  int channel_axis() const { return channels_last_ ? rank_ - 1 : 1; }
  int first_spatial_axis() const { return channels_last_ ? 1 : 2; }

  const Dim& batch(const Shape& shape) const { return shape[0]; }
  const Dim& channels(const Shape& shape) const { return shape[static_cast<size_t>(channel_axis())]; }
  Shape spatial(const Shape& shape) const;
  Shape make(const Dim& batch, const Dim& channels, const Shape& spatial) const;

 private:
  int rank_;
  bool channels_last_;
};

// The window of a convolution or pooling node, from its completed attributes. Pads are Dims only under auto_pad =
// SAME_* over symbolic extents with a stride, where they depend on the input; kernels should read them through this.
struct Window {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  Shape pads_begin;
  Shape pads_end;

  // how many input positions one window spans
  Dim reach(size_t axis) const { return Dim((kernel[axis] - 1) * dilations[axis] + 1); }
};

// Makes the pads those of auto_pad = SAME_UPPER or SAME_LOWER for an input of these spatial extents; the other fields
// are given. Pads that would be negative are 0.
void same_pads(const Shape& spatial, bool upper, Window* window);

// Of a node whose OpDef::complete has run (any node in a graph): Conv, ConvInteger, QLinearConv, ConvTranspose and the
// pools. For ConvTranspose the pads are what is cut from the full output.
Result<Window> window_of(const Graph& graph, const Node& node);

// For OpDef::complete: makes strides, dilations, pads explicit for windows of `kernel` over the spatial axes of input
// 0, and turns auto_pad into pads where it does not depend on symbolic extents. Sets kernel_shape.
Status complete_window(const Graph& graph, Node* node, const std::vector<int64_t>& kernel);
Status complete_transposed_window(const Graph& graph, Node* node, const std::vector<int64_t>& kernel);

// Extents of the spatial axes after sliding the node's window over input 0; ceil_mode counts windows that start inside
// the input or its leading pad.
Result<Shape> slide_window(const Graph& graph, const Node& node, bool ceil_mode = false);

// Extents kernel axes have in a weight operand [M, C/group, k...]; they have to be static.
Result<std::vector<int64_t>> kernel_extents(const TensorType& weight);

}  // namespace aipu::graph
