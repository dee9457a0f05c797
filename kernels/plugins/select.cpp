// ArgMax, ArgMin, Hardmax, TopK, OneHot, NonZero and what counts for it and for Compress.
#include <fmt/format.h>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;

bool is_arg(const Node& node) { return node.op == "ArgMax" || node.op == "ArgMin"; }

// A look-up of 64-bit constants by what an ArgMax gives, and nothing else: the labels of a classifier.
graph::NodeId labels_behind(const Graph& graph, graph::NodeId anchor) {
  const Node& arg = graph.node(anchor);
  const graph::ValueId places = arg.outputs[0];
  const auto users = graph.users(places);
  if (users.size() != 1 || graph.is_graph_output(places)) return {};
  const Node& node = graph.node(users[0]);
  if (node.op != "Gather" || node.inputs[1] != places || node.inputs[0] == places) return {};
  const graph::TensorType& labels = graph.type(node.inputs[0]);
  // No place is beyond them.
  const Shape& x = graph.type(arg.inputs[0]).shape;
  const auto count = axis_view(x, arg.attributes.i("axis")).extent.constant();
  const bool fits = graph.constant(node.inputs[0]) != nullptr && labels.shape.size() == 1 && count &&
                    labels.dtype == DType::kI64 && *count <= labels.shape[0].constant_or(0);
  return fits ? users[0] : graph::NodeId();
}

bool has_lanes(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI32; }

// How many elements of a row vectors look at together (select.py), if they can.
void set_lanes(const SetupContext& context, DType dtype, const AxisView& view, dsl::TemplateParams* params) {
  const bool side_by_side = view.inner == Dim(1) && has_lanes(dtype) && accumulator_dtype(dtype) == dtype;
  params->set("LANES", side_by_side && context.target().cache_bytes() > 0 ? std::max(2, context.lanes(dtype)) : 0);
}

class SelectPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "select"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"ArgMax", "ArgMin", "Hardmax", "TopK", "OneHot", "aipu::CountNonZero",
                                                "NonZero"};
    return kOps;
  }
  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget& target) const override {
    AIPU_ASSIGN_OR_RETURN(auto claim, SingleOpPlugin::claim(graph, anchor, target));
    if (claim && is_arg(graph.node(anchor))) {
      if (const graph::NodeId labels = labels_behind(graph, anchor); labels.valid()) claim->nodes.push_back(labels);
    }
    return claim;
  }
  Status check(const Graph& graph, const Node& node) const override {
    if (node.op == "OneHot" && graph.type(node.inputs[2]).dtype == DType::kString)
      return unsupported("string tensors are not supported");
    return {};
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const TensorRef first = context.value(node.inputs[0]), result = context.value(node.outputs[0]);
    KernelArguments arguments;
    dsl::TemplateParams params;
    params.set("X", storage_dtype(x.dtype))
        .set("ACC", accumulator_dtype(storage_dtype(x.dtype)))
        .set("FLOATING", is_floating(x.dtype))
        .set("LARGEST", true)
        .set("LAST", false)
        .set("LABELED", false)
        .set("LANES", 0);
    params.set("INDEX", x.dtype).set("T", DType::kU8).set("RANK", 1).set("dim_types", scalar_types(1));
    if (is_arg(node)) return arg_extremum(context);
    if (node.op == "Hardmax") {
      const AxisView view = axis_view(x.shape, node.attributes.i("axis"));
      set_lanes(context, storage_dtype(x.dtype), view, &params);
      AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("select.py", "hardmax", params));
      arguments.pointer("x", first).pointer("out", result).scalars(view.scalars());
      return context.launch(std::move(kernel), arguments, graph::max(view.outer * view.inner, 1));
    }
    if (node.op == "TopK") {
      params.set("LARGEST", node.attributes.i("largest") != 0);
      const AxisView view = axis_view(x.shape, node.attributes.i("axis"));
      // Both outputs are always written; one that nobody asked for goes to workspace.
      std::array<TensorRef, 2> results;
      const Dim k = node.attributes.has("k")
                        ? node.attributes.shape("k")[0]
                        : axis_view(graph.type(node.outputs[0]).shape, node.attributes.i("axis")).extent;
      context.check(graph::select(graph::lt(k, 0), 0, graph::lt(k, view.extent + 1)),
                    "k is {value}, and the axis has {limit} elements", k, view.extent);
      for (size_t i = 0; i < 2; ++i) {
        const bool wanted = i < node.outputs.size() && node.outputs[i].valid();
        results[i] =
            wanted ? context.value(node.outputs[i]) : context.add_workspace(view.outer * k * view.inner * Dim(8));
      }
      set_lanes(context, storage_dtype(x.dtype), view, &params);
      AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("select.py", "top_k", params));
      arguments.pointer("x", first).pointer("values", results[0]).pointer("indices", results[1]);
      arguments.scalars(view.scalars()).scalar("k", k);
      return context.launch(std::move(kernel), arguments, graph::max(view.outer * view.inner, 1));
    }
    if (node.op == "OneHot") {
      const graph::TensorType& values = graph.type(node.inputs[2]);
      const graph::TensorType& out = graph.type(node.outputs[0]);
      params.set("T", raw_dtype(values.dtype)).set("VL", std::max(2, context.lanes(raw_dtype(values.dtype))));
      const AxisView view = axis_view(out.shape, node.attributes.i("axis"));
      AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("select.py", "one_hot", params));
      arguments.pointer("indices", first).pointer("values", context.value(node.inputs[2])).pointer("out", result);
      arguments.scalars({{"outer", view.outer}, {"depth", view.extent}, {"inner", view.inner}});
      return context.launch(std::move(kernel), arguments,
                            graph::max(graph::ceildiv(graph::element_count(out.shape), 4096), 1));
    }
    arguments.pointer("x", first).pointer("out", result).scalar("total", graph::element_count(x.shape));
    if (node.op == "aipu::CountNonZero") {
      AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("select.py", "count_non_zero", params));
      return context.launch(std::move(kernel), arguments, 1);
    }
    params.set("RANK", static_cast<int64_t>(x.shape.size())).set("dim_types", scalar_types(x.shape.size()));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("select.py", "non_zero", params));
    arguments.scalar("count", graph.type(node.outputs[0]).shape[1]).scalar_list("dims", x.shape);
    return context.launch(std::move(kernel), arguments, 1);
  }

 private:
  static Status arg_extremum(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const DType dtype = storage_dtype(x.dtype);
    const AxisView view = axis_view(x.shape, node.attributes.i("axis"));
    const Dim good = graph::select(graph::eq(view.extent, 0), graph::eq(view.outer * view.inner, 0), 1);
    context.check(good, fmt::format("an empty axis has no {} element", node.op == "ArgMax" ? "largest" : "smallest"),
                  view.extent, view.extent);
    const bool labeled = context.group().nodes.size() > 1;
    const TensorRef first = context.value(node.inputs[0]), result = context.value(stored_value(context));
    dsl::TemplateParams params;
    params.set("X", dtype)
        .set("FLOATING", is_floating(x.dtype))
        .set("LARGEST", node.op == "ArgMax")
        .set("LAST", node.attributes.i("select_last_index") != 0)
        .set("LABELED", labeled);
    KernelArguments arguments;
    arguments.pointer("x", first)
        .pointer("labels", labeled ? context.value(graph.node(context.group().nodes.back()).inputs[0]) : first)
        .pointer("out", result);
    const int64_t extent = view.extent.constant_or(0);
    const int lanes = std::max(2, context.lanes(dtype));
    if (has_lanes(dtype) && view.inner == Dim(1) && extent >= 1 && extent <= lanes &&
        context.target().cache_bytes() > 0) {
      params.set("VL", lanes).set("EXTENT", extent);
      AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("short_rows.py", "arg_extremum", params));
      arguments.scalar("rows", view.outer);
      return context.launch(std::move(kernel), arguments,
                            graph::max(graph::ceildiv(view.outer * view.extent, 1 << 14), 1));
    }
    params.set("ACC", accumulator_dtype(dtype)).set("INDEX", x.dtype).set("T", DType::kU8);
    params.set("RANK", 1).set("dim_types", scalar_types(1));
    set_lanes(context, dtype, view, &params);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("select.py", "arg_extremum", params));
    arguments.scalars(view.scalars());
    return context.launch(std::move(kernel), arguments, graph::max(view.outer * view.inner, 1));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_select_plugin() { return std::make_unique<SelectPlugin>(); }

}  // namespace aipu::kernels
