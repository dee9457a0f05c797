// 3x3 convolutions of stride 1 of 8-bit integers by Winograd's F(4x4, 3x3) (templates/winograd_bytes.py), where that is
// faster than the direct kernel. The sums are exact.
#include <algorithm>
#include <array>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/image_copy.h"
#include "kernels/parts/quantized_product.h"
#include "kernels/parts/rounding.h"
#include "kernels/parts/spatial.h"
#include "kernels/parts/strided_output.h"
#include "kernels/parts/winograd_tiles.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Graph;
using graph::Node;
using namespace quantized;

// Output pixels of a tile, each way.
constexpr int kTile = 4;
// What the template makes of sums is right modulo 2^26.
constexpr int64_t kMostSum = int64_t{1} << 25;
// Channels of a patch that the template copies at a time (STAGE), in vectors of 16-bit lanes.
constexpr int64_t kStageVectors = 4;

// Rows of the weights' transform.
constexpr std::array<std::array<int, 3>, 6> kTransform = {
    {{6, 0, 0}, {1, 1, 1}, {1, -1, 1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 6}}};

// Whether every sum of weights and elements of that type is within the bounds.
bool sums_fit(const Weights& weights, const Problem& p, DType x) {
  const int64_t least = x == DType::kI8 ? -128 : 0, most = least + 255;
  const auto depth = static_cast<size_t>(p.taps * p.group_in);
  for (size_t first = 0; first < weights.elements.size(); first += depth) {
    int64_t lowest = 0, highest = 0;
    for (size_t k = first; k < first + depth; ++k) {
      const int64_t w = weights.elements[k];
      lowest += std::min(w * least, w * most);
      highest += std::max(w * least, w * most);
    }
    if (lowest < -kMostSum || highest >= kMostSum) return false;
  }
  return true;
}

// Products of 16 bits have half the rate of the direct kernel's where the target has products of bytes. Measured: at
// 0.72 of its time by that count a tenth to a third is gained, but with fewer tiles than these the weights, eight times
// the size of the direct ones, are what takes the time.
bool is_worth_it(const SpatialGeometry& geometry, bool has_byte_products) {
  constexpr double kMostOfDirect = 0.8;
  const int64_t least_tiles = has_byte_products ? 40 : 16;
  int64_t tiles = geometry.batch.constant_or(1);
  for (size_t i = 1; i < 3; ++i) {
    const auto along = winograd_tiles(geometry.axes[i], kTile).constant();
    // Symbolic extents may become large ones.
    if (!along) return true;
    tiles *= *along;
  }
  const auto share = winograd_share(geometry, kTile);
  return share && *share * (has_byte_products ? 2 : 1) <= kMostOfDirect && tiles >= least_tiles;
}

std::optional<Problem> suitable(const Graph& graph, const Node& node, const tir::Target& target) {
  if (node.op != "aipu::QuantizedConv" || target.cache_bytes() == 0 || target.element_products) return std::nullopt;
  const auto p = read_problem(graph, node);
  if (!p.ok() || p->groups != 1) return std::nullopt;
  const std::vector<int64_t>& shape = graph.constant(operand(node, kW))->shape();
  if (shape.size() != 4 || shape[2] != 3 || shape[3] != 3) return std::nullopt;
  const SpatialGeometry& geometry = p->geometry;
  if (geometry.axes[1].stride != 1 || geometry.axes[2].stride != 1) return std::nullopt;
  const bool has_byte_products = target.dot_products != tir::DotProducts::kNone;
  // Below, the transforms outweigh what is saved.
  const int64_t least_channels = has_byte_products ? 64 : 16;
  if (p->group_in < least_channels || p->group_out < least_channels || !is_worth_it(geometry, has_byte_products))
    return std::nullopt;
  return *p;
}

WinogradBlock block_of(int64_t in_channels) {
  if (in_channels >= 384) return {56, true};
  return {42, false};
}

// [panel][point][pair of channels][column][2], or with the first two axes exchanged.
graph::ConstantPtr pack(const Weights& weights, const Problem& p, int64_t panel_width, bool point_major) {
  const int64_t panels = (p.group_out + panel_width - 1) / panel_width, pairs = (p.group_in + 1) / 2;
  constexpr int64_t kPoints = winograd_points(kTile);
  std::vector<int16_t> packed(static_cast<size_t>(panels * kPoints * pairs * panel_width * 2));
  for (int64_t out = 0; out < p.group_out; ++out) {
    const int64_t panel = out / panel_width;
    for (int64_t in = 0; in < p.group_in; ++in) {
      const auto tap = [&](size_t k) {
        return int{weights.elements[static_cast<size_t>((out * p.taps + static_cast<int64_t>(k)) * p.group_in + in)]};
      };
      std::array<std::array<int, 3>, 6> half{};
      for (size_t r = 0; r < 6; ++r) {
        const auto& u = kTransform[r];
        for (size_t s = 0; s < 3; ++s) half[r][s] = u[0] * tap(s) + u[1] * tap(3 + s) + u[2] * tap(6 + s);
      }
      for (size_t r = 0; r < 6; ++r) {
        for (size_t s = 0; s < 6; ++s) {
          const auto& u = kTransform[s];
          const int value = u[0] * half[r][0] + u[1] * half[r][1] + u[2] * half[r][2];
          const auto point = static_cast<int64_t>(6 * r + s);
          const int64_t chunk = point_major ? point * panels + panel : panel * kPoints + point;
          const int64_t place = ((chunk * pairs + in / 2) * panel_width + out % panel_width) * 2 + in % 2;
          packed[static_cast<size_t>(place)] = static_cast<int16_t>(value);
        }
      }
    }
  }
  return graph::Constant::of<int16_t>(DType::kI16, {static_cast<int64_t>(packed.size())}, packed);
}

class WinogradBytesPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "winograd_bytes"; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget& target) const override {
    const Node& node = graph.node(anchor);
    const auto found = tir::find_target(target.name);
    if (!found.ok()) return std::nullopt;
    const auto p = suitable(graph, node, *found);
    if (!p || !sums_fit(read_weights(graph, node, *p), *p, graph.type(node.inputs[kX]).dtype)) return std::nullopt;
    if (!has_float32_scale(graph, node)) return std::nullopt;
    return claim_with_epilogue(graph, anchor, 25);
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const tir::Target& target = context.target();
    AIPU_ASSIGN_OR_RETURN(const Problem p, read_problem(graph, node));
    const Weights weights = read_weights(graph, node, p);
    const SpatialGeometry& geometry = p.geometry;
    const int lanes = dot_lanes(target);
    const int vectors = p.group_out <= lanes || target.vector_bits < 256 ? 1 : 2;
    const int64_t panel_width = static_cast<int64_t>(vectors) * lanes,
                  panels = (p.group_out + panel_width - 1) / panel_width, wide = 2 * int64_t{lanes};
    const WinogradBlock block = block_of(p.group_in);
    const int64_t block_panels = block.all_panels ? panels : 1;
    dsl::TemplateParams params;
    params.set("X", graph.type(node.inputs[kX]).dtype)
        .set("VL", lanes)
        .set("NV", vectors)
        .set("HEIGHTS", winograd_heights(kTile, static_cast<int>(highest_tile(target, vectors))))
        .set("PREFETCH", static_cast<int64_t>(target.vector_bits >= 512 ? 16 : 0))
        .set("M", kTile)
        .set("IN_TAIL", p.group_in % wide != 0)
        .set("TAIL", p.group_out % lanes != 0);
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue,
                          bind_epilogue_of_sums(context, magnitude_of(graph, node, weights, p), &params));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("winograd_bytes.py", "winograd_bytes", params));

    // In elements of 32 bits: of products, then of the transformed input and of copies at its edges.
    const int64_t points = winograd_points(kTile);
    const int64_t scratch = points * (block_panels * block.tiles * panel_width + lanes) +
                            points * (block.tiles * (p.group_in + 2 * wide) + wide) / 2 +
                            points * kStageVectors * wide / 4;
    const graph::Dim tiles =
        geometry.batch * winograd_tiles(geometry.axes[1], kTile) * winograd_tiles(geometry.axes[2], kTile);
    const graph::Dim tecs = graph::max(graph::min(tiles, tec_count()), 1);
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[kX]))
        .pointer("weights", context.add_constant(pack(weights, p, panel_width, block.all_panels)));
    bind_start_and_scale(context, weights, p, panel_width, &arguments);
    arguments.pointer("out", context.value(epilogue.result))
        .pointer("scratch", context.add_workspace(tecs * graph::Dim(scratch * static_cast<int64_t>(sizeof(int32_t)))))
        .list("extras", epilogue.extra_arguments);
    arguments.record(
        "images",
        {{"batch", geometry.batch}, {"channels", p.group_in}, {"out_channels", p.group_out}, {"zero", p.x_zero}});
    bind_winograd_sides(geometry, &arguments);
    bind_winograd_block(block, panels, kTile, &arguments);
    arguments.scalar("scratch_size", scratch).scalar("ldc", p.group_out);
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, tecs));
    return declare_strided_output(context, epilogue);
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_winograd_bytes_plugin() { return std::make_unique<WinogradBytesPlugin>(); }

}  // namespace aipu::kernels
