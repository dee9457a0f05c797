// Resize. Scales become attribute `scales` (one per axis in ONNX's NCHW order, whatever the layout; absent when sizes
// are given); output extents become attribute `sizes` (same order); the crop box of tf_crop_and_resize attribute `roi`
// (starts, then ends, one per axis). Scales and a box that only a run knows are the operands `run_scales` and `run_roi`
// (start and end of each axis), in the same order; `sizes` comes with them.
#include "graph/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/ops/dim_rules.h"
#include "graph/ops/op_list.h"
#include "graph/ops/shape_operands.h"

namespace aipu::graph {
namespace {

constexpr int kRoi = 1;
constexpr int kScales = 2;
constexpr int kSizes = 3;
constexpr int kRunScales = 4;
constexpr int kRunRoi = 5;

// An operand of ONNX's counts as absent when it has no elements: opset 11 had to give an empty roi.
bool has_elements(const InferContext& ctx, size_t input) {
  return ctx.has_input(input) && element_count(ctx.input(input).shape).constant() != 0;
}

bool channels_last(const Attributes& a) { return a.s("layout") == "NHWC"; }

// Shape of input 0 in NCHW order.
Shape input_extents(const InferContext& ctx) {
  Shape shape = ctx.input(0).shape;
  if (channels_last(ctx.attributes()) && shape.size() > 2) std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

Result<std::vector<double>> constant_floats(InferContext& ctx, size_t input, const char* name) {
  const Constant* constant = ctx.graph().constant(ctx.node().inputs[input]);
  if (constant == nullptr)
    return unsupported(str_cat("operand '", name, "' must be known when compiling; give sizes instead, or a constant"));
  return constant->to_doubles();
}

// Values for the axes listed in `axes`, spread over all axes.
Result<std::vector<size_t>> listed_axes(const InferContext& ctx, size_t rank) {
  std::vector<size_t> axes;
  if (!ctx.attributes().has("axes")) {
    for (size_t k = 0; k < rank; ++k) axes.push_back(k);
    return axes;
  }
  for (const int64_t axis : ctx.attributes().ints("axes")) {
    AIPU_ASSIGN_OR_RETURN(const int64_t normal, normal_axis(axis, static_cast<int>(rank)));
    axes.push_back(static_cast<size_t>(normal));
  }
  return axes;
}

// floor(extent * scale). Static extents are multiplied in float32, as ONNX's own inference does; for symbolic ones the
// scale is taken as the simplest fraction with that float32 value.
Dim scaled_extent(const Dim& extent, double scale) {
  const auto factor = static_cast<float>(scale);
  if (const auto value = extent.constant()) {
    const float product = std::floor(static_cast<float>(*value) * factor);
    // No tensor is that large; where bytes are counted it is refused.
    return product < 0x1p62f ? static_cast<int64_t>(product) : std::numeric_limits<int64_t>::max();
  }
  // Continued fraction.
  int64_t p[2] = {1, 0};
  int64_t q[2] = {0, 1};
  double rest = scale;
  for (int step = 0; step < 20 && rest < 0x1p40; ++step) {
    const auto whole = static_cast<int64_t>(std::floor(rest));
    const int64_t numerator = whole * p[0] + p[1];
    const int64_t denominator = whole * q[0] + q[1];
    if (denominator > (int64_t{1} << 24) || numerator > (int64_t{1} << 40)) break;
    p[1] = p[0];
    q[1] = q[0];
    p[0] = numerator;
    q[0] = denominator;
    if (static_cast<float>(static_cast<double>(p[0]) / static_cast<double>(q[0])) == factor) break;
    if (rest == static_cast<double>(whole)) break;
    rest = 1.0 / (rest - static_cast<double>(whole));
  }
  return floordiv(extent * Dim(p[0]), q[0]);
}

struct ResizeGeometry {
  Shape extents;               // of the output, NCHW order
  std::vector<double> scales;  // empty when sizes are given
  std::vector<double> roi;     // empty unless tf_crop_and_resize
};

// One scale for all axes, by which elements are sampled too: where an extent is rounded it is not the extents' ratio.
Status apply_aspect_policy(const std::string& policy, const Shape& input, const std::vector<size_t>& axes,
                           ResizeGeometry* g) {
  Shape* const extents = &g->extents;
  double scale = 0;
  for (const size_t axis : axes) {
    const auto from = input[axis].constant();
    const auto to = (*extents)[axis].constant();
    if (!from || !to || *from == 0)
      return unsupported(
          str_cat("operand 'sizes' must be known when compiling, and the extents (--shape): "
                  "keep_aspect_ratio_policy is '",
                  policy, "'"));
    const double ratio = static_cast<double>(*to) / static_cast<double>(*from);
    if (scale == 0) scale = ratio;
    scale = policy == "not_larger" ? std::min(scale, ratio) : std::max(scale, ratio);
  }
  g->scales.assign(input.size(), 1.0);
  for (const size_t axis : axes) {
    g->scales[axis] = scale;
    (*extents)[axis] = static_cast<int64_t>(std::floor(scale * static_cast<double>(*input[axis].constant()) + 0.5));
  }
  return {};
}

// Scales that the graph computes from extents: numbers, or those that give a whole extent, as 224 / H of H does. Sets
// the extents of all axes and, unless all come out whole, the scales.
bool computed_scales(const Graph& graph, ValueId operand, const std::vector<size_t>& axes, ResizeGeometry* g) {
  const auto fractions = fractions_of(graph, operand, true);
  if (!fractions || fractions->size() != axes.size()) return false;
  const Shape input = g->extents;
  std::vector<double> scales(input.size(), 1.0);
  bool whole = true, numbers = true;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto& [numerator, denominator] = (*fractions)[k];
    Dim& extent = g->extents[axes[k]];
    const auto n = numerator.constant(), d = denominator.constant();
    if (n && d && *n > 0 && *d > 0) {
      scales[axes[k]] = static_cast<float>(static_cast<double>(*n) / static_cast<double>(*d));
      extent = scaled_extent(extent, scales[axes[k]]);
      whole &= *n % *d == 0 || (input[axes[k]].constant() && *input[axes[k]].constant() * *n % *d == 0);
    } else if (denominator == extent) {
      extent = numerator;
      numbers = false;
    } else {
      return false;
    }
  }
  if (!whole && !numbers) return false;
  if (numbers) g->scales = std::move(scales);
  return true;
}

Result<ResizeGeometry> resize_geometry(InferContext& ctx) {
  const Attributes& a = ctx.attributes();
  const Shape input = input_extents(ctx);
  ResizeGeometry g;
  g.extents = input;
  AIPU_ASSIGN_OR_RETURN(const auto axes, listed_axes(ctx, input.size()));

  if (a.has("roi")) {
    g.roi = a.floats("roi");
  } else if (a.s("coordinate_transformation_mode") == "tf_crop_and_resize" && !ctx.has_input(kRunRoi)) {
    if (!has_elements(ctx, kRoi)) return invalid_model("tf_crop_and_resize needs a roi");
    AIPU_ASSIGN_OR_RETURN(const auto box, constant_floats(ctx, kRoi, "roi"));
    if (box.size() != 2 * axes.size())
      return invalid_model(str_cat("roi has ", box.size(), " elements, expected ", 2 * axes.size()));
    g.roi.assign(2 * input.size(), 0.0);
    std::fill(g.roi.begin() + static_cast<std::ptrdiff_t>(input.size()), g.roi.end(), 1.0);
    for (size_t k = 0; k < axes.size(); ++k) {
      g.roi[axes[k]] = box[k];
      g.roi[input.size() + axes[k]] = box[axes.size() + k];
    }
  }

  if (a.has("sizes")) {
    g.extents = a.shape("sizes");
    if (a.has("scales")) g.scales = a.floats("scales");
    if (g.extents.size() != input.size())
      return invalid_model(str_cat("sizes has ", g.extents.size(), " elements, expected ", input.size()));
    return g;
  }
  if (has_elements(ctx, kScales) == has_elements(ctx, kSizes))
    return invalid_model("exactly one of scales and sizes must be given");
  if (has_elements(ctx, kSizes)) {
    AIPU_ASSIGN_OR_RETURN(const Shape sizes, shape_operand(ctx, kSizes, "sizes"));
    if (sizes.size() != axes.size())
      return invalid_model(str_cat("sizes has ", sizes.size(), " elements, expected ", axes.size()));
    for (size_t k = 0; k < axes.size(); ++k) g.extents[axes[k]] = sizes[k];
    const std::string& policy = a.s("keep_aspect_ratio_policy");
    if (policy != "stretch") AIPU_RETURN_IF_ERROR(apply_aspect_policy(policy, input, axes, &g));
    return g;
  }
  const ValueId operand = ctx.node().inputs[kScales];
  if (g.roi.empty() && ctx.graph().constant(operand) == nullptr && computed_scales(ctx.graph(), operand, axes, &g))
    return g;
  AIPU_ASSIGN_OR_RETURN(const auto scales, constant_floats(ctx, kScales, "scales"));
  if (scales.size() != axes.size())
    return invalid_model(str_cat("scales has ", scales.size(), " elements, expected ", axes.size()));
  g.scales.assign(input.size(), 1.0);
  for (size_t k = 0; k < axes.size(); ++k) {
    if (!(scales[k] > 0) || scales[k] > 65536) return invalid_model(str_cat("scale ", scales[k], " on axis ", axes[k]));
    g.scales[axes[k]] = scales[k];
    // Cropping resizes the box, not the whole axis.
    double span = 1;
    if (!g.roi.empty()) span = g.roi[input.size() + axes[k]] - g.roi[axes[k]];
    if (span == 1) {
      g.extents[axes[k]] = scaled_extent(input[axes[k]], scales[k]);
    } else if (const auto extent = input[axes[k]].constant()) {
      g.extents[axes[k]] = static_cast<int64_t>(std::floor(static_cast<double>(*extent) * span * scales[k]));
    } else {
      return unsupported("a crop by roi with scales needs static extents; give --shape");
    }
  }
  return g;
}

Status infer_resize(InferContext& ctx) {
  AIPU_ASSIGN_OR_RETURN(ResizeGeometry g, resize_geometry(ctx));
  for (const auto& [input, expected] :
       {std::pair<size_t, size_t>(kRunScales, 1), std::pair<size_t, size_t>(kRunRoi, 2)}) {
    if (ctx.has_input(input) && ctx.input(input).shape != Shape{Dim(static_cast<int64_t>(expected * g.extents.size()))})
      return invalid_model(str_cat("operand ", input, " must have ", expected * g.extents.size(), " elements, found ",
                                   ctx.input(input).text()));
  }
  for (const Dim& extent : g.extents) {
    if (extent.constant_or(0) < 0) return invalid_model(str_cat("sizes has element ", extent.text()));
  }
  if (channels_last(ctx.attributes()) && g.extents.size() > 2)
    std::rotate(g.extents.begin() + 1, g.extents.begin() + 2, g.extents.end());
  set_output(ctx, 0, ctx.input(0).dtype, std::move(g.extents));
  return {};
}

Status verify_resize(const Graph&, const Node& node) {
  AIPU_RETURN_IF_ERROR(expect_choice(node, "mode", {"nearest", "linear", "cubic"}));
  AIPU_RETURN_IF_ERROR(
      expect_choice(node, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  AIPU_RETURN_IF_ERROR(expect_choice(node, "keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"}));
  return expect_choice(node, "coordinate_transformation_mode",
                       {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                        "tf_half_pixel_for_nn", "tf_crop_and_resize"});
}

// Axes that keep their extents are apart, unless a part of the image is cut out.
std::optional<AxisMap> resize_axes(const Graph& graph, const Node& node) {
  if (!node.attributes.has("sizes")) return std::nullopt;
  AxisMapBuilder map(graph, node);
  const bool crops =
      node.attributes.s("coordinate_transformation_mode") == "tf_crop_and_resize" || node.inputs.size() > kRunScales;
  map.link_leading(0, 0, map.output_rank(0));
  for (size_t axis = 0; axis < map.output_rank(0); ++axis)
    map.apart(0, axis, !crops && map.input_extent(0, axis) == map.output_extent(0, axis));
  return map.take();
}

OpDef resize_op() {
  OpDef def;
  def.name = "Resize";
  def.inputs = {operand("X", kNumeric),
                optional_operand("roi", "f"),
                optional_operand("scales", "f"),
                optional_operand("sizes", kIndex),
                optional_operand("run_scales", "f"),
                optional_operand("run_roi", "f")};
  def.outputs = {operand("Y", kNumeric)};
  def.attributes = {attr::s("coordinate_transformation_mode", "half_pixel"),
                    attr::f("cubic_coeff_a", -0.75),
                    attr::i("exclude_outside", 0),
                    attr::f("extrapolation_value", 0.0),
                    attr::s("mode", "nearest"),
                    attr::s("nearest_mode", "round_prefer_floor"),
                    attr::i("antialias", 0),
                    attr::s("keep_aspect_ratio_policy", "stretch"),
                    attr::optional("axes", AttributeKind::kInts),
                    attr::own_optional("sizes", AttributeKind::kShape),
                    attr::own_optional("scales", AttributeKind::kFloats),
                    attr::own_optional("roi", AttributeKind::kFloats),
                    attr::layout()};
  def.traits = kSpatial | kTakesRounded;
  def.infer = infer_resize;
  def.verify = verify_resize;
  def.resolve = resolve_with({kRoi, kScales, kSizes}, [](InferContext& ctx, Attributes* attributes) -> Result<bool> {
    AIPU_ASSIGN_OR_RETURN(ResizeGeometry g, resize_geometry(ctx));
    attributes->set("sizes", std::move(g.extents));
    if (!g.scales.empty()) attributes->set("scales", std::move(g.scales));
    if (!g.roi.empty()) attributes->set("roi", std::move(g.roi));
    attributes->erase("axes");
    return true;
  });
  def.axes = resize_axes;
  return def;
}

}  // namespace

bool resize_scales_known(const Graph& graph, ValueId x, ValueId scales, const std::vector<size_t>& axes) {
  if (graph.constant(scales) != nullptr) return true;
  ResizeGeometry g;
  g.extents = graph.type(x).shape;
  return computed_scales(graph, scales, axes, &g);
}

std::vector<OpDef> resize_ops() { return {resize_op()}; }

}  // namespace aipu::graph
