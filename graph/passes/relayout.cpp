#include "graph/passes/relayout.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "graph/ir/op_def.h"

namespace aipu::graph {
namespace {

using Operand = Relayout::Operand;

class Planner {
 public:
  Planner(const Graph& graph, const Node& node, const Permutation& perm)
      : graph_(graph), node_(node), perm_(perm), place_(inverse(perm)) {
    result_.attributes = node.attributes;
    result_.operands.assign(node.inputs.size(), Operand::kKeep);
    result_.output_perms.assign(node.outputs.size(), perm);
  }

  std::optional<Relayout> run() {
    const OpDef* def = find_op(node_.op);
    if (def == nullptr || !node_.subgraphs.empty() || node_.inputs.empty() || !node_.inputs[0].valid())
      return std::nullopt;
    if (!node_.outputs[0].valid() && node_.outputs.size() == 1) return std::nullopt;
    bool possible = false;
    if ((def->traits & kElementwise) != 0) {
      possible = elementwise();
    } else {
      static const std::map<std::string_view, bool (Planner::*)()> rules = {{"Concat", &Planner::concat},
                                                                            {"Split", &Planner::along_axis},
                                                                            {"Slice", &Planner::slice},
                                                                            {"Pad", &Planner::pad},
                                                                            {"Expand", &Planner::expand},
                                                                            {"Tile", &Planner::tile},
                                                                            {"Softmax", &Planner::along_axis},
                                                                            {"LogSoftmax", &Planner::along_axis},
                                                                            {"Hardmax", &Planner::along_axis},
                                                                            {"CumSum", &Planner::along_axis},
                                                                            {"TopK", &Planner::along_axis},
                                                                            {"LpNormalization", &Planner::along_axis},
                                                                            {"ReduceL1", &Planner::reduce},
                                                                            {"ReduceL2", &Planner::reduce},
                                                                            {"ReduceLogSum", &Planner::reduce},
                                                                            {"ReduceLogSumExp", &Planner::reduce},
                                                                            {"ReduceMax", &Planner::reduce},
                                                                            {"ReduceMean", &Planner::reduce},
                                                                            {"ReduceMin", &Planner::reduce},
                                                                            {"ReduceProd", &Planner::reduce},
                                                                            {"ReduceSum", &Planner::reduce},
                                                                            {"ReduceSumSquare", &Planner::reduce},
                                                                            {"ArgMax", &Planner::arg_reduce},
                                                                            {"ArgMin", &Planner::arg_reduce},
                                                                            {"QuantizeLinear", &Planner::quantize},
                                                                            {"DequantizeLinear", &Planner::quantize},
                                                                            {"Gather", &Planner::gather},
                                                                            {"Reshape", &Planner::reshape}};
      const auto rule = rules.find(node_.op);
      possible = rule != rules.end() && rank(0) == perm_.size() && (this->*rule->second)();
    }
    if (!possible) return std::nullopt;
    return std::move(result_);
  }

 private:
  size_t rank(size_t input) const { return graph_.type(node_.inputs[input]).shape.size(); }
  bool has_input(size_t k) const { return k < node_.inputs.size() && node_.inputs[k].valid(); }
  // Input 0 is moved, the others are absent.
  bool only_first() {
    result_.operands[0] = Operand::kPermuted;
    for (size_t k = 1; k < node_.inputs.size(); ++k) {
      if (node_.inputs[k].valid()) return false;
    }
    return true;
  }
  bool move_axis(std::string_view attribute) {
    if (!node_.attributes.has(attribute)) return false;
    const int64_t axis = node_.attributes.i(attribute);
    if (axis < 0 || axis >= static_cast<int64_t>(perm_.size())) return false;
    result_.attributes.set(attribute, place_[static_cast<size_t>(axis)]);
    return true;
  }

  bool elementwise() {
    // What widens by broadcasting has operands of other ranks; their axes are counted from the end.
    for (const ValueId output : node_.outputs) {
      if (output.valid() && graph_.type(output).shape.size() != perm_.size()) return false;
    }
    result_.operands.assign(node_.inputs.size(), Operand::kBroadcast);
    return true;
  }
  bool concat() {
    result_.operands.assign(node_.inputs.size(), Operand::kPermuted);
    return move_axis("axis");
  }
  bool along_axis() { return only_first() && move_axis("axis"); }
  bool slice() {
    const Attributes& a = node_.attributes;
    if (!only_first() || !a.has("starts") || !a.has("steps") || !a.has("extents")) return false;
    if (a.shape("starts").size() != perm_.size() || a.ints("steps").size() != perm_.size() ||
        a.shape("extents").size() != perm_.size())
      return false;
    std::vector<int64_t> steps;
    for (const int64_t axis : perm_) steps.push_back(a.ints("steps")[static_cast<size_t>(axis)]);
    result_.attributes.set("starts", permuted(a.shape("starts"), perm_));
    result_.attributes.set("extents", permuted(a.shape("extents"), perm_));
    result_.attributes.set("steps", std::move(steps));
    return true;
  }
  bool pad() {
    const Attributes& a = node_.attributes;
    result_.operands[0] = Operand::kPermuted;
    if (has_input(1) || has_input(3) || !a.has("pads") || a.shape("pads").size() != 2 * perm_.size()) return false;
    const Shape& pads = a.shape("pads");
    const auto half = static_cast<std::ptrdiff_t>(perm_.size());
    Shape moved = permuted(Shape(pads.begin(), pads.begin() + half), perm_);
    const Shape ends = permuted(Shape(pads.begin() + half, pads.end()), perm_);
    moved.insert(moved.end(), ends.begin(), ends.end());
    result_.attributes.set("pads", std::move(moved));
    return true;
  }
  bool expand() {
    if (!only_first() || !node_.attributes.has("shape") || graph_.type(node_.outputs[0]).shape.size() != perm_.size())
      return false;
    if (node_.attributes.shape("shape").size() != perm_.size()) return false;
    result_.attributes.set("shape", permuted(node_.attributes.shape("shape"), perm_));
    return true;
  }
  bool tile() {
    if (!only_first() || !node_.attributes.has("repeats") || node_.attributes.shape("repeats").size() != perm_.size())
      return false;
    result_.attributes.set("repeats", permuted(node_.attributes.shape("repeats"), perm_));
    return true;
  }

  // The order of the axes that stay, as a permutation of the result.
  Permutation remaining(const std::vector<int64_t>& gone) const {
    std::vector<int64_t> kept;
    for (int64_t axis = 0; axis < static_cast<int64_t>(perm_.size()); ++axis) {
      if (std::find(gone.begin(), gone.end(), axis) == gone.end()) kept.push_back(axis);
    }
    Permutation order(kept.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
      return place_[static_cast<size_t>(kept[static_cast<size_t>(x)])] <
             place_[static_cast<size_t>(kept[static_cast<size_t>(y)])];
    });
    return order;
  }
  bool reduce() {
    if (!only_first() || !node_.attributes.has("axes")) return false;
    const std::vector<int64_t> axes = node_.attributes.ints("axes");
    std::vector<int64_t> moved;
    for (const int64_t axis : axes) moved.push_back(place_[static_cast<size_t>(axis)]);
    std::sort(moved.begin(), moved.end());
    result_.attributes.set("axes", std::move(moved));
    // No axes: all, or none under noop_with_empty_axes.
    if (axes.empty()) return node_.attributes.i("keepdims") != 0;
    if (node_.attributes.i("keepdims") == 0) result_.output_perms[0] = remaining(axes);
    return true;
  }
  bool arg_reduce() {
    const int64_t axis = node_.attributes.i("axis");
    if (!only_first() || !move_axis("axis")) return false;
    if (node_.attributes.i("keepdims") == 0) result_.output_perms[0] = remaining({axis});
    return true;
  }
  bool quantize() {
    result_.operands[0] = Operand::kPermuted;
    if (node_.attributes.i_or("block_size", 0) != 0) return false;
    // One scale for all: the axis is not looked at and may not exist.
    if (has_one_element(graph_.type(node_.inputs[1]))) {
      result_.attributes.set("axis", int64_t{0});
      return true;
    }
    return move_axis("axis");
  }
  bool gather() {
    result_.operands[0] = Operand::kPermuted;
    return rank(1) == 1 && move_axis("axis");
  }
  // Batch and channels stay, the spatial axes are spelled differently.
  bool reshape() {
    const Shape& from = graph_.type(node_.inputs[0]).shape;
    const Shape& to = graph_.type(node_.outputs[0]).shape;
    if (from.size() < 3 || to.size() < 3 || !(from[0] == to[0]) || !(from[1] == to[1]) ||
        perm_ != to_channels_last(from.size()))
      return false;
    const Permutation perm = to_channels_last(to.size());
    if (!only_first()) return false;
    result_.attributes.set("shape", permuted(to, perm));
    result_.output_perms[0] = perm;
    return true;
  }

  const Graph& graph_;
  const Node& node_;
  const Permutation& perm_;
  Permutation place_;  // where an axis goes
  Relayout result_;
};

}  // namespace

std::optional<Relayout> relayout(const Graph& graph, const Node& node, const Permutation& perm) {
  return Planner(graph, node, perm).run();
}

Permutation to_channels_last(size_t rank) {
  Permutation perm(rank, 0);
  for (size_t k = 1; k + 1 < rank; ++k) perm[k] = static_cast<int64_t>(k) + 1;
  if (rank > 1) perm[rank - 1] = 1;
  return perm;
}

bool has_one_element(const TensorType& type) { return element_count(type.shape) == Dim(1); }

}  // namespace aipu::graph
