"""Elements at given places, and places of elements."""

import numpy as np
from values import BOOL, F32, I32, I64, NUMBERS, TEXT, Constant, Node, Refused

from rules.common import scalar


def indices(g, extent, shape):
    if extent == 0:
        raise Refused
    return g.numpy.integers(-extent, extent, shape).astype(g.one_of(I64, I64, I32))


def gather(g):
    x = g.any(1)
    axis = g.axis(x) if x.dtype != TEXT else -1  # ONNX Runtime copies one text of each block
    if g.chance(50):
        return Node("Gather", [x, Constant(indices(g, x.shape[axis], g.shape(0, 2)))], keeps=True, axis=axis)
    shape = [g.between(0 if g.chance(10) else 1, extent) if extent else 0 for extent in x.shape]
    shape[axis] = g.between(1, 4)
    return Node("GatherElements", [x, Constant(indices(g, x.shape[axis], shape))], keeps=True, axis=axis)


def gather_nd(g):
    x = g.any(1)
    batch = g.below(min(x.rank, 2))
    depth = g.between(1, x.rank - batch)
    lead = x.shape[:batch] + g.shape(0 if batch else 1, 2)
    columns = [indices(g, x.shape[batch + k], lead).astype(np.int64) for k in range(depth)]
    return Node("GatherND", [x, Constant(np.stack(columns, -1))], keeps=True, batch_dims=batch)


def scatter(g):
    x = g.any(1)
    axis = g.axis(x)
    shape = [g.between(1, extent) if extent else 0 for extent in x.shape]
    if x.shape[axis] == 0:
        raise Refused
    reduction = g.one_of("none", "add", "mul", "max", "min") if x.dtype in NUMBERS else "none"
    # positions that come twice are in any order, unless they are combined
    places = np.argsort(g.numpy.random(x.shape), axis)[tuple(slice(extent) for extent in shape)]
    return Node("ScatterElements", [x, Constant(places.astype(np.int64)), Constant(g.array(x.dtype, shape))],
                keeps=reduction in ("none", "add", "max", "min"), axis=axis, reduction=reduction)  # fmt: skip


def scatter_nd(g):
    x = g.any(1)
    depth = g.between(1, x.rank)
    reduction = g.one_of("none", "add", "mul", "max", "min") if x.dtype in NUMBERS else "none"
    total = int(np.prod(x.shape[:depth]))
    if total == 0:
        raise Refused
    rows = g.random.sample(range(total), g.between(1, total))
    places = np.stack(np.unravel_index(rows, x.shape[:depth]), -1).astype(np.int64)
    updates = g.array(x.dtype, (len(rows), *x.shape[depth:]))
    return Node("ScatterND", [x, Constant(places), Constant(updates)], keeps=reduction in ("none", "add", "max", "min"),
                reduction=reduction)  # fmt: skip


def one_hot(g):
    depth = g.between(1, 5)
    x = g.integers()
    axis = g.between(-x.rank - 1, x.rank)
    values = g.array(g.one_of(F32, F32, *NUMBERS), (2,))
    return Node("OneHot", [x, scalar(depth, g.one_of(I64, I64, I32)), Constant(values)], keeps=True, axis=axis)


def found_places(g):
    op = g.one_of("NonZero", "Compress", "Unique")
    if op == "NonZero":
        return Node(op, [g.pick(lambda v: v.exact and v.rank >= 1)], jumps=True)
    x = g.any(1)
    if op == "Compress":
        axis = g.one_of(None, g.axis(x))
        count = x.array.size if axis is None else x.shape[axis]
        return Node(op, [x, Constant(g.array(BOOL, (g.between(0, count),)))], keeps=True, axis=axis)
    x = g.numbers(1, exact=True)
    return Node(op, [x], 4, jumps=True, keeps=True, axis=g.one_of(None, g.axis(x)), sorted=1)


def tensor_scatter(g):
    """Steps written into a cache."""
    batch, steps, size = g.between(1, 3), g.between(2, 5), g.between(1, 4)
    cache = g.add_input(g.one_of(F32, *NUMBERS), (batch, g.between(1, 2), steps, size))
    count = g.between(1, steps)
    update = Constant(g.array(cache.dtype, (*cache.shape[:2], count, size)))
    circular = g.chance(40)
    begins = [g.between(0, steps - 1 if circular else steps - count) for _ in range(batch)]
    mode = "circular" if circular else "linear"
    return Node("TensorScatter", [cache, update, Constant(np.array(begins, I64))], keeps=True, axis=-2, mode=mode)


def suppressed(g):
    """Boxes of whole corners: whether an overlap is beyond a threshold between them is sure."""
    batches, count, classes = g.between(1, 2), g.between(1, 7), g.between(1, 3)
    corners = g.numpy.integers(0, 5, (batches, count, 2))
    boxes = np.concatenate([corners, corners + g.numpy.integers(1, 5, (batches, count, 2))], -1).astype(F32)
    ranks = np.array(g.random.sample(range(200), batches * classes * count)) / 256
    scores = ranks.reshape(batches, classes, count).astype(F32)
    limits = [scalar(g.between(0, 4), I64), scalar(0.3571, F32), scalar(g.one_of(0.1, 0.4), F32)][: g.between(1, 3)]
    return Node("NonMaxSuppression", [Constant(boxes), Constant(scores), *limits],
                center_point_box=g.below(2))  # fmt: skip


RULES = [
    *[gather] * 3, gather_nd, scatter, scatter_nd, one_hot, *[found_places] * 2, suppressed, tensor_scatter,
]  # fmt: skip
