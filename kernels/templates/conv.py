"""Direct convolution over channels-last activations, 1 to 3 spatial dimensions (fewer are the inner ones; the others have extent 1).

out[n, od, oh, ow, g * OCg + oc] = epilogue(sum over kd, kh, kw, ic of x[n, od*sd - pd + kd*dd, ..., g * ICg + ic] * weights[...])

Parameters bound by kernels/plugins/conv.cpp: X, ACC, VL, NV, HEIGHTS, USE_FMA, PREFETCH as in gemm.py (X as A), the epilogue's as in epilogue.py.
Weights are packed [group][panel][kd][kh][kw][ic][NR], zero padded to whole panels. A row of output pixels is one GEMM: rows = pixels, row stride = sw * C. In channels-last
layout the taps of one kernel row and their channels are contiguous, so with dilation 1 and one group they merge into one loop (merged = KW * IC, taps = 1).
Pixels whose taps fall outside the image in the w direction are computed one by one over their valid taps: no padded copies, no zero taps.
"""
from aipu import script as S
from epilogue import finish_tile


def multiply(height, acc, x, x_base, pixel_stride, w, w_base, count):
    """acc[i] += x[x_base + i * pixel_stride + t] * w[w_base + t * NR ...] for t < count."""
    wv = S.alloc_buffer((NV,), f"{ACC}x{VL}")
    for t in range(count):
        for v in S.unroll(NV):
            wv[v] = S.vload(w + (w_base + t * (NV * VL) + v * VL), lanes=VL)
        if PREFETCH > 0:
            for v in S.unroll(NV):
                S.prefetch(w + (w_base + (t + PREFETCH) * (NV * VL) + v * VL))
        for i in S.unroll(height):
            left = S.cast(x[x_base + i * pixel_stride + t], ACC)
            for v in S.unroll(NV):
                if USE_FMA:
                    acc[i * NV + v] = S.fma(acc[i * NV + v], S.vbcast(left, lanes=VL), wv[v])
                else:
                    acc[i * NV + v] = acc[i * NV + v] + S.vbcast(left, lanes=VL) * wv[v]


@S.prim_func
def conv(x: S.ptr(X, "global"), weights: S.ptr(ACC, "global"), out: S.ptr(OUT, "global"), extras: extra_types,
         batch: S.i32, in_d: S.i32, in_h: S.i32, in_w: S.i32, channels: S.i32,
         out_d: S.i32, out_h: S.i32, out_w: S.i32,
         groups: S.i32, group_in: S.i32, group_out: S.i32,
         kernel_d: S.i32, kernel_h: S.i32, kernel_w: S.i32,
         stride_d: S.i32, stride_h: S.i32, stride_w: S.i32,
         pad_d: S.i32, pad_h: S.i32, pad_w: S.i32,
         dilation_d: S.i32, dilation_h: S.i32, dilation_w: S.i32,
         taps: S.i32, merged: S.i32):
    panels = S.ceildiv(group_out, NV * VL)
    out_rows = batch * out_d * out_h
    units = out_rows * groups * panels
    share = S.ceildiv(units, S.get_local_size())
    first = S.get_local_id() * share
    last = S.min(first + share, units)
    # Output columns [low, high) touch no padding in the w direction.
    reach = (kernel_w - 1) * dilation_w
    low = S.min(S.ceildiv(pad_w, stride_w), out_w)
    high = low
    if in_w + pad_w - reach - 1 >= 0:
        high = S.max(S.min((in_w + pad_w - reach - 1) // stride_w + 1, out_w), low)
    ldc = groups * group_out
    for unit in range(first, last):
        # Panels vary slowest, so that one panel's weights stay in the nearest cache for all rows of a TEC.
        row = unit % out_rows
        group = (unit // out_rows) // panels
        panel = (unit // out_rows) % panels
        oh = row % out_h
        od = (row // out_h) % out_d
        image = row // (out_h * out_d)
        # Output channels n ... of all groups; `columns` of them belong to this group.
        n = group * group_out + panel * (NV * VL)
        columns = group_out - panel * (NV * VL)
        top = oh * stride_h - pad_h
        front = od * stride_d - pad_d
        w_panel = (group * panels + panel) * (kernel_d * kernel_h * kernel_w * group_in * (NV * VL))
        out_base = row * out_w * ldc
        # Edge pixels, left then right.
        for edge in range(low + out_w - high):
            ow = edge
            if edge >= low:
                ow = edge + high - low
            acc = S.alloc_buffer((NV,), f"{ACC}x{VL}")
            for i in S.unroll(NV):
                acc[i] = S.cast(0, f"{ACC}x{VL}")
            for kd in range(kernel_d):
                depth = front + kd * dilation_d
                if depth >= 0 and depth < in_d:
                    for kh in range(kernel_h):
                        line = top + kh * dilation_h
                        if line >= 0 and line < in_h:
                            for kw in range(kernel_w):
                                position = ow * stride_w - pad_w + kw * dilation_w
                                if position >= 0 and position < in_w:
                                    multiply(1, acc, x, (((image * in_d + depth) * in_h + line) * in_w + position) * channels + group * group_in, 0,
                                             weights, w_panel + ((kd * kernel_h + kh) * kernel_w + kw) * (group_in * (NV * VL)), group_in)
            finish_tile(1, acc, extras, out, out_base + ow * ldc, ldc, n, columns)
        # Interior pixels in tiles.
        column = low
        for h in S.unroll(len(HEIGHTS)):
            while column + HEIGHTS[h] <= high:
                acc = S.alloc_buffer((HEIGHTS[h] * NV,), f"{ACC}x{VL}")
                for i in S.unroll(HEIGHTS[h] * NV):
                    acc[i] = S.cast(0, f"{ACC}x{VL}")
                for kd in range(kernel_d):
                    depth = front + kd * dilation_d
                    if depth >= 0 and depth < in_d:
                        for kh in range(kernel_h):
                            line = top + kh * dilation_h
                            if line >= 0 and line < in_h:
                                x_line = (((image * in_d + depth) * in_h + line) * in_w + column * stride_w - pad_w) * channels + group * group_in
                                w_line = w_panel + (kd * kernel_h + kh) * (kernel_w * group_in * (NV * VL))
                                for tap in range(taps):
                                    multiply(HEIGHTS[h], acc, x, x_line + tap * dilation_w * channels, stride_w * channels,
                                             weights, w_line + tap * (group_in * (NV * VL)), merged)
                finish_tile(HEIGHTS[h], acc, extras, out, out_base + column * ldc, ldc, n, columns)
                column = column + HEIGHTS[h]
