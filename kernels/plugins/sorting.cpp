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
  Status check(const Graph& graph, const Node& node) const override {
    if (graph.type(node.inputs[0]).dtype == DType::kString) return unsupported("string tensors are not supported");
    return {};
  }
  Status setup(SetupContext& context) const override {
    const Node& node = context.anchor();
    if (node.op == "NonMaxSuppression") return list_kept(context);
    return node.op == "aipu::CountNonMaxSuppression" ? suppression(context) : unique(context);
  }

 private:
  static TensorRef indices(SetupContext& context, const Dim& count) {
    return context.add_workspace(graph::max(count, 1) * Dim(4));
  }

  // Which boxes are kept, and how many.
  static Status suppression(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& boxes = graph.type(node.inputs[0]);
    const graph::Shape& scores = graph.type(node.inputs[1]).shape;
    dsl::TemplateParams params;
    params.set("X", boxes.dtype).set("ACC", accumulator_dtype(boxes.dtype));
    params.set("CENTER", node.attributes.i("center_point_box") != 0);
    const bool vectors = boxes.dtype == DType::kF32;
    params.set("VECTORS", vectors).set("VL", static_cast<int64_t>(context.lanes(DType::kF32)));
    KernelArguments arguments;
    arguments.pointer("all_boxes", context.value(node.inputs[0])).pointer("all_scores", context.value(node.inputs[1]));
    struct Optional {
      const char *has, *types, *parameter;
    };
    constexpr Optional kOptional[] = {{"HAS_LIMIT", "limit_types", "limits[0]"},
                                      {"HAS_IOU", "iou_types", "iou[0]"},
                                      {"HAS_LEAST", "least_types", "least[0]"}};
    for (size_t k = 0; k < 3; ++k) {
      const bool given = has_input(node, k + 2);
      params.set(kOptional[k].has, given)
          .set(kOptional[k].types,
               pointer_types(given ? 1 : 0, given ? graph.type(node.inputs[k + 2]).dtype : DType::kF32));
      if (given) arguments.pointer(kOptional[k].parameter, context.value(node.inputs[k + 2]));
    }
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("sorting.py", "non_max_suppression", params));
    const Dim candidates = scores[2], pairs = scores[0] * scores[1];
    const Dim tecs = graph::max(graph::min(pairs, tec_count()), 1);
    const bool is_read = node.outputs.size() > 1 && node.outputs[1].valid();
    const Dim room = is_read ? graph.type(node.outputs[1]).shape[2] : candidates + 1;
    const TensorRef kept = is_read ? context.value(node.outputs[1]) : indices(context, pairs * room);
    arguments.pointer("all_kept", kept)
        .pointer("heaps", indices(context, candidates * tecs))
        .pointer("all_corners", context.add_workspace(vectors ? graph::max(candidates * tecs, 1) * Dim(20) : Dim(8)))
        .scalars({{"batches", scores[0]}, {"classes", scores[1]}, {"boxes_count", candidates}})
        .scalar("room", room);
    AIPU_RETURN_IF_ERROR(context.launch(std::move(kernel), arguments, tecs));

    AIPU_ASSIGN_OR_RETURN(auto sum, context.kernel("sorting.py", "count_kept", params));
    KernelArguments of_sum;
    of_sum.pointer("kept", kept)
        .pointer("out", context.value(node.outputs[0]))
        .scalar("pairs", pairs)
        .scalar("room", room);
    return context.launch(std::move(sum), of_sum, 1);
  }

  static Status list_kept(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    constexpr size_t kKept = 5;
    const graph::Shape& kept = graph.type(node.inputs[kKept]).shape;
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("sorting.py", "list_kept", {}));
    KernelArguments arguments;
    arguments.pointer("all_kept", context.value(node.inputs[kKept]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars({{"pairs", kept[0] * kept[1]}, {"classes", kept[1]}, {"room", kept[2]}})
        .scalar("rows", graph.type(node.outputs[0]).shape[0]);
    return context.launch(std::move(kernel), arguments, 1);
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
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0])).scalars(view.scalars());
    if (node.op == "aipu::CountUnique") {
      AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("sorting.py", "count_unique", params));
      arguments.pointer("out", context.value(node.outputs[0]));
      for (const char* scratch : {"order", "spare"}) arguments.pointer(scratch, indices(context, view.extent));
      return context.launch(std::move(kernel), arguments, 1);
    }
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("sorting.py", "unique", params));
    const Dim groups = node.attributes.has("axis")
                           ? axis_view(graph.type(node.outputs[0]).shape, node.attributes.i("axis")).extent
                           : graph.type(node.outputs[0]).shape[0];
    // All outputs are written; those that nobody asked for go to workspace.
    const std::pair<const char*, Dim> results[] = {
        {"y", view.outer * groups * view.inner}, {"indices", groups}, {"inverse", view.extent}, {"counts", groups}};
    for (size_t k = 0; k < 4; ++k) {
      const auto& [name, count] = results[k];
      const bool wanted = k < node.outputs.size() && node.outputs[k].valid();
      arguments.pointer(name,
                        wanted ? context.value(node.outputs[k]) : context.add_workspace(graph::max(count, 1) * Dim(8)));
    }
    for (const char* scratch : {"order", "spare", "group", "first"})
      arguments.pointer(scratch, indices(context, view.extent));
    arguments.scalar("groups", groups);
    return context.launch(std::move(kernel), arguments, 1);
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_sorting_plugin() { return std::make_unique<SortingPlugin>(); }

}  // namespace aipu::kernels
