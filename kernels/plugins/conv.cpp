// Conv and ConvTranspose on channels-last activations with packed weights and a fused epilogue; depthwise convolution has a template of its own.
#include <fmt/format.h>

#include "kernels/fusion.h"
#include "kernels/packing.h"
#include "kernels/plugins/plugin_list.h"
#include "kernels/spatial.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;

// Weights [OC, IC/group, spatial...] as ONNX has them.
struct Weights {
  graph::ValueId value;
  std::vector<int64_t> shape;
  int64_t group, out_channels, group_in, group_out, taps;
  std::vector<int64_t> kernel;
};

std::string read_weights(const Graph& graph, const Node& node, Weights* weights) {
  weights->value = node.inputs[1];
  const auto extents = graph::static_shape(graph.type(node.inputs[1]).shape);
  if (!extents) return fmt::format("weights of symbolic shape {}", graph::shape_text(graph.type(node.inputs[1]).shape));
  const std::vector<int64_t>& shape = weights->shape = *extents;
  weights->group = node.attributes.i_or("group", 1);
  weights->out_channels = shape[0];
  weights->group_in = shape[1];
  weights->group_out = shape[0] / weights->group;
  weights->kernel.assign(shape.begin() + 2, shape.end());
  weights->taps = 1;
  for (const int64_t k : weights->kernel) weights->taps *= k;
  return {};
}

class ConvPlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "conv"; }

  std::optional<graph::Claim> claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&, std::string* why_not) const override {
    const Node& node = graph.node(anchor);
    if (node.op != "Conv") return std::nullopt;
    Weights weights;
    SpatialGeometry geometry;
    std::string reason = read_weights(graph, node, &weights);
    if (reason.empty()) reason = read_geometry(graph, node, weights.kernel, &geometry);
    if (!reason.empty()) {
      if (why_not != nullptr) *why_not = std::move(reason);
      return std::nullopt;
    }
    graph::Claim claim{anchor, {anchor}, 20};
    for (const graph::NodeId id : epilogue_nodes(graph, anchor)) claim.nodes.push_back(id);
    return claim;
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    Weights weights;
    SpatialGeometry geometry;
    if (std::string reason = read_weights(graph, node, &weights); !reason.empty()) return unsupported(std::move(reason));
    if (std::string reason = read_geometry(graph, node, weights.kernel, &geometry); !reason.empty()) return unsupported(std::move(reason));

    const DType stored = graph.type(node.inputs[0]).dtype;
    const DType accumulator = accumulator_dtype(stored);
    dsl::TemplateParams params;
    params.set("X", stored).set("ACC", accumulator).set("USE_FMA", is_floating(accumulator));
    params.set("PREFETCH", static_cast<int64_t>(context.target().vector_bits >= 512 ? 64 : 0));
    AnchorArithmetic arithmetic;
    if (node.inputs.size() > 2) arithmetic.addend = node.inputs[2];
    const bool depthwise = weights.group > 1 && weights.group_in == 1 && weights.group_out == 1;
    return depthwise ? setup_depthwise(context, weights, geometry, accumulator, arithmetic, params)
                     : setup_direct(context, weights, geometry, accumulator, arithmetic, params);
  }

 private:
  static Status setup_direct(SetupContext& context, const Weights& weights, const SpatialGeometry& geometry, DType accumulator, const AnchorArithmetic& arithmetic,
                             dsl::TemplateParams& params) {
    const Node& node = context.anchor();
    const int lanes = context.lanes(accumulator);
    const RegisterTile tile = register_tile(context.target(), geometry.axes[2].out, weights.group_out, lanes);
    const int64_t panel_width = static_cast<int64_t>(tile.vectors) * lanes;
    params.set("VL", lanes).set("NV", tile.vectors).set("HEIGHTS", tile.heights);
    const int64_t group_in = weights.group_in, taps = weights.taps, group_out = weights.group_out;
    AIPU_ASSIGN_OR_RETURN(const TensorRef packed,
                          packed_operand(context, weights.value, accumulator,
                                         {.batches = weights.group, .depth = taps * group_in, .columns = group_out, .panel_width = panel_width, .inner = group_in,
                                          .batch_stride = group_out * group_in * taps, .column_stride = group_in * taps, .inner_stride = taps, .outer_stride = 1}));
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, arithmetic, &params));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("conv.py", "conv", params));
    std::vector<KernelArgument> arguments = {PointerArgument{context.value(node.inputs[0])}, PointerArgument{packed}, PointerArgument{context.value(epilogue.result)}};
    arguments.insert(arguments.end(), epilogue.extra_arguments.begin(), epilogue.extra_arguments.end());
    arguments.emplace_back(ScalarArgument{geometry.batch});
    append_extents(geometry, true, &arguments);
    arguments.emplace_back(ScalarArgument{geometry.channels});
    append_extents(geometry, false, &arguments);
    for (const int64_t scalar : {weights.group, group_in, group_out}) arguments.emplace_back(ScalarArgument{scalar});
    append_window(geometry, &arguments);
    const bool merge = weights.group == 1 && geometry.axes[2].dilation == 1;
    arguments.emplace_back(ScalarArgument{merge ? 1 : geometry.axes[2].kernel});
    arguments.emplace_back(ScalarArgument{merge ? geometry.axes[2].kernel * group_in : group_in});
    const Dim panels = (group_out + panel_width - 1) / panel_width * weights.group;
    context.launch(std::move(kernel), std::move(arguments), geometry.batch * geometry.axes[0].out * geometry.axes[1].out * panels);
    return {};
  }

  static Status setup_depthwise(SetupContext& context, const Weights& weights, const SpatialGeometry& geometry, DType accumulator, const AnchorArithmetic& arithmetic,
                                dsl::TemplateParams& params) {
    const Node& node = context.anchor();
    const int lanes = context.lanes(accumulator);
    const int64_t channels = weights.out_channels, taps = weights.taps;
    params.set("VL", lanes).set("NV", 1);
    // One "panel" as wide as all channels: [taps][channels rounded up to whole vectors].
    const int64_t padded = (channels + lanes - 1) / lanes * lanes;
    AIPU_ASSIGN_OR_RETURN(const TensorRef packed,
                          packed_operand(context, weights.value, accumulator,
                                         {.batches = 1, .depth = taps, .columns = channels, .panel_width = padded, .inner = taps, .batch_stride = 0, .column_stride = taps,
                                          .inner_stride = 1, .outer_stride = 0}));
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, arithmetic, &params));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("depthwise.py", "depthwise", params));
    std::vector<KernelArgument> arguments = {PointerArgument{context.value(node.inputs[0])}, PointerArgument{packed}, PointerArgument{context.value(epilogue.result)}};
    arguments.insert(arguments.end(), epilogue.extra_arguments.begin(), epilogue.extra_arguments.end());
    arguments.emplace_back(ScalarArgument{geometry.batch});
    append_extents(geometry, true, &arguments);
    arguments.emplace_back(ScalarArgument{geometry.channels});
    arguments.emplace_back(ScalarArgument{padded});
    append_extents(geometry, false, &arguments);
    append_window(geometry, &arguments);
    context.launch(std::move(kernel), std::move(arguments), geometry.batch * geometry.axes[0].out * geometry.axes[1].out * Dim((channels + lanes - 1) / lanes));
    return {};
  }
};

// Weights [IC, OC/group, spatial...].
class ConvTransposePlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "conv_transpose"; }

  std::optional<graph::Claim> claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&, std::string* why_not) const override {
    const Node& node = graph.node(anchor);
    if (node.op != "ConvTranspose") return std::nullopt;
    Weights weights;
    SpatialGeometry geometry;
    std::string reason = read(graph, node, &weights, &geometry);
    if (!reason.empty()) {
      if (why_not != nullptr) *why_not = std::move(reason);
      return std::nullopt;
    }
    graph::Claim claim{anchor, {anchor}, 20};
    for (const graph::NodeId id : epilogue_nodes(graph, anchor)) claim.nodes.push_back(id);
    return claim;
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const Node& node = context.anchor();
    Weights weights;
    SpatialGeometry geometry;
    if (std::string reason = read(graph, node, &weights, &geometry); !reason.empty()) return unsupported(std::move(reason));
    const DType stored = graph.type(node.inputs[0]).dtype;
    const DType accumulator = accumulator_dtype(stored);
    const int lanes = context.lanes(accumulator);
    const int vectors = weights.group_out <= lanes ? 1 : 2;
    const int64_t panel_width = static_cast<int64_t>(vectors) * lanes;
    dsl::TemplateParams params;
    params.set("X", stored).set("ACC", accumulator).set("USE_FMA", is_floating(accumulator)).set("VL", lanes).set("NV", vectors);
    const int64_t group_in = weights.group_in, taps = weights.taps, group_out = weights.group_out;
    AIPU_ASSIGN_OR_RETURN(const TensorRef packed,
                          packed_operand(context, weights.value, accumulator,
                                         {.batches = weights.group, .depth = taps * group_in, .columns = group_out, .panel_width = panel_width, .inner = group_in,
                                          .batch_stride = group_in * group_out * taps, .column_stride = taps, .inner_stride = group_out * taps, .outer_stride = 1}));
    AnchorArithmetic arithmetic;
    if (node.inputs.size() > 2) arithmetic.addend = node.inputs[2];
    AIPU_ASSIGN_OR_RETURN(Epilogue epilogue, bind_epilogue(context, node.outputs[0], accumulator, arithmetic, &params));
    AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel("conv_transpose.py", "conv_transpose", params));
    std::vector<KernelArgument> arguments = {PointerArgument{context.value(node.inputs[0])}, PointerArgument{packed}, PointerArgument{context.value(epilogue.result)}};
    arguments.insert(arguments.end(), epilogue.extra_arguments.begin(), epilogue.extra_arguments.end());
    arguments.emplace_back(ScalarArgument{geometry.batch});
    append_extents(geometry, true, &arguments);
    arguments.emplace_back(ScalarArgument{geometry.channels});
    append_extents(geometry, false, &arguments);
    for (const int64_t scalar : {weights.group, group_in, group_out}) arguments.emplace_back(ScalarArgument{scalar});
    append_window(geometry, &arguments);
    const Dim panels = (group_out + panel_width - 1) / panel_width * weights.group;
    context.launch(std::move(kernel), std::move(arguments), geometry.batch * geometry.axes[0].out * geometry.axes[1].out * panels);
    return {};
  }

 private:
  static std::string read(const Graph& graph, const Node& node, Weights* weights, SpatialGeometry* geometry) {
    std::string reason = read_weights(graph, node, weights);
    if (!reason.empty()) return reason;
    weights->group_in = weights->shape[0] / weights->group;
    weights->group_out = weights->shape[1];
    weights->out_channels = weights->group_out * weights->group;
    return read_geometry(graph, node, weights->kernel, geometry);
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_conv_transpose_plugin() { return std::make_unique<ConvTransposePlugin>(); }
std::unique_ptr<OpPlugin> make_conv_plugin() { return std::make_unique<ConvPlugin>(); }

}  // namespace aipu::kernels
