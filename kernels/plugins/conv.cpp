// Conv on channels-last activations with packed weights and a fused epilogue; depthwise convolution has a template of
// its own.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/banded.h"
#include "kernels/parts/convolution.h"
#include "kernels/parts/depthwise.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/gemm.h"
#include "kernels/parts/grouped.h"
#include "kernels/parts/image_copy.h"
#include "kernels/parts/packing.h"
#include "kernels/parts/rounding.h"
#include "kernels/parts/spatial.h"
#include "kernels/parts/staged_depthwise.h"
#include "kernels/parts/staged_product.h"
#include "kernels/parts/strided_output.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

// A row of output pixels that is one tile, and has few channels (`channels` of them) or many pixels without some tap:
// what each tap of a kernel row has inside the image is known.
void unroll_taps(const SpatialAxis& axis, int64_t channels, RowTiles* tiles) {
  const auto taps = pixels_of_taps(axis);
  if (taps.empty()) return;
  for (const auto& [first, last] : taps) tiles->taps.insert(tiles->taps.end(), {first, last});
  tiles->pixel_stride = axis.stride * channels;
  tiles->channels = channels;
  tiles->heights = {axis.out.constant_or(0)};
  tiles->skip = 0;
  tiles->cut = false;
}

// RUNS of conv_short_rows.py; empty where the extents are not known.
std::vector<int64_t> tap_runs(const SpatialAxis& axis) {
  std::vector<int64_t> runs;
  int64_t tap = 0, end = 0;  // end: of the last run
  for (const auto& [first, last] : pixels_of_taps(axis)) {
    const int64_t here = tap++;
    if (first == last) continue;
    if (!runs.empty() && end == here && runs[runs.size() - 2] == first && runs.back() == last) {
      ++runs[runs.size() - 3];
    } else {
      runs.insert(runs.end(), {here, 1, first, last});
    }
    end = here + 1;
  }
  return runs;
}

class ConvPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "conv"; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&) const override {
    const Node& node = graph.node(anchor);
    if (node.op != "Conv") return std::nullopt;
    AIPU_ASSIGN_OR_RETURN(const ConvWeights weights, read_weights(graph, node));
    AIPU_RETURN_IF_ERROR(read_geometry(graph, node, weights.kernel).status());
    return claim_with_epilogue(graph, anchor);
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    AIPU_ASSIGN_OR_RETURN(const ConvWeights weights, read_weights(graph, node));
    AIPU_ASSIGN_OR_RETURN(const SpatialGeometry geometry, read_geometry(graph, node, weights.kernel));

    const DType stored = graph.type(node.inputs[0]).dtype;
    const DType accumulator = accumulator_dtype(stored);
    dsl::TemplateParams params;
    params.set("X", stored).set("ACC", accumulator).set("USE_FMA", is_floating(accumulator));
    AnchorArithmetic arithmetic;
    if (node.inputs.size() > 2) arithmetic.addend = node.inputs[2];
    return is_depthwise(context, weights, geometry, stored)
               ? setup_depthwise(context, weights, geometry, accumulator, arithmetic, params)
               : setup_direct(context, weights, geometry, stored, accumulator, arithmetic);
  }

 private:
  static Status setup_direct(SetupContext& context, const ConvWeights& weights, SpatialGeometry geometry, DType stored,
                             DType accumulator, const AnchorArithmetic& arithmetic) {
    const Node& node = context.anchor();
    const int64_t group_in = weights.group_in, taps = weights.taps, group_out = weights.group_out;
    std::array<SpatialAxis, 3>& axes = geometry.axes;
    // Pixels are independent of each other: a matrix product.
    const bool pointwise = std::all_of(axes.begin(), axes.end(), [](const SpatialAxis& a) {
      return a.kernel == 1 && a.stride == 1 && a.pad_begin == Dim(0) && a.pad_end == Dim(0);
    });
    const int whole = context.lanes(accumulator);
    if (has_staged_products(context.target(), stored)) {
      AIPU_ASSIGN_OR_RETURN(const bool staged, setup_staged(context, weights, geometry, stored, arithmetic));
      if (staged) return {};
    }
    AIPU_ASSIGN_OR_RETURN(const bool grouped,
                          launch_grouped_convolution(context, weights, geometry, stored, arithmetic));
    if (grouped) return {};
    const auto [tile, lanes] = pointwise ? WindowTile{register_tile(context.target(), group_out, whole), whole}
                                         : window_tile(context.target(), group_out, whole, axes[2]);
    const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
    const bool pairs = sums_pairs(context.target(), stored, context.graph().constant(weights.value), Dim(group_in));
    dsl::TemplateParams params;
    set_tile_params(context.target(), tile, lanes, accumulator, &params, pairs);
    params.set(pointwise && weights.group == 1 ? "A" : "X", stored);
    // One vector per pixel: a product needs a broadcast of its own, so every other load counts.
    constexpr int64_t kNearElements = 4096;
    if (tile.vectors == 1 && !pointwise && taps * group_in * panel_width <= kNearElements) params.set("PREFETCH", 0);
    AIPU_ASSIGN_OR_RETURN(const TensorRef packed,
                          packed_operand(context, weights.value, panel_dtype(accumulator, pairs),
                                         {.batches = weights.group,
                                          .depth = taps * group_in,
                                          .columns = group_out,
                                          .panel_width = panel_width,
                                          .inner = group_in,
                                          .batch_stride = group_out * group_in * taps,
                                          .column_stride = group_in * taps,
                                          .inner_stride = taps,
                                          .outer_stride = 1,
                                          .pairs = pairs}));
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, arithmetic, &params));
    if (pointwise) {
      const Dim pixels = axes[0].out * axes[1].out * axes[2].out;
      if (weights.group == 1) {
        const Dim lines = context.is_in_bands() ? Dim::symbol("(lines)") : axes[1].out;
        AIPU_RETURN_IF_ERROR(launch_gemm(context, tile, lanes,
                                         {.left = context.value(node.inputs[0]),
                                          .right = packed,
                                          .row_count = row_count({geometry.batch, axes[0].out, lines, axes[2].out}),
                                          .rows = geometry.batch * pixels,
                                          .columns = group_out,
                                          .depth = group_in,
                                          .left_row = geometry.channels},
                                         epilogue, std::move(params)));
        declare_banded_pixels(context, "a", "product.rows", epilogue);
        return declare_strided_output(context, epilogue);
      }
      // Lines much shorter than a tile are joined; of others, TECs can share out the lines.
      if (axes[2].out.constant_or(tile.rows) * 2 < tile.rows) {
        axes[0] = axes[1] = SpatialAxis{};
        axes[2].in = axes[2].out = pixels;
      }
    }
    RowTiles tiles = row_tiles(axes[2], tile.rows);
    constexpr int64_t kMostSteps = 48, kMostTaps = 7;  // beyond, unrolled taps are too much text
    const int64_t row = axes[2].out.constant_or(0);
    const bool one_tile = row > 0 && row <= tile.rows;
    if (one_tile && !tiles.cut && weights.group == 1 && axes[2].kernel * group_in <= kMostSteps)
      unroll_taps(axes[2], group_in, &tiles);
    const bool planar = axes[0].kernel == 1 && axes[0].in == Dim(1) && axes[0].out == Dim(1);
    if (!context.is_in_bands() && planar && tiles.taps.empty() && row > 0 && 2 * row <= tile.rows &&
        !(axes[1].out == Dim(1))) {
      if (const std::vector<int64_t> runs = tap_runs(axes[2]); !runs.empty()) {
        params.set("WIDTH", row).set("RUNS", runs);
        const int64_t panels = (group_out + panel_width - 1) / panel_width * weights.group;
        return launch_short_rows(context, weights, geometry, packed, panels, epilogue, params);
      }
    }
    if (one_tile && tiles.cut && axes[2].kernel <= kMostTaps) unroll_taps(axes[2], 0, &tiles);
    params.set("TILING", tiling_record(tiles));
    // Of one image; measured on first layers, whose results nobody has touched before.
    constexpr int64_t kManyResults = int64_t{2} << 20;
    const Dim results =
        axes[0].out * axes[1].out * axes[2].out * Dim(weights.out_channels * static_cast<int64_t>(dtype_bytes(stored)));
    params.set("PREFETCH_RESULT", tile.vectors > 1 && results.constant_or(0) >= kManyResults && !context.is_in_bands());
    reuse_operand_memory(context, epilogue, &params);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("conv.py", "conv", params));
    KernelArguments arguments = common_arguments(context, weights, packed, epilogue);
    bind_geometry(geometry, &arguments);
    // The image rows that a block of output rows reads stay in the second-level cache.
    constexpr int64_t kBlockElements = 96 * 1024;
    const Dim block_rows = graph::max(
        graph::floordiv(kBlockElements, graph::max(axes[2].in * geometry.channels * Dim(axes[1].stride), 1)), 1);
    arguments.scalar("merge", weights.group == 1 && axes[2].dilation == 1 ? 1 : 0).scalar("block_rows", block_rows);
    const Dim panels = (group_out + panel_width - 1) / panel_width * weights.group;
    AIPU_RETURN_IF_ERROR(
        context.launch(std::move(kernel), arguments, geometry.batch * axes[0].out * axes[1].out * panels));
    declare_banded_images(context, epilogue);
    return declare_strided_output(context, epilogue);
  }

  // Of several output channels per input channel, whose number has to be known, those whose image
  // templates/depthwise.py spreads over lanes.
  static bool is_depthwise(const SetupContext& context, const ConvWeights& weights, const SpatialGeometry& geometry,
                           DType stored) {
    if (weights.group == 1 || weights.group_in != 1) return false;
    if (weights.group_out == 1) return true;
    return geometry.channels.is_constant() && stored == DType::kF32 && context.target().cache_bytes() > 0 &&
           std::has_single_bit(static_cast<uint64_t>(weights.group_out)) &&
           2 * weights.group_out <= context.lanes(stored);
  }

  // Through the local memory of TECs; false: no tiling fits, weights are not constant, or there is padding, which is
  // written into a copy of the image here, and weights that may not be finite: 0 times infinity would be NaN, where
  // others leave such taps out.
  static Result<bool> setup_staged(SetupContext& context, const ConvWeights& weights, SpatialGeometry geometry,
                                   DType stored, const AnchorArithmetic& arithmetic) {
    const graph::ConstantPtr& constant = context.graph().value(weights.value).constant;
    if (constant == nullptr || (has_padding(geometry) && !is_finite(*constant))) return false;
    flatten_pixels(&geometry);
    ProductShape shape{.channels = weights.group * weights.group_in,
                       .groups = weights.group,
                       .group_in = weights.group_in,
                       .group_out = weights.group_out,
                       .element = stored};
    AIPU_RETURN_IF_ERROR(describe_epilogue(context, arithmetic, &shape));
    trim_border(&geometry);
    describe_border(geometry, &shape);
    const auto plan = plan_staged_product(context.target(), with_padding_inside(geometry), shape);
    if (!plan) return false;
    StagedOperands operands{.x = {context.value(context.anchor().inputs[0])}};
    if (has_padding(geometry))
      AIPU_RETURN_IF_ERROR(copy_image(context, stored, stored, 0, true, &geometry, &operands.x));
    const int64_t column = weights.group_in * weights.taps;
    operands.weights = context.add_constant(
        pack_staged(*plan, shape, constant,
                    {.group = weights.group_out * column, .column = column, .channel = weights.taps, .tap = 1}));
    AIPU_RETURN_IF_ERROR(launch_staged_product(context, *plan, geometry, shape, operands, arithmetic));
    return true;
  }

  static bool is_finite(const graph::Constant& constant) {
    const std::vector<double> values = constant.to_doubles();
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  }

  // Of an image whose rows of output pixels fit into a tile twice.
  static Status launch_short_rows(SetupContext& context, const ConvWeights& weights, const SpatialGeometry& geometry,
                                  const TensorRef& packed, int64_t panels, const Epilogue& epilogue,
                                  dsl::TemplateParams& params) {
    reuse_operand_memory(context, epilogue, &params);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("conv_short_rows.py", "conv_short_rows", params));
    const SpatialAxis &height = geometry.axes[1], &width = geometry.axes[2];
    // The image rows that a block of output rows reads stay in the second-level cache.
    constexpr int64_t kBlockElements = 96 * 1024;
    const Dim block_pairs = graph::max(
        graph::floordiv(kBlockElements, graph::max(width.in * geometry.channels * Dim(2 * height.stride), 1)), 1);
    KernelArguments arguments = common_arguments(context, weights, packed, epilogue);
    arguments.scalars({{"batch", geometry.batch}, {"channels", geometry.channels}});
    bind_axis("height", height, &arguments);
    bind_axis("width", width, &arguments);
    arguments.scalar("merge", weights.group == 1 && width.dilation == 1 ? 1 : 0).scalar("block_pairs", block_pairs);
    AIPU_RETURN_IF_ERROR(
        context.launch(std::move(kernel), arguments, geometry.batch * graph::ceildiv(height.out, 2) * Dim(panels)));
    return declare_strided_output(context, epilogue);
  }

  // Of conv.py and conv_short_rows.py, but for the geometry.
  static KernelArguments common_arguments(const SetupContext& context, const ConvWeights& weights,
                                          const TensorRef& packed, const Epilogue& epilogue) {
    KernelArguments arguments;
    arguments.pointer("x", context.value(context.anchor().inputs[0]))
        .pointer("weights", packed)
        .pointer("out", context.value(epilogue.result))
        .list("extras", epilogue.extra_arguments)
        .scalar("ldc", weights.out_channels);
    bind_groups(weights.group, weights.group_in, weights.group_out, &arguments);
    return arguments;
  }

  static Status setup_depthwise(SetupContext& context, const ConvWeights& weights, const SpatialGeometry& geometry,
                                DType accumulator, const AnchorArithmetic& arithmetic, dsl::TemplateParams& params) {
    const Node& node = context.anchor();
    const int lanes = context.lanes(accumulator);
    const int64_t channels = weights.out_channels, taps = weights.taps;
    // One "panel" as wide as all channels: [taps][channels rounded up to whole vectors].
    const int64_t padded = rounded_up(channels, lanes);
    AIPU_ASSIGN_OR_RETURN(const TensorRef packed, packed_operand(context, weights.value, accumulator,
                                                                 {.batches = 1,
                                                                  .depth = taps,
                                                                  .columns = channels,
                                                                  .panel_width = padded,
                                                                  .inner = taps,
                                                                  .batch_stride = 0,
                                                                  .column_stride = taps,
                                                                  .inner_stride = 1,
                                                                  .outer_stride = 0}));
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, arithmetic, &params));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("out", context.value(epilogue.result))
        .list("extras", epilogue.extra_arguments);
    const graph::Graph& graph = context.graph();
    const StagedDepthwise staged =
        plan_staged_depthwise(context.target(), geometry, lanes,
                              {graph.type(node.inputs[0]).dtype, accumulator, graph.type(stored_value(context)).dtype});
    if (staged.segment > 0)
      return launch_staged_depthwise(context, staged, geometry, lanes, {.type = accumulator}, packed, params,
                                     std::move(arguments));
    AIPU_RETURN_IF_ERROR(
        launch_depthwise(context, geometry, lanes, {.type = accumulator}, packed, params, std::move(arguments)));
    declare_banded_images(context, epilogue);
    return {};
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_conv_plugin() { return std::make_unique<ConvPlugin>(); }

}  // namespace aipu::kernels
