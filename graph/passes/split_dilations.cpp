// split_dilations: an output of a convolution with dilation d meets every d-th line and column only, so that the d x d
// sub-lattices of an image are images of their own, which an ordinary convolution takes as a batch:
//
//   x[N, C, H, W] ─ Conv{dilations=[d, e], pads=[d, e, d, e]}
//     =>  x ─ Transpose ─ [d * e * N, C, H / d, W / e] ─ Conv{pads=[1, 1, 1, 1]} ─ Transpose ─ [N, K, H, W]
//
// Of 3x3 kernels of stride 1 whose padding is their dilation, and extents that this divides: Winograd's algorithm takes
// the result, and a tile at the edge has one pixel outside of the image instead of d.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

// Below, what Winograd's algorithm saves is less than the copies cost.
constexpr int64_t kLeastChannels = 32;
// Smaller images are mostly edge.
constexpr int64_t kLeastExtent = 3;

struct Lattice {
  int64_t lines, columns;         // how many there are
  int64_t height = 0, width = 0;  // of each
};

std::optional<Lattice> lattice_of(const Graph& graph, const Node& node) {
  if (node.op != "Conv" || node.attributes.i_or("group", 1) != 1 || !node.attributes.has("pads")) return std::nullopt;
  const TensorType& x = graph.type(node.inputs[0]);
  const Constant* weights = graph.constant(node.inputs[1]);
  if (weights == nullptr || x.dtype != DType::kF32 || x.rank() != 4 || weights->shape().size() != 4)
    return std::nullopt;
  const std::vector<int64_t>& shape = weights->shape();
  if (shape[2] != 3 || shape[3] != 3 || std::min(shape[0], shape[1]) < kLeastChannels) return std::nullopt;
  const auto& dilations = node.attributes.ints("dilations");
  const auto& strides = node.attributes.ints("strides");
  const auto& pads = node.attributes.ints("pads");
  if (dilations.size() != 2 || strides != std::vector<int64_t>{1, 1} || dilations == std::vector<int64_t>{1, 1} ||
      pads != std::vector<int64_t>{dilations[0], dilations[1], dilations[0], dilations[1]})
    return std::nullopt;
  const auto height = x.shape[2].constant(), width = x.shape[3].constant();
  if (!height || !width || *height % dilations[0] != 0 || *width % dilations[1] != 0) return std::nullopt;
  const Lattice lattice{dilations[0], dilations[1], *height / dilations[0], *width / dilations[1]};
  if (std::min(lattice.height, lattice.width) < kLeastExtent) return std::nullopt;
  return lattice;
}

Status split(Graph& graph, NodeId id, const Lattice& lattice) {
  const std::vector<ValueId> inputs = std::as_const(graph).node(id).inputs;
  const OriginSet origins = std::as_const(graph).node(id).origins;
  Attributes attributes = std::as_const(graph).node(id).attributes;
  const Shape x = graph.type(inputs[0]).shape, y = graph.type(std::as_const(graph).node(id).outputs[0]).shape;
  const Dim images = x[0] * Dim(lattice.lines * lattice.columns);
  AIPU_ASSIGN_OR_RETURN(
      ValueId value,
      reshaped(graph, inputs[0], {x[0], x[1], lattice.height, lattice.lines, lattice.width, lattice.columns}, origins));
  AIPU_ASSIGN_OR_RETURN(value, transposed(graph, value, {3, 5, 0, 1, 2, 4}, origins));
  AIPU_ASSIGN_OR_RETURN(value, reshaped(graph, value, {images, x[1], lattice.height, lattice.width}, origins));
  attributes.set("dilations", std::vector<int64_t>{1, 1});
  attributes.set("pads", std::vector<int64_t>{1, 1, 1, 1});
  std::vector<ValueId> operands = inputs;
  operands[0] = value;
  AIPU_ASSIGN_OR_RETURN(value, graph.emit("Conv", std::move(attributes), std::move(operands), origins,
                                          graph.value(std::as_const(graph).node(id).outputs[0]).name));
  AIPU_ASSIGN_OR_RETURN(
      value,
      reshaped(graph, value, {lattice.lines, lattice.columns, y[0], y[1], lattice.height, lattice.width}, origins));
  AIPU_ASSIGN_OR_RETURN(value, transposed(graph, value, {2, 3, 4, 0, 5, 1}, origins));
  AIPU_ASSIGN_OR_RETURN(value, reshaped(graph, value, y, origins));
  return replace_node(graph, id, value);
}

}  // namespace

Result<int> split_dilations(Graph& graph, PassContext& context) {
  if (!context.splits_dilations) return 0;
  int rewrites = 0;
  for (const NodeId id : graph.topological_order()) {
    const auto lattice = lattice_of(graph, std::as_const(graph).node(id));
    if (!lattice) continue;
    AIPU_RETURN_IF_ERROR(split(graph, id, *lattice));
    ++rewrites;
  }
  return rewrites;
}

}  // namespace aipu::graph
