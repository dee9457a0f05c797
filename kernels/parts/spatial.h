// What spatial ops (convolutions, pooling) have in common: channels-last geometry as up to three spatial dimensions.
#pragma once

#include <array>
#include <string>

#include "graph/ir/graph.h"
#include "kernels/plugin.h"

namespace aipu::kernels {

// One spatial axis: extents as Dims, window parameters as constants (ONNX attributes), begin padding as a Dim (SAME
// padding of a symbolic extent).
struct SpatialAxis {
  graph::Dim in = 1, out = 1;
  int64_t kernel = 1, stride = 1, dilation = 1;
  graph::Dim pad_begin = 0, pad_end = 0;
};

// [N, D, H, W, C]; axes[0] is D. Ranks 3 and 4 leave the outer spatial axes at extent 1.
struct SpatialGeometry {
  graph::Dim batch, channels, out_channels;
  std::array<SpatialAxis, 3> axes;
};

// Reads layout-NHWC geometry of `node` from its first input, first output and attributes (kernel_shape from `kernel`
// where the attribute is absent). An error text where the node is not channels-last or has more than three spatial
// axes.
std::string read_geometry(const graph::Graph& graph, const graph::Node& node, const std::vector<int64_t>& kernel,
                          SpatialGeometry* geometry);

// in_d, in_h, in_w / out_* / kernel / stride / pad / dilation as int32 scalars, in that order.
void append_extents(const SpatialGeometry& geometry, bool inputs, std::vector<KernelArgument>* arguments);
void append_window(const SpatialGeometry& geometry, std::vector<KernelArgument>* arguments);

}  // namespace aipu::kernels
