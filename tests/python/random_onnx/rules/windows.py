"""Windows that move over images: convolutions, pools, and what undoes them."""

import numpy as np
from values import F16, F32, F64, I8, U8, Constant, Node, Refused

from rules.common import ints


def window(g, x, kernel, dilated_with_auto_pad=True):
    """strides, dilations, pads or auto_pad; of windows that are larger than the image everybody makes another thing."""
    spatial = x.rank - 2
    attributes = {"kernel_shape": list(kernel), "strides": [g.one_of(1, 1, 2, 3) for _ in range(spatial)]}
    if g.chance(50):
        attributes["dilations"] = [g.one_of(1, 1, 2) for _ in range(spatial)]
    choice = g.below(4)
    if choice == 0:
        attributes["pads"] = [g.below(kernel[k % spatial]) for k in range(2 * spatial)]
    elif choice == 1 and (dilated_with_auto_pad or "dilations" not in attributes):
        attributes["auto_pad"] = g.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    for k, extent in enumerate(x.shape[2:]):
        pads = attributes.get("pads", [0] * 2 * spatial)
        reach = (kernel[k] - 1) * attributes.get("dilations", [1] * spatial)[k] + 1
        if reach > extent + pads[k] + pads[k + spatial]:
            raise Refused
        # Strides that pass over the last elements would make the padding of SAME negative: here it is 0, as where the
        # word comes from (TensorFlow); ONNX Runtime cuts pools of 8 bits, and refuses the others.
        stride = attributes["strides"][k]
        if attributes.get("auto_pad", "").startswith("SAME") and (extent - 1) // stride * stride + reach < extent:
            raise Refused
    return attributes


def image(g, dtype=None):
    """Of [N, C, spatial...]."""
    if g.chance(60):
        try:
            return g.floats(3, 5, dtype)
        except Refused:
            pass
    spatial = g.one_of(1, 2, 2, 2, 3)
    shape = (g.one_of(1, 2), g.one_of(1, 2, 3, 4, 6), *(g.between(2, 7) for _ in range(spatial)))
    return g.add_input(dtype or F32, shape)


def conv(g):
    x = image(g, g.one_of(F32, F32, F32, F32, F64, F16))
    spatial = x.rank - 2
    kernel = [g.one_of(1, 2, 3) for _ in range(spatial)]
    group = g.one_of(*(d for d in range(1, 7) if x.shape[1] and x.shape[1] % d == 0)) if x.shape[1] else 1
    per_group = max(x.shape[1] // group, 1)
    bias = g.chance(60)
    attributes = window(g, x, kernel)
    outs = group * g.between(1, 3)
    if g.chance(25):
        if "dilations" in attributes and g.chance(50):
            del attributes["dilations"]
        if attributes.get("auto_pad", "").startswith("SAME"):
            del attributes["auto_pad"]
        w = Constant(g.array(x.dtype, (x.shape[1], outs // group, *kernel)))
        attributes["output_padding"] = [g.below(stride) for stride in attributes["strides"]]
        operands = [x, w, Constant(g.array(x.dtype, (outs,))) if bias else None]
        return Node("ConvTranspose", operands, keeps=True, group=group, **attributes)
    w = Constant(g.array(x.dtype, (outs, per_group, *kernel)))
    return Node(
        "Conv", [x, w, Constant(g.array(x.dtype, (outs,))) if bias else None], keeps=True, group=group, **attributes
    )


def pool(g):
    x = image(g, g.one_of(None, None, F32, F64, F16, I8, U8))
    spatial = x.rank - 2
    op = g.one_of("MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
    if op.startswith("Global"):
        return Node(op, [x])
    kernel = [g.one_of(1, 2, 3) for _ in range(spatial)]
    attributes = window(g, x, kernel, False)  # ONNX Runtime pads pools as if they had none
    if g.chance(30) and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    if op == "AveragePool" and g.chance(50):
        attributes["count_include_pad"] = 1
    if op == "LpPool":
        attributes["p"] = g.one_of(1, 2, 3)
    if op == "MaxPool":
        indices = g.chance(20) and x.exact and "ceil_mode" not in attributes
        if indices and np.unique(x.array).size < x.array.size:
            raise Refused  # of equal elements anybody's index
        return Node(op, [x], 1 + indices, jumps=bool(indices), keeps=True, **attributes)
    return Node(op, [x], **attributes)


def col2im(g):
    block, extent = (g.between(1, 3), g.between(1, 3)), (g.between(3, 5), g.between(3, 5))
    count = (extent[0] - block[0] + 1) * (extent[1] - block[1] + 1)
    x = g.add_input(F32, (g.between(1, 2), g.between(1, 2) * block[0] * block[1], count))
    return Node("Col2Im", [x, ints(*extent), ints(*block)], keeps=True)


def unpool(g):
    rows, columns = g.between(1, 3), g.between(1, 3)
    shape = (g.between(1, 2), g.between(1, 2), rows, columns)
    x = g.add_input(F32, shape)
    planes = [g.random.sample(range(4 * rows * columns), rows * columns) for _ in range(shape[0] * shape[1])]
    offsets = np.arange(shape[0] * shape[1])[:, None] * 4 * rows * columns
    places = (np.array(planes) + offsets).reshape(shape).astype(np.int64)
    return Node("MaxUnpool", [x, Constant(places)], keeps=True, kernel_shape=[2, 2], strides=[2, 2])


def conv_integer(g):
    x = g.add_input(g.one_of(U8, U8, I8), (g.between(1, 2), g.between(1, 4), g.between(2, 6), g.between(2, 6)))
    kernel = [g.between(1, 2), g.between(1, 2)]
    weight = Constant(g.array(g.one_of(U8, I8), (g.between(1, 4), x.shape[1], *kernel)))
    zeros = [Constant(g.array(x.dtype, ()))] if g.chance(60) else []
    if zeros and g.chance(60):
        zeros.append(Constant(g.array(weight.array.dtype, ())))
    return Node("ConvInteger", [x, weight, *zeros], **window(g, x, kernel))


def deformed(g):
    x = g.add_input(g.one_of(F32, F32, F64, F16), (g.between(1, 2), g.one_of(2, 4), g.between(3, 5), g.between(3, 5)))
    groups, kernel = g.one_of(1, 2), (g.between(1, 2), g.between(1, 3))
    rows, columns = x.shape[2] - kernel[0] + 1, x.shape[3] - kernel[1] + 1
    weight = Constant(g.array(x.dtype, (2, x.shape[1], *kernel)))
    taps = groups * kernel[0] * kernel[1]
    offset = Constant(g.array(x.dtype, (x.shape[0], 2 * taps, rows, columns), exact=False))
    mask = Constant(g.array(x.dtype, (x.shape[0], taps, rows, columns))) if g.chance(50) else None
    bias = Constant(g.array(x.dtype, (2,))) if g.chance(50) else None
    return Node("DeformConv", [x, weight, offset, bias, mask], offset_group=groups, kernel_shape=kernel)


def max_roi_pool(g):
    x = g.add_input(F32, (2, g.between(1, 3), g.between(3, 6), g.between(3, 6)))
    count = g.between(1, 4)
    corners = g.numpy.integers(0, 2, (count, 2))
    images, extents = g.numpy.integers(0, 2, (count, 1)), g.numpy.integers(1, 4, (count, 2))
    boxes = np.concatenate([images, corners, corners + extents], 1)
    extents = [g.between(1, 3), g.between(1, 3)]
    return Node("MaxRoiPool", [x, Constant(boxes.astype(F32))], keeps=True, pooled_shape=extents, spatial_scale=1.0)


RULES = [*[conv] * 3, *[pool] * 3, col2im, conv_integer, deformed, max_roi_pool, unpool]
