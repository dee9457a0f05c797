// 3x3 convolutions of stride 1 by Winograd's F(2x2, 3x3) (templates/winograd.py), where that is faster than the direct kernel.
#include "kernels/winograd.h"

#include <algorithm>

#include "kernels/fusion.h"
#include "kernels/gemm.h"
#include "kernels/plugins/plugin_list.h"
#include "kernels/spatial.h"
#include "kernels/strided_output.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

constexpr int64_t kPoints = 16;
// TECs beyond these get no work: each has scratch memory of its own.
constexpr int64_t kMostTecs = 16;
// Of an image. Below, half of the tiles would be edge.
constexpr int64_t kLeastExtent = 4;
// Below, the transforms outweigh the multiplications saved.
constexpr int64_t kLeastChannels = 32;

// Tiles whose transformed input (16 values per channel) stays in the second-level cache.
int64_t block_tiles(int64_t in_channels) { return std::clamp<int64_t>(16384 / in_channels / 14 * 14, 28, 56); }

// Two-dimensional, dense, 3x3, stride and dilation 1, float32 with constant weights, and enough of everything.
bool suits(const Graph& graph, const Node& node, SpatialGeometry* geometry) {
  const graph::Constant* weights = graph.constant(node.inputs[1]);
  if (weights == nullptr || weights->dtype() != DType::kF32 || graph.type(node.inputs[0]).dtype != DType::kF32) return false;
  const auto& shape = weights->shape();
  if (shape.size() != 4 || shape[2] != 3 || shape[3] != 3 || node.attributes.i_or("group", 1) != 1) return false;
  if (shape[0] < kLeastChannels || shape[1] < kLeastChannels) return false;
  if (!read_geometry(graph, node, {3, 3}, geometry).empty()) return false;
  return std::all_of(geometry->axes.begin() + 1, geometry->axes.end(), [](const SpatialAxis& axis) {
    return axis.stride == 1 && axis.dilation == 1 && axis.out.constant_or(kLeastExtent) >= kLeastExtent;
  });
}

class WinogradPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "winograd"; }

  std::optional<graph::Claim> claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget& target,
                                    std::string*) const override {
    const Node& node = graph.node(anchor);
    SpatialGeometry geometry;
    if (node.op != "Conv" || !target.name.starts_with("host") || !suits(graph, node, &geometry)) return std::nullopt;
    graph::Claim claim{anchor, {anchor}, 25};
    for (const graph::NodeId id : epilogue_nodes(graph, anchor)) claim.nodes.push_back(id);
    return claim;
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    SpatialGeometry geometry;
    if (!suits(graph, node, &geometry)) return internal_error("not a convolution for Winograd's algorithm");
    const graph::Constant& weights = *graph.constant(node.inputs[1]);
    const int64_t out_channels = weights.shape()[0], in_channels = weights.shape()[1];
    const int lanes = context.lanes(DType::kF32);
    const RegisterTile tile = register_tile(context.target(), out_channels, lanes);
    const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
    dsl::TemplateParams params;
    set_tile_params(context.target(), tile, lanes, DType::kF32, DType::kF32, &params);
    params.set("HEIGHTS", tile_heights({1, false}, tile.rows))
        .set("IN_TAIL", in_channels % lanes != 0)
        .set("TAIL", out_channels % lanes != 0);
    const TensorRef packed = context.add_constant(pack_winograd(weights, panel_width));
    AnchorArithmetic arithmetic;
    if (node.inputs.size() > 2) arithmetic.addend = node.inputs[2];
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], DType::kF32, arithmetic, &params));
    reuse_operand_memory(context, epilogue, &params);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("winograd.py", "winograd", params));

    const SpatialAxis& height = geometry.axes[1];
    const SpatialAxis& width = geometry.axes[2];
    const int64_t block = block_tiles(in_channels);
    const int64_t scratch = kPoints * ((block * (in_channels + 2 * lanes) + lanes) + (block * panel_width + lanes));
    const Dim tiles = geometry.batch * graph::ceildiv(height.out, 2) * graph::ceildiv(width.out, 2);
    const Dim tecs = graph::max(graph::min(tiles, kMostTecs), 1);
    const TensorRef workspace = context.add_workspace(tecs * Dim(scratch * static_cast<int64_t>(sizeof(float))));
    std::vector<KernelArgument> arguments = {PointerArgument{context.value(node.inputs[0])}, PointerArgument{packed},
                                             PointerArgument{context.value(epilogue.result)}, PointerArgument{workspace}};
    arguments.insert(arguments.end(), epilogue.extra_arguments.begin(), epilogue.extra_arguments.end());
    for (const Dim& scalar : {geometry.batch, height.in, width.in, Dim(in_channels), height.out, width.out, Dim(out_channels),
                              height.pad_begin, width.pad_begin, Dim(block), Dim(scratch)}) {
      arguments.emplace_back(ScalarArgument{scalar});
    }
    const size_t row_stride = arguments.size();
    arguments.emplace_back(ScalarArgument{graph.type(epilogue.result).shape.back()});
    context.launch(std::move(kernel), std::move(arguments), tecs);
    declare_strided_output(context, epilogue, 2, row_stride);
    return {};
  }
};

}  // namespace

graph::ConstantPtr pack_winograd(const graph::Constant& weights, int64_t panel_width) {
  const int64_t out_channels = weights.shape()[0], in_channels = weights.shape()[1];
  const int64_t panels = (out_channels + panel_width - 1) / panel_width;
  std::vector<std::byte> bytes(static_cast<size_t>(panels * kPoints * in_channels * panel_width) * sizeof(float));
  auto* out = reinterpret_cast<float*>(bytes.data());
  const auto* in = reinterpret_cast<const float*>(weights.bytes().data());
  // One row of three becomes one of four.
  const auto expand = [](const double* g, double* u) {
    u[0] = g[0];
    u[1] = (g[0] + g[1] + g[2]) / 2;
    u[2] = (g[0] - g[1] + g[2]) / 2;
    u[3] = g[2];
  };
  for (int64_t oc = 0; oc < out_channels; ++oc) {
    float* panel = out + (oc / panel_width) * kPoints * in_channels * panel_width + oc % panel_width;
    for (int64_t ic = 0; ic < in_channels; ++ic) {
      const float* g = in + (oc * in_channels + ic) * 9;
      double columns[3][4];
      for (int s = 0; s < 3; ++s) {
        const double column[3] = {g[s], g[3 + s], g[6 + s]};
        expand(column, columns[s]);
      }
      for (int r = 0; r < 4; ++r) {
        const double row[3] = {columns[0][r], columns[1][r], columns[2][r]};
        double u[4];
        expand(row, u);
        for (int s = 0; s < 4; ++s) panel[((r * 4 + s) * in_channels + ic) * panel_width] = static_cast<float>(u[s]);
      }
    }
  }
  return graph::Constant::create(DType::kF32, {panels, kPoints, in_channels, panel_width}, std::move(bytes));
}

std::unique_ptr<OpPlugin> make_winograd_plugin() { return std::make_unique<WinogradPlugin>(); }

}  // namespace aipu::kernels
