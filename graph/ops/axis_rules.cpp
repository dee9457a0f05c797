#include "graph/ops/axis_rules.h"

#include <algorithm>
#include <numeric>

namespace aipu::graph {
namespace {

const Shape& shape_of(const Graph& graph, const Node& node, size_t input) {
  return graph.type(node.inputs[input]).shape;
}

// Outputs with the axes of input 0, of which `whole` says whether they are needed as a whole.
template <typename Whole>
AxisMap same_axes(const Graph& graph, const Node& node, Whole whole) {
  AxisMapBuilder map(graph, node);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    map.link_leading(k, 0, map.input_rank(0));
    for (size_t axis = 0; axis < map.output_rank(k); ++axis) map.apart(k, axis, !whole(static_cast<int64_t>(axis)));
  }
  return map.take();
}

}  // namespace

AxisMapBuilder::AxisMapBuilder(const Graph& graph, const Node& node) : graph_(graph), node_(node) {
  const OutputAxis unknown{std::vector<int>(node.inputs.size(), OutputAxis::kNone), false};
  for (const ValueId output : node.outputs)
    map_.emplace_back(output.valid() ? graph.type(output).shape.size() : 0, unknown);
}

bool AxisMapBuilder::has_input(size_t input) const {
  return input < node_.inputs.size() && node_.inputs[input].valid();
}

size_t AxisMapBuilder::input_rank(size_t input) const {
  return has_input(input) ? shape_of(graph_, node_, input).size() : 0;
}

size_t AxisMapBuilder::output_rank(size_t output) const { return output < map_.size() ? map_[output].size() : 0; }

const Dim& AxisMapBuilder::input_extent(size_t input, size_t axis) const {
  return shape_of(graph_, node_, input)[axis];
}

const Dim& AxisMapBuilder::output_extent(size_t output, size_t axis) const {
  return graph_.type(node_.outputs[output]).shape[axis];
}

AxisMapBuilder& AxisMapBuilder::link(size_t output, size_t axis, size_t input, size_t input_axis) {
  if (axis < output_rank(output) && input_axis < input_rank(input))
    map_[output][axis].from[input] = static_cast<int>(input_axis);
  return *this;
}

AxisMapBuilder& AxisMapBuilder::apart(size_t output, size_t axis, bool apart) {
  if (axis < output_rank(output)) map_[output][axis].apart = apart;
  return *this;
}

AxisMapBuilder& AxisMapBuilder::link_leading(size_t output, size_t input, size_t count) {
  for (size_t axis = 0; axis < count; ++axis) link(output, axis, input, axis).apart(output, axis);
  return *this;
}

AxisMapBuilder& AxisMapBuilder::link_trailing(size_t output, size_t input) {
  const size_t rank = output_rank(output);
  for (size_t k = 1; k <= std::min(rank, input_rank(input)); ++k) link(output, rank - k, input, input_rank(input) - k);
  for (size_t axis = 0; axis < rank; ++axis) apart(output, axis);
  return *this;
}

namespace axes {

AxisRule mixed() {
  return [](const Graph& graph, const Node& node) { return AxisMapBuilder(graph, node).take(); };
}

AxisRule broadcast() {
  return [](const Graph& graph, const Node& node) {
    std::vector<size_t> all(node.inputs.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return broadcast_of(std::move(all))(graph, node);
  };
}

AxisRule broadcast_of(std::vector<size_t> inputs) {
  return [inputs = std::move(inputs)](const Graph& graph, const Node& node) {
    AxisMapBuilder map(graph, node);
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      for (const size_t input : inputs) map.link_trailing(k, input);
    }
    return map.take();
  };
}

AxisRule along(std::string attribute) {
  return [attribute = std::move(attribute)](const Graph& graph, const Node& node) -> std::optional<AxisMap> {
    const AttributeValue* value = node.attributes.find(attribute);
    if (value == nullptr) return std::nullopt;
    std::vector<int64_t> named;
    if (const auto* axis = std::get_if<int64_t>(value)) named.push_back(*axis);
    if (const auto* list = std::get_if<std::vector<int64_t>>(value)) named = *list;
    return same_axes(graph, node,
                     [&](int64_t axis) { return std::find(named.begin(), named.end(), axis) != named.end(); });
  };
}

AxisRule images(Channels channels) {
  return [channels](const Graph& graph, const Node& node) {
    AxisMapBuilder map(graph, node);
    const bool last = node.attributes.s_or("layout", "NCHW") == "NHWC";
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      map.link(k, 0, 0, 0).apart(k, 0);
      if (channels == Channels::kMixed || map.output_rank(k) < 2) continue;
      const size_t channel = last ? map.output_rank(k) - 1 : 1;
      map.link(k, channel, 0, channel).apart(k, channel);
      for (size_t input = 1; input < node.inputs.size(); ++input) {
        if (map.input_rank(input) == 1) map.link(k, channel, input, 0);
      }
    }
    return map.take();
  };
}

AxisRule matmul(size_t a, size_t b) {
  return [a, b](const Graph& graph, const Node& node) {
    AxisMapBuilder map(graph, node);
    const size_t rank = map.output_rank(0), a_rank = map.input_rank(a), b_rank = map.input_rank(b);
    // Vectors stand for matrices of one row or column, which the output has not.
    const size_t rows = a_rank > 1 ? 1 : 0, columns = b_rank > 1 ? 1 : 0;
    const size_t stack = rank - rows - columns;
    for (size_t axis = 0; axis < stack; ++axis) {
      const size_t behind = stack - axis;  // counted from the matrices
      if (a_rank >= 2 + behind) map.link(0, axis, a, a_rank - 2 - behind);
      if (b_rank >= 2 + behind) map.link(0, axis, b, b_rank - 2 - behind);
      map.apart(0, axis);
    }
    if (rows > 0) map.link(0, stack, a, a_rank - 2).apart(0, stack);
    if (columns > 0) map.link(0, rank - 1, b, b_rank - 1).apart(0, rank - 1);
    return map.take();
  };
}

AxisRule gemm(size_t a, size_t b, size_t c) {
  return [a, b, c](const Graph& graph, const Node& node) {
    AxisMapBuilder map(graph, node);
    if (map.has_input(c)) map.link_trailing(0, c);
    map.link(0, 0, a, node.attributes.i("transA") != 0 ? 1 : 0).apart(0, 0);
    map.link(0, 1, b, node.attributes.i("transB") != 0 ? 0 : 1).apart(0, 1);
    return map.take();
  };
}

}  // namespace axes

namespace work {
namespace {

// The multiply-adds behind one element: the elements of a filter, whatever its layout.
Dim filter_elements(const Shape& weights) { return floordiv(element_count(weights), max(weights[0], 1)); }
Dim outputs(const Graph& graph, const Node& node) { return element_count(graph.type(node.outputs[0]).shape); }

}  // namespace

WorkRule convolution(size_t weights) {
  return [weights](const Graph& graph, const Node& node) {
    return outputs(graph, node) * filter_elements(shape_of(graph, node, weights));
  };
}

WorkRule transposed_convolution(size_t weights) {
  return [weights](const Graph& graph, const Node& node) {
    return element_count(shape_of(graph, node, 0)) * filter_elements(shape_of(graph, node, weights));
  };
}

WorkRule matmul(size_t a) {
  return [a](const Graph& graph, const Node& node) {
    const Shape& shape = shape_of(graph, node, a);
    return shape.empty() ? Dim(0) : outputs(graph, node) * shape.back();
  };
}

WorkRule gemm(size_t a) {
  return [a](const Graph& graph, const Node& node) {
    return outputs(graph, node) * shape_of(graph, node, a)[node.attributes.i("transA") != 0 ? 0 : 1];
  };
}

}  // namespace work
}  // namespace aipu::graph
