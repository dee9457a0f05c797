#include "graph/passes/retype_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/half.h"

namespace aipu::graph {
namespace {

enum class Role : uint8_t {
  kAsItWas,
  kProduct,  // multiplies others
  kBetween,  // may hold them
  kMoves,    // the same, and computes nothing
};

float number(DType type, const std::byte* elements, size_t i) {
  if (type == DType::kF32) {
    float element = 0;
    std::memcpy(&element, elements + i * sizeof(element), sizeof(element));
    return element;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, elements + i * sizeof(bits), sizeof(bits));
  return type == DType::kF16 ? f32_from_f16(bits) : f32_from_bf16(bits);
}

void write(DType type, std::byte* elements, size_t i, float element) {
  if (type == DType::kF32) {
    std::memcpy(elements + i * sizeof(element), &element, sizeof(element));
    return;
  }
  const uint16_t bits = type == DType::kF16 ? f16_from_f32(element) : bf16_from_f32(element);
  std::memcpy(elements + i * sizeof(bits), &bits, sizeof(bits));
}

class Retyper {
 public:
  Retyper(Graph& graph, const Retyping& retyping) : graph_(graph), retyping_(retyping) {}

  Result<int> run() {
    const std::vector<NodeId> order = graph_.topological_order();
    for (const NodeId id : order) {
      roles_[id] = role(id);
      to_[id] = retyping_.wanted(std::as_const(graph_).node(id));
    }
    bool changed = true;
    while (changed) {
      changed = drop_outer(order);
      changed = drop_moves(order) || changed;
    }
    int rewrites = 0;
    for (const NodeId id : order) {
      if (roles_[id] == Role::kAsItWas) {
        AIPU_RETURN_IF_ERROR(keep_inputs(id));
      } else {
        AIPU_RETURN_IF_ERROR(change(id));
        ++rewrites;
      }
    }
    for (Graph::Output& output : graph_.mutable_outputs()) {
      if (!changed_.contains(output.value)) continue;
      AIPU_ASSIGN_OR_RETURN(output.value, converted(output.value, retyping_.from));
    }
    return rewrites;
  }

 private:
  bool is_float(ValueId value) const { return value.valid() && graph_.type(value).dtype == retyping_.from; }

  // Whether no constant becomes infinite.
  bool fits(const Node& node, DType to) const {
    return to != DType::kF16 || std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
             const Constant* constant = is_float(input) ? graph_.constant(input) : nullptr;
             if (constant == nullptr) return false;
             const auto count = static_cast<size_t>(constant->element_count());
             const std::byte* elements = constant->bytes().data();
             for (size_t i = 0; i < count; ++i) {
               const float element = number(retyping_.from, elements, i);
               if (std::isfinite(element) && !std::isfinite(f32_from_f16(f16_from_f32(element)))) return true;
             }
             return false;
           });
  }

  Role role(NodeId id) const {
    const Node& node = std::as_const(graph_).node(id);
    const OpDef* def = graph_.find_op(node.op);
    const bool is_own = graph_.ops() != nullptr && graph_.ops()->find_own(node.op) != nullptr;
    const DType to = retyping_.wanted(node);
    if (def == nullptr || is_own || to == retyping_.from) return Role::kAsItWas;
    if (node.inputs.empty() || node.outputs.empty() || !node.subgraphs.empty()) return Role::kAsItWas;
    // Floats of one type go in, and the same type comes out.
    const auto is_number = [&](ValueId value) { return value.valid() && is_floating(graph_.type(value).dtype); };
    for (const ValueId output : node.outputs)
      if (output.valid() && !is_float(output)) return Role::kAsItWas;
    for (const ValueId input : node.inputs)
      if (is_number(input) && !is_float(input)) return Role::kAsItWas;
    if (!std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return is_float(input); }))
      return Role::kAsItWas;
    if ((def->traits & kSumsProducts) != 0)
      return retyping_.is_worth(node) && fits(node, to) ? Role::kProduct : Role::kAsItWas;
    const bool names_type = std::any_of(def->attributes.begin(), def->attributes.end(), [](const AttributeDef& a) {
      return a.kind == AttributeKind::kDType && a.name == "to";
    });
    if (names_type || (def->traits & kNotFoldable) != 0 || !fits(node, to)) return Role::kAsItWas;
    if ((def->traits & kElementwise) != 0 && (def->traits & kView) == 0) return Role::kBetween;
    if ((def->traits & kFaults) != 0) return Role::kAsItWas;
    if ((def->traits & kFloatInside) != 0 && node.outputs.size() == 1) return Role::kBetween;
    if (only_moves(*def)) return Role::kMoves;
    // Whatever computes with floats computes with wider ones, and loses nothing.
    return dtype_bits(to) > dtype_bits(retyping_.from) ? Role::kBetween : Role::kAsItWas;
  }

  // Nodes between that no product of the same type comes before, or none behind, stay as they were.
  bool drop_outer(const std::vector<NodeId>& order) {
    std::set<NodeId> before, behind;
    for (const NodeId id : order) {
      const Node& node = std::as_const(graph_).node(id);
      const bool fed = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
        if (!input.valid()) return false;
        const NodeId producer = graph_.value(input).producer;
        return before.contains(producer) && to_[producer] == to_[id];
      });
      if (roles_[id] == Role::kProduct || (roles_[id] != Role::kAsItWas && fed)) before.insert(id);
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (roles_[*it] == Role::kProduct || (roles_[*it] != Role::kAsItWas && has_user(*it, [&](NodeId user) {
                                              return behind.contains(user) && to_[user] == to_[*it];
                                            })))
        behind.insert(*it);
    }
    bool changed = false;
    for (const NodeId id : order) {
      if (roles_[id] == Role::kAsItWas || roles_[id] == Role::kProduct || (before.contains(id) && behind.contains(id)))
        continue;
      roles_[id] = Role::kAsItWas;
      changed = true;
    }
    return changed;
  }

  // Moves beside an op that stays as it was do too.
  bool drop_moves(const std::vector<NodeId>& order) {
    bool changed = false;
    const auto drop = [&](NodeId id) {
      const Node& node = std::as_const(graph_).node(id);
      if (roles_[id] != Role::kMoves) return;
      const bool from_kept = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
        if (!is_float(input)) return false;
        const NodeId producer = graph_.value(input).producer;
        return producer.valid() && roles_[producer] == Role::kAsItWas;
      });
      const bool to_kept = has_user(id, [&](NodeId user) { return roles_[user] == Role::kAsItWas; });
      if (!from_kept && !to_kept) return;
      roles_[id] = Role::kAsItWas;
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

  Status change(NodeId id) {
    const std::vector<ValueId> inputs = std::as_const(graph_).node(id).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_float(inputs[i]) && !changed_.contains(inputs[i])) continue;
      AIPU_ASSIGN_OR_RETURN(const ValueId other, converted(inputs[i], to_[id]));
      graph_.set_input(id, i, other);
    }
    AIPU_RETURN_IF_ERROR(graph_.infer_node(id));
    for (const ValueId output : std::as_const(graph_).node(id).outputs)
      if (output.valid()) changed_.insert(output);
    return {};
  }

  Status keep_inputs(NodeId id) {
    const std::vector<ValueId> inputs = std::as_const(graph_).node(id).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid() || !changed_.contains(inputs[i])) continue;
      AIPU_ASSIGN_OR_RETURN(const ValueId as_it_was, converted(inputs[i], retyping_.from));
      graph_.set_input(id, i, as_it_was);
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
      result = graph_.add_constant(as_type(constant, to), graph_.value(value).name);
    } else {
      Attributes attributes;
      attributes.set("to", to);
      AIPU_ASSIGN_OR_RETURN(result, graph_.emit("Cast", std::move(attributes), {value},
                                                {{"pass:" + retyping_.pass, "Cast"}}, graph_.value(value).name));
    }
    converted_[{value, to}] = result;
    return result;
  }

  // Made when it is needed: weights are packed by whoever computes with them.
  static ConstantPtr as_type(const ConstantPtr& constant, DType to) {
    const Hash128& content = constant->hash();
    const uint64_t recipe[] = {content.high, content.low, static_cast<uint64_t>(to)};
    const auto count = static_cast<size_t>(constant->element_count());
    const auto fill = [constant, count, to](int64_t, std::span<std::byte> out) {
      const DType from = constant->type().dtype;
      const std::byte* elements = constant->bytes().data();
      for (size_t i = 0; i < count; ++i) write(to, out.data(), i, number(from, elements, i));
    };
    if (count == 0) return Constant::create(to, constant->shape(), {});
    return Constant::deferred(to, constant->shape(), hash_bytes(std::as_bytes(std::span(recipe))), 1, fill);
  }

  Graph& graph_;
  const Retyping& retyping_;
  std::map<NodeId, Role> roles_;
  std::map<NodeId, DType> to_;  // what nodes hold that are not of Role::kAsItWas
  std::set<ValueId> changed_;
  std::map<std::pair<ValueId, DType>, ValueId> converted_;
};

}  // namespace

bool only_moves(const OpDef& def) {
  if (def.inputs.empty() || def.outputs.empty()) return false;
  const bool computes = (def.traits & kElementwise) != 0 && (def.traits & kView) == 0;
  return !computes && (def.traits & (kFaults | kNotFoldable)) == 0 && def.inputs[0].types == "*" &&
         def.outputs[0].types == "*";
}

Result<int> retype_products(Graph& graph, const Retyping& retyping) { return Retyper(graph, retyping).run(); }

}  // namespace aipu::graph
