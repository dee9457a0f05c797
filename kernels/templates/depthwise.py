"""Depthwise convolution over channels-last activations: every output channel sees one input channel (channel multiplier
1).

Parameters: X, ACC, VL and the epilogue's (epilogue.py, NV = 1), and
  WIDTH            output pixels of a tile; with the weights of a kernel row and one more they fit the register file
  KW, SW, DW       kernel width, stride and dilation along the width
  NARROW           whether rows may have fewer than WIDTH pixels
  TAIL             whether the channels may end within a vector
  AHEAD            whether prefetching does anything
Weights are [kd][kh][kw][C rounded up to VL] in the accumulators' type.

A tile is WIDTH output pixels of one row for one vector of channels. Each input vector of its patch is loaded once per
kernel row and used for all the pixels it feeds. The last tile of a row overlaps the one before rather than being
shorter. Only tiles at the edge check where their columns are. Blocks of rows are outermost, channels in between, so
that a block stays in the second-level cache while the vectors of channels pass by.
"""

from aipu import script as S
from epilogue import finish_shared, shared_values
from gemm import ROWS_PER_BASE, row_bases
from sharing import panels_of, rows_or_panels


def accumulate(acc, value, weight):
    if USE_FMA:
        return S.fma(acc, value, weight)
    return acc + value * weight


def depthwise_tile(
    checked,
    masked,
    x,
    depth_stride,
    line_stride,
    channels,
    weights,
    w_line,
    w_depth,
    depths,
    lines,
    padded_channels,
    position,
    in_w,
    extras,
    out,
    row_offset,
    c,
    pixels,
):
    lane_mask = S.tail_mask(S.min(channels - c, VL), VL) if masked else None
    acc = S.alloc_buffer((WIDTH,), f"{ACC}x{VL}")
    wv = S.alloc_buffer((KW,), f"{ACC}x{VL}")
    for i in S.unroll(WIDTH):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    stride = S.i64(channels)
    for kd in range(depths):
        for kh in range(lines):
            bases = row_bases(
                x + (S.i64(kd) * depth_stride + S.i64(kh) * line_stride), stride, (WIDTH - 1) * SW + (KW - 1) * DW + 1
            )
            w = weights + (kd * w_depth + kh * w_line)
            for k in S.unroll(KW):
                wv[k] = S.vload(w + k * padded_channels, lanes=VL)
            for column in S.unroll((WIDTH - 1) * SW + (KW - 1) * DW + 1):
                if any([(column - k * DW) % SW == 0 and 0 <= (column - k * DW) // SW < WIDTH for k in range(KW)]):
                    at = bases[column // ROWS_PER_BASE] + S.i64(column % ROWS_PER_BASE) * stride
                    if checked:
                        if position + column >= 0 and position + column < in_w:
                            feed(column, acc, wv, at, lane_mask)
                    else:
                        feed(column, acc, wv, at, lane_mask)
    shared = shared_values(extras, c, lane_mask)
    if EPILOGUE_LOOP:
        vectors = S.alloc_buffer((WIDTH * VL,), ACC)
        for i in S.unroll(WIDTH):
            S.vstore(acc[i], vectors.addr_of(i * VL))
        for pixel in range(S.min(pixels, WIDTH)):
            finish_shared(
                S.vload(vectors.addr_of(pixel * VL), lanes=VL),
                shared,
                extras,
                out,
                row_offset + pixel * channels,
                c,
                lane_mask,
            )
    for i in S.unroll(0 if EPILOGUE_LOOP else WIDTH):
        if NARROW and checked:
            if i < pixels:
                finish_shared(acc[i], shared, extras, out, row_offset + i * channels, c, lane_mask)
        else:
            finish_shared(acc[i], shared, extras, out, row_offset + i * channels, c, lane_mask)


def feed(column, acc, wv, at, lane_mask):
    """The input vector of a patch's column goes to the output pixels whose taps it is under."""
    value = S.cast(S.vload(at, mask=lane_mask, lanes=VL), ACC)
    for i in S.unroll(WIDTH):
        for k in S.unroll(KW):
            if i * SW + k * DW == column:
                acc[i] = accumulate(acc[i], value, wv[k])


@S.prim_func(is_inline=False)
def depthwise_row(
    masked: S.meta_var,
    x: S.ptr(X, "global"),
    depth_stride: S.i64,
    line_stride: S.i64,
    channels: S.i32,
    weights: S.ptr(ACC, "global"),
    w_line: S.i32,
    w_depth: S.i32,
    depths: S.i32,
    lines: S.i32,
    padded_channels: S.i32,
    pad_w: S.i32,
    in_w: S.i32,
    out_w: S.i32,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    c: S.i32,
):
    """One row of output pixels of one vector of channels; x: the row's first valid line at column 0, weights: those of
    that line.
    """
    for tile in range(S.ceildiv(out_w, WIDTH)):
        ow = S.max(S.min(tile * WIDTH, out_w - WIDTH), 0) if NARROW else S.min(tile * WIDTH, out_w - WIDTH)
        position = ow * SW - pad_w
        inside = position >= 0 and position + ((WIDTH - 1) * SW + (KW - 1) * DW) < in_w
        if NARROW:
            inside = inside and out_w >= WIDTH
        x_tile = x + S.i64(position) * channels
        if masked:
            depthwise_tile(
                1,
                1,
                x_tile,
                depth_stride,
                line_stride,
                channels,
                weights,
                w_line,
                w_depth,
                depths,
                lines,
                padded_channels,
                position,
                in_w,
                extras,
                out,
                row_offset + ow * channels,
                c,
                out_w - ow,
            )
        elif inside:
            depthwise_tile(
                0,
                0,
                x_tile,
                depth_stride,
                line_stride,
                channels,
                weights,
                w_line,
                w_depth,
                depths,
                lines,
                padded_channels,
                position,
                in_w,
                extras,
                out,
                row_offset + ow * channels,
                c,
                out_w - ow,
            )
        else:
            depthwise_tile(
                1,
                0,
                x_tile,
                depth_stride,
                line_stride,
                channels,
                weights,
                w_line,
                w_depth,
                depths,
                lines,
                padded_channels,
                position,
                in_w,
                extras,
                out,
                row_offset + ow * channels,
                c,
                out_w - ow,
            )


@S.prim_func
def depthwise(
    x: S.ptr(X, "global"),
    weights: S.ptr(ACC, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    batch: S.i32,
    in_d: S.i32,
    in_h: S.i32,
    in_w: S.i32,
    channels: S.i32,
    padded_channels: S.i32,
    out_d: S.i32,
    out_h: S.i32,
    out_w: S.i32,
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
    block_rows: S.i32,
    ahead: S.i32,
):
    """ahead: whether the next block's rows are to be prefetched, as they come from (and go to) memory."""
    vectors = S.ceildiv(channels, VL)
    out_rows = batch * out_d * out_h
    row_first, row_last, block, unit_first, unit_last = rows_or_panels(out_rows, vectors, block_rows, 7)
    vector_first, vector_last = panels_of(unit_first, unit_last, out_rows)
    w_line = kernel_w * padded_channels
    line_stride = S.i64(dilation_h * in_w * channels)
    depth_stride = S.i64(dilation_d * in_h * in_w * channels)
    for block_first in range(row_first, row_last, block):
        for vector in range(vector_first, vector_last):
            c = vector * VL
            for row in range(
                S.max(block_first, unit_first - vector * out_rows),
                S.min(S.min(block_first + block, row_last), unit_last - vector * out_rows),
            ):
                oh = row % out_h
                od = (row // out_h) % out_d
                image = row // (out_h * out_d)
                top = oh * stride_h - pad_h
                front = od * stride_d - pad_d
                kh = S.ceildiv(S.max(-top, 0), dilation_h)
                lines = S.max(S.min(kernel_h, S.ceildiv(S.max(in_h - top, 0), dilation_h)) - kh, 0)
                kd = S.ceildiv(S.max(-front, 0), dilation_d)
                depths = S.max(S.min(kernel_d, S.ceildiv(S.max(in_d - front, 0), dilation_d)) - kd, 0)
                if AHEAD:
                    if ahead != 0 and row + block < row_last:
                        # A part of the lines that a row of the next block will be the first to read, and of those it
                        # writes, in the order of memory: one vector of channels of each pixel is nothing that the
                        # processor could foresee.
                        lowest = S.i64(
                            (image * in_d + od) * in_h
                            + S.max(top + (kernel_h - 1) * dilation_h + (block - 1) * stride_h + 1, 0)
                        )
                        x_part = x + (lowest * (in_w * channels) + vector * (stride_h * in_w * VL))
                        for i in range(stride_h * in_w):
                            S.prefetch(x_part + i * VL)
                        out_part = out + (S.i64(row + block) * (out_w * channels) + vector * (out_w * VL))
                        for i in range(out_w):
                            S.prefetch(out_part + i * VL)
                x_row = x + (
                    ((image * in_d + front + kd * dilation_d) * in_h + top + kh * dilation_h) * in_w * channels + c
                )
                w_row = weights + ((kd * kernel_h + kh) * w_line + c)
                if TAIL and c + VL > channels:
                    depthwise_row(
                        1,
                        x_row,
                        depth_stride,
                        line_stride,
                        channels,
                        w_row,
                        w_line,
                        kernel_h * w_line,
                        depths,
                        lines,
                        padded_channels,
                        pad_w,
                        in_w,
                        out_w,
                        extras,
                        out,
                        row * out_w * channels,
                        c,
                    )
                else:
                    depthwise_row(
                        0,
                        x_row,
                        depth_stride,
                        line_stride,
                        channels,
                        w_row,
                        w_line,
                        kernel_h * w_line,
                        depths,
                        lines,
                        padded_channels,
                        pad_w,
                        in_w,
                        out_w,
                        extras,
                        out,
                        row * out_w * channels,
                        c,
                    )
