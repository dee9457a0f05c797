// Windows that end early: pooling up to the first masked element, convolutions over the letters of words.
#include <algorithm>
#include <limits>

#include "frontend/onnx/ops/attention_parts.h"
#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"
#include "graph/ops/spatial.h"

namespace aipu::frontend::microsoft {

namespace {

using graph::Window;

// The attributes; pads of auto_pad = SAME_* are of the input.
Window take_window(OpContext& c) {
  Window w;
  w.kernel = c.take_ints("kernel_shape").value_or(std::vector<int64_t>());
  const size_t axes = w.kernel.size();
  w.strides = c.take_ints("strides").value_or(std::vector<int64_t>(axes, 1));
  const auto pads = c.take_ints("pads").value_or(std::vector<int64_t>(2 * axes, 0));
  const std::string automatic = c.take_string("auto_pad", "NOTSET");
  c.ignore("storage_order");  // of the indices that it does not give
  if (!c.ok()) return w;
  const auto positive = [](int64_t n) { return n > 0; };
  if (axes == 0 || w.strides.size() != axes || pads.size() != 2 * axes || !std::ranges::all_of(w.kernel, positive) ||
      !std::ranges::all_of(w.strides, positive) || std::ranges::any_of(pads, [](int64_t n) { return n < 0; }) ||
      c.rank(c.input(0)) != static_cast<int>(axes) + 2) {
    c.fail_invalid(str_cat("kernel_shape, strides and pads do not fit the input ", c.type(c.input(0)).text()));
    return w;
  }
  w.dilations.assign(axes, 1);
  w.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  w.pads_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  if (automatic == "NOTSET") return w;
  if (automatic == "VALID") {
    w.pads_begin.assign(axes, 0), w.pads_end.assign(axes, 0);
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    const Shape& x = c.type(c.input(0)).shape;
    graph::same_pads(Shape(x.begin() + 2, x.end()), automatic == "SAME_UPPER", &w);
  } else {
    c.fail_invalid(str_cat("auto_pad is '", automatic, "'"));
  }
  return w;
}

ValueId padded(OpContext& c, ValueId x, const Window& w, double with) {
  if (!c.ok()) return {};
  Shape pads(2, Dim(0));
  pads.insert(pads.end(), w.pads_begin.begin(), w.pads_begin.end());
  pads.insert(pads.end(), 2, Dim(0));
  pads.insert(pads.end(), w.pads_end.begin(), w.pads_end.end());
  return c.emit("Pad", {{"pads", pads}}, {x, ValueId(), c.scalar(c.dtype(x), with)});
}

// The elements of all windows at one place within them.
ValueId at_place(OpContext& c, ValueId x, const Window& w, const std::vector<int64_t>& place) {
  std::vector<int64_t> starts, ends, axes;
  for (size_t i = 0; i < place.size(); ++i) {
    const int64_t behind = w.kernel[i] - 1 - place[i];
    starts.push_back(place[i]);
    ends.push_back(behind == 0 ? INT64_MAX : -behind);
    axes.push_back(static_cast<int64_t>(i) + 2);
  }
  return c.emit("Slice", {}, {x, c.int64s(starts), c.int64s(ends), c.int64s(axes), c.int64s(w.strides)});
}

}  // namespace

// The greatest element of a window; a row of it ends where the mask is 0.
void maxpool_with_mask(OpContext& c) {
  c.expect_inputs(2, 2);
  c.require_attribute("kernel_shape");
  const Window w = take_window(c);
  if (!c.ok()) return;
  const ValueId mask = c.input(1);
  // ONNX Runtime reads those of several channels at places that are not theirs.
  if (c.rank(mask) != c.rank(c.input(0)) || c.type(mask).shape[0] != Dim(1) || c.type(mask).shape[1] != Dim(1))
    return c.fail_unsupported(
        str_cat("a mask of the type ", c.type(mask).text(), " is not supported, expected one channel for all"));
  int64_t places = 1;
  for (const int64_t extent : w.kernel) places *= std::min<int64_t>(extent, 1 << 10);
  if (places > 256) return c.fail_unsupported(str_cat("windows of ", places, " elements are not supported"));
  const double lowest = std::numeric_limits<float>::lowest();
  const ValueId x = padded(c, c.input(0), w, lowest);
  // Padding hides nothing, and neither does the first element of images and volumes in ONNX Runtime.
  ValueId open = c.cast(mask, DType::kBool);
  if (w.kernel.size() > 1) {
    ValueId is_first;
    for (size_t axis = 2; c.ok() && axis < w.kernel.size() + 2; ++axis) {
      std::vector<int64_t> behind;
      for (size_t k = axis + 1; k < w.kernel.size() + 2; ++k) behind.push_back(static_cast<int64_t>(k - axis));
      ValueId at = c.emit("Equal", {}, {positions_along(c, mask, static_cast<int64_t>(axis)), c.int64_scalar(0)});
      if (!behind.empty()) at = c.unsqueeze(at, behind);
      is_first = is_first.valid() ? c.emit("And", {}, {is_first, at}) : at;
    }
    open = c.emit("Or", {}, {open, is_first});
  }
  open = padded(c, open, w, 1);
  ValueId y, visible;
  std::vector<int64_t> place(w.kernel.size(), 0);
  for (int64_t k = 0; k < places; ++k) {
    const ValueId here = at_place(c, open, w, place);
    visible = place.back() == 0 ? here : c.emit("And", {}, {visible, here});
    const ValueId seen = where(c, visible, at_place(c, x, w, place), c.scalar(c.dtype(x), lowest));
    y = c.emit("Max", {}, {y.valid() ? y : c.scalar(c.dtype(x), lowest), seen});
    for (size_t axis = place.size(); axis-- > 0;) {
      if (++place[axis] < w.kernel[axis]) break;
      place[axis] = 0;
    }
  }
  c.set_output(0, y);
}

// Words [words, letters]: a convolution over what the letters stand for, the tanh of the greatest of each filter. A
// word has as many letters as are above 0, at least as many as a window; none if the first one is 0.
void word_conv_embedding(OpContext& c) {
  c.expect_inputs(4, 4);
  for (const char* name : {"char_embedding_size", "conv_window_size", "embedding_size"}) c.ignore(name);
  if (!c.ok()) return;
  const ValueId words = c.input(0);
  const auto window = c.rank(c.input(1)) == 4 ? c.type(c.input(1)).shape[2].constant() : std::nullopt;
  if (!window || c.rank(words) != 2 || c.rank(c.input(3)) != 2)
    return c.fail_unsupported(
        str_cat("words ", c.type(words).text(), " with weights ", c.type(c.input(1)).text(), " are not supported"));
  const ValueId zero = c.scalar(c.dtype(words), 0);
  const ValueId letters = c.cast(c.emit("Greater", {}, {words, zero}), DType::kI64);
  const ValueId counts = c.emit("ReduceSum", {}, {letters, c.int64s({1})});  // [words, 1]
  const ValueId length = c.emit("Max", {}, {counts, c.int64_scalar(*window)});
  const ValueId embedded = c.unsqueeze(gather(c, c.input(3), words), {1});
  // [words, filters, windows]
  const ValueId y = c.squeeze(c.emit("Conv", {}, {embedded, c.input(1), c.input(2)}), {3});
  const ValueId end = add(c, positions_along(c, y, 2), c.int64_scalar(*window));
  const ValueId within = c.unsqueeze(c.emit("LessOrEqual", {}, {end, length}), {1});
  const ValueId low = c.scalar(c.dtype(y), -std::numeric_limits<double>::infinity());
  const ValueId best = c.emit("ReduceMax", {{"keepdims", int64_t{0}}}, {where(c, within, y, low), c.int64s({2})});
  const ValueId is_word = c.cast(slice(c, letters, 1, 0, 1), DType::kBool);
  c.set_output(0, where(c, is_word, c.emit("Tanh", {}, {best}), c.scalar(c.dtype(y), 0)));
}

}  // namespace aipu::frontend::microsoft
