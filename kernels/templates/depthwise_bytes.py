"""Depthwise convolution of images of one plane where dot products are of unsigned by signed bytes: four lines of a
window are one product.

Up to four lines of a column of the image are interleaved, so that each lane has the bytes of its channel, one below the
other: once per column, for all the taps that it is under. Sums are exact, as in quantized_conv.py.

Parameters: X, ACC, VL and the epilogue's (epilogue.py, NV = 1), FETCHES, X_LINE, OUT_LINE as in depthwise.py, and
  FLIP            x is int8 and taken as uint8: 128 is added on the way (and made up for in `start`)
  TILES, WIDTH    tiles of a row of results, and output pixels of each
  KH, KW, SW, DW  height of the window; its width, stride and dilation along the width
  BEFORE, BEHIND  columns that the first tile of a row has in front of the image, and the last one behind it; the others
                  have none outside
  scale_types     as in quantized_conv.py
  zero_types      int32, where the image's zero point (as bytes are taken) is not 0 and stands around it; else none
Weights are [kh / 4][kw][C rounded up to VL][four lines], start and scale [C rounded up to VL].

There are at least VL channels: the last vector of them overlaps the one before rather than being shorter. So does the
last tile of a row.
"""

from aipu import script as S
from depthwise import fetch_ahead
from gemm import ROWS_PER_BASE, row_bases
from quantized_conv import store
from sharing import own_rows, own_work
from spatial import Geometry, row_at, taps_of_axis

SPAN = (WIDTH - 1) * SW + (KW - 1) * DW + 1
# Of lines; a product is of one.
FOURS = (KH + 3) // 4


def is_read(column):
    """Whether a column of a tile is under a tap."""
    return any([(column - k * DW) % SW == 0 and 0 <= (column - k * DW) // SW < WIDTH for k in range(KW)])


def bytes_of(words):
    return S.reinterpret(words, f"uint8x{4 * VL}")


def column_of(at, offsets, four):
    """Four lines of a column."""
    words = S.cast(S.vload(at + offsets[4 * four], lanes=VL), "int32")
    for kh in S.unroll(4 * four + 1, min(4 * four + 4, KH)):
        words = words | (S.cast(S.vload(at + offsets[kh], lanes=VL), "int32") << (8 * (kh % 4)))
    if FLIP:
        words = words ^ S.cast(0x80808080 - (1 << 32), f"int32x{VL}")
    return bytes_of(words)


def depthwise_tile(before, behind, x, stride, offsets, window, begin, zero):
    """The sums of WIDTH pixels."""
    acc = S.alloc_buffer((WIDTH,), f"int32x{VL}")
    for i in S.unroll(WIDTH):
        acc[i] = begin
    bases = row_bases(x, stride, SPAN)
    for column in S.unroll(SPAN):
        is_inside = before <= column < SPAN - behind
        if is_read(column) and (is_inside or len(zero) > 0):
            at = bases[column // ROWS_PER_BASE] + S.i64(column % ROWS_PER_BASE) * stride
            for four in S.unroll(FOURS):
                lines = column_of(at, offsets, four) if is_inside else zero[0]
                for i in S.unroll(WIDTH):
                    for k in S.unroll(KW):
                        if i * SW + k * DW == column:
                            acc[i] = S.vqdpa(acc[i], lines, window[four * KW + k])
    return acc


@S.prim_func
def depthwise_bytes(
    x: S.ptr(X, "global"),
    weights: S.ptr("i8", "global"),
    start: S.ptr("i32", "global"),
    scale: scale_types,
    zero: zero_types,
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    geometry: Geometry,
    padded_channels: S.i32,
    block_rows: S.i32,
    ahead: S.i32,
):
    """ahead: as in depthwise.py."""
    height, width = geometry.height, geometry.width
    channels = geometry.channels
    stride = S.i64(channels)
    image = x.as_ptr("u8")
    line = width.image * channels
    vectors = S.ceildiv(channels, VL)
    around = [bytes_of(S.vbcast(value * 0x01010101, lanes=VL)) for value in zero]
    work = own_work(geometry.batch * height.result, vectors, block_rows, 7)
    for block_first in range(work.row_first, work.row_last, work.block):
        for vector in range(work.panel_first, work.panel_last):
            c = S.min(vector * VL, channels - VL)
            first, last = own_rows(work, block_first, vector)
            for number in range(first, last):
                row = row_at(number, geometry)
                lines = taps_of_axis(row.height, height)
                if FETCHES:
                    if ahead != 0 and number + work.block < work.row_last:
                        fetch_ahead(x, out, work.block, number, row, lines.start, vector, geometry)
                # Lines outside the image are some others, with weights of 0; what they add is in what sums begin with.
                met = [kh >= lines.first and kh < lines.first + lines.count for kh in range(KH)]
                places = [
                    S.i64(S.max(S.min(lines.start + kh * height.dilation, height.image - 1), 0)) for kh in range(KH)
                ]
                offsets = [(place - places[0]) * line for place in places]
                top = image + ((S.i64(row.image * height.image) + places[0]) * line + c)
                begin = S.vload(start + c, lanes=VL)
                window = []
                for four in S.unroll(FOURS):
                    mask = S.i32(0)
                    for kh in S.unroll(4 * four, min(4 * four + 4, KH)):
                        if met[kh]:
                            mask = mask | S.i32((255 << (8 * (kh % 4))) - (1 << 32 if kh % 4 == 3 else 0))
                    kept = S.vbcast(mask, lanes=VL)
                    for k in S.unroll(KW):
                        all_lines = S.reinterpret(
                            S.vload(weights + ((four * KW + k) * padded_channels + c) * 4, lanes=4 * VL), f"int32x{VL}"
                        )
                        window.append(S.reinterpret(all_lines & kept, f"int8x{4 * VL}"))
                        if len(zero) > 0:
                            if lines.count < KH:
                                outside = S.reinterpret(all_lines & ~kept, f"int8x{4 * VL}")
                                begin = S.vqdpa(begin, around[0], outside)
                offset = number * width.result * channels
                for tile in S.unroll(1 if TILES == 1 else 3):
                    # The first one, those in the middle, and the last one.
                    middle = range(1, TILES - 1) if tile == 1 else range(1)
                    for at in middle:
                        ow = S.i32(0)
                        if tile == 1:
                            ow = at * WIDTH
                        elif tile == 2:
                            ow = width.result - WIDTH
                        acc = depthwise_tile(
                            BEFORE if tile == 0 else 0,
                            BEHIND if tile == 2 or TILES == 1 else 0,
                            top + S.i64(ow * SW - width.pad) * stride,
                            stride,
                            offsets,
                            window,
                            begin,
                            around,
                        )
                        store(WIDTH, acc, scale, c, extras, out, offset + ow * channels, channels, c, VL)
