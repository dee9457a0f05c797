"""HardShrink as a user's operator: y = x where |x| > lambd, else 0.

One file is all it takes, for every target and every shape:

    aipugb model.onnx --plugin hard_shrink.py -o model.aipu.bin
"""

from aipu import op
from aipu import script as S

T = op.dtype("float32", "float16")  # the element type of a node's x; the kernel computes in float32
VL = op.lanes("float32")


def check(lambd):
    if lambd < 0:
        return f"lambd is {lambd}, it must not be negative"
    return None


def shrunk(value, lambd):
    wide = S.cast(value, "float32")
    return S.cast(S.vsel(wide, 0, S.abs(wide) > lambd), T)


@op.register(
    "example::HardShrink",
    inputs={"x": op.tensor(T, "...n")},
    outputs={"y": op.tensor(T, "...n")},
    attributes={"lambd": 0.5},
    check=check,
    grain=4096,
    apart=["n"],
)
@S.prim_func
def hard_shrink(x: S.ptr(T, "global"), y: S.ptr(T, "global"), n: S.i32, lambd: S.fp32):
    # Each TEC takes a contiguous range of whole vectors; the last one has the tail.
    share = S.ceildiv(S.ceildiv(n, VL), S.get_local_size()) * VL
    begin = S.min(S.get_local_id() * share, n)
    end = S.min(begin + share, n)
    full = begin + (end - begin) // VL * VL
    for j in range(begin, full, VL):
        S.vstore(shrunk(S.vload(x + j, lanes=VL), lambd), y + j)
    if full < end:
        rest = S.tail_mask(end - full, VL)
        S.vstore(shrunk(S.vload(x + full, lanes=VL, mask=rest), lambd), y + full, mask=rest)
