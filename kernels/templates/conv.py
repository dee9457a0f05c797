"""Direct convolution over channels-last activations, 1 to 3 spatial dimensions (fewer are the inner ones; the others
have extent 1).

out[n, od, oh, ow, g * OCg + oc] = epilogue(sum over kd, kh, kw, ic of x[n, od*sd - pd + kd*dd, ..., g * ICg + ic] *
weights[...])

Parameters bound by kernels/plugins/conv.cpp: X, ACC, VL, NV, HEIGHTS, USE_FMA, PREFETCH as in gemm.py (X as A), the
epilogue's as in epilogue.py, and
  SKIP             the most pixels of a tile that may lie outside the image for one tap, on either side; each has a loop
                   of its own
  ROW_TAPS         empty, or, where a tile is a whole row of an image of few channels, the pixels [first, last) that
                   each tap of a kernel row has inside the image, flat: the taps are then unrolled with their pixels
  ROW_STRIDES      with ROW_TAPS: pixel stride and channels
  PREFETCH_RESULT  whether to ask for the memory of the results too: worth it where they are too many for the
                   second-level cache, for the first write to a line reads it
  SINGLE           whether pixels may have to be computed one by one (a tile height 1 is then among HEIGHTS): where
                   padding exceeds SKIP, or the kernel the image

Weights are packed [group][panel][kd][kh][kw][ic][NR], zero padded to whole panels. A row of output pixels is one GEMM:
rows = pixels, row stride = sw * C. In channels-last layout the taps of one kernel row and their channels are
contiguous, so with dilation 1 and one group they merge into one loop. At the left and right edge of the image a tile's
taps fall into three runs: those where its first pixels are outside, those that all pixels have, those where its last
pixels are outside. So there are no padded copies and no zero taps.
"""

from aipu import script as S
from epilogue import finish_tile, prefetch_tile
from gemm import multiply_add, row_bases, row_value
from sharing import panels_of, rows_or_panels


def intervals(distance, step):
    """ceil(distance / step) for distance >= 0; nearly every dilation is 1, and a division takes as long as a dozen
    products.
    """
    count = distance
    if step != 1:
        count = S.ceildiv(distance, step)
    return count


def multiply(low, high, acc, x, x_base, pixel_stride, w, w_base, count):
    """acc[i] += x[x_base + i * pixel_stride + t] * w[w_base + t * NR ...] for low <= i < high, t < count."""
    wv = S.alloc_buffer((NV,), f"{ACC}x{VL}")
    bases = row_bases(x + (x_base + low * pixel_stride), pixel_stride, high - low)
    for t in range(count):
        for v in S.unroll(NV):
            wv[v] = S.vload(w + (w_base + t * (NV * VL) + v * VL), lanes=VL)
        if PREFETCH > 0:
            for v in S.unroll(NV):
                S.prefetch(w + (w_base + (t + PREFETCH) * (NV * VL) + v * VL))
        for i in S.unroll(low, high):
            left = S.cast(row_value(bases, i - low, pixel_stride, S.i64(t)), ACC)
            for v in S.unroll(NV):
                acc[i * NV + v] = multiply_add(acc[i * NV + v], left, wv[v])


@S.prim_func(is_inline=False)
def conv_tile(
    height: S.meta_var,
    x: S.ptr(X, "global"),
    x_at: S.i64,
    pixel_stride: S.i64,
    tap_stride: S.i64,
    line_stride: S.i64,
    depth_stride: S.i64,
    w: S.ptr(ACC, "global"),
    w_tap: S.i32,
    w_line: S.i32,
    w_depth: S.i32,
    depths: S.i32,
    lines: S.i32,
    left: S.i32,
    middle: S.i32,
    right: S.i32,
    repeat: S.i32,
    count: S.i32,
    position: S.i32,
    in_w: S.i32,
    stride_w: S.i32,
    dilation_w: S.i32,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    ldc: S.i32,
    n: S.i32,
    columns: S.i32,
):
    """`height` output pixels of a row. x_at: the first pixel's first tap; left, middle, right: the runs of taps; the
    middle one is `repeat` loops of `count` steps.
    """
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    for i in S.unroll(height * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    prefetch_tile(height, extras, row_offset, ldc, n)
    if PREFETCH_RESULT:
        for i in S.unroll(height):
            for v in S.unroll(NV):
                S.prefetch(out + (row_offset + i * ldc + n + v * VL))
    for kd in range(depths):
        for kh in range(lines):
            x_line = x_at + S.i64(kd) * depth_stride + S.i64(kh) * line_stride
            w_at = kd * w_depth + kh * w_line
            if len(ROW_TAPS) > 0:
                # The tap stride is a variable on purpose: otherwise the C compiler finds the pixels that taps share,
                # and keeps them in registers that it has not got.
                for tap in S.unroll(len(ROW_TAPS) // 2):
                    multiply(
                        ROW_TAPS[2 * tap],
                        ROW_TAPS[2 * tap + 1],
                        acc,
                        x,
                        x_line + tap * tap_stride,
                        S.i64(ROW_STRIDES[0]),
                        w,
                        w_at + tap * ROW_STRIDES[1] * (NV * VL),
                        ROW_STRIDES[1],
                    )
            else:
                if SKIP > 0:
                    for tap in range(left):
                        outside = -position - tap * dilation_w
                        for s in S.unroll(1, min(SKIP, height - 1) + 1):
                            if outside > (s - 1) * stride_w and outside <= s * stride_w:
                                multiply(
                                    s,
                                    height,
                                    acc,
                                    x,
                                    x_line + S.i64(tap) * tap_stride,
                                    pixel_stride,
                                    w,
                                    w_at + tap * w_tap,
                                    w_tap // (NV * VL),
                                )
                for tap in range(repeat):
                    multiply(
                        0,
                        height,
                        acc,
                        x,
                        x_line + S.i64(left + tap) * tap_stride,
                        pixel_stride,
                        w,
                        w_at + (left + tap) * w_tap,
                        count,
                    )
                if SKIP > 0:
                    for tap in range(left + middle, left + middle + right):
                        inside = in_w - position - tap * dilation_w
                        for s in S.unroll(1, min(SKIP, height - 1) + 1):
                            if inside > (height - s - 1) * stride_w and inside <= (height - s) * stride_w:
                                multiply(
                                    0,
                                    height - s,
                                    acc,
                                    x,
                                    x_line + S.i64(tap) * tap_stride,
                                    pixel_stride,
                                    w,
                                    w_at + tap * w_tap,
                                    w_tap // (NV * VL),
                                )
    finish_tile(height, acc, extras, out, row_offset, ldc, n, columns)


@S.macro
def convolve_row(
    x_line,
    in_w,
    channels,
    group_in,
    out_w,
    kernel_w,
    stride_w,
    dilation_w,
    pad_w,
    merge,
    line_stride,
    depth_stride,
    w_line,
    w_tap,
    w_line_stride,
    w_depth_stride,
    depths,
    lines,
    extras,
    out,
    row_offset,
    ldc,
    n,
    columns,
):
    """A row of `out_w` output pixels, `ldc` elements apart from out + row_offset on, for one panel.

    x_line: the image row (of the group's channels) that the first kernel row meets; w_line: that kernel row's weights.
    """
    tiles = S.max(S.ceildiv(out_w, HEIGHTS[0]), 1)
    column = 0
    for tile in range(tiles):
        end = column + out_w // tiles
        if tile < out_w % tiles:
            end = end + 1
        while column < end:
            height = HEIGHTS[len(HEIGHTS) - 1]
            for h in S.unroll(len(HEIGHTS) - 1):
                if column + HEIGHTS[len(HEIGHTS) - 2 - h] <= end:
                    height = S.i32(HEIGHTS[len(HEIGHTS) - 2 - h])
            position = column * stride_w - pad_w
            left = S.min(intervals(S.max(-position, 0), dilation_w), kernel_w)
            final = position + (height - 1) * stride_w
            right = kernel_w - S.min(intervals(S.max(in_w - final, 0), dilation_w), kernel_w)
            skipped = 0
            if SINGLE:
                beyond = final + (kernel_w - 1) * dilation_w - (in_w - 1)
                fits = (
                    S.ceildiv(S.max(-position, 0), stride_w) <= SKIP and S.ceildiv(S.max(beyond, 0), stride_w) <= SKIP
                )
                if left + right > kernel_w or not fits or height == 1:
                    # One pixel, only the taps that it has.
                    height = S.i32(1)
                    right = kernel_w - S.min(intervals(S.max(in_w - position, 0), dilation_w), kernel_w)
                    skipped = left
                    left = 0
                    right = S.min(right, kernel_w - skipped)
            middle = kernel_w - left - right - skipped
            if skipped > 0 or SKIP == 0 or (SINGLE and height == 1):
                right = 0
            repeat = middle
            count = group_in
            if merge != 0:
                repeat = S.min(middle, 1)
                count = middle * group_in
            for h in S.unroll(len(HEIGHTS)):
                if height == HEIGHTS[h]:
                    conv_tile(
                        HEIGHTS[h],
                        x_line,
                        (position + skipped * dilation_w) * channels,
                        stride_w * channels,
                        dilation_w * channels,
                        line_stride,
                        depth_stride,
                        w_line + skipped * w_tap,
                        w_tap,
                        w_line_stride,
                        w_depth_stride,
                        depths,
                        lines,
                        left,
                        middle,
                        right,
                        repeat,
                        count,
                        position,
                        in_w,
                        stride_w,
                        dilation_w,
                        extras,
                        out,
                        row_offset + column * ldc,
                        ldc,
                        n,
                        columns,
                    )
            column = column + height


@S.prim_func
def conv(
    x: S.ptr(X, "global"),
    weights: S.ptr(ACC, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    batch: S.i32,
    in_d: S.i32,
    in_h: S.i32,
    in_w: S.i32,
    channels: S.i32,
    out_d: S.i32,
    out_h: S.i32,
    out_w: S.i32,
    groups: S.i32,
    group_in: S.i32,
    group_out: S.i32,
    kernel_d: S.i32,
    kernel_h: S.i32,
    kernel_w: S.i32,
    stride_d: S.i32,
    stride_h: S.i32,
    stride_w: S.i32,
    pad_d: S.i32,
    pad_h: S.i32,
    pad_w: S.i32,
    dilation_d: S.i32,
    dilation_h: S.i32,
    dilation_w: S.i32,
    merge: S.i32,
    block_rows: S.i32,
    ldc: S.i32,
):
    panels = S.ceildiv(group_out, NV * VL)
    all_panels = groups * panels
    out_rows = batch * out_d * out_h
    row_first, row_last, block, unit_first, unit_last = rows_or_panels(out_rows, all_panels, block_rows, 7)
    panel_first, panel_last = panels_of(unit_first, unit_last, out_rows)
    w_tap = group_in * (NV * VL)
    for block_first in range(row_first, row_last, block):
        # One panel's weights stay in the nearest cache for all rows of a block, the block's activations in the next one
        # for all panels.
        for panel in range(panel_first, panel_last):
            group = panel // panels
            n = group * group_out + (panel % panels) * (NV * VL)
            columns = group_out - (panel % panels) * (NV * VL)
            w_panel = weights + panel * (kernel_d * kernel_h * kernel_w * w_tap)
            for row in range(
                S.max(block_first, unit_first - panel * out_rows),
                S.min(S.min(block_first + block, row_last), unit_last - panel * out_rows),
            ):
                oh = row % out_h
                od = (row // out_h) % out_d
                image = row // (out_h * out_d)
                top = oh * stride_h - pad_h
                front = od * stride_d - pad_d
                kh = intervals(S.max(-top, 0), dilation_h)
                lines = S.max(S.min(kernel_h, intervals(S.max(in_h - top, 0), dilation_h)) - kh, 0)
                kd = intervals(S.max(-front, 0), dilation_d)
                depths = S.max(S.min(kernel_d, intervals(S.max(in_d - front, 0), dilation_d)) - kd, 0)
                x_line = x + (
                    ((image * in_d + front + kd * dilation_d) * in_h + top + kh * dilation_h) * in_w * channels
                    + group * group_in
                )
                w_line = w_panel + (kd * kernel_h + kh) * (kernel_w * w_tap)
                convolve_row(
                    x_line,
                    in_w,
                    channels,
                    group_in,
                    out_w,
                    kernel_w,
                    stride_w,
                    dilation_w,
                    pad_w,
                    merge,
                    dilation_h * in_w * channels,
                    dilation_d * in_h * in_w * channels,
                    w_line,
                    w_tap,
                    kernel_w * w_tap,
                    kernel_h * kernel_w * w_tap,
                    depths,
                    lines,
                    extras,
                    out,
                    row * out_w * ldc,
                    ldc,
                    n,
                    columns,
                )
