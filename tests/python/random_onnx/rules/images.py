"""Images of other sizes, and samples of them."""

import numpy as np
from values import F16, F32, F64, I8, U8, Constant, Node, Refused

from rules.common import listed
from rules.windows import image


def resize(g):
    x = image(g, g.one_of(F32, F32, F32, F64, F16, U8, I8))
    if 0 in x.shape:
        raise Refused
    mode = g.one_of("nearest", "linear", "cubic") if x.rank == 4 else g.one_of("nearest", "linear")
    if x.dtype.kind != "f":
        mode = "nearest"  # else ONNX's reference rounds, ONNX Runtime cuts off, or rounds with antialias
    attributes = {"mode": mode}
    attributes["coordinate_transformation_mode"] = g.one_of(
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
    )
    if mode == "nearest":
        attributes["nearest_mode"] = g.one_of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        attributes["cubic_coeff_a"] = g.one_of(-0.75, -0.5)
        attributes["exclude_outside"] = g.below(2)
    if mode != "nearest" and g.chance(30):
        attributes["antialias"] = 1
    # With align_corners ONNX's own tests take the product of scale and extent unrounded, ONNX Runtime does not.
    aligned = attributes["coordinate_transformation_mode"] == "align_corners"
    if mode == "nearest" and not aligned:
        # Exact ones: with others ONNX Runtime, and seldom ONNX's reference, miss pixels (test_onnx_resize.py).
        scales = [1, 1, *(g.one_of(0.5, 1, 2) for _ in x.shape[2:])]
        return Node("Resize", [x, None, Constant(np.array(scales, np.float32))], **attributes)
    if g.chance(50) and not aligned:
        scales = [1, 1, *(g.one_of(0.5, 1, 2, 1.5, 3) for _ in x.shape[2:])]
        return Node("Resize", [x, None, Constant(np.array(scales, np.float32))], **attributes)
    sizes = [*x.shape[:2], *(g.between(1, 2 * extent) for extent in x.shape[2:])]
    return Node("Resize", [x, None, None, listed(sizes)], **attributes)


def grid_sample(g):
    x = g.add_input(g.one_of(F32, F32, F64), (g.between(1, 2), g.between(1, 3), g.between(2, 5), g.between(2, 5)))
    grid = Constant((g.numpy.random((x.shape[0], g.between(1, 4), g.between(1, 4), 2)) * 2.6 - 1.3).astype(x.dtype))
    return Node("GridSample", [x, grid], mode=g.one_of("linear", "cubic"), align_corners=g.below(2),
                padding_mode=g.one_of("zeros", "border", "reflection"))  # fmt: skip


def regions(g):
    x = g.add_input(g.one_of(F32, F32, F64), (2, g.between(1, 3), g.between(3, 6), g.between(3, 6)))
    count = g.between(1, 4)
    corners = g.numpy.random((count, 2)) * 3
    boxes = np.concatenate([corners, corners + g.numpy.random((count, 2)) * 4], 1).astype(x.dtype)
    places = g.numpy.integers(0, 2, count).astype(np.int64)
    return Node("RoiAlign", [x, Constant(boxes), Constant(places)], mode="avg", output_height=g.between(1, 3),
                output_width=g.between(1, 3), sampling_ratio=g.between(0, 2), spatial_scale=g.one_of(1.0, 0.5),
                coordinate_transformation_mode=g.one_of("half_pixel", "output_half_pixel"))  # fmt: skip


def affine_grid(g):
    spatial = g.one_of(2, 3)
    dtype = g.one_of(F32, F32, F64)
    theta = g.add_input(dtype, (g.between(1, 2), spatial, spatial + 1), 1)
    extents = [theta.shape[0], g.between(1, 3), *(g.between(1, 4) for _ in range(spatial))]
    # Of one pixel with aligned corners ONNX's reference divides by zero and takes the border, ONNX Runtime the middle.
    aligned = g.below(2) if min(extents[2:]) > 1 else 0
    return Node("AffineGrid", [theta, listed(extents)], align_corners=aligned)


RULES = [*[resize] * 3, grid_sample, affine_grid, regions]
