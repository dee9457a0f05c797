"""3x3 convolution of stride 1 of 8-bit integers over channels-last activations by Winograd's F(4x4, 3x3), exact: 36
products of 16 bits for sixteen output pixels instead of 144 of 8 bits.

Interpolation at 0, +-1, +-2 and infinity has integers but for the fractions of the weights' transform, which are
multiplied out: rows of it are times 24, -6, -6, 24, 24 and 6 where the usual one has 1/4, -1/6, -1/6, 1/24, 1/24 and 1.

    Bt = 4  0 -5  0  1  0     G = 6  0  0     At = 1 -4 -4  1  1  0
         0 -4 -4  1  1  0         1  1  1          0 -2  2  1 -1  0
         0  4 -4 -1  1  0         1 -1  1          0 -1 -1  1  1  0
         0 -2 -1  2  1  0         1  2  4          0 -1  1  2 -2  1
         0  2 -1 -2  1  0         1 -2  4
         0  4  0 -5  0  1         0  0  6

At ((G g Gt) * (Bt d B)) A is then the sums times 3 * 2^SHIFTS[i] * 3 * 2^SHIFTS[j] for pixel (i, j) of a tile.
Everything is computed modulo 2^32, where 9 has an inverse: the sums come out exactly as long as they fit in 32 less at
most 6 bits, which the plugin makes sure of. Elements of Bt d B are less than 2^15, those of G g Gt less than 2^14 of
weights of 9 bits; sums of their products need not fit.

Parameters bound by kernels/plugins/winograd_bytes.cpp: X, VL, NV, HEIGHTS, PREFETCH, scale_types and ACC as in
quantized_conv.py, M (4), IN_TAIL: whether the input channels may end within a vector of 2 * VL, TAIL: the output
channels within one of VL; the rest is the epilogue's (epilogue.py). Weights are packed [panel][36][pair of ic][NR][2],
or with the first two axes exchanged (winograd_tiles.py, Blocking). `start` is added to the sums.

The work is cut and shared out as in winograd.py.
"""

from aipu import script as S
from epilogue import finish_shared, shared_values
from gemm import row_bases
from sharing import balanced
from winograd_tiles import (
    Blocking,
    Patch,
    Side,
    Tile,
    copy_patch,
    origin_of,
    own_tiles,
    patch_of,
    pixels_before,
    place_of,
    tile_of,
    tiles_along,
)
from winograd_words import LINE, WIDE, add_pairs, clear_sums

# Channels of a patch that are copied at a time where part of it lies outside the image.
STAGE = 4 * WIDE
SHIFTS = [3, 2, 1, 1]
# 9 * NINTH = 1 modulo 2^32.
NINTH = 954437177


def times(vector, number):
    return vector * S.cast(number, vector.dtype)


def transformed(d0, d1, d2, d3, d4, d5):
    """Bt d."""
    even = d4 - d2
    odd = d3 - d1
    near_even = d4 - times(d2, 4)
    near_odd = d3 - times(d1, 4)
    return [
        even + times(d0 - d2, 4),
        near_even + near_odd,
        near_even - near_odd,
        even + times(odd, 2),
        even - times(odd, 2),
        (d5 - d3) - times(odd, 4),
    ]


@S.prim_func(is_inline=False)
def patch_bytes(
    d: S.ptr(X, "global"),
    line: S.i64,
    pixel: S.i64,
    next_patch: S.i64,
    channels: S.i32,
    v: S.ptr("i16", "global"),
    plane: S.i64,
):
    """v[xi * plane + c] = element xi of Bt d B for whole vectors of channels, as patch_4x4() in winograd_4x4.py."""
    t = S.alloc_buffer((36,), f"int16x{WIDE}")
    for c in range(0, channels, WIDE):
        for s in S.unroll(6):
            at = d + (S.i64(s) * pixel + c)
            column = [S.cast(S.vload(at + S.i64(r) * line, lanes=WIDE), "int16") for r in range(6)]
            if PREFETCH > 0 and s >= 2:
                for r in S.unroll(6):
                    S.prefetch(at + (next_patch + S.i64(r) * line))
            values = transformed(column[0], column[1], column[2], column[3], column[4], column[5])
            for r in S.unroll(6):
                t[6 * r + s] = values[r]
        for r in S.unroll(6):
            row = transformed(t[6 * r], t[6 * r + 1], t[6 * r + 2], t[6 * r + 3], t[6 * r + 4], t[6 * r + 5])
            for s in S.unroll(6):
                S.vstore(row[s], v + (S.i64(6 * r + s) * plane + c))


@S.prim_func(is_inline=False)
def input_bytes(
    x: S.ptr(X, "global"),
    patch: Patch,
    channels: S.i32,
    zero: S.i32,
    stage: S.ptr(X, "global"),
    v: S.ptr("i16", "global"),
    plane: S.i64,
):
    """A patch of the image x. Channels after the last whole vector, and patches that leave the image, take the way
    through a copy in `stage`; up to a vector of what no weight meets is then written behind the channels."""
    line, pitch = patch.line, patch.pitch
    origin = origin_of(x, patch)
    first = 0
    if patch.y >= 0 and patch.column >= 0 and patch.y + 6 <= patch.height and patch.column + 6 <= patch.width:
        first = channels // WIDE * WIDE if IN_TAIL else channels
        patch_bytes(origin, line, pitch, S.i64(4) * pitch, first, v, plane)
    fill = S.vbcast(S.cast(zero, X), lanes=WIDE)
    for c in range(first, channels, STAGE):
        count = S.min(channels - c, STAGE)
        copy_patch(origin + c, patch, count, stage, STAGE, WIDE, fill)
        patch_bytes(stage, S.i64(6 * STAGE), S.i64(STAGE), S.i64(0), count, v + c, plane)


@S.prim_func(is_inline=False)
def product_tile(
    height: S.meta_var,
    a: S.ptr("i16", "global"),
    lda: S.i64,
    b: S.ptr("i16", "global"),
    pairs: S.i32,
    out: S.ptr("i32", "global"),
    ahead: S.ptr("i16", "global"),
):
    """out[i, v] = row i of a by vector v of the columns of b, modulo 2^32. A line of the cache is fetched for each pair
    of channels, from `ahead` on."""
    acc = S.alloc_buffer((height * NV,), f"int32x{VL}")
    clear_sums(height, acc)
    add_pairs(height, acc, row_bases(a, lda, height), lda, b, ahead, 0, pairs)
    for i in S.unroll(height * NV):
        S.vstore(acc[i], out + i * VL)


def half_of(odd, p0, p1, p2, p3, p4, p5):
    """Rows `odd` and 2 + odd of At p."""
    if odd == 0:
        near = p1 + p2
        far = p3 + p4
        return [p0 - times(near, 4) + far, far - near]
    near = p1 - p2
    far = p3 - p4
    return [far - times(near, 2), times(far, 2) - near + p5]


def rows_of(m, plane, odd, t):
    """t[6 * k + s] = element (2 * k + odd, s) of At m."""
    for s in S.unroll(6):
        column = [S.vload(m + S.i64(6 * r + s) * plane, lanes=VL) for r in range(6)]
        values = half_of(odd, column[0], column[1], column[2], column[3], column[4], column[5])
        t[s] = values[0]
        t[6 + s] = values[1]


def sums_of(t, i, k):
    """The four sums of row i of a tile, which rows_of() has left in t[6 * k ...]."""
    p = [t[6 * k + s] for s in range(6)]
    even = half_of(0, p[0], p[1], p[2], p[3], p[4], p[5])
    odd = half_of(1, p[0], p[1], p[2], p[3], p[4], p[5])
    scaled = [even[0], odd[0], even[1], odd[1]]
    return [
        (scaled[j] * S.cast(NINTH, f"int32x{VL}")) >> S.cast(SHIFTS[i] + SHIFTS[j], f"int32x{VL}") for j in range(4)
    ]


def finished(sums, start, factor, shared, extras, out, row_offset, n, lane_mask):
    value = sums + start
    if ACC == "float32":
        value = S.cast(value, "float32") * factor
    finish_shared(value, shared, extras, out, row_offset, n, lane_mask)


def factor_of(scale, n):
    return S.vload(scale[0] + n, lanes=VL) if ACC == "float32" else 0


@S.prim_func(is_inline=False)
def whole_tile(
    m: S.ptr("i32", "global"),
    plane: S.i64,
    start: S.ptr("i32", "global"),
    scale: scale_types,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    tile: Tile,
    n: S.i32,
):
    """A tile of 4x4 pixels, all of them there, one vector of channels."""
    t = S.alloc_buffer((12,), f"int32x{VL}")
    shared = shared_values(extras, n, None)
    added = S.vload(start + n, lanes=VL)
    factor = factor_of(scale, n)
    for odd in S.unroll(2):
        rows_of(m, plane, odd, t)
        for k in S.unroll(2):
            sums = sums_of(t, 2 * k + odd, k)
            row_offset = tile.row_offset + (2 * k + odd) * tile.line
            for j in S.unroll(4):
                finished(sums[j], added, factor, shared, extras, out, row_offset + j * tile.pitch, n, None)


def finish_pixels(pixels, start, scale, extras, out, tile, n, lane_mask):
    shared = shared_values(extras, n, lane_mask)
    added = S.vload(start + n, lanes=VL)
    factor = factor_of(scale, n)
    for r in range(tile.rows):
        for j in range(tile.columns):
            sums = S.vload(pixels.addr_of((4 * r + j) * VL), lanes=VL)
            row_offset = tile.row_offset + r * tile.line + j * tile.pitch
            finished(sums, added, factor, shared, extras, out, row_offset, n, lane_mask)


@S.prim_func(is_inline=False)
def part_of_tile(
    m: S.ptr("i32", "global"),
    plane: S.i64,
    start: S.ptr("i32", "global"),
    scale: scale_types,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    tile: Tile,
    n: S.i32,
    channels: S.i32,
):
    """A tile of which only some pixels or `channels` channels exist, through memory; also for long epilogues."""
    t = S.alloc_buffer((12,), f"int32x{VL}")
    pixels = S.alloc_buffer((16 * VL,), "int32")
    for odd in S.unroll(2):
        rows_of(m, plane, odd, t)
        for k in S.unroll(2):
            sums = sums_of(t, 2 * k + odd, k)
            for j in S.unroll(4):
                S.vstore(sums[j], pixels.addr_of((4 * (2 * k + odd) + j) * VL))
    if TAIL and channels < VL:
        finish_pixels(pixels, start, scale, extras, out, tile, n, S.tail_mask(channels, VL))
    else:
        finish_pixels(pixels, start, scale, extras, out, tile, n, None)


def output_bytes(m, plane, start, scale, extras, out, tile, n, channels):
    """One tile of one panel, of which `channels` channels from n on exist."""
    for v in range(NV):
        if channels > v * VL:
            if tile.rows == 4 and tile.columns == 4 and channels - v * VL >= VL and not EPILOGUE_LOOP:
                whole_tile(m + v * VL, plane, start, scale, extras, out, tile, n + v * VL)
            else:
                part_of_tile(m + v * VL, plane, start, scale, extras, out, tile, n + v * VL, channels - v * VL)


@S.record
class Images:
    """`batch` of them, of `channels`, and with `out_channels` in the result; outside they are `zero`."""

    batch: S.i32
    channels: S.i32
    out_channels: S.i32
    zero: S.i32


@S.prim_func
def winograd_bytes(
    x: S.ptr(X, "global"),
    weights: S.ptr("i16", "global"),
    start: S.ptr("i32", "global"),
    scale: scale_types,
    out: S.ptr(OUT, "global"),
    scratch: S.ptr("i32", "global"),
    extras: extra_types,
    images: Images,
    height: Side,
    width: Side,
    blocking: Blocking,
    scratch_size: S.i32,
    ldc: S.i32,
):
    channels, out_channels = images.channels, images.out_channels
    tiles_h, tiles_w = tiles_along(height), tiles_along(width)
    work = own_tiles(
        images.batch * (height.dilation * width.dilation) * tiles_h * tiles_w, out_channels, blocking.tiles
    )
    size = work.block
    pairs = S.ceildiv(channels, 2)
    lda = S.ceildiv(channels, WIDE) * WIDE + WIDE
    v_plane = S.i64(size * lda + WIDE)
    m_panel = size * (NV * VL)
    m_plane = S.i64(blocking.panels * m_panel + VL)
    m = scratch + S.i64(S.get_local_id()) * scratch_size
    v = (m + 36 * m_plane).as_ptr("i16")
    stage = (v + 36 * v_plane).as_ptr(X)
    for begin in range(work.tile_first, work.tile_last, size):
        count = S.min(size, work.tile_last - begin)
        for t in range(count):
            place = place_of(begin + t, tiles_h, tiles_w, height, width)
            image = x + pixels_before(place, height, width) * channels
            input_bytes(
                image, patch_of(place, height, width, channels), channels, images.zero, stage, v + t * lda, v_plane
            )
        cuts = S.ceildiv(count, HEIGHTS[0])
        for group in range(work.panel_first, work.panel_last, blocking.panels):
            group_panels = S.min(blocking.panels, work.panel_last - group)
            for xi in range(36):
                a = v + S.i64(xi) * v_plane
                for p in range(group_panels):
                    b = weights + S.i64((group + p) * blocking.panel_chunks + xi * blocking.point_chunks) * (
                        pairs * (NV * WIDE)
                    )
                    product = m + (S.i64(xi) * m_plane + p * m_panel)
                    # Two cuts fetch a half of the next weights each: the first one would wait for all of them.
                    ahead = b + pairs * (NV * WIDE)
                    for cut in range(cuts):
                        row, end = balanced(count, cuts, cut)
                        for h in S.unroll(len(HEIGHTS)):
                            while row + HEIGHTS[h] <= end:
                                product_tile(HEIGHTS[h], a + row * lda, lda, b, pairs, product + row * (NV * VL), ahead)
                                row = row + HEIGHTS[h]
                        if cut == 0:
                            ahead = ahead + pairs * LINE
            for p in range(group_panels):
                n = (group + p) * (NV * VL)
                for t in range(count):
                    place = place_of(begin + t, tiles_h, tiles_w, height, width)
                    tile = tile_of(place, height, width, ldc)
                    if tile.rows > 0 and tile.columns > 0:
                        products = m + (p * m_panel + t * (NV * VL))
                        output_bytes(products, m_plane, start, scale, extras, out, tile, n, out_channels - n)
