"""Rows scaled to length one, a reduction as a user's operator: norm = max(||row||, epsilon), y = row / norm.

aipugb model.onnx --plugin unit_rows.py -o model.aipu.bin
"""

from aipu import op
from aipu import script as S

T = op.dtype("float32", "float16")  # of the rows; sums and norms are float32
VL = op.lanes("float32")


def squared(v):
    return v * v


@op.register(
    "example::UnitRows",
    inputs={"x": op.tensor(T, "...rows", "cols")},
    outputs={"y": op.tensor(T, "...rows", "cols"), "norm": op.tensor("float32", "...rows", 1)},
    attributes={"epsilon": 1e-12},
)
@S.prim_func
def unit_rows(
    x: S.ptr(T, "global"),
    y: S.ptr(T, "global"),
    norm: S.ptr("float32", "global"),
    rows: S.i32,
    cols: S.i32,
    epsilon: S.fp32,
):
    # Each TEC takes a contiguous range of rows.
    share = S.ceildiv(rows, S.get_local_size())
    first = S.min(S.get_local_id() * share, rows)
    full = cols // VL * VL
    rest = S.tail_mask(cols - full, VL)
    for row in range(first, S.min(first + share, rows)):
        source = x + row * cols
        target = y + row * cols
        total = squared(S.cast(S.vload(source + full, lanes=VL, mask=rest), "float32"))
        for j in range(0, full, VL):
            total = total + squared(S.cast(S.vload(source + j, lanes=VL), "float32"))
        length = S.max(S.sqrt(S.vrpadd(total)[0]), epsilon)
        norm[row] = length
        for j in range(0, full, VL):
            S.vstore(S.cast(S.cast(S.vload(source + j, lanes=VL), "float32") / length, T), target + j)
        tail = S.cast(S.vload(source + full, lanes=VL, mask=rest), "float32") / length
        S.vstore(S.cast(tail, T), target + full, mask=rest)
