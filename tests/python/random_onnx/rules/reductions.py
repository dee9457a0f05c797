"""Over axes: sums, extremes and where they are, running sums."""

import numpy as np
from values import I32, I64, Constant, Node, Refused

from rules.common import ints, listed

REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
).split()


def reduce(g):
    op = g.one_of(*REDUCTIONS)
    x = g.bools() if op in ("ReduceMax", "ReduceMin") and g.chance(10) else g.numbers()
    if op == "ReduceProd" and x.dtype.kind != "f" and x.array.size > 8:
        raise Refused  # what overflows is anybody's
    if op in ("ReduceLogSum", "ReduceLogSumExp") and x.dtype.kind != "f":
        raise Refused  # logarithms as integers are anybody's
    if op == "ReduceProd" and x.array.size > 60:
        raise Refused  # whether an infinity meets a zero depends on the order
    if x.array.size == 0 and op == "ReduceMean":
        raise Refused  # 0 / 0: ONNX Runtime gives 0
    axes = [listed(g.axes(x))] if g.chance(80) else []
    keeps = op in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1")
    return Node(op, [x, *axes], keeps=keeps, keepdims=g.below(2), noop_with_empty_axes=g.one_of(0, 0, 1))


def arg(g):
    x = g.numbers(1, exact=True)
    last = g.below(2)
    return Node(g.one_of("ArgMax", "ArgMin"), [x], jumps=True, axis=g.axis(x), keepdims=g.below(2),
                select_last_index=last)  # fmt: skip


def cumulative(g):
    x = g.numbers(1)
    axis = Constant(np.array(g.axis(x), g.one_of(I32, I64)))
    return Node("CumSum", [x, axis], keeps=True, exclusive=g.below(2), reverse=g.below(2))


def top_k(g):
    x = g.numbers(1, exact=True)
    axis = g.axis(x)
    k = ints(g.between(0, x.shape[axis]))
    return Node("TopK", [x, k], 2, jumps=True, keeps=True, axis=axis, largest=g.below(2), sorted=1)


def product(g):
    x = g.pick(lambda v: v.rank and v.array.size <= (60 if v.dtype.kind == "f" else 8) and v.dtype.kind in "fiu")
    axis = Constant(np.array(g.axis(x), g.one_of(I32, I64)))
    return Node("CumProd", [x, axis], exclusive=g.below(2), reverse=g.below(2))


RULES = [*[reduce] * 4, *[arg] * 2, cumulative, product, top_k]
