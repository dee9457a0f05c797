// widen_halves: where the target has no products of float16 numbers, but would widen each, products and what lies
// between them compute with float32 from the start. Inputs, outputs and everything else stay float16.
//
//   x ─ Conv(w) ─ Relu ─ Conv(v) ─ Softmax ─ y
//     =>  x ─ Cast{float32} ─ Conv(w') ─ Relu ─ Conv(v') ─ Cast{float16} ─ Softmax ─ y     w', v' = w, v as float32
//
// Nothing is rounded in between then, and nothing becomes infinite.
#include "graph/passes/passes.h"
#include "graph/passes/retype_products.h"

namespace aipu::graph {

Result<int> widen_halves(Graph& graph, PassContext& context) {
  if (!context.widens_halves) return 0;
  Retyping retyping;
  retyping.pass = "widen_halves";
  retyping.from = DType::kF16;
  retyping.wanted = [](const Node&) { return DType::kF32; };
  retyping.is_worth = [](const Node&) { return true; };
  return retype_products(graph, retyping);
}

}  // namespace aipu::graph
