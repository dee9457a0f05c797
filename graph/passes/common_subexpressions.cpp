// common_subexpressions: equal ops on equal inputs are computed once.
//
//   x ─┬ Exp ─ a             x ─ Exp ─┬ a
//      └ Exp ─ b       =>             └ b
#include <algorithm>
#include <map>

#include "graph/ir/constant_text.h"
#include "graph/ir/op_def.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

template <typename T, typename Print>
std::string list(const std::vector<T>& v, const Print& print) {
  std::string out = "[";
  for (const T& element : v) out += print(element) + ",";
  return out + "]";
}

std::string attribute_key(const AttributeValue& value) {
  struct Visitor {
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return double_text(v); }
    std::string operator()(const std::string& v) const { return quoted(v); }
    std::string operator()(DType v) const { return std::string(dtype_name(v)); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return list(v, [](int64_t x) { return std::to_string(x); });
    }
    std::string operator()(const std::vector<double>& v) const { return list(v, double_text); }
    std::string operator()(const std::vector<std::string>& v) const { return list(v, quoted); }
    std::string operator()(const Shape& v) const { return shape_text(v); }
    std::string operator()(const ConstantPtr& v) const { return v->hash().hex(); }
  };
  return std::visit(Visitor(), value);
}

std::string key_of(const Node& node, const OpDef& def) {
  std::string key = node.op + "(";
  std::vector<ValueId> inputs = node.inputs;
  if ((def.traits & kCommutative) != 0) std::sort(inputs.begin(), inputs.end());
  for (const ValueId input : inputs) key += str_cat(input.index, ',');
  key += str_cat(")", node.outputs.size());
  for (const auto& [name, value] : node.attributes.all()) key += str_cat(' ', name, '=', attribute_key(value));
  return key;
}

}  // namespace

Result<int> common_subexpressions(Graph& graph, PassContext&) {
  int count = 0;
  std::map<std::string, NodeId> seen;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = std::as_const(graph).node(id);
    const OpDef* def = graph.find_op(node.op);
    if (def == nullptr || (def->traits & kNotFoldable) != 0 || !node.subgraphs.empty()) continue;
    const auto [it, fresh] = seen.try_emplace(key_of(node, *def), id);
    if (fresh) continue;
    const std::vector<ValueId> first = std::as_const(graph).node(it->second).outputs;
    const std::vector<ValueId> second = node.outputs;
    bool covered = true;
    for (size_t k = 0; k < second.size(); ++k) covered = covered && (!second[k].valid() || first[k].valid());
    if (!covered) continue;
    const OriginSet origins = node.origins;
    for (size_t k = 0; k < second.size(); ++k) {
      if (second[k].valid()) AIPU_RETURN_IF_ERROR(graph.replace_uses(second[k], first[k]));
    }
    merge_origins(&graph.node(it->second).origins, origins);
    graph.erase_node(id);
    ++count;
  }
  if (count != 0) graph.erase_dead_nodes();
  return count;
}

}  // namespace aipu::graph
