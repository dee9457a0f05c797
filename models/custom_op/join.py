"""Vectors of any lengths one after another, with a number between them, as a user's operator.

aipugb model.onnx --plugin join.py -o model.aipu.bin
"""

from aipu import op
from aipu import script as S

T = op.dtype("float32", "int32")


def check(xs):
    for x in xs:
        if len(x) != 1:
            return "vectors are expected"
    return None if xs else "vectors are expected"


def lengths_of(xs):
    return [x[0] for x in xs]


def total(lengths, gap):
    gaps = 0 if gap is None else len(lengths) - 1
    return sum(lengths) + gaps


@op.register(
    "example::Join",
    inputs={"gap": op.optional(T, 1), "xs": op.variadic(T)},
    outputs={"y": op.tensor(T, "total")},
    extents={"lengths": lengths_of, "total": total},
    check=check,
)
@S.prim_func
def join(gap: S.ptr(T, "global"), xs: S.ptr(T, "global"), y: S.ptr(T, "global"), lengths: S.i32):
    start = S.i32(0)
    for k in S.unroll(len(xs)):
        for i in range(S.get_local_id(), lengths[k], S.get_local_size()):
            y[start + i] = xs[k][i]
        start = start + lengths[k]
        if gap is not None and k + 1 < len(xs):
            if S.get_local_id() == 0:
                y[start] = gap[0]
            start = start + 1
