// AffineGrid and CenterCropPad as compositions; encoded images.
#include <numeric>

#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

// grid[n, position..., k] = theta[n, k, :] . (x, y[, z], 1): the coordinates of the pixels' centres, -1 to 1 across the
// image (align_corners: across the centres of the outermost pixels).
void affine_grid(OpContext& c) {
  c.expect_inputs(2, 2);
  const bool align = c.take_int("align_corners", 0) != 0;
  const ValueId theta = c.input(0);
  const ValueId size = c.input(1);
  if (!c.ok()) return;
  const DType dtype = c.dtype(theta);
  const Shape& extents = c.type(theta).shape;
  const bool fits = extents.size() == 3 && extents[1].is_constant() && (extents[1] == Dim(2) || extents[1] == Dim(3)) &&
                    extents[2] == extents[1] + 1;
  if (!fits) return c.fail_invalid(str_cat("theta must be [N,2,3] or [N,3,4], found ", c.type(theta).text()));
  const int64_t spatial = *extents[1].constant();
  if (c.type(size).shape != Shape{Dim(spatial + 2)}) {
    return c.fail_invalid(str_cat("size must have ", spatial + 2, " elements, found ", c.type(size).text()));
  }
  std::vector<int64_t> position_axes(static_cast<size_t>(spatial));
  std::iota(position_axes.begin(), position_axes.end(), 1);
  const ValueId columns = c.transpose(theta, {0, 2, 1});
  const auto column = [&](int64_t k) {
    return c.unsqueeze(c.emit("Gather", {{"axis", int64_t{1}}}, {columns, c.int64_scalar(k)}), position_axes);
  };
  ValueId grid = column(spatial);
  for (int64_t k = 0; k < spatial; ++k) {
    const int64_t axis = spatial - 1 - k;  // x runs along the last axis
    const ValueId extent =
        c.emit("Gather", {{"axis", int64_t{0}}}, {c.cast(size, DType::kI64), c.int64_scalar(axis + 2)});
    const ValueId n = c.cast(c.emit("Range", {}, {c.int64_scalar(0), extent, c.int64_scalar(1)}), dtype);
    const ValueId twice = c.emit("Mul", {}, {n, c.scalar(dtype, 2)});
    const ValueId steps =
        align ? c.emit("Max", {}, {c.emit("Sub", {}, {extent, c.int64_scalar(1)}), c.int64_scalar(1)}) : extent;
    ValueId at = align ? twice : c.emit("Add", {}, {twice, c.scalar(dtype, 1)});
    at = c.emit("Sub", {}, {c.emit("Div", {}, {at, c.cast(steps, dtype)}), c.scalar(dtype, 1)});
    std::vector<int64_t> behind(static_cast<size_t>(spatial - axis));
    std::iota(behind.begin(), behind.end(), 1);
    grid = c.emit("Add", {}, {grid, c.emit("Mul", {}, {c.unsqueeze(at, behind), column(k)})});
  }
  c.set_output(0, grid);
}

// A Pad whose amounts may be negative: half of the difference in front (rounded down in size), the rest behind.
void center_crop_pad(OpContext& c) {
  c.expect_inputs(2, 2);
  const ValueId x = c.input(0);
  const auto given = c.take_ints("axes");
  if (!c.ok()) return;
  const int rank = c.rank(x);
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (given) axes = *given;
  const auto wanted = c.graph().require_data(c.input(1));
  if (!wanted || wanted->size() != axes.size()) {
    return c.fail_invalid(str_cat("shape must have ", axes.size(), " elements, found ", c.type(c.input(1)).text()));
  }
  Shape pads(2 * static_cast<size_t>(rank), Dim(0));
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t axis = axes[k] < 0 ? axes[k] + rank : axes[k];
    if (axis < 0 || axis >= rank)
      return c.fail_invalid(str_cat("axis ", axes[k], " of ", c.type(x).text(), " does not exist"));
    const Dim difference = (*wanted)[k] - c.type(x).shape[static_cast<size_t>(axis)];
    const Dim front = floordiv(max(difference, 0), 2) - floordiv(max(Dim(0) - difference, 0), 2);
    pads[static_cast<size_t>(axis)] = front;
    pads[static_cast<size_t>(axis + rank)] = difference - front;
  }
  c.emit_output("Pad", {{"pads", pads}}, {x});
}

// The header says how large the image is before the pixels have a place.
void image_decoder(OpContext& c) {
  c.expect_inputs(1, 1);
  const std::string pixel_format = c.take_string("pixel_format", "RGB");
  const ValueId x = c.input(0);
  if (!c.ok()) return;
  if (c.dtype(x) != DType::kU8 || c.rank(x) != 1)
    return c.fail_invalid(str_cat("takes the bytes of an image, uint8[N], found ", c.type(x).text()));
  if (pixel_format != "RGB" && pixel_format != "BGR" && pixel_format != "Grayscale")
    return c.fail_invalid(str_cat("pixel_format '", pixel_format, "' is none of RGB, BGR and Grayscale"));
  const ValueId size = c.emit("aipu::ImageSize", {}, {x});
  const auto extents = c.graph().require_data(size);
  if (!extents) return c.fail_unsupported("the size of the image cannot be known");
  const Shape shape = {max((*extents)[0], 0), max((*extents)[1], 0), pixel_format == "Grayscale" ? 1 : 3};
  c.emit_output("aipu::DecodeImage", {{"pixel_format", pixel_format}, {"shape", shape}}, {x});
}

}  // namespace aipu::frontend
