"""Depthwise convolution over channels-last activations: every output channel sees one input channel (channel multiplier 1).

Parameters: X, ACC, VL and the epilogue's (epilogue.py, NV = 1). Weights are [kd][kh][kw][C rounded up to VL] in the accumulators' type.
A unit is one row of output pixels of one block of channels; channels vary slowest so that a block's weights stay in the nearest cache.
"""
from aipu import script as S
from epilogue import finish


def accumulate(acc, value, weight):
    if USE_FMA:
        return S.fma(acc, value, weight)
    return acc + value * weight


@S.prim_func
def depthwise(x: S.ptr(X, "global"), weights: S.ptr(ACC, "global"), out: S.ptr(OUT, "global"), extras: extra_types,
              batch: S.i32, in_d: S.i32, in_h: S.i32, in_w: S.i32, channels: S.i32, padded_channels: S.i32,
              out_d: S.i32, out_h: S.i32, out_w: S.i32,
              kernel_d: S.i32, kernel_h: S.i32, kernel_w: S.i32,
              stride_d: S.i32, stride_h: S.i32, stride_w: S.i32,
              pad_d: S.i32, pad_h: S.i32, pad_w: S.i32,
              dilation_d: S.i32, dilation_h: S.i32, dilation_w: S.i32):
    blocks = S.ceildiv(channels, VL)
    out_rows = batch * out_d * out_h
    units = out_rows * blocks
    share = S.ceildiv(units, S.get_local_size())
    first = S.get_local_id() * share
    last = S.min(first + share, units)
    for unit in range(first, last):
        row = unit % out_rows
        c = (unit // out_rows) * VL
        lane_mask = S.tail_mask(S.min(channels - c, VL), VL)
        oh = row % out_h
        od = (row // out_h) % out_d
        image = row // (out_h * out_d)
        for ow in range(out_w):
            acc = S.cast(0, f"{ACC}x{VL}")
            for kd in range(kernel_d):
                depth = od * stride_d - pad_d + kd * dilation_d
                if depth >= 0 and depth < in_d:
                    for kh in range(kernel_h):
                        line = oh * stride_h - pad_h + kh * dilation_h
                        if line >= 0 and line < in_h:
                            x_line = ((image * in_d + depth) * in_h + line) * in_w
                            w_line = (kd * kernel_h + kh) * kernel_w
                            for kw in range(kernel_w):
                                position = ow * stride_w - pad_w + kw * dilation_w
                                if position >= 0 and position < in_w:
                                    value = S.cast(S.vload(x + ((x_line + position) * channels + c), mask=lane_mask, lanes=VL), ACC)
                                    acc = accumulate(acc, value, S.vload(weights + ((w_line + kw) * padded_channels + c), lanes=VL))
            finish(acc, extras, out, (row * out_w + ow) * channels, c, lane_mask)
