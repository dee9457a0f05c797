#include "kernels/parts/grouped.h"

#include <algorithm>
#include <optional>

#include "kernels/parts/packing.h"
#include "kernels/parts/register_tile.h"
#include "kernels/parts/strided_output.h"

namespace aipu::kernels {
namespace {

using graph::Dim;

// GROUPED of the template, and how many vectors a panel has.
struct GroupedTiles {
  int vectors = 1;
  int64_t channels = 0, group = 0;
  bool spread = false, tail = false;
  std::vector<int64_t> heights;
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0, behind = 0;
  bool whole = false;
};

// A row's sums, the weights of a line of the kernel, a value of the image and the lanes that it is spread to.
int64_t most_rows(const tir::Target& target, const GroupedTiles& tiles) {
  const int64_t rows = (target.vector_registers - 2) / tiles.vectors - tiles.kernel;
  // Pixels a page apart are in the same few lines of the nearest cache.
  constexpr int64_t kPageElements = 1024, kWays = 12;
  if (tiles.channels % kPageElements != 0) return rows;
  const int64_t reach = (tiles.kernel - 1) * tiles.dilation;
  return std::clamp<int64_t>((kWays - 1 - reach) / tiles.stride + 1, 1, rows);
}

std::optional<GroupedTiles> grouped_tiles(const tir::Target& target, const ConvWeights& weights,
                                          const SpatialAxis& width, int lanes) {
  constexpr int64_t kMostTaps = 7, kMostChannels = 32, kMostUnknown = 14;
  // Values of one element cost nothing on targets whose products are by elements; of one tap none is used twice.
  if (weights.group == 1 || target.cache_bytes() == 0 || target.element_products) return std::nullopt;
  if (width.kernel == 1 || width.kernel > kMostTaps || weights.group_in > kMostChannels) return std::nullopt;
  GroupedTiles tiles{.channels = weights.group * weights.group_in,
                     .group = weights.group_in,
                     .kernel = width.kernel,
                     .stride = width.stride,
                     .dilation = width.dilation};
  tiles.spread = weights.group_in == weights.group_out && weights.group_in < lanes && lanes % weights.group_in == 0 &&
                 target.float_table >= lanes && tiles.channels >= lanes;
  tiles.tail = tiles.spread && tiles.channels % lanes != 0;
  if (!tiles.spread) {
    if (2 * weights.group_out <= lanes) return std::nullopt;
    if (target.vector_registers >= 32 && weights.group_out % (2 * lanes) == 0) tiles.vectors = 2;
    // There the other template has two sums or three for each value of the image.
    if (tiles.vectors == 1 && weights.group_out > lanes) return std::nullopt;
  }

  const auto out = width.out.constant(), in = width.in.constant(), begin = width.pad_begin.constant(),
             end = width.pad_end.constant();
  if (!begin || !end) return std::nullopt;
  // Of short rows conv_short_rows.py computes two at a time.
  if (!tiles.spread && out && 2 * *out <= kMostUnknown) return std::nullopt;
  int64_t most = most_rows(target, tiles);
  if (!out) most = std::min(most, kMostUnknown);
  tiles.heights = tile_heights(row_count({width.out}), static_cast<int>(most));
  if (tiles.heights.empty()) return std::nullopt;
  const int64_t reach = (width.kernel - 1) * width.dilation;
  tiles.before = std::max<int64_t>(*begin, 0);
  tiles.behind = std::max<int64_t>(in && out ? (*out - 1) * width.stride + reach + 1 - *begin - *in : *end, 0);
  tiles.whole = in && out && *out <= most;
  return tiles;
}

dsl::Captured grouped_record(const GroupedTiles& tiles) {
  dsl::CapturedList heights;
  for (const int64_t height : tiles.heights) heights.push_back({height});
  dsl::CapturedRecord record;
  record.type.name = "Grouped";
  const auto add = [&](const char* name, dsl::Captured value) {
    record.type.fields.emplace_back(name);
    record.values.push_back(std::move(value));
  };
  add("channels", {tiles.channels});
  add("group", {tiles.group});
  add("spread", {tiles.spread});
  add("tail", {tiles.tail});
  add("heights", {std::move(heights)});
  add("kernel", {tiles.kernel});
  add("stride", {tiles.stride});
  add("dilation", {tiles.dilation});
  add("before", {tiles.before});
  add("behind", {tiles.behind});
  add("whole", {tiles.whole});
  record.type.types.resize(record.type.fields.size());
  return {std::move(record)};
}

}  // namespace

Result<bool> launch_grouped_convolution(SetupContext& context, const ConvWeights& weights,
                                        const SpatialGeometry& geometry, DType stored,
                                        const AnchorArithmetic& arithmetic) {
  const graph::Node& node = context.anchor();
  const SpatialAxis &height = geometry.axes[1], &width = geometry.axes[2];
  if (stored != DType::kF32 || context.is_in_bands()) return false;
  const int lanes = context.lanes(stored);
  const auto tiles = grouped_tiles(context.target(), weights, width, lanes);
  if (!tiles) return false;
  const int64_t groups = tiles->spread ? 1 : weights.group;
  const int64_t group_out = weights.out_channels / groups;
  const int64_t panel_width = static_cast<int64_t>(tiles->vectors) * lanes;
  dsl::TemplateParams params;
  params.set("X", stored).set("ACC", stored).set("VL", lanes).set("NV", tiles->vectors);
  params.set("PREFETCH", context.target().vector_bits >= 512 ? 1 : 0).set("GROUPED", grouped_record(*tiles));
  const int64_t column = weights.group_in * weights.taps;
  AIPU_ASSIGN_OR_RETURN(const TensorRef packed, packed_operand(context, weights.value, stored,
                                                               {.batches = groups,
                                                                .depth = column,
                                                                .columns = group_out,
                                                                .panel_width = panel_width,
                                                                .inner = weights.group_in,
                                                                .batch_stride = group_out * column,
                                                                .column_stride = column,
                                                                .inner_stride = weights.taps,
                                                                .outer_stride = 1}));
  AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], stored, arithmetic, &params));
  reuse_operand_memory(context, epilogue, &params);
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("conv_grouped.py", "conv_grouped", params));
  // The image rows that a block of output rows reads stay in the second-level cache. Vectors of several groups are one
  // line of each pixel: blocks are small then, so that rows are read about as they lie in memory.
  constexpr int64_t kBlockElements = 96 * 1024, kSpreadElements = 16 * 1024;
  const Dim block_rows = graph::max(graph::floordiv(tiles->spread ? kSpreadElements : kBlockElements,
                                                    graph::max(width.in * Dim(tiles->channels * height.stride), 1)),
                                    1);
  KernelArguments arguments;
  arguments.pointer("x", context.value(node.inputs[0]))
      .pointer("weights", packed)
      .pointer("out", context.value(epilogue.result))
      .list("extras", epilogue.extra_arguments)
      .scalar("ldc", weights.out_channels)
      .scalar("block_rows", block_rows);
  bind_groups(groups, tiles->channels / groups, group_out, &arguments);
  bind_geometry(geometry, &arguments);
  const Dim panels = (group_out + panel_width - 1) / panel_width * groups;
  AIPU_RETURN_IF_ERROR(
      context.launch(std::move(kernel), arguments, geometry.batch * geometry.axes[0].out * height.out * panels));
  AIPU_RETURN_IF_ERROR(declare_strided_output(context, epilogue));
  return true;
}

}  // namespace aipu::kernels
