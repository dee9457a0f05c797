// aipu::QuantizedConv and aipu::QuantizedMatMul by products of tiles (templates/quantized_tiles.py), where the target
// has them and the product is large enough. The sums are exact.
#include <algorithm>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/column_blocks.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/quantized_product.h"
#include "kernels/parts/rounding.h"
#include "kernels/parts/spatial.h"
#include "kernels/parts/strided_output.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using namespace quantized;

// Of S.tile_dot: rows and columns of a block, bytes of depth of a step.
constexpr int64_t kRows = 32, kColumns = 32, kStep = 64;
// Above winograd_bytes, whose products are of 16 bits.
constexpr int kScore = 30;

Dim pixels_of(const SpatialGeometry& geometry) {
  return geometry.batch * geometry.axes[0].out * geometry.axes[1].out * geometry.axes[2].out;
}

// Of one sample, where only a run knows how many there are.
Dim least_pixels(const Graph& graph, const Node& node, const SpatialGeometry& geometry) {
  Dim all = pixels_of(geometry);
  if (all.is_constant()) return all;
  if (node.op == "aipu::QuantizedConv") return geometry.axes[0].out * geometry.axes[1].out * geometry.axes[2].out;
  const graph::Shape& x = graph.type(node.inputs[kX]).shape;
  Dim rows = 1;
  for (size_t i = 1; i + 1 < x.size(); ++i) rows *= x[i];
  return rows;
}

bool is_direct(const SpatialGeometry& geometry) {
  return !has_padding(geometry) && geometry.channels.is_constant() && geometry.channels.constant_or(1) % kStep == 0 &&
         std::all_of(geometry.axes.begin(), geometry.axes.end(),
                     [](const SpatialAxis& axis) { return axis.kernel == 1 && axis.stride == 1; });
}

std::optional<Problem> suitable(const Graph& graph, const Node& node, const tir::Target& target) {
  if (node.op != "aipu::QuantizedConv" && node.op != "aipu::QuantizedMatMul") return std::nullopt;
  if (!target.tile_products) return std::nullopt;
  const auto p = read_problem(graph, node);
  if (!p.ok() || p->groups != 1) return std::nullopt;
  // Below, what is around the products takes the time. Copies are for several panels, of bytes that lie behind one
  // another: 21 for 7x7 with three channels took ten times as long as the direct kernel.
  constexpr int64_t kLeastRun = 64, kLeastColumns = 16, kLeastPixels = 4;
  const SpatialAxis& width = p->geometry.axes[2];
  const int64_t run = p->group_in * (width.dilation == 1 ? width.kernel : 1),
                columns = is_direct(p->geometry) ? kLeastColumns : kColumns + 1;
  if (run < kLeastRun || p->group_out < columns ||
      least_pixels(graph, node, p->geometry).constant_or(kLeastPixels) < kLeastPixels)
    return std::nullopt;
  return *p;
}

// [panel][step][half of the columns][16][column][4]; columns and the end of the depth are padded with zeros.
graph::ConstantPtr pack(const Weights& weights, int64_t depth, int64_t columns) {
  const int64_t panels = (columns + kColumns - 1) / kColumns, padded = rounded_up(depth, kStep);
  std::vector<int8_t> packed(static_cast<size_t>(panels * padded * kColumns));
  for (int64_t column = 0; column < columns; ++column) {
    constexpr int64_t kHalf = kColumns / 2;
    const int64_t place = column / kColumns * padded * kColumns + column % kColumns / kHalf * kStep * kHalf;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t in_step = (k % kStep / 4 * kHalf + column % kHalf) * 4 + k % 4;
      packed[static_cast<size_t>(place + k / kStep * kStep * kColumns + in_step)] =
          static_cast<int8_t>(weights.elements[static_cast<size_t>(column * depth + k)]);
    }
  }
  return graph::Constant::of<int8_t>(DType::kI8, {static_cast<int64_t>(packed.size())}, packed);
}

class QuantizedTilesPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "quantized_tiles"; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget& target) const override {
    const Node& node = graph.node(anchor);
    const auto found = tir::find_target(target.name);
    if (!found.ok()) return std::nullopt;
    const auto p = suitable(graph, node, *found);
    if (!p || !read_weights(graph, node, *p).fit_int8) return std::nullopt;
    if (!has_float32_scale(graph, node)) return std::nullopt;
    graph::Claim claim = claim_with_epilogue(graph, anchor, kScore);
    // Those the direct kernel writes where they belong.
    if (column_blocks(graph, graph.node(claim.nodes.back()).outputs[0])) return std::nullopt;
    return claim;
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const tir::Target& target = context.target();
    AIPU_ASSIGN_OR_RETURN(Problem p, read_problem(graph, node));
    const Weights weights = read_weights(graph, node, p);
    const int64_t depth = p.taps * p.group_in, steps = rounded_up(depth, kStep) / kStep,
                  panels = (p.group_out + kColumns - 1) / kColumns;
    const int64_t lanes = target.lanes(32);
    dsl::TemplateParams params;
    params.set("X", graph.type(node.inputs[kX]).dtype)
        .set("DIRECT", is_direct(p.geometry))
        .set("VL", lanes)
        .set("NV", kColumns / lanes);
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue,
                          bind_epilogue_of_sums(context, magnitude_of(graph, node, weights, p), &params));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("quantized_tiles.py", "quantized_tiles", params));

    // Copies stay in the second cache beside a panel of weights.
    constexpr int64_t kCopies = 256 << 10, kMostBlocks = 8;
    const int64_t block_bytes = kRows * steps * kStep;
    const int64_t blocks = std::clamp(kCopies / block_bytes, int64_t{1}, kMostBlocks);
    const int64_t scratch = kRows * kColumns * int64_t{sizeof(int32_t)} + blocks * block_bytes + kStep;
    const Dim units = graph::ceildiv(pixels_of(p.geometry), kRows) * Dim(panels);
    const Dim tecs = graph::max(graph::min(units, tec_count()), 1);
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[kX]))
        .pointer("weights", context.add_constant(pack(weights, depth, p.group_out)));
    bind_start_and_scale(context, weights, p, kColumns, &arguments);
    arguments.pointer("out", context.value(epilogue.result))
        .pointer("scratch", context.add_workspace(tecs * Dim(scratch)))
        .list("extras", epilogue.extra_arguments);
    bind_geometry(p.geometry, &arguments);
    arguments.scalars({{"zero", p.x_zero}, {"out_channels", p.group_out}, {"steps", steps}, {"blocks", blocks}})
        .scalar("scratch_size", scratch)
        .scalar("ldc", p.group_out);
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, tecs));
    return declare_strided_output(context, epilogue);
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_quantized_tiles_plugin() { return std::make_unique<QuantizedTilesPlugin>(); }

}  // namespace aipu::kernels
