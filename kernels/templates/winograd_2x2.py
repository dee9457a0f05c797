"""The transforms of Winograd's F(2x2, 3x3), see winograd.py.

out = At ((G g Gt) * (Bt d B)) A        Bt = 1  0 -1  0     G = 1    0    0      At = 1 1  1  0
per 4x4 patch d and 3x3 kernel g             0  1  1  0         0.5  0.5  0.5        0 1 -1 -1
                                             0 -1  1  0         0.5 -0.5  0.5
                                             0  1  0 -1         0    0    1
"""

from aipu import script as S
from epilogue import finish_shared, shared_values


def transform_patch(d, v, plane):
    """v[xi * plane ...] = element xi of Bt d B."""
    for s in S.unroll(4):
        d0 = d[s] - d[8 + s]
        d1 = d[4 + s] + d[8 + s]
        d2 = d[8 + s] - d[4 + s]
        d3 = d[4 + s] - d[12 + s]
        d[s] = d0
        d[4 + s] = d1
        d[8 + s] = d2
        d[12 + s] = d3
    for r in S.unroll(4):
        S.vstore(d[4 * r] - d[4 * r + 2], v + (4 * r) * plane)
        S.vstore(d[4 * r + 1] + d[4 * r + 2], v + (4 * r + 1) * plane)
        S.vstore(d[4 * r + 2] - d[4 * r + 1], v + (4 * r + 2) * plane)
        S.vstore(d[4 * r + 1] - d[4 * r + 3], v + (4 * r + 3) * plane)


@S.prim_func(is_inline=False)
def input_2x2(
    x: S.ptr(X, "global"),
    line: S.i64,
    pixel: S.i64,
    channels: S.i32,
    y: S.i32,
    column: S.i32,
    in_h: S.i32,
    in_w: S.i32,
    v: S.ptr(ACC, "global"),
    plane: S.i64,
):
    """The patch at (y, column) of the image x, whose lines are `line` apart and pixels `pixel`; pixels outside are
    zero.
    """
    origin = x + (S.i64(y) * line + S.i64(column) * pixel)
    whole = channels // VL * VL if IN_TAIL else channels
    d = S.alloc_buffer((16,), f"{ACC}x{VL}")
    if y >= 0 and column >= 0 and y + 4 <= in_h and column + 4 <= in_w:
        for c in range(0, whole, VL):
            for r in S.unroll(4):
                for s in S.unroll(4):
                    d[4 * r + s] = S.vload(origin + (S.i64(r) * line + S.i64(s) * pixel + c), lanes=VL)
                    if PREFETCH > 0 and s >= 2:
                        # Of the tile after the next one, the columns that no tile before it has.
                        S.prefetch(origin + (S.i64(r) * line + S.i64(s + 4) * pixel + c))
            transform_patch(d, v + c, plane)
    else:
        for c in range(0, whole, VL):
            for r in S.unroll(4):
                for s in S.unroll(4):
                    d[4 * r + s] = S.cast(0, f"{ACC}x{VL}")
                    if y + r >= 0 and y + r < in_h and column + s >= 0 and column + s < in_w:
                        d[4 * r + s] = S.vload(origin + (S.i64(r) * line + S.i64(s) * pixel + c), lanes=VL)
            transform_patch(d, v + c, plane)


@S.prim_func(is_inline=False)
def tail_2x2(
    x: S.ptr(X, "global"),
    line: S.i64,
    pixel: S.i64,
    channels: S.i32,
    y: S.i32,
    column: S.i32,
    in_h: S.i32,
    in_w: S.i32,
    v: S.ptr(ACC, "global"),
    plane: S.i64,
):
    """input_2x2() for the channels after the last whole vector; up to a vector of zeros is written behind them."""
    c = channels // VL * VL
    origin = x + (S.i64(y) * line + S.i64(column) * pixel + c)
    d = S.alloc_buffer((16,), f"{ACC}x{VL}")
    for r in S.unroll(4):
        for s in S.unroll(4):
            d[4 * r + s] = S.cast(0, f"{ACC}x{VL}")
            if y + r >= 0 and y + r < in_h and column + s >= 0 and column + s < in_w:
                d[4 * r + s] = S.vload(
                    origin + (S.i64(r) * line + S.i64(s) * pixel), mask=S.tail_mask(channels - c, VL), lanes=VL
                )
    transform_patch(d, v + c, plane)


def transform_vector(m, plane, lane_mask, extras, out, row_offset, line, ldc, rows, columns, n):
    d = S.alloc_buffer((16,), f"{ACC}x{VL}")
    for s in S.unroll(4):
        m0 = S.vload(m + S.i64(s) * plane, lanes=VL)
        m1 = S.vload(m + S.i64(4 + s) * plane, lanes=VL)
        m2 = S.vload(m + S.i64(8 + s) * plane, lanes=VL)
        m3 = S.vload(m + S.i64(12 + s) * plane, lanes=VL)
        d[s] = m0 + m1 + m2
        d[4 + s] = m1 - m2 - m3
    shared = shared_values(extras, n, lane_mask)
    for r in S.unroll(2):
        if r < rows:
            finish_shared(
                d[4 * r] + d[4 * r + 1] + d[4 * r + 2], shared, extras, out, row_offset + r * line, n, lane_mask
            )
            if columns > 1:
                finish_shared(
                    d[4 * r + 1] - d[4 * r + 2] - d[4 * r + 3],
                    shared,
                    extras,
                    out,
                    row_offset + r * line + ldc,
                    n,
                    lane_mask,
                )


@S.prim_func(is_inline=False)
def output_2x2(
    m: S.ptr(ACC, "global"),
    plane: S.i64,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    line: S.i32,
    ldc: S.i32,
    rows: S.i32,
    columns: S.i32,
    n: S.i32,
    channels: S.i32,
):
    """One tile of one panel, of which `rows` x `columns` pixels and `channels` channels from n on exist."""
    for v in range(NV):
        if TAIL and channels - v * VL < VL:
            if channels > v * VL:
                transform_vector(
                    m + v * VL,
                    plane,
                    S.tail_mask(S.min(channels - v * VL, VL), VL),
                    extras,
                    out,
                    row_offset,
                    line,
                    ldc,
                    rows,
                    columns,
                    n + v * VL,
                )
        elif channels > v * VL:
            transform_vector(m + v * VL, plane, None, extras, out, row_offset, line, ldc, rows, columns, n + v * VL)
