// GridSample, RoiAlign, MaxRoiPool, aipu::DeformColumns over channels-last images; Col2Im.
#include <fmt/format.h>

#include <array>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/spatial.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;

bool has_input(const Node& node, size_t i) { return i < node.inputs.size() && node.inputs[i].valid(); }

// Positions and weights are computed in float32 unless the positions themselves are wider.
DType position_dtype(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

class SamplingPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "sampling"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"GridSample", "RoiAlign", "MaxRoiPool", "aipu::DeformColumns",
                                                "Col2Im"};
    return kOps;
  }
  Status check(const Graph& graph, const Node& node) const override {
    const graph::TensorType& x = graph.type(node.inputs[0]);
    if (node.op == "Col2Im") {
      if (!node.attributes.has("image_shape")) return unsupported("the image's extents are known only at run time");
      if (node.attributes.shape("block_shape").size() > 3) return unsupported("images of more than three dimensions");
      return {};
    }
    if (node.attributes.s_or("layout", "NCHW") != "NHWC")
      return unsupported("not channels-last (the layout pass is disabled?)");
    if (node.op == "GridSample") {
      if (x.shape.size() > 5) return unsupported("images of more than three dimensions");
      if (node.attributes.s("mode") != "nearest" && !is_floating(x.dtype))
        return unsupported("interpolation of an integer tensor");
    }
    return {};
  }

  Status setup(SetupContext& context) const override {
    const Node& node = context.anchor();
    if (node.op == "GridSample") return grid_sample(context);
    if (node.op == "aipu::DeformColumns") return deform_columns(context);
    if (node.op == "Col2Im") return col2im(context);
    return regions(context);
  }

 private:
  // Every name that the template mentions; kernels bind those they use.
  static dsl::TemplateParams sampling_params(SetupContext& context, DType x, DType position) {
    const DType accumulator = accumulator_dtype(x);
    dsl::TemplateParams params;
    params.set("X", x).set("ACC", accumulator).set("POS", position).set("VL", std::max(2, context.lanes(accumulator)));
    params.set("PL", std::max(2, context.lanes(position)))
        .set("GRID", position)
        .set("INDEX", DType::kI64)
        .set("D", 1)
        .set("TAPS", 1)
        .set("dim_types", scalar_types(1));
    params.set("MODE", "avg")
        .set("PADDING", "zeros")
        .set("ALIGN", false)
        .set("HALF_PIXEL", false)
        .set("HAS_MASK", false);
    params.set("mask_types", pointer_types(0, x));
    return params;
  }

  // What does not follow from the types must hold when the extents are known: the kernel would read behind the operand.
  static void require_equal(SetupContext& context, const Dim& found, const Dim& expected, std::string_view what) {
    const Dim equal = graph::eq(found, expected);
    if (equal.constant() != 1)
      context.implementation.checks.push_back(
          {equal, fmt::format("{} of {} does not fit the output", what, context.anchor().op)});
  }

  static Status grid_sample(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const graph::TensorType& grid = graph.type(node.inputs[1]);
    const size_t spatial = x.shape.size() - 2;
    const std::string& mode = node.attributes.s("mode");
    dsl::TemplateParams params = sampling_params(context, x.dtype, position_dtype(grid.dtype));
    if (mode == "nearest") {
      const DType raw = raw_dtype(x.dtype);
      params.set("X", raw).set("ACC", raw).set("VL", std::max(2, context.lanes(raw)));
    }
    // Of few channels registers are as narrow as they may be, but not less than the shortest ones.
    if (const auto channels = x.shape.back().constant()) {
      const DType element = mode == "nearest" ? raw_dtype(x.dtype) : accumulator_dtype(x.dtype);
      int64_t lanes = std::max<int64_t>(2, 16 / static_cast<int64_t>(dtype_bytes(element)));
      while (lanes < *channels && lanes < context.lanes(element)) lanes *= 2;
      params.set("VL", std::min<int64_t>(lanes, std::max(2, context.lanes(element))));
    }
    params.set("GRID", grid.dtype)
        .set("D", static_cast<int64_t>(spatial))
        .set("TAPS", mode == "nearest"  ? 1
                     : mode == "linear" ? 2
                                        : 4);
    params.set("dim_types", scalar_types(spatial)).set("MODE", mode).set("PADDING", node.attributes.s("padding_mode"));
    params.set("ALIGN", node.attributes.i("align_corners") != 0);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("sampling.py", "grid_sample", params));
    const Dim points = graph::element_count(Shape(grid.shape.begin() + 1, grid.shape.end() - 1));
    const Shape extents(x.shape.begin() + 1, x.shape.end() - 1);
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("grid", context.value(node.inputs[1]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars({{"batch", x.shape[0]}, {"points", points}, {"channels", x.shape.back()}})
        .scalar("image", graph::element_count(extents))
        .scalar_list("extents", extents);
    require_equal(context, grid.shape[0], x.shape[0], "the grid's batch");
    return context.launch(std::move(kernel), arguments, graph::max(graph::ceildiv(x.shape[0] * points, 16), 1));
  }

  static Status regions(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const Shape& out = graph.type(node.outputs[0]).shape;
    const bool align = node.op == "RoiAlign";
    dsl::TemplateParams params = sampling_params(context, x.dtype, position_dtype(x.dtype));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0])).pointer("rois", context.value(node.inputs[1]));
    if (align) {
      params.set("MODE", node.attributes.s("mode")).set("INDEX", graph.type(node.inputs[2]).dtype);
      params.set("HALF_PIXEL", node.attributes.s("coordinate_transformation_mode") == "half_pixel");
      arguments.pointer("batch_indices", context.value(node.inputs[2]))
          .scalar("ratio", node.attributes.i("sampling_ratio"));
      require_equal(context, graph.type(node.inputs[2]).shape[0], out[0], "batch_indices");
    }
    params.set("OUTSIDE", context.fault("batch index {value} is outside of a batch of {limit} images"));
    if (!align) params.set("NOT_A_NUMBER", context.fault("a batch index is not a number"));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("sampling.py", align ? "roi_align" : "max_roi_pool", params));
    arguments.pointer("out", context.value(node.outputs[0]))
        .scalars({{"images", x.shape[0]}, {"height", x.shape[1]}, {"width", x.shape[2]}, {"channels", x.shape[3]}})
        .scalars({{"regions", out[0]}, {"rows", out[1]}, {"columns", out[2]}})
        .real("scale", node.attributes.f("spatial_scale"));
    return context.launch(std::move(kernel), arguments, graph::max(graph::ceildiv(out[0] * out[1] * out[2], 4), 1));
  }

  static Status deform_columns(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const Shape& offset = graph.type(node.inputs[1]).shape;
    const Shape& out = graph.type(node.outputs[0]).shape;
    const bool masked = has_input(node, 2);
    dsl::TemplateParams params = sampling_params(context, x.dtype, position_dtype(x.dtype));
    params.set("HAS_MASK", masked).set("mask_types", pointer_types(masked ? 1 : 0, x.dtype));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("sampling.py", "deform_columns", params));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0])).pointer("offset", context.value(node.inputs[1]));
    if (masked) arguments.pointer("masks[0]", context.value(node.inputs[2]));
    arguments.pointer("out", context.value(node.outputs[0]))
        .scalars({{"batch", x.shape[0]}, {"channels", x.shape[3]}, {"groups", node.attributes.i("offset_group")}});
    const auto bind = [&](const char* name, size_t i) {
      const auto number = [&](const char* attribute) { return node.attributes.ints(attribute)[i]; };
      SpatialAxis axis{x.shape[1 + i], out[1 + i], number("kernel_shape"), number("strides"), number("dilations")};
      axis.pad_begin = number("pads");
      bind_axis(name, axis, &arguments);
    };
    bind("height", 0);
    bind("width", 1);
    for (size_t operand = 1; operand < (masked ? 3u : 2u); ++operand) {
      const Shape& shape = graph.type(node.inputs[operand]).shape;
      const char* what = operand == 1 ? "offset" : "mask";
      require_equal(context, shape[0], out[0], what);
      require_equal(context, shape[2], out[1], what);
      require_equal(context, shape[3], out[2], what);
    }
    return context.launch(std::move(kernel), arguments, graph::max(graph::ceildiv(offset[0] * out[1] * out[2], 4), 1));
  }

  static Status col2im(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const Shape& out = graph.type(node.outputs[0]).shape;
    const size_t count = out.size() - 2;
    // Of the blocks' convolution, whose output is `blocks` and whose input the image.
    SpatialGeometry geometry;
    std::array<Dim, 3> kernel = {1, 1, 1};
    const auto attribute = [&](const char* name, size_t at, int64_t otherwise) {
      return node.attributes.has(name) ? node.attributes.ints(name)[at] : otherwise;
    };
    Dim blocks = 1;
    for (size_t k = 0; k < count; ++k) {
      SpatialAxis& a = geometry.axes[3 - count + k];
      const Dim& block = kernel[3 - count + k] = node.attributes.shape("block_shape")[k];
      a.in = out[k + 2];
      a.stride = attribute("strides", k, 1);
      a.dilation = attribute("dilations", k, 1);
      const int64_t begin = attribute("pads", k, 0);
      a.pad_begin = begin;
      const Dim room = a.in + Dim(begin + attribute("pads", k + count, 0) - 1) - (block - 1) * Dim(a.dilation);
      a.out = graph::floordiv(room, Dim(a.stride)) + 1;
      blocks *= a.out;
    }
    require_equal(context, x.shape[2], blocks, "the number of blocks");
    AIPU_ASSIGN_OR_RETURN(auto function,
                          context.kernel("sampling.py", "col2im", sampling_params(context, x.dtype, DType::kF32)));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("out", context.value(node.outputs[0]))
        .scalar("images", out[0] * out[1]);
    bind_axis("depth", geometry.axes[0], kernel[0], &arguments);
    bind_axis("height", geometry.axes[1], kernel[1], &arguments);
    bind_axis("width", geometry.axes[2], kernel[2], &arguments);
    return context.launch(std::move(function), arguments,
                          graph::max(graph::ceildiv(graph::element_count(out), 256), 1));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_sampling_plugin() { return std::make_unique<SamplingPlugin>(); }

}  // namespace aipu::kernels
