#include "graph/passes/relayout.h"

#include <algorithm>
#include <numeric>

#include "graph/ir/op_def.h"

namespace aipu::graph {
namespace {

using Operand = Relayout::Operand;

constexpr int64_t kFewRows = 16;  // fewer than the lanes of a wide vector of float32

// Reads what the op's record says of its axes and attributes.
class Planner {
 public:
  Planner(const Graph& graph, const Node& node, const OpDef& def, const Permutation& perm)
      : graph_(graph), node_(node), def_(def), perm_(perm), place_(inverse(perm)) {
    result_.attributes = node.attributes;
  }

  std::optional<Relayout> run() {
    if (!node_.subgraphs.empty() || node_.inputs.empty() || !node_.inputs[0].valid()) return std::nullopt;
    if (!node_.outputs[0].valid() && node_.outputs.size() == 1) return std::nullopt;
    if (is_border()) return std::nullopt;
    if (const AttributeDef* shape = view_shape()) return view(shape->name);
    if ((def_.traits & (kElementwise | kAnyAxisOrder)) == 0) return std::nullopt;
    const auto map = axis_map(def_, graph_, node_);
    if (!map || !move_attributes() || !move_operands(*map) || !move_outputs(*map) || leaves_lanes_idle())
      return std::nullopt;
    return std::move(result_);
  }

 private:
  // A BitCast between an input or output of the model and what kernels know (lower_stored_types).
  bool is_border() const {
    const auto is_stored = [&](ValueId value) { return value.valid() && !is_computed(graph_.type(value).dtype); };
    return is_stored(node_.inputs[0]) || is_stored(node_.outputs[0]);
  }
  size_t rank(size_t input) const { return graph_.type(node_.inputs[input]).shape.size(); }

  bool permute(std::string_view name, const Shape& list) {
    if (list.size() != perm_.size()) return false;
    result_.attributes.set(name, permuted(list, perm_));
    return true;
  }
  bool permute(std::string_view name, const std::vector<int64_t>& list) {
    if (list.size() != perm_.size()) return false;
    std::vector<int64_t> moved;
    for (const int64_t axis : perm_) moved.push_back(list[static_cast<size_t>(axis)]);
    result_.attributes.set(name, std::move(moved));
    return true;
  }
  bool move_axis(std::string_view name, int64_t axis) {
    if (axis < 0 || axis >= static_cast<int64_t>(perm_.size())) return false;
    result_.attributes.set(name, place_[static_cast<size_t>(axis)]);
    return true;
  }
  bool move_axes(std::string_view name, const std::vector<int64_t>& axes) {
    std::vector<int64_t> moved;
    for (const int64_t axis : axes) moved.push_back(place_[static_cast<size_t>(axis)]);
    std::sort(moved.begin(), moved.end());
    result_.attributes.set(name, std::move(moved));
    return true;
  }
  // An element for each beginning, then one for each end.
  bool move_ends(std::string_view name, const Shape& ends) {
    if (ends.size() != 2 * perm_.size()) return false;
    const auto half = ends.begin() + static_cast<std::ptrdiff_t>(perm_.size());
    Shape moved = permuted(Shape(ends.begin(), half), perm_);
    const Shape behind = permuted(Shape(half, ends.end()), perm_);
    moved.insert(moved.end(), behind.begin(), behind.end());
    result_.attributes.set(name, std::move(moved));
    return true;
  }
  bool move_attributes() {
    return std::all_of(def_.attributes.begin(), def_.attributes.end(), [&](const AttributeDef& attribute) {
      const Attributes& a = node_.attributes;
      const std::string& name = attribute.name;
      if (!a.has(name)) return true;
      switch (attribute.axes) {
        case AttributeAxes::kNone:
          return true;
        case AttributeAxes::kAxis:
          return move_axis(name, a.i(name));
        case AttributeAxes::kAxes:
          return move_axes(name, a.ints(name));
        case AttributeAxes::kPerAxis:
          return attribute.kind == AttributeKind::kInts ? permute(name, a.ints(name)) : permute(name, a.shape(name));
        case AttributeAxes::kPerEnd:
          return move_ends(name, a.shape(name));
        case AttributeAxes::kViewAs:
          return false;
      }
      return false;
    });
  }

  // Operands with the axes of input 0 move with it. What has an axis at most is the same in any order.
  bool move_operands(const AxisMap& map) {
    if ((def_.traits & kElementwise) != 0) {
      result_.operands.assign(node_.inputs.size(), Operand::kBroadcast);
      return true;
    }
    result_.operands.assign(node_.inputs.size(), Operand::kKeep);
    for (size_t k = 0; k < node_.inputs.size(); ++k) {
      if (!node_.inputs[k].valid()) continue;
      if (k == 0 || runs_along_with_first(map, k)) {
        if (rank(k) != perm_.size()) return false;
        result_.operands[k] = Operand::kPermuted;
      } else if (rank(k) > 1) {
        return false;
      }
    }
    return true;
  }
  static bool runs_along_with_first(const AxisMap& map, size_t input) {
    return std::all_of(map.begin(), map.end(), [&](const std::vector<OutputAxis>& output) {
      return std::all_of(output.begin(), output.end(), [&](const OutputAxis& axis) {
        return axis.from[input] != OutputAxis::kNone && axis.from[input] == axis.from[0];
      });
    });
  }

  // The outputs' axes follow those that they come from.
  bool move_outputs(const AxisMap& map) {
    for (size_t k = 0; k < map.size(); ++k) {
      // Operands that are broadcast may have fewer axes than the output, counted from the end.
      const bool elementwise = (def_.traits & kElementwise) != 0;
      if (elementwise && node_.outputs[k].valid() && map[k].size() != perm_.size()) return false;
      auto order = elementwise ? std::optional(perm_) : order_of_sources(map[k]);
      if (!order) return false;
      result_.output_perms.push_back(*std::move(order));
    }
    return true;
  }
  std::optional<Permutation> order_of_sources(const std::vector<OutputAxis>& axes) const {
    Permutation order(axes.size());
    std::iota(order.begin(), order.end(), 0);
    const auto source = [&](int64_t axis) { return axes[static_cast<size_t>(axis)].from[0]; };
    if (std::any_of(order.begin(), order.end(), [&](int64_t axis) { return source(axis) == OutputAxis::kNone; }))
      return std::nullopt;
    std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
      return place_[static_cast<size_t>(source(x))] < place_[static_cast<size_t>(source(y))];
    });
    return order;
  }

  // Functions along rows (Softmax) run side by side where the rows are not contiguous: of a few of them most lanes of a
  // vector would be idle, in every exponential, and transposing costs less. Talking heads are such rows.
  bool leaves_lanes_idle() const {
    if ((def_.traits & kElementwise) != 0 || (def_.traits & kFloatInside) == 0 || !node_.attributes.has("axis"))
      return false;
    const Shape& from = graph_.type(node_.inputs[0]).shape;
    const auto behind = [](const Shape& shape, int64_t axis) {
      return element_count(Shape(shape.begin() + axis + 1, shape.end()));
    };
    const auto beside = behind(permuted(from, perm_), result_.attributes.i("axis")).constant();
    return behind(from, node_.attributes.i("axis")) == Dim(1) && beside && *beside > 1 && *beside < kFewRows;
  }

  const AttributeDef* view_shape() const {
    const auto found = std::find_if(def_.attributes.begin(), def_.attributes.end(), [&](const AttributeDef& attribute) {
      return attribute.axes == AttributeAxes::kViewAs && node_.attributes.has(attribute.name);
    });
    return found != def_.attributes.end() ? &*found : nullptr;
  }
  // Of images: batch and channels stay, the spatial axes are spelled differently.
  std::optional<Relayout> view(const std::string& attribute) {
    const Shape& from = graph_.type(node_.inputs[0]).shape;
    const Shape& to = graph_.type(node_.outputs[0]).shape;
    if (from.size() < 3 || to.size() < 3 || !(from[0] == to[0]) || !(from[1] == to[1]) ||
        perm_ != to_channels_last(from.size()))
      return std::nullopt;
    if (std::any_of(node_.inputs.begin() + 1, node_.inputs.end(), [](ValueId input) { return input.valid(); }))
      return std::nullopt;
    const Permutation perm = to_channels_last(to.size());
    result_.attributes.set(attribute, permuted(to, perm));
    result_.operands.assign(node_.inputs.size(), Operand::kKeep);
    result_.operands[0] = Operand::kPermuted;
    result_.output_perms = {perm};
    return std::move(result_);
  }

  const Graph& graph_;
  const Node& node_;
  const OpDef& def_;
  const Permutation& perm_;
  Permutation place_;  // where an axis goes
  Relayout result_;
};

}  // namespace

std::optional<Relayout> relayout(const Graph& graph, const Node& node, const Permutation& perm) {
  const OpDef* def = graph.find_op(node.op);
  return def == nullptr ? std::nullopt : Planner(graph, node, *def, perm).run();
}

Permutation to_channels_last(size_t rank) {
  Permutation perm(rank, 0);
  for (size_t k = 1; k + 1 < rank; ++k) perm[k] = static_cast<int64_t>(k) + 1;
  if (rank > 1) perm[rank - 1] = 1;
  return perm;
}

bool has_one_element(const TensorType& type) { return element_count(type.shape) == Dim(1); }

}  // namespace aipu::graph
