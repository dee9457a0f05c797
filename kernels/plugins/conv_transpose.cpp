// ConvTranspose on channels-last activations with packed weights and a fused epilogue.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "graph/ops/spatial.h"
#include "kernels/parts/axis_view.h"
#include "kernels/parts/convolution.h"
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
    all.cut = all.cut || tiles.cut;
  }
  std::sort(all.heights.begin(), all.heights.end(), std::greater<>());
  all.heights.erase(std::unique(all.heights.begin(), all.heights.end()), all.heights.end());
  return all;
}

// "phases" of both kernels.
void bind_phases(const SpatialGeometry& geometry, KernelArguments* arguments) {
  for (const auto& [axis, residues] : of_axes(geometry, [](const SpatialAxis& a) { return Phases(a).residues; }))
    arguments->scalar(fmt::format("phases.{}.residues", axis), residues);
  for (const auto& [axis, step] : of_axes(geometry, [](const SpatialAxis& a) { return Phases(a).step; }))
    arguments->scalar(fmt::format("phases.{}.step", axis), step);
}

// Weights [IC, OC/group, spatial...].
class ConvTransposePlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "conv_transpose"; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&) const override {
    const Node& node = graph.node(anchor);
    if (node.op != "ConvTranspose") return std::nullopt;
    AIPU_RETURN_IF_ERROR(read(graph, node).status());
    return claim_with_epilogue(graph, anchor);
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    AIPU_ASSIGN_OR_RETURN(const Operands operands, read(graph, node));
    const auto& [weights, geometry] = operands;
    if (is_depthwise(graph, weights)) return depthwise(context, weights, geometry);
    const SpatialAxis& width = geometry.axes[2];
    const DType stored = graph.type(node.inputs[0]).dtype;
    const DType accumulator = accumulator_dtype(stored);
    const auto [tile, lanes] = window_tile(context.target(), weights.group_out, context.lanes(accumulator), width);
    const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
    dsl::TemplateParams params;
    set_tile_params(context.target(), tile, lanes, accumulator, &params);
    params.set("X", stored);
    AnchorArithmetic arithmetic;
    if (node.inputs.size() > 2) arithmetic.addend = node.inputs[2];
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, arithmetic, &params));
    params.set("TILING", tiling_record(phase_tiles(width, tile.rows))).set("PREFETCH_RESULT", false);
    AIPU_ASSIGN_OR_RETURN(const TensorRef packed,
                          packed_weights(context, weights, geometry, accumulator, panel_width, params));
    reuse_operand_memory(context, epilogue, &params);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("conv_transpose.py", "conv_transpose", params));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("weights", packed)
        .pointer("out", context.value(epilogue.result))
        .list("extras", epilogue.extra_arguments)
        .scalar("ldc", weights.out_channels);
    bind_geometry(geometry, &arguments);
    bind_groups(weights.group, weights.group_in, weights.group_out, &arguments);
    bind_phases(geometry, &arguments);
    arguments.scalar("merge", weights.group == 1 && Phases(width).step == 1 ? 1 : 0)
        .scalar("block_rows", rows_of_block(geometry));
    const Dim panels = (weights.group_out + panel_width - 1) / panel_width * weights.group;
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments,
                                        geometry.batch * geometry.axes[0].out * geometry.axes[1].out * panels));
    return declare_strided_output(context, epilogue);
  }

 private:
  struct Operands {
    ConvWeights weights;
    SpatialGeometry geometry;
  };
  static Result<Operands> read(const Graph& graph, const Node& node) {
    Operands operands;
    AIPU_ASSIGN_OR_RETURN(operands.weights, read_weights(graph, node));
    ConvWeights& weights = operands.weights;
    weights.group_in = weights.shape[0] / weights.group;
    weights.group_out = weights.shape[1];
    weights.out_channels = weights.group_out * weights.group;
    AIPU_ASSIGN_OR_RETURN(operands.geometry, read_geometry(graph, node, weights.kernel));
    // What is cut from the full output; it may depend on the input's extents.
    AIPU_ASSIGN_OR_RETURN(const auto window, graph::window_of(graph, node));
    const size_t spatial = window.kernel.size();
    for (size_t i = 0; i < spatial; ++i) {
      operands.geometry.axes[3 - spatial + i].pad_begin = window.pads_begin[i];
      operands.geometry.axes[3 - spatial + i].pad_end = window.pads_end[i];
    }
    return operands;
  }

  // The image rows that a block of so many output rows reads stay in the second-level cache.
  static Dim rows_of_block(const SpatialGeometry& geometry) {
    constexpr int64_t kBlockElements = 96 * 1024;
    return graph::max(graph::floordiv(kBlockElements * geometry.axes[1].stride,
                                      graph::max(geometry.axes[2].in * geometry.channels, 1)),
                      1);
  }

  static bool is_depthwise(const Graph& graph, const ConvWeights& weights) {
    return weights.group > 1 && weights.group_in == 1 && weights.group_out == 1 &&
           graph.constant(weights.value) != nullptr;
  }

  static Status depthwise(SetupContext& context, const ConvWeights& weights, const SpatialGeometry& geometry) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const DType stored = graph.type(node.inputs[0]).dtype;
    const DType accumulator = accumulator_dtype(stored);
    const int lanes = context.lanes(accumulator);
    // Sums, weights and a product fit the registers; all tiles of a phase are alike.
    const int64_t most = context.target().vector_registers >= 32 ? 14 : 8;
    const SpatialAxis& width = geometry.axes[2];
    const int64_t results = (width.out.constant_or(most * width.stride) + width.stride - 1) / width.stride;
    const int64_t tiles = std::max<int64_t>((results + most - 1) / most, 1);
    dsl::TemplateParams params;
    params.set("ACC", accumulator).set("VL", lanes).set("NV", 1).set("USE_FMA", is_floating(accumulator));
    params.set("X", stored)
        .set("WIDTH", std::max<int64_t>((results + tiles - 1) / tiles, 1))
        .set("TAIL", weights.group % lanes != 0);
    AnchorArithmetic arithmetic;
    if (node.inputs.size() > 2) arithmetic.addend = node.inputs[2];
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, arithmetic, &params));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("depthwise_transposed.py", "depthwise_transposed", params));
    const graph::ConstantPtr turned = reorder_taps(*graph.constant(weights.value), tap_order(geometry.axes));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("weights", context.add_constant(pack_panels(turned, accumulator,
                                                             {.batches = 1,
                                                              .depth = weights.taps,
                                                              .columns = weights.group,
                                                              .panel_width = lanes,
                                                              .inner = weights.taps,
                                                              .batch_stride = 0,
                                                              .column_stride = weights.taps,
                                                              .inner_stride = 1,
                                                              .outer_stride = 0})))
        .pointer("out", context.value(epilogue.result))
        .list("extras", epilogue.extra_arguments)
        .scalar("ldc", weights.out_channels)
        .scalar("block_rows", int64_t{1});
    bind_geometry(geometry, &arguments);
    bind_phases(geometry, &arguments);
    const int64_t vectors = (weights.group + lanes - 1) / lanes;
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments,
                                        geometry.batch * geometry.axes[0].out * geometry.axes[1].out * vectors));
    return declare_strided_output(context, epilogue);
  }

  // In panels, by phases; `params` are those of the convolution's tiles.
  static Result<TensorRef> packed_weights(SetupContext& context, const ConvWeights& weights,
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
    KernelArguments arguments;
    arguments.pointer("source", context.value(weights.value))
        .pointer("packed", packed)
        .record("kernel", of_axes(geometry, [](const SpatialAxis& axis) { return axis.kernel; }));
    bind_groups(weights.group, group_in, group_out, &arguments);
    bind_phases(geometry, &arguments);
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, panels));
    return packed;
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_conv_transpose_plugin() { return std::make_unique<ConvTransposePlugin>(); }

}  // namespace aipu::kernels
