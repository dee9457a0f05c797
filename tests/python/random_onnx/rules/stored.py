"""Types that are stored and converted, and that few operators know: between two Casts."""

import numpy as np
from onnx import TensorProto
from values import F16, F32, Constant, Node, Refused

from rules.common import listed

FLOATS = "BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ".split()
INTEGERS = {"INT4": (-8, 7), "UINT4": (0, 15), "INT2": (-2, 1), "UINT2": (0, 3)}


def moved(g, x, stored):
    """What moves elements of any type."""
    op = g.one_of("Identity", "Transpose", "Reshape", "Flatten", "Concat", "Unsqueeze", "Slice", "Gather",
                  "Expand", "Where", "Split", "none", "Shape", "Size", "Tile", "Pad")  # fmt: skip
    if op == "none":
        return []
    if op == "Reshape":
        return [Node(op, [stored, listed([-1])], keeps=True)]
    if op == "Unsqueeze":
        return [Node(op, [stored, listed([0])], keeps=True)]
    if op in ("Identity", "Transpose", "Flatten"):
        return [Node(op, [stored], keeps=True)]
    if op in ("Shape", "Size"):
        return [Node(op, [stored], keeps=True)]
    if op == "Expand":
        return [Node(op, [stored, listed([2, *x.shape])], keeps=True)]
    if op == "Where":
        return [Node(op, [Constant(g.array("bool", x.shape)), stored, stored], keeps=True)]
    if x.rank == 0 or x.array.size == 0:
        raise Refused
    axis = g.axis(x)
    if op == "Concat":
        return [Node(op, [stored, stored], keeps=True, axis=axis)]
    if op == "Slice":
        return [Node(op, [stored, listed([0]), listed([g.between(1, 3)]), listed([axis])], keeps=True)]
    if op == "Gather":
        places = g.numpy.integers(0, x.shape[axis], g.shape(0, 2))
        return [Node(op, [stored, Constant(places.astype(np.int64))], keeps=True, axis=axis)]
    if op == "Tile":
        return [Node(op, [stored, listed([g.between(1, 2) for _ in x.shape])], keeps=True)]
    if op == "Pad":
        return [Node(op, [stored, listed([g.below(2) for _ in range(2 * x.rank)])], keeps=True, mode="edge")]
    return [Node(op, [stored], keeps=True, axis=axis, num_outputs=1)]


def small_floats(g):
    x = g.floats(dtype=g.one_of(F32, F32, F32, F16))
    saturate = g.one_of(1, 0) if g.chance(30) else None
    kind = g.one_of(*FLOATS)
    if kind == "BFLOAT16":
        saturate = None
    cast = Node("Cast", [x], jumps=True, to=getattr(TensorProto, kind), saturate=saturate)
    chain = [cast, *moved(g, x, cast)]
    if chain[-1].op in ("Shape", "Size"):
        return chain
    return [*chain, Node("Cast", [chain[-1]], keeps=True, to=TensorProto.FLOAT)]


def small_integers(g):
    kind = g.one_of(*INTEGERS)
    low, high = INTEGERS[kind]
    x = g.pick(lambda v: v.dtype.kind in "fi" and v.exact and np.all(v.array >= low) and np.all(v.array <= high))
    if np.any(x.array != np.floor(x.array)):
        raise Refused
    cast = Node("Cast", [x], jumps=True, keeps=True, to=getattr(TensorProto, kind))
    chain = [cast, *([Node("Transpose", [cast], keeps=True)] if g.chance(60) else [])]
    return [*chain, Node("Cast", [chain[-1]], keeps=True, to=g.one_of(TensorProto.FLOAT, TensorProto.INT32))]


def quantised_storage(g):
    """Quantised to a type of few bits, and back."""
    x = g.floats(1, dtype=F32, exact=True)
    kind = g.one_of(*INTEGERS, *FLOATS[1:])
    axis = g.axis(x)
    shape = (x.shape[axis],) if g.chance(40) else ()
    scale = Constant((2.0 ** g.numpy.integers(-2, 2, shape)).astype(F32))
    block = g.one_of(1, x.shape[axis]) if shape and g.chance(40) and 0 not in x.shape else None
    if block:
        extents = list(x.shape)
        extents[axis] //= block
        scale = Constant((2.0 ** g.numpy.integers(-2, 2, extents)).astype(F32))
    attributes = {"axis": axis, "block_size": block}
    there = Node("QuantizeLinear", [x, scale], jumps=True, output_dtype=getattr(TensorProto, kind), **attributes)
    return [there, Node("DequantizeLinear", [there, scale], keeps=True, **attributes)]


RULES = [*[small_floats] * 2, small_integers, quantised_storage]
