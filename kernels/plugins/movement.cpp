// Ops that only move data: views, strided copies, concatenation, splitting, padding.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/strided_map.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;
using graph::ValueId;

Dim bytes_of(DType dtype) { return static_cast<int64_t>(dtype_bytes(dtype)); }

Dim product(const Shape& shape, size_t begin, size_t end) {
  Dim result = 1;
  for (size_t i = begin; i < end; ++i) result *= shape[i];
  return result;
}

size_t axis_of(const Node& node, size_t rank, int64_t otherwise = 0) {
  const int64_t axis = node.attributes.i_or("axis", otherwise);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

// A copy between two contiguous tensors that agree in everything but the extent of one axis: `extent` slices starting
// at `from` and `to`.
struct AxisCopy {
  TensorRef destination, source;
  DType dtype;
  Shape shape;  // of the part that is copied
  size_t axis;
  Dim destination_extent, destination_start, source_extent, source_start;
};

// Blocks of at least this many bytes are copied by the dma engine, shorter ones by a vector kernel.
constexpr int64_t kMinimumDmaBytes = 32;

// So many that a loop over samples around them costs nothing.
constexpr int64_t kManyRows = 256;

Status copy_along_axis(SetupContext& context, const AxisCopy& copy) {
  const Dim inner = product(copy.shape, copy.axis + 1, copy.shape.size());
  const Dim width = copy.shape[copy.axis] * inner * bytes_of(copy.dtype);
  const Dim outer = product(copy.shape, 0, copy.axis);
  if (outer == Dim(1) || width.lower_bound().value_or(0) >= kMinimumDmaBytes) {
    CopyLaunch launch;
    launch.destination = {copy.destination, copy.destination_start * inner * bytes_of(copy.dtype)};
    launch.source = {copy.source, copy.source_start * inner * bytes_of(copy.dtype)};
    launch.width_bytes = width;
    launch.times = outer;
    launch.destination_stride_bytes = copy.destination_extent * inner * bytes_of(copy.dtype);
    launch.source_stride_bytes = copy.source_extent * inner * bytes_of(copy.dtype);
    context.copy(std::move(launch));
    return {};
  }
  StridedMap map;
  const Dim from = copy.source_extent * inner, to = copy.destination_extent * inner;
  map.dims = {outer, copy.shape[copy.axis] * inner};
  map.inputs = {{copy.source, copy.dtype, copy.source_start * inner, {from, 1}}};
  map.output = {copy.destination, copy.dtype, copy.destination_start * inner, {to, 1}};
  const Dim rows = copy.axis > 0 ? product(copy.shape, 1, copy.axis) : Dim(0);
  if (!copy.shape[0].is_constant() && rows.constant_or(0) >= kManyRows) {
    map.keeps_samples = true;
    map.dims = {copy.shape[0], rows, map.dims.back()};
    map.inputs[0].strides = {rows * from, from, 1};
    map.output.strides = {rows * to, to, 1};
  }
  return launch_strided_map(context, std::move(map));
}

class ViewPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "view"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"Reshape",  "Flatten", "Squeeze",           "Unsqueeze",
                                                "Identity", "BitCast", "aipu::PackedBytes", "aipu::FromPackedBytes"};
    return kOps;
  }
  int score() const override { return 30; }
  Status setup(SetupContext& context) const override {
    const Node& node = context.anchor();
    const graph::TensorType& x = context.graph().type(node.inputs[0]);
    const graph::TensorType& y = context.graph().type(node.outputs[0]);
    const Dim count = graph::element_count(y.shape);
    if (graph::needed(node) == Dim(1) || graph::element_count(x.shape) == count || x.dtype == DType::kString) {
      context.view(node.outputs[0], node.inputs[0]);
      return {};
    }
    // In a run that leaves this out, what it gives is read and may be larger than what it is given: no view then.
    StridedMap map;
    map.dims = {count};
    map.inputs = {{context.value(node.inputs[0]), x.dtype, 0, {1}}};
    map.output = {context.value(node.outputs[0]), y.dtype, 0, {1}};
    return launch_strided_map(context, std::move(map));
  }
};

class StridedCopyPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "strided_copy"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"Transpose", "Slice", "Expand", "Tile", "DepthToSpace", "SpaceToDepth"};
    return kOps;
  }
  Status check(const Graph& graph, const Node& node) const override {
    if (graph.type(node.inputs[0]).dtype == DType::kString) return unsupported("string tensors are not supported");
    if (node.op == "Slice" && !node.attributes.has("starts")) return unsupported("the slice's bounds are not resolved");
    if (node.op == "Tile" && !node.attributes.has("repeats")) return unsupported("the repeats are not resolved");
    if ((node.op == "DepthToSpace" || node.op == "SpaceToDepth") && node.attributes.s_or("layout", "NCHW") != "NHWC")
      return unsupported("not channels-last");
    return {};
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const graph::TensorType& y = graph.type(node.outputs[0]);
    const std::vector<Dim> in_strides = contiguous_strides(x.shape), out_strides = contiguous_strides(y.shape);
    StridedMap map;
    map.inputs = {{context.value(node.inputs[0]), x.dtype, 0, {}}};
    map.output = {context.value(node.outputs[0]), y.dtype, 0, {}};
    std::vector<Dim>& from = map.inputs[0].strides;
    std::vector<Dim>& to = map.output.strides;
    if (node.op == "Transpose") {
      map.dims = y.shape;
      for (const int64_t axis : node.attributes.ints("perm")) from.push_back(in_strides[static_cast<size_t>(axis)]);
      to = out_strides;
    } else if (node.op == "Slice") {
      const Shape& starts = node.attributes.shape("starts");
      Shape steps;
      for (const int64_t step : node.attributes.ints("steps")) steps.emplace_back(step);
      map.dims = y.shape;
      bool contiguous = true;  // one run of the input: full inner axes below one unit-step axis below extents of 1
      bool inner_full = true;
      for (size_t i = x.shape.size(); i-- > 0;) {
        const bool full = x.shape[i] == y.shape[i] && steps[i] == Dim(1);
        if (!inner_full && !(y.shape[i] == Dim(1))) contiguous = false;
        if (!full && !(steps[i] == Dim(1)) && !(y.shape[i] == Dim(1))) contiguous = false;
        inner_full = inner_full && full;
      }
      for (size_t i = 0; i < x.shape.size(); ++i) {
        map.inputs[0].element_offset += starts[i] * in_strides[i];
        from.push_back(steps[i] * in_strides[i]);
      }
      if (contiguous) {
        context.view(node.outputs[0], node.inputs[0], map.inputs[0].element_offset * bytes_of(x.dtype));
        return {};
      }
      to = out_strides;
    } else if (node.op == "Expand") {
      map.dims = y.shape;
      from = broadcast_strides(x.shape, y.shape);
      to = out_strides;
    } else if (node.op == "Tile") {
      for (size_t i = 0; i < x.shape.size(); ++i) {
        map.dims.push_back(node.attributes.shape("repeats")[i]);
        map.dims.push_back(x.shape[i]);
        from.insert(from.end(), {Dim(0), in_strides[i]});
        to.insert(to.end(), {x.shape[i] * out_strides[i], out_strides[i]});
      }
    } else {
      blocks(node, x.shape, y.shape, &map);
    }
    return launch_strided_map(context, std::move(map));
  }

 private:
  // [N, H, W, (block_h, block_w, C) in some order] <-> [N, H * block_h, W * block_w, C].
  static void blocks(const Node& node, const Shape& x, const Shape& y, StridedMap* map) {
    const bool to_space = node.op == "DepthToSpace";
    const int64_t b = node.attributes.i("blocksize");
    const Shape& deep = to_space ? x : y;
    const Shape& wide = to_space ? y : x;
    const Dim h = deep[1], w = deep[2], c = wide[3];
    const bool crd = node.attributes.s_or("mode", "DCR") == "CRD";
    map->dims = {x[0], h, b, w, b, c};
    const Dim depth = deep[3];
    const std::vector<Dim> deep_strides = {h * w * depth, w * depth,        crd ? Dim(b) : Dim(b) * c,
                                           depth,         crd ? Dim(1) : c, crd ? Dim(b * b) : Dim(1)};
    const std::vector<Dim> wide_strides = {
        h * Dim(b) * w * Dim(b) * c, Dim(b) * w * Dim(b) * c, w * Dim(b) * c, Dim(b) * c, c, 1};
    map->inputs[0].strides = to_space ? deep_strides : wide_strides;
    map->output.strides = to_space ? wide_strides : deep_strides;
  }
};

class ConcatPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "concat"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"Concat", "aipu::CacheUpdate"};
    return kOps;
  }
  Status check(const Graph& graph, const Node& node) const override {
    return graph.type(node.outputs[0]).dtype == DType::kString ? unsupported("string tensors are not supported")
                                                               : Status();
  }
  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& y = graph.type(node.outputs[0]);
    const size_t axis = axis_of(node, y.shape.size());
    if (node.op == "aipu::CacheUpdate") return update(context, y, axis);
    Dim start = 0;
    for (const ValueId input : node.inputs) {
      const Shape& shape = graph.type(input).shape;
      if (!(shape[axis] == Dim(0))) {
        AIPU_RETURN_IF_ERROR(copy_along_axis(context, {context.value(node.outputs[0]), context.value(input), y.dtype,
                                                       shape, axis, y.shape[axis], start, shape[axis], 0}));
      }
      start += shape[axis];
    }
    return {};
  }

 private:
  // Rows are written into a buffer behind those that it has: where past and present are one memory, nothing else moves.
  static Status update(SetupContext& context, const graph::TensorType& y, size_t axis) {
    const Node& node = context.anchor();
    const Shape& added = context.graph().type(node.inputs[1]).shape;
    const Dim at = node.attributes.shape("at")[0];
    context.check(graph::lt(Dim(-1), at), "a cache is filled with {value} rows", at, y.shape[axis]);
    context.check(graph::lt(at + added[axis], y.shape[axis] + Dim(1)), "{value} rows in a cache of {limit}",
                  at + added[axis], y.shape[axis]);
    CopyLaunch copy;
    copy.destination = {context.value(node.outputs[0])};
    copy.source = {context.value(node.inputs[0])};
    copy.width_bytes = graph::element_count(y.shape) * bytes_of(y.dtype);
    context.copy(std::move(copy));
    return copy_along_axis(context, {context.value(node.outputs[0]), context.value(node.inputs[1]), y.dtype, added,
                                     axis, y.shape[axis], at, added[axis], 0});
  }
};

class SplitPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "split"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"Split"};
    return kOps;
  }
  Status check(const Graph& graph, const Node& node) const override {
    return graph.type(node.inputs[0]).dtype == DType::kString ? unsupported("string tensors are not supported")
                                                              : Status();
  }
  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const size_t axis = axis_of(node, x.shape.size());
    const bool contiguous = product(x.shape, 0, axis) == Dim(1);
    const Dim inner = product(x.shape, axis + 1, x.shape.size());
    Dim start = 0;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      // The extent of an output that nobody asked for still moves the start of the next.
      const Dim extent =
          node.attributes.has("split") ? node.attributes.shape("split")[i] : graph.type(node.outputs[i]).shape[axis];
      if (node.outputs[i].valid()) {
        const Shape& shape = graph.type(node.outputs[i]).shape;
        if (contiguous) {
          context.view(node.outputs[i], node.inputs[0], start * inner * bytes_of(x.dtype));
        } else {
          AIPU_RETURN_IF_ERROR(copy_along_axis(context, {context.value(node.outputs[i]), context.value(node.inputs[0]),
                                                         x.dtype, shape, axis, extent, 0, x.shape[axis], start}));
        }
      }
      start += extent;
    }
    context.check(graph::eq(start, x.shape[axis]), "parts of {value} elements in all, of an axis of {limit}", start,
                  x.shape[axis]);
    return {};
  }
};

class PadPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "pad"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"Pad"};
    return kOps;
  }
  Status check(const Graph& graph, const Node& node) const override {
    if (graph.type(node.inputs[0]).dtype == DType::kString) return unsupported("string tensors are not supported");
    if (!node.attributes.has("pads")) return unsupported("the pads are not resolved");
    return {};
  }
  Status setup(SetupContext& context) const override {
    const Node& node = context.anchor();
    return node.attributes.s_or("mode", "constant") == "constant" ? constant(context) : mapped(context);
  }

 private:
  // Fills the output with the value, then copies the input over its place; negative pads crop.
  static Status constant(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const graph::TensorType& y = graph.type(node.outputs[0]);
    const Shape& pads = node.attributes.shape("pads");
    const size_t rank = x.shape.size();
    TensorRef value;
    if (node.inputs.size() > 2 && node.inputs[2].valid()) {
      value = context.value(node.inputs[2]);
    } else {
      value = context.add_constant(graph::Constant::create(y.dtype, {}, std::vector<std::byte>(dtype_bytes(y.dtype))));
    }
    StridedMap fill;
    fill.dims = {graph::element_count(y.shape)};
    fill.inputs = {{value, y.dtype, 0, {0}}};
    fill.output = {context.value(node.outputs[0]), y.dtype, 0, {1}};
    AIPU_RETURN_IF_ERROR(launch_strided_map(context, std::move(fill)));

    const std::vector<Dim> in_strides = contiguous_strides(x.shape), out_strides = contiguous_strides(y.shape);
    StridedMap copy;
    copy.inputs = {{context.value(node.inputs[0]), x.dtype, 0, in_strides}};
    copy.output = {context.value(node.outputs[0]), y.dtype, 0, out_strides};
    for (size_t i = 0; i < rank; ++i) {
      const Dim crop_begin = graph::max(Dim(0) - pads[i], 0), crop_end = graph::max(Dim(0) - pads[rank + i], 0);
      copy.dims.push_back(graph::max(x.shape[i] - crop_begin - crop_end, 0));
      copy.inputs[0].element_offset += crop_begin * in_strides[i];
      copy.output.element_offset += graph::max(pads[i], 0) * out_strides[i];
    }
    const Dim count = graph::element_count(copy.dims);
    if (count == Dim(0)) return {};
    // Where nothing is left to copy, its place may be behind the end.
    const bool may_crop =
        std::any_of(pads.begin(), pads.end(), [](const Dim& pad) { return pad.lower_bound().value_or(-1) < 0; });
    for (Dim* offset : {&copy.inputs[0].element_offset, &copy.output.element_offset}) {
      if (may_crop && count.lower_bound().value_or(0) < 1) *offset = graph::select(graph::eq(count, 0), 0, *offset);
    }
    return launch_strided_map(context, std::move(copy));
  }

  static Status mapped(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const graph::TensorType& y = graph.type(node.outputs[0]);
    const size_t rank = x.shape.size();
    for (size_t i = 0; i < rank; ++i) {
      if (x.shape[i].lower_bound().value_or(0) > 0) continue;
      context.implementation.checks.push_back(
          {graph::max(graph::min(x.shape[i], 1), graph::eq(graph::element_count(y.shape), 0)),
           fmt::format("{}: mode '{}' has nothing to repeat where an axis is empty", graph::origins_text(node.origins),
                       node.attributes.s("mode"))});
    }
    dsl::TemplateParams params;
    params.set("T", raw_dtype(x.dtype)).set("RANK", static_cast<int64_t>(rank)).set("MODE", node.attributes.s("mode"));
    params.set("dim_types",
               dsl::Captured{dsl::CapturedList(rank, {dsl::CapturedType{tir::Type::scalar(DType::kI32)}})});
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("pad.py", "pad", params));
    const Shape& pads = node.attributes.shape("pads");
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("out", context.value(node.outputs[0]))
        .scalar_list("in_dims", x.shape)
        .scalar_list("out_dims", y.shape)
        .scalar_list("pads", {pads.begin(), pads.begin() + static_cast<ptrdiff_t>(rank)});
    return context.launch(std::move(kernel), arguments);
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_view_plugin() { return std::make_unique<ViewPlugin>(); }
std::unique_ptr<OpPlugin> make_strided_copy_plugin() { return std::make_unique<StridedCopyPlugin>(); }
std::unique_ptr<OpPlugin> make_concat_plugin() { return std::make_unique<ConcatPlugin>(); }
std::unique_ptr<OpPlugin> make_split_plugin() { return std::make_unique<SplitPlugin>(); }
std::unique_ptr<OpPlugin> make_pad_plugin() { return std::make_unique<PadPlugin>(); }

}  // namespace aipu::kernels
