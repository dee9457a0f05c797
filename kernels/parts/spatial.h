// What spatial ops (convolutions, pooling) have in common: channels-last geometry as up to three spatial dimensions.
#pragma once

#include <array>
#include <functional>
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
// where the attribute is absent). unsupported() where the node is not channels-last or has more than three spatial
// axes.
Result<SpatialGeometry> read_geometry(const graph::Graph& graph, const graph::Node& node,
                                      const std::vector<int64_t>& kernel);

bool has_padding(const SpatialGeometry& geometry);
// The same results of an image that the padding is a part of.
SpatialGeometry with_padding_inside(SpatialGeometry geometry);
// All pixels of all images as one row, where a pixel of the result is one of the image: no padding, windows of 1, no
// strides.
void flatten_pixels(SpatialGeometry* geometry);

// The records of templates/spatial.py, as the parameter `name`. The padding of an axis is the one in front.
void bind_axis(std::string_view name, const SpatialAxis& axis, KernelArguments* arguments);
// The same with an extent of the kernel that may be an expression.
void bind_axis(std::string_view name, const SpatialAxis& axis, const graph::Dim& kernel, KernelArguments* arguments);
// "geometry", with all three axes.
void bind_geometry(const SpatialGeometry& geometry, KernelArguments* arguments);
// "groups".
void bind_groups(int64_t count, int64_t group_in, int64_t group_out, KernelArguments* arguments);

// A number of each axis under the axes' names: depth, height, width.
NamedScalars of_axes(const SpatialGeometry& geometry, const std::function<graph::Dim(const SpatialAxis&)>& number);

}  // namespace aipu::kernels
