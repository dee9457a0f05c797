// Gather*, Scatter*, Compress.
#include <fmt/format.h>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/parts/strided_map.h"
#include "kernels/plugins/plugin_list.h"
#include "runtime/base/fault.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;

constexpr std::string_view kOutside = "index {value} is outside of an axis of {limit} elements";

// What is known when converting of tuples of indices, one into each of `extents`.
Status check_indices(const Graph& graph, const Node& node, const Shape& extents) {
  const graph::Constant* indices = graph.constant(node.inputs[1]);
  if (indices == nullptr || !(graph::needed(node) == Dim(1))) return {};
  const std::vector<int64_t> all = indices->to_int64s();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto limit = extents[i % extents.size()].constant();
    if (limit && (all[i] < -*limit || all[i] >= *limit)) return invalid_model(fault_text(kOutside, all[i], *limit));
  }
  return {};
}

dsl::TemplateParams gather_params(SetupContext& context, DType data, DType index,
                                  const std::string& reduction = "none") {
  dsl::TemplateParams params;
  const DType element = reduction == "none" ? raw_dtype(data) : storage_dtype(data);
  params.set("T", element).set("INDEX", index).set("REDUCTION", reduction).set("VL", context.lanes(element));
  params.set("RANK", 1).set("LENGTH", 1).set("dim_types", scalar_types(1)).set("tuple_types", scalar_types(1));
  params.set("FROM_START", context.anchor().attributes.i_or("from_start", 0) != 0);
  params.set("OUTSIDE", context.fault(std::string(kOutside)));
  return params;
}

Dim product(const Shape& shape, size_t begin, size_t end) {
  Dim result = 1;
  for (size_t i = begin; i < end; ++i) result *= shape[i];
  return result;
}

// The shape of a Scatter's updates; where it depends on symbols, it is checked once they are bound.
void require_updates(SetupContext& context, const Shape& expected) {
  const Shape& found = context.graph().type(context.anchor().inputs[2]).shape;
  for (size_t k = 0; k < expected.size(); ++k) {
    context.check(graph::eq(found[k], expected[k]),
                  fmt::format("axis {} of the updates has {{value}} elements instead of {{limit}}", k), found[k],
                  expected[k]);
  }
}

class GatherPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "gather"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"Gather",          "GatherElements", "GatherND",
                                                "ScatterElements", "ScatterND",      "Compress"};
    return kOps;
  }
  Status check(const Graph& graph, const Node& node) const override {
    if (graph.type(node.inputs[0]).dtype == DType::kString) return unsupported("string tensors are not supported");
    const std::string reduction = node.attributes.s_or("reduction", "none");
    const DType dtype = graph.type(node.inputs[0]).dtype;
    if (reduction != "none" && (dtype == DType::kF16 || dtype == DType::kBF16))
      return unsupported(fmt::format("reduction '{}' of {}", reduction, dtype_name(dtype)));
    return {};
  }

  Status setup(SetupContext& context) const override {
    const Node& node = context.anchor();
    if (node.op == "Gather") return gather(context);
    if (node.op == "GatherElements" || node.op == "ScatterElements") return elements(context);
    if (node.op == "Compress") return compress(context);
    return tuples(context);
  }

 private:
  static Status gather(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& data = graph.type(node.inputs[0]);
    const graph::TensorType& indices = graph.type(node.inputs[1]);
    const AxisView view = axis_view(data.shape, node.attributes.i("axis"));
    // One constant index is a slice.
    const graph::Constant* constant = graph.constant(node.inputs[1]);
    const bool always = graph::needed(node) == Dim(1);
    if (constant != nullptr && constant->element_count() == 1 && view.outer == Dim(1) && always) {
      const int64_t index = constant->to_int64s()[0];
      context.check(graph::lt(index < 0 ? ~index : index, view.extent), std::string(kOutside), index, view.extent);
      const Dim position = index < 0 ? view.extent + Dim(index) : Dim(index);
      context.view(node.outputs[0], node.inputs[0],
                   position * view.inner * Dim(static_cast<int64_t>(dtype_bytes(data.dtype))));
      return {};
    }
    AIPU_RETURN_IF_ERROR(check_indices(graph, node, {view.extent}));
    const Dim count = graph::element_count(indices.shape);
    const dsl::TemplateParams params = gather_params(context, data.dtype, indices.dtype);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("gather.py", "gather", params));
    KernelArguments arguments;
    arguments.pointer("data", context.value(node.inputs[0]))
        .pointer("indices", context.value(node.inputs[1]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars(view.scalars())
        .scalar("count", count);
    return context.launch(
        std::move(kernel), arguments,
        graph::max(graph::min(view.outer * count, graph::ceildiv(view.outer * count * view.inner, 4096)), 1));
  }

  static void copy_data(SetupContext& context) {
    const Node& node = context.anchor();
    const graph::TensorType& data = context.graph().type(node.inputs[0]);
    CopyLaunch copy;
    copy.destination = {context.value(node.outputs[0])};
    copy.source = {context.value(node.inputs[0])};
    copy.width_bytes = graph::element_count(data.shape) * Dim(static_cast<int64_t>(dtype_bytes(data.dtype)));
    context.copy(std::move(copy));
  }

  // What gather_* and scatter_* read, and what they write.
  static KernelArguments operands(const SetupContext& context, bool scatter) {
    const Node& node = context.anchor();
    KernelArguments arguments;
    if (scatter) {
      arguments.pointer("indices", context.value(node.inputs[1])).pointer("updates", context.value(node.inputs[2]));
    } else {
      arguments.pointer("data", context.value(node.inputs[0])).pointer("indices", context.value(node.inputs[1]));
    }
    return arguments.pointer("out", context.value(node.outputs[0]));
  }

  static Status elements(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const bool scatter = node.op == "ScatterElements";
    const graph::TensorType& data = graph.type(node.inputs[0]);
    const graph::TensorType& indices = graph.type(node.inputs[1]);
    const size_t rank = data.shape.size();
    const int64_t attribute = node.attributes.i("axis");
    const auto axis = static_cast<size_t>(attribute < 0 ? attribute + static_cast<int64_t>(rank) : attribute);
    std::vector<Dim> strides = contiguous_strides(data.shape);
    const Dim axis_stride = strides[axis];
    strides[axis] = 0;
    dsl::TemplateParams params =
        gather_params(context, data.dtype, indices.dtype, node.attributes.s_or("reduction", "none"));
    params.set("RANK", static_cast<int64_t>(rank)).set("dim_types", scalar_types(rank));
    AIPU_RETURN_IF_ERROR(check_indices(graph, node, {data.shape[axis]}));
    for (size_t k = 0; k < rank; ++k) {
      if (k == axis || indices.shape[k] == data.shape[k]) continue;
      context.check(graph::lt(indices.shape[k], data.shape[k] + 1),
                    fmt::format("axis {} of the indices has {{value}} elements, that of the data {{limit}}", k),
                    indices.shape[k], data.shape[k]);
    }
    if (scatter) require_updates(context, indices.shape);
    AIPU_ASSIGN_OR_RETURN(auto kernel,
                          context.kernel("gather.py", scatter ? "scatter_elements" : "gather_elements", params));
    if (scatter) copy_data(context);
    KernelArguments arguments = operands(context, scatter);
    arguments.scalar_list("dims", indices.shape)
        .scalar_list("strides", strides)
        .scalars({{"extent", data.shape[axis]}, {"axis_stride", axis_stride}});
    return context.launch(std::move(kernel), arguments,
                          scatter ? Dim(1) : graph::max(graph::ceildiv(graph::element_count(indices.shape), 2048), 1));
  }

  static Status tuples(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const bool scatter = node.op == "ScatterND";
    const graph::TensorType& data = graph.type(node.inputs[0]);
    const graph::TensorType& indices = graph.type(node.inputs[1]);
    const auto length = static_cast<size_t>(indices.shape.back().constant_or(0));
    const auto batch = static_cast<size_t>(node.attributes.i_or("batch_dims", 0));
    const std::vector<Dim> all_strides = contiguous_strides(data.shape);
    const auto begin = static_cast<ptrdiff_t>(batch), end = static_cast<ptrdiff_t>(batch + length);
    const Shape extents(data.shape.begin() + begin, data.shape.begin() + end);
    AIPU_RETURN_IF_ERROR(check_indices(graph, node, extents));
    for (size_t k = 0; k < batch; ++k) {
      context.check(graph::eq(indices.shape[k], data.shape[k]),
                    fmt::format("batch axis {} of the indices has {{value}} elements, that of the data {{limit}}", k),
                    indices.shape[k], data.shape[k]);
    }
    const Dim inner = product(data.shape, batch + length, data.shape.size());
    const Dim batches = product(data.shape, 0, batch);
    const Dim tuple_count = product(indices.shape, batch, indices.shape.size() - 1);
    dsl::TemplateParams params =
        gather_params(context, data.dtype, indices.dtype, node.attributes.s_or("reduction", "none"));
    params.set("LENGTH", static_cast<int64_t>(length)).set("tuple_types", scalar_types(length));
    if (scatter) {
      Shape expected(indices.shape.begin(), indices.shape.end() - 1);
      expected.insert(expected.end(), data.shape.begin() + end, data.shape.end());
      require_updates(context, expected);
    }
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("gather.py", scatter ? "scatter_nd" : "gather_nd", params));
    if (scatter) copy_data(context);
    KernelArguments arguments = operands(context, scatter);
    arguments.scalars({{"tuples", tuple_count}, {"inner", inner}})
        .scalar_list("extents", extents)
        .scalar_list("strides", {all_strides.begin() + begin, all_strides.begin() + end});
    if (!scatter) {
      const Dim batch_stride = product(data.shape, batch, data.shape.size());
      arguments.scalars({{"batches", batches}, {"batch_stride", batch_stride}});
    }
    return context.launch(std::move(kernel), arguments, scatter ? Dim(1) : graph::max(batches * tuple_count, 1));
  }

  static Status compress(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& data = graph.type(node.inputs[0]);
    const graph::TensorType& out = graph.type(node.outputs[0]);
    const bool flat = !node.attributes.has("axis");
    const int64_t axis = node.attributes.i_or("axis", 0);
    AxisView view = flat ? AxisView{1, graph::element_count(data.shape), 1} : axis_view(data.shape, axis);
    const Dim taken = flat ? out.shape[0] : axis_view(out.shape, axis).extent;
    dsl::TemplateParams params = gather_params(context, data.dtype, DType::kI64);
    params.set("BEYOND", context.fault("condition {value} is true, but the axis has {limit} elements"));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("gather.py", "compress", params));
    KernelArguments arguments;
    arguments.pointer("data", context.value(node.inputs[0]))
        .pointer("condition", context.value(node.inputs[1]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars(view.scalars())
        .scalars({{"conditions", graph::element_count(graph.type(node.inputs[1]).shape)}, {"taken", taken}});
    return context.launch(std::move(kernel), arguments, 1);
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_gather_plugin() { return std::make_unique<GatherPlugin>(); }

}  // namespace aipu::kernels
