#include "graph/ops/spatial.h"

namespace aipu::graph {

SpatialLayout::SpatialLayout(const Attributes& attributes, int rank)
    : rank_(rank), channels_last_(attributes.has("layout") && attributes.s("layout") == "NHWC") {}

Shape SpatialLayout::spatial(const Shape& shape) const {
  const auto begin = shape.begin() + first_spatial_axis();
  return Shape(begin, begin + spatial_rank());
}

Shape SpatialLayout::make(const Dim& batch, const Dim& channels, const Shape& spatial) const {
  Shape shape{batch};
  if (!channels_last_) shape.push_back(channels);
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  if (channels_last_) shape.push_back(channels);
  return shape;
}

namespace {

// of kernel, stride, dilation and pad: keeps their products in range
constexpr int64_t kWindowLimit = int64_t{1} << 31;

Status check_window_attribute(const Attributes& attributes, const char* name, size_t count, int64_t low) {
  const auto& values = attributes.ints(name);
  if (values.size() != count)
    return invalid_model(str_cat(name, " has ", values.size(), " elements, expected ", count));
  for (const int64_t value : values) {
    if (value < low || value >= kWindowLimit) return invalid_model(str_cat(name, " has element ", value));
  }
  return {};
}

bool is_same(const std::string& auto_pad) { return auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER"; }

Status complete_common(Node* node, const std::vector<int64_t>& kernel, size_t count) {
  if (kernel.size() != count)
    return invalid_model(str_cat("the kernel has ", kernel.size(), " axes, the input ", count, " spatial axes"));
  Attributes& a = node->attributes;
  if (a.has("kernel_shape") && a.ints("kernel_shape") != kernel) {
    return invalid_model("kernel_shape differs from the weight's extents");
  }
  a.set("kernel_shape", kernel);
  AIPU_RETURN_IF_ERROR(check_window_attribute(a, "kernel_shape", count, 1));
  if (!a.has("strides")) a.set("strides", std::vector<int64_t>(count, 1));
  if (!a.has("dilations")) a.set("dilations", std::vector<int64_t>(count, 1));
  AIPU_RETURN_IF_ERROR(check_window_attribute(a, "strides", count, 1));
  AIPU_RETURN_IF_ERROR(check_window_attribute(a, "dilations", count, 1));
  const std::string& auto_pad = a.s("auto_pad");
  if (auto_pad != "NOTSET" && auto_pad != "VALID" && !is_same(auto_pad)) {
    return invalid_model(
        str_cat("auto_pad is '", auto_pad, "', expected one of: NOTSET, SAME_UPPER, SAME_LOWER, VALID"));
  }
  if (auto_pad == "VALID") {
    a.set("pads", std::vector<int64_t>(2 * count, 0));
    a.set("auto_pad", std::string("NOTSET"));
  } else if (auto_pad == "NOTSET" && !a.has("pads")) {
    a.set("pads", std::vector<int64_t>(2 * count, 0));
  }
  return {};
}

// Splits a total pad; SAME_UPPER puts the odd one at the end.
void split_pad(const Dim& total, bool upper, Dim* begin, Dim* end) {
  const Dim less = floordiv(total, 2);
  *begin = upper ? less : total - less;
  *end = total - *begin;
}

// total = stride*(in-1) + output_padding + reach - out, cut from the full output.
Status transposed_pads(const Shape& spatial, const Attributes& a, Window* window) {
  const bool upper = a.s("auto_pad") == "SAME_UPPER";
  const auto& output_padding = a.ints("output_padding");
  for (size_t k = 0; k < spatial.size(); ++k) {
    const Dim stride(window->strides[k]);
    const Dim full = stride * (spatial[k] - 1) + Dim(output_padding[k]) + window->reach(k);
    const Dim out = a.has("output_shape") ? Dim(a.ints("output_shape")[k]) : spatial[k] * stride;
    split_pad(full - out, upper, &window->pads_begin[k], &window->pads_end[k]);
  }
  return {};
}

Window window_without_pads(const Attributes& a) {
  Window w;
  w.kernel = a.ints("kernel_shape");
  w.strides = a.ints("strides");
  w.dilations = a.ints("dilations");
  w.pads_begin.resize(w.kernel.size());
  w.pads_end.resize(w.kernel.size());
  return w;
}

// Stores the pads when they are numbers; false leaves auto_pad standing.
bool store_pads(const Window& window, Attributes* a) {
  const auto begin = static_shape(window.pads_begin);
  const auto end = static_shape(window.pads_end);
  if (!begin || !end) return false;
  std::vector<int64_t> pads = *begin;
  pads.insert(pads.end(), end->begin(), end->end());
  a->set("pads", std::move(pads));
  a->set("auto_pad", std::string("NOTSET"));
  return true;
}

Shape spatial_extents(const Graph& graph, const Node& node) {
  const Shape& input = graph.type(node.inputs[0]).shape;
  return SpatialLayout(node.attributes, static_cast<int>(input.size())).spatial(input);
}

}  // namespace

void same_pads(const Shape& spatial, bool upper, Window* window) {
  for (size_t k = 0; k < spatial.size(); ++k) {
    const Dim stride(window->strides[k]);
    const Dim reach = window->reach(k);
    // With stride 1 the input's extent cancels.
    const Dim total =
        window->strides[k] == 1 ? reach - 1 : max((ceildiv(spatial[k], stride) - 1) * stride + reach - spatial[k], 0);
    split_pad(total, upper, &window->pads_begin[k], &window->pads_end[k]);
  }
}

Result<Window> window_of(const Graph& graph, const Node& node) {
  const Attributes& a = node.attributes;
  Window window = window_without_pads(a);
  const bool transposed = node.op == "ConvTranspose";
  if (a.s("auto_pad") == "NOTSET" && !(transposed && a.has("output_shape"))) {
    const auto& pads = a.ints("pads");
    const size_t count = window.kernel.size();
    for (size_t k = 0; k < count; ++k) {
      window.pads_begin[k] = pads[k];
      window.pads_end[k] = pads[k + count];
    }
    return window;
  }
  const Shape spatial = spatial_extents(graph, node);
  if (spatial.size() != window.kernel.size()) {
    return invalid_model(
        str_cat("the kernel has ", window.kernel.size(), " axes, the input ", spatial.size(), " spatial axes"));
  }
  if (transposed) {
    AIPU_RETURN_IF_ERROR(transposed_pads(spatial, a, &window));
  } else {
    same_pads(spatial, a.s("auto_pad") == "SAME_UPPER", &window);
  }
  return window;
}

Status complete_window(const Graph& graph, Node* node, const std::vector<int64_t>& kernel) {
  const int rank = graph.type(node->inputs[0]).rank();
  if (rank < 3)
    return invalid_model(
        str_cat("the input must have a batch, a channel and spatial axes, found ", graph.type(node->inputs[0]).text()));
  AIPU_RETURN_IF_ERROR(complete_common(node, kernel, static_cast<size_t>(rank - 2)));
  Attributes& a = node->attributes;
  if (is_same(a.s("auto_pad"))) {
    a.erase("pads");
    AIPU_ASSIGN_OR_RETURN(const Window window, window_of(graph, *node));
    if (!store_pads(window, &a)) return {};
  }
  return check_window_attribute(a, "pads", 2 * static_cast<size_t>(rank - 2), -kWindowLimit);
}

Status complete_transposed_window(const Graph& graph, Node* node, const std::vector<int64_t>& kernel) {
  const int rank = graph.type(node->inputs[0]).rank();
  if (rank < 3)
    return invalid_model(
        str_cat("the input must have a batch, a channel and spatial axes, found ", graph.type(node->inputs[0]).text()));
  const auto count = static_cast<size_t>(rank - 2);
  Attributes& a = node->attributes;
  if (!a.has("output_padding")) a.set("output_padding", std::vector<int64_t>(count, 0));
  AIPU_RETURN_IF_ERROR(check_window_attribute(a, "output_padding", count, 0));
  if (a.has("output_shape")) {
    // Some writers give all extents, not the spatial ones only.
    std::vector<int64_t> extents = a.ints("output_shape");
    if (extents.size() == count + 2) extents.erase(extents.begin(), extents.begin() + 2);
    a.set("output_shape", std::move(extents));
    AIPU_RETURN_IF_ERROR(check_window_attribute(a, "output_shape", count, 1));
  }
  AIPU_RETURN_IF_ERROR(complete_common(node, kernel, count));
  if (is_same(a.s("auto_pad")) || a.has("output_shape")) {
    a.erase("pads");
    AIPU_ASSIGN_OR_RETURN(const Window window, window_of(graph, *node));
    if (!store_pads(window, &a)) return {};
    a.erase("output_shape");
  }
  return check_window_attribute(a, "pads", 2 * count, -kWindowLimit);
}

Result<Shape> slide_window(const Graph& graph, const Node& node, bool ceil_mode) {
  AIPU_ASSIGN_OR_RETURN(const Window window, window_of(graph, node));
  const Shape spatial = spatial_extents(graph, node);
  if (spatial.size() != window.kernel.size()) {
    return invalid_model(
        str_cat("the kernel has ", window.kernel.size(), " axes, the input ", spatial.size(), " spatial axes"));
  }
  const bool same = is_same(node.attributes.s("auto_pad"));
  Shape result;
  for (size_t k = 0; k < spatial.size(); ++k) {
    const Dim stride(window.strides[k]);
    if (same) {
      result.push_back(ceildiv(spatial[k], stride));
      continue;
    }
    const Dim padded = spatial[k] + window.pads_begin[k] + window.pads_end[k];
    const Dim room = padded - window.reach(k);
    if (room.constant_or(0) < 0) {
      return invalid_model(str_cat("a window of ", window.reach(k).text(), " does not fit the padded extent ",
                                   padded.text(), " of spatial axis ", k));
    }
    if (!ceil_mode) {
      result.push_back(floordiv(room, stride) + 1);
      continue;
    }
    Dim extent = ceildiv(room, stride) + 1;
    // A last window that would lie in the trailing pad entirely does not count; when that pad is at most reach - stride
    // it cannot happen.
    if ((window.reach(k) - stride - window.pads_end[k]).lower_bound().value_or(-1) < 0) {
      extent = extent - lt(spatial[k] + window.pads_begin[k] - 1, (extent - 1) * stride);
    }
    result.push_back(extent);
  }
  return result;
}

Result<std::vector<int64_t>> kernel_extents(const TensorType& weight) {
  if (weight.rank() < 3) return invalid_model(str_cat("the weight must have rank 3 or more, found ", weight.text()));
  const auto extents = static_shape(Shape(weight.shape.begin() + 2, weight.shape.end()));
  if (!extents) return unsupported(str_cat("the weight's kernel extents must be static, found ", weight.text()));
  return *extents;
}

}  // namespace aipu::graph
