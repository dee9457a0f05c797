// Fused elementwise groups: one strided-map kernel for a whole expression.
#include <fmt/format.h>

#include "kernels/parts/elementwise_expression.h"
#include "kernels/parts/quantized_function.h"
#include "kernels/parts/strided_map.h"
#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// The per-axis scale and zero point of (De)QuantizeLinear lie along one axis of the data; everything else broadcasts by
// the usual rule.
std::vector<graph::Dim> operand_strides(const SetupContext& context, ValueId operand, const graph::Shape& space) {
  const Graph& graph = context.graph();
  for (const graph::NodeId id : context.group().nodes) {
    const Node& node = graph.node(id);
    if (node.op != "QuantizeLinear" && node.op != "DequantizeLinear") continue;
    const bool parameter =
        (node.inputs.size() > 1 && node.inputs[1] == operand) || (node.inputs.size() > 2 && node.inputs[2] == operand);
    if (!parameter || graph.type(operand).rank() != 1 ||
        graph::element_count(graph.type(operand).shape) == graph::Dim(1))
      continue;
    int64_t axis = node.attributes.i_or("axis", 1);
    if (axis < 0) axis += static_cast<int64_t>(space.size());
    std::vector<graph::Dim> strides(space.size(), graph::Dim(0));
    strides[static_cast<size_t>(axis)] = 1;
    return strides;
  }
  return broadcast_strides(graph.type(operand).shape, space);
}

class ElementwisePlugin final : public OpPlugin {
 public:
  std::string_view name() const override { return "elementwise"; }

  graph::ClaimResult claim(const Graph& graph, graph::NodeId anchor, const graph::ClaimTarget&) const override {
    if (!is_elementwise_expression(graph, graph.node(anchor))) return std::nullopt;
    AIPU_RETURN_IF_ERROR(check_elementwise(graph, graph.node(anchor)));
    return graph::Claim{anchor, grow_elementwise_group(graph, anchor), 5};
  }

  Status setup(SetupContext& context) const override {
    const Graph& graph = context.graph();
    const bool in_pieces = QuantizedFunction::pays_on(context.target());
    AIPU_ASSIGN_OR_RETURN(FusedExpression fused, fuse_expression(graph, context.group().nodes, {}, false, in_pieces,
                                                                 context.target().native_fma));
    const graph::TensorType& result = graph.type(fused.result);
    StridedMap map;
    map.dims = result.shape;
    map.compute_source = fused.function.source("compute");
    map.functions = fused.functions;
    map.numbers = fused.numbers;
    for (const ValueId operand : fused.operands) {
      MapOperand input{context.value(operand), graph.type(operand).dtype, 0,
                       operand_strides(context, operand, result.shape)};
      if (graph.type(operand).shape == result.shape && dtype_bytes(input.dtype) == dtype_bytes(result.dtype)) {
        context.implementation.in_place.emplace_back(fused.result, operand);
      }
      map.inputs.push_back(std::move(input));
    }
    const std::vector<graph::Dim> nowhere(result.shape.size(), graph::Dim(0));
    for (const graph::ConstantPtr& table : fused.tables)
      map.inputs.push_back({context.add_constant(table), table->dtype(), 0, nowhere, true});
    map.output = {context.value(fused.result), result.dtype, 0, contiguous_strides(result.shape)};
    std::vector<int64_t> faults;
    for (Fault& fault : fused.faults) faults.push_back(context.fault(std::move(fault.message), fault.node));
    return launch_strided_map(context, std::move(map), faults);
  }
};

}  // namespace

std::unique_ptr<OpPlugin> make_elementwise_plugin() { return std::make_unique<ElementwisePlugin>(); }

}  // namespace aipu::kernels
