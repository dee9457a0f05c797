"""Direct convolution over channels-last activations, 1 to 3 spatial dimensions (fewer are the inner ones; the others
have extent 1).

out[n, od, oh, ow, g * OCg + oc] = epilogue(sum over kd, kh, kw, ic of x[n, od*sd - pd + kd*dd, ..., g * ICg + ic] *
weights[...])

Parameters bound by kernels/plugins/conv.cpp: X, ACC, PANEL, PAIRS, VL, NV, USE_FMA, PREFETCH as in gemm.py (X as A; a
group's channels are the depth), the epilogue's as in epilogue.py, and
  TILING           how a row of output pixels is cut into tiles, and what happens at its ends (RowTiles in
                   kernels/parts/convolution.h):
    heights        of the tiles, descending
    skip           the most pixels of a tile that may lie outside the image for one tap, on either side; each has a loop
                   of its own
    cut            whether rows may have to be cut where a tap enters or leaves the image, so that all pixels of a tile
                   have the same taps (1 is then among the heights): where there are more pixels than `skip` without a
                   tap, as with large dilations, or the kernel exceeds the image
    taps           empty, or, where a tile is a whole row of an image of few channels or of one that would be cut, the
                   pixels [first, last) that each tap of a kernel row has inside the image, flat: the taps are then
                   unrolled with their pixels
    pixel_stride, channels  with `taps`: of an image of few channels; else 0
  PREFETCH_RESULT  whether to ask for the memory of the results too: worth it where they are too many for the
                   second-level cache, for the first write to a line reads it

Weights are packed [group][panel][kd][kh][kw][ic][NR], zero padded to whole panels. A row of output pixels is one GEMM:
rows = pixels, row stride = sw * C. In channels-last layout the taps of one kernel row and their channels are
contiguous, so with dilation 1 and one group they merge into one loop. At the left and right edge of the image a tile's
taps fall into three runs: those where its first pixels are outside, those that all pixels have, those where its last
pixels are outside. Where many pixels are without a tap, tiles end where it enters or leaves the image instead. So there
are no padded copies and no zero taps.
"""

from aipu import script as S
from conv_rows import Target, for_each_row, for_each_tile, plane_of
from epilogue import finish_tile, prefetch_tile
from gemm import (
    LEFT_OVER,
    add_product,
    multiply_whole_blocks,
    pair_value,
    right_buffer,
    row_bases,
    row_value,
    step_lanes,
    steps_of,
    takes_blocks,
)
from spatial import Geometry, Groups, intervals, taps_of_axis


@S.record
class Strides:
    """Of the image: from a pixel of a tile, a tap, a line and a plane to the next."""

    pixel: S.i64
    tap: S.i64
    line: S.i64
    depth: S.i64


@S.record
class Panel:
    """The weights of a panel, and where the next tap, line and plane are."""

    data: S.ptr(PANEL, "global")
    tap: S.i32
    line: S.i32
    depth: S.i32


@S.record
class Runs:
    """The taps of a tile, by where its pixels are: `left` of a line where its first ones are outside of the image,
    `middle` where all are inside, in `repeat` loops of `count` steps, `right` where its last ones are outside.
    """

    left: S.i32
    middle: S.i32
    right: S.i32
    repeat: S.i32
    count: S.i32


@S.record
class Place:
    """Where a tile begins in the image, and the width of that."""

    position: S.i32
    extent: S.i32
    stride: S.i32
    dilation: S.i32


def left_value(bases, pixel, pixel_stride, t):
    if PAIRS:
        return pair_value(bases, pixel, pixel_stride, S.i64(t))
    return S.cast(row_value(bases, pixel, pixel_stride, S.i64(t)), ACC)


def multiply(low, high, acc, x, x_base, pixel_stride, w, w_base, count):
    """acc[i] += x[x_base + i * pixel_stride + t] * w[w_base + t * NR ...] for low <= i < high, t < count."""
    wv = right_buffer()
    first = x + (x_base + low * pixel_stride)
    bases = row_bases(first, pixel_stride, high - low)
    if low < high and takes_blocks(X == ACC and PANEL == ACC):
        whole = multiply_whole_blocks(acc, low, high, first, pixel_stride, w + w_base, count)
        for t in S.unroll(LEFT_OVER):
            if whole + t < steps_of(count):
                multiply_step(low, high, acc, bases, pixel_stride, w, w_base, wv, whole + t)
    else:
        for t in range(steps_of(count)):
            multiply_step(low, high, acc, bases, pixel_stride, w, w_base, wv, t)


def multiply_step(low, high, acc, bases, pixel_stride, w, w_base, wv, t):
    for v in S.unroll(NV):
        wv[v] = S.vload(w + (w_base + t * (NV * step_lanes()) + v * step_lanes()), lanes=step_lanes())
    if PREFETCH > 0:
        for v in S.unroll(NV):
            S.prefetch(w + (w_base + (t + PREFETCH) * (NV * step_lanes()) + v * step_lanes()))
    for i in S.unroll(low, high):
        left = left_value(bases, i - low, pixel_stride, t)
        for v in S.unroll(NV):
            acc[i * NV + v] = add_product(acc[i * NV + v], left, wv[v])


@S.prim_func(is_inline=False)
def conv_tile(
    height: S.meta_var,
    x: S.ptr(X, "global"),
    x_at: S.i64,
    strides: Strides,
    weights: Panel,
    depths: S.i32,
    lines: S.i32,
    runs: Runs,
    place: Place,
    extras: extra_types,
    target: Target,
):
    """`height` output pixels of a row. x_at: the first pixel's first tap."""
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    for i in S.unroll(height * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    prefetch_tile(height, extras, target.offset, target.ldc, target.n)
    if PREFETCH_RESULT:
        for i in S.unroll(height):
            for v in S.unroll(NV):
                S.prefetch(target.out + (target.offset + i * target.ldc + target.n + v * VL))
    for kd in range(depths):
        for kh in range(lines):
            x_line = x_at + S.i64(kd) * strides.depth + S.i64(kh) * strides.line
            w_at = kd * weights.depth + kh * weights.line
            if len(TILING.taps) > 0:
                multiply_unrolled(acc, x, x_line, strides, weights, w_at)
            else:
                multiply_runs(height, acc, x, x_line, strides, weights, w_at, runs, place)
    finish_tile(height, acc, extras, target.out, target.offset, target.ldc, target.n, target.columns)


def multiply_unrolled(acc, x, x_line, strides, weights, w_at):
    """One row of the kernel, its taps unrolled."""
    # The tap stride is a variable on purpose: otherwise the C compiler finds the pixels that taps share, and keeps them
    # in registers that it has not got.
    steps = TILING.channels if TILING.channels > 0 else weights.tap // (NV * VL)
    pixel_stride = S.i64(TILING.pixel_stride) if TILING.channels > 0 else strides.pixel
    for tap in S.unroll(len(TILING.taps) // 2):
        if TILING.taps[2 * tap] < TILING.taps[2 * tap + 1]:
            multiply(
                TILING.taps[2 * tap],
                TILING.taps[2 * tap + 1],
                acc,
                x,
                x_line + tap * strides.tap,
                pixel_stride,
                weights.data,
                w_at + tap * steps * (NV * VL),
                steps,
            )


def multiply_runs(height, acc, x, x_line, strides, weights, w_at, runs, place):
    """One row of the kernel."""
    if TILING.skip > 0:
        for tap in range(runs.left):
            outside = -place.position - tap * place.dilation
            for s in S.unroll(1, min(TILING.skip, height - 1) + 1):
                if outside > (s - 1) * place.stride and outside <= s * place.stride:
                    multiply_tap(s, height, acc, x, x_line, strides, weights, w_at, tap)
    for tap in range(runs.repeat):
        multiply(
            0,
            height,
            acc,
            x,
            x_line + S.i64(runs.left + tap) * strides.tap,
            strides.pixel,
            weights.data,
            w_at + (runs.left + tap) * weights.tap,
            runs.count,
        )
    if TILING.skip > 0:
        for tap in range(runs.left + runs.middle, runs.left + runs.middle + runs.right):
            inside = place.extent - place.position - tap * place.dilation
            for s in S.unroll(1, min(TILING.skip, height - 1) + 1):
                if inside > (height - s - 1) * place.stride and inside <= (height - s) * place.stride:
                    multiply_tap(0, height - s, acc, x, x_line, strides, weights, w_at, tap)


def multiply_tap(low, high, acc, x, x_line, strides, weights, w_at, tap):
    """One tap, for the pixels [low, high) of a tile."""
    multiply(
        low,
        high,
        acc,
        x,
        x_line + S.i64(tap) * strides.tap,
        strides.pixel,
        weights.data,
        w_at + tap * weights.tap,
        weights.tap // (NV * VL),
    )


def is_cut(width):
    """Whether tiles of this row end where taps enter or leave the image: else some tile would have more pixels than
    `skip` without a tap, or a tap without its first and without its last pixels.
    """
    beyond = (width.result - 1) * width.stride - width.pad + (width.kernel - 1) * width.dilation - (width.image - 1)
    tiles = S.max(S.ceildiv(width.result, TILING.heights[0]), 1)
    return (
        width.pad > TILING.skip * width.stride
        or beyond > TILING.skip * width.stride
        or width.image < (S.ceildiv(width.result, tiles) - 1) * width.stride
    )


def end_of_taps(taps, width):
    """The first pixel behind one with these taps that has others."""
    end = width.result
    if taps.first > 0:
        entering = width.pad - (taps.first - 1) * width.dilation
        end = S.min(end, intervals(entering, width.stride))
    if taps.count > 0:
        leaving = width.image + width.pad - (taps.first + taps.count - 1) * width.dilation
        end = S.min(end, intervals(leaving, width.stride))
    return end


def convolve_row(plane, width, channels, group_in, merge, weights, extras, target):
    """A row of `width.result` output pixels for one panel.

    plane: the image (of the group's channels), `width` its width and the kernel's; weights: those of the first kernel
    row that the image has.
    """
    column = S.i32(0)
    cut = TILING.cut and is_cut(width)
    while column < width.result:
        last = width.result
        taps = 0
        if TILING.cut:
            taps = taps_of_axis(column, width)
            if cut:
                last = end_of_taps(taps, width)
        compute = tiles_of_row(plane, width, channels, group_in, merge, weights, extras, target, cut, taps)
        for_each_tile(column, last - column, TILING.heights, compute)
        column = S.i32(last)


def tiles_of_row(plane, width, channels, group_in, merge, weights, extras, target, cut, taps):
    """What computes a tile of it. `cut`: whether its pixels have all the same taps, which are `taps`."""

    def compute(column, height):
        position = column * width.stride - width.pad
        left = S.min(intervals(S.max(-position, 0), width.dilation), width.kernel)
        final = position + (height - 1) * width.stride
        right = width.kernel - S.min(intervals(S.max(width.image - final, 0), width.dilation), width.kernel)
        skipped = 0
        if TILING.cut:
            skipped = S.i32(0)
            if cut:
                skipped = S.min(taps.first, width.kernel)
                left = S.i32(0)
                right = width.kernel - skipped - taps.count
        middle = width.kernel - left - right - skipped
        if TILING.skip == 0:
            right = S.i32(0)
        elif TILING.cut:
            if cut:
                right = S.i32(0)
        repeat = middle
        count = group_in
        if merge != 0:
            repeat = S.min(middle, 1)
            count = middle * group_in
        for h in S.unroll(len(TILING.heights)):
            if height == TILING.heights[h]:
                conv_tile(
                    TILING.heights[h],
                    plane.data,
                    (position + skipped * width.dilation) * channels,
                    Strides(width.stride * channels, width.dilation * channels, plane.line_stride, plane.depth_stride),
                    Panel(weights.data + skipped * weights.tap, weights.tap, weights.line, weights.depth),
                    plane.depths,
                    plane.lines,
                    Runs(left, middle, right, repeat, count),
                    Place(position, width.image, width.stride, width.dilation),
                    extras,
                    Target(target.out, target.offset + column * target.ldc, target.ldc, target.n, target.columns),
                )

    return compute


def rows_of_panels(x, weights, out, extras, geometry, groups, panels, merge, ldc):
    """What convolves rows by a panel, one of the `panels` of a group."""
    height, width = geometry.height, geometry.width
    w_tap = groups.image * (NV * VL)
    w_line = width.kernel * w_tap
    w_plane = height.kernel * w_line

    def of_panel(panel):
        group = panel // panels
        n = group * groups.result + (panel % panels) * (NV * VL)
        columns = groups.result - (panel % panels) * (NV * VL)
        w_panel = weights + panel * (geometry.depth.kernel * w_plane)

        def convolve(number, met):
            plane = plane_of(x + group * groups.image, geometry.channels, geometry, met)
            own = Panel(w_panel + (met.planes.first * height.kernel + met.lines.first) * w_line, w_tap, w_line, w_plane)
            target = Target(out, number * width.result * ldc, ldc, n, columns)
            convolve_row(plane, width, geometry.channels, groups.image, merge, own, extras, target)

        return convolve

    return of_panel


@S.prim_func
def conv(
    x: S.ptr(X, "global"),
    weights: S.ptr(PANEL, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    geometry: Geometry,
    groups: Groups,
    merge: S.i32,
    block_rows: S.i32,
    ldc: S.i32,
):
    panels = S.ceildiv(groups.result, NV * VL)
    of_panel = rows_of_panels(x, weights, out, extras, geometry, groups, panels, merge, ldc)
    for_each_row(geometry, groups.count * panels, block_rows, of_panel)
