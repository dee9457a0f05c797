"""3x3 convolution of stride 1 by Winograd's algorithm over channels-last activations: F(2x2, 3x3) with 16
multiplications for four output pixels instead of 36, or F(4x4, 3x3) with 36 for sixteen instead of 144. The transforms
are in winograd_2x2.py and winograd_4x4.py.

Parameters bound by kernels/plugins/winograd.cpp: ACC, VL, NV, HEIGHTS, USE_FMA, PREFETCH as in gemm.py; X: the type of
x; PANEL: that of transformed inputs and weights, all of them ACC unless BY_UNITS, which says that products are those of
winograd_fixed.py (M = 4) and need the pointers unit_types and original_types; the epilogue's as in epilogue.py, TAIL
and IN_TAIL: whether the output and the input channels may end within a vector; M: 2 or 4; POINT_A and POINT_B:
interpolation points, of M = 4; SUMS: channels that are summed by themselves, 0 for all: the transforms of M = 4 make
rounding of the sums several times as large, shorter ones lose less. Weights are transformed at compile time and packed
[panel][(M + 2)^2][ic][NR], or with the first two axes exchanged (panel_chunks and point_chunks tell). magnitude_types:
of M = 4 one pointer, to a vector for each LINES-th line of the input.

A tile is an MxM patch of output pixels. Each TEC takes a range of tiles (or, of few tiles, of panels) in blocks of at
most `blocking.tiles`: it transforms the block's input into its scratch memory [(M + 2)^2][tiles][ic], and for
`blocking.panels` panels of output channels at a time computes the products there and transforms them back, with the
epilogue. With one panel at a time a block stays in the second-level cache; with all of them its planes pass through it
one by one, and the weights, which are what takes the time of deep layers, are read once. Rows are padded by a vector so
that the planes do not fall into the same sets of the caches. Tiles of M = 4 whose patch has an infinity, NaN or
number far greater than others of the image are computed directly (direct_4x4, direct_fixed), for that would spread over
all sixteen pixels, a number by its rounding. Sub-lattices of dilations: winograd_tiles.py.
"""

from aipu import script as S
from gemm import LEFT_OVER, multiply_add, multiply_blocks, row_bases, row_value
from sharing import balanced, own_share
from winograd_2x2 import input_2x2, output_2x2, tail_2x2
from winograd_4x4 import STAGE_SIZE, direct_4x4, input_4x4, output_4x4
from winograd_fixed import bound_of_units, direct_fixed, fixed_tile, input_fixed, measure_channels
from winograd_tiles import Blocking, Side, own_tiles, patch_of, pixels_before, place_of, tile_of, tiles_along
from winograd_words import LINE


def multiply_step(height, acc, bases, lda, b, bv, k, ahead, ahead_step):
    for v in S.unroll(NV):
        bv[v] = S.vload(b + (k * (NV * VL) + v * VL), lanes=VL)
    if PREFETCH > 0:
        for v in S.unroll(NV):
            S.prefetch(b + ((k + PREFETCH) * (NV * VL) + v * VL))
        S.prefetch(ahead + S.i64(k) * ahead_step, level=2)
    for i in S.unroll(height):
        left = row_value(bases, i, lda, S.i64(k))
        for v in S.unroll(NV):
            acc[i * NV + v] = multiply_add(acc[i * NV + v], left, bv[v])


def sum_products(height, acc, a, lda, b, depth, ahead, ahead_step):
    """acc[i * NV + v] = row i of a by vector v of the columns of b. For each step of the depth something from `ahead`
    on, ahead_step elements further each time, is fetched."""
    bv = S.alloc_buffer((NV,), f"{ACC}x{VL}")
    for i in S.unroll(height * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    bases = row_bases(a, lda, height)
    if BY_ELEMENT:
        whole = multiply_blocks(acc, 0, height, a, lda, b, depth)
        for k in S.unroll(LEFT_OVER):
            if whole + k < depth:
                multiply_step(height, acc, bases, lda, b, bv, whole + k, ahead, ahead_step)
    else:
        for k in range(depth):
            multiply_step(height, acc, bases, lda, b, bv, k, ahead, ahead_step)


@S.prim_func(is_inline=False)
def product_tile(
    height: S.meta_var,
    a: S.ptr(ACC, "global"),
    lda: S.i64,
    b: S.ptr(ACC, "global"),
    depth: S.i32,
    out: S.ptr(ACC, "global"),
    ahead: S.ptr(ACC, "global"),
    ahead_step: S.i64,
):
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    if SUMS == 0:
        sum_products(height, acc, a, lda, b, depth, ahead, ahead_step)
        for i in S.unroll(height * NV):
            S.vstore(acc[i], out + i * VL)
    else:
        for first in range(0, depth, SUMS):
            sum_products(
                height,
                acc,
                a + first,
                lda,
                b + first * (NV * VL),
                S.min(depth - first, SUMS),
                ahead + S.i64(first) * ahead_step,
                ahead_step,
            )
            if first == 0:
                for i in S.unroll(height * NV):
                    S.vstore(acc[i], out + i * VL)
            else:
                for i in S.unroll(height * NV):
                    S.vstore(S.vload(out + i * VL, lanes=VL) + acc[i], out + i * VL)


# Every so many lines of an image are measured.
LINES = 4
# What is so many times the mean magnitude stands out: the rounding of M = 4 would make pixels that do not have it in
# their windows wrong by more than 1e-4 of what others are.
FAR = 2048


def measure_lines(x, magnitudes, batch, image_height, image_width, channels):
    """Sums of magnitudes of every LINES-th line, a vector each, by all TECs."""
    lines = S.ceildiv(image_height, LINES)
    length = image_width * channels
    first, last = own_share(batch * lines)
    for k in range(first, last):
        at = x + (k // lines * image_height + k % lines * LINES) * length
        sums = S.alloc_buffer((4,), f"{ACC}x{VL}")
        for i in S.unroll(4):
            sums[i] = S.cast(0, f"{ACC}x{VL}")
        whole = length // (4 * VL) * (4 * VL)
        for e in range(0, whole, 4 * VL):
            for i in S.unroll(4):
                sums[i] = sums[i] + S.abs(S.vload(at + (e + i * VL), lanes=VL))
        for e in range(whole, length, VL):
            sums[0] = sums[0] + S.abs(S.vload(at + e, mask=S.tail_mask(S.min(length - e, VL), VL), lanes=VL))
        S.vstore((sums[0] + sums[1]) + (sums[2] + sums[3]), magnitudes + k * VL)
    S.barrier()


def bound_of(magnitudes, image, image_height, image_width, channels):
    """What five sums per channel of a patch of this image reach where something stands out, added up by lane: FAR times
    the mean, and what is usual."""
    lines = S.ceildiv(image_height, LINES)
    total = S.cast(0, f"{ACC}x{VL}")
    for k in range(lines):
        total = total + S.vload(magnitudes + (image * lines + k) * VL, lanes=VL)
    mean = S.vrpadd(total)[0] / S.fp32(S.max(lines * image_width * channels, 1))
    bound = mean * S.fp32(FAR + 80 * S.ceildiv(channels, VL))
    # Of nothing, and of what has no mean, only what is not finite stands out.
    return bound if bound > S.fp32(0) and bound < S.fp32(1e38) else S.fp32(1e38)


@S.record
class Images:
    """`batch` of them, of `channels`, and with `out_channels` in the result."""

    batch: S.i32
    channels: S.i32
    out_channels: S.i32


@S.prim_func
def winograd(
    x: S.ptr(X, "global"),
    weights: S.ptr(PANEL, "global"),
    units: unit_types,
    original: original_types,
    out: S.ptr(OUT, "global"),
    scratch: S.ptr(ACC, "global"),
    magnitudes: magnitude_types,
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
    tid = S.get_local_id()
    lda = S.ceildiv(channels, VL) * VL + VL
    v_plane = S.i64(size * lda + VL)
    m_panel = size * (NV * VL)
    m_plane = S.i64(blocking.panels * m_panel + VL)
    m = scratch + S.i64(tid) * scratch_size
    v = (m + (M + 2) * (M + 2) * m_plane).as_ptr(PANEL)
    stage = (v + (M + 2) * (M + 2) * v_plane).as_ptr(ACC)
    # Of M = 4: which tiles have something that stands out, behind the staged patch. BY_UNITS then their units.
    stands_out = stage + (36 * SUMS if BY_UNITS else STAGE_SIZE if M == 4 else 0)
    chunks = S.ceildiv(channels, SUMS) if BY_UNITS else 0
    tile_units = stands_out + size
    # Of weights: what a column has for each step of the depth.
    depth = S.ceildiv(channels, 2) * 2 if BY_UNITS else channels
    bounded = S.i32(-1)  # the image of whose tiles `bound` is
    bound = S.fp32(0)
    if BY_UNITS:
        measure_channels(x, units[1], magnitudes[0], images.batch, height.image, width.image, channels)
    elif M == 4:
        measure_lines(x, magnitudes[0], images.batch, height.image, width.image, channels)
    for begin in range(work.tile_first, work.tile_last, size):
        count = S.min(size, work.tile_last - begin)
        for t in range(count):
            place = place_of(begin + t, tiles_h, tiles_w, height, width)
            patch = patch_of(place, height, width, channels)
            image = x + pixels_before(place, height, width) * channels
            own = v + t * lda
            if M == 2:
                line, pixel = patch.line, patch.pitch
                y, column, in_h, in_w = patch.y, patch.column, patch.height, patch.width
                input_2x2(image, line, pixel, channels, y, column, in_h, in_w, own, v_plane)
                if IN_TAIL:
                    tail_2x2(image, line, pixel, channels, y, column, in_h, in_w, own, v_plane)
            else:
                if place.image != bounded:
                    bounded = place.image
                    if BY_UNITS:
                        bound = bound_of_units(magnitudes[0], place.image, height.image, width.image, channels)
                    else:
                        bound = bound_of(magnitudes[0], place.image, height.image, width.image, channels)
                if BY_UNITS:
                    own_units = tile_units + t * chunks
                    input_fixed(image, patch, channels, units[1], stage, own, v_plane, own_units, bound, stands_out + t)
                else:
                    input_4x4(image, patch, channels, stage, own, v_plane, bound, stands_out + t)
        cuts = S.ceildiv(count, HEIGHTS[0])
        # Each cut fetches a part of the next weights (BY_UNITS each of the first two): the first would wait for all.
        ahead_step = S.i64(S.ceildiv(NV * VL, cuts))
        for group in range(work.panel_first, work.panel_last, blocking.panels):
            group_panels = S.min(blocking.panels, work.panel_last - group)
            for xi in range((M + 2) * (M + 2)):
                a = v + S.i64(xi) * v_plane
                for p in range(group_panels):
                    piece = S.i64((group + p) * blocking.panel_chunks + xi * blocking.point_chunks)
                    b = weights + piece * (depth * (NV * VL))
                    product = m + (S.i64(xi) * m_plane + p * m_panel)
                    ahead = b + depth * (NV * VL)
                    for cut in range(cuts):
                        row, end = balanced(count, cuts, cut)
                        for h in S.unroll(len(HEIGHTS)):
                            while row + HEIGHTS[h] <= end:
                                if BY_UNITS:
                                    fixed_tile(
                                        HEIGHTS[h],
                                        a + row * lda,
                                        lda,
                                        b,
                                        channels,
                                        tile_units + row * chunks,
                                        units[0] + piece * (NV * VL),
                                        product + row * (NV * VL),
                                        ahead,
                                    )
                                else:
                                    product_tile(
                                        HEIGHTS[h],
                                        a + row * lda,
                                        lda,
                                        b,
                                        channels,
                                        product + row * (NV * VL),
                                        ahead,
                                        ahead_step,
                                    )
                                row = row + HEIGHTS[h]
                        if not BY_UNITS:
                            ahead = ahead + S.i64(channels) * ahead_step
                        elif cut == 0:
                            ahead = ahead + depth // 2 * LINE
            for p in range(group_panels):
                n = (group + p) * (NV * VL)
                for t in range(count):
                    place = place_of(begin + t, tiles_h, tiles_w, height, width)
                    tile = tile_of(place, height, width, ldc)
                    products = m + (p * m_panel + t * (NV * VL))
                    left = out_channels - n
                    if tile.rows > 0 and tile.columns > 0:
                        if M == 2:
                            output_2x2(
                                products,
                                m_plane,
                                extras,
                                out,
                                tile.row_offset,
                                tile.line,
                                tile.pitch,
                                tile.rows,
                                tile.columns,
                                n,
                                left,
                            )
                        elif stands_out[t] == 0:
                            output_4x4(products, m_plane, extras, out, tile, n, left)
                        elif BY_UNITS:
                            direct_fixed(
                                x + pixels_before(place, height, width) * channels,
                                patch_of(place, height, width, channels),
                                channels,
                                original[0] + S.i64(group + p) * (channels * (9 * NV * VL)),
                                extras,
                                out,
                                tile,
                                n,
                                left,
                            )
                        else:
                            direct_4x4(
                                x + pixels_before(place, height, width) * channels,
                                patch_of(place, height, width, channels),
                                channels,
                                weights + S.i64((group + p) * blocking.panel_chunks) * (channels * (NV * VL)),
                                S.i64(blocking.point_chunks) * (channels * (NV * VL)),
                                extras,
                                out,
                                tile,
                                n,
                                left,
                            )
