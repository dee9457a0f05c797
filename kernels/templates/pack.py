"""Packs a right operand known only at run time: out[b][panel][k][c] = source[b * batch_stride + column * column_stride
+ (k % inner) * inner_stride + (k // inner) * outer_stride].

Parameters: X, ACC, WIDTH (panel width). Columns beyond `columns` are zero.
"""

from aipu import script as S
from sharing import own_share


@S.prim_func
def pack(
    source: S.ptr(X, "global"),
    out: S.ptr(ACC, "global"),
    batches: S.i32,
    depth: S.i32,
    columns: S.i32,
    inner: S.i32,
    batch_stride: S.i32,
    column_stride: S.i32,
    inner_stride: S.i32,
    outer_stride: S.i32,
):
    panels = S.ceildiv(columns, WIDTH)
    units = batches * panels
    first, last = own_share(units)
    for unit in range(first, last):
        base = (unit // panels) * batch_stride
        for k in range(depth):
            row = base + (k % inner) * inner_stride + (k // inner) * outer_stride
            for c in range(WIDTH):
                column = (unit % panels) * WIDTH + c
                at = (unit * depth + k) * WIDTH + c
                if column < columns:
                    out[at] = S.cast(source[row + column * column_stride], ACC)
                else:
                    out[at] = S.cast(0, ACC)
