// 3x3 convolutions of stride 1 by Winograd's algorithm (templates/winograd.py), where that is faster than the direct
// kernel: F(2x2, 3x3), and F(4x4, 3x3) for images of enough tiles. The error of both is that of direct sums; that of
// F(4x4) with --fast-math, which does not cut its sums, some four times as large. Of bfloat16 numbers F(4x4) has
// products of 16-bit integers (templates/winograd_fixed.py).
#include "kernels/plugins/winograd.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "graph/ops/multiplies.h"
#include "kernels/parts/axis_view.h"
#include "kernels/parts/convolution.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/gemm.h"
#include "kernels/parts/rounding.h"
#include "kernels/parts/spatial.h"
#include "kernels/parts/strided_output.h"
#include "kernels/parts/winograd_tiles.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

// With dilation many tiles are edge and the direct kernel leaves out many taps: what is multiplied has to be less by
// enough. Measured: at 0.64 of the direct multiplications a fifth is gained, at 0.85 nothing.
constexpr double kMostOfDirect = 0.8;
// Of an image. Below, half of the tiles would be edge.
constexpr int64_t kLeastExtent = 4;
// Below (not measured), the transforms would outweigh the multiplications saved; with 16 of them a third of the time is
// saved still.
constexpr int64_t kLeastChannels = 16;
// Tiles of F(4x4) below which its weights, four times the size of the direct ones, are what takes the time; with
// several TECs, which share the memory's bandwidth, the more so. Measured: images of 28 x 28 and more gain a third to
// two fifths whatever the number of channels; 14 x 14 gains up to a quarter where the weights are few (and the panels
// enough for all TECs), and loses as much where they come from memory; 7 x 7 loses.
constexpr int64_t kManyLargeTiles = 40;
constexpr int64_t kLeastLargeTiles = 16;
constexpr int64_t kMostWeights = 56 * 1024, kLeastOutChannels = 96;
// Channels of a patch that templates/winograd_4x4.py copies at a time (STAGE), in vectors.
constexpr int64_t kStageVectors = 4;

// Channels that F(4x4) sums by themselves. Its transforms make the rounding of sums several times as large, so its sums
// have to be shorter than direct ones to lose as little. Each cut costs up to a twentieth of the time that is left.
int64_t channels_of_sum(int64_t channels) { return channels < 128 ? 32 : 64; }
// The same of by_units, whose sums have to fit 32 bits: as many as are copied at a time.
constexpr int64_t kUnitsChannels = 64;

// Tiles of F(4x4) of an image; nullopt where its extents are symbolic.
std::optional<int64_t> large_tiles(const SpatialGeometry& geometry) {
  int64_t tiles = geometry.batch.constant_or(1);
  for (size_t i = 1; i < 3; ++i) {
    const auto along = winograd_tiles(geometry.axes[i], 4).constant();
    if (!along) return std::nullopt;
    tiles *= *along;
  }
  return tiles;
}

// Whether F(4x4) is faster than F(2x2), for which any image will do whose extents are symbolic.
bool is_worth_large_tiles(const SpatialGeometry& geometry, int64_t out_channels, int64_t in_channels) {
  // What it multiplies of what F(2x2) does: 9/16 where no tile is edge. Measured: at 0.7 a quarter is gained, at 1 a
  // twentieth lost.
  constexpr double kMostOfSmallTiles = 0.85;
  const auto tiles = large_tiles(geometry);
  if (!tiles) return true;
  double share = static_cast<double>(winograd_points(4)) / static_cast<double>(winograd_points(2));
  for (size_t i = 1; i < 3; ++i) {
    share *= static_cast<double>(*winograd_tiles(geometry.axes[i], 4).constant()) /
             static_cast<double>(*winograd_tiles(geometry.axes[i], 2).constant());
  }
  const bool few_weights = out_channels * in_channels <= kMostWeights && out_channels >= kLeastOutChannels;
  return share <= kMostOfSmallTiles && *tiles >= (few_weights ? kLeastLargeTiles : kManyLargeTiles);
}

// Whether F(4x4) of bfloat16 is faster than the direct kernel. Measured: of 16 channels it is not.
bool is_worth_units(const SpatialGeometry& geometry, int64_t out_channels, int64_t in_channels) {
  constexpr int64_t kLeastUnitsChannels = 32;
  return std::min(out_channels, in_channels) >= kLeastUnitsChannels &&
         large_tiles(geometry).value_or(kLeastLargeTiles) >= kLeastLargeTiles;
}

// One that is not would be in all points, and so in all pixels of its channel. float32 or bfloat16.
bool all_finite(const graph::Constant& weights) {
  const std::span<const std::byte> bytes = weights.bytes();
  const size_t size = dtype_bytes(weights.dtype());
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    uint32_t bits = 0;
    // A bfloat16 is the upper half.
    std::memcpy(reinterpret_cast<std::byte*>(&bits) + (sizeof bits - size), bytes.data() + at, size);
    if (!std::isfinite(std::bit_cast<float>(bits))) return false;
  }
  return true;
}

struct Variant {
  std::string_view name;
  int score = 0;
  int m = 0;              // a tile of m x m output pixels
  bool cuts_sums = true;  // of m = 4
  bool by_units = false;  // of bfloat16, or of float32 numbers that may be rounded to that
};

// The geometry of a convolution that is two-dimensional, dense, 3x3, of stride 1, of the variant's numbers with
// constant weights, and has enough of everything for its tiles; nullopt for others.
std::optional<SpatialGeometry> suitable(const Graph& graph, const Node& node, const Variant& variant) {
  const int m = variant.m;
  const graph::Constant* weights = graph.constant(node.inputs[1]);
  const DType type = graph.type(node.inputs[0]).dtype;
  const bool may_round = type == DType::kBF16 || graph::may_multiply(node, DType::kBF16);
  if (variant.by_units ? !may_round : type != DType::kF32) return std::nullopt;
  if (weights == nullptr || weights->dtype() != type) return std::nullopt;
  const auto& shape = weights->shape();
  if (shape.size() != 4 || shape[2] != 3 || shape[3] != 3 || node.attributes.i_or("group", 1) != 1) return std::nullopt;
  if (shape[0] < kLeastChannels || shape[1] < kLeastChannels) return std::nullopt;
  const auto geometry = read_geometry(graph, node, {3, 3});
  if (!geometry.ok()) return std::nullopt;
  const auto is_worth = variant.by_units ? is_worth_units : is_worth_large_tiles;
  if (m == 4 && !is_worth(*geometry, shape[0], shape[1])) return std::nullopt;
  const bool fits = std::all_of(geometry->axes.begin() + 1, geometry->axes.end(), [](const SpatialAxis& axis) {
    return axis.stride == 1 && axis.out.constant_or(kLeastExtent) >= kLeastExtent;
  });
  const bool dilated = geometry->axes[1].dilation != 1 || geometry->axes[2].dilation != 1;
  if (dilated && winograd_share(*geometry, m).value_or(1) > kMostOfDirect) return std::nullopt;
  return fits && all_finite(*weights) ? std::optional(*geometry) : std::nullopt;
}

WinogradBlock block_of(int m, int64_t in_channels) {
  // Tiles whose transformed input stays in the second-level cache, in multiples of 14 rows, the greatest register tile.
  // Of many channels that would be so few that the weights pass by too often: rather the planes of many tiles one after
  // the other.
  if (m == 2) {
    if (in_channels >= 384) return {56, true};
    return {std::clamp<int64_t>(16384 / in_channels / 14 * 14, 28, 56), false};
  }
  if (in_channels >= 192) return {56, true};
  return {42, false};
}

// Whether the target adds up two products of 16-bit integers per lane and instruction.
bool multiplies_words(const graph::ClaimTarget& target) {
  const auto found = tir::find_target(target.name);
  return found.ok() && found->dot_products != tir::DotProducts::kNone && !found->element_products;
}

class WinogradPlugin final : public OpPlugin {
 public:
  explicit WinogradPlugin(const Variant& variant) : variant_(variant), m_(variant.m) {}

  std::string_view name() const override { return variant_.name; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget& target) const override {
    if (!variant_.cuts_sums && !target.fast_math) return std::nullopt;
    const Node& node = graph.node(anchor);
    if (variant_.by_units && !multiplies_words(target)) return std::nullopt;
    if (node.op != "Conv" || !keeps_winograd_tiles(target) || !suitable(graph, node, variant_)) return std::nullopt;
    return claim_with_epilogue(graph, anchor, variant_.score);
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const auto suited = suitable(graph, node, variant_);
    if (!suited) return internal_error("not a convolution for Winograd's algorithm");
    const SpatialGeometry& geometry = *suited;
    const graph::Constant& weights = *graph.constant(node.inputs[1]);
    const int64_t out_channels = weights.shape()[0], in_channels = weights.shape()[1];
    const int lanes = context.lanes(DType::kF32);
    const RegisterTile tile = register_tile(context.target(), out_channels, lanes);
    const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
    const int64_t panels = (out_channels + panel_width - 1) / panel_width;
    const WinogradBlock block = block_of(m_, in_channels);
    const int64_t block_panels = block.all_panels ? panels : 1;
    dsl::TemplateParams params;
    set_tile_params(context.target(), tile, lanes, DType::kF32, &params);
    const DType x_type = graph.type(node.inputs[0]).dtype;
    params.set("X", x_type)
        .set("HEIGHTS", winograd_heights(m_, tile.rows))
        .set("IN_TAIL", in_channels % lanes != 0)
        .set("TAIL", out_channels % lanes != 0)
        .set("M", m_)
        .set("magnitude_types", pointer_types(m_ == 4 ? 1 : 0, DType::kF32))
        .set("BY_UNITS", variant_.by_units)
        .set("SUMS", sums_of(in_channels))
        .set("POINT_A", kWinogradPoints[0])
        .set("POINT_B", kWinogradPoints[1]);
    std::vector<KernelArgument> units, original;
    TensorRef packed;
    if (variant_.by_units) {
      params.set("PANEL", DType::kI16)
          .set("PREFETCH", static_cast<int64_t>(context.target().vector_bits >= 512 ? 16 : 0));
      const FixedWeights fixed = pack_winograd_fixed(weights, panel_width, block.all_panels, kUnitsChannels, lanes);
      packed = context.add_constant(fixed.transformed);
      units.emplace_back(PointerArgument{context.add_constant(fixed.units)});
      units.emplace_back(PointerArgument{context.add_constant(fixed.factors)});
      original.emplace_back(PointerArgument{context.add_constant(fixed.original)});
    } else {
      packed =
          context.add_constant(pack_winograd(graph.value(node.inputs[1]).constant, m_, panel_width, block.all_panels));
    }
    params.set("unit_types", pointer_types(static_cast<int>(units.size()), DType::kF32))
        .set("original_types", pointer_types(static_cast<int>(original.size()), x_type));
    AnchorArithmetic arithmetic;
    if (node.inputs.size() > 2) arithmetic.addend = node.inputs[2];
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], DType::kF32, arithmetic, &params));
    reuse_operand_memory(context, epilogue, &params);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("winograd.py", "winograd", params));

    const SpatialAxis& height = geometry.axes[1];
    const SpatialAxis& width = geometry.axes[2];
    // And which tiles are not finite, and by_units their units.
    const int64_t units_of_tile = variant_.by_units ? ceil_of(in_channels, kUnitsChannels) : 0;
    const int64_t staged = variant_.by_units ? kUnitsChannels : kStageVectors * lanes;
    const int64_t stage = m_ == 4 ? winograd_points(m_) * staged + block.tiles * (1 + units_of_tile) : 0;
    const int64_t scratch = winograd_points(m_) * ((block.tiles * (in_channels + 2 * lanes) + lanes) +
                                                   (block_panels * block.tiles * panel_width + lanes)) +
                            stage;
    const Dim tiles = geometry.batch * winograd_tiles(height, m_) * winograd_tiles(width, m_);
    const Dim tecs = graph::max(graph::min(tiles, tec_count()), 1);
    // A vector for each line of the input that is measured, of as many lines at most as there are.
    std::vector<KernelArgument> magnitudes;
    if (m_ == 4) {
      // By units a vector for each vector of channels.
      const int64_t measured = variant_.by_units ? rounded_up(in_channels, lanes) : int64_t{lanes};
      const Dim bytes = geometry.batch * height.in * Dim(measured * static_cast<int64_t>(sizeof(float)));
      magnitudes.emplace_back(PointerArgument{context.add_workspace(bytes)});
    }
    const TensorRef workspace = context.add_workspace(tecs * Dim(scratch * static_cast<int64_t>(sizeof(float))));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("weights", packed)
        .list("units", units)
        .list("original", original)
        .pointer("out", context.value(epilogue.result))
        .pointer("scratch", workspace)
        .list("magnitudes", magnitudes)
        .list("extras", epilogue.extra_arguments)
        .scalar("scratch_size", scratch);
    arguments.record("images", {{"batch", geometry.batch}, {"channels", in_channels}, {"out_channels", out_channels}});
    bind_winograd_sides(geometry, &arguments);
    bind_winograd_block(block, panels, m_, &arguments);
    arguments.scalar("ldc", graph.type(epilogue.result).shape.back());
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, tecs));
    return declare_strided_output(context, epilogue);
  }

 private:
  // Channels that are summed by themselves; 0: all.
  int64_t sums_of(int64_t in_channels) const {
    if (variant_.by_units) return kUnitsChannels;
    return m_ == 4 && variant_.cuts_sums ? channels_of_sum(in_channels) : 0;
  }

  const Variant variant_;
  const int m_;
};

}  // namespace

std::vector<std::array<double, 3>> winograd_weight_transform(int m) {
  if (m == 2) return {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  const double a = kWinogradPoints[0], b = kWinogradPoints[1];
  std::vector<std::array<double, 3>> rows = {{1 / (a * a * b * b), 0, 0}};
  for (const auto& [point, other] : {std::pair{a, b}, std::pair{b, a}}) {
    // The product of the differences to all other points.
    const double scale = 1 / (2 * point * point * (point * point - other * other));
    rows.push_back({scale, scale * point, scale * point * point});
    rows.push_back({scale, -scale * point, scale * point * point});
  }
  rows.push_back({0, 0, 1});
  return rows;
}

namespace {

// Elements [first, last) x [0, m + 2) of G g Gt of one panel's kernels: a row of panel_width values per input channel,
// rows of one element in order, elements `point_bytes` apart.
void transform_panel(const graph::Constant& weights, int m, int64_t panel_width, int64_t panel, size_t first,
                     size_t last, std::byte* out, size_t point_bytes) {
  const std::vector<std::array<double, 3>> transform = winograd_weight_transform(m);
  const int64_t out_channels = weights.shape()[0], in_channels = weights.shape()[1];
  const auto width = static_cast<size_t>(panel_width),
             present = static_cast<size_t>(std::min(panel_width, out_channels - panel * panel_width));
  std::vector<double> kernels(9 * width), half(3 * width);  // by weight, all columns beside each other
  std::vector<float> row(width);
  const std::byte* source =
      weights.bytes().data() + static_cast<size_t>(panel * panel_width * in_channels) * 9 * sizeof(float);
  for (int64_t ic = 0; ic < in_channels; ++ic) {
    for (size_t column = 0; column < present; ++column) {
      float g[9];
      std::memcpy(g, source + (column * static_cast<size_t>(in_channels) + static_cast<size_t>(ic)) * sizeof(g),
                  sizeof(g));
      for (size_t k = 0; k < 9; ++k) kernels[k * width + column] = g[k];
    }
    for (size_t r = first; r < last; ++r) {
      const std::array<double, 3>& u = transform[r];
      for (size_t i = 0; i < 3 * width; ++i)
        half[i] = u[0] * kernels[i] + u[1] * kernels[3 * width + i] + u[2] * kernels[6 * width + i];
      for (size_t s = 0; s < transform.size(); ++s) {
        const std::array<double, 3>& w = transform[s];
        for (size_t i = 0; i < width; ++i)
          row[i] = static_cast<float>(w[0] * half[i] + w[1] * half[width + i] + w[2] * half[2 * width + i]);
        std::memcpy(
            out + ((r - first) * transform.size() + s) * point_bytes + static_cast<size_t>(ic) * width * sizeof(float),
            row.data(), width * sizeof(float));
      }
    }
  }
}

}  // namespace

graph::ConstantPtr pack_winograd(graph::ConstantPtr weights, int m, int64_t panel_width, bool point_major) {
  const int64_t out_channels = weights->shape()[0], in_channels = weights->shape()[1];
  const int64_t panels = (out_channels + panel_width - 1) / panel_width;
  const auto side = static_cast<size_t>(m) + 2,
             chunk_bytes = static_cast<size_t>(in_channels * panel_width) * sizeof(float);
  const Hash128& content = weights->hash();
  const int64_t recipe[] = {m, point_major ? 1 : 0, static_cast<int64_t>(content.high),
                            static_cast<int64_t>(content.low)};
  const Hash128 hash = hash_bytes(std::as_bytes(std::span(recipe)));
  if (point_major) {
    // A piece is a row of points, of all panels.
    auto fill = [weights = std::move(weights), m, panel_width, panels, side, chunk_bytes](int64_t first,
                                                                                          std::span<std::byte> out) {
      const size_t point_bytes = chunk_bytes * static_cast<size_t>(panels);
      for (auto r = static_cast<size_t>(first); !out.empty(); ++r, out = out.subspan(side * point_bytes)) {
        for (int64_t panel = 0; panel < panels; ++panel) {
          transform_panel(*weights, m, panel_width, panel, r, r + 1,
                          out.data() + static_cast<size_t>(panel) * chunk_bytes, point_bytes);
        }
      }
    };
    return graph::Constant::deferred(DType::kF32, {winograd_points(m), panels, in_channels, panel_width}, hash, m + 2,
                                     std::move(fill));
  }
  auto fill = [weights = std::move(weights), m, panel_width, side, chunk_bytes](int64_t first,
                                                                                std::span<std::byte> out) {
    for (int64_t panel = first; !out.empty(); ++panel, out = out.subspan(side * side * chunk_bytes)) {
      transform_panel(*weights, m, panel_width, panel, 0, side, out.data(), chunk_bytes);
    }
  };
  return graph::Constant::deferred(DType::kF32, {panels, winograd_points(m), in_channels, panel_width}, hash, panels,
                                   std::move(fill));
}

std::unique_ptr<OpPlugin> make_winograd_plugin() {
  return std::make_unique<WinogradPlugin>(Variant{.name = "winograd", .score = 25, .m = 2});
}
std::unique_ptr<OpPlugin> make_winograd_f4_plugin() {
  return std::make_unique<WinogradPlugin>(Variant{.name = "winograd_f4", .score = 26, .m = 4});
}
std::unique_ptr<OpPlugin> make_winograd_fixed_plugin() {
  return std::make_unique<WinogradPlugin>(Variant{.name = "winograd_fixed", .score = 28, .m = 4, .by_units = true});
}
std::unique_ptr<OpPlugin> make_winograd_f4_fast_plugin() {
  return std::make_unique<WinogradPlugin>(Variant{.name = "winograd_f4_fast", .score = 27, .m = 4, .cuts_sums = false});
}

}  // namespace aipu::kernels
