// merge_branches: convolutions of one tensor whose results are added become one, with the sum of their weights.
//
//   x ─┬─ Conv(w: 3x3, b, pads 1) ─┐
//      ├─ Conv(v: 1x1, c) ──────── Add ─ Add ─ y  =>  x ─ Conv(w + v in the middle + a on the diagonal, b + c + d) ─ y
//      └─ Mul(a) ─ Add(d) ─────────────── ┘           a and d: constants, one per channel; both may be missing
//
// Networks that are trained with such branches (RepVGG, MobileOne, RepViT, FastViT) are often exported with them, and
// x + depthwise(x) is how many transformers of images tell places.
//
// Taps meet the same pixels: the kernel of one lies within the other's. Weights are added as doubles and rounded once.
// Only where products take them as they are: 16 bits for 1 + w leave little of a small w.
#include <algorithm>
#include <optional>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace aipu::graph {
namespace {

// What is added to x per channel, instead of a convolution.
struct Scaled {
  std::vector<double> scale;
  std::vector<double> shift;
};

class BranchMerger {
 public:
  explicit BranchMerger(Graph& graph) : graph_(graph) {}

  Result<bool> visit(NodeId id) {
    if (node(id).op != "Add") return false;
    const std::vector<ValueId> operands = node(id).inputs;
    const ValueId sum = node(id).outputs[0];
    if (operands[0] == operands[1] || !(shape(operands[0]) == shape(sum)) || !(shape(operands[1]) == shape(sum)))
      return false;
    for (const size_t which : {size_t{0}, size_t{1}}) {
      const NodeId conv = plain_conv(operands[which]);
      if (!conv.valid()) continue;
      const ValueId other = operands[1 - which];
      std::optional<Weights> merged;
      const NodeId second = plain_conv(other);
      if (second.valid()) {
        if (const auto offset = place_of(second, conv)) merged = with_conv(conv, second, *offset);
      } else if (const auto scaled = scaled_input(other, node(conv).inputs[0])) {
        merged = with_scaled(conv, *scaled);
      }
      if (!merged) continue;
      AIPU_RETURN_IF_ERROR(replace(id, conv, *merged));
      return true;
    }
    return false;
  }

 private:
  struct Weights {
    std::vector<double> taps;
    std::vector<double> bias;
  };

  const Node& node(NodeId id) const { return std::as_const(graph_).node(id); }
  const Shape& shape(ValueId id) const { return graph_.type(id).shape; }
  const Constant& weight(NodeId conv) const { return *graph_.constant(node(conv).inputs[1]); }
  static size_t channels(const Constant& weight) { return static_cast<size_t>(weight.shape()[0]); }

  // The Conv with constants that makes the value for nobody but the sum.
  NodeId plain_conv(ValueId value) const {
    const NodeId id = producer_with_op(graph_, value, "Conv");
    if (!id.valid() || !used_once(graph_, value)) return {};
    const Node& conv = node(id);
    const Constant* taps = graph_.constant(conv.inputs[1]);
    if (taps == nullptr || (taps->dtype() != DType::kF32 && taps->dtype() != DType::kF64) ||
        conv.attributes.s("auto_pad") != "NOTSET" || conv.attributes.s("layout") != "NCHW")
      return {};
    if (has_bias(conv)) {
      const Constant* bias = graph_.constant(conv.inputs[2]);
      if (bias == nullptr || bias->element_count() != taps->shape()[0]) return {};
    }
    return id;
  }

  static bool has_bias(const Node& conv) { return conv.inputs.size() > 2 && conv.inputs[2].valid(); }

  std::vector<double> bias_of(NodeId conv) const {
    if (!has_bias(node(conv))) return std::vector<double>(channels(weight(conv)), 0.0);
    return graph_.constant(node(conv).inputs[2])->to_doubles();
  }

  // By axis, at which of the taps of `outer` those of `inner` begin; nullopt if they meet other pixels.
  std::optional<std::vector<int64_t>> place_of(NodeId inner, NodeId outer) const {
    const Attributes &a = node(inner).attributes, &b = node(outer).attributes;
    const Constant &small = weight(inner), &large = weight(outer);
    if (node(inner).inputs[0] != node(outer).inputs[0] || small.dtype() != large.dtype() ||
        a.i("group") != b.i("group") || a.ints("strides") != b.ints("strides"))
      return std::nullopt;
    std::vector<int64_t> begin;
    for (size_t axis = 0; axis + 2 < large.shape().size(); ++axis) {
      const int64_t inner_taps = small.shape()[axis + 2], outer_taps = large.shape()[axis + 2];
      const int64_t step = b.ints("dilations")[axis];
      if (inner_taps > 1 && a.ints("dilations")[axis] != step) return std::nullopt;
      const int64_t pixels = b.ints("pads")[axis] - a.ints("pads")[axis];
      if (pixels < 0 || pixels % step != 0 || pixels / step + inner_taps > outer_taps) return std::nullopt;
      begin.push_back(pixels / step);
    }
    return begin;
  }

  Weights with_conv(NodeId outer, NodeId inner, const std::vector<int64_t>& begin) const {
    Weights result{weight(outer).to_doubles(), bias_of(outer)};
    const std::vector<int64_t>&from = weight(inner).shape(), &to = weight(outer).shape();
    const std::vector<double> added = weight(inner).to_doubles(), bias = bias_of(inner);
    for (size_t k = 0; k < added.size(); ++k) {
      size_t rest = k, at = 0, stride = 1;
      for (size_t axis = to.size(); axis-- > 0;) {
        const auto index = rest % static_cast<size_t>(from[axis]);
        rest /= static_cast<size_t>(from[axis]);
        at += stride * (index + (axis < 2 ? 0 : static_cast<size_t>(begin[axis - 2])));
        stride *= static_cast<size_t>(to[axis]);
      }
      result.taps[at] += added[k];
    }
    for (size_t c = 0; c < bias.size(); ++c) result.bias[c] += bias[c];
    return result;
  }

  // x, or x with a factor and a summand per channel.
  std::optional<Scaled> scaled_input(ValueId value, ValueId x) const {
    const auto count = shape(x)[1].constant();
    if (!count || *count < 1) return std::nullopt;
    const auto n = static_cast<size_t>(*count);
    Scaled result{std::vector<double>(n, 1.0), std::vector<double>(n, 0.0)};
    while (value != x) {
      const NodeId id = graph_.value(value).producer;
      if (!id.valid() || !used_once(graph_, value) || (node(id).op != "Mul" && node(id).op != "Add"))
        return std::nullopt;
      const size_t which = graph_.constant(node(id).inputs[0]) != nullptr ? 0 : 1;
      const auto numbers = per_channel(graph_, node(id).inputs[which], shape(value).size(), 1, n);
      const ValueId next = node(id).inputs[1 - which];
      if (!numbers || !(shape(next) == shape(value))) return std::nullopt;
      // Seen from below: what comes behind has been gathered.
      for (size_t c = 0; c < n; ++c) {
        if (node(id).op == "Mul") result.scale[c] *= (*numbers)[c];
        if (node(id).op == "Add") result.shift[c] += result.scale[c] * (*numbers)[c];
      }
      value = next;
    }
    return result;
  }

  std::optional<Weights> with_scaled(NodeId conv, const Scaled& scaled) const {
    const Attributes& attributes = node(conv).attributes;
    const std::vector<int64_t>& extents = weight(conv).shape();
    const auto per_group = static_cast<size_t>(extents[1]);
    if (scaled.scale.size() != channels(weight(conv))) return std::nullopt;
    size_t tap = 0, taps = 1;
    for (size_t axis = 0; axis + 2 < extents.size(); ++axis) {
      const int64_t step = attributes.ints("dilations")[axis], pad = attributes.ints("pads")[axis];
      if (attributes.ints("strides")[axis] != 1 || pad < 0 || pad % step != 0 || pad / step >= extents[axis + 2])
        return std::nullopt;
      tap = tap * static_cast<size_t>(extents[axis + 2]) + static_cast<size_t>(pad / step);
      taps *= static_cast<size_t>(extents[axis + 2]);
    }
    Weights result{weight(conv).to_doubles(), bias_of(conv)};
    for (size_t c = 0; c < scaled.scale.size(); ++c) {
      result.taps[(c * per_group + c % per_group) * taps + tap] += scaled.scale[c];
      result.bias[c] += scaled.shift[c];
    }
    return result;
  }

  Status replace(NodeId sum, NodeId conv, const Weights& weights) {
    const Constant& old = weight(conv);
    const std::string name = graph_.value(node(sum).outputs[0]).name;
    std::vector<ValueId> inputs = {
        node(conv).inputs[0],
        graph_.add_constant(float_constant(old.dtype(), old.shape(), weights.taps), name + ".weight")};
    // A bias of zeros costs as much as any other.
    if (std::any_of(weights.bias.begin(), weights.bias.end(), [](double element) { return element != 0; })) {
      inputs.push_back(graph_.add_constant(
          float_constant(old.dtype(), {static_cast<int64_t>(weights.bias.size())}, weights.bias), name + ".bias"));
    }
    OriginSet origins = node(sum).origins;
    for (const ValueId operand : node(sum).inputs) {
      const NodeId producer = graph_.value(operand).producer;
      if (producer.valid() && used_once(graph_, operand)) merge_origins(&origins, node(producer).origins);
    }
    const Attributes attributes = node(conv).attributes;
    AIPU_ASSIGN_OR_RETURN(const ValueId merged, graph_.emit("Conv", attributes, std::move(inputs), origins, name));
    return replace_node(graph_, sum, merged);
  }

  Graph& graph_;
};

}  // namespace

Result<int> merge_branches(Graph& graph, PassContext& context) {
  if (context.precision != DType::kF32 || !context.precision_rules.empty()) return 0;
  int count = 0;
  BranchMerger merger(graph);
  for (const NodeId id : graph.topological_order()) {
    if (std::as_const(graph).node(id).erased) continue;
    AIPU_ASSIGN_OR_RETURN(const bool changed, merger.visit(id));
    count += changed ? 1 : 0;
  }
  if (count != 0) graph.erase_dead_nodes();
  return count;
}

}  // namespace aipu::graph
