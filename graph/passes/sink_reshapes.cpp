// sink_reshapes: a Reshape between an op and what could run in its epilogue, or between two Transposes, moves out of
// the way.
//
//   a ─ Gemm: [N*L,C] ─ Reshape([N,L,C]) ─ Add ─ y         =>  a ─ Gemm ─ Add ─ Reshape([N,L,C]) ─ y
//                       z: [N,L,C] or [C] or one number ┘                 z reshaped to [N*L,C] ┘
//
//   x ─ Transpose(0,3,1,2) ─ Reshape([N,C,H,W] to [N,3,C/3,H,W]) ─ Transpose(q) ─ y
//                        =>  x ─ Reshape([N,H,W,C] to [N,H,W,3,C/3]) ─ Transpose(p, then q) ─ y
//
// The second form wants a Reshape that only splits axes. Reshapes are views: moving them costs nothing.
#include <algorithm>
#include <optional>
#include <set>

#include "graph/ir/op_def.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

class ReshapeSinker {
 public:
  explicit ReshapeSinker(Graph& graph) : graph_(graph) {}

  // True if the node was rewritten.
  Result<bool> visit(NodeId id) {
    const Node& n = node(id);
    if (n.outputs.empty() || !n.outputs[0].valid()) return false;
    if (n.op == "Transpose") return between_transposes(id);
    if (!is_elementwise(n)) return false;
    for (const ValueId input : n.inputs) {
      if (!input.valid()) continue;
      const NodeId reshape = producer_with_op(graph_, input, "Reshape");
      if (!reshape.valid() || !feeds_epilogue(node(reshape).inputs[0])) continue;
      AIPU_ASSIGN_OR_RETURN(const bool changed, below_elementwise(id, node(reshape).inputs[0], shape(input)));
      if (changed) return true;
    }
    return false;
  }

 private:
  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  const Shape& shape(ValueId id) const { return graph_.type(id).shape; }

  // Whatever the axes are: scales along one of them would have to move with it.
  bool is_elementwise(const Node& n) const {
    if (n.op == "QuantizeLinear") return element_count(shape(n.inputs[1])) == Dim(1);
    const OpDef* def = graph_.find_op(n.op);
    return def != nullptr && (def->traits & kElementwise) != 0;
  }

  // Whether elementwise users of the value may become part of its producer's group.
  bool feeds_epilogue(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid()) return false;
    const std::string& op = node(producer).op;
    if (op == "Gemm" || op == "MatMul" || op == "Conv" || op == "aipu::QuantizedMatMul" || op == "aipu::QuantizedConv")
      return true;
    const OpDef* def = graph_.find_op(op);
    return def != nullptr && (def->traits & kElementwise) != 0 && sunk_.contains(producer);
  }

  // The shape an operand of the elementwise op takes beside a first operand of shape `to` instead of `from`.
  std::optional<Shape> operand_shape(const Shape& operand, const Shape& from, const Shape& to) const {
    // First of all, also where it has one element: the result takes the rank of this operand.
    if (operand == from) return to;
    if (element_count(operand) == Dim(1)) return operand.size() <= to.size() ? operand : Shape{};
    if (operand.empty() || from.empty() || to.empty() || !(from.back() == to.back()) ||
        !(operand.back() == from.back()))
      return std::nullopt;
    if (operand.size() > from.size() ||
        !std::all_of(operand.begin(), operand.end() - 1, [](const Dim& d) { return d == Dim(1); }))
      return std::nullopt;
    return Shape{operand.back()};
  }

  // `from` is a copy, as values move when nodes are added.
  Result<bool> below_elementwise(NodeId id, ValueId source, const Shape from) {  // NOLINT(performance-*): see above
    const Shape to = shape(source);
    const std::vector<ValueId> old_inputs = node(id).inputs;
    const std::vector<ValueId> old_outputs = node(id).outputs;
    if (old_outputs.size() != 1 || !(shape(old_outputs[0]) == from)) return false;
    std::vector<Shape> shapes;
    for (const ValueId input : old_inputs) {
      const auto operand = input.valid() ? operand_shape(shape(input), from, to) : Shape{};
      if (!operand) return false;
      shapes.push_back(*operand);
    }
    const std::string op = node(id).op;
    const Attributes attributes = node(id).attributes;
    const OriginSet origins = node(id).origins;
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < old_inputs.size(); ++k) {
      ValueId input = old_inputs[k];
      if (input.valid() && !(shape(input) == shapes[k])) {
        const NodeId reshape = producer_with_op(graph_, input, "Reshape");
        const bool back = reshape.valid() && shape(node(reshape).inputs[0]) == shapes[k];
        if (back) {
          input = node(reshape).inputs[0];
        } else {
          AIPU_ASSIGN_OR_RETURN(input, reshaped(graph_, input, shapes[k], origins));
        }
      }
      inputs.push_back(input);
    }
    AIPU_ASSIGN_OR_RETURN(const NodeId made, graph_.add_node(op, attributes, std::move(inputs),
                                                             {graph_.value(old_outputs[0]).name + ".flat"}, origins));
    const ValueId flat = node(made).outputs[0];
    if (!(shape(flat) == to)) return internal_error(str_cat("sink_reshapes: ", op, " changed its shape"));
    sunk_.insert(made);
    AIPU_ASSIGN_OR_RETURN(const ValueId result, reshaped(graph_, flat, from, origins));
    AIPU_RETURN_IF_ERROR(graph_.replace_uses(old_outputs[0], result));
    graph_.erase_node(id);
    return true;
  }

  // For every extent of `from`, the extents of `to` that it is split into; nullopt if `to` is anything but that.
  std::optional<std::vector<Shape>> split_of(const Shape& from, const Shape& to) const {
    std::vector<Shape> parts(from.size());
    size_t next = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      Dim product = 1;
      do {
        if (next == to.size()) return std::nullopt;
        product = product * to[next];
        parts[i].push_back(to[next++]);
      } while (!(product == from[i]));
    }
    return next == to.size() ? std::optional(parts) : std::nullopt;
  }

  Result<bool> between_transposes(NodeId id) {
    const ValueId middle = node(id).inputs[0];
    const NodeId reshape = producer_with_op(graph_, middle, "Reshape");
    if (!reshape.valid() || !used_once(graph_, middle)) return false;
    const ValueId permuted_value = node(reshape).inputs[0];
    const NodeId above = producer_with_op(graph_, permuted_value, "Transpose");
    if (!above.valid() || !used_once(graph_, permuted_value)) return false;
    const auto parts = split_of(shape(permuted_value), shape(middle));
    if (!parts) return false;
    const Permutation first = node(above).attributes.ints("perm");
    const Permutation second = node(id).attributes.ints("perm");
    const ValueId source = node(above).inputs[0];
    const OriginSet origins = node(id).origins;
    // The source's axes in their order, each split as its image is; then the permutation of the pieces that the first
    // Transpose was.
    const Permutation place = inverse(first);  // of a source axis in the transposed value
    Shape split;
    std::vector<int64_t> begin(first.size());
    for (size_t axis = 0; axis < first.size(); ++axis) {
      begin[axis] = static_cast<int64_t>(split.size());
      const Shape& pieces = (*parts)[static_cast<size_t>(place[axis])];
      split.insert(split.end(), pieces.begin(), pieces.end());
    }
    Permutation pieces_first;
    for (size_t k = 0; k < first.size(); ++k) {
      for (size_t piece = 0; piece < (*parts)[k].size(); ++piece) {
        pieces_first.push_back(begin[static_cast<size_t>(first[k])] + static_cast<int64_t>(piece));
      }
    }
    AIPU_ASSIGN_OR_RETURN(const ValueId view, reshaped(graph_, source, split, origins));
    AIPU_ASSIGN_OR_RETURN(const ValueId result, transposed(graph_, view, compose(pieces_first, second), origins));
    AIPU_RETURN_IF_ERROR(replace_node(graph_, id, result));
    return true;
  }

  Graph& graph_;
  std::set<NodeId> sunk_;
};

}  // namespace

Result<int> sink_reshapes(Graph& graph, PassContext&) {
  int count = 0;
  ReshapeSinker sinker(graph);
  for (const NodeId id : graph.topological_order()) {
    if (std::as_const(graph).node(id).erased) continue;
    const OriginSet origins = std::as_const(graph).node(id).origins;
    auto changed = sinker.visit(id);
    if (!changed.ok()) return std::move(changed).status().context(str_cat("node ", origins_text(origins)));
    count += *changed ? 1 : 0;
  }
  if (count > 0) graph.erase_dead_nodes();
  return count;
}

}  // namespace aipu::graph
