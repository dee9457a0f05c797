// lower_precision: products whose right operand is constant multiply bfloat16 or float16 numbers, and what lies between
// such products is stored as these. Sums, and everything within an op, stay float32.
//
//   x ─ Conv(w) ─ Relu ─ Conv(v) ─ Softmax ─ y
//     =>  x ─ Cast{bfloat16} ─ Conv(w') ─ Relu ─ Conv(v') ─ Cast{float32} ─ Softmax ─ y     w', v' = w, v as bfloat16
//
// An op between is one that has a product before and a product behind it on some way, and computes the same whatever
// its floats are stored as. What only moves elements goes with its neighbours where these stay float32: a Cast between
// a Transpose and the op that reads it would keep that op's kernel from taking both.
//
// float16 ends at 65504: what has a constant beyond it stays float32.
//
// Does nothing unless --precision or a rule asks for it. With rules, the first one that fits a name of a node decides
// about this node; --precision about the others.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "graph/ir/op_def.h"
#include "graph/passes/passes.h"
#include "runtime/base/half.h"
#include "runtime/base/pattern.h"

namespace aipu::graph {
namespace {

enum class Role : uint8_t {
  kFull,     // computes with float32
  kProduct,  // multiplies narrow numbers
  kBetween,  // may hold them
  kMoves,    // the same, and computes nothing
};

bool is_infinite(DType narrow, float element) {
  return narrow == DType::kF16 && std::isfinite(element) && !std::isfinite(f32_from_f16(f16_from_f32(element)));
}

uint16_t rounded(DType narrow, float element) {
  return narrow == DType::kF16 ? f16_from_f32(element) : bf16_from_f32(element);
}

float element_of(const std::byte* elements, size_t i) {
  float element = 0;
  std::memcpy(&element, elements + i * sizeof(element), sizeof(element));
  return element;
}

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

class Lowering {
 public:
  Lowering(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  Result<int> run() {
    const std::vector<NodeId> order = graph_.topological_order();
    for (const NodeId id : order) {
      roles_[id] = role(id);
      narrow_[id] = wanted(std::as_const(graph_).node(id));
    }
    bool changed = true;
    while (changed) {
      changed = drop_outer(order);
      changed = drop_moves(order) || changed;
    }
    int rewrites = 0;
    for (const NodeId id : order) {
      if (roles_[id] == Role::kFull) {
        AIPU_RETURN_IF_ERROR(widen_inputs(id));
      } else {
        AIPU_RETURN_IF_ERROR(narrow(id));
        ++rewrites;
      }
    }
    for (Graph::Output& output : graph_.mutable_outputs()) {
      if (!narrowed_.contains(output.value)) continue;
      AIPU_ASSIGN_OR_RETURN(output.value, converted(output.value, DType::kF32));
    }
    return rewrites;
  }

 private:
  bool is_float(ValueId value) const { return value.valid() && graph_.type(value).dtype == DType::kF32; }

  DType wanted(const Node& node) const {
    for (const PrecisionRule& rule : context_.precision_rules) {
      const bool fits = std::any_of(node.origins.begin(), node.origins.end(),
                                    [&](const Origin& origin) { return fits_pattern(rule.pattern, origin.name); });
      if (fits) return rule.precision;
    }
    return context_.precision;
  }

  // Whether no constant becomes infinite.
  bool fits(const Node& node, DType narrow) const {
    return narrow != DType::kF16 || std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
             const Constant* constant = is_float(input) ? graph_.constant(input) : nullptr;
             if (constant == nullptr) return false;
             const auto count = static_cast<size_t>(constant->element_count());
             const std::byte* elements = constant->bytes().data();
             for (size_t i = 0; i < count; ++i)
               if (is_infinite(narrow, element_of(elements, i))) return true;
             return false;
           });
  }

  Role role(NodeId id) const {
    const Node& node = std::as_const(graph_).node(id);
    const OpDef* def = graph_.find_op(node.op);
    const bool is_own = graph_.ops() != nullptr && graph_.ops()->find_own(node.op) != nullptr;
    const DType narrow = wanted(node);
    if (def == nullptr || is_own || narrow == DType::kF32) return Role::kFull;
    if (node.inputs.empty() || node.outputs.empty() || !node.subgraphs.empty()) return Role::kFull;
    // Floats of one type go in, and the same type comes out.
    const auto is_number = [&](ValueId value) { return value.valid() && is_floating(graph_.type(value).dtype); };
    for (const ValueId output : node.outputs)
      if (output.valid() && !is_float(output)) return Role::kFull;
    for (const ValueId input : node.inputs)
      if (is_number(input) && !is_float(input)) return Role::kFull;
    if (!std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return is_float(input); }))
      return Role::kFull;
    if ((def->traits & kSumsProducts) != 0) {
      // An instruction multiplies two neighbouring bfloat16 numbers at a time: of an odd number float32 is as fast.
      const int64_t depth = neighbours(graph_, node);
      const bool gains = depth > 0 && (narrow == DType::kF16 || depth % 2 == 0);
      return gains && fits(node, narrow) ? Role::kProduct : Role::kFull;
    }
    const bool names_type = std::any_of(def->attributes.begin(), def->attributes.end(), [](const AttributeDef& a) {
      return a.kind == AttributeKind::kDType && a.name == "to";
    });
    if (names_type || (def->traits & kNotFoldable) != 0 || !fits(node, narrow)) return Role::kFull;
    if ((def->traits & kElementwise) != 0 && (def->traits & kView) == 0) return Role::kBetween;
    if ((def->traits & kFaults) != 0) return Role::kFull;
    if ((def->traits & kFloatInside) != 0 && node.outputs.size() == 1) return Role::kBetween;
    return def->inputs[0].types == "*" && def->outputs[0].types == "*" ? Role::kMoves : Role::kFull;
  }

  // Nodes between that no product of the same type comes before, or none behind, become float32.
  bool drop_outer(const std::vector<NodeId>& order) {
    std::set<NodeId> before, behind;
    for (const NodeId id : order) {
      const Node& node = std::as_const(graph_).node(id);
      const bool fed = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
        if (!input.valid()) return false;
        const NodeId producer = graph_.value(input).producer;
        return before.contains(producer) && narrow_[producer] == narrow_[id];
      });
      if (roles_[id] == Role::kProduct || (roles_[id] != Role::kFull && fed)) before.insert(id);
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (roles_[*it] == Role::kProduct || (roles_[*it] != Role::kFull && has_user(*it, [&](NodeId user) {
                                              return behind.contains(user) && narrow_[user] == narrow_[*it];
                                            })))
        behind.insert(*it);
    }
    bool changed = false;
    for (const NodeId id : order) {
      if (roles_[id] == Role::kFull || roles_[id] == Role::kProduct || (before.contains(id) && behind.contains(id)))
        continue;
      roles_[id] = Role::kFull;
      changed = true;
    }
    return changed;
  }

  // Moves beside a float32 op become float32.
  bool drop_moves(const std::vector<NodeId>& order) {
    bool changed = false;
    const auto drop = [&](NodeId id) {
      const Node& node = std::as_const(graph_).node(id);
      if (roles_[id] != Role::kMoves) return;
      const bool from_full = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
        if (!is_float(input)) return false;
        const NodeId producer = graph_.value(input).producer;
        return producer.valid() && roles_[producer] == Role::kFull;
      });
      const bool to_full = has_user(id, [&](NodeId user) { return roles_[user] == Role::kFull; });
      if (!from_full && !to_full) return;
      roles_[id] = Role::kFull;
      changed = true;
    };
    for (const NodeId id : order) drop(id);
    for (auto it = order.rbegin(); it != order.rend(); ++it) drop(*it);
    return changed;
  }

  template <typename Test>
  bool has_user(NodeId id, const Test& test) const {
    const Node& node = std::as_const(graph_).node(id);
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      if (!output.valid()) return false;
      const std::vector<NodeId> users = graph_.users(output);
      return std::any_of(users.begin(), users.end(), test);
    });
  }

  Status narrow(NodeId id) {
    const std::vector<ValueId> inputs = std::as_const(graph_).node(id).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_float(inputs[i]) && !narrowed_.contains(inputs[i])) continue;
      AIPU_ASSIGN_OR_RETURN(const ValueId narrow, converted(inputs[i], narrow_[id]));
      graph_.set_input(id, i, narrow);
    }
    AIPU_RETURN_IF_ERROR(graph_.infer_node(id));
    for (const ValueId output : std::as_const(graph_).node(id).outputs)
      if (output.valid()) narrowed_.insert(output);
    return {};
  }

  Status widen_inputs(NodeId id) {
    const std::vector<ValueId> inputs = std::as_const(graph_).node(id).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid() || !narrowed_.contains(inputs[i])) continue;
      AIPU_ASSIGN_OR_RETURN(const ValueId wide, converted(inputs[i], DType::kF32));
      graph_.set_input(id, i, wide);
    }
    return {};
  }

  // The value as `to`: another constant, or a Cast, one for all who ask.
  Result<ValueId> converted(ValueId value, DType to) {
    if (graph_.type(value).dtype == to) return value;
    const auto found = converted_.find({value, to});
    if (found != converted_.end()) return found->second;
    ValueId result;
    if (const ConstantPtr constant = graph_.value(value).constant) {
      result = graph_.add_constant(as_narrow(constant, to), graph_.value(value).name);
    } else {
      Attributes attributes;
      attributes.set("to", to);
      AIPU_ASSIGN_OR_RETURN(result, graph_.emit("Cast", std::move(attributes), {value},
                                                {{"pass:lower_precision", "Cast"}}, graph_.value(value).name));
    }
    converted_[{value, to}] = result;
    return result;
  }

  // Of float32 elements. Made when it is needed: weights are packed by whoever computes with them.
  static ConstantPtr as_narrow(const ConstantPtr& constant, DType to) {
    const Hash128& content = constant->hash();
    const uint64_t recipe[] = {content.high, content.low, static_cast<uint64_t>(to)};
    const auto count = static_cast<size_t>(constant->element_count());
    const auto fill = [constant, count, to](int64_t, std::span<std::byte> out) {
      const std::byte* from = constant->bytes().data();
      for (size_t i = 0; i < count; ++i) {
        const uint16_t bits = rounded(to, element_of(from, i));
        std::memcpy(out.data() + i * sizeof(bits), &bits, sizeof(bits));
      }
    };
    if (count == 0) return Constant::create(to, constant->shape(), {});
    return Constant::deferred(to, constant->shape(), hash_bytes(std::as_bytes(std::span(recipe))), 1, fill);
  }

  Graph& graph_;
  const PassContext& context_;
  std::map<NodeId, Role> roles_;
  std::map<NodeId, DType> narrow_;  // what nodes hold that are not of Role::kFull
  std::set<ValueId> narrowed_;
  std::map<std::pair<ValueId, DType>, ValueId> converted_;
};

}  // namespace

Result<int> lower_precision(Graph& graph, PassContext& context) {
  if (context.precision == DType::kF32 && context.precision_rules.empty()) return 0;
  return Lowering(graph, context).run();
}

}  // namespace aipu::graph
