"""Winograd's F(4x4, 3x3) of bfloat16 numbers with products of 16-bit integers, see winograd.py: where bfloat16 numbers
are multiplied two at a time, so are these, and F(4x4) multiplies a quarter as often as direct sums.

The elements of Bt d B of SUMS channels of a patch are whole multiples of one unit, so large that none can be more than
32767; those of G g Gt of one output channel and point, whose magnitudes add up to at most 65536 over SUMS channels, of
another. Sums of their products are exact then, and become float32 numbers. Input channels may have any ranges: each is
multiplied by a power of two that is about its weights' mean magnitude, and its weights are divided by that. Both
roundings together are about half of what rounding operands to bfloat16 loses where no number is much greater than
others. Where one is, by FAR or FAR_OF_CHANNELS, or is not finite, the tile is computed directly.

Parameters bound by kernels/plugins/winograd.cpp: as in winograd.py, with BY_UNITS; X is bfloat16, or float32 of numbers
that are bfloat16's or may be rounded to them. The transformed weights are packed like winograd_bytes.py's, by pairs of
channels. The pointers `units` are to those of the weights, [panel][36][NR], or with the first two axes exchanged, and
to the factors of input channels, [ic rounded up to VL]; `original` is to the weights as they were, [panel][ic][9][NR]
of X.
"""

from aipu import script as S
from gemm import row_bases
from sharing import own_share
from winograd_4x4 import add_windows, finish_part, pair_of, pair_of_column
from winograd_tiles import Patch, Tile, has_pixel, origin_of
from winograd_words import add_pairs, clear_sums

# Adding it to a float32 rounds to an integer, and leaves that in the low bits.
ROUNDING = 12582912.0
# Of a row of Bt the magnitudes add up to no more than at +-POINT_A.
ROW_NORM = POINT_A * POINT_B * POINT_B + POINT_B * POINT_B + POINT_A + 1
# For a patch whose largest number is 1: no element is more than a little less than 32767 of them.
UNIT = ROW_NORM * ROW_NORM / 32766.0
# Smaller numbers would have reciprocals that are infinite.
LEAST = 2.0**-100
# What stands out: so many times the root mean square of the image, times factors; a patch's smaller numbers have but 10
# of 15 bits then.
FAR = 32
# And so many times the mean of the channels' root mean squares, without those of nothing: an output channel may have
# no weights for the one channel by which the others are small.
FAR_OF_CHANNELS = 64
# Every so many lines of an image are measured, an odd number: images whose even lines are zeros are not rare.
UNIT_LINES = 3
# Of what is measured. The squares of greater numbers may be infinite; they stand out in any case.
GREATEST = 2.0**50


def measure_channels(x, factors, magnitudes, batch, image_height, image_width, channels):
    """Sums of squares of each channel of every UNIT_LINES-th line, times factors, by all TECs."""
    lines = S.ceildiv(image_height, UNIT_LINES)
    length = image_width * channels
    padded = S.ceildiv(channels, VL) * VL
    first, last = own_share(batch * lines)
    for k in range(first, last):
        line = x + (k // lines * image_height + k % lines * UNIT_LINES) * length
        for c in range(0, channels, VL):
            factor = S.vload(factors + c, lanes=VL)
            lane_mask = S.tail_mask(S.min(channels - c, VL), VL) if IN_TAIL else None
            sums = S.alloc_buffer((2,), f"{ACC}x{VL}")
            for u in S.unroll(2):
                sums[u] = S.cast(0, f"{ACC}x{VL}")
            for pixel in range(0, image_width // 2 * 2, 2):
                for u in S.unroll(2):
                    sums[u] = with_square(sums[u], line + ((pixel + u) * channels + c), factor, lane_mask)
            if image_width % 2 != 0:
                sums[0] = with_square(sums[0], line + ((image_width - 1) * channels + c), factor, lane_mask)
            S.vstore(sums[0] + sums[1], magnitudes + (k * padded + c))
    S.barrier()


def with_square(sum, at, factor, lane_mask):
    value = S.abs(S.cast(S.vload(at, mask=lane_mask, lanes=VL), ACC) * factor)
    # NaN is no such number either.
    usual = S.vsel(value, S.cast(0, f"{ACC}x{VL}"), value <= S.cast(GREATEST, f"{ACC}x{VL}"))
    return S.fma(sum, usual, usual)


def bound_of_units(magnitudes, image, image_height, image_width, channels):
    """What a number of this image, times its factor, is beyond that stands out."""
    lines = S.ceildiv(image_height, UNIT_LINES)
    padded = S.ceildiv(channels, VL) * VL
    pixels = S.fp32(S.max(lines * image_width, 1))
    squares = S.cast(0, f"{ACC}x{VL}")
    roots = S.cast(0, f"{ACC}x{VL}")
    alive = S.cast(0, f"{ACC}x{VL}")
    for c in range(0, channels, VL):
        total = S.cast(0, f"{ACC}x{VL}")
        for k in range(lines):
            total = total + S.vload(magnitudes + ((image * lines + k) * padded + c), lanes=VL)
        squares = squares + total
        roots = roots + S.sqrt(total)
        alive = alive + S.vsel(S.cast(1, f"{ACC}x{VL}"), S.cast(0, f"{ACC}x{VL}"), total > S.cast(0, f"{ACC}x{VL}"))
    of_all = S.sqrt(S.vrpadd(squares)[0] / (pixels * S.fp32(channels)))
    of_channels = S.vrpadd(roots)[0] / (S.sqrt(pixels) * S.max(S.vrpadd(alive)[0], S.fp32(1)))
    return S.min(of_all * S.fp32(FAR), of_channels * S.fp32(FAR_OF_CHANNELS))


@S.prim_func(is_inline=False)
def stage_patch(
    pixels: S.ptr(X, "global"),
    patch: Patch,
    count: S.i32,
    factors: S.ptr(ACC, "global"),
    stage: S.ptr(ACC, "global"),
    peak: S.ptr(ACC, "global"),
):
    """stage[pixel * SUMS + c] = `count` channels of a patch times their factors, 0 where it leaves the image; *peak =
    the largest of their magnitudes, or one that is not finite."""
    highest = S.cast(0, f"int32x{VL}")
    for r in range(6):
        for s in range(6):
            target = stage + (6 * r + s) * SUMS
            if has_pixel(patch, r, s):
                pixel = pixels + (S.i64(r) * patch.line + S.i64(s) * patch.pitch)
                for i in range(0, count, VL):
                    lane_mask = S.tail_mask(S.min(count - i, VL), VL) if IN_TAIL else None
                    value = S.cast(S.vload(pixel + i, mask=lane_mask, lanes=VL), ACC) * S.vload(factors + i, lanes=VL)
                    # As integers NaN is more than infinity, and that more than numbers.
                    bits = S.reinterpret(value, f"int32x{VL}") & S.cast(0x7FFFFFFF, f"int32x{VL}")
                    highest = S.max(highest, bits)
                    S.vstore(value, target + i)
            else:
                for i in range(0, count, VL):
                    S.vstore(S.cast(0, f"{ACC}x{VL}"), target + i)
    peak[0] = S.reinterpret(S.vrpmax(highest), f"{ACC}x{VL}")[0]


@S.prim_func(is_inline=False)
def patch_fixed(stage: S.ptr(ACC, "global"), count: S.i32, factor: S.fp32, v: S.ptr("i16", "global"), plane: S.i64):
    """v[xi * plane + c] = element xi of Bt d B times `factor`, rounded, for the staged patch d, as patch_4x4() in
    winograd_4x4.py."""
    t = S.alloc_buffer((12,), f"{ACC}x{VL}")
    factors = S.vbcast(factor, lanes=VL)
    for c in range(0, count, VL):
        for g in S.unroll(3):
            for s in S.unroll(6):
                pair_of_column(g, stage + (s * SUMS + c), S.i64(6 * SUMS), s, t)
            for k in S.unroll(2):
                row = v + (S.i64(6 * (5 * k if g == 0 else 2 * g - 1 + k)) * plane + c)
                for h in S.unroll(3):
                    values = pair_of(h, t[6 * k], t[6 * k + 1], t[6 * k + 2], t[6 * k + 3], t[6 * k + 4], t[6 * k + 5])
                    store_rounded(values[0], factors, row + S.i64(0 if h == 0 else 2 * h - 1) * plane)
                    store_rounded(values[1], factors, row + S.i64(5 if h == 0 else 2 * h) * plane)


def store_rounded(values, factors, at):
    shifted = S.fma(S.cast(ROUNDING, f"{ACC}x{VL}"), values, factors)
    S.vstore(S.cast(S.reinterpret(shifted, f"int32x{VL}"), "int16"), at)


def input_fixed(x, patch, channels, factors, stage, v, plane, units, bound, stands_out):
    """A patch of the image x, by SUMS channels, whose units are in units[0 ...]. Up to a vector of zeros is written
    behind the channels. *stands_out = 1 where a number is beyond `bound`, or 0; v is as it was then, and nobody uses
    its products."""
    origin = origin_of(x, patch)
    stands_out[0] = 0
    for c in range(0, channels, SUMS):
        count = S.min(channels - c, SUMS)
        unit = units + c // SUMS
        stage_patch(origin + c, patch, count, factors + c, stage, unit)
        peak = unit[0]
        if peak <= bound:
            size = S.max(peak, S.fp32(LEAST)) * S.fp32(UNIT)
            patch_fixed(stage, count, S.fp32(1) / size, v + c, plane)
            unit[0] = size
        else:
            stands_out[0] = 1
            unit[0] = 0


@S.prim_func(is_inline=False)
def fixed_tile(
    height: S.meta_var,
    a: S.ptr("i16", "global"),
    lda: S.i64,
    b: S.ptr("i16", "global"),
    channels: S.i32,
    row_units: S.ptr(ACC, "global"),
    column_units: S.ptr(ACC, "global"),
    out: S.ptr(ACC, "global"),
    ahead: S.ptr("i16", "global"),
):
    """out[i, v] = row i of a by vector v of the columns of b, in their units. A line of the cache is fetched for each
    pair of channels, from `ahead` on."""
    acc = S.alloc_buffer((height * NV,), f"int32x{VL}")
    bases = row_bases(a, lda, height)
    pairs = S.ceildiv(channels, 2)
    chunks = S.ceildiv(channels, SUMS)
    for chunk in range(chunks):
        clear_sums(height, acc)
        last = S.min(pairs, (chunk + 1) * (SUMS // 2))
        add_pairs(height, acc, bases, lda, b, ahead, chunk * (SUMS // 2), last)
        for v in S.unroll(NV):
            column = S.vload(column_units + v * VL, lanes=VL)
            for i in S.unroll(height):
                place = out + (i * NV + v) * VL
                sums = S.cast(acc[i * NV + v], ACC)
                unit = column * S.vbcast(row_units[i * chunks + chunk], lanes=VL)
                if chunk == 0:
                    S.vstore(sums * unit, place)
                else:
                    S.vstore(S.fma(S.vload(place, lanes=VL), sums, unit), place)


@S.prim_func(is_inline=False)
def direct_fixed_vector(
    x: S.ptr(X, "global"),
    patch: Patch,
    channels: S.i32,
    weights: S.ptr(X, "global"),
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    tile: Tile,
    n: S.i32,
    out_channels: S.i32,
):
    """A vector of channels of a tile by direct sums, like direct_vector() in winograd_4x4.py."""
    origin = origin_of(x, patch)
    pixels = S.alloc_buffer((16 * VL,), ACC)
    taps = S.alloc_buffer((9 * VL,), ACC)
    for i in range(16):
        S.vstore(S.cast(0, f"{ACC}x{VL}"), pixels.addr_of(i * VL))
    for c in range(channels):
        for k in range(9):
            S.vstore(S.cast(S.vload(weights + (c * 9 + k) * (NV * VL), lanes=VL), ACC), taps.addr_of(k * VL))
        add_windows(origin + c, patch, taps, pixels)
    finish_part(pixels, extras, out, tile.row_offset, tile.line, tile.pitch, tile.rows, tile.columns, n, out_channels)


def direct_fixed(x, patch, channels, weights, extras, out, tile, n, out_channels):
    """output_4x4() of a patch in which something stands out."""
    for v in range(NV):
        if out_channels > v * VL:
            direct_fixed_vector(
                x, patch, channels, weights + v * VL, extras, out, tile, n + v * VL, out_channels - v * VL
            )
