// assign_layout: spatial ops run channels last, and so do the ops around them where that saves transposing (T: NCHW to
// NHWC, T': back).
//
//   x ─ Conv ─ Relu ─ Conv ─ y            x ─ T ─ Conv{NHWC} ─ Relu ─ Conv{NHWC} ─ T' ─ y
//                                   =>
//   x ─ Conv ─ Transpose(0,2,3,1) ─ y     x ─ T ─ Conv{NHWC} ─ y
//
// Every op takes one of two forms: with its operands as they are (plain), or with all of them transposed to channels
// last. Spatial ops (kSpatial) must be channels last, most others plain; those that relayout() knows may be either. A
// value whose producer and users differ in form is transposed once for all of them, which costs its bytes. The cheapest
// choice for all ops together is a minimum cut: ops are vertices, channels last is the source's side. A Transpose of
// the model that does exactly NCHW -> NHWC is no op at all: it is a user that wants channels last and a producer that
// is plain.
//
// A channel shuffle (Reshape to [N,g,C/g,...], Transpose, Reshape back) counts as one op that may be either.
#include <algorithm>
#include <map>
#include <set>

#include "graph/ir/op_def.h"
#include "graph/passes/min_cut.h"
#include "graph/passes/passes.h"
#include "graph/passes/relayout.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

enum class Kind : uint8_t {
  kPlain,    // runs as it is
  kSpatial,  // must become channels last
  kFree,     // either
  kToLast,   // a Transpose NCHW -> NHWC: its output is its input's other form
  kToPlain,  // a Transpose NHWC -> NCHW
  kInside,   // inside a channel shuffle, which its last node stands for
};

constexpr int64_t kAssumedExtent = 16;  // of a symbol, to weigh sizes

int64_t transposing_cost(const TensorType& type) {
  const size_t rank = type.shape.size();
  if (rank < 3 || moves_no_bytes(type.shape, to_channels_last(rank))) return 0;
  int64_t bytes = static_cast<int64_t>(dtype_bytes(type.dtype));
  for (const Dim& extent : type.shape) {
    bytes *= std::clamp<int64_t>(extent.constant_or(kAssumedExtent), 1, int64_t{1} << 20);
    bytes = std::min<int64_t>(bytes, int64_t{1} << 36);
  }
  return bytes;
}

class LayoutAssigner {
 public:
  explicit LayoutAssigner(Graph& graph) : graph_(graph), order_(graph.topological_order()) {}

  Result<int> run() {
    classify();
    if (!any_spatial_) return 0;
    choose();
    return rewrite();
  }

 private:
  struct Plan {
    Kind kind = Kind::kPlain;
    Relayout relayout;  // of kSpatial and kFree
    int vertex = -1;
    bool last = false;  // the choice
    ValueId shuffled;   // of the last node of a channel shuffle: what is shuffled
    int64_t groups = 0;
  };

  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  Plan& plan(NodeId id) { return plans_[static_cast<size_t>(id.index)]; }
  size_t rank_of(ValueId id) const { return graph_.type(id).shape.size(); }

  // The rank that decides which permutation "channels last" is for the node.
  size_t working_rank(const Node& n, const OpDef& def) const {
    if ((def.traits & kElementwise) != 0) {
      for (const ValueId output : n.outputs) {
        if (output.valid()) return rank_of(output);
      }
    }
    return !n.inputs.empty() && n.inputs[0].valid() ? rank_of(n.inputs[0]) : 0;
  }

  void classify() {
    plans_.resize(graph_.node_count());
    std::vector<bool> near_last(graph_.value_count(), false);  // comes from an op that is or may be channels last
    for (const NodeId id : order_) {
      const Node& n = node(id);
      const OpDef* def = graph_.find_op(n.op);
      if (def == nullptr || n.outputs.empty()) continue;
      const size_t rank = working_rank(n, *def);
      Plan& p = plan(id);
      bool near = false;
      for (const ValueId input : n.inputs)
        near = near || (input.valid() && near_last[static_cast<size_t>(input.index)]);
      if ((def->traits & kSpatial) != 0) {
        if (n.attributes.s_or("layout", "NCHW") == "NHWC") continue;
        any_spatial_ = true;
        p.kind = Kind::kSpatial;
        p.relayout = spatial_relayout(n, rank);
        near = true;
      } else if (n.op == "Transpose" && rank >= 3) {
        const Permutation& perm = n.attributes.ints("perm");
        const Permutation to_last = to_channels_last(rank);
        const bool is_to_last = perm == to_last;
        const bool is_to_plain = perm == inverse(to_last);
        // Of rank 3 both are the same: a value on its way from a spatial op is going back.
        if (is_to_last && (!is_to_plain || near)) {
          p.kind = Kind::kToLast;
          near = false;
        } else if (is_to_plain) {
          p.kind = Kind::kToPlain;
          near = true;
        }
      } else if (rank >= 3 && n.op == "Reshape" && find_shuffle(id)) {
        near = true;
      } else if (rank >= 3) {
        auto plan_free = relayout(graph_, n, to_channels_last(rank));
        if (plan_free && outputs_have_two_forms(n, *plan_free)) {
          p.kind = Kind::kFree;
          p.relayout = *std::move(plan_free);
        }
      }
      for (const ValueId output : n.outputs) {
        if (output.valid() && p.kind != Kind::kPlain && p.kind != Kind::kToLast)
          near_last[static_cast<size_t>(output.index)] = near;
      }
    }
  }

  //   x: [N,C,...] ─ Reshape([N,g,C/g,...]) ─ Transpose(0,2,1,...) ─ Reshape([N,C,...]) ─ y
  bool find_shuffle(NodeId id) {
    const Node& n = node(id);
    const Shape& to = graph_.type(n.outputs[0]).shape;
    const NodeId middle = producer_with_op(graph_, n.inputs[0], "Transpose");
    if (!middle.valid() || !used_once(graph_, n.inputs[0])) return false;
    const NodeId first = producer_with_op(graph_, node(middle).inputs[0], "Reshape");
    if (!first.valid() || !used_once(graph_, node(middle).inputs[0])) return false;
    const ValueId x = node(first).inputs[0];
    const Shape& split = graph_.type(node(middle).inputs[0]).shape;
    if (to.size() < 3 || split.size() != to.size() + 1 || !(graph_.type(x).shape == to) || !split[1].is_constant())
      return false;
    Permutation swap(split.size());
    for (size_t k = 0; k < swap.size(); ++k) swap[k] = static_cast<int64_t>(k == 1 ? 2 : k == 2 ? 1 : k);
    if (node(middle).attributes.ints("perm") != swap || !(split[0] == to[0])) return false;
    for (size_t k = 2; k < to.size(); ++k) {
      if (!(split[k + 1] == to[k])) return false;
    }
    Plan& p = plan(id);
    p.kind = Kind::kFree;
    p.shuffled = x;
    p.groups = *split[1].constant();
    p.relayout.attributes = n.attributes;
    p.relayout.operands.assign(n.inputs.size(), Relayout::Operand::kKeep);
    p.relayout.output_perms = {to_channels_last(to.size())};
    plan(middle).kind = Kind::kInside;
    plan(first).kind = Kind::kInside;
    return true;
  }

  Status make_shuffle_last(NodeId id) {
    const Plan p = plan(id);
    const ValueId output = node(id).outputs[0];
    const OriginSet origins = node(id).origins;
    AIPU_ASSIGN_OR_RETURN(const ValueId x, last_form(p.shuffled));
    const Shape shape = graph_.type(x).shape;
    Shape split = shape;
    split.back() = p.groups;
    split.push_back(floordiv(shape.back(), Dim(p.groups)));
    Permutation swap(split.size());
    for (size_t k = 0; k < swap.size(); ++k) swap[k] = static_cast<int64_t>(k);
    std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
    AIPU_ASSIGN_OR_RETURN(ValueId value, reshaped(graph_, x, split, origins));
    AIPU_ASSIGN_OR_RETURN(value, transposed(graph_, value, swap, origins));
    AIPU_ASSIGN_OR_RETURN(value, reshaped(graph_, value, shape, origins));
    last_[output] = value;
    moved_.insert(output);
    replaced_.push_back(id);
    return {};
  }

  Relayout spatial_relayout(const Node& n, size_t rank) const {
    Relayout result;
    result.attributes = n.attributes;
    result.attributes.set("layout", std::string("NHWC"));
    result.operands.assign(n.inputs.size(), Relayout::Operand::kKeep);
    result.operands[0] = Relayout::Operand::kPermuted;
    for (const ValueId output : n.outputs) {
      result.output_perms.push_back(output.valid() && rank_of(output) == rank ? to_channels_last(rank) : Permutation());
    }
    return result;
  }

  // Outputs are channels last of their rank, or in plain order.
  bool outputs_have_two_forms(const Node& n, const Relayout& r) const {
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (!n.outputs[k].valid()) continue;
      const Permutation& perm = r.output_perms[k];
      if (!is_identity(perm) && perm != to_channels_last(rank_of(n.outputs[k]))) return false;
    }
    return true;
  }

  bool output_is_last(const Plan& p, size_t k) const {
    return !p.relayout.output_perms[k].empty() && !is_identity(p.relayout.output_perms[k]);
  }

  // ---- the choice

  // The vertex whose side is the form in which a value is made.
  int producing_vertex(ValueId id) {
    const Value& value = std::as_const(graph_).value(id);
    if (!value.producer.valid()) return MinCut::kSink;
    const Plan& p = plan(value.producer);
    switch (p.kind) {
      case Kind::kToPlain:
        return MinCut::kSource;
      case Kind::kSpatial:
        return output_is_last(p, static_cast<size_t>(value.output_index)) ? MinCut::kSource : MinCut::kSink;
      case Kind::kFree:
        return output_is_last(p, static_cast<size_t>(value.output_index)) ? p.vertex : MinCut::kSink;
      case Kind::kPlain:
      case Kind::kInside:
      case Kind::kToLast:
        break;
    }
    return MinCut::kSink;
  }

  void choose() {
    MinCut cut;
    for (const NodeId id : order_) {
      if (plan(id).kind == Kind::kFree) plan(id).vertex = cut.add_vertex();
    }
    // vertices whose sides are the forms that users want
    std::vector<std::vector<int>> wanted_by(graph_.value_count());
    for (const NodeId id : order_) {
      const Plan& p = plan(id);
      const Node& n = node(id);
      if (p.kind == Kind::kInside) continue;
      if (p.shuffled.valid()) {
        wanted_by[static_cast<size_t>(p.shuffled.index)].push_back(p.vertex);
        continue;
      }
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        const ValueId input = n.inputs[k];
        if (!input.valid() || graph_.constant(input) != nullptr) continue;
        auto& vertices = wanted_by[static_cast<size_t>(input.index)];
        const bool moves = p.kind == Kind::kSpatial || p.kind == Kind::kFree;
        if (moves && p.relayout.operands[k] != Relayout::Operand::kKeep) {
          const size_t rank = working_rank(n, *graph_.find_op(n.op));
          if (rank_of(input) == rank) {
            vertices.push_back(p.kind == Kind::kFree ? p.vertex : MinCut::kSource);
            continue;
          }
          // A broadcast operand of lower rank is taken plain and transposed for this op alone.
          if (!has_one_element(graph_.type(input))) {
            const TensorType padded{graph_.type(input).dtype, padded_shape(graph_.type(input).shape, rank)};
            cut.add_edge(p.vertex, MinCut::kSink, transposing_cost(padded));
          }
          vertices.push_back(MinCut::kSink);
          continue;
        }
        vertices.push_back(p.kind == Kind::kToLast ? MinCut::kSource : MinCut::kSink);
      }
    }
    for (const Graph::Output& output : graph_.outputs())
      wanted_by[static_cast<size_t>(output.value.index)].push_back(MinCut::kSink);
    for (size_t index = 0; index < wanted_by.size(); ++index) {
      if (wanted_by[index].empty()) continue;
      const ValueId id{static_cast<int32_t>(index)};
      const int64_t cost = transposing_cost(graph_.type(id));
      if (cost == 0) continue;
      const int producer = producing_vertex(id);
      // Made channels last, and somebody wants it plain; made plain, and somebody wants it channels last.
      const int plain_wanted = cut.add_vertex();
      const int last_wanted = cut.add_vertex();
      cut.add_edge(producer, plain_wanted, cost);
      cut.add_edge(last_wanted, producer, cost);
      for (const int user : wanted_by[index]) {
        cut.add_edge(plain_wanted, user, MinCut::kInfinite);
        cut.add_edge(user, last_wanted, MinCut::kInfinite);
      }
    }
    const std::vector<bool> last = cut.solve();
    for (const NodeId id : order_) {
      Plan& p = plan(id);
      p.last = p.kind == Kind::kSpatial || (p.kind == Kind::kFree && last[static_cast<size_t>(p.vertex)]);
    }
  }

  // ---- the rewrite

  const OriginSet& origins_of(ValueId id) const {
    static const OriginSet none;
    const NodeId producer = graph_.value(id).producer;
    return producer.valid() ? node(producer).origins : none;
  }

  Result<ValueId> plain_form(ValueId id) {
    if (const auto it = plain_.find(id); it != plain_.end()) return it->second;
    if (!moved_.contains(id)) return id;
    const ValueId last = last_.at(id);
    const OriginSet origins = origins_of(last);
    AIPU_ASSIGN_OR_RETURN(const ValueId plain,
                          transposed(graph_, last, inverse(to_channels_last(rank_of(last))), origins));
    plain_[id] = plain;
    return plain;
  }

  Result<ValueId> last_form(ValueId id) {
    if (const auto it = last_.find(id); it != last_.end()) return it->second;
    AIPU_ASSIGN_OR_RETURN(const ValueId plain, plain_form(id));
    const OriginSet origins = origins_of(plain);
    AIPU_ASSIGN_OR_RETURN(const ValueId last, transposed(graph_, plain, to_channels_last(rank_of(plain)), origins));
    last_[id] = last;
    return last;
  }

  Result<ValueId> operand(ValueId id, Relayout::Operand how, size_t rank) {
    if (!id.valid()) return id;
    if (how == Relayout::Operand::kKeep) return plain_form(id);
    if (rank_of(id) == rank) return last_form(id);
    AIPU_ASSIGN_OR_RETURN(const ValueId plain, plain_form(id));
    if (has_one_element(graph_.type(plain))) return plain;
    const OriginSet origins = origins_of(plain);
    AIPU_ASSIGN_OR_RETURN(const ValueId padded,
                          reshaped(graph_, plain, padded_shape(graph_.type(plain).shape, rank), origins));
    return transposed(graph_, padded, to_channels_last(rank), origins);
  }

  Status make_last(NodeId id) {
    const Plan p = plan(id);
    const size_t rank = working_rank(node(id), *graph_.find_op(node(id).op));
    const std::vector<ValueId> old_inputs = node(id).inputs;
    const std::vector<ValueId> old_outputs = node(id).outputs;
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < old_inputs.size(); ++k) {
      AIPU_ASSIGN_OR_RETURN(const ValueId input, operand(old_inputs[k], p.relayout.operands[k], rank));
      inputs.push_back(input);
    }
    std::vector<std::string> names;
    for (const ValueId output : old_outputs) names.push_back(output.valid() ? graph_.value(output).name + ".nhwc" : "");
    const std::string op = node(id).op;
    const OriginSet origins = node(id).origins;
    AIPU_ASSIGN_OR_RETURN(const NodeId made,
                          graph_.add_node(op, p.relayout.attributes, std::move(inputs), std::move(names), origins));
    const std::vector<ValueId> outputs = node(made).outputs;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!outputs[k].valid()) continue;
      if (output_is_last(p, k)) {
        last_[old_outputs[k]] = outputs[k];
      } else {
        plain_[old_outputs[k]] = outputs[k];
      }
      moved_.insert(old_outputs[k]);
    }
    replaced_.push_back(id);
    return {};
  }

  Result<int> rewrite() {
    int count = 0;
    for (const NodeId id : order_) {
      const Plan& p = plan(id);
      if (p.last) {
        if (Status status = p.shuffled.valid() ? make_shuffle_last(id) : make_last(id); !status.ok())
          return std::move(status).context(str_cat("node ", origins_text(node(id).origins)));
        ++count;
      } else if (p.kind == Kind::kToLast) {
        AIPU_ASSIGN_OR_RETURN(plain_[node(id).outputs[0]], last_form(node(id).inputs[0]));
        moved_.insert(node(id).outputs[0]);
        replaced_.push_back(id);
      } else if (p.kind == Kind::kToPlain) {
        AIPU_ASSIGN_OR_RETURN(last_[node(id).outputs[0]], plain_form(node(id).inputs[0]));
        moved_.insert(node(id).outputs[0]);
        replaced_.push_back(id);
      }
    }
    std::set<ValueId> symbol_tensors;
    for (const Symbol& symbol : graph_.symbols()) symbol_tensors.insert(symbol.value);
    for (const NodeId id : replaced_) graph_.node(id).inputs.clear();
    for (const ValueId id : moved_) {
      if (graph_.user_count(id) == 0 && !symbol_tensors.contains(id)) continue;
      AIPU_ASSIGN_OR_RETURN(const ValueId plain, plain_form(id));
      AIPU_RETURN_IF_ERROR(graph_.replace_uses(id, plain));
    }
    for (const NodeId id : replaced_) graph_.erase_node(id);
    graph_.erase_dead_nodes();
    return count;
  }

  Graph& graph_;
  std::vector<NodeId> order_;
  std::vector<Plan> plans_;
  bool any_spatial_ = false;
  // forms of a value of the original graph, where they are not the value itself
  std::map<ValueId, ValueId> plain_, last_;
  std::set<ValueId> moved_;  // values whose producer was replaced
  std::vector<NodeId> replaced_;
};

}  // namespace

Result<int> assign_layout(Graph& graph, PassContext&) { return LayoutAssigner(graph).run(); }

}  // namespace aipu::graph
