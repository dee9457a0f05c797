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
from spatial import Geometry, row_at

PATCH = (WIDTH - 1) * SW + (KW - 1) * DW + 1


def feeds(column, i, k):
    return i * SW + k * DW == column


@S.record
class Patch:
    """Where the image's lines are, from `at` on, that a tile reads."""

    at: S.i32
    line_stride: S.i32
    depth_stride: S.i32


def sum_taps(lane_mask, acc, x, patch, geometry, weights, c, padded_channels):
    wv = S.alloc_buffer((KW,), f"float32x{VL}")
    lines = geometry.height.kernel
    for kd in range(geometry.depth.kernel):
        for kh in range(lines):
            line = patch.at + kd * patch.depth_stride + kh * patch.line_stride
            for k in S.unroll(KW):
                wv[k] = S.vload(weights + (((kd * lines + kh) * KW + k) * padded_channels + c), lanes=VL)
            for column in S.unroll(PATCH):
                if any([feeds(column, i, k) for i in range(WIDTH) for k in range(KW)]):
                    raw = S.vload(x + (line + column * geometry.channels), mask=lane_mask, lanes=VL)
                    value = S.cast(S.cast(raw, "int32"), "float32")
                    for i in S.unroll(WIDTH):
                        for k in S.unroll(KW):
                            if feeds(column, i, k):
                                if USE_FMA:
                                    acc[i] = S.fma(acc[i], value, wv[k])
                                else:
                                    acc[i] = acc[i] + value * wv[k]


def tile(lane_mask, x, patch, geometry, weights, start, scale, c, padded_channels, extras, out, row_offset):
    acc = S.alloc_buffer((WIDTH,), f"float32x{VL}")
    bias = S.vload(start + c, lanes=VL)
    for i in S.unroll(WIDTH):
        acc[i] = bias
    sum_taps(lane_mask, acc, x, patch, geometry, weights, c, padded_channels)
    shared = shared_values(extras, c, lane_mask)
    channels = geometry.channels
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
    geometry: Geometry,
    padded_channels: S.i32,
):
    depth, height, width = geometry.depth, geometry.height, geometry.width
    channels = geometry.channels
    vectors = S.ceildiv(channels, VL)
    out_rows = geometry.batch * depth.result * height.result
    first, last = own_share(out_rows * vectors)
    line = width.image * channels
    for unit in range(first, last):
        number = unit % out_rows
        c = (unit // out_rows) * VL
        row = row_at(number, geometry)
        plane = row.image * depth.image + row.depth * depth.stride
        base = (plane * height.image + row.height * height.stride) * line + c
        for t in range(S.ceildiv(width.result, WIDTH)):
            ow = S.min(t * WIDTH, width.result - WIDTH)
            patch = Patch(base + ow * SW * channels, height.dilation * line, depth.dilation * height.image * line)
            row_offset = (number * width.result + ow) * channels
            if c + VL <= channels:
                tile(None, x, patch, geometry, weights, start, scale, c, padded_channels, extras, out, row_offset)
            else:
                mask = S.tail_mask(channels - c, VL)
                tile(mask, x, patch, geometry, weights, start, scale, c, padded_channels, extras, out, row_offset)
