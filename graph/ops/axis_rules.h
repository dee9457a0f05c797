// What op records say about their axes (OpDef::axes) and arithmetic (OpDef::multiply_adds), for families of ops.
#pragma once

#include <string>

#include "graph/ir/op_def.h"

namespace aipu::graph {

// An axis map under construction. At first no axis comes from anywhere.
class AxisMapBuilder {
 public:
  AxisMapBuilder(const Graph& graph, const Node& node);

  // Ranks are 0 where the node has no such input or output.
  bool has_input(size_t input) const;
  size_t input_rank(size_t input) const;
  size_t output_rank(size_t output) const;
  const Dim& input_extent(size_t input, size_t axis) const;
  const Dim& output_extent(size_t output, size_t axis) const;

  // The output's axis runs along with the input's; nothing happens where the node has not got one of them.
  AxisMapBuilder& link(size_t output, size_t axis, size_t input, size_t input_axis);
  AxisMapBuilder& apart(size_t output, size_t axis, bool apart = true);
  // Axis k of the output is apart and comes from axis k of the input, for all k < count.
  AxisMapBuilder& link_leading(size_t output, size_t input, size_t count);
  // The same for all axes, counted from the last one: as operands are broadcast.
  AxisMapBuilder& link_trailing(size_t output, size_t input);

  AxisMap take() { return std::move(map_); }

 private:
  const Graph& graph_;
  const Node& node_;
  AxisMap map_;
};

// Values for OpDef::axes.
namespace axes {

// Nothing is known: any element may depend on all inputs.
AxisRule mixed();
// NumPy's broadcasting of all inputs, or of those named; the others are needed as a whole.
AxisRule broadcast();
AxisRule broadcast_of(std::vector<size_t> inputs);
// Outputs with the axes of input 0; those that an attribute names (an axis, or a list) are needed as a whole.
AxisRule along(std::string attribute);
// Images: [N, C, spatial...] or by `layout` [N, spatial..., C]. Samples are apart; with kApart channels too, and
// vectors of one element per channel among the other operands run along with them.
enum class Channels { kMixed, kApart };
AxisRule images(Channels channels);
// Products of stacks of matrices, as NumPy's matmul; `a` and `b` are operands, the others are needed as a whole.
AxisRule matmul(size_t a, size_t b);
// Matrices: [M, K] or by transA [K, M] times [K, N] or by transB [N, K], and C, which is broadcast (where it exists).
AxisRule gemm(size_t a, size_t b, size_t c);

}  // namespace axes

// Values for OpDef::multiply_adds.
namespace work {

// Convolution with the weights [out channels, ...] (operand `weights`): a filter's elements for each output element.
WorkRule convolution(size_t weights);
// The same filters moved over the elements of the input.
WorkRule transposed_convolution(size_t weights);
// The inner extent of [..., M, K] (operand `a`) for each output element.
WorkRule matmul(size_t a);
WorkRule gemm(size_t a);

}  // namespace work
}  // namespace aipu::graph
