"""Convolution (1 to 3 spatial dimensions, channels last) and matrix products of 8-bit integers, accumulated exactly in
int32.

out[n, od, oh, ow, g * OCg + oc] = epilogue(scale[oc] * (start[oc] + sum over kd, kh, kw, ic of x[n, od*sd - pd + kd*dd,
..., g * ICg + ic] * w[...]))

A matrix product is a 1x1 convolution over one row of pixels. Zero points are the plugin's business: that of w is
subtracted when the weights are packed, that of x is in `start` (bias - zero * sum of w) or was subtracted by
`surround`, so padding either does not exist (`surround` added it) or stands for x = 0.

Parameters bound by kernels/plugins/quantized.cpp:
  X, W         element types of x and w: 8 bits, of which four products are summed per lane and instruction (S.vqdpa),
               or int16, two (S.vdpa)
  LEFT         the element type that products take x as
  FLIP         x is int8 and taken as uint8, or the other way round: 128 is added or taken off on the way (and made up
               for in `start`)
  BY_ELEMENT   products are by the elements of registers (S.vsdot): four steps of a pixel are in one, as LEFT already
  VL, NV, HEIGHTS, PREFETCH  register tile as in gemm.py: VL int32 lanes
  EDGES        the image has padding in the w direction; every tap is outside for at most the first or the last pixel of
               a tile
  scale_types  one pointer type if the accumulators are scaled to float32 (ACC = float32), none if they are stored (ACC
               = int32)
  EDGE_STARTS  empty, or, where taps outside the image would meet a zero point that is not 0: `start` is then
               [taps above][taps below][taps in front, or none][taps behind][column], of the taps that are outside, and
               this is how many numbers of taps below and behind there are
  sample_types one int32 scalar where samples, of one line each, lie apart in the result; else none
The rest is the epilogue's (epilogue.py).

Weights are packed [group][panel][kd][kh][tap][step][NV * VL columns][depth in four bytes], zero padded. A step is four
bytes of x, read as one word and broadcast. `taps` runs of `steps` steps each are one kernel row: one run when the taps
and channels of a row are contiguous, or one per tap. A last step beyond the channels multiplies whatever follows by
zero weights, so the plugin makes sure that something follows.
"""

from aipu import script as S
from epilogue import finish_tile
from gemm import FEWEST_TILES_THAT_FETCH, LEFT_OVER, ROWS_PER_BASE, multiply_whole, row_bases
from sharing import own_share
from spatial import Geometry, Groups, intervals, row_at

DEPTH = 2 if W == "int16" else 4
STEP = NV * VL * DEPTH


def multiply(first, last, acc, way):
    """acc[i] += four bytes of pixel i times their weights, for every step and pixel first <= i < last. `way`: through
    both. Of the weights from `ahead` on `ahead_step` elements are fetched for each step.
    """
    if first == last:  # The tile has one pixel, and this tap is outside the image there.
        return
    x, x_base, pixel_stride, w, w_base, steps, ahead, ahead_step = way
    stride = S.i64(pixel_stride)
    a = x + (x_base + first * pixel_stride)
    bases = row_bases(a, stride, last - first)
    if BY_ELEMENT:
        whole = multiply_fours(acc, first, last, a, stride, w + w_base, steps)
        for t in S.unroll(LEFT_OVER):
            if whole + t < steps:
                multiply_step(first, last, acc, bases, stride, w, w_base, ahead, ahead_step, whole + t)
    else:
        for t in range(steps):
            multiply_step(first, last, acc, bases, stride, w, w_base, ahead, ahead_step, t)


def multiply_step(first, last, acc, bases, stride, w, w_base, ahead, ahead_step, t):
    wv = [S.vload(w + (w_base + t * STEP + v * (DEPTH * VL)), lanes=DEPTH * VL) for v in range(NV)]
    if PREFETCH > 0:
        for v in S.unroll(NV):
            S.prefetch(w + (w_base + (t + PREFETCH) * STEP + v * (DEPTH * VL)))
        # Where edges are, no register is left for the address.
        if not EDGES:
            S.prefetch(ahead + S.i64(t) * ahead_step, level=2)
    for i in S.unroll(first, last):
        word = (bases[(i - first) // ROWS_PER_BASE] + (S.i64((i - first) % ROWS_PER_BASE) * stride + t * DEPTH)).as_ptr(
            "i32"
        )
        words = S.vbcast(word[0], lanes=VL)
        left = S.reinterpret(words, f"{LEFT}x{DEPTH * VL}")
        if FLIP:
            # The highest bit of each byte; of the vector, as the C compiler would take the word apart.
            left = left ^ S.cast(128, LEFT)
        for v in S.unroll(NV):
            if BY_ELEMENT:
                acc[i * NV + v] = S.vsdot(acc[i * NV + v], wv[v], left)
            elif DEPTH == 4:
                acc[i * NV + v] = S.vqdpa(acc[i * NV + v], left, wv[v])
            else:
                acc[i * NV + v] = S.vdpa(acc[i * NV + v], left, wv[v], wrap=True)


def multiply_fours(acc, first, last, a, stride, w, steps):
    """The same of whole fours of steps. Returns how many steps that are."""
    whole = steps // VL * VL
    multiply_whole(acc, first, last, a, stride, w, S.i64(whole) * DEPTH, VL * DEPTH, LEFT)
    return whole


def outside(distance, axis):
    """How many taps are, where the outermost one is `distance` pixels outside the image."""
    return intervals(S.max(distance, 0), axis.dilation)


def start_of_row(start, top, height, columns):
    """The part of `start` for the taps of a row whose first tap is at line `top`; `columns` of a tap each."""
    if len(EDGE_STARTS) == 0:
        return start
    below = top + (height.kernel - 1) * height.dilation - (height.image - 1)
    row = outside(-top, height) * EDGE_STARTS[0] + outside(below, height)
    return start + row * (2 * EDGE_STARTS[1] * columns)


def start_tile(height, acc, start, columns, origin, width):
    """The sums before any product, of pixels whose first one's first tap is at `origin`. Only the first pixel of a row
    has taps outside in front, only the last one behind."""
    for v in S.unroll(NV):
        bias = S.vload(start + v * VL, lanes=VL)
        for i in S.unroll(height):
            acc[i * NV + v] = bias
    if len(EDGE_STARTS) > 0:
        far = origin + (height - 1) * width.stride
        behind = outside(far + (width.kernel - 1) * width.dilation - (width.image - 1), width)
        last = behind * columns
        first = S.i32(0)
        if origin < 0:
            first = EDGE_STARTS[1] * columns
        if height == 1:
            first = first + last
        for v in S.unroll(NV):
            if height > 1:
                acc[(height - 1) * NV + v] = S.vload(start + (last + v * VL), lanes=VL)
            acc[v] = S.vload(start + (first + v * VL), lanes=VL)


def store(height, acc, scale, column, extras, out, row_offset, ldc, n, columns):
    if len(scale) == 0:
        finish_tile(height, acc, extras, out, row_offset, ldc, n, columns)
    else:
        scaled = S.alloc_buffer((height * NV,), f"float32x{VL}")
        for v in S.unroll(NV):
            factor = S.vload(scale[0] + (column + v * VL), lanes=VL)
            for i in S.unroll(height):
                scaled[i * NV + v] = S.cast(acc[i * NV + v], "float32") * factor
        finish_tile(height, scaled, extras, out, row_offset, ldc, n, columns)


@S.prim_func
def quantized_conv(
    x: S.ptr(X, "global"),
    weights: S.ptr(W, "global"),
    start: S.ptr("i32", "global"),
    scale: scale_types,
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    geometry: Geometry,
    groups: Groups,
    taps: S.i32,
    steps: S.i32,
    edge_steps: S.i32,
    segment: S.i32,
    ldc: S.i32,
    samples: sample_types,
):
    """Pixels of the result are `ldc` elements apart, and samples of one line each `samples[0]` where there is one."""
    depth, height, width = geometry.depth, geometry.height, geometry.width
    channels = geometry.channels
    panels = S.ceildiv(groups.result, NV * VL)
    segments = S.ceildiv(width.result, segment)
    out_rows = geometry.batch * depth.result * height.result
    pieces = out_rows * segments
    first, last = own_share(pieces * groups.count * panels)
    pixel_stride = width.stride * channels
    line_weights = taps * steps * STEP
    columns_of_tap = groups.count * panels * (NV * VL)
    for unit in range(first, last):
        # Panels vary slowest, so that one panel's weights stay in the nearest cache for all rows of a TEC.
        piece = unit % pieces
        group = (unit // pieces) // panels
        panel = (unit // pieces) % panels
        number = piece // segments
        begin = (piece % segments) * segment
        end = S.min(begin + segment, width.result)
        row = row_at(number, geometry)
        # Output channels n ... of all groups; `columns` of them belong to this group.
        n = group * groups.result + panel * (NV * VL)
        columns = groups.result - panel * (NV * VL)
        place = (group * panels + panel) * (NV * VL)
        top = row.height * height.stride - height.pad
        front = row.depth * depth.stride - depth.pad
        starts = start_of_row(start, top, height, columns_of_tap)
        w_panel = (group * panels + panel) * (depth.kernel * height.kernel * line_weights)
        # Each tile fetches a part of the next unit's weights: the first tile would wait for all of them.
        ahead = weights + w_panel
        ahead_step = S.i64(0)
        tiles = S.ceildiv(end - begin, HEIGHTS[0])
        if tiles >= FEWEST_TILES_THAT_FETCH:
            next_panel = ((unit + 1) // pieces) % (groups.count * panels)
            ahead = weights + next_panel * (depth.kernel * height.kernel * line_weights)
            ahead_step = S.i64(S.ceildiv(STEP, tiles))
        column = begin
        while column < end:
            # Tiles of equal height rather than full ones and a rest.
            left = end - column
            want = S.ceildiv(left, S.ceildiv(left, HEIGHTS[0]))
            here = column
            for h in S.unroll(len(HEIGHTS)):
                if column == here and want >= HEIGHTS[h]:
                    acc = S.alloc_buffer((HEIGHTS[h] * NV,), f"int32x{VL}")
                    origin = here * width.stride - width.pad
                    start_tile(HEIGHTS[h], acc, starts + place, columns_of_tap, origin, width)
                    runs = taps
                    run_steps = steps
                    run_width = width.dilation
                    if EDGES:
                        far = origin + (HEIGHTS[h] - 1) * width.stride
                        if origin < 0 or far + (width.kernel - 1) * width.dilation >= width.image:
                            runs = width.kernel
                            run_steps = edge_steps
                    for kd in range(depth.kernel):
                        plane = front + kd * depth.dilation
                        if plane >= 0 and plane < depth.image:
                            for kh in range(height.kernel):
                                line = top + kh * height.dilation
                                if line >= 0 and line < height.image:
                                    x_line = (
                                        ((row.image * depth.image + plane) * height.image + line) * width.image + origin
                                    ) * channels + group * groups.image
                                    w_line = w_panel + (kd * height.kernel + kh) * line_weights
                                    for run in range(runs):
                                        x_run = x_line + run * run_width * channels
                                        w_run = w_line + run * run_steps * STEP
                                        ahead_run = ahead + S.i64((w_run - w_panel) // STEP) * ahead_step
                                        way = (x, x_run, pixel_stride, weights, w_run, run_steps, ahead_run, ahead_step)
                                        if EDGES:
                                            offset = run * run_width
                                            # In the middle of the row there is one run, whose tap is inside for all
                                            # pixels.
                                            if origin + offset < 0:
                                                multiply(1, HEIGHTS[h], acc, way)
                                            elif far + offset >= width.image:
                                                multiply(0, HEIGHTS[h] - 1, acc, way)
                                            else:
                                                multiply(0, HEIGHTS[h], acc, way)
                                        else:
                                            multiply(0, HEIGHTS[h], acc, way)
                    store(
                        HEIGHTS[h],
                        acc,
                        scale,
                        place,
                        extras,
                        out,
                        number * samples[0] + here * ldc if len(samples) > 0 else (number * width.result + here) * ldc,
                        ldc,
                        n,
                        columns,
                    )
                    column = here + HEIGHTS[h]
                    ahead = ahead + depth.kernel * height.kernel * S.i64(taps * steps) * ahead_step


@S.prim_func
def surround(
    x: S.ptr(X, "global"),
    out: S.ptr(Y, "global"),
    zero: S.i32,
    batch: S.i32,
    in_d: S.i32,
    in_h: S.i32,
    in_w: S.i32,
    channels: S.i32,
    pad_d: S.i32,
    pad_h: S.i32,
    pad_w: S.i32,
    out_d: S.i32,
    out_h: S.i32,
    out_w: S.i32,
):
    """The image with a border of `zero`: out[n, d, h, w, c] = x[n, d - pad_d, h - pad_h, w - pad_w, c]; with Y = int16
    minus zero, with FLIP (Y has 8 bits and another sign than X) moved by 128. May crop at the end.
    """
    lanes = S.meta_var(4 * VL if X == Y or FLIP else 2 * VL)
    rows = batch * out_d * out_h
    first, last = own_share(rows)
    fill = S.vbcast(S.cast(zero if X == Y or FLIP else 0, Y), lanes=lanes)
    offset = S.vbcast(S.cast(zero, Y), lanes=lanes)
    width = out_w * channels
    before = S.min(pad_w * channels, width)
    inside = S.max(S.min(in_w * channels, width - before), 0)
    for row in range(first, last):
        h = row % out_h - pad_h
        d = (row // out_h) % out_d - pad_d
        image = row // (out_h * out_d)
        target = row * width
        if d >= 0 and d < in_d and h >= 0 and h < in_h:
            source = ((image * in_d + d) * in_h + h) * (in_w * channels)
            for i in range(0, before, lanes):
                S.vstore(fill, out + (target + i), mask=S.tail_mask(S.min(before - i, lanes), lanes))
            whole = inside // lanes * lanes
            for i in range(0, whole, lanes):
                S.vstore(moved(S.vload(x + (source + i), lanes=lanes), offset), out + (target + before + i))
            if whole < inside:
                rest = S.tail_mask(inside - whole, lanes)
                S.vstore(
                    moved(S.vload(x + (source + whole), lanes=lanes, mask=rest), offset),
                    out + (target + before + whole),
                    mask=rest,
                )
            for i in range(before + inside, width, lanes):
                S.vstore(fill, out + (target + i), mask=S.tail_mask(S.min(width - i, lanes), lanes))
        else:
            for i in range(0, width, lanes):
                S.vstore(fill, out + (target + i), mask=S.tail_mask(S.min(width - i, lanes), lanes))


def moved(value, offset):
    if X == Y:
        return value
    if FLIP:
        return S.cast(value, Y) ^ S.cast(128, Y)
    return S.cast(value, Y) - offset
