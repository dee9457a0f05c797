#include <algorithm>
#include <optional>

#include "graph/passes/quantized_operators.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

// DequantizeLinear of a constant.
struct Weights {
  NodeId node;
  ConstantPtr elements, scale, zero;  // the zero point may be null
};

class TransposedConvolution {
 public:
  TransposedConvolution(Graph& graph, NodeId id) : graph_(graph), id_(id) {}

  Result<bool> rewrite() {
    const NodeId x = producer_with_op(graph_, input(0), "DequantizeLinear");
    const auto weights = dequantized(input(1));
    if (!x.valid() || !weights || !is_byte(graph_.type(node(x).inputs[0]).dtype)) return false;
    if (!is_byte(weights->elements->dtype()) || !lie_side_by_side(*weights)) return false;
    const std::vector<int64_t>& shape = weights->elements->shape();
    channels_ = shape[1];
    stride_ = shape[2];
    if (weights->scale->element_count() != 1 &&
        (weights->scale->element_count() != channels_ || node(weights->node).attributes.i("axis") != 1))
      return false;
    const auto bias = input(2).valid() ? dequantized(input(2)) : std::nullopt;
    if (input(2).valid() && !bias && graph_.constant(input(2)) == nullptr) return false;

    const ConstantPtr phases = reshape_constant(transpose_constant(*weights->elements, {2, 3, 1, 0}),
                                                {stride_ * stride_ * channels_, shape[0], 1, 1});
    std::vector<ValueId> operands = {input(0)};
    AIPU_ASSIGN_OR_RETURN(const ValueId w, dequantize(phases, *weights));
    operands.push_back(w);
    if (bias) {
      AIPU_ASSIGN_OR_RETURN(const ValueId b, dequantize(repeated(bias->elements), *bias));
      operands.push_back(b);
    } else if (input(2).valid()) {
      operands.push_back(constant(repeated(graph_.value(input(2)).constant)));
    }
    AIPU_ASSIGN_OR_RETURN(const ValueId product, emit("Conv", {}, std::move(operands)));
    Attributes order;
    order.set("blocksize", stride_);
    order.set("mode", std::string("DCR"));
    AIPU_ASSIGN_OR_RETURN(const ValueId result, emit("DepthToSpace", std::move(order), {product}));
    AIPU_RETURN_IF_ERROR(replace_node(graph_, id_, result));
    return true;
  }

 private:
  static bool is_byte(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }
  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  ValueId input(size_t k) const { return k < node(id_).inputs.size() ? node(id_).inputs[k] : ValueId(); }
  ConstantPtr constant_of(ValueId value) const { return value.valid() ? graph_.value(value).constant : nullptr; }
  ValueId constant(ConstantPtr value) { return graph_.add_constant(std::move(value), "phases"); }
  Result<ValueId> emit(std::string op, Attributes attributes, std::vector<ValueId> inputs) {
    const std::string name = str_cat(graph_.value(node(id_).outputs[0]).name, '.', op);
    const OriginSet origins = node(id_).origins;
    return graph_.emit(std::move(op), std::move(attributes), std::move(inputs), origins, name);
  }

  std::optional<Weights> dequantized(ValueId value) const {
    const NodeId id = producer_with_op(graph_, value, "DequantizeLinear");
    if (!id.valid() || node(id).attributes.i_or("block_size", 0) != 0) return std::nullopt;
    const ValueId zero = node(id).inputs.size() > 2 ? node(id).inputs[2] : ValueId();
    Weights result{id, constant_of(node(id).inputs[0]), constant_of(node(id).inputs[1]), constant_of(zero)};
    if (result.elements == nullptr || result.scale == nullptr || (zero.valid() && result.zero == nullptr))
      return std::nullopt;
    return result;
  }

  bool lie_side_by_side(const Weights& weights) const {
    const Attributes& attributes = node(id_).attributes;
    const std::vector<int64_t>& shape = weights.elements->shape();
    if (shape.size() != 4 || attributes.i("group") != 1 || !attributes.has("pads")) return false;
    const auto all_are = [&](std::string_view name, int64_t value) {
      const std::vector<int64_t>& values = attributes.ints(name);
      return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
    };
    return shape[2] == shape[3] && all_are("strides", shape[2]) && all_are("pads", 0) && all_are("dilations", 1) &&
           all_are("output_padding", 0);
  }

  // The channels of a phase, as often as there are phases: DepthToSpace takes them in this order.
  ConstantPtr repeated(const ConstantPtr& once) const {
    if (once == nullptr || once->element_count() != channels_ || once->shape().empty()) return once;
    std::vector<std::byte> bytes;
    for (int64_t k = 0; k < stride_ * stride_; ++k)
      bytes.insert(bytes.end(), once->bytes().begin(), once->bytes().end());
    return Constant::create(once->dtype(), {stride_ * stride_ * channels_}, std::move(bytes));
  }
  Result<ValueId> dequantize(const ConstantPtr& elements, const Weights& as) {
    Attributes attributes;
    attributes.set("axis", int64_t{0});
    std::vector<ValueId> inputs = {constant(elements), constant(repeated(as.scale))};
    if (as.zero != nullptr) inputs.push_back(constant(repeated(as.zero)));
    return emit("DequantizeLinear", std::move(attributes), std::move(inputs));
  }

  Graph& graph_;
  NodeId id_;
  int64_t channels_ = 0, stride_ = 0;
};

}  // namespace

Result<int> transposed_convolutions_as_products(Graph& graph) {
  int count = 0;
  for (const NodeId id : graph.topological_order()) {
    if (std::as_const(graph).node(id).op != "ConvTranspose") continue;
    AIPU_ASSIGN_OR_RETURN(const bool changed, TransposedConvolution(graph, id).rewrite());
    count += changed ? 1 : 0;
  }
  return count;
}

}  // namespace aipu::graph
