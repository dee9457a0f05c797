#include "kernels/parts/spatial.h"

#include <fmt/format.h>

#include <algorithm>

namespace aipu::kernels {

using graph::Dim;

Result<SpatialGeometry> read_geometry(const graph::Graph& graph, const graph::Node& node,
                                      const std::vector<int64_t>& kernel) {
  if (node.attributes.s_or("layout", "NCHW") != "NHWC")
    return unsupported("not channels-last (the layout pass is disabled?)");
  const graph::Shape& x = graph.type(node.inputs[0]).shape;
  const graph::Shape& y = graph.type(node.outputs[0]).shape;
  const size_t spatial = x.size() - 2;
  if (x.size() < 3 || spatial > 3)
    return unsupported(fmt::format("{} spatial dimensions; 1 to 3 are supported", static_cast<int>(x.size()) - 2));
  SpatialGeometry geometry;
  geometry.batch = x.front();
  geometry.channels = x.back();
  geometry.out_channels = y.back();
  const auto attribute = [&](std::string_view name, size_t i, int64_t otherwise) {
    return node.attributes.has(name) && !node.attributes.ints(name).empty() ? node.attributes.ints(name)[i] : otherwise;
  };
  const std::string auto_pad = node.attributes.s_or("auto_pad", "NOTSET");
  for (size_t i = 0; i < spatial; ++i) {
    SpatialAxis& axis = geometry.axes[3 - spatial + i];
    axis.in = x[1 + i];
    axis.out = y[1 + i];
    axis.kernel = kernel.empty() ? attribute("kernel_shape", i, 1) : kernel[i];
    axis.stride = attribute("strides", i, 1);
    axis.dilation = attribute("dilations", i, 1);
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      const Dim total =
          graph::max((axis.out - 1) * Dim(axis.stride) + Dim((axis.kernel - 1) * axis.dilation + 1) - axis.in, 0);
      axis.pad_begin = auto_pad == "SAME_UPPER" ? graph::floordiv(total, 2) : graph::ceildiv(total, 2);
      axis.pad_end = total - axis.pad_begin;
    } else if (auto_pad != "VALID") {
      axis.pad_begin = attribute("pads", i, 0);
      axis.pad_end = attribute("pads", spatial + i, 0);
    }
  }
  return geometry;
}

bool has_padding(const SpatialGeometry& geometry) {
  return std::any_of(geometry.axes.begin(), geometry.axes.end(),
                     [](const SpatialAxis& axis) { return axis.pad_begin != Dim(0) || axis.pad_end != Dim(0); });
}

SpatialGeometry with_padding_inside(SpatialGeometry geometry) {
  for (SpatialAxis& axis : geometry.axes) {
    axis.in = axis.in + axis.pad_begin + axis.pad_end;
    axis.pad_begin = axis.pad_end = 0;
  }
  return geometry;
}

void flatten_pixels(SpatialGeometry* geometry) {
  Dim pixels = geometry->batch;
  for (const SpatialAxis& axis : geometry->axes) {
    if (axis.kernel != 1 || axis.stride != 1 || axis.pad_begin != Dim(0) || axis.pad_end != Dim(0)) return;
    pixels *= axis.out;
  }
  geometry->batch = 1;
  geometry->axes = {};
  geometry->axes[2].in = geometry->axes[2].out = pixels;
}

namespace {

constexpr std::string_view kAxisNames[] = {"depth", "height", "width"};

}  // namespace

void bind_axis(std::string_view name, const SpatialAxis& axis, KernelArguments* arguments) {
  bind_axis(name, axis, axis.kernel, arguments);
}

void bind_axis(std::string_view name, const SpatialAxis& axis, const Dim& kernel, KernelArguments* arguments) {
  arguments->record(name, {{"image", axis.in},
                           {"result", axis.out},
                           {"kernel", kernel},
                           {"stride", axis.stride},
                           {"pad", axis.pad_begin},
                           {"dilation", axis.dilation}});
}

void bind_geometry(const SpatialGeometry& geometry, KernelArguments* arguments) {
  arguments->record("geometry", {{"batch", geometry.batch}, {"channels", geometry.channels}});
  for (size_t i = 0; i < geometry.axes.size(); ++i)
    bind_axis(fmt::format("geometry.{}", kAxisNames[i]), geometry.axes[i], arguments);
}

void bind_groups(int64_t count, int64_t group_in, int64_t group_out, KernelArguments* arguments) {
  arguments->record("groups", {{"count", count}, {"image", group_in}, {"result", group_out}});
}

NamedScalars of_axes(const SpatialGeometry& geometry, const std::function<Dim(const SpatialAxis&)>& number) {
  NamedScalars scalars;
  for (size_t i = 0; i < geometry.axes.size(); ++i)
    scalars.emplace_back(std::string(kAxisNames[i]), number(geometry.axes[i]));
  return scalars;
}

}  // namespace aipu::kernels
