// NonMaxSuppression and Unique with their counting ops: results whose extent and order the data decides.
#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

bool has_input(const Node& node, size_t i) { return i < node.inputs.size() && node.inputs[i].valid(); }

class SortingPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "sorting"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"aipu::CountNonMaxSuppression", "NonMaxSuppression",
                                                "aipu::CountUnique", "Unique"};
    return kOps;
  }
  std::string check(const Graph& graph, const Node& node) const override {
    if (graph.type(node.inputs[0]).dtype == DType::kString) return "string tensors are not supported";
    return {};
  }
  Status setup(SetupContext& context) const override {
    const Node& node = context.anchor();
    const bool boxes = node.op == "NonMaxSuppression" || node.op == "aipu::CountNonMaxSuppression";
    return boxes ? suppression(context) : unique(context);
  }

 private:
  static PointerArgument pointer(SetupContext& context, graph::ValueId id) { return {context.value(id)}; }
  static PointerArgument indices(SetupContext& context, const Dim& count) {
    return {context.add_workspace(graph::max(count, 1) * Dim(4))};
  }

  static Status suppression(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& boxes = graph.type(node.inputs[0]);
    const graph::Shape& scores = graph.type(node.inputs[1]).shape;
    const bool count = node.op == "aipu::CountNonMaxSuppression";
    dsl::TemplateParams params;
    params.set("X", boxes.dtype).set("ACC", accumulator_dtype(boxes.dtype)).set("COUNT", count);
    params.set("CENTER", node.attributes.i("center_point_box") != 0);
    std::vector<KernelArgument> arguments = {pointer(context, node.inputs[0]), pointer(context, node.inputs[1])};
    constexpr std::pair<const char*, const char*> kOptional[] = {
        {"HAS_LIMIT", "limit_types"}, {"HAS_IOU", "iou_types"}, {"HAS_LEAST", "least_types"}};
    for (size_t k = 0; k < 3; ++k) {
      const bool given = has_input(node, k + 2);
      params.set(kOptional[k].first, given)
          .set(kOptional[k].second,
               pointer_types(given ? 1 : 0, given ? graph.type(node.inputs[k + 2]).dtype : DType::kF32));
      if (given) arguments.emplace_back(pointer(context, node.inputs[k + 2]));
    }
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("sorting.py", "non_max_suppression", params));
    const Dim candidates = scores[2];
    arguments.emplace_back(pointer(context, node.outputs[0]));
    arguments.emplace_back(indices(context, candidates));
    arguments.emplace_back(indices(context, candidates));
    append_scalars({scores[0], scores[1], candidates, count ? Dim(0) : graph.type(node.outputs[0]).shape[0]},
                   &arguments);
    context.launch(std::move(kernel), std::move(arguments), 1);
    return {};
  }

  static Status unique(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    AxisView view{1, graph::element_count(x.shape), 1};
    if (node.attributes.has("axis")) view = axis_view(x.shape, node.attributes.i("axis"));
    dsl::TemplateParams params;
    const DType stored = storage_dtype(x.dtype);
    params.set("X", stored).set("ACC", accumulator_dtype(stored)).set("SORTED", node.attributes.i_or("sorted", 1) != 0);
    std::vector<KernelArgument> arguments = {pointer(context, node.inputs[0])};
    if (node.op == "aipu::CountUnique") {
      AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("sorting.py", "count_unique", params));
      arguments.emplace_back(pointer(context, node.outputs[0]));
      for (int k = 0; k < 2; ++k) arguments.emplace_back(indices(context, view.extent));
      append_scalars({view.outer, view.extent, view.inner}, &arguments);
      context.launch(std::move(kernel), std::move(arguments), 1);
      return {};
    }
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("sorting.py", "unique", params));
    const Dim groups = node.attributes.has("axis")
                           ? axis_view(graph.type(node.outputs[0]).shape, node.attributes.i("axis")).extent
                           : graph.type(node.outputs[0]).shape[0];
    // All outputs are written; those that nobody asked for go to workspace.
    for (size_t k = 0; k < 4; ++k) {
      const bool wanted = k < node.outputs.size() && node.outputs[k].valid();
      if (wanted) {
        arguments.emplace_back(pointer(context, node.outputs[k]));
      } else {
        const Dim count = k == 0 ? view.outer * groups * view.inner : k == 2 ? view.extent : groups;
        arguments.emplace_back(PointerArgument{context.add_workspace(graph::max(count, 1) * Dim(8))});
      }
    }
    for (int k = 0; k < 4; ++k) arguments.emplace_back(indices(context, view.extent));
    append_scalars({view.outer, view.extent, view.inner, groups}, &arguments);
    context.launch(std::move(kernel), std::move(arguments), 1);
    return {};
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_sorting_plugin() { return std::make_unique<SortingPlugin>(); }

}  // namespace aipu::kernels
