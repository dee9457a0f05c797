"""Depthwise convolution over channels-last activations: every output channel sees one input channel.

Parameters: X, ACC, VL and the epilogue's (epilogue.py, NV = 1), and
  WIDTH            output pixels of a tile; with the weights of a kernel row and one more they fit the register file
  KW, SW, DW       kernel width, stride and dilation along the width
  MULTIPLIER       output channels per input channel, a power of two: lanes of the image are loaded once for so many of
                   the result, side by side; 1 in local memory
  NARROW           whether rows may have fewer than WIDTH pixels
  TAIL             whether the channels may end within a vector
  FETCHES          whether prefetching does anything
  X_LINE, OUT_LINE elements of a line of the cache
  MEMORY           "global", or "lsram" where depthwise_staged.py brings image, weights and results
  SUM, SUMS        type of sums, and what becomes of them: "results", or, where they are of 8-bit integers, exact in
                   float32 (all are below 2^24): "scaled" by a factor per channel, or "int32"
  start_types      of such sums pointers to what they start from, and to the factors; they are [C rounded up to VL]
  zero_types       float32, where the image's zero point is not 0 and stands around the image; none otherwise
  begin_types      vectors of what start_types point to, and zero_types
Weights are [kd][kh][kw][C rounded up to VL] in the type of sums.

A tile is WIDTH output pixels of one row for one vector of channels. Each input vector of its patch is loaded once per
kernel row and used for all the pixels it feeds. The last tile of a row overlaps the one before rather than being
shorter. Only tiles at the edge check where their columns are. Blocks of rows are outermost, channels in between, so
that a block stays in the second-level cache while the vectors of channels pass by.
"""

from aipu import script as S
from epilogue import finish_shared, shared_values
from gemm import ROWS_PER_BASE, row_bases
from sharing import own_rows, own_work
from spatial import Geometry, row_at, taps_of_axis


def accumulate(acc, value, weight):
    if USE_FMA:
        return S.fma(acc, value, weight)
    return acc + value * weight


def number_of(raw):
    """Bytes become numbers by way of int32, which is what processors have instructions for."""
    return S.cast(raw if SUMS == "results" else S.cast(raw, "int32"), SUM)


def load_pixel(at, channels, c, masked):
    """The image under the output channels from c on, of which there are `channels`."""
    lanes = VL // MULTIPLIER
    raw = S.vload(
        at, mask=S.tail_mask(S.min((channels - c) // MULTIPLIER, lanes), lanes) if masked else None, lanes=lanes
    )
    for doubling in S.unroll(VL):
        if 1 << doubling < MULTIPLIER:
            raw = S.vzip(raw, raw, "all")
    return raw


def result_of(value, begin):
    """Of a sum; `begin` is what begin_types says."""
    if SUMS == "scaled":
        return value * begin[1]
    return S.cast(value, ACC)


def depthwise_tile(checked, masked, x, lines, channels, pitch, weights, width, position, begin, extras, target):
    lane_mask = S.tail_mask(S.min(channels - target.c, VL), VL) if masked else None
    acc = S.alloc_buffer((WIDTH,), f"{SUM}x{VL}")
    wv = S.alloc_buffer((KW,), f"{SUM}x{VL}")
    for i in S.unroll(WIDTH):
        acc[i] = S.cast(0, f"{SUM}x{VL}") if SUMS == "results" else begin[0]
    stride = S.i64(pitch)
    for kd in range(lines.depths):
        for kh in range(lines.lines):
            bases = row_bases(
                x + (S.i64(kd) * lines.depth_stride + S.i64(kh) * lines.line_stride),
                stride,
                (WIDTH - 1) * SW + (KW - 1) * DW + 1,
            )
            w = weights.data + (kd * weights.depth + kh * weights.line)
            for k in S.unroll(KW):
                wv[k] = S.vload(w + k * weights.tap, lanes=VL)
            for column in S.unroll((WIDTH - 1) * SW + (KW - 1) * DW + 1):
                if any([(column - k * DW) % SW == 0 and 0 <= (column - k * DW) // SW < WIDTH for k in range(KW)]):
                    at = bases[column // ROWS_PER_BASE] + S.i64(column % ROWS_PER_BASE) * stride
                    if checked and len(zero_types) == 0:
                        if position + column >= 0 and position + column < width.image:
                            feed(column, acc, wv, number_of(load_pixel(at, channels, target.c, masked)))
                    elif checked:
                        value = S.vbcast(begin[-1], lanes=VL)
                        if position + column >= 0 and position + column < width.image:
                            value = number_of(load_pixel(at, channels, target.c, masked))
                        feed(column, acc, wv, value)
                    else:
                        feed(column, acc, wv, number_of(load_pixel(at, channels, target.c, masked)))
    shared = shared_values(extras, target.c, lane_mask)
    if EPILOGUE_LOOP:
        vectors = S.alloc_buffer((WIDTH * VL,), ACC)
        for i in S.unroll(WIDTH):
            S.vstore(result_of(acc[i], begin), vectors.addr_of(i * VL))
        for pixel in range(S.min(target.pixels, WIDTH)):
            value = S.vload(vectors.addr_of(pixel * VL), lanes=VL)
            store_pixel(value, shared, extras, target, pixel, channels, pitch, lane_mask)
    for i in S.unroll(0 if EPILOGUE_LOOP else WIDTH):
        if NARROW and checked:
            if i < target.pixels:
                store_pixel(result_of(acc[i], begin), shared, extras, target, i, channels, pitch, lane_mask)
        else:
            store_pixel(result_of(acc[i], begin), shared, extras, target, i, channels, pitch, lane_mask)


def store_pixel(value, shared, extras, target, pixel, channels, pitch, lane_mask):
    at = None if MEMORY == "global" else pixel * pitch
    offset = target.offset + pixel * channels
    finish_shared(value, shared, extras, target.out, offset, target.c, lane_mask, at)


def feed(column, acc, wv, value):
    """The input vector of a patch's column goes to the output pixels whose taps it is under."""
    for i in S.unroll(WIDTH):
        for k in S.unroll(KW):
            if i * SW + k * DW == column:
                acc[i] = accumulate(acc[i], value, wv[k])


@S.record
class Lines:
    """The lines of an image that a row of results meets: `lines` of `depths` planes."""

    depths: S.i32
    lines: S.i32
    line_stride: S.i64
    depth_stride: S.i64


@S.record
class Window:
    """The weights of a vector of channels, and where the next tap, line and plane are."""

    data: S.ptr(SUM, MEMORY)
    tap: S.i32
    line: S.i32
    depth: S.i32


@S.record
class Width:
    image: S.i32
    result: S.i32
    pad: S.i32


@S.record
class Target:
    """Where results go: pixels from `offset` on, of the channels from c on; `out` is the first of them where they are
    in local memory.
    """

    out: S.ptr(OUT, MEMORY)
    offset: S.i32
    c: S.i32
    pixels: S.i32


@S.prim_func(is_inline=False)
def depthwise_row(
    masked: S.meta_var,
    x: S.ptr(X, MEMORY),
    lines: Lines,
    channels: S.i32,
    pixel_pitch: S.i32,
    weights: Window,
    width: Width,
    begin: begin_types,
    extras: extra_types,
    out: S.ptr(OUT, MEMORY),
    row_offset: S.i32,
    c: S.i32,
):
    """One row of output pixels of one vector of channels; x: the row's first valid line at column 0, weights: those of
    that line. In local memory pixels are `pixel_pitch` apart, not `channels`.
    """
    pitch = channels // MULTIPLIER if MEMORY == "global" else pixel_pitch
    for tile in range(S.ceildiv(width.result, WIDTH)):
        last = width.result - WIDTH
        ow = S.max(S.min(tile * WIDTH, last), 0) if NARROW else S.min(tile * WIDTH, last)
        position = ow * SW - width.pad
        inside = position >= 0 and position + ((WIDTH - 1) * SW + (KW - 1) * DW) < width.image
        if NARROW:
            inside = inside and width.result >= WIDTH
        x_tile = x + S.i64(position) * pitch
        own = out if MEMORY == "global" else out + ow * pitch
        target = Target(own, row_offset + ow * channels, c, width.result - ow)
        if masked:
            depthwise_tile(1, 1, x_tile, lines, channels, pitch, weights, width, position, begin, extras, target)
        elif inside:
            depthwise_tile(0, 0, x_tile, lines, channels, pitch, weights, width, position, begin, extras, target)
        else:
            depthwise_tile(1, 0, x_tile, lines, channels, pitch, weights, width, position, begin, extras, target)


def beginning(start, zero, weights, c, lines, planes, geometry: Geometry, padded_channels):
    """What depthwise_row() begins the sums of a row with, of the channels from c on, of which the first weights are.
    Lines around the image, all of the zero point, are added here; columns there are found by tiles.
    """
    begin = [S.vload(p + c, lanes=VL) for p in start]
    if len(zero) == 0:
        return begin
    first = begin[0]
    if lines.count * planes.count < geometry.height.kernel * geometry.depth.kernel:
        outside = S.vbcast(zero[0], lanes=VL)
        for kd in range(geometry.depth.kernel):
            for kh in range(geometry.height.kernel):
                met = kd >= planes.first and kd < planes.first + planes.count
                if not (met and kh >= lines.first and kh < lines.first + lines.count):
                    w = weights + (kd * geometry.height.kernel + kh) * KW * padded_channels
                    for k in S.unroll(KW):
                        first = accumulate(first, outside, S.vload(w + k * padded_channels, lanes=VL))
    return [first] + begin[1:] + [zero[0]]


def fetch_ahead(x, out, block, number, row, top, vector, geometry: Geometry):
    """A part of the lines that a row of the next block will be the first to read, and of those it writes, in the order
    of memory: one vector of channels of each pixel is nothing that the processor could foresee. Row `number` has its
    first tap at line `top`.
    """
    depth, height, width = geometry.depth, geometry.height, geometry.width
    below = top + (height.kernel - 1) * height.dilation
    lowest = S.i64(
        (row.image * depth.image + row.depth) * height.image + S.max(below + (block - 1) * height.stride + 1, 0)
    )
    part = height.stride * width.image * (VL // MULTIPLIER)
    x_part = x + (lowest * (width.image * geometry.channels) + vector * part)
    for i in range(0, part, X_LINE):
        S.prefetch(x_part + i)
    pixels = width.result
    out_part = out + (S.i64(number + block) * (pixels * geometry.channels * MULTIPLIER) + vector * (pixels * VL))
    for i in range(0, pixels * VL, OUT_LINE):
        S.prefetch(out_part + i)


@S.prim_func
def depthwise(
    x: S.ptr(X, "global"),
    weights: S.ptr(SUM, "global"),
    start: start_types,
    zero: zero_types,
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    geometry: Geometry,
    padded_channels: S.i32,
    block_rows: S.i32,
    ahead: S.i32,
):
    """ahead: whether the next block's rows are to be prefetched, as they come from (and go to) memory."""
    depth, height, width = geometry.depth, geometry.height, geometry.width
    channels = geometry.channels * MULTIPLIER
    vectors = S.ceildiv(channels, VL)
    # Lines that another TEC has had come from its cache, as slowly as from memory.
    of_others = FETCHES and S.get_local_size() > 1 and vectors > 4
    block = S.min(block_rows, 2) if of_others else block_rows
    work = own_work(geometry.batch * depth.result * height.result, vectors, block, 7)
    w_line = width.kernel * padded_channels
    line = width.image * geometry.channels
    for block_first in range(work.row_first, work.row_last, work.block):
        for vector in range(work.panel_first, work.panel_last):
            c = vector * VL
            first, last = own_rows(work, block_first, vector)
            for number in range(first, last):
                row = row_at(number, geometry)
                lines = taps_of_axis(row.height, height)
                planes = taps_of_axis(row.depth, depth)
                if FETCHES:
                    if (ahead != 0 or of_others) and number + work.block < work.row_last:
                        fetch_ahead(x, out, work.block, number, row, lines.start, vector, geometry)
                front = row.image * depth.image + planes.start + planes.first * depth.dilation
                top = lines.start + lines.first * height.dilation
                x_row = x + ((front * height.image + top) * line + c // MULTIPLIER)
                met = Lines(
                    planes.count,
                    lines.count,
                    S.i64(height.dilation * line),
                    S.i64(depth.dilation * height.image * line),
                )
                window = Window(
                    weights + ((planes.first * height.kernel + lines.first) * w_line + c),
                    padded_channels,
                    w_line,
                    height.kernel * w_line,
                )
                across = Width(width.image, width.result, width.pad)
                row_offset = number * width.result * channels
                begin = beginning(start, zero, weights + c, c, lines, planes, geometry, padded_channels)
                if TAIL and c + VL > channels:
                    depthwise_row(1, x_row, met, channels, channels, window, across, begin, extras, out, row_offset, c)
                else:
                    depthwise_row(0, x_row, met, channels, channels, window, across, begin, extras, out, row_offset, c)
