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

// A number of each axis as the scalars "<name>_d", "<name>_h", "<name>_w".
NamedScalars of_axes(std::string_view name, const SpatialGeometry& geometry,
                     const std::function<graph::Dim(const SpatialAxis&)>& number);

// batch, channels, in_* and out_*.
void bind_extents(const SpatialGeometry& geometry, KernelArguments* arguments);
// kernel_*, stride_*, pad_* (in front) and dilation_*.
void bind_window(const SpatialGeometry& geometry, KernelArguments* arguments);

}  // namespace aipu::kernels
