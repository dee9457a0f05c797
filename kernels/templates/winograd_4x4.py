"""The transforms of Winograd's F(4x4, 3x3), see winograd.py: out = At ((G g Gt) * (Bt d B)) A per 6x6 patch d and 3x3
kernel g.

The interpolation points are 0, +-POINT_A, +-POINT_B and infinity (A and B for short; G belongs to
kernels/plugins/winograd.cpp):

    Bt = A2B2     0  -A2-B2     0  1  0        At = 1  1   1  1   1  0
         0     -AB2     -B2     A  1  0             0  A  -A  B  -B  0
         0      AB2     -B2    -A  1  0             0  A2 A2  B2  B2 0
         0     -A2B     -A2     B  1  0             0  A3 -A3 B3 -B3 1
         0      A2B     -A2    -B  1  0
         0     A2B2       0 -A2-B2  0  1

Rows of Bt come in pairs that share their sums: the ends (0 and infinity), and each +-. A patch of 36 vectors does not
fit the registers: the input is transformed pair of rows by pair of rows, twelve vectors at a time, and read from the
nearest cache for each; the output even rows first, then odd ones, likewise.
"""

from aipu import script as S
from epilogue import finish_shared, shared_values
from gemm import multiply_add_vectors
from winograd_tiles import Patch, Tile, copy_patch, has_pixel, origin_of

# Channels of a patch that are copied at a time where part of it lies outside the image.
STAGE = 4 * VL
STAGE_SIZE = 36 * STAGE


def scaled_add(acc, factor, vector):
    """acc + factor * vector; the factor is known."""
    if factor == 1:
        return acc + vector
    return multiply_add_vectors(acc, S.cast(factor, f"{ACC}x{VL}"), vector)


def scaled(factor, vector):
    if factor == 1:
        return vector
    return vector * S.cast(factor, f"{ACC}x{VL}")


def pair_of(g, d0, d1, d2, d3, d4, d5):
    """Pair g of Bt d: [0, infinity], [A, -A] or [B, -B]; d0 and d5 matter to the first only."""
    if g == 0:
        return [
            scaled_add(
                scaled_add(d4, -(POINT_A * POINT_A + POINT_B * POINT_B), d2), POINT_A * POINT_A * POINT_B * POINT_B, d0
            ),
            scaled_add(
                scaled_add(d5, -(POINT_A * POINT_A + POINT_B * POINT_B), d3), POINT_A * POINT_A * POINT_B * POINT_B, d1
            ),
        ]
    point = POINT_A if g == 1 else POINT_B
    other = POINT_B if g == 1 else POINT_A
    even = scaled_add(d4, -other * other, d2)
    odd = scaled_add(d3, -other * other, d1)
    return [scaled_add(even, point, odd), scaled_add(even, -point, odd)]


def pair_of_column(g, at, line, s, t):
    """t[s], t[6 + s] = pair g of Bt d for column s, whose rows are `line` apart."""
    d1 = S.vload(at + line, lanes=VL)
    d2 = S.vload(at + S.i64(2) * line, lanes=VL)
    d3 = S.vload(at + S.i64(3) * line, lanes=VL)
    d4 = S.vload(at + S.i64(4) * line, lanes=VL)
    if g == 0:
        both = pair_of(0, S.vload(at, lanes=VL), d1, d2, d3, d4, S.vload(at + S.i64(5) * line, lanes=VL))
    else:
        both = pair_of(g, d1, d1, d2, d3, d4, d4)
    t[s] = both[0]
    t[6 + s] = both[1]


@S.prim_func(is_inline=False)
def patch_4x4(
    d: S.ptr(ACC, "global"),
    line: S.i64,
    pixel: S.i64,
    next_patch: S.i64,
    channels: S.i32,
    v: S.ptr(ACC, "global"),
    plane: S.i64,
    bound: S.fp32,
    stands_out: S.ptr(ACC, "global"),
):
    """v[xi * plane + c] = element xi of Bt d B for whole vectors of channels; rows of the patch are `line` apart,
    columns `pixel`. The columns that the patch next_patch further on does not share are fetched ahead.

    Sets *stands_out to 1 where an infinity, NaN or number far greater than others would reach more pixels than have it
    in their windows, by what it is rounded. Those are the ones in the sums of an inner row or column of Bt: of the 36,
    five see them all. Added up in a lane, these are beyond `bound` then."""
    t = S.alloc_buffer((12,), f"{ACC}x{VL}")
    seen = S.cast(0, f"{ACC}x{VL}")
    for c in range(0, channels, VL):
        for g in S.unroll(3):
            for s in S.unroll(6):
                at = d + (S.i64(s) * pixel + c)
                if PREFETCH > 0 and g == 0 and s >= 2:
                    for r in S.unroll(6):
                        S.prefetch(at + (next_patch + S.i64(r) * line))
                pair_of_column(g, at, line, s, t)
            for k in S.unroll(2):
                row = v + (S.i64(6 * (5 * k if g == 0 else 2 * g - 1 + k)) * plane + c)
                for h in S.unroll(3):
                    values = pair_of(h, t[6 * k], t[6 * k + 1], t[6 * k + 2], t[6 * k + 3], t[6 * k + 4], t[6 * k + 5])
                    S.vstore(values[0], row + S.i64(0 if h == 0 else 2 * h - 1) * plane)
                    S.vstore(values[1], row + S.i64(5 if h == 0 else 2 * h) * plane)
                    if (g == 0 and h == 1) or (g == 1 and h < 2 and k == 0):
                        seen = seen + S.abs(values[0])
                    if g == 1 and h == 0 and k == 0:
                        seen = seen + S.abs(values[1])
    # NaN is not within it either.
    if not S.vall(seen <= S.vbcast(bound, lanes=VL)):
        stands_out[0] = 1


@S.prim_func(is_inline=False)
def input_4x4(
    x: S.ptr(X, "global"),
    patch: Patch,
    channels: S.i32,
    stage: S.ptr(ACC, "global"),
    v: S.ptr(ACC, "global"),
    plane: S.i64,
    bound: S.fp32,
    stands_out: S.ptr(ACC, "global"),
):
    """A patch of the image x. Channels after the last whole vector, and patches that leave the image, take the way
    through a copy with zeros in `stage`; up to a vector of zeros is then written behind the channels. *stands_out: as
    of patch_4x4, or 0."""
    line, pitch = patch.line, patch.pitch
    origin = origin_of(x, patch)
    stands_out[0] = 0
    first = 0
    if patch.y >= 0 and patch.column >= 0 and patch.y + 6 <= patch.height and patch.column + 6 <= patch.width:
        first = channels // VL * VL if IN_TAIL else channels
        patch_4x4(origin, line, pitch, S.i64(4) * pitch, first, v, plane, bound, stands_out)
    for c in range(first, channels, STAGE):
        count = S.min(channels - c, STAGE)
        copy_patch(origin + c, patch, count, stage, STAGE, VL, S.cast(0, f"{ACC}x{VL}"))
        patch_4x4(stage, S.i64(6 * STAGE), S.i64(STAGE), S.i64(0), count, v + c, plane, bound, stands_out)


def half_4x4(m, plane, odd, t):
    """t[6 * k + s] = element (2 * k + odd, s) of At m."""
    for s in S.unroll(6):
        m1 = S.vload(m + S.i64(6 + s) * plane, lanes=VL)
        m2 = S.vload(m + S.i64(12 + s) * plane, lanes=VL)
        m3 = S.vload(m + S.i64(18 + s) * plane, lanes=VL)
        m4 = S.vload(m + S.i64(24 + s) * plane, lanes=VL)
        if odd == 0:
            a = m1 + m2
            b = m3 + m4
            t[s] = S.vload(m + S.i64(s) * plane, lanes=VL) + a + b
            t[6 + s] = scaled_add(scaled(POINT_B * POINT_B, b), POINT_A * POINT_A, a)
        else:
            a = m1 - m2
            b = m3 - m4
            t[s] = scaled_add(scaled(POINT_B, b), POINT_A, a)
            t[6 + s] = scaled_add(
                scaled_add(S.vload(m + S.i64(30 + s) * plane, lanes=VL), POINT_A * POINT_A * POINT_A, a),
                POINT_B * POINT_B * POINT_B,
                b,
            )


def pixel_4x4(j, t, k):
    """Pixel j of the row that half_4x4() has left in t[6 * k ...]."""
    if j == 0:
        return t[6 * k] + (t[6 * k + 1] + t[6 * k + 2]) + (t[6 * k + 3] + t[6 * k + 4])
    if j == 1:
        return scaled_add(scaled(POINT_B, t[6 * k + 3] - t[6 * k + 4]), POINT_A, t[6 * k + 1] - t[6 * k + 2])
    if j == 2:
        return scaled_add(
            scaled(POINT_B * POINT_B, t[6 * k + 3] + t[6 * k + 4]), POINT_A * POINT_A, t[6 * k + 1] + t[6 * k + 2]
        )
    return scaled_add(
        scaled_add(t[6 * k + 5], POINT_A * POINT_A * POINT_A, t[6 * k + 1] - t[6 * k + 2]),
        POINT_B * POINT_B * POINT_B,
        t[6 * k + 3] - t[6 * k + 4],
    )


@S.prim_func(is_inline=False)
def whole_4x4(
    m: S.ptr(ACC, "global"),
    plane: S.i64,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    line: S.i32,
    ldc: S.i32,
    n: S.i32,
):
    """A tile of 4x4 pixels, all of them there, one vector of channels."""
    t = S.alloc_buffer((12,), f"{ACC}x{VL}")
    shared = shared_values(extras, n, None)
    for odd in S.unroll(2):
        half_4x4(m, plane, odd, t)
        for k in S.unroll(2):
            for j in S.unroll(4):
                finish_shared(
                    pixel_4x4(j, t, k), shared, extras, out, row_offset + (2 * k + odd) * line + j * ldc, n, None
                )


def finish_pixels(pixels, extras, out, row_offset, line, ldc, rows, columns, n, lane_mask):
    shared = shared_values(extras, n, lane_mask)
    for r in range(rows):
        for j in range(columns):
            value = S.vload(pixels.addr_of((4 * r + j) * VL), lanes=VL)
            finish_shared(value, shared, extras, out, row_offset + r * line + j * ldc, n, lane_mask)


def finish_part(pixels, extras, out, row_offset, line, ldc, rows, columns, n, channels):
    if TAIL and channels < VL:
        finish_pixels(pixels, extras, out, row_offset, line, ldc, rows, columns, n, S.tail_mask(channels, VL))
    else:
        finish_pixels(pixels, extras, out, row_offset, line, ldc, rows, columns, n, None)


@S.prim_func(is_inline=False)
def part_4x4(
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
    """A tile of which rows x columns pixels and `channels` channels exist, through memory; also for long epilogues."""
    t = S.alloc_buffer((12,), f"{ACC}x{VL}")
    pixels = S.alloc_buffer((16 * VL,), ACC)
    for odd in S.unroll(2):
        half_4x4(m, plane, odd, t)
        for k in S.unroll(2):
            for j in S.unroll(4):
                S.vstore(pixel_4x4(j, t, k), pixels.addr_of((4 * (2 * k + odd) + j) * VL))
    finish_part(pixels, extras, out, row_offset, line, ldc, rows, columns, n, channels)


def output_4x4(m, plane, extras, out, tile, n, channels):
    """One tile of one panel, of which `channels` channels from n on exist."""
    row_offset, line, ldc, rows, columns = tile.row_offset, tile.line, tile.pitch, tile.rows, tile.columns
    for v in range(NV):
        if channels > v * VL:
            if rows == 4 and columns == 4 and channels - v * VL >= VL and not EPILOGUE_LOOP:
                whole_4x4(m + v * VL, plane, extras, out, row_offset, line, ldc, n + v * VL)
            else:
                part_4x4(
                    m + v * VL, plane, extras, out, row_offset, line, ldc, rows, columns, n + v * VL, channels - v * VL
                )


def taps_of(u0, u1, u2, u5):
    """Three weights of the six that G made of them, by its rows 0 and infinity and their difference at +-A."""
    square = POINT_A * POINT_A
    return [scaled(square * POINT_B * POINT_B, u0), scaled(POINT_A * (square - POINT_B * POINT_B), u1 - u2), u5]


def add_windows(origin, patch, taps, pixels):
    """Adds one channel's part to the direct sums of a tile: taps are [9][VL], pixels [16][VL]."""
    for r in range(6):
        for s in range(6):
            if has_pixel(patch, r, s):
                value = S.vbcast(S.cast(origin[S.i64(r) * patch.line + S.i64(s) * patch.pitch], ACC), lanes=VL)
                for i in range(S.max(r - 2, 0), S.min(r, 3) + 1):
                    for j in range(S.max(s - 2, 0), S.min(s, 3) + 1):
                        sum = pixels.addr_of((4 * i + j) * VL)
                        tap = S.vload(taps.addr_of((3 * (r - i) + s - j) * VL), lanes=VL)
                        S.vstore(multiply_add_vectors(S.vload(sum, lanes=VL), value, tap), sum)


@S.prim_func(is_inline=False)
def direct_vector(
    x: S.ptr(X, "global"),
    patch: Patch,
    channels: S.i32,
    weights: S.ptr(ACC, "global"),
    point: S.i64,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    tile: Tile,
    n: S.i32,
    out_channels: S.i32,
):
    """A vector of channels of a tile by direct sums, so that what stands out reaches the pixels that have it in their
    windows and no others. The weights are what the transformed ones, `point` elements apart, were made of."""
    origin = origin_of(x, patch)
    pixels = S.alloc_buffer((16 * VL,), ACC)
    taps = S.alloc_buffer((9 * VL,), ACC)
    half = S.alloc_buffer((12 * VL,), ACC)
    for i in range(16):
        S.vstore(S.cast(0, f"{ACC}x{VL}"), pixels.addr_of(i * VL))
    for c in range(channels):
        at = weights + c * (NV * VL)
        for s in range(6):
            u0 = S.vload(at + S.i64(s) * point, lanes=VL)
            u1 = S.vload(at + S.i64(6 + s) * point, lanes=VL)
            u2 = S.vload(at + S.i64(12 + s) * point, lanes=VL)
            u5 = S.vload(at + S.i64(30 + s) * point, lanes=VL)
            column_taps = taps_of(u0, u1, u2, u5)
            for r in S.unroll(3):
                # Points +-B are not needed.
                if s < 3:
                    S.vstore(column_taps[r], half.addr_of((4 * r + s) * VL))
                if s == 5:
                    S.vstore(column_taps[r], half.addr_of((4 * r + 3) * VL))
        for r in S.unroll(3):
            row_taps = taps_of(
                S.vload(half.addr_of(4 * r * VL), lanes=VL),
                S.vload(half.addr_of((4 * r + 1) * VL), lanes=VL),
                S.vload(half.addr_of((4 * r + 2) * VL), lanes=VL),
                S.vload(half.addr_of((4 * r + 3) * VL), lanes=VL),
            )
            for k in S.unroll(3):
                S.vstore(row_taps[k], taps.addr_of((3 * r + k) * VL))
        add_windows(origin + c, patch, taps, pixels)
    finish_part(pixels, extras, out, tile.row_offset, tile.line, tile.pitch, tile.rows, tile.columns, n, out_channels)


def direct_4x4(x, patch, channels, weights, point, extras, out, tile, n, out_channels):
    """output_4x4() of a patch like input_4x4()'s in which something stands out."""
    for v in range(NV):
        if out_channels > v * VL:
            direct_vector(
                x, patch, channels, weights + v * VL, point, extras, out, tile, n + v * VL, out_channels - v * VL
            )
