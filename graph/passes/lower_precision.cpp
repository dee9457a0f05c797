// lower_precision: products whose right operand is constant multiply bfloat16 or float16 numbers, and what lies between
// such products is stored as these. Sums, and everything within an op, stay float32.
//
//   x ─ Conv(w) ─ Relu ─ Conv(v) ─ Softmax ─ y
//     =>  x ─ Cast{bfloat16} ─ Conv(w') ─ Relu ─ Conv(v') ─ Cast{float32} ─ Softmax ─ y     w', v' = w, v as bfloat16
//
// Products of two float32 values that are computed keep their types, but where bfloat16 is asked for they may round
// what they multiply (the attribute `multiplies`): attention is faster with it.
//
// float16 ends at 65504: what has a constant beyond it stays float32.
//
// Of LSTM, GRU and RNN with bfloat16 the weights are rounded, and remain float32 numbers.
//
// Does nothing unless --precision or a rule asks for it. With rules, the first one that fits a name of a node decides
// about this node; --precision about the others.
#include <algorithm>
#include <cstring>
#include <span>

#include "graph/ops/multiplies.h"
#include "graph/passes/passes.h"
#include "graph/passes/retype_products.h"
#include "runtime/base/half.h"
#include "runtime/base/pattern.h"

namespace aipu::graph {
namespace {

// The products of a sum that lie side by side in both operands; 0 where they do not.
int64_t neighbours(const Graph& graph, const Node& node) {
  const Constant* weights = graph.constant(node.inputs[1]);
  if (weights == nullptr) return 0;
  const std::vector<int64_t>& shape = weights->shape();
  if (node.op == "Conv") return shape[1];
  if (node.op == "MatMul") return shape.size() == 2 && graph.type(node.inputs[0]).rank() > 1 ? shape[0] : 0;
  if (node.op == "Gemm" && node.attributes.i("transA") == 0) return shape[node.attributes.i("transB") != 0 ? 1 : 0];
  return 0;
}

DType wanted(const Node& node, const PassContext& context) {
  for (const PrecisionRule& rule : context.precision_rules) {
    const bool fits = std::any_of(node.origins.begin(), node.origins.end(),
                                  [&](const Origin& origin) { return fits_pattern(rule.pattern, origin.name); });
    if (fits) return rule.precision;
  }
  return context.precision;
}

// The weights of recurrent layers, which each step reads; all else of these stays float32.
int round_recurrent(Graph& graph, const PassContext& context) {
  int count = 0;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = std::as_const(graph).node(id);
    if ((node.op != "LSTM" && node.op != "GRU" && node.op != "RNN") || wanted(node, context) != DType::kBF16) continue;
    for (const size_t k : {size_t{1}, size_t{2}}) {
      const ValueId value = std::as_const(graph).node(id).inputs[k];
      const Constant* weights = graph.constant(value);
      if (weights == nullptr || weights->dtype() != DType::kF32) continue;
      std::vector<float> rounded(static_cast<size_t>(weights->element_count()));
      std::memcpy(rounded.data(), weights->bytes().data(), rounded.size() * sizeof(float));
      for (float& weight : rounded) weight = f32_from_bf16(bf16_from_f32(weight));
      const ConstantPtr constant = Constant::of<float>(DType::kF32, weights->shape(), std::span<const float>(rounded));
      graph.set_input(id, k, graph.add_constant(constant, graph.value(value).name));
      ++count;
    }
  }
  return count;
}

// Products of two computed values: they may round what they multiply.
int mark_products(Graph& graph, const PassContext& context) {
  int count = 0;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = std::as_const(graph).node(id);
    if (node.op != "MatMul" || may_multiply(node, DType::kBF16) || wanted(node, context) != DType::kBF16) continue;
    const bool computes = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return graph.type(input).dtype == DType::kF32 && graph.constant(input) == nullptr;
    });
    if (!computes) continue;
    graph.node(id).attributes.set(kMultiplies, DType::kBF16);
    ++count;
  }
  return count;
}

}  // namespace

Result<int> lower_precision(Graph& graph, PassContext& context) {
  if (context.precision == DType::kF32 && context.precision_rules.empty()) return 0;
  Retyping retyping;
  retyping.pass = "lower_precision";
  retyping.wanted = [&](const Node& node) { return wanted(node, context); };
  // An instruction multiplies two neighbouring bfloat16 numbers at a time: of an odd number float32 is as fast.
  retyping.is_worth = [&](const Node& node) {
    const int64_t depth = neighbours(graph, node);
    return depth > 0 && (depth % 2 == 0 || wanted(node, context) == DType::kF16);
  };
  AIPU_ASSIGN_OR_RETURN(const int count, retype_products(graph, retyping));
  return count + mark_products(graph, context) + round_recurrent(graph, context);
}

}  // namespace aipu::graph
