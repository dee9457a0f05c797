// sink_transposes: a Transpose moves behind the op that uses it, so that it meets its inverse, or an output.
//
//   x ─ T(p) ─ Relu ─ T(p') ─ y                       =>  x ─ Relu ─ T(p) ─ T(p') ─ y (simplify_algebra merges them)
//   x ─ T(p) ─┐                                           x ─┐
//             ├ Concat{axis} ─ y                      =>     ├ Concat{axis'} ─ T(p) ─ y
//   z ─ T(p) ─┘                                           z ─┘
//   x ─ T(p) ─ Add(constant) ─ y                      =>  x ─ Add(constant transposed by p') ─ T(p) ─ y
//
// Only if no Transpose more is needed than there were: every Transpose above is used by the op alone, and all other
// operands are constants, single numbers, or tensors that no bytes of move. Results larger than the transposed operand
// (broadcasting) are left.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/relayout.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

class Sinker {
 public:
  explicit Sinker(Graph& graph) : graph_(graph) {}

  // Moves the Transposes above the node below it.
  Result<bool> visit(NodeId id) {
    if (node(id).op == "Transpose" || node(id).op == "Reshape") return false;
    Permutation perm;
    for (const ValueId input : node(id).inputs) {
      const NodeId above = producer_with_op(graph_, input, "Transpose");
      if (!above.valid() || !used_once(graph_, input)) continue;
      perm = node(above).attributes.ints("perm");
      break;
    }
    if (perm.empty()) return false;
    const Permutation back = inverse(perm);
    const auto plan = relayout(graph_, node(id), back);
    if (!plan || !affordable(id, *plan, perm)) return false;
    return sink(id, *plan, perm);
  }

 private:
  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  const Shape& shape(ValueId id) const { return graph_.type(id).shape; }

  bool affordable(NodeId id, const Relayout& plan, const Permutation& perm) const {
    const Node& n = node(id);
    int above = 0;
    bool as_large = true;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const ValueId input = n.inputs[k];
      if (!input.valid() || plan.operands[k] == Relayout::Operand::kKeep || graph_.constant(input) != nullptr) continue;
      const NodeId transpose = producer_with_op(graph_, input, "Transpose");
      if (transpose.valid() && node(transpose).attributes.ints("perm") == perm) {
        if (!used_once(graph_, input)) return false;
        ++above;
        for (const ValueId output : n.outputs) {
          if (output.valid() && plan.operands[k] == Relayout::Operand::kBroadcast)
            as_large = as_large && shape(output) == shape(input);
        }
        continue;
      }
      if (shape(input).size() > perm.size()) return false;
      if (!has_one_element(graph_.type(input)) &&
          !moves_no_bytes(padded_shape(shape(input), perm.size()), inverse(perm)))
        return false;
    }
    // Each output that still has its axes in order needs none.
    int below = 0;
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (!n.outputs[k].valid() || graph_.user_count(n.outputs[k]) == 0) continue;
      if (!moves_no_bytes(shape(n.outputs[k]), plan.output_perms[k])) ++below;
    }
    return above >= 1 && below <= above && (as_large || above > 1);
  }

  Result<bool> sink(NodeId id, const Relayout& plan, const Permutation& perm) {
    const std::vector<ValueId> old_inputs = node(id).inputs;
    const std::vector<ValueId> old_outputs = node(id).outputs;
    const std::string op = node(id).op;
    const OriginSet origins = node(id).origins;
    const Permutation back = inverse(perm);
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < old_inputs.size(); ++k) {
      ValueId input = old_inputs[k];
      if (input.valid() && plan.operands[k] != Relayout::Operand::kKeep) {
        const NodeId transpose = producer_with_op(graph_, input, "Transpose");
        if (transpose.valid() && node(transpose).attributes.ints("perm") == perm) {
          input = node(transpose).inputs[0];
        } else if (!has_one_element(graph_.type(input)) || shape(input).size() == perm.size()) {
          AIPU_ASSIGN_OR_RETURN(input, reshaped(graph_, input, padded_shape(shape(input), perm.size()), origins));
          AIPU_ASSIGN_OR_RETURN(input, transposed(graph_, input, back, origins));
        }
      }
      inputs.push_back(input);
    }
    std::vector<std::string> names;
    for (const ValueId output : old_outputs)
      names.push_back(output.valid() ? graph_.value(output).name + ".before" : "");
    AIPU_ASSIGN_OR_RETURN(const NodeId made,
                          graph_.add_node(op, plan.attributes, std::move(inputs), std::move(names), origins));
    const std::vector<ValueId> outputs = node(made).outputs;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!outputs[k].valid()) continue;
      AIPU_ASSIGN_OR_RETURN(const ValueId result,
                            transposed(graph_, outputs[k], inverse(plan.output_perms[k]), origins));
      AIPU_RETURN_IF_ERROR(graph_.replace_uses(old_outputs[k], result));
    }
    graph_.erase_node(id);
    return true;
  }

  Graph& graph_;
};

}  // namespace

Result<int> sink_transposes(Graph& graph, PassContext& context) {
  int total = 0;
  // One round moves each Transpose as far as it goes, as users come after producers; merging those that meet opens the
  // way for the next.
  for (int round = 0; round < 8; ++round) {
    int count = 0;
    Sinker sinker(graph);
    for (const NodeId id : graph.topological_order()) {
      if (std::as_const(graph).node(id).erased) continue;
      const OriginSet origins = std::as_const(graph).node(id).origins;
      auto changed = sinker.visit(id);
      if (!changed.ok()) return std::move(changed).status().context(str_cat("node ", origins_text(origins)));
      count += *changed ? 1 : 0;
    }
    if (count == 0) break;
    graph.erase_dead_nodes();
    total += count;
    AIPU_RETURN_IF_ERROR(simplify_algebra(graph, context).status());
  }
  return total;
}

}  // namespace aipu::graph
