"""What moves elements and makes tensors: shapes, slices, pads, repetitions."""

import numpy as np
from onnx import numpy_helper
from values import F16, F32, F64, I16, I32, I64, ONNX_TYPES, TEXT, TYPES, Constant, Node, Refused

from rules.common import listed, scalar


def transpose(g):
    x = g.any()
    order = list(range(x.rank))
    g.random.shuffle(order)
    return Node("Transpose", [x], keeps=True, perm=order if order and g.chance(90) else None)


def reshape(g):
    x = g.any()
    extents, left = [], x.array.size
    while left > 1 and len(extents) < 4:
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        extents.append(g.one_of(*divisors))
        left //= extents[-1]
    if x.array.size:
        extents.append(left)
        if g.chance(60):
            extents[g.below(len(extents))] = -1
    else:
        extents = list(x.shape)
    return Node("Reshape", [x, listed(extents)], keeps=True)


def flatten(g):
    x = g.any(1)
    return Node("Flatten", [x], keeps=True, axis=g.between(-x.rank, x.rank))


def squeeze(g):
    x = g.any()
    ones = [axis - g.one_of(0, x.rank) for axis, extent in enumerate(x.shape) if extent == 1]
    if not ones or g.chance(50):
        rank = x.rank + g.between(1, 2)
        axes = sorted(g.random.sample(range(rank), rank - x.rank))
        return Node("Unsqueeze", [x, listed([axis - g.one_of(0, rank) for axis in axes])], keeps=True)
    return Node("Squeeze", [x, listed(g.some(ones, 1))], keeps=True)


def concat(g):
    x = g.any(1)
    axis = g.axis(x)
    parts = [x]
    for _ in range(g.between(0, 3)):
        found = [v for v in g.pool if v.dtype == x.dtype and v.rank == x.rank
                 and all(a == b for k, (a, b) in enumerate(zip(v.shape, x.shape)) if k != axis % x.rank)]  # fmt: skip
        if g.chance(60):
            parts.append(g.one_of(*found))
        else:
            shape = list(x.shape)
            shape[axis] = g.between(0, 3)
            parts.append(Constant(g.array(x.dtype, shape)))
    g.random.shuffle(parts)
    return Node("Concat", parts, keeps=True, axis=axis)


def split(g):
    x = g.any(1)
    axis = g.axis(x)
    count = g.between(1, 3)
    if g.chance(40):
        return Node("Split", [x], count, keeps=True, axis=axis, num_outputs=count)
    cuts = sorted(g.between(0, x.shape[axis]) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, x.shape[axis]])
    # Of two extents that only a run knows, 0 beside 1 is not broadcast here.
    return Node("Split", [x, listed(sizes, known=0 in sizes)], count, keeps=True, axis=axis)


def cut(g):
    x = g.any(1)
    axes = g.some(range(x.rank), 1)
    starts = [g.between(-extent - 1, extent + 1) for extent in (x.shape[axis] for axis in axes)]
    ends = [g.one_of(g.between(-extent - 1, extent + 1), 2**40, -(2**40)) for extent in (x.shape[a] for a in axes)]
    steps = [g.one_of(1, 1, 1, 2, 3, -1, -2) for _ in axes]
    named = [axis - g.one_of(0, x.rank) for axis in axes]
    if g.chance(30):
        return Node("Slice", [x, listed(starts), listed(ends), listed(named)], keeps=True)
    return Node("Slice", [x, listed(starts), listed(ends), listed(named), listed(steps)], keeps=True)


def pad(g):
    x = g.any(1)
    mode = g.one_of("constant", "constant", "edge", "reflect", "wrap")
    if x.dtype == TEXT:
        raise Refused
    low = -1 if mode == "constant" else 0
    axes = g.some(range(x.rank), 1) if g.chance(40) else list(range(x.rank))
    most = [min(2, x.shape[axis] - 1) if mode != "constant" else 2 for axis in axes]
    if min(most) < 0 or (mode != "constant" and 0 in x.shape):
        raise Refused
    pads = [g.between(low, reach) for reach in most * 2]
    value = scalar(g.one_of(0, 1, 2), x.dtype) if mode == "constant" and g.chance(50) else None
    named = listed([axis - g.one_of(0, x.rank) for axis in axes]) if len(axes) < x.rank else None
    return Node("Pad", [x, listed(pads), value, named], keeps=True, mode=mode)


def tile(g):
    x = g.any(1)
    return Node("Tile", [x, listed([g.one_of(1, 1, 2, 3, 0 if g.chance(5) else 1) for _ in x.shape])], keeps=True)


def expand(g):
    x = g.any()
    shape = [g.between(1, 3) if extent == 1 else g.one_of(1, extent) for extent in x.shape]
    shape = [g.between(1, 2)] * g.below(2) + shape if g.chance(50) else shape[g.below(len(shape) + 1) :]
    return Node("Expand", [x, listed(shape)], keeps=True)


def blocks(g):
    if g.chance(50):
        x = g.add_input(g.one_of(F32, F32, F64, F16, I32), (g.between(1, 2), 4 * g.between(1, 2), g.between(1, 3), 2))
        return Node("DepthToSpace", [x], keeps=True, blocksize=2, mode=g.one_of("DCR", "CRD"))
    x = g.add_input(g.one_of(F32, F32, F64, F16, I32), (g.between(1, 2), g.between(1, 3), 2 * g.between(1, 3), 4))
    return Node("SpaceToDepth", [x], keeps=True, blocksize=2)


def triangle(g):
    x = g.any(2)
    k = scalar(g.between(-3, 3), I64)
    return Node("Trilu", [x, k] if g.chance(70) else [x], keeps=True, upper=g.below(2))


def reverse(g):
    x = g.any(2)
    batch = g.below(2)
    if 0 in x.shape:
        raise Refused
    lengths = [g.between(1, x.shape[1 - batch]) for _ in range(x.shape[batch])]
    return Node("ReverseSequence", [x, listed(lengths)], keeps=True, batch_axis=batch, time_axis=1 - batch)


def about_shape(g):
    x = g.any()
    op = g.one_of("Shape", "Size", "EyeLike", "Shape")
    if op == "Shape" and x.rank:
        return Node(op, [x], start=g.between(-x.rank, x.rank), end=g.one_of(None, g.between(-x.rank, x.rank)))
    if op == "EyeLike":
        return Node(op, [g.any(2, 2)], keeps=True, k=g.between(-2, 2), dtype=g.one_of(None, *ONNX_TYPES.values()))
    return Node(op, [x])


def make(g):
    if g.chance(50):
        dtype = g.one_of(None, *TYPES)
        value = None if dtype is None else numpy_helper.from_array(np.array([g.below(3)], dtype))
        return Node("ConstantOfShape", [listed(g.shape(0, 3))], keeps=True, value=value)
    dtype = g.one_of(I64, I32, I16, F32, F64)
    start, step = g.between(-3, 3), g.one_of(1, 2, -1, -2)
    return Node("Range", [scalar(start, dtype), scalar(start + step * g.between(0, 6), dtype), scalar(step, dtype)])


def center(g):
    x = g.pick(lambda v: v.rank >= 2 and v.dtype != TEXT)  # no text is zero
    axes = g.some(range(x.rank), 1)
    return Node("CenterCropPad", [x, listed([g.between(1, 6) for _ in axes])], keeps=True, axes=axes)


def constant(g):
    choice = g.below(4)
    if choice == 0:
        return Node("Constant", [], keeps=True, value=numpy_helper.from_array(g.array(g.one_of(*TYPES), g.shape())))
    if choice == 1:
        return Node("Constant", [], keeps=True, value_float=0.5)
    if choice == 2:
        return Node("Constant", [], keeps=True, value_ints=[g.between(-3, 3) for _ in range(g.between(1, 4))])
    return Node("Constant", [], keeps=True, value_floats=[1.5, -2.0])


RULES = [
    *[transpose] * 3, *[reshape] * 3, *[concat] * 3, *[cut] * 3, *[pad] * 2, *[squeeze] * 2, about_shape, blocks,
    center, constant, expand, flatten, make, reverse, split, tile, triangle,
]  # fmt: skip
