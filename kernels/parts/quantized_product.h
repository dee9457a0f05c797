// aipu::QuantizedConv and aipu::QuantizedMatMul as the kernels see them: products of 8-bit integers, summed exactly in
// int32, that may be scaled to float32.
#pragma once

#include "kernels/parts/fusion.h"
#include "kernels/parts/spatial.h"
#include "kernels/plugin.h"

namespace aipu::kernels::quantized {

enum Operand : size_t { kX, kW, kXZero, kWZero, kScale, kBias };

// Invalid: the node has not got it.
graph::ValueId operand(const graph::Node& node, size_t k);

// The node as a convolution of [N, D, H, W, C] by weights [group][out][taps][in], which lie in the constant with these
// strides. A matrix product is a 1x1 convolution over a row of pixels.
struct Problem {
  SpatialGeometry geometry;
  int64_t groups = 1, group_in = 1, group_out = 1, taps = 1;
  // of w, in elements; the group's stride is group_out * out_stride
  int64_t out_stride = 0, in_stride = 0, tap_stride = 0;
  int64_t x_zero = 0;
  int64_t first_out = 0;  // of the node's columns, where the problem is a block of them
};

// An error if weights, zero points, scale or bias are not constant.
Result<Problem> read_problem(const graph::Graph& graph, const graph::Node& node);

// Weights with their zero points taken off.
struct Weights {
  std::vector<int16_t> elements;  // [group][out][taps][in]
  bool fit_int8 = true;
};

Weights read_weights(const graph::Graph& graph, const graph::Node& node, const Problem& p);

// bias - zero * sum of w, of every output channel.
std::vector<int64_t> start_of_channels(const graph::Graph& graph, const graph::Node& node, const Weights& weights,
                                       const Problem& p, int64_t zero);

// The same, padded to whole panels like packed columns.
graph::ConstantPtr start_values(const graph::Graph& graph, const graph::Node& node, const Weights& weights,
                                const Problem& p, int64_t zero, int64_t panel_width);

// One scale per output channel, padded likewise.
graph::ConstantPtr scale_values(const graph::Constant& scale, const Problem& p, int64_t panel_width);

// One element of a constant of one element, or one per output channel.
template <typename T>
T of_channel(const std::vector<T>& elements, int64_t channel, T otherwise) {
  return elements.empty() ? otherwise : elements[elements.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

// Rows of the highest register tile: accumulators, weights and the broadcast words fit the registers. Tiles of one
// vector are twice as high, for what a tile costs beside its products and its epilogue.
int64_t highest_tile(const tir::Target& target, int vectors);

// Sums of integers times a scale: bounded where that is a number far from the limits.
AnchorArithmetic arithmetic_of(const graph::Graph& graph, const graph::Node& node);

// Whether the node has no scale, or a float32 one.
bool has_float32_scale(const graph::Graph& graph, const graph::Node& node);

// The epilogue of sums that are scaled to float32 if the node has a scale: bind_packed_epilogue(), and the parameters
// ACC and scale_types. `magnitude` is that of all of the node's columns.
Result<Epilogue> bind_epilogue_of_sums(SetupContext& context, std::optional<double> magnitude,
                                       dsl::TemplateParams* params);

// The arguments "start" and, if the node has a scale, "scale[0]", for panels of that width.
void bind_start_and_scale(SetupContext& context, const Weights& weights, const Problem& p, int64_t panel_width,
                          KernelArguments* arguments);

// The largest that such a number can be.
std::optional<double> magnitude_of(const graph::Graph& graph, const graph::Node& node, const Weights& weights,
                                   const Problem& p);

}  // namespace aipu::kernels::quantized
