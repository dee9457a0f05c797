// aipu::QuantizedConv and aipu::QuantizedMatMul: convolutions and matrix products of 8-bit integers with a fused
// epilogue. A matrix product is a 1x1 convolution over a row of pixels.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/column_blocks.h"
#include "kernels/parts/depthwise.h"
#include "kernels/parts/depthwise_bytes.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/image_copy.h"
#include "kernels/parts/quantized_product.h"
#include "kernels/parts/register_tile.h"
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
using graph::ValueId;
using namespace quantized;

// The columns of one block, of a convolution without groups.
Weights columns_of(const Weights& weights, const Problem& block) {
  const auto column = static_cast<ptrdiff_t>(block.taps * block.group_in);
  const auto first = weights.elements.begin() + static_cast<ptrdiff_t>(block.first_out) * column;
  return {{first, first + static_cast<ptrdiff_t>(block.group_out) * column}, weights.fit_int8};
}

// How a kernel row is walked: `taps` runs of `steps` words.
struct Runs {
  int64_t taps, steps;
  int64_t channels;  // consecutive elements of one run that have weights
};

// T is int8_t or int16_t: four bytes of depth per step and column.
template <typename T>
graph::ConstantPtr pack(DType dtype, const Weights& weights, const Problem& p, const Runs& runs, int64_t panel_width) {
  constexpr auto kDepth = static_cast<int64_t>(4 / sizeof(T));
  const int64_t kernel_w = p.geometry.axes[2].kernel, panels = (p.group_out + panel_width - 1) / panel_width;
  const int64_t lines = p.taps / kernel_w;
  std::vector<T> packed(static_cast<size_t>(p.groups * panels * lines * runs.taps * runs.steps * panel_width * kDepth));
  size_t at = 0;
  for (int64_t unit = 0; unit < p.groups * panels; ++unit) {
    for (int64_t run = 0; run < lines * runs.taps; ++run) {
      for (int64_t step = 0; step < runs.steps; ++step) {
        for (int64_t i = 0; i < panel_width * kDepth; ++i, ++at) {
          const int64_t out = unit % panels * panel_width + i / kDepth, channel = step * kDepth + i % kDepth;
          if (out >= p.group_out || channel >= runs.channels) continue;
          // A run covers one tap, or all taps of a kernel row with their channels behind one another: both are
          // consecutive in [taps][in].
          const int64_t row = (unit / panels * p.group_out + out) * p.taps * p.group_in;
          packed[at] = static_cast<T>(weights.elements[static_cast<size_t>(row + run * runs.channels + channel)]);
        }
      }
    }
  }
  return graph::Constant::of<T>(dtype, {static_cast<int64_t>(packed.size())}, packed);
}

// Whether every sum, partial ones too, is an integer that float32 holds exactly.
bool sums_fit_float(const Graph& graph, const Node& node, const Weights& weights, const Problem& p) {
  const std::vector<int64_t> start = start_of_channels(graph, node, weights, p, p.x_zero);
  const int64_t depth = p.taps * p.group_in;
  for (size_t out = 0; out < start.size(); ++out) {
    int64_t largest = std::abs(start[out]);
    for (int64_t k = 0; k < depth; ++k)
      largest += 255 * std::abs(weights.elements[out * static_cast<size_t>(depth) + static_cast<size_t>(k)]);
    if (largest >= int64_t{1} << 24) return false;
  }
  return true;
}

// The most taps that are outside the image at once, on each side of two axes.
struct TapsOutside {
  int64_t above = 0, below = 0, before = 0, behind = 0;
};

// nullopt: not known, the outermost axis has some too, or they are so many that the starts of sums would be too.
std::optional<TapsOutside> taps_outside(const Problem& p) {
  const auto taps = [](const Dim& padding, const SpatialAxis& axis) -> std::optional<int64_t> {
    const auto extent = padding.constant();
    if (!extent) return std::nullopt;
    return std::min((*extent + axis.dilation - 1) / axis.dilation, axis.kernel);
  };
  const auto& [depth, height, width] = p.geometry.axes;
  const auto above = taps(height.pad_begin, height), below = taps(height.pad_end, height),
             before = taps(width.pad_begin, width), behind = taps(width.pad_end, width);
  if (!above || !below || !before || !behind || !(depth.pad_begin == Dim(0)) || !(depth.pad_end == Dim(0)))
    return std::nullopt;
  constexpr int64_t kMost = 32;
  if ((*above + 1) * (*below + 1) * 2 * (*behind + 1) > kMost) return std::nullopt;
  return TapsOutside{*above, *below, *before, *behind};
}

// start_values() without the taps that are outside: [above][below][before or none][behind][column].
graph::ConstantPtr starts_of_edges(const Graph& graph, const Node& node, const Weights& weights, const Problem& p,
                                   const TapsOutside& outside, int64_t zero, int64_t panel_width) {
  const std::vector<int64_t> of_all = start_of_channels(graph, node, weights, p, zero);
  const auto taps = static_cast<size_t>(p.taps), depth = static_cast<size_t>(p.group_in);
  std::vector<int64_t> sums;  // of weights: [channel][tap]
  for (size_t k = 0; k < of_all.size() * taps; ++k) {
    const auto first = weights.elements.begin() + static_cast<ptrdiff_t>(k * depth);
    sums.push_back(std::accumulate(first, first + static_cast<ptrdiff_t>(depth), int64_t{0}));
  }
  const int64_t lines = p.geometry.axes[1].kernel, width = p.geometry.axes[2].kernel,
                padded = rounded_up(p.group_out, panel_width);
  std::vector<int32_t> starts;
  const auto append = [&](int64_t above, int64_t below, int64_t before, int64_t behind) {
    const size_t first = starts.size();
    starts.resize(first + static_cast<size_t>(p.groups * padded));
    for (size_t channel = 0; channel < of_all.size(); ++channel) {
      int64_t start = of_all[channel];
      for (size_t tap = 0; tap < taps; ++tap) {
        const int64_t column = static_cast<int64_t>(tap) % width, line = static_cast<int64_t>(tap) / width % lines;
        if (line < above || line >= lines - below || column < before || column >= width - behind)
          start += zero * sums[channel * taps + tap];
      }
      const auto out = static_cast<int64_t>(channel);
      starts[first + static_cast<size_t>(out / p.group_out * padded + out % p.group_out)] = static_cast<int32_t>(start);
    }
  };
  for (int64_t above = 0; above <= outside.above; ++above) {
    for (int64_t below = 0; below <= outside.below; ++below) {
      for (const int64_t before : {int64_t{0}, outside.before})
        for (int64_t behind = 0; behind <= outside.behind; ++behind) append(above, below, before, behind);
    }
  }
  return graph::Constant::of<int32_t>(DType::kI32, {static_cast<int64_t>(starts.size())}, starts);
}

// Whether there are dot products of bytes of that type and weights, which are signed.
bool multiplies_with_signed(tir::DotProducts products, DType type) {
  switch (products) {
    case tir::DotProducts::kNone:
      return false;
    case tir::DotProducts::kUnsignedBySigned:
      return type == DType::kU8;
    case tir::DotProducts::kSameSign:
      return type == DType::kI8;
    case tir::DotProducts::kAll:
      return true;
  }
  return false;
}

// Long rows (matrix products, 1x1 convolutions) are cut for the sake of several TECs and of the cache, between tiles.
int64_t longest_segment(int64_t highest) { return 336 / highest * highest; }

// The heights that occur in segments of rows, descending. Where these would be too many kernels, a choice that ends in
// 1: with the two below the highest, so that most numbers of rows are cut into equal tiles.
std::vector<int64_t> heights_of_segments(int64_t highest, const RowCount& rows) {
  const int64_t segment = longest_segment(highest);
  if (rows.exact && (rows.multiple <= segment || rows.multiple % highest == 0))
    return tile_heights(rows, static_cast<int>(highest));
  const int64_t step = std::gcd(rows.multiple, segment);
  std::set<int64_t, std::greater<>> heights;
  for (int64_t left = step; left <= segment; left += step) {
    for (const int64_t height : tile_heights({left, true}, static_cast<int>(highest))) heights.insert(height);
  }
  constexpr size_t kMostHeights = 7;
  if (heights.size() > kMostHeights) {
    heights = {highest, highest - 1, highest - 2, 1};
    for (const int64_t height : {2, 4, 8}) {
      if (height < highest) heights.insert(height);
    }
  }
  return {heights.begin(), heights.end()};
}

class QuantizedPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "quantized"; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget& target) const override {
    const Node& node = graph.node(anchor);
    if (node.op != "aipu::QuantizedConv" && node.op != "aipu::QuantizedMatMul") return std::nullopt;
    AIPU_RETURN_IF_ERROR(read_problem(graph, node).status());
    if (!has_float32_scale(graph, node)) return unsupported("a scale that is not float32");
    graph::Claim claim = claim_with_epilogue(graph, anchor);
    const auto known = tir::find_target(target.name);
    if (known.ok() && known->codegen == "native_c") add_column_blocks(graph, &claim);
    return claim;
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    AIPU_ASSIGN_OR_RETURN(const Problem p, read_problem(graph, node));
    const Weights weights = read_weights(graph, node, p);
    if (p.group_in == 1 && p.group_out == 1 && p.groups > 1 && sums_fit_float(graph, node, weights, p))
      return setup_depthwise(context, weights, p);
    return setup_product(context, weights, p);
  }

 private:
  // What a claim takes along if its result is taken apart: of pixels that are independent of each other, and where the
  // neighbours do not ask which column it is. Blocks must not be so narrow that panels are mostly empty.
  static void add_column_blocks(const Graph& graph, graph::Claim* claim) {
    const Node& anchor = graph.node(claim->anchor);
    const auto problem = read_problem(graph, anchor);
    const auto blocks = column_blocks(graph, graph.node(claim->nodes.back()).outputs[0]);
    if (!blocks || anchor.op != "aipu::QuantizedConv" || problem->groups != 1 || !is_pointwise(problem->geometry))
      return;
    std::set<ValueId> inside;
    for (const graph::NodeId id : claim->nodes) {
      const Node& node = graph.node(id);
      for (const ValueId input : node.inputs) {
        const bool is_operand = id != claim->anchor && input.valid() && !inside.contains(input);
        if (is_operand && !(graph::element_count(graph.type(input).shape) == Dim(1))) return;
      }
      inside.insert(node.outputs[0]);
    }
    constexpr int64_t kPanel = 32;
    const int64_t apart = blocks->count * rounded_up(blocks->columns, kPanel),
                  together = rounded_up(blocks->count * blocks->columns, kPanel);
    if (4 * apart > 5 * together) return;
    claim->nodes.insert(claim->nodes.end(), {blocks->reshape, blocks->transpose});
  }

  static bool is_pointwise(const SpatialGeometry& geometry) {
    return !has_padding(geometry) &&
           std::all_of(geometry.axes.begin(), geometry.axes.end(),
                       [](const SpatialAxis& axis) { return axis.kernel == 1 && axis.stride == 1; });
  }

  // Of the lines that tiles are cut from: all pixels where they are one line.
  static RowCount row_count_of_lines(const Graph& graph, const Node& node, const Problem& p) {
    const Dim lines = p.geometry.batch * p.geometry.axes[0].out * p.geometry.axes[1].out;
    if (!(lines == Dim(1))) return row_count({p.geometry.axes[2].out});
    graph::Shape pixels = graph.type(node.outputs[0]).shape;
    pixels.pop_back();
    return row_count(pixels);
  }

  static Status setup_product(SetupContext& context, const Weights& weights, Problem p) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const tir::Target& target = context.target();
    const DType x_dtype = graph.type(node.inputs[kX]).dtype;
    const bool quad = weights.fit_int8 && target.dot_products != tir::DotProducts::kNone;
    const bool flip = quad && !multiplies_with_signed(target.dot_products, x_dtype);
    // There the products need not say where in a register their bytes are, nor be of whole vectors of the language.
    const bool by_element = quad && target.element_products && target.dot_products == tir::DotProducts::kSameSign;
    const int lanes = by_element ? target.lanes(32) : dot_lanes(target);
    if (quad && !flip) {
      AIPU_ASSIGN_OR_RETURN(const bool staged, setup_staged(context, weights, p));
      if (staged) return {};
    }
    const std::optional<double> magnitude = magnitude_of(graph, node, weights, p);
    const auto blocks = column_blocks_of(graph, context.group().nodes);
    if (blocks) p.group_out = blocks->columns;
    const int vectors = p.group_out <= lanes || (target.vector_bits < 256 && !by_element) ? 1 : 2;
    const int64_t panel_width = static_cast<int64_t>(vectors) * lanes,
                  panels = (p.group_out + panel_width - 1) / panel_width;
    const int64_t depth = quad ? 4 : 2;

    PointerArgument x{context.value(node.inputs[kX])};
    // 16-bit products read a widened copy, from which the zero point has been subtracted.
    int64_t zero = quad ? p.x_zero + (flip ? (x_dtype == DType::kI8 ? 128 : -128) : 0) : 0;
    const auto outside = zero != 0 ? taps_outside(p) : std::nullopt;
    const bool pads_in_copy = has_padding(p.geometry) && (!edges_are_simple(p.geometry) || (zero != 0 && !outside));
    // Once, where the loop that multiplies by elements would do it again for each panel.
    const bool flips_in_copy = flip && by_element;
    const DType read_type = !quad ? DType::kI16 : flips_in_copy ? DType::kI8 : x_dtype;
    if (!quad || flips_in_copy || p.group_in % depth != 0 || pads_in_copy) {
      AIPU_RETURN_IF_ERROR(
          copy_image(context, x_dtype, read_type, p.x_zero, pads_in_copy || p.group_in % depth != 0, &p.geometry, &x));
    }
    // Not before: a copy goes by lines.
    const Dim batch = p.geometry.batch;
    const Dim pixels = p.geometry.axes[0].out * p.geometry.axes[1].out * p.geometry.axes[2].out;
    flatten_pixels(&p.geometry);
    if (blocks) {  // other blocks are between those of two samples
      p.geometry.batch = batch;
      p.geometry.axes[2].in = p.geometry.axes[2].out = pixels;
    }
    const bool edges = has_padding(p.geometry), starts_by_edges = edges && outside;
    const int64_t kernel_w = p.geometry.axes[2].kernel;
    Runs runs{kernel_w, (p.group_in + depth - 1) / depth, p.group_in};
    if (p.groups == 1 && p.geometry.axes[2].dilation == 1)
      runs = {1, (kernel_w * p.group_in + depth - 1) / depth, kernel_w * p.group_in};

    dsl::TemplateParams params;
    const DType packed_type = quad ? DType::kI8 : DType::kI16;
    const bool flips_in_loop = flip && !flips_in_copy;
    const DType left = !flips_in_loop ? read_type : x_dtype == DType::kI8 ? DType::kU8 : DType::kI8;
    params.set("X", read_type)
        .set("W", packed_type)
        .set("FLIP", flips_in_loop)
        .set("LEFT", left)
        .set("BY_ELEMENT", by_element)
        .set("VL", lanes)
        .set("NV", vectors);
    const int64_t highest = highest_tile(target, vectors);
    params.set("HEIGHTS", heights_of_segments(highest, row_count_of_lines(graph, node, p))).set("EDGES", edges);
    params.set("EDGE_STARTS", starts_by_edges ? std::vector<int64_t>{outside->below + 1, outside->behind + 1}
                                              : std::vector<int64_t>{});
    params.set("PREFETCH", static_cast<int64_t>(target.vector_bits >= 512 ? 64 : 0));
    const graph::Constant* scale = graph.constant(operand(node, kScale));
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue_of_sums(context, magnitude, &params));
    params.set("sample_types", scalar_types(blocks ? 1 : 0));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.narrow_kernel("quantized_conv.py", "quantized_conv", params));

    // What a Reshape and a Transpose make of the epilogue's result, or that itself.
    const ValueId result = stored_value(context);
    const Dim ldc = p.groups * p.group_out;
    for (int64_t block = 0; block < (blocks ? blocks->count : 1); ++block) {
      p.first_out = block * p.group_out;
      const Weights part = blocks ? columns_of(weights, p) : Weights();
      const Weights& columns = blocks ? part : weights;
      const TensorRef packed = context.add_constant(quad ? pack<int8_t>(packed_type, columns, p, runs, panel_width)
                                                         : pack<int16_t>(packed_type, columns, p, runs, panel_width));
      KernelArguments arguments;
      arguments.pointer("x", x)
          .pointer("weights", packed)
          .pointer("start", context.add_constant(
                                starts_by_edges ? starts_of_edges(graph, node, columns, p, *outside, zero, panel_width)
                                                : start_values(graph, node, columns, p, zero, panel_width)));
      if (scale != nullptr) arguments.pointer("scale[0]", context.add_constant(scale_values(*scale, p, panel_width)));
      const Dim segment = graph::max(graph::min(p.geometry.axes[2].out, longest_segment(highest)), 1);
      const auto element = static_cast<int64_t>(dtype_bytes(graph.type(result).dtype));
      arguments.pointer("out", context.value(result), block * element * pixels * ldc)
          .list("extras", epilogue.extra_arguments)
          .scalars({{"taps", runs.taps}, {"steps", runs.steps}, {"edge_steps", p.group_in / depth}})
          .scalar("segment", segment);
      bind_geometry(p.geometry, &arguments);
      bind_groups(p.groups, p.group_in, p.group_out, &arguments);
      arguments.scalar("ldc", ldc);
      if (blocks) arguments.scalar("samples[0]", blocks->count * pixels * ldc);
      const Dim rows = p.geometry.batch * p.geometry.axes[0].out * p.geometry.axes[1].out;
      const Dim units = rows * graph::ceildiv(p.geometry.axes[2].out, segment) * Dim(p.groups * panels);
      AIPU_RETURN_IF_ERROR(context.launch(kernel, arguments, graph::max(units, 1)));
      if (blocks) {
        context.implementation.strided_samples.push_back(
            {result, context.implementation.launches.size() - 1, "out", "samples[0]"});
      }
    }
    return result == epilogue.result ? declare_strided_output(context, epilogue) : Status();
  }

  // Through the local memory of TECs; false: no tiling fits.
  static Result<bool> setup_staged(SetupContext& context, const Weights& weights, Problem p) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const DType x_dtype = graph.type(node.inputs[kX]).dtype;
    flatten_pixels(&p.geometry);
    ProductShape shape{.channels = p.groups * p.group_in,
                       .groups = p.groups,
                       .group_in = p.group_in,
                       .group_out = p.group_out,
                       .element = x_dtype};
    AIPU_RETURN_IF_ERROR(describe_epilogue(context, {}, &shape));
    trim_border(&p.geometry);
    if (p.x_zero == 0) describe_border(p.geometry, &shape);
    const auto plan = plan_staged_product(context.target(), with_padding_inside(p.geometry), shape);
    if (!plan) return false;
    StagedOperands operands{.x = {context.value(node.inputs[kX])}};
    if (has_padding(p.geometry))
      AIPU_RETURN_IF_ERROR(copy_image(context, x_dtype, x_dtype, p.x_zero, true, &p.geometry, &operands.x));
    const std::vector<int8_t> bytes(weights.elements.begin(), weights.elements.end());
    const int64_t column = p.taps * p.group_in;
    operands.weights = context.add_constant(
        pack_staged(*plan, shape, graph::Constant::of<int8_t>(DType::kI8, {static_cast<int64_t>(bytes.size())}, bytes),
                    {.group = p.group_out * column, .column = column, .channel = 1, .tap = p.group_in}));
    operands.start = context.add_constant(start_values(graph, node, weights, p, p.x_zero, plan->panel()));
    if (const graph::Constant* scale = graph.constant(operand(node, kScale)))
      operands.scale = context.add_constant(scale_values(*scale, p, plan->panel()));
    AIPU_RETURN_IF_ERROR(
        launch_staged_product(context, *plan, p.geometry, shape, operands, arithmetic_of(graph, node)));
    return true;
  }

  static ByteOperands byte_operands(const Graph& graph, const Node& node, const Weights& weights, const Problem& p) {
    ByteOperands operands{.flip = graph.type(node.inputs[kX]).dtype == DType::kI8};
    operands.zero = p.x_zero + (operands.flip ? 128 : 0);
    operands.weights.assign(weights.elements.begin(), weights.elements.end());
    const std::vector<int64_t> start = start_of_channels(graph, node, weights, p, operands.zero);
    operands.start.assign(start.begin(), start.end());
    if (const graph::Constant* scale = graph.constant(operand(node, kScale))) {
      const std::vector<double> scales = scale->to_doubles();
      for (int64_t c = 0; c < p.groups; ++c)
        operands.factors.push_back(static_cast<float>(of_channel<double>(scales, c, 1)));
    }
    return operands;
  }

  static Status setup_depthwise(SetupContext& context, const Weights& weights, const Problem& p) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const DType x_dtype = graph.type(node.inputs[kX]).dtype;
    const int lanes = context.lanes(DType::kF32);
    const int64_t channels = p.groups, padded = rounded_up(channels, lanes);
    dsl::TemplateParams params;
    const graph::Constant* scale = graph.constant(operand(node, kScale));
    const DType accumulator = scale != nullptr ? DType::kF32 : DType::kI32;
    params.set("X", x_dtype).set("ACC", accumulator).set("USE_FMA", context.target().native_fma);
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue,
                          bind_packed_epilogue(context, node.outputs[0], accumulator, arithmetic_of(graph, node),
                                               magnitude_of(graph, node, weights, p), &params));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[kX]))
        .pointer("out", context.value(epilogue.result))
        .list("extras", epilogue.extra_arguments);
    const auto bytes = weights.fit_int8 ? plan_depthwise_bytes(context.target(), p.geometry) : std::nullopt;
    if (bytes) {
      return launch_depthwise_bytes(context, p.geometry, *bytes, byte_operands(graph, node, weights, p), params,
                                    std::move(arguments));
    }

    std::vector<float> packed(static_cast<size_t>(p.taps * padded)), start(static_cast<size_t>(padded)),
        factors(static_cast<size_t>(padded));
    const std::vector<int64_t> starts = start_of_channels(graph, node, weights, p, p.x_zero);
    const std::vector<double> scales = scale != nullptr ? scale->to_doubles() : std::vector<double>();
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < p.taps; ++tap)
        packed[static_cast<size_t>(tap * padded + c)] = weights.elements[static_cast<size_t>(c * p.taps + tap)];
      start[static_cast<size_t>(c)] = static_cast<float>(starts[static_cast<size_t>(c)]);
      factors[static_cast<size_t>(c)] = static_cast<float>(of_channel<double>(scales, c, 1));
    }
    const auto constant = [](const std::vector<float>& elements) {
      return graph::Constant::of<float>(DType::kF32, {static_cast<int64_t>(elements.size())}, elements);
    };
    const DepthwiseSums sums{.type = DType::kF32,
                             .start = constant(start),
                             .factors = scale != nullptr ? constant(factors) : nullptr,
                             .zero = has_padding(p.geometry) ? p.x_zero : 0};
    const TensorRef taps = context.add_constant(constant(packed));
    const StagedDepthwise staged = plan_staged_depthwise(
        context.target(), p.geometry, lanes, {x_dtype, DType::kF32, graph.type(stored_value(context)).dtype});
    return staged.segment > 0
               ? launch_staged_depthwise(context, staged, p.geometry, lanes, sums, taps, params, std::move(arguments))
               : launch_depthwise(context, p.geometry, lanes, sums, taps, params, std::move(arguments));
  }

  // Every tap of the kernel is outside the image for at most the first or the last of some consecutive pixels, and
  // never for both.
  static bool edges_are_simple(const SpatialGeometry& geometry) {
    const SpatialAxis& w = geometry.axes[2];
    const auto begin = w.pad_begin.constant(), end = w.pad_end.constant();
    return begin && end && *begin <= w.stride && *end <= w.stride && *begin + *end <= (w.kernel - 1) * w.dilation;
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_quantized_plugin() { return std::make_unique<QuantizedPlugin>(); }

}  // namespace aipu::kernels
