"""Depthwise transposed convolution over channels-last activations, 1 to 3 spatial dimensions: conv_transpose.py where
every group has one channel on both sides. Lanes are channels.

Parameters: X, ACC, VL and the epilogue's (epilogue.py, NV = 1), and
  WIDTH    output pixels of a tile
  TAIL     whether the channels may end within a vector
Weights are [C / VL][residue_d][residue_h][residue_w][jd][jh][jw][VL], j descending in k (transposed_phases.py).

A tile is WIDTH output pixels of one phase of a row for one vector of channels; the last one overlaps the one before
rather than being shorter. Only tiles at the edge check where their pixels are.
"""

from aipu import script as S
from epilogue import finish_shared, shared_values
from gemm import ROWS_PER_BASE, row_bases
from sharing import own_rows, own_work
from spatial import Geometry, row_at
from transposed_phases import Phases, phase_taps, row_taps, taps_ahead


@S.record
class Taps:
    """Those of a phase along an axis that are inside the image, and how far apart what they are multiplied by lies in
    the image and in the weights.
    """

    count: S.i32
    image_step: S.i32
    weight_step: S.i32


@S.record
class Pixels:
    """Of a phase of a row from `first` of the image's row on, which has `image` of them; `count` of the results exist,
    which are `pitch` elements apart from `offset` on.
    """

    first: S.i32
    image: S.i32
    count: S.i32
    offset: S.i32
    pitch: S.i32


@S.prim_func(is_inline=False)
def transposed_tile(
    checked: S.meta_var,
    x: S.ptr(X, "global"),
    channels: S.i32,
    c: S.i32,
    step: S.i32,
    planes: Taps,
    lines: Taps,
    taps: Taps,
    weights: S.ptr(ACC, "global"),
    pixels: Pixels,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
):
    """x: the row's first pixel under the first line of the first plane, channel c; a step is of pixels."""
    lane_mask = S.tail_mask(S.min(channels - c, VL), VL) if TAIL else None
    acc = S.alloc_buffer((WIDTH,), f"{ACC}x{VL}")
    for i in S.unroll(WIDTH):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    pitch = S.i64(channels)
    bases = row_bases(x + pixels.first * pitch, pitch, WIDTH)
    for d in range(planes.count):
        for h in range(lines.count):
            ahead = S.i64(d) * planes.image_step + S.i64(h) * lines.image_step
            own = weights + (d * planes.weight_step + h * lines.weight_step)
            for k in range(taps.count):
                weight = S.vload(own + k * taps.weight_step, lanes=VL)
                position = pixels.first + k * step
                for i in S.unroll(WIDTH):
                    at = bases[i // ROWS_PER_BASE] + ahead + (i % ROWS_PER_BASE) * pitch
                    if checked:
                        if position + i >= 0 and position + i < pixels.image and i < pixels.count:
                            add_product(acc, i, at, lane_mask, weight)
                    else:
                        add_product(acc, i, at, lane_mask, weight)
                ahead = ahead + taps.image_step
    shared = shared_values(extras, c, lane_mask)
    if EPILOGUE_LOOP:
        vectors = S.alloc_buffer((WIDTH * VL,), ACC)
        for i in S.unroll(WIDTH):
            S.vstore(acc[i], vectors.addr_of(i * VL))
        for i in range(S.min(pixels.count, WIDTH)):
            value = S.vload(vectors.addr_of(i * VL), lanes=VL)
            finish_shared(value, shared, extras, out, pixels.offset + i * pixels.pitch, c, lane_mask)
    for i in S.unroll(0 if EPILOGUE_LOOP else WIDTH):
        if checked:
            if i < pixels.count:
                finish_shared(acc[i], shared, extras, out, pixels.offset + i * pixels.pitch, c, lane_mask)
        else:
            finish_shared(acc[i], shared, extras, out, pixels.offset + i * pixels.pitch, c, lane_mask)


def add_product(acc, i, pixel, lane_mask, weight):
    value = S.cast(S.vload(pixel, mask=lane_mask, lanes=VL), ACC)
    acc[i] = S.fma(acc[i], value, weight) if USE_FMA else acc[i] + value * weight


@S.prim_func
def depthwise_transposed(
    x: S.ptr(X, "global"),
    weights: S.ptr(ACC, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    geometry: Geometry,
    phases: Phases,
    block_rows: S.i32,
    ldc: S.i32,
):
    depth, height, width = geometry.depth, geometry.height, geometry.width
    vectors = S.ceildiv(geometry.channels, VL)
    work = own_work(geometry.batch * depth.result * height.result, vectors, block_rows, 7)
    line = width.image * geometry.channels
    for block_first in range(work.row_first, work.row_last, work.block):
        for vector in range(work.panel_first, work.panel_last):
            c = vector * VL
            w_vector = weights + vector * (depth.kernel * height.kernel * width.kernel * VL)
            first_row, last_row = own_rows(work, block_first, vector)
            for number in range(first_row, last_row):
                own = row_taps(row_at(number, geometry), geometry, phases)
                for phase in range(S.min(width.stride, width.result)):
                    taps = phase_taps(phase, width, phases.width)
                    ahead = taps_ahead(own, taps)
                    results = S.ceildiv(width.result - phase, width.stride)
                    for tile in range(S.ceildiv(results, WIDTH)):
                        p = S.max(S.min(tile * WIDTH, results - WIDTH), 0)
                        first = taps.start + p
                        last = first + (taps.count - 1) * phases.width.step + (WIDTH - 1)
                        is_inside = first >= 0 and last < width.image and results - p >= WIDTH
                        for checked in S.unroll(2):
                            if is_inside == (checked == 0):
                                transposed_tile(
                                    checked == 1,
                                    x + (own.image_line * line + c),
                                    geometry.channels,
                                    c,
                                    phases.width.step,
                                    Taps(
                                        own.planes_inside,
                                        phases.depth.step * height.image * line,
                                        own.lines * taps.count * VL,
                                    ),
                                    Taps(own.lines_inside, phases.height.step * line, taps.count * VL),
                                    Taps(taps.count, phases.width.step * geometry.channels, VL),
                                    w_vector + ahead * VL,
                                    Pixels(
                                        first,
                                        width.image,
                                        results - p,
                                        (number * width.result + phase + p * width.stride) * ldc,
                                        width.stride * ldc,
                                    ),
                                    extras,
                                    out,
                                )
