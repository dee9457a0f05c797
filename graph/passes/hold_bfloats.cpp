// hold_bfloats: where the target multiplies no bfloat16 numbers faster than float32 ones, products of bfloat16 and what
// lies between them hold float32 numbers, and what a product reads is rounded to bfloat16 where it is made. The
// products are those of the same numbers, by kernels that need not widen each of them every time they read it.
//
// Convolutions say so by the attribute `multiplies`: kernels with products of fewer bits than float32 may compute them.
//
//   x ─ Cast{bfloat16} ─ Conv(w) ─ Relu ─ Conv(v) ─ Cast{float32} ─ y        w, v: bfloat16
//     =>  x ─ round ─ Conv(w') ─ Relu ─ round ─ Conv(v') ─ y                 w', v' = w, v as float32
//         round: Cast{bfloat16} ─ Cast{float32}
//
// A value that a product reads is the rounded one to all who read it, so that it is stored once.
#include <algorithm>
#include <set>
#include <string>

#include "graph/ops/multiplies.h"
#include "graph/passes/passes.h"
#include "graph/passes/retype_products.h"

namespace aipu::graph {
namespace {

constexpr std::string_view kPass = "hold_bfloats";

bool made_by_pass(const Node& node) {
  return std::any_of(node.origins.begin(), node.origins.end(), [](const Origin& origin) {
    return origin.name == "pass:hold_bfloats" || origin.name == "pass:lower_precision";
  });
}

class Rounding {
 public:
  explicit Rounding(Graph& graph) : graph_(graph) {}

  // Of the operands of these products, which were bfloat16 numbers.
  Status run(const std::set<NodeId>& products) {
    AIPU_RETURN_IF_ERROR(drop_casts());
    for (const NodeId id : products) {
      for (size_t i = 0; i < 2; ++i) {
        const ValueId operand = std::as_const(graph_).node(id).inputs[i];
        if (graph_.type(operand).dtype == DType::kF32) AIPU_RETURN_IF_ERROR(round(operand));
      }
    }
    return {};
  }

 private:
  const Node* producer(ValueId value) const {
    const NodeId id = graph_.value(value).producer;
    return id.valid() ? &std::as_const(graph_).node(id) : nullptr;
  }

  bool is_cast(const Node& node, DType from, DType to) const {
    return node.op == "Cast" && graph_.type(node.inputs[0]).dtype == from && graph_.type(node.outputs[0]).dtype == to;
  }

  // Those to bfloat16 and back that were put where float32 was left or is come back to: what products read is rounded
  // below.
  Status drop_casts() {
    for (const NodeId id : graph_.topological_order()) {
      const Node& node = std::as_const(graph_).node(id);
      if (!is_cast(node, DType::kBF16, DType::kF32)) continue;
      const Node* before = producer(node.inputs[0]);
      if (before == nullptr || !is_cast(*before, DType::kF32, DType::kBF16) || !made_by_pass(*before)) continue;
      AIPU_RETURN_IF_ERROR(graph_.replace_uses(node.outputs[0], before->inputs[0]));
    }
    return {};
  }

  // Such values are rounded where their elements come from.
  bool is_moved(const Node& node) const {
    const OpDef* def = graph_.find_op(node.op);
    return def != nullptr && node.subgraphs.empty() && only_moves(*def);
  }

  Status round(ValueId value) {
    if (!done_.insert(value).second || graph_.value(value).constant != nullptr) return {};
    const Node* node = producer(value);
    if (node != nullptr && node->op == "Cast" && graph_.type(node->inputs[0]).dtype == DType::kBF16) return {};
    if (node != nullptr && is_moved(*node)) {
      const std::vector<ValueId> inputs = node->inputs;
      for (const ValueId input : inputs)
        if (input.valid() && graph_.type(input).dtype == DType::kF32) AIPU_RETURN_IF_ERROR(round(input));
      return {};
    }
    AIPU_ASSIGN_OR_RETURN(const ValueId narrow, cast(value, value, DType::kBF16));
    AIPU_ASSIGN_OR_RETURN(const ValueId rounded, cast(narrow, value, DType::kF32));
    done_.insert(rounded);
    AIPU_RETURN_IF_ERROR(graph_.replace_uses(value, rounded));
    graph_.set_input(graph_.value(narrow).producer, 0, value);
    return {};
  }

  Result<ValueId> cast(ValueId value, ValueId named_after, DType to) {
    Attributes attributes;
    attributes.set("to", to);
    return graph_.emit("Cast", std::move(attributes), {value}, {{str_cat("pass:", kPass), "Cast"}},
                       graph_.value(named_after).name);
  }

  Graph& graph_;
  std::set<ValueId> done_;
};

}  // namespace

Result<int> hold_bfloats(Graph& graph, PassContext& context) {
  if (!context.holds_bfloats) return 0;
  std::set<NodeId> products;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = std::as_const(graph).node(id);
    const OpDef* def = graph.find_op(node.op);
    if (def != nullptr && (def->traits & kSumsProducts) != 0 && node.inputs.size() > 1 &&
        graph.type(node.inputs[0]).dtype == DType::kBF16)
      products.insert(id);
  }
  if (products.empty()) return 0;
  Retyping retyping;
  retyping.pass = kPass;
  retyping.from = DType::kBF16;
  retyping.wanted = [](const Node&) { return DType::kF32; };
  retyping.is_worth = [](const Node&) { return true; };
  AIPU_ASSIGN_OR_RETURN(const int changes, retype_products(graph, retyping));
  AIPU_RETURN_IF_ERROR(Rounding(graph).run(products));
  for (const NodeId id : products) {
    const Node& node = std::as_const(graph).node(id);
    if (node.op == "Conv" && graph.type(node.inputs[0]).dtype == DType::kF32)
      graph.node(id).attributes.set(kMultiplies, DType::kBF16);
  }
  graph.erase_dead_nodes();
  return changes;
}

}  // namespace aipu::graph
