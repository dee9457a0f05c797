"""out[n, v] = exp(scale * sum of (x[n, c] - vectors[c, v])^2 over c): the radial kernel of rows with support vectors.

The differences themselves are squared: what is left of |x|^2 + |v|^2 - 2 x v where a row is near a vector has lost its
digits. Parameters: VL; ROWS and WIDTH, the rows and vector registers that are summed at a time, SINGLE, the registers
of one row where there are fewer; PANEL, how many support vectors all rows pass before the next ones, which stay in the
cache for them. Sums run over c in order, so that they are the same for a row whoever is beside it.
"""

from aipu import script as S
from sharing import own_share


def block(x, vectors, out, columns, count, scale, rows, width, lane_mask):
    """Of `rows` rows of x and `width` registers of vectors; the mask is that of the only one."""
    sums = S.alloc_buffer((rows * width,), f"fp32x{VL}")
    for i in S.unroll(rows * width):
        sums[i] = S.cast(0, f"fp32x{VL}")
    for c in range(columns):
        coordinates = [S.vload(vectors + (c * count + w * VL), lanes=VL, mask=lane_mask) for w in range(width)]
        for r in S.unroll(rows):
            value = S.vbcast(x[r * columns + c], lanes=VL)
            for w in S.unroll(width):
                apart = value - coordinates[w]
                sums[r * width + w] = sums[r * width + w] + apart * apart
    for r in S.unroll(rows):
        for w in S.unroll(width):
            S.vstore(S.exp(sums[r * width + w] * S.vbcast(scale, lanes=VL)), out + (r * count + w * VL), mask=lane_mask)


def panel_of_rows(x, vectors, out, columns, count, here, scale, rows, width):
    """Of `rows` rows and the `here` vectors from `vectors` on."""
    wide = here // (width * VL) * (width * VL)
    full = here // VL * VL
    for v in range(0, wide, width * VL):
        block(x, vectors + v, out + v, columns, count, scale, rows, width, None)
    for v in range(wide, full, VL):
        block(x, vectors + v, out + v, columns, count, scale, rows, 1, None)
    if full < here:
        block(x, vectors + full, out + full, columns, count, scale, rows, 1, S.tail_mask(here - full, VL))


@S.prim_func
def radial(
    x: S.ptr("fp32", "global"),
    vectors: S.ptr("fp32", "global"),
    out: S.ptr("fp32", "global"),
    rows: S.i32,
    columns: S.i32,
    count: S.i32,
    scale: S.fp32,
):
    """A unit is a panel of vectors for ROWS rows."""
    groups = S.ceildiv(rows, ROWS)
    first, last = own_share(S.ceildiv(count, PANEL) * groups)
    for unit in range(first, last):
        v = unit // groups * PANEL
        row = unit % groups * ROWS
        here = S.min(count - v, PANEL)
        if row + ROWS <= rows:
            panel_of_rows(
                x + row * columns, vectors + v, out + (row * count + v), columns, count, here, scale, ROWS, WIDTH
            )
        else:
            for r in range(row, rows):
                panel_of_rows(
                    x + r * columns, vectors + v, out + (r * count + v), columns, count, here, scale, 1, SINGLE
                )
