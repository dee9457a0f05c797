// lower_precision: products whose right operand is constant multiply bfloat16 or float16 numbers, and what lies between
// such products is stored as these. Sums, and everything within an op, stay float32.
//
//   x ─ Conv(w) ─ Relu ─ Conv(v) ─ Softmax ─ y
//     =>  x ─ Cast{bfloat16} ─ Conv(w') ─ Relu ─ Conv(v') ─ Cast{float32} ─ Softmax ─ y     w', v' = w, v as bfloat16
//
// float16 ends at 65504: what has a constant beyond it stays float32.
//
// Does nothing unless --precision or a rule asks for it. With rules, the first one that fits a name of a node decides
// about this node; --precision about the others.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/retype_products.h"
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
  return retype_products(graph, retyping);
}

}  // namespace aipu::graph
