// simplify_algebra: ops that do nothing, undo each other, or are a simpler op in disguise.
//
//   x ─ Identity ─ y                            =>  x = y
//   x ─ Reshape ─ Unsqueeze ─ Flatten ─ y       =>  x ─ Reshape ─ y
//   x ─ Transpose(p) ─ Transpose(q) ─ y         =>  x ─ Transpose(pq) ─ y
//   x: [N,1,H] ─ Transpose(1,0,2) ─ y           =>  x ─ Reshape ─ y
//   x ─ Mul(1), Add(0), Sub(0), Div(1), Pow(1)  =>  x
//   x ─ Not ─ Not ─ y                           =>  x = y
//   Concat(a,b,c) beside Concat(a,b)            =>  Concat(Concat(a,b),c)
//   x ─ Pad(0 on spatial axes) ─ Conv{pads} ─ y =>  x ─ Conv{pads + Pad's} ─ y
//
//   x: [N,C*b*b,H,W] ─ Reshape([N,C,b,b,H,W]) ─ Transpose(0,1,4,2,5,3) ─ Reshape([N,C,H*b,W*b]) ─ y
//                                               =>  x ─ DepthToSpace{CRD} ─ y   (DCR: [N,b,b,C,H,W], 0,3,4,1,5,2)
//
// Like Identity: Dropout, Expand, Slice, Pad, Tile, Resize, Concat, Cast, ... that change nothing.
//
// One walk in execution order per round; rounds until nothing changes.
#include <algorithm>
#include <map>

#include "graph/ops/assumptions.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

class Simplifier {
 public:
  explicit Simplifier(Graph& graph) : graph_(graph) {}

  // True if the node was rewritten.
  Result<bool> visit(NodeId id) {
    static const std::map<std::string_view, Result<bool> (Simplifier::*)(NodeId)> rules = {
        {"Identity", &Simplifier::pass_through},
        {"Dropout", &Simplifier::dropout},
        {"Reshape", &Simplifier::view},
        {"Flatten", &Simplifier::view},
        {"Squeeze", &Simplifier::view},
        {"Unsqueeze", &Simplifier::view},
        {"Transpose", &Simplifier::transpose},
        {"Mul", &Simplifier::arithmetic},
        {"Add", &Simplifier::arithmetic},
        {"Sub", &Simplifier::arithmetic},
        {"Div", &Simplifier::arithmetic},
        {"Pow", &Simplifier::arithmetic},
        {"And", &Simplifier::arithmetic},
        {"Or", &Simplifier::arithmetic},
        {"Cast", &Simplifier::cast},
        {"CastLike", &Simplifier::cast},
        {"Expand", &Simplifier::same_extents},
        {"Resize", &Simplifier::resize},
        {"Tile", &Simplifier::same_extents},
        {"Slice", &Simplifier::slice},
        {"Pad", &Simplifier::pad},
        {"Concat", &Simplifier::concat},
        {"Split", &Simplifier::split},
        {"Sum", &Simplifier::single_operand},
        {"Max", &Simplifier::single_operand},
        {"Min", &Simplifier::single_operand},
        {"Mean", &Simplifier::single_operand},
        {"Clip", &Simplifier::clip},
        {"Not", &Simplifier::involution},
        {"Neg", &Simplifier::involution},
        {"Relu", &Simplifier::idempotent},
        {"Abs", &Simplifier::idempotent},
        {"Where", &Simplifier::where},
        {"ReduceSum", &Simplifier::reduce},
        {"ReduceMean", &Simplifier::reduce},
        {"ReduceMax", &Simplifier::reduce},
        {"ReduceMin", &Simplifier::reduce},
        {"ReduceProd", &Simplifier::reduce},
        {"Conv", &Simplifier::padded_conv},
        {"GlobalAveragePool", &Simplifier::global_pool},
        {"GlobalMaxPool", &Simplifier::global_pool}};
    const Node& n = node(id);
    const auto rule = rules.find(n.op);
    if (rule == rules.end() || n.outputs.empty() || !n.outputs[0].valid() || graph_.user_count(n.outputs[0]) == 0)
      return false;
    return (this->*rule->second)(id);
  }

 private:
  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  const TensorType& type(ValueId id) const { return graph_.type(id); }
  const TensorType& output_type(NodeId id) const { return type(node(id).outputs[0]); }
  bool has_input(NodeId id, size_t k) const { return k < node(id).inputs.size() && node(id).inputs[k].valid(); }

  Result<bool> replace(NodeId id, ValueId by) {
    AIPU_RETURN_IF_ERROR(replace_node(graph_, id, by));
    return true;
  }

  // The input takes the output's place if it has the same type.
  Result<bool> pass_through(NodeId id) {
    const ValueId input = node(id).inputs[0];
    if (!(type(input) == output_type(id))) return false;
    return replace(id, input);
  }

  Result<bool> dropout(NodeId id) {
    const Node& n = node(id);
    if (n.outputs.size() > 1 && n.outputs[1].valid() && graph_.user_count(n.outputs[1]) != 0) return false;
    return pass_through(id);
  }

  // A Squeeze without axes over a symbolic extent, which a run has to check.
  bool decides_by_extents(NodeId id) const {
    const Node& n = node(id);
    return n.op == "Squeeze" && !n.attributes.has("axes") && !has_input(id, 1) && !assumptions_of(graph_, n).empty();
  }

  // The type says where a Reshape and its relatives go; what is between two of them does not matter.
  Result<bool> view(NodeId id) {
    if (decides_by_extents(id)) return false;
    ValueId source = node(id).inputs[0];
    bool skipped = false;
    while (true) {
      const NodeId producer = graph_.value(source).producer;
      if (!producer.valid()) break;
      const std::string& op = node(producer).op;
      if (op != "Reshape" && op != "Flatten" && op != "Squeeze" && op != "Unsqueeze") break;
      if (decides_by_extents(producer)) break;
      source = node(producer).inputs[0];
      skipped = true;
    }
    const Shape shape = output_type(id).shape;
    if (type(source).shape == shape) return replace(id, source);
    AIPU_ASSIGN_OR_RETURN(const bool shuffled, depth_to_space(id, source));
    if (shuffled) return true;
    // The shape may use run symbols of the very tensor that is reshaped only through its operand.
    if (!skipped && node(id).op == "Reshape" && !has_input(id, 1)) return false;
    const OriginSet origins = node(id).origins;
    AIPU_ASSIGN_OR_RETURN(const ValueId result, reshaped(graph_, source, shape, origins));
    return replace(id, result);
  }

  // A pixel shuffle spelled out; `source` is what reaches the last Reshape.
  Result<bool> depth_to_space(NodeId id, ValueId source) {
    const NodeId middle = producer_with_op(graph_, source, "Transpose");
    if (!middle.valid() || type(source).rank() != 6) return false;
    const Permutation& perm = node(middle).attributes.ints("perm");
    const bool crd = perm == Permutation{0, 1, 4, 2, 5, 3};
    if (!crd && perm != Permutation{0, 3, 4, 1, 5, 2}) return false;
    const NodeId first = producer_with_op(graph_, node(middle).inputs[0], "Reshape");
    if (!first.valid()) return false;
    const ValueId x = node(first).inputs[0];
    const Shape from = type(x).shape;
    const Shape split = type(node(middle).inputs[0]).shape;
    const Shape to = output_type(id).shape;
    const Dim& block = split[2];
    const Dim& channels = crd ? split[1] : split[3];
    if (from.size() != 4 || !block.is_constant() || !(block == (crd ? split[3] : split[1]))) return false;
    const Shape expected_from = {split[0], channels * block * block, split[4], split[5]};
    const Shape expected_to = {split[0], channels, split[4] * block, split[5] * block};
    if (!(from == expected_from) || !(to == expected_to)) return false;
    Attributes attributes;
    attributes.set("blocksize", *block.constant());
    attributes.set("mode", std::string(crd ? "CRD" : "DCR"));
    OriginSet origins = node(id).origins;
    merge_origins(&origins, node(middle).origins);
    merge_origins(&origins, node(first).origins);
    AIPU_ASSIGN_OR_RETURN(const ValueId result, graph_.emit("DepthToSpace", std::move(attributes), {x}, origins,
                                                            graph_.value(node(id).outputs[0]).name + ".shuffled"));
    return replace(id, result);
  }

  Result<bool> transpose(NodeId id) {
    Permutation perm = node(id).attributes.ints("perm");
    ValueId source = node(id).inputs[0];
    bool merged = false;
    for (NodeId before = producer_with_op(graph_, source, "Transpose"); before.valid();
         before = producer_with_op(graph_, source, "Transpose")) {
      perm = compose(node(before).attributes.ints("perm"), perm);
      source = node(before).inputs[0];
      merged = true;
    }
    if (!merged && !moves_no_bytes(type(source).shape, perm)) return false;
    const OriginSet origins = node(id).origins;
    AIPU_ASSIGN_OR_RETURN(const ValueId result, transposed(graph_, source, perm, origins));
    return replace(id, result);
  }

  Result<bool> arithmetic(NodeId id) {
    const std::string& op = node(id).op;
    const std::vector<ValueId> inputs = node(id).inputs;
    const double neutral = op == "Mul" || op == "Div" || op == "Pow" || op == "And" ? 1 : 0;
    const bool commutes = op == "Mul" || op == "Add" || op == "And" || op == "Or";
    for (const size_t k : {size_t{1}, size_t{0}}) {
      if (k == 0 && !commutes) break;
      if (splat_of(graph_, inputs[k]) == neutral && type(inputs[1 - k]) == output_type(id))
        return replace(id, inputs[1 - k]);
    }
    return false;
  }

  Result<bool> cast(NodeId id) {
    const DType to = output_type(id).dtype;
    const ValueId input = node(id).inputs[0];
    if (type(input) == output_type(id)) return replace(id, input);
    if (node(id).op != "CastLike") return false;
    Attributes attributes;
    attributes.set("to", to);
    const OriginSet origins = node(id).origins;
    AIPU_ASSIGN_OR_RETURN(const ValueId result, graph_.emit("Cast", std::move(attributes), {input}, origins,
                                                            graph_.value(input).name + ".cast"));
    return replace(id, result);
  }

  // Broadcasting or repeating to the extents that are there already.
  // An extent that must turn out to be the operand's is checked where the node is computed.
  Result<bool> same_extents(NodeId id) {
    if (!assumptions_of(graph_, node(id)).empty()) return false;
    return pass_through(id);
  }

  Result<bool> resize(NodeId id) {
    if (node(id).attributes.s("coordinate_transformation_mode") == "tf_crop_and_resize" || has_input(id, 2) ||
        has_input(id, 1) || has_input(id, 4) || has_input(id, 5))
      return false;
    // Equal extents with a scale that is not 1 sample other places.
    if (const AttributeValue* scales = node(id).attributes.find("scales")) {
      for (const double scale : std::get<std::vector<double>>(*scales)) {
        if (scale != 1.0) return false;
      }
    }
    return pass_through(id);
  }

  Result<bool> slice(NodeId id) {
    const Attributes& a = node(id).attributes;
    if (!a.has("starts") || !a.has("steps")) return false;
    const auto& starts = a.shape("starts");
    const auto& steps = a.ints("steps");
    const bool all = std::all_of(starts.begin(), starts.end(), [](const Dim& d) { return d == Dim(0); }) &&
                     std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 1; });
    return all ? pass_through(id) : Result<bool>(false);
  }

  Result<bool> pad(NodeId id) {
    const Attributes& a = node(id).attributes;
    if (!a.has("pads")) return false;
    const auto& pads = a.shape("pads");
    return std::all_of(pads.begin(), pads.end(), [](const Dim& d) { return d == Dim(0); }) ? pass_through(id)
                                                                                           : Result<bool>(false);
  }

  Result<bool> concat(NodeId id) {
    const auto axis = static_cast<size_t>(node(id).attributes.i("axis"));
    const std::vector<ValueId> inputs = node(id).inputs;
    std::vector<ValueId> kept;
    for (const ValueId input : inputs) {
      if (!(type(input).shape[axis] == Dim(0))) kept.push_back(input);
    }
    if (kept.size() == 1 && type(kept[0]) == output_type(id)) return replace(id, kept[0]);
    const NodeId prefix = longest_prefix(id, axis, kept);
    if (prefix.valid()) {
      const size_t count = node(prefix).inputs.size();
      std::vector<ValueId> rest{node(prefix).outputs[0]};
      rest.insert(rest.end(), kept.begin() + static_cast<ptrdiff_t>(count), kept.end());
      graph_.node(id).inputs = std::move(rest);
      return true;
    }
    if (kept.size() == inputs.size() || kept.empty()) return false;
    graph_.node(id).inputs = kept;
    return true;
  }

  // Another Concat on the axis that begins with at least two, but not all of the same inputs; the longest. Wide pieces
  // are copied faster than many thin ones, and the last operand is left with a single user.
  NodeId longest_prefix(NodeId id, size_t axis, const std::vector<ValueId>& inputs) const {
    NodeId best;
    if (inputs.size() < 3) return best;
    size_t length = 1;
    for (const NodeId user : graph_.users(inputs[0])) {
      const Node& other = node(user);
      if (user == id || other.erased || other.op != "Concat" || static_cast<size_t>(other.attributes.i("axis")) != axis)
        continue;
      if (other.inputs.size() <= length || other.inputs.size() >= inputs.size() ||
          graph_.user_count(other.outputs[0]) == 0)
        continue;
      if (!std::equal(other.inputs.begin(), other.inputs.end(), inputs.begin())) continue;
      length = other.inputs.size();
      best = user;
    }
    return best;
  }

  Result<bool> split(NodeId id) { return node(id).outputs.size() == 1 ? pass_through(id) : Result<bool>(false); }

  Result<bool> single_operand(NodeId id) {
    return node(id).inputs.size() == 1 ? pass_through(id) : Result<bool>(false);
  }

  Result<bool> clip(NodeId id) { return has_input(id, 1) || has_input(id, 2) ? Result<bool>(false) : pass_through(id); }

  Result<bool> involution(NodeId id) {
    const NodeId before = producer_with_op(graph_, node(id).inputs[0], node(id).op);
    if (!before.valid()) return false;
    return replace(id, node(before).inputs[0]);
  }

  Result<bool> idempotent(NodeId id) {
    const NodeId before = producer_with_op(graph_, node(id).inputs[0], node(id).op);
    return before.valid() ? pass_through(id) : Result<bool>(false);
  }

  Result<bool> where(NodeId id) {
    const auto condition = splat_of(graph_, node(id).inputs[0]);
    if (!condition) return false;
    const ValueId chosen = node(id).inputs[*condition != 0 ? 1 : 2];
    return type(chosen) == output_type(id) ? replace(id, chosen) : Result<bool>(false);
  }

  // Over extents of 1 there is nothing to reduce.
  Result<bool> reduce(NodeId id) {
    const Attributes& a = node(id).attributes;
    if (has_input(id, 1) || !a.has("axes")) return false;
    const ValueId input = node(id).inputs[0];
    const auto& axes = a.ints("axes");
    if (axes.empty()) return false;
    for (const int64_t axis : axes) {
      if (!(type(input).shape[static_cast<size_t>(axis)] == Dim(1))) return false;
    }
    const OriginSet origins = node(id).origins;
    const Shape shape = output_type(id).shape;
    AIPU_ASSIGN_OR_RETURN(const ValueId result, reshaped(graph_, input, shape, origins));
    return replace(id, result);
  }

  Result<bool> global_pool(NodeId id) { return pass_through(id); }  // same type: all spatial extents are 1

  Result<bool> padded_conv(NodeId id) {
    const NodeId pad = producer_with_op(graph_, node(id).inputs[0], "Pad");
    if (!pad.valid()) return false;
    const Node& p = node(pad);
    const Node& conv = node(id);
    if (p.attributes.s("mode") != "constant" || !p.attributes.has("pads") || has_input(pad, 1) ||
        conv.attributes.s("auto_pad") != "NOTSET")
      return false;
    if (has_input(pad, 2) && splat_of(graph_, p.inputs[2]) != 0.0) return false;
    const Shape& amounts = p.attributes.shape("pads");
    const size_t rank = amounts.size() / 2;
    const bool channels_last = conv.attributes.s("layout") == "NHWC";
    std::vector<int64_t> pads = conv.attributes.ints("pads");
    if (pads.size() != 2 * (rank - 2)) return false;
    for (size_t axis = 0; axis < rank; ++axis) {
      const bool spatial = axis != 0 && axis != (channels_last ? rank - 1 : 1);
      for (const size_t side : {size_t{0}, size_t{1}}) {
        const auto amount = amounts[side * rank + axis].constant();
        if (!amount || *amount < 0 || *amount > (1 << 20) || (!spatial && *amount != 0)) return false;
        if (spatial) pads[side * (rank - 2) + axis - (channels_last ? 1 : 2)] += *amount;
      }
    }
    const ValueId source = p.inputs[0];
    const OriginSet origins = p.origins;
    Node& changed = graph_.node(id);
    changed.attributes.set("pads", std::move(pads));
    changed.inputs[0] = source;
    merge_origins(&changed.origins, origins);
    return true;
  }

  Graph& graph_;
};

}  // namespace

Result<int> simplify_algebra(Graph& graph, PassContext&) {
  int total = 0;
  constexpr int kMaxRounds = 16;  // each makes the graph smaller; more would be a rule that undoes another
  for (int round = 0; round < kMaxRounds; ++round) {
    int count = 0;
    Simplifier simplifier(graph);
    for (const NodeId id : graph.topological_order()) {
      if (std::as_const(graph).node(id).erased) continue;
      const OriginSet origins = std::as_const(graph).node(id).origins;
      auto changed = simplifier.visit(id);
      if (!changed.ok()) return std::move(changed).status().context(str_cat("node ", origins_text(origins)));
      count += *changed ? 1 : 0;
    }
    if (count == 0) break;
    graph.erase_dead_nodes();
    total += count;
  }
  return total;
}

}  // namespace aipu::graph
