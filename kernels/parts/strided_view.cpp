#include "kernels/parts/strided_view.h"

#include <algorithm>

#include "kernels/parts/strided_map.h"

namespace aipu::kernels {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Shape;
using graph::ValueId;

// Extents of 1 say nothing about where elements are.
StridedView without_ones(const StridedView& view) {
  StridedView result;
  result.offset = view.offset;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == Dim(1)) continue;
    result.shape.push_back(view.shape[i]);
    result.strides.push_back(view.strides[i]);
  }
  return result;
}

// Axis by axis: one becomes several, or several that are one in memory become one.
std::optional<StridedView> reshaped(const StridedView& whole, const Shape& to) {
  const StridedView view = without_ones(whole);
  StridedView result{to, std::vector<Dim>(to.size(), Dim(0)), view.offset};
  std::vector<size_t> axes;  // of `to`, those that are not 1
  for (size_t i = 0; i < to.size(); ++i) {
    if (!(to[i] == Dim(1))) axes.push_back(i);
  }
  size_t from = 0, at = 0;
  while (from < view.shape.size() && at < axes.size()) {
    const Dim& extent = view.shape[from];
    // As many axes of `to` as make up this one.
    Dim product = 1;
    size_t end = at;
    while (end < axes.size() && !(product == extent)) product *= to[axes[end++]];
    if (product == extent) {
      Dim stride = view.strides[from];
      for (size_t i = end; i-- > at;) {
        result.strides[axes[i]] = stride;
        stride *= to[axes[i]];
      }
      ++from;
      at = end;
      continue;
    }
    // As many as make up one of `to`.
    product = extent;
    size_t last = from;
    while (last + 1 < view.shape.size() && !(product == to[axes[at]])) {
      if (!(view.strides[last] == view.strides[last + 1] * view.shape[last + 1])) return std::nullopt;
      product *= view.shape[++last];
    }
    if (!(product == to[axes[at]])) return std::nullopt;
    result.strides[axes[at]] = view.strides[last];
    from = last + 1;
    ++at;
  }
  if (from < view.shape.size() || at < axes.size()) return std::nullopt;
  return result;
}

std::optional<StridedView> part_of_split(const Graph& graph, const Node& node, ValueId output,
                                         const StridedView& view) {
  const int64_t given = node.attributes.i_or("axis", 0);
  const auto axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(view.shape.size()) : given);
  StridedView result = view;
  Dim start = 0;
  bool found = false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid() && !node.attributes.has("split")) return std::nullopt;
    const Dim extent =
        node.attributes.has("split") ? node.attributes.shape("split")[i] : graph.type(node.outputs[i]).shape[axis];
    if (node.outputs[i] == output) {
      result.offset += start * view.strides[axis];
      result.shape[axis] = extent;
      found = true;
    }
    start += extent;
  }
  // Otherwise a run has to check it.
  return found && start == view.shape[axis] ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace

StridedView whole_view(const Shape& shape) { return {shape, contiguous_strides(shape)}; }

std::optional<StridedView> view_behind(const Graph& graph, const Node& node, ValueId output, const StridedView& view) {
  if (!(graph::needed(node) == Dim(1))) return std::nullopt;
  const Shape& shape = graph.type(output).shape;
  if (node.op == "Reshape") return reshaped(view, shape);
  if (node.op == "Split") return part_of_split(graph, node, output, view);
  StridedView result{shape, {}, view.offset};
  if (node.op == "Transpose") {
    for (const int64_t axis : node.attributes.ints("perm"))
      result.strides.push_back(view.strides[static_cast<size_t>(axis)]);
    return result;
  }
  if (node.op == "Slice" && node.attributes.has("starts")) {
    const auto& steps = node.attributes.ints("steps");
    if (std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; })) return std::nullopt;
    const Shape& starts = node.attributes.shape("starts");
    result.strides = view.strides;
    for (size_t i = 0; i < view.strides.size(); ++i) result.offset += starts[i] * view.strides[i];
    return result;
  }
  if (node.op == "Gather") {
    const graph::Constant* index = graph.constant(node.inputs[1]);
    if (index == nullptr || !index->shape().empty()) return std::nullopt;
    const int64_t given = node.attributes.i_or("axis", 0);
    const auto axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(view.shape.size()) : given);
    const auto at = static_cast<int64_t>(index->to_doubles()[0]);
    const auto extent = view.shape[axis].constant();
    if (!extent || at < -*extent || at >= *extent) return std::nullopt;
    result.offset += Dim(at < 0 ? at + *extent : at) * view.strides[axis];
    result.strides = view.strides;
    result.strides.erase(result.strides.begin() + static_cast<ptrdiff_t>(axis));
    return result;
  }
  return std::nullopt;
}

}  // namespace aipu::kernels
