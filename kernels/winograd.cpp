#include "kernels/winograd.h"

#include <algorithm>
#include <cstring>

#include "kernels/gemm.h"

namespace aipu::kernels {

using graph::Dim;

namespace {

constexpr int64_t kPoints = 16;
// TECs beyond these get no work: each has scratch memory of its own.
constexpr int64_t kMostTecs = 16;
// Of an image. Below, half of the tiles would be edge.
constexpr int64_t kLeastExtent = 4;
constexpr int64_t kLeastChannels = 32;

// Tiles whose transformed input (16 values per channel) stays in the second-level cache.
int64_t block_tiles(int64_t in_channels) { return std::clamp<int64_t>(16384 / in_channels / 14 * 14, 28, 56); }

}  // namespace

bool winograd_pays(const tir::Target& target, const DenseConvolution& c) {
  const auto& axes = c.geometry.axes;
  if (target.family != tir::TargetFamily::kHost || c.weights == nullptr || c.group != 1) return false;
  if (c.stored != DType::kF32 || c.weights->dtype() != DType::kF32) return false;
  if (axes[0].kernel != 1 || axes[0].pad_begin != Dim(0) || axes[0].pad_end != Dim(0) || axes[0].in != Dim(1)) return false;
  for (size_t i = 1; i < 3; ++i) {
    if (axes[i].kernel != 3 || axes[i].stride != 1 || axes[i].dilation != 1) return false;
    if (const auto out = axes[i].out.constant(); out && *out < kLeastExtent) return false;
  }
  return c.in_channels >= kLeastChannels && c.out_channels >= kLeastChannels && c.in_channels % target.lanes(dtype_bits(DType::kF32)) == 0;
}

graph::ConstantPtr pack_winograd(const graph::Constant& weights, int64_t panel_width) {
  const int64_t out_channels = weights.shape()[0], in_channels = weights.shape()[1];
  const int64_t panels = (out_channels + panel_width - 1) / panel_width;
  std::vector<std::byte> bytes(static_cast<size_t>(panels * kPoints * in_channels * panel_width) * sizeof(float));
  auto* out = reinterpret_cast<float*>(bytes.data());
  const auto* in = reinterpret_cast<const float*>(weights.bytes().data());
  // G g Gt, a row of three at a time.
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

Status launch_winograd(SetupContext& context, const DenseConvolution& c) {
  const graph::Node& node = context.anchor();
  const int lanes = context.lanes(DType::kF32);
  const RegisterTile tile = register_tile(context.target(), c.out_channels, lanes);
  const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
  dsl::TemplateParams params;
  set_tile_params(context.target(), tile, lanes, DType::kF32, DType::kF32, &params);
  params.set("HEIGHTS", tile_heights({1, false}, tile.rows)).set("TAIL", c.out_channels % lanes != 0);
  const TensorRef packed = context.add_constant(pack_winograd(*c.weights, panel_width));
  AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], DType::kF32, c.arithmetic, &params));
  reuse_operand_memory(context, epilogue, &params);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("winograd.py", "winograd", params));

  const auto& height = c.geometry.axes[1];
  const auto& width = c.geometry.axes[2];
  const int64_t block = block_tiles(c.in_channels);
  const int64_t scratch = kPoints * ((block * (c.in_channels + lanes) + lanes) + (block * panel_width + lanes));
  const Dim tiles = c.geometry.batch * graph::ceildiv(height.out, 2) * graph::ceildiv(width.out, 2);
  const Dim tecs = graph::max(graph::min(tiles, kMostTecs), 1);
  const TensorRef workspace = context.add_workspace(tecs * Dim(scratch * static_cast<int64_t>(sizeof(float))));
  std::vector<KernelArgument> arguments = {PointerArgument{context.value(node.inputs[0])}, PointerArgument{packed},
                                           PointerArgument{context.value(epilogue.result)}, PointerArgument{workspace}};
  arguments.insert(arguments.end(), epilogue.extra_arguments.begin(), epilogue.extra_arguments.end());
  for (const Dim& scalar : {c.geometry.batch, height.in, width.in, Dim(c.in_channels), height.out, width.out, Dim(c.out_channels),
                            height.pad_begin, width.pad_begin, Dim(block), Dim(scratch)}) {
    arguments.emplace_back(ScalarArgument{scalar});
  }
  context.launch(std::move(kernel), std::move(arguments), tecs);
  return {};
}

}  // namespace aipu::kernels
