#include "kernels/parts/depthwise_bytes.h"

#include <algorithm>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/depthwise.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/rounding.h"

namespace aipu::kernels {
namespace {

constexpr int64_t kFour = 4;  // lines of a product

// The rest of channels and of lines is 0.
std::vector<int8_t> pack_fours(const SpatialGeometry& geometry, const std::vector<int8_t>& weights, int64_t channels,
                               int64_t padded) {
  const int64_t kernel_h = geometry.axes[1].kernel, kernel_w = geometry.axes[2].kernel;
  std::vector<int8_t> packed(static_cast<size_t>(ceil_of(kernel_h, kFour) * kernel_w * padded * kFour));
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t kh = 0; kh < kernel_h; ++kh) {
      for (int64_t kw = 0; kw < kernel_w; ++kw) {
        const int64_t place = ((kh / kFour * kernel_w + kw) * padded + c) * kFour + kh % kFour;
        packed[static_cast<size_t>(place)] = weights[static_cast<size_t>((c * kernel_h + kh) * kernel_w + kw)];
      }
    }
  }
  return packed;
}

template <typename T>
graph::ConstantPtr constant(DType type, std::vector<T> elements, int64_t count) {
  elements.resize(static_cast<size_t>(count));
  return graph::Constant::of<T>(type, {count}, elements);
}

}  // namespace

std::optional<ByteTiles> plan_depthwise_bytes(const tir::Target& target, const SpatialGeometry& geometry) {
  const SpatialAxis &depth = geometry.axes[0], &width = geometry.axes[2];
  if (target.dot_products != tir::DotProducts::kUnsignedBySigned) return std::nullopt;
  const auto channels = geometry.channels.constant();
  if (!channels || *channels < target.lanes(32)) return std::nullopt;
  const auto in = width.in.constant(), out = width.out.constant(), pad = width.pad_begin.constant();
  if (!in || !out || !pad || *out < 1) return std::nullopt;
  if (depth.kernel != 1 || !(depth.in == graph::Dim(1)) || !(depth.out == graph::Dim(1))) return std::nullopt;
  ByteTiles tiles{};
  tiles.width = depthwise_tile_width(target, *out);
  tiles.tiles = ceil_of(*out, tiles.width);
  const int64_t span = (tiles.width - 1) * width.stride + (width.kernel - 1) * width.dilation + 1;
  const auto position = [&](int64_t tile) {
    return std::min(tile * tiles.width, *out - tiles.width) * width.stride - *pad;
  };
  tiles.before = std::clamp<int64_t>(*pad, 0, span);
  tiles.behind = std::clamp<int64_t>(position(tiles.tiles - 1) + span - *in, 0, span);
  for (int64_t tile = 0; tile < tiles.tiles; ++tile) {
    if (tile > 0 && position(tile) < 0) return std::nullopt;
    if (tile + 1 < tiles.tiles && position(tile) + span > *in) return std::nullopt;
  }
  return tiles;
}

Status launch_depthwise_bytes(SetupContext& context, const SpatialGeometry& geometry, const ByteTiles& tiles,
                              const ByteOperands& operands, dsl::TemplateParams params, KernelArguments arguments) {
  const auto& [depth, height, width] = geometry.axes;
  const int lanes = context.target().lanes(32);
  const int64_t channels = *geometry.channels.constant(), padded = rounded_up(channels, lanes);
  const bool is_scaled = !operands.factors.empty(), has_zero = has_padding(geometry) && operands.zero != 0;
  params.set("FLIP", operands.flip)
      .set("W", DType::kI8)
      .set("SUM", DType::kI32)
      .set("MEMORY", "global")
      .set("VL", lanes)
      .set("NV", 1)
      .set("TILES", tiles.tiles)
      .set("WIDTH", tiles.width)
      .set("BEFORE", tiles.before)
      .set("BEHIND", tiles.behind)
      .set("KH", height.kernel)
      .set("KW", width.kernel)
      .set("SW", width.stride)
      .set("DW", width.dilation)
      .set("scale_types", pointer_types(is_scaled ? 1 : 0, DType::kF32))
      .set("zero_types", dsl::Captured{dsl::CapturedList(
                             has_zero ? 1 : 0, dsl::Captured{dsl::CapturedType{tir::Type::scalar(DType::kI32)}})});
  const DepthwiseBlocks blocks = set_depthwise_blocks(context, geometry, lanes, &params);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("depthwise_bytes.py", "depthwise_bytes", params));
  const std::vector<int8_t> packed = pack_fours(geometry, operands.weights, channels, padded);
  arguments.pointer("weights", context.add_constant(constant(DType::kI8, packed, static_cast<int64_t>(packed.size()))))
      .pointer("start", context.add_constant(constant(DType::kI32, operands.start, padded)));
  if (is_scaled) arguments.pointer("scale[0]", context.add_constant(constant(DType::kF32, operands.factors, padded)));
  if (has_zero) arguments.scalar("zero[0]", operands.zero);
  bind_geometry(geometry, &arguments);
  arguments.scalar("padded_channels", padded).scalar("block_rows", blocks.rows).scalar("ahead", blocks.ahead);
  return context.launch(std::move(kernel), arguments, blocks.units);
}

}  // namespace aipu::kernels
