#include "graph/passes/quantized_operators.h"

#include <algorithm>
#include <set>

#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

// One node, replaced by others; remembers the first error so that expressions stay readable.
class Expansion {
 public:
  Expansion(Graph& graph, NodeId id)
      : graph_(graph),
        id_(id),
        inputs_(std::as_const(graph).node(id).inputs),
        origins_(std::as_const(graph).node(id).origins),
        name_(graph.value(std::as_const(graph).node(id).outputs[0]).name) {}

  ValueId input(size_t k) const { return k < inputs_.size() ? inputs_[k] : ValueId(); }
  size_t input_count() const { return inputs_.size(); }
  const Attributes& attributes() const { return std::as_const(graph_).node(id_).attributes; }
  int rank(ValueId value) const { return graph_.type(value).rank(); }

  ValueId op(const std::string& op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
    if (!status_.ok()) return {};
    auto result = graph_.emit(op, std::move(attributes), std::move(inputs), origins_, str_cat(name_, '.', op));
    if (result.ok()) return *result;
    status_ = std::move(result).status();
    return {};
  }
  // Operands k, k + 1, k + 2: a tensor, its scale and its zero point, per tensor or along `axis`.
  ValueId dequantized(size_t k, int64_t axis = 0) {
    Attributes attributes;
    attributes.set("axis", axis);
    return op("DequantizeLinear", {input(k), flat(input(k + 1)), flat(input(k + 2))}, std::move(attributes));
  }
  // The int32 operand k in units of the product of two scales.
  ValueId dequantized_bias(size_t k, size_t left_scale, size_t right_scale) {
    const std::vector<double> left = constant_elements(left_scale), right = constant_elements(right_scale);
    if (left.size() == 1 && !right.empty()) {
      std::vector<double> scales;
      for (const double scale : right) scales.push_back(static_cast<float>(left[0]) * static_cast<float>(scale));
      std::vector<int64_t> shape;
      if (scales.size() > 1) shape.push_back(static_cast<int64_t>(scales.size()));
      return op("DequantizeLinear",
                {input(k), graph_.add_constant(float_constant(DType::kF32, std::move(shape), scales), "scale")},
                last_axis(input(k)));
    }
    Attributes to;
    to.set("to", DType::kF32);
    return op("Mul", {op("Cast", {input(k)}, std::move(to)), op("Mul", {input(left_scale), input(right_scale)})});
  }
  // To the scale and zero point at k and k + 1.
  Result<bool> finish(ValueId value, size_t k) {
    Attributes attributes;
    const DType dtype = graph_.type(std::as_const(graph_).node(id_).outputs[0]).dtype;
    if (!input(k + 1).valid()) attributes.set("output_dtype", dtype);
    return replace(op("QuantizeLinear", {value, flat(input(k)), flat(input(k + 1))}, std::move(attributes)));
  }
  Result<bool> replace(ValueId value) {
    if (!status_.ok()) return Status(status_).context(str_cat("node ", origins_text(origins_)));
    AIPU_RETURN_IF_ERROR(graph_.replace_uses(std::as_const(graph_).node(id_).outputs[0], value));
    graph_.erase_node(id_);
    return true;
  }

 private:
  std::vector<double> constant_elements(size_t k) const {
    const Constant* constant = graph_.constant(input(k));
    return constant != nullptr ? constant->to_doubles() : std::vector<double>();
  }
  Attributes last_axis(ValueId value) const {
    Attributes attributes;
    attributes.set("axis", static_cast<int64_t>(std::max(rank(value) - 1, 0)));
    return attributes;
  }
  // One element becomes a scalar.
  ValueId flat(ValueId value) {
    if (!status_.ok() || !value.valid() || rank(value) == 0 || element_count(graph_.type(value).shape).constant() != 1)
      return value;
    auto result = reshaped(graph_, value, {}, origins_);
    if (result.ok()) return *result;
    status_ = std::move(result).status();
    return {};
  }

  Graph& graph_;
  NodeId id_;
  std::vector<ValueId> inputs_;
  OriginSet origins_;
  std::string name_;
  Status status_;
};

Result<bool> expand_concat(Expansion& e) {
  std::vector<ValueId> parts;
  for (size_t k = 2; k + 2 < e.input_count(); k += 3) parts.push_back(e.dequantized(k));
  Attributes attributes;
  attributes.set("axis", e.attributes().i("axis"));
  return e.finish(e.op("Concat", std::move(parts), std::move(attributes)), 0);
}

Result<bool> expand_gemm(Expansion& e) {
  Attributes attributes;
  for (const char* name : {"transA", "transB"}) attributes.set(name, e.attributes().i(name));
  attributes.set("alpha", e.attributes().f("alpha"));
  const int64_t axis = e.attributes().i("transB") != 0 ? 0 : 1;
  std::vector<ValueId> operands = {e.dequantized(0), e.dequantized(3, axis)};
  if (e.input(6).valid()) {
    // In units of alpha * a_scale * b_scale; Gemm multiplies the product alone by alpha.
    if (e.attributes().f("alpha") != 1) return false;
    operands.push_back(e.dequantized_bias(6, 1, 4));
  }
  const ValueId product = e.op("Gemm", std::move(operands), std::move(attributes));
  return e.input(7).valid() ? e.finish(product, 7) : e.replace(product);
}

Result<bool> expand(Graph& graph, NodeId id, const std::string& op) {
  Expansion e(graph, id);
  if (op == "QLinearMul") return e.finish(e.op("Mul", {e.dequantized(0), e.dequantized(3)}), 6);
  if (op == "QLinearSigmoid") return e.finish(e.op("Sigmoid", {e.dequantized(0)}), 3);
  if (op == "QLinearLeakyRelu") {
    Attributes attributes;
    attributes.set("alpha", e.attributes().f("alpha"));
    return e.finish(e.op("LeakyRelu", {e.dequantized(0)}, std::move(attributes)), 3);
  }
  if (op == "QLinearGlobalAveragePool") {
    if (e.attributes().i("channels_last") != 0) return false;
    return e.finish(e.op("GlobalAveragePool", {e.dequantized(0)}), 3);
  }
  if (op == "QLinearConcat") return expand_concat(e);
  if (op == "QGemm") return expand_gemm(e);
  return false;
}

}  // namespace

size_t moved_operands(const Node& node) {
  static const std::set<std::string, std::less<>> moves = {
      "Reshape", "Flatten",      "Squeeze",      "Unsqueeze", "Transpose", "Slice", "Identity",
      "Split",   "DepthToSpace", "SpaceToDepth", "Expand",    "Tile",      "Gather"};
  if (moves.contains(node.op)) return 1;
  if (node.op == "Concat") return node.inputs.size();
  if (node.op == "MaxPool" && (node.outputs.size() < 2 || !node.outputs[1].valid())) return 1;
  return 0;
}

Result<int> expand_quantized_operators(Graph& graph) {
  constexpr std::string_view kDomain = "com.microsoft::";
  int count = 0;
  for (const NodeId id : graph.topological_order()) {
    const std::string op = std::as_const(graph).node(id).op;
    if (!op.starts_with(kDomain)) continue;
    AIPU_ASSIGN_OR_RETURN(const bool expanded, expand(graph, id, op.substr(kDomain.size())));
    count += expanded ? 1 : 0;
  }
  return count;
}

}  // namespace aipu::graph
