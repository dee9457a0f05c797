// resolve_shape_operands: the elements of a shape-like operand are known as Dims, so the op keeps them as an attribute
// and lets go of the tensor.
//
//   x: [N,3,H] ─┬───────────────────────── Reshape ─ y          x ─ Reshape{shape=[N,3*H]} ─ y
//               └ Shape ─ Gather ─ Concat ─┘             =>
//
// fold_data: an integer tensor all of whose elements are known numbers becomes a constant, whatever computes it.
//
//   x: [2,3] ─ Shape ─ Gather(0) ─ s                     =>     s = 2
#include <cstring>

#include "graph/ir/op_def.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

ConstantPtr integer_constant(const TensorType& type, const std::vector<Dim>& data) {
  const auto shape = static_shape(type.shape);
  if (!shape) return nullptr;
  const size_t size = dtype_bytes(type.dtype);
  std::vector<std::byte> bytes(data.size() * size);
  for (size_t k = 0; k < data.size(); ++k) {
    const auto element = data[k].constant();
    if (!element) return nullptr;
    std::memcpy(bytes.data() + k * size, &*element, size);  // little endian: the low bytes
  }
  return Constant::create(type.dtype, *shape, std::move(bytes));
}

}  // namespace

Result<int> resolve_shape_operands(Graph& graph, PassContext&) {
  int count = 0;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = std::as_const(graph).node(id);
    const OpDef* def = graph.find_op(node.op);
    if (def == nullptr || def->resolve == nullptr) continue;
    const std::vector<ValueId> before = node.inputs;
    if (Status status = def->resolve(graph, id); !status.ok())
      return std::move(status).context(str_cat("node ", origins_text(node.origins)));
    if (node.inputs != before) ++count;
  }
  if (count != 0) graph.erase_dead_nodes();
  return count;
}

Result<int> fold_data(Graph& graph, PassContext&) {
  int count = 0;
  for (const NodeId id : graph.topological_order()) {
    const std::vector<ValueId> outputs = std::as_const(graph).node(id).outputs;
    for (const ValueId output : outputs) {
      if (!output.valid()) continue;
      const Value& value = std::as_const(graph).value(output);
      // Floats are left to fold_constants: data does not tell -0.0 from 0.0.
      if (!value.data || !is_static(*value.data) || (!is_integer(value.type.dtype) && !is_bool(value.type.dtype)))
        continue;
      ConstantPtr constant = integer_constant(value.type, *value.data);
      if (constant == nullptr || graph.user_count(output) == 0) continue;
      AIPU_RETURN_IF_ERROR(graph.replace_uses(output, graph.add_constant(std::move(constant), value.name)));
      ++count;
    }
  }
  if (count != 0) graph.erase_dead_nodes();
  return count;
}

}  // namespace aipu::graph
