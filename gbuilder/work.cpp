#include "gbuilder/work.h"

namespace aipu::gbuilder {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;

namespace {

// The multiply-adds behind one output element of a convolution: the elements of a filter, whatever its layout.
Dim per_output(const Shape& weights, const Dim& out_channels) {
  return graph::floordiv(graph::element_count(weights), graph::max(out_channels, 1));
}

Dim multiply_adds(const Graph& graph, const Node& node) {
  const auto shape = [&](size_t input) -> const Shape& { return graph.type(node.inputs[input]).shape; };
  const auto outputs = [&] { return graph::element_count(graph.type(node.outputs[0]).shape); };
  if (node.op == "Conv" || node.op == "ConvInteger") return outputs() * per_output(shape(1), shape(1)[0]);
  if (node.op == "QLinearConv") return outputs() * per_output(shape(3), shape(3)[0]);
  if (node.op == "ConvTranspose") return graph::element_count(shape(0)) * per_output(shape(1), shape(1)[0]);
  if (node.op == "MatMul" || node.op == "MatMulInteger" || node.op == "QLinearMatMul") {
    return shape(0).empty() ? Dim(0) : outputs() * shape(0).back();
  }
  if (node.op == "Gemm") return outputs() * shape(0)[node.attributes.i("transA") != 0 ? 0 : 1];
  if (node.op == "LSTM" || node.op == "GRU" || node.op == "RNN") {
    // X [steps, batch, inputs] in either order of the first two; W and R are [directions, gates * hidden, inputs or
    // hidden].
    const Shape& x = shape(0);
    return x[0] * x[1] * (graph::element_count(shape(1)) + graph::element_count(shape(2)));
  }
  return 0;
}

}  // namespace

Dim arithmetic_operations(const Graph& graph, const graph::Group& group) {
  Dim sum = 0;
  for (const graph::NodeId id : group.nodes) {
    const Node& node = graph.node(id);
    if (!node.outputs.empty() && node.outputs[0].valid()) sum = sum + Dim(2) * multiply_adds(graph, node);
  }
  return sum;
}

}  // namespace aipu::gbuilder
