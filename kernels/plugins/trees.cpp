// Ensembles of decision trees, look-ups of keys, counts of n-grams, probabilities of pairs, radial kernels, norms.
#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

// Walks that go on side by side, of rows through one tree, and of one row through trees: as many as hide the latency of
// their loads and still fit the registers.
constexpr int64_t kWalks = 8;
constexpr int64_t kTrees = 10;
constexpr int64_t kChunk = 12 * kTrees;  // trees after which a row's walks that go on are gathered

class TreesPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "trees"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"aipu::TreeEnsemble", "aipu::FindKey",      "aipu::CouplePairs",
                                                "aipu::CountGrams",   "aipu::RadialKernel", "aipu::DivideByNorm"};
    return kOps;
  }
  Status setup(SetupContext& context) const override {
    const std::string& op = context.anchor().op;
    if (op == "aipu::FindKey") return find_key(context);
    if (op == "aipu::CountGrams") return count_grams(context);
    if (op == "aipu::RadialKernel") return radial_kernel(context);
    if (op == "aipu::DivideByNorm") return divide_by_norm(context);
    return op == "aipu::CouplePairs" ? couple_pairs(context) : tree_ensemble(context);
  }

 private:
  static Status tree_ensemble(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const graph::TensorType& nodes = graph.type(node.inputs[1]);
    const int64_t features = node.attributes.i("features");
    context.check(graph::lt(features - 1, x.shape[1]), "the trees look at {limit} features, the input has {value}",
                  x.shape[1], features);
    const DType real = graph.type(node.outputs[0]).dtype;
    const int64_t bits = node.attributes.i("feature_bits");
    const bool missing = node.attributes.i("missing") != 0;
    // A walk looks at a part of the nodes, which are two words each; copying a row must cost less.
    const bool twice = missing && 8 * features <= nodes.shape[0].constant_or(0);
    const Dim row_bytes = (int64_t{2} << bits) * static_cast<int64_t>(dtype_bytes(real));
    dsl::TemplateParams params;
    params.set("X", storage_dtype(x.dtype))
        .set("WORD", nodes.dtype)
        .set("REAL", real)
        .set("WALKS", kWalks)
        .set("TREES", kTrees)
        .set("CHUNK", kChunk)
        .set("TARGETS", node.attributes.i("targets"))
        .set("AGGREGATE", node.attributes.s("aggregate"))
        .set("FEATURE_BITS", bits)
        .set("FEATURES", features)
        .set("MISSING", missing)
        .set("TWICE", twice)
        .set("LEAVES", node.attributes.s("leaves"));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("trees.py", "tree_ensemble", params));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("nodes", context.value(node.inputs[1]))
        .pointer("roots", context.value(node.inputs[2]))
        .pointer("blocks", context.value(node.inputs[3]))
        .pointer("leaf_targets", context.value(node.inputs[4]))
        .pointer("leaf_weights", context.value(node.inputs[5]))
        .pointer("out", context.value(node.outputs[0]))
        .pointer("work",
                 twice ? context.add_workspace(tec_count() * kWalks * row_bytes) : context.value(node.outputs[0]))
        .scalars({{"rows", x.shape[0]},
                  {"columns", x.shape[1]},
                  {"block_count", graph.type(node.inputs[3]).shape[0] - 1},
                  {"levels", node.attributes.i("levels")}});
    return context.launch(std::move(kernel), arguments, graph::max(graph::ceildiv(x.shape[0], kWalks), 1));
  }

  static Status find_key(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const bool required = node.attributes.i("required") != 0;
    dsl::TemplateParams params;
    params.set("X", storage_dtype(x.dtype))
        .set("FLOATING", is_floating(x.dtype))
        .set("NAN_AT", node.attributes.i("nan_at"))
        .set("REQUIRED", required)
        .set("UNKNOWN", required ? context.fault("element {value} is none of the {limit} categories") : int64_t{0});
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("trees.py", "find_key", params));
    const Dim count = graph::element_count(x.shape);
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("keys", context.value(node.inputs[1]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars({{"count", count}, {"size", graph.type(node.inputs[1]).shape[0]}});
    return context.launch(std::move(kernel), arguments, graph::max(graph::ceildiv(count, 1024), 1));
  }

  static Status count_grams(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const graph::Shape& grams = graph.type(node.inputs[1]).shape;
    dsl::TemplateParams params;
    params.set("X", x.dtype).set("LENGTH", grams[1].constant_or(1));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("trees.py", "count_grams", params));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("grams", context.value(node.inputs[1]))
        .pointer("columns", context.value(node.inputs[2]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars({{"rows", x.shape[0]},
                  {"items", x.shape[1]},
                  {"count", grams[0]},
                  {"size", node.attributes.i("size")},
                  {"skips", node.attributes.i("skips")}});
    return context.launch(std::move(kernel), arguments, graph::max(x.shape[0], 1));
  }

  static Status radial_kernel(SetupContext& context) {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::Shape& x = graph.type(node.inputs[0]).shape;
    const graph::Shape& vectors = graph.type(node.inputs[1]).shape;
    const int lanes = std::max(2, context.lanes(DType::kF32));
    // Four rows times two registers of vectors are eight sums, and the registers that make them fit beside these.
    constexpr int64_t kRows = 4, kWidth = 2, kSingle = 4, kPanel = 256;
    dsl::TemplateParams params;
    params.set("VL", lanes).set("ROWS", kRows).set("WIDTH", kWidth).set("SINGLE", kSingle).set("PANEL", kPanel);
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("radial.py", "radial", params));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("vectors", context.value(node.inputs[1]))
        .pointer("out", context.value(node.outputs[0]))
        .scalars({{"rows", x[0]}, {"columns", vectors[0]}, {"count", vectors[1]}})
        .real("scale", -node.attributes.f("gamma"));
    const Dim units = graph::ceildiv(x[0], kRows) * graph::ceildiv(vectors[1], kPanel);
    const Dim worth = graph::ceildiv(x[0] * vectors[0] * vectors[1], 1 << 16);
    return context.launch(std::move(kernel), arguments, graph::max(graph::min(units, worth), 1));
  }

  static Status divide_by_norm(SetupContext& context) {
    const Node& node = context.anchor();
    const graph::TensorType& x = context.graph().type(node.inputs[0]);
    const AxisView view = axis_view(x.shape, -1);
    dsl::TemplateParams params;
    params.set("X", x.dtype)
        .set("VL", std::max(2, context.lanes(x.dtype)))
        .set("EXTENT", view.extent.constant_or(1))
        .set("NORM", node.attributes.s("norm"));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("short_rows.py", "divide_by_norm", params));
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("out", context.value(node.outputs[0]))
        .scalar("rows", view.outer);
    return context.launch(std::move(kernel), arguments,
                          graph::max(graph::ceildiv(view.outer * view.extent, 1 << 14), 1));
  }

  static Status couple_pairs(SetupContext& context) {
    const Node& node = context.anchor();
    const Dim rows = context.graph().type(node.inputs[0]).shape[0];
    const Dim classes = node.attributes.i("classes");
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("trees.py", "couple_pairs", dsl::TemplateParams()));
    KernelArguments arguments;
    arguments.pointer("p", context.value(node.inputs[0]))
        .pointer("out", context.value(node.outputs[0]))
        .pointer("work", context.add_workspace(tec_count() * classes * (classes + 2) * Dim(4)))
        .scalars({{"rows", rows}, {"classes", classes}});
    return context.launch(std::move(kernel), arguments, graph::max(graph::ceildiv(rows, 16), 1));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_trees_plugin() { return std::make_unique<TreesPlugin>(); }

}  // namespace aipu::kernels
