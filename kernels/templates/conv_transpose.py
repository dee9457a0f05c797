"""Transposed convolution over channels-last activations, 1 to 3 spatial dimensions, gathered per output pixel: out[o] = sum over taps k with (o + pad - k * dilation) divisible by
stride of x[(o + pad - k * dilation) / stride] * weights[k].

Parameters as in conv.py (X, ACC, VL, NV, USE_FMA and the epilogue's). Weights are packed [group][panel][kd][kh][kw][ic][NR]. A unit is one row of output pixels of one panel.
"""
from aipu import script as S
from epilogue import finish_tile


@S.prim_func
def conv_transpose(x: S.ptr(X, "global"), weights: S.ptr(ACC, "global"), out: S.ptr(OUT, "global"), extras: extra_types,
                   batch: S.i32, in_d: S.i32, in_h: S.i32, in_w: S.i32, channels: S.i32,
                   out_d: S.i32, out_h: S.i32, out_w: S.i32,
                   groups: S.i32, group_in: S.i32, group_out: S.i32,
                   kernel_d: S.i32, kernel_h: S.i32, kernel_w: S.i32,
                   stride_d: S.i32, stride_h: S.i32, stride_w: S.i32,
                   pad_d: S.i32, pad_h: S.i32, pad_w: S.i32,
                   dilation_d: S.i32, dilation_h: S.i32, dilation_w: S.i32):
    panels = S.ceildiv(group_out, NV * VL)
    out_rows = batch * out_d * out_h
    units = out_rows * groups * panels
    share = S.ceildiv(units, S.get_local_size())
    first = S.get_local_id() * share
    last = S.min(first + share, units)
    ldc = groups * group_out
    acc = S.alloc_buffer((NV,), f"{ACC}x{VL}")
    for unit in range(first, last):
        row = unit % out_rows
        group = (unit // out_rows) // panels
        panel = (unit // out_rows) % panels
        oh = row % out_h
        od = (row // out_h) % out_d
        image = row // (out_h * out_d)
        n = group * group_out + panel * (NV * VL)
        w_panel = (group * panels + panel) * (kernel_d * kernel_h * kernel_w * group_in * (NV * VL))
        for ow in range(out_w):
            for v in S.unroll(NV):
                acc[v] = S.cast(0, f"{ACC}x{VL}")
            for kd in range(kernel_d):
                reach_d = od + pad_d - kd * dilation_d
                if reach_d >= 0 and reach_d % stride_d == 0 and reach_d // stride_d < in_d:
                    for kh in range(kernel_h):
                        reach_h = oh + pad_h - kh * dilation_h
                        if reach_h >= 0 and reach_h % stride_h == 0 and reach_h // stride_h < in_h:
                            for kw in range(kernel_w):
                                reach_w = ow + pad_w - kw * dilation_w
                                if reach_w >= 0 and reach_w % stride_w == 0 and reach_w // stride_w < in_w:
                                    x_at = (((image * in_d + reach_d // stride_d) * in_h + reach_h // stride_h) * in_w + reach_w // stride_w) * channels + group * group_in
                                    w_at = w_panel + ((kd * kernel_h + kh) * kernel_w + kw) * (group_in * (NV * VL))
                                    for t in range(group_in):
                                        left = S.cast(x[x_at + t], ACC)
                                        for v in S.unroll(NV):
                                            wv = S.vload(weights + (w_at + t * (NV * VL) + v * VL), lanes=VL)
                                            if USE_FMA:
                                                acc[v] = S.fma(acc[v], S.vbcast(left, lanes=VL), wv)
                                            else:
                                                acc[v] = acc[v] + S.vbcast(left, lanes=VL) * wv
            finish_tile(1, acc, extras, out, (row * out_w + ow) * ldc, ldc, n, group_out - panel * (NV * VL))
