"""Depthwise convolution of 8-bit integers over channels-last activations without padding (`surround` in
quantized_conv.py adds what there is).

out[n, od, oh, ow, c] = epilogue(scale[c] * (start[c] + sum over kd, kh, kw of x[n, od*sd + kd*dd, ..., c] * w[kd, kh,
kw, c]))

The sums are exact: all numbers are integers below 2^24, held in float32. Parameters bound by
kernels/plugins/quantized.cpp:
  X, VL            element type of x, lanes of float32
  WIDTH            output pixels of a tile, all of one row; rows are at least as wide
  KW, SW, DW       kernel width, stride and dilation along the width
  USE_FMA          fused multiply-add
  scale_types      one pointer type if the sums are scaled to float32 (ACC = float32), none if they are stored (ACC =
                   int32)
The rest is the epilogue's (epilogue.py, NV = 1). Weights are [kd][kh][kw][C rounded up to VL], start and scale [C
rounded up to VL].

A tile loads each input vector of its patch once per kernel row for all the pixels it feeds. The last tile of a row
overlaps the one before rather than being shorter. Channels vary slowest, so that the weights of a vector of channels
stay in the nearest cache.
"""

from aipu import script as S
from epilogue import finish_shared, shared_values
from sharing import own_share

PATCH = (WIDTH - 1) * SW + (KW - 1) * DW + 1


def feeds(column, i, k):
    return i * SW + k * DW == column


def sum_taps(
    lane_mask, acc, x, x_base, channels, depth_stride, line_stride, weights, c, padded_channels, kernel_d, kernel_h
):
    wv = S.alloc_buffer((KW,), f"float32x{VL}")
    for kd in range(kernel_d):
        for kh in range(kernel_h):
            line = x_base + kd * depth_stride + kh * line_stride
            for k in S.unroll(KW):
                wv[k] = S.vload(weights + (((kd * kernel_h + kh) * KW + k) * padded_channels + c), lanes=VL)
            for column in S.unroll(PATCH):
                if any([feeds(column, i, k) for i in range(WIDTH) for k in range(KW)]):
                    value = S.cast(
                        S.cast(S.vload(x + (line + column * channels), mask=lane_mask, lanes=VL), "int32"), "float32"
                    )
                    for i in S.unroll(WIDTH):
                        for k in S.unroll(KW):
                            if feeds(column, i, k):
                                if USE_FMA:
                                    acc[i] = S.fma(acc[i], value, wv[k])
                                else:
                                    acc[i] = acc[i] + value * wv[k]


def tile(
    lane_mask,
    x,
    x_base,
    channels,
    depth_stride,
    line_stride,
    weights,
    start,
    scale,
    c,
    padded_channels,
    kernel_d,
    kernel_h,
    extras,
    out,
    row_offset,
):
    acc = S.alloc_buffer((WIDTH,), f"float32x{VL}")
    bias = S.vload(start + c, lanes=VL)
    for i in S.unroll(WIDTH):
        acc[i] = bias
    sum_taps(
        lane_mask, acc, x, x_base, channels, depth_stride, line_stride, weights, c, padded_channels, kernel_d, kernel_h
    )
    shared = shared_values(extras, c, lane_mask)
    if len(scale) == 0:
        for i in S.unroll(WIDTH):
            finish_shared(S.cast(acc[i], "int32"), shared, extras, out, row_offset + i * channels, c, lane_mask)
    else:
        factor = S.vload(scale[0] + c, lanes=VL)
        for i in S.unroll(WIDTH):
            finish_shared(acc[i] * factor, shared, extras, out, row_offset + i * channels, c, lane_mask)


@S.prim_func
def quantized_depthwise(
    x: S.ptr(X, "global"),
    weights: S.ptr("fp32", "global"),
    start: S.ptr("fp32", "global"),
    scale: scale_types,
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
    stride_d: S.i32,
    stride_h: S.i32,
    dilation_d: S.i32,
    dilation_h: S.i32,
):
    vectors = S.ceildiv(channels, VL)
    out_rows = batch * out_d * out_h
    units = out_rows * vectors
    first, last = own_share(units)
    line_stride = dilation_h * in_w * channels
    depth_stride = dilation_d * in_h * in_w * channels
    for unit in range(first, last):
        row = unit % out_rows
        c = (unit // out_rows) * VL
        oh = row % out_h
        od = (row // out_h) % out_d
        image = row // (out_h * out_d)
        base = ((image * in_d + od * stride_d) * in_h + oh * stride_h) * in_w * channels + c
        for t in range(S.ceildiv(out_w, WIDTH)):
            ow = S.min(t * WIDTH, out_w - WIDTH)
            x_base = base + ow * SW * channels
            row_offset = (row * out_w + ow) * channels
            if c + VL <= channels:
                tile(
                    None,
                    x,
                    x_base,
                    channels,
                    depth_stride,
                    line_stride,
                    weights,
                    start,
                    scale,
                    c,
                    padded_channels,
                    kernel_d,
                    kernel_h,
                    extras,
                    out,
                    row_offset,
                )
            else:
                tile(
                    S.tail_mask(channels - c, VL),
                    x,
                    x_base,
                    channels,
                    depth_stride,
                    line_stride,
                    weights,
                    start,
                    scale,
                    c,
                    padded_channels,
                    kernel_d,
                    kernel_h,
                    extras,
                    out,
                    row_offset,
                )
