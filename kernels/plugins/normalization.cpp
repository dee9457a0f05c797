// LayerNormalization, RMSNormalization, InstanceNormalization; with the QuantizeLinear behind the first two.
#include <algorithm>

#include "kernels/dsl/stage_parameters.h"
#include "kernels/parts/axis_view.h"
#include "kernels/parts/fusion.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;

Dim product(const Shape& shape, size_t begin, size_t end) {
  Dim result = 1;
  for (size_t i = begin; i < end; ++i) result *= shape[i];
  return result;
}

size_t axis_of(const Node& node, size_t rank) {
  const int64_t axis = node.attributes.i_or("axis", -1);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

// A shape without the extents of 1 that it begins with.
Shape without_ones(Shape shape) {
  shape.erase(shape.begin(), std::find_if(shape.begin(), shape.end(), [](const Dim& d) { return d != Dim(1); }));
  return shape;
}

bool is_float32(const Graph& graph, graph::NodeId node) {
  return graph.type(graph.node(node).outputs[0]).dtype == DType::kF32;
}

// A scale of one number that is 1: none.
bool is_one(const Graph& graph, graph::ValueId value) {
  const graph::Constant* constant = graph.constant(value);
  return constant != nullptr && constant->element_count() == 1 && constant->to_doubles()[0] == 1;
}

// The QuantizeLinear of the whole tensor that the results are for, and nothing else.
graph::NodeId quantisation_behind(const Graph& graph, graph::NodeId anchor) {
  if (graph.node(anchor).op == "InstanceNormalization") return {};
  const auto fused = epilogue_nodes(graph, anchor);
  if (fused.empty() || graph.users(graph.node(anchor).outputs[0]).size() != 1) return {};
  const Node& node = graph.node(fused[0]);
  return node.op == "QuantizeLinear" && dtype_bytes(graph.type(node.outputs[0]).dtype) == 1 ? fused[0]
                                                                                            : graph::NodeId();
}

class NormalizationPlugin final : public SingleOpPlugin {
 public:
  std::string_view name() const override { return "normalization"; }
  std::span<const std::string_view> ops() const override {
    static constexpr std::string_view kOps[] = {"LayerNormalization", "RMSNormalization", "InstanceNormalization"};
    return kOps;
  }
  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget& target) const override {
    AIPU_ASSIGN_OR_RETURN(auto claim, SingleOpPlugin::claim(graph, anchor, target));
    if (claim && is_float32(graph, anchor)) {
      if (const graph::NodeId quantised = quantisation_behind(graph, anchor); quantised.valid())
        claim->nodes.push_back(quantised);
    }
    return claim;
  }
  Status check(const Graph& graph, const Node& node) const override {
    if (node.op == "InstanceNormalization")
      return node.attributes.s_or("layout", "NCHW") == "NHWC" ? Status() : unsupported("not channels-last");
    const Shape& x = graph.type(node.inputs[0]).shape;
    const Shape normalized = without_ones({x.begin() + static_cast<ptrdiff_t>(axis_of(node, x.size())), x.end()});
    for (size_t i = is_one(graph, node.inputs[1]) ? 2 : 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid() && !(without_ones(graph.type(node.inputs[i]).shape) == normalized)) {
        return unsupported("scale or bias that broadcasts over the normalised axes");
      }
    }
    return {};
  }
  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    const graph::TensorType& x = graph.type(node.inputs[0]);
    const bool instance = node.op == "InstanceNormalization";
    const DType accumulator = accumulator_dtype(x.dtype);
    const size_t rank = x.shape.size();
    const size_t axis = instance ? 1 : axis_of(node, rank);
    const Dim outer = product(x.shape, 0, axis);
    const Dim inner = instance ? x.shape[rank - 1] : Dim(1);
    const Dim extent = product(x.shape, axis, instance ? rank - 1 : rank);
    const bool has_scale = instance || !is_one(graph, node.inputs[1]);
    const bool has_bias = node.inputs.size() > 2 && node.inputs[2].valid();
    int statistics = 0;
    while (!instance && static_cast<size_t>(statistics) + 1 < node.outputs.size() &&
           node.outputs[static_cast<size_t>(statistics) + 1].valid())
      ++statistics;
    const int lanes = std::max(2, context.lanes(accumulator));

    dsl::TemplateParams params;
    params.set("X", x.dtype)
        .set("ACC", accumulator)
        .set("VL", lanes)
        .set("INNER_IS_ONE", !instance)
        .set("CENTRE", node.op != "RMSNormalization");
    params.set("HAS_SCALE", has_scale).set("HAS_BIAS", has_bias).set("STATISTICS", statistics).set("UNROLL", 4);
    dsl::set_stage_parameters(context.target(), 0, &params);
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, {}, &params));
    const bool quantised = context.group().nodes.size() > 1;
    // Of NPUs, which run in order, the loops that are short would be two.
    const bool has_room = context.target().vector_registers >= 32 && !dsl::has_staging(context.target());
    params.set("QUANTISED", quantised).set("NV", 1).set("ROWS", has_room ? 4 : 1);
    if (!quantised) {
      // Every pass over an element comes before it is written, so the output may be the input's memory.
      params.set("__no_restrict__", true);
      context.implementation.in_place.emplace_back(node.outputs[0], node.inputs[0]);
    }
    params.set("parameter_types",
               pointer_types((has_scale ? 1 : 0) + (has_bias ? 1 : 0), graph.type(node.inputs[1]).dtype));
    const DType statistic = statistics > 0 ? graph.type(node.outputs[1]).dtype : DType::kF32;
    params.set("S_TYPE", statistic).set("statistic_types", pointer_types(static_cast<size_t>(statistics), statistic));
    params.set("epsilon_type", dsl::Captured{dsl::CapturedType{tir::Type::scalar(accumulator)}});
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("normalization.py", "normalize", params));
    std::vector<KernelArgument> parameters, results;
    if (has_scale) parameters.emplace_back(PointerArgument{context.value(node.inputs[1])});
    if (has_bias) parameters.emplace_back(PointerArgument{context.value(node.inputs[2])});
    for (size_t i = 0; i < static_cast<size_t>(statistics); ++i)
      results.emplace_back(PointerArgument{context.value(node.outputs[i + 1])});
    KernelArguments arguments;
    arguments.pointer("x", context.value(node.inputs[0]))
        .pointer("out", context.value(epilogue.result))
        .list("parameters", parameters)
        .list("statistics", results)
        .list("extras", epilogue.extra_arguments)
        .scalars({{"outer", outer}, {"extent", extent}, {"inner", inner}})
        .real("epsilon", node.attributes.f("epsilon"));
    const Dim shares = instance ? outer * graph::ceildiv(inner, lanes) : outer;
    // Few elements are not worth waking a worker for.
    return context.launch(std::move(kernel), arguments,
                          graph::max(graph::min(shares, graph::ceildiv(outer * extent * inner, 4096)), 1));
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_normalization_plugin() { return std::make_unique<NormalizationPlugin>(); }

}  // namespace aipu::kernels
