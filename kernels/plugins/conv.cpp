// Conv and ConvTranspose on channels-last activations with packed weights and a fused epilogue; depthwise convolution
// has a template of its own.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "graph/ops/spatial.h"
#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/gemm.h"
#include "kernels/parts/packing.h"
#include "kernels/parts/spatial.h"
#include "kernels/parts/strided_output.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

// Weights [OC, IC/group, spatial...] as ONNX has them.
struct Weights {
  graph::ValueId value;
  std::vector<int64_t> shape;
  int64_t group, out_channels, group_in, group_out, taps;
  std::vector<int64_t> kernel;
};

std::string read_weights(const Graph& graph, const Node& node, Weights* weights) {
  weights->value = node.inputs[1];
  const auto extents = graph::static_shape(graph.type(node.inputs[1]).shape);
  if (!extents) return fmt::format("weights of symbolic shape {}", graph::shape_text(graph.type(node.inputs[1]).shape));
  const std::vector<int64_t>& shape = weights->shape = *extents;
  weights->group = node.attributes.i_or("group", 1);
  weights->out_channels = shape[0];
  weights->group_in = shape[1];
  weights->group_out = shape[0] / weights->group;
  weights->kernel.assign(shape.begin() + 2, shape.end());
  weights->taps = 1;
  for (const int64_t k : weights->kernel) weights->taps *= k;
  return {};
}

// The greatest height of a tile of one vector of columns, where there are 32 registers.
constexpr int kTallTile = 28;

// How the rows of output pixels are cut into tiles, and what happens at their ends.
struct RowTiles {
  std::vector<int64_t> heights;
  int64_t skip = 0;  // SKIP and SINGLE of conv.py
  bool single = false;
  std::vector<int64_t> taps;  // ROW_TAPS
};

RowTiles row_tiles(const SpatialAxis& axis, int greatest) {
  constexpr int64_t kMostSkipped = 3;
  RowTiles tiles;
  tiles.heights = tile_heights(row_count({axis.out}), greatest);
  const auto in = axis.in.constant(), out = axis.out.constant(), begin = axis.pad_begin.constant(),
             end = axis.pad_end.constant();
  const auto outside = [&](int64_t positions) {
    return positions <= 0 ? 0 : (positions + axis.stride - 1) / axis.stride;
  };
  if (begin && end && *begin <= 0 && *end <= 0) return tiles;
  if (in && out && begin) {
    // All is known: walk over the tiles.
    const int64_t reach = (axis.kernel - 1) * axis.dilation,
                  count = std::max<int64_t>((*out + greatest - 1) / greatest, 1);
    int64_t column = 0;
    for (int64_t t = 0; t < count; ++t) {
      const int64_t height = *out / count + (t < *out % count ? 1 : 0);
      const int64_t first = column * axis.stride - *begin, final = first + (height - 1) * axis.stride;
      const int64_t left = std::min(axis.kernel, (std::max<int64_t>(-first, 0) + axis.dilation - 1) / axis.dilation);
      const int64_t right =
          axis.kernel - std::min(axis.kernel, (std::max<int64_t>(*in - final, 0) + axis.dilation - 1) / axis.dilation);
      tiles.skip = std::max({tiles.skip, outside(-first), outside(final + reach - (*in - 1))});
      tiles.single = tiles.single || left + right > axis.kernel;
      column += height;
    }
  } else {
    tiles.skip = begin && end ? std::max(outside(*begin), outside(*end)) : 1;
    tiles.single = true;  // narrow images
  }
  if (tiles.skip > kMostSkipped) {
    tiles.skip = 0;
    tiles.single = true;
  }
  if (tiles.single && tiles.heights.back() != 1) tiles.heights.push_back(1);
  return tiles;
}

// Per tap of a kernel row the pixels [first, last) of a row of output pixels that it has inside the image; empty where
// extents are not known.
std::vector<std::pair<int64_t, int64_t>> pixels_of_taps(const SpatialAxis& axis) {
  const auto in = axis.in.constant(), out = axis.out.constant(), begin = axis.pad_begin.constant();
  if (!in || !out || !begin) return {};
  const auto before = [&](int64_t position) {  // how many output pixels have a tap in front of `position`
    return std::clamp<int64_t>((position + axis.stride - 1) / axis.stride, 0, *out);
  };
  std::vector<std::pair<int64_t, int64_t>> pixels;
  for (int64_t tap = 0; tap < axis.kernel; ++tap) {
    const int64_t offset = tap * axis.dilation - *begin;
    const int64_t first = before(std::max<int64_t>(-offset, 0));
    pixels.emplace_back(first, std::max(before(std::max<int64_t>(*in - offset, 0)), first));
  }
  return pixels;
}

// A row of output pixels that is one tile and has few channels: what each tap of a kernel row has inside the image is
// known.
void unroll_taps(const SpatialAxis& axis, int64_t channels, RowTiles* tiles) {
  constexpr int64_t kMostSteps = 48;
  if (tiles->heights != std::vector<int64_t>{axis.out.constant_or(0)} || axis.kernel * channels > kMostSteps) return;
  const auto pixels = pixels_of_taps(axis);
  if (pixels.empty()) return;
  for (const auto& [first, last] : pixels) tiles->taps.insert(tiles->taps.end(), {first, last});
  tiles->skip = 0;
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

  std::optional<graph::Claim> claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&,
                                    std::string* why_not) const override {
    const Node& node = graph.node(anchor);
    if (node.op != "Conv") return std::nullopt;
    Weights weights;
    SpatialGeometry geometry;
    std::string reason = read_weights(graph, node, &weights);
    if (reason.empty()) reason = read_geometry(graph, node, weights.kernel, &geometry);
    if (!reason.empty()) {
      if (why_not != nullptr) *why_not = std::move(reason);
      return std::nullopt;
    }
    graph::Claim claim{anchor, {anchor}, 20};
    for (const graph::NodeId id : epilogue_nodes(graph, anchor)) claim.nodes.push_back(id);
    return claim;
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    Weights weights;
    SpatialGeometry geometry;
    if (std::string reason = read_weights(graph, node, &weights); !reason.empty())
      return unsupported(std::move(reason));
    if (std::string reason = read_geometry(graph, node, weights.kernel, &geometry); !reason.empty())
      return unsupported(std::move(reason));

    const DType stored = graph.type(node.inputs[0]).dtype;
    const DType accumulator = accumulator_dtype(stored);
    dsl::TemplateParams params;
    params.set("X", stored).set("ACC", accumulator).set("USE_FMA", is_floating(accumulator));
    AnchorArithmetic arithmetic;
    if (node.inputs.size() > 2) arithmetic.addend = node.inputs[2];
    const bool depthwise = weights.group > 1 && weights.group_in == 1 && weights.group_out == 1;
    return depthwise ? setup_depthwise(context, weights, geometry, accumulator, arithmetic, params)
                     : setup_direct(context, weights, geometry, stored, accumulator, arithmetic);
  }

 private:
  static Status setup_direct(SetupContext& context, const Weights& weights, SpatialGeometry geometry, DType stored,
                             DType accumulator, const AnchorArithmetic& arithmetic) {
    const Node& node = context.anchor();
    const int64_t group_in = weights.group_in, taps = weights.taps, group_out = weights.group_out;
    int lanes = context.lanes(accumulator);
    std::array<SpatialAxis, 3>& axes = geometry.axes;
    // Pixels are independent of each other: a matrix product.
    const bool pointwise = std::all_of(axes.begin(), axes.end(), [](const SpatialAxis& a) {
      return a.kernel == 1 && a.stride == 1 && a.pad_begin == Dim(0) && a.pad_end == Dim(0);
    });
    // Few columns: half a vector is multiplied as fast as a whole one, and needs no mask to be stored.
    if (lanes == 16 && group_out <= 8 && !pointwise) lanes = 8;
    RegisterTile tile = register_tile(context.target(), group_out, lanes);
    const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
    dsl::TemplateParams params;
    set_tile_params(context.target(), tile, lanes, stored, accumulator, &params);
    // One vector per pixel: a product needs a broadcast of its own, so every other load counts.
    constexpr int64_t kNearElements = 4096;
    if (tile.vectors == 1 && !pointwise) {
      if (taps * group_in * panel_width <= kNearElements) params.set("PREFETCH", 0);
      if (context.target().vector_registers >= 32 && axes[2].out.is_constant()) tile.rows = kTallTile;
    }
    AIPU_ASSIGN_OR_RETURN(const TensorRef packed, packed_operand(context, weights.value, accumulator,
                                                                 {.batches = weights.group,
                                                                  .depth = taps * group_in,
                                                                  .columns = group_out,
                                                                  .panel_width = panel_width,
                                                                  .inner = group_in,
                                                                  .batch_stride = group_out * group_in * taps,
                                                                  .column_stride = group_in * taps,
                                                                  .inner_stride = taps,
                                                                  .outer_stride = 1}));
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, arithmetic, &params));
    if (pointwise) {
      const Dim pixels = axes[0].out * axes[1].out * axes[2].out;
      if (weights.group == 1) {
        AIPU_RETURN_IF_ERROR(
            launch_gemm(context, tile, lanes,
                        {.left = context.value(node.inputs[0]),
                         .right = packed,
                         .row_count = row_count({geometry.batch, axes[0].out, axes[1].out, axes[2].out}),
                         .rows = geometry.batch * pixels,
                         .columns = group_out,
                         .depth = group_in,
                         .left_row = geometry.channels},
                        epilogue, std::move(params)));
        constexpr size_t kGemmRowStride = 6;  // among the scalars of gemm.py
        declare_strided_output(context, epilogue, 2, 3 + epilogue.extra_arguments.size() + kGemmRowStride);
        return {};
      }
      // Lines much shorter than a tile are joined; of others, TECs can share out the lines.
      if (axes[2].out.constant_or(tile.rows) * 2 < tile.rows) {
        axes[0] = axes[1] = SpatialAxis{};
        axes[2].in = axes[2].out = pixels;
      }
    }
    RowTiles tiles = row_tiles(axes[2], tile.rows);
    if (weights.group == 1 && !tiles.single) unroll_taps(axes[2], group_in, &tiles);
    const bool planar = axes[0].kernel == 1 && axes[0].in == Dim(1) && axes[0].out == Dim(1);
    const int64_t short_row = axes[2].out.constant_or(0);
    if (planar && tiles.taps.empty() && short_row > 0 && 2 * short_row <= tile.rows && !(axes[1].out == Dim(1))) {
      if (const std::vector<int64_t> runs = tap_runs(axes[2]); !runs.empty()) {
        params.set("WIDTH", short_row).set("RUNS", runs);
        const int64_t panels = (group_out + panel_width - 1) / panel_width * weights.group;
        return launch_short_rows(context, weights, geometry, packed, panels, epilogue, params);
      }
    }
    params.set("HEIGHTS", tiles.heights)
        .set("SKIP", tiles.skip)
        .set("SINGLE", tiles.single)
        .set("ROW_TAPS", tiles.taps);
    // Of one image; measured on first layers, whose results nobody has touched before.
    constexpr int64_t kManyResults = int64_t{2} << 20;
    const Dim results =
        axes[0].out * axes[1].out * axes[2].out * Dim(weights.out_channels * static_cast<int64_t>(dtype_bytes(stored)));
    params.set("PREFETCH_RESULT", tile.vectors > 1 && results.constant_or(0) >= kManyResults);
    params.set("ROW_STRIDES",
               tiles.taps.empty() ? std::vector<int64_t>{} : std::vector<int64_t>{axes[2].stride * group_in, group_in});
    reuse_operand_memory(context, epilogue, &params);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("conv.py", "conv", params));
    std::vector<KernelArgument> arguments = {PointerArgument{context.value(node.inputs[0])}, PointerArgument{packed},
                                             PointerArgument{context.value(epilogue.result)}};
    arguments.insert(arguments.end(), epilogue.extra_arguments.begin(), epilogue.extra_arguments.end());
    arguments.emplace_back(ScalarArgument{geometry.batch});
    append_extents(geometry, true, &arguments);
    arguments.emplace_back(ScalarArgument{geometry.channels});
    append_extents(geometry, false, &arguments);
    for (const int64_t scalar : {weights.group, group_in, group_out}) arguments.emplace_back(ScalarArgument{scalar});
    append_window(geometry, &arguments);
    arguments.emplace_back(ScalarArgument{weights.group == 1 && axes[2].dilation == 1 ? 1 : 0});
    // The image rows that a block of output rows reads stay in the second-level cache.
    constexpr int64_t kBlockElements = 96 * 1024;
    arguments.emplace_back(ScalarArgument{graph::max(
        graph::floordiv(kBlockElements, graph::max(axes[2].in * geometry.channels * Dim(axes[1].stride), 1)), 1)});
    const size_t row_stride = arguments.size();
    arguments.emplace_back(ScalarArgument{weights.out_channels});
    const Dim panels = (group_out + panel_width - 1) / panel_width * weights.group;
    context.launch(std::move(kernel), std::move(arguments), geometry.batch * axes[0].out * axes[1].out * panels);
    declare_strided_output(context, epilogue, 2, row_stride);
    return {};
  }

  // Of an image whose rows of output pixels fit into a tile twice.
  static Status launch_short_rows(SetupContext& context, const Weights& weights, const SpatialGeometry& geometry,
                                  const TensorRef& packed, int64_t panels, const Epilogue& epilogue,
                                  dsl::TemplateParams& params) {
    reuse_operand_memory(context, epilogue, &params);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("conv_short_rows.py", "conv_short_rows", params));
    const SpatialAxis &height = geometry.axes[1], &width = geometry.axes[2];
    std::vector<KernelArgument> arguments = {PointerArgument{context.value(context.anchor().inputs[0])},
                                             PointerArgument{packed}, PointerArgument{context.value(epilogue.result)}};
    arguments.insert(arguments.end(), epilogue.extra_arguments.begin(), epilogue.extra_arguments.end());
    // The image rows that a block of output rows reads stay in the second-level cache.
    constexpr int64_t kBlockElements = 96 * 1024;
    const Dim block_pairs = graph::max(
        graph::floordiv(kBlockElements, graph::max(width.in * geometry.channels * Dim(2 * height.stride), 1)), 1);
    const Dim merge = weights.group == 1 && width.dilation == 1 ? 1 : 0;
    for (const Dim& scalar :
         {geometry.batch, height.in, width.in, geometry.channels, height.out, Dim(weights.group), Dim(weights.group_in),
          Dim(weights.group_out), Dim(height.kernel), Dim(width.kernel), Dim(height.stride), Dim(width.stride),
          height.pad_begin, width.pad_begin, Dim(height.dilation), Dim(width.dilation), merge, block_pairs}) {
      arguments.emplace_back(ScalarArgument{scalar});
    }
    const size_t row_stride = arguments.size();
    arguments.emplace_back(ScalarArgument{weights.out_channels});
    context.launch(std::move(kernel), std::move(arguments),
                   geometry.batch * graph::ceildiv(height.out, 2) * Dim(panels));
    declare_strided_output(context, epilogue, 2, row_stride);
    return {};
  }

  static Status setup_depthwise(SetupContext& context, const Weights& weights, const SpatialGeometry& geometry,
                                DType accumulator, const AnchorArithmetic& arithmetic, dsl::TemplateParams& params) {
    const Node& node = context.anchor();
    const int lanes = context.lanes(accumulator);
    const int64_t channels = weights.out_channels, taps = weights.taps;
    params.set("VL", lanes).set("NV", 1);
    // Tiles of (almost) equal width: the pixels and one kernel row's weights in registers.
    const SpatialAxis& width = geometry.axes[2];
    const int64_t most = context.target().vector_registers >= 32 ? 14 : 7;
    int64_t tile_width = most / 2;
    if (const auto out = width.out.constant(); out && *out > 0)
      tile_width = (*out + (*out + most - 1) / most - 1) / ((*out + most - 1) / most);
    params.set("WIDTH", tile_width).set("NARROW", !width.out.is_constant()).set("TAIL", channels % lanes != 0);
    params.set("AHEAD", context.target().family == tir::TargetFamily::kHost);
    params.set("KW", width.kernel).set("SW", width.stride).set("DW", width.dilation);
    // One "panel" as wide as all channels: [taps][channels rounded up to whole vectors].
    const int64_t padded = (channels + lanes - 1) / lanes * lanes;
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
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("depthwise.py", "depthwise", params));
    std::vector<KernelArgument> arguments = {PointerArgument{context.value(node.inputs[0])}, PointerArgument{packed},
                                             PointerArgument{context.value(epilogue.result)}};
    arguments.insert(arguments.end(), epilogue.extra_arguments.begin(), epilogue.extra_arguments.end());
    arguments.emplace_back(ScalarArgument{geometry.batch});
    append_extents(geometry, true, &arguments);
    arguments.emplace_back(ScalarArgument{geometry.channels});
    arguments.emplace_back(ScalarArgument{padded});
    append_extents(geometry, false, &arguments);
    append_window(geometry, &arguments);
    // The image rows that a block of output rows reads stay in the second-level cache. What is too large for the last
    // one is fetched a block ahead: smaller blocks then, as two of them are there.
    constexpr int64_t kBlockElements = 96 * 1024, kBlockElementsAhead = 24 * 1024, kLastLevelElements = 2048 * 1024;
    const Dim elements = graph::element_count(context.graph().type(node.inputs[0]).shape) +
                         graph::element_count(context.graph().type(node.outputs[0]).shape);
    const Dim ahead =
        context.target().family == tir::TargetFamily::kHost ? graph::lt(kLastLevelElements, elements) : Dim(0);
    const Dim block = graph::select(ahead, Dim(kBlockElementsAhead), Dim(kBlockElements));
    arguments.emplace_back(ScalarArgument{graph::max(
        graph::floordiv(block, graph::max(width.in * geometry.channels * Dim(geometry.axes[1].stride), 1)), 1)});
    arguments.emplace_back(ScalarArgument{ahead});
    context.launch(std::move(kernel), std::move(arguments),
                   geometry.batch * geometry.axes[0].out * geometry.axes[1].out * Dim((channels + lanes - 1) / lanes));
    return {};
  }
};

// One axis of a transposed convolution: outputs a stride apart meet the same taps, see conv_transpose.py.
struct Phases {
  int64_t kernel, stride, dilation;
  int64_t residues, step;

  explicit Phases(const SpatialAxis& axis) : kernel(axis.kernel), stride(axis.stride), dilation(axis.dilation) {
    const int64_t shared = std::gcd(stride, dilation);
    residues = stride / shared;
    step = dilation / shared;
  }
  int64_t taps(int64_t residue) const { return residue < kernel ? (kernel - residue + residues - 1) / residues : 0; }
};

// The taps of a kernel in the order of their phases, as places in ONNX's order.
std::vector<int64_t> tap_order(const std::array<SpatialAxis, 3>& axes) {
  std::array<std::vector<std::vector<int64_t>>, 3> parts;  // per axis and residue, descending
  for (size_t i = 0; i < 3; ++i) {
    const Phases phases(axes[i]);
    for (int64_t residue = 0; residue < phases.residues; ++residue) {
      std::vector<int64_t>& taps = parts[i].emplace_back();
      for (int64_t j = phases.taps(residue) - 1; j >= 0; --j) taps.push_back(residue + j * phases.residues);
    }
  }
  std::vector<int64_t> order;
  for (const auto& planes : parts[0]) {
    for (const auto& lines : parts[1]) {
      for (const auto& columns : parts[2]) {
        for (const int64_t d : planes) {
          for (const int64_t h : lines) {
            for (const int64_t w : columns) order.push_back((d * axes[1].kernel + h) * axes[2].kernel + w);
          }
        }
      }
    }
  }
  return order;
}

// The same weights with their taps in another order.
graph::ConstantPtr reorder_taps(const graph::Constant& weights, const std::vector<int64_t>& order) {
  const size_t element = dtype_bytes(weights.dtype());
  std::vector<std::byte> bytes(weights.bytes().size());
  for (size_t row = 0; row < bytes.size(); row += order.size() * element) {
    for (size_t tap = 0; tap < order.size(); ++tap) {
      std::memcpy(&bytes[row + tap * element], &weights.bytes()[row + static_cast<size_t>(order[tap]) * element],
                  element);
    }
  }
  return graph::Constant::create(weights.dtype(), weights.shape(), std::move(bytes));
}

int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// The tiles of all phases of a row.
RowTiles phase_tiles(const SpatialAxis& axis, int greatest) {
  const Phases phases(axis);
  const auto pad = axis.pad_begin.constant();
  // Where out is stride * in + a constant, so is what the last pixels of a phase miss.
  const auto longer = (axis.out - axis.in * Dim(axis.stride)).constant();
  RowTiles all;
  for (int64_t first = 0; first < std::min(axis.stride, axis.out.constant_or(axis.stride)); ++first) {
    SpatialAxis phase;
    phase.in = axis.in;
    phase.out = graph::ceildiv(axis.out - Dim(first), axis.stride);
    phase.dilation = phases.step;
    if (!pad) {
      phase.kernel = phases.taps(0);
      phase.pad_begin = phase.pad_end = axis.pad_begin;
    } else {
      const int64_t reach = first + *pad;
      int64_t residue = 0;
      while (residue < phases.residues && (reach - residue * axis.dilation) % axis.stride != 0) ++residue;
      if (residue < phases.residues && phases.taps(residue) > 0) {
        const int64_t base = (reach - residue * axis.dilation) / axis.stride;
        phase.kernel = phases.taps(residue);
        phase.pad_begin = (phase.kernel - 1) * phases.step - base;
        phase.pad_end = longer ? Dim(base + ceil_div(*longer - first, axis.stride)) : Dim(base) + phase.out - axis.in;
      }
    }
    const RowTiles tiles = row_tiles(phase, greatest);
    all.heights.insert(all.heights.end(), tiles.heights.begin(), tiles.heights.end());
    all.skip = std::max(all.skip, tiles.skip);
    all.single = all.single || tiles.single;
  }
  std::sort(all.heights.begin(), all.heights.end(), std::greater<>());
  all.heights.erase(std::unique(all.heights.begin(), all.heights.end()), all.heights.end());
  return all;
}

// Weights [IC, OC/group, spatial...].
class ConvTransposePlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "conv_transpose"; }

  std::optional<graph::Claim> claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&,
                                    std::string* why_not) const override {
    const Node& node = graph.node(anchor);
    if (node.op != "ConvTranspose") return std::nullopt;
    Weights weights;
    SpatialGeometry geometry;
    std::string reason = read(graph, node, &weights, &geometry);
    if (!reason.empty()) {
      if (why_not != nullptr) *why_not = std::move(reason);
      return std::nullopt;
    }
    graph::Claim claim{anchor, {anchor}, 20};
    for (const graph::NodeId id : epilogue_nodes(graph, anchor)) claim.nodes.push_back(id);
    return claim;
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    Weights weights;
    SpatialGeometry geometry;
    if (std::string reason = read(graph, node, &weights, &geometry); !reason.empty())
      return unsupported(std::move(reason));
    const SpatialAxis& width = geometry.axes[2];
    const DType stored = graph.type(node.inputs[0]).dtype;
    const DType accumulator = accumulator_dtype(stored);
    int lanes = context.lanes(accumulator);
    // As for convolutions: half a vector where that is enough, tall tiles of one vector.
    if (lanes == 16 && weights.group_out <= 8) lanes = 8;
    RegisterTile tile = register_tile(context.target(), weights.group_out, lanes);
    if (tile.vectors == 1 && context.target().vector_registers >= 32 && width.out.is_constant()) tile.rows = kTallTile;
    const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
    dsl::TemplateParams params;
    set_tile_params(context.target(), tile, lanes, stored, accumulator, &params);
    AnchorArithmetic arithmetic;
    if (node.inputs.size() > 2) arithmetic.addend = node.inputs[2];
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, arithmetic, &params));
    RowTiles tiles = phase_tiles(width, tile.rows);
    params.set("HEIGHTS", tiles.heights).set("SKIP", tiles.skip).set("SINGLE", tiles.single);
    params.set("ROW_TAPS", std::vector<int64_t>{})
        .set("ROW_STRIDES", std::vector<int64_t>{})
        .set("PREFETCH_RESULT", false);
    AIPU_ASSIGN_OR_RETURN(const TensorRef packed,
                          packed_weights(context, weights, geometry, accumulator, panel_width, params));
    reuse_operand_memory(context, epilogue, &params);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("conv_transpose.py", "conv_transpose", params));
    std::vector<KernelArgument> arguments = {PointerArgument{context.value(node.inputs[0])}, PointerArgument{packed},
                                             PointerArgument{context.value(epilogue.result)}};
    arguments.insert(arguments.end(), epilogue.extra_arguments.begin(), epilogue.extra_arguments.end());
    arguments.emplace_back(ScalarArgument{geometry.batch});
    append_extents(geometry, true, &arguments);
    arguments.emplace_back(ScalarArgument{geometry.channels});
    append_extents(geometry, false, &arguments);
    for (const int64_t scalar : {weights.group, weights.group_in, weights.group_out})
      arguments.emplace_back(ScalarArgument{scalar});
    append_window(geometry, &arguments);
    for (const SpatialAxis& axis : geometry.axes) arguments.emplace_back(ScalarArgument{Phases(axis).residues});
    for (const SpatialAxis& axis : geometry.axes) arguments.emplace_back(ScalarArgument{Phases(axis).step});
    arguments.emplace_back(ScalarArgument{weights.group == 1 && Phases(width).step == 1 ? 1 : 0});
    // The image rows that a block of output rows reads stay in the second-level cache.
    constexpr int64_t kBlockElements = 96 * 1024;
    arguments.emplace_back(ScalarArgument{graph::max(
        graph::floordiv(kBlockElements * geometry.axes[1].stride, graph::max(width.in * geometry.channels, 1)), 1)});
    const size_t row_stride = arguments.size();
    arguments.emplace_back(ScalarArgument{weights.out_channels});
    const Dim panels = (weights.group_out + panel_width - 1) / panel_width * weights.group;
    context.launch(std::move(kernel), std::move(arguments),
                   geometry.batch * geometry.axes[0].out * geometry.axes[1].out * panels);
    declare_strided_output(context, epilogue, 2, row_stride);
    return {};
  }

 private:
  static std::string read(const Graph& graph, const Node& node, Weights* weights, SpatialGeometry* geometry) {
    std::string reason = read_weights(graph, node, weights);
    if (!reason.empty()) return reason;
    weights->group_in = weights->shape[0] / weights->group;
    weights->group_out = weights->shape[1];
    weights->out_channels = weights->group_out * weights->group;
    reason = read_geometry(graph, node, weights->kernel, geometry);
    if (!reason.empty()) return reason;
    // What is cut from the full output; it may depend on the input's extents.
    const auto window = graph::window_of(graph, node);
    if (!window.ok()) return window.status().message();
    const size_t spatial = window->kernel.size();
    for (size_t i = 0; i < spatial; ++i) {
      geometry->axes[3 - spatial + i].pad_begin = window->pads_begin[i];
      geometry->axes[3 - spatial + i].pad_end = window->pads_end[i];
    }
    return {};
  }

  // In panels, by phases; `params` are those of the convolution's tiles.
  static Result<TensorRef> packed_weights(SetupContext& context, const Weights& weights,
                                          const SpatialGeometry& geometry, DType accumulator, int64_t panel_width,
                                          const dsl::TemplateParams& params) {
    const int64_t group_in = weights.group_in, group_out = weights.group_out, taps = weights.taps;
    if (const graph::Constant* constant = context.graph().constant(weights.value)) {
      return context.add_constant(pack_panels(reorder_taps(*constant, tap_order(geometry.axes)), accumulator,
                                              {.batches = weights.group,
                                               .depth = taps * group_in,
                                               .columns = group_out,
                                               .panel_width = panel_width,
                                               .inner = group_in,
                                               .batch_stride = group_in * group_out * taps,
                                               .column_stride = taps,
                                               .inner_stride = group_out * taps,
                                               .outer_stride = 1}));
    }
    const int64_t panels = (group_out + panel_width - 1) / panel_width * weights.group;
    const TensorRef packed =
        context.add_workspace(panels * taps * group_in * panel_width * static_cast<int64_t>(dtype_bytes(accumulator)));
    dsl::TemplateParams types = params;
    types.set("X", storage_dtype(context.graph().type(weights.value).dtype));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("conv_transpose.py", "pack_phases", types));
    std::vector<KernelArgument> arguments = {PointerArgument{context.value(weights.value)}, PointerArgument{packed}};
    append_scalars({weights.group, group_in, group_out}, &arguments);
    for (const SpatialAxis& axis : geometry.axes) arguments.emplace_back(ScalarArgument{axis.kernel});
    for (const SpatialAxis& axis : geometry.axes) arguments.emplace_back(ScalarArgument{Phases(axis).residues});
    context.launch(std::move(kernel), std::move(arguments), panels);
    return packed;
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_conv_transpose_plugin() { return std::make_unique<ConvTransposePlugin>(); }
std::unique_ptr<OpPlugin> make_conv_plugin() { return std::make_unique<ConvPlugin>(); }

}  // namespace aipu::kernels
