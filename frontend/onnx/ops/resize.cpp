// Upsample and Resize: older forms sample at x / scale, rounding down.
#include <algorithm>
#include <cmath>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"
#include "frontend/onnx/ops/run_time_axes.h"
#include "graph/ops/resize.h"

namespace aipu::frontend {

using graph::Constant;

namespace {

// Of an attribute that is left for pass() to take.
std::string text_of(const OpContext& c, const char* name, const char* otherwise) {
  const auto it = c.attributes.find(name);
  return it != c.attributes.end() ? it->second.s : std::string(otherwise);
}

// Sums of weighted pixels as integers: rounded towards zero, or to the nearest where filters are stretched, as ONNX
// Runtime does. A whole number that a sum misses by its own rounding counts as that number: an even surface stays even.
ValueId whole_pixels(OpContext& c, ValueId sums, DType dtype) {
  const DType real = c.dtype(sums);
  const auto antialias = c.attributes.find("antialias");
  const bool is_stretched = antialias != c.attributes.end() && antialias->second.i != 0;
  const double spare = is_stretched ? 0.5 : real == DType::kF32 ? 0x1p-13 : 0x1p-16;
  const ValueId y = add(c, sums, scaled(c, c.emit("Sign", {}, {sums}), spare));
  const double limit = std::ldexp(1.0, dtype_bits(dtype) - (is_signed_int(dtype) ? 1 : 0));
  const double greatest = dtype_bits(dtype) > 32 ? std::nextafter(limit, 0.0) : limit - 1;
  const double least = is_signed_int(dtype) ? -limit : 0;
  return c.cast(c.emit("Clip", {}, {y, c.scalar(real, least), c.scalar(real, greatest)}), dtype);
}

// What `convert` makes of the node, of integers that it interpolates by way of numbers that hold them.
void with_real_pixels(OpContext& c, void (*convert)(OpContext&)) {
  const DType dtype = c.dtype(c.input(0));
  if (text_of(c, "mode", "nearest") == "nearest" || !is_integer(dtype)) return convert(c);
  c.inputs[0] = c.cast(c.input(0), dtype_bits(dtype) > 8 ? DType::kF64 : DType::kF32);
  convert(c);
  if (c.ok()) c.set_output(0, whole_pixels(c, c.results[0], dtype));
}

// The axes that scales and sizes speak of.
std::vector<int64_t> resized_axes(const std::optional<std::vector<int64_t>>& given, int64_t rank) {
  std::vector<int64_t> axes;
  if (given) {
    for (const int64_t axis : *given) axes.push_back(axis < 0 ? axis + rank : axis);
  } else {
    for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  return axes;
}

void emit_asymmetric(OpContext& c, const std::string& mode, ValueId scales) {
  if (mode != "nearest" && mode != "linear" && mode != "bilinear")
    return c.fail_unsupported(str_cat("mode '", mode, "' is not supported"));
  std::vector<ValueId> operands{c.input(0), {}, scales};
  if (!c.ok()) return;
  const std::vector<int64_t> axes = resized_axes(std::nullopt, c.rank(c.input(0)));
  if (!graph::resize_scales_known(c.graph(), c.input(0), scales, {axes.begin(), axes.end()})) {
    const ValueId extents = c.cast(c.shape_of(c.input(0)), DType::kF32);
    const ValueId sizes = c.cast(c.emit("Floor", {}, {multiply(c, extents, scales)}), DType::kI64);
    operands = {c.input(0), {}, {}, sizes, scales};
  }
  c.emit_output("Resize",
                {{"mode", mode == "nearest" ? std::string("nearest") : std::string("linear")},
                 {"coordinate_transformation_mode", std::string("asymmetric")},
                 {"nearest_mode", std::string("floor")}},
                operands);
}

void convert_upsample_before_9(OpContext& c) {
  c.expect_inputs(1, 1);
  const std::string mode = c.take_string("mode", "nearest");
  if (!c.ok()) return;
  std::vector<float> scales;
  if (c.version() < 7) {
    if (c.rank(c.input(0)) != 4)
      return c.fail_invalid(str_cat("needs an input of rank 4, found ", c.type(c.input(0)).text()));
    const double height = c.take_float("height_scale", 1);
    const double width = c.take_float("width_scale", 1);
    scales = {1, 1, static_cast<float>(height), static_cast<float>(width)};
  }
  if (const auto given = c.take_floats("scales")) scales.assign(given->begin(), given->end());
  if (!c.ok()) return;
  emit_asymmetric(c, mode, c.constant(Constant::of<float>(DType::kF32, {static_cast<int64_t>(scales.size())}, scales)));
}

void convert_resize_before_11(OpContext& c) {
  c.expect_inputs(2, 2);
  const std::string mode = c.take_string("mode", "nearest");
  if (!c.ok()) return;
  emit_asymmetric(c, mode, c.input(1));
}

// A list with an element for each of `axes` as one with an element for each axis.
ValueId for_all_axes(OpContext& c, ValueId elements, const std::vector<int64_t>& axes, int64_t rank, double otherwise) {
  if (!c.ok() || static_cast<int64_t>(axes.size()) == rank) return elements;
  const ValueId others = c.emit("Expand", {}, {c.scalar(c.dtype(elements), otherwise), c.int64s({rank})});
  return c.emit("ScatterElements", {{"axis", int64_t{0}}}, {others, c.int64s(axes), elements});
}

// One scale for the axes that there are sizes for, in float64: what keeps the ratio of the extents.
ValueId common_scale(OpContext& c, ValueId extents, ValueId sizes, const std::string& policy) {
  const ValueId ratios = c.emit("Div", {}, {c.cast(sizes, DType::kF64), c.cast(extents, DType::kF64)});
  return c.emit(policy == "not_larger" ? "ReduceMin" : "ReduceMax", {{"keepdims", int64_t{1}}},
                {ratios, c.int64s({0})});
}

struct RunTimeResize {
  bool crops = false;
  std::string policy;
  std::vector<int64_t> axes;
};

// The sizes follow from numbers that only a run knows, by which the elements are sampled too.
void resize_when_running(OpContext& c, const RunTimeResize& how) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  const auto count = static_cast<int64_t>(how.axes.size());
  const ValueId extents = gather(c, c.shape_of(x), c.int64s(how.axes));
  ValueId scales, roi, sizes;
  if (how.crops) {
    if (!c.has_input(1)) return c.fail_invalid("tf_crop_and_resize needs a roi");
    const ValueId box = c.cast(c.input(1), DType::kF32);
    const ValueId starts = slice(c, box, 0, 0, count), ends = slice(c, box, 0, count, 2 * count);
    const ValueId pairs = concat(c, 1,
                                 {c.unsqueeze(for_all_axes(c, starts, how.axes, rank, 0), {1}),
                                  c.unsqueeze(for_all_axes(c, ends, how.axes, rank, 1), {1})});
    roi = reshape(c, pairs, {2 * rank});
  }
  if (c.has_input(3)) {
    sizes = c.cast(c.input(3), DType::kI64);
    if (how.policy != "stretch") {
      const ValueId scale = common_scale(c, extents, sizes, how.policy);
      const ValueId wanted = multiply(c, c.cast(extents, DType::kF64), scale);
      sizes = c.cast(c.emit("Floor", {}, {add(c, wanted, c.scalar(DType::kF64, 0.5))}), DType::kI64);
      scales = c.emit("Expand", {}, {scale, c.int64s({count})});
    }
  } else {
    scales = c.cast(c.input(2), DType::kF32);
    ValueId wanted = c.cast(extents, DType::kF32);
    if (how.crops) {
      const ValueId box = c.cast(c.input(1), DType::kF32);
      wanted = multiply(c, wanted, subtract(c, slice(c, box, 0, count, 2 * count), slice(c, box, 0, 0, count)));
    }
    sizes = c.cast(c.emit("Floor", {}, {multiply(c, wanted, scales)}), DType::kI64);
  }
  if (scales.valid()) scales = for_all_axes(c, scales, how.axes, rank, 1);
  if (count < rank) sizes = at_axes(c, c.int64s(how.axes), rank, sizes, 0);
  if (!c.ok()) return;
  if (count < rank) {
    // What is not listed keeps its extent.
    const ValueId listed = axis_flags(c, c.int64s(how.axes), rank);
    sizes = c.emit("Where", {}, {c.cast(listed, DType::kBool), sizes, c.shape_of(x)});
  }
  c.ignore("axes");
  c.ignore("keep_aspect_ratio_policy");
  auto attributes = c.pass_attributes("Resize");
  c.emit_outputs("Resize", std::move(attributes), {x, {}, {}, sizes, scales, roi});
}

// Whether the output's extents, and where its elements come from, follow from constants and the shape of x.
bool follows_from_shapes(OpContext& c, const RunTimeResize& how) {
  if (how.crops && c.has_input(1) && c.graph().constant(c.input(1)) == nullptr) return false;
  if (c.has_input(2) && !c.has_input(3)) {
    return graph::resize_scales_known(c.graph(), c.input(0), c.input(2), {how.axes.begin(), how.axes.end()});
  }
  if (how.policy == "stretch" || !c.has_input(3)) return true;
  const Shape& extents = c.type(c.input(0)).shape;
  for (const int64_t axis : how.axes) {
    if (!extents[static_cast<size_t>(axis)].is_constant()) return false;
  }
  return c.constant_ints(c.input(3)).has_value();
}

// Empty tensors stand for absent operands in models of opsets 11 and 12.
void convert_resize(OpContext& c) {
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (c.has_input(i) && c.rank(c.input(i)) == 1 && c.type(c.input(i)).shape[0] == Dim(0)) c.inputs[i] = {};
  }
  while (!c.inputs.empty() && !c.inputs.back().valid()) c.inputs.pop_back();
  c.expect_inputs(1, 4);
  if (!c.ok()) return;
  RunTimeResize how{text_of(c, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize",
                    text_of(c, "keep_aspect_ratio_policy", "stretch"),
                    {}};
  const auto given = c.attributes.find("axes");
  const int64_t rank = c.rank(c.input(0));
  how.axes = resized_axes(
      given != c.attributes.end() ? std::optional<std::vector<int64_t>>(given->second.ints) : std::nullopt, rank);
  const bool fits =
      std::all_of(how.axes.begin(), how.axes.end(), [&](int64_t axis) { return axis >= 0 && axis < rank; });
  const bool one_of_both = c.has_input(2) != c.has_input(3);
  if (!fits || !one_of_both || follows_from_shapes(c, how)) return pass(c);
  resize_when_running(c, how);
}

}  // namespace

void upsample_before_9(OpContext& c) { with_real_pixels(c, convert_upsample_before_9); }
void resize_before_11(OpContext& c) { with_real_pixels(c, convert_resize_before_11); }
void resize(OpContext& c) { with_real_pixels(c, convert_resize); }

}  // namespace aipu::frontend
