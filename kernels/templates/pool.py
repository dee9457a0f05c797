"""Window pooling over channels-last activations, 1 to 3 spatial dimensions.

Parameters: X (element type), ACC, VL, KIND (max, average, lp), FLOATING (whether ACC is), POWER (for lp), INDICES (also
write the flat input index of each maximum, counted in the NCHW order that ONNX demands), and the epilogue's
(epilogue.py, NV = 1), WINDOW: (kernel_h, kernel_w) of a small 2-D window without dilation, or (0, 0). A unit is one row
of output pixels of one block of channels; blocks vary fastest, so that the lines a row reads stay in the nearest
caches. Which taps lie inside the image is found out per row and pixel, not per tap. `count_padding` 1: average divides
by the window's size including padding (clipped to the padded image, end padding given by pad_end_*).
"""

from aipu import script as S
from epilogue import finish
from sharing import own_share


def combine(acc, value):
    if KIND == "max":
        return S.maximum(value, acc)
    if KIND == "average":
        return acc + value
    if POWER == 1:
        return acc + S.abs(value)
    if POWER == 2:
        return acc + value * value
    return acc + S.pow(S.abs(value), S.cast(POWER, f"{ACC}x{VL}"))


def exceeds(value, acc):
    """Whether the maximum moves from acc to value: to the first NaN, and stays there."""
    if FLOATING:
        return (value > acc) | ((value != value) & (acc == acc))
    return value > acc


def pool_row(
    lane_mask,
    x_row,
    out,
    indices,
    extras,
    row,
    image,
    c,
    front,
    top,
    low_d,
    high_d,
    low_h,
    high_h,
    counted_dh,
    in_d,
    in_h,
    in_w,
    channels,
    out_w,
    kernel_w,
    stride_w,
    pad_w,
    pad_end_w,
    dilation_d,
    dilation_h,
    dilation_w,
    count_padding,
    column_major,
):
    for ow in range(out_w):
        left = ow * stride_w - pad_w
        low_w = S.max(-left, 0)
        high_w = S.max(in_w - left, 0)
        if WINDOW[0] == 0:
            low_w = S.ceildiv(low_w, dilation_w)
            high_w = S.ceildiv(high_w, dilation_w)
        high_w = S.min(kernel_w, high_w)
        acc = S.cast(INITIAL, f"{ACC}x{VL}")
        if INDICES:
            best = S.cast(0, f"int64x{VL}")
            taken = S.i32(0)
        if WINDOW[0] > 0 and low_h == 0 and high_h == WINDOW[0] and low_w == 0 and high_w == WINDOW[1]:
            for kh in S.unroll(WINDOW[0]):
                line_start = x_row + ((kh * in_w + left) * channels + c)
                for kw in S.unroll(WINDOW[1]):
                    acc = combine(acc, S.cast(S.vload(line_start + kw * channels, mask=lane_mask, lanes=VL), ACC))
        else:
            for kd in range(low_d, high_d):
                for kh in range(low_h, high_h):
                    at = x_row + (((kd * dilation_d * in_h + kh * dilation_h) * in_w + left) * channels + c)
                    for kw in range(low_w, high_w):
                        value = S.cast(S.vload(at + kw * dilation_w * channels, mask=lane_mask, lanes=VL), ACC)
                        if KIND == "max":
                            if INDICES:
                                depth = front + kd * dilation_d
                                line = top + kh * dilation_h
                                position = left + kw * dilation_w
                                better = exceeds(value, acc)
                                if taken == 0:
                                    better = ~exceeds(acc, value)
                                flat = S.i64((depth * in_h + line) * in_w + position)
                                if column_major != 0:
                                    flat = S.i64((position * in_h + line) * in_d + depth)
                                best = S.vsel(S.vbcast(flat, lanes=VL), best, better)
                                taken = S.i32(1)
                        acc = combine(acc, value)
        if KIND == "average":
            divisor = S.max(high_d - low_d, 0) * S.max(high_h - low_h, 0) * S.max(high_w - low_w, 0)
            if count_padding != 0:
                divisor = counted_dh * S.min(kernel_w, S.ceildiv(S.max(in_w + pad_end_w - left, 0), dilation_w))
            acc = acc / S.vbcast(S.cast(divisor, ACC), lanes=VL)
        if KIND == "lp":
            if POWER == 2:
                acc = S.sqrt(acc)
            elif POWER != 1:
                acc = S.pow(acc, S.cast(1.0 / POWER, f"{ACC}x{VL}"))
        pixel = (row * out_w + ow) * channels
        if INDICES:
            # best is the position within one channel of one image; ONNX wants the index in the whole NCHW tensor.
            plane = S.i64(in_d) * S.i64(in_h) * S.i64(in_w)
            channel = S.cast(S.vload(indices[1] + c, lanes=VL, mask=lane_mask), "int64") + S.vbcast(
                S.i64(image) * S.i64(channels), lanes=VL
            )
            S.vstore(channel * S.vbcast(plane, lanes=VL) + best, indices[0] + (pixel + c), mask=lane_mask)
        finish(acc, extras, out, pixel, c, lane_mask)


@S.prim_func
def pool(
    x: S.ptr(X, "global"),
    out: S.ptr(OUT, "global"),
    indices: index_types,
    extras: extra_types,
    batch: S.i32,
    in_d: S.i32,
    in_h: S.i32,
    in_w: S.i32,
    channels: S.i32,
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
    pad_end_d: S.i32,
    pad_end_h: S.i32,
    pad_end_w: S.i32,
    count_padding: S.i32,
    column_major: S.i32,
):
    blocks = S.ceildiv(channels, VL)
    out_rows = batch * out_d * out_h
    units = out_rows * blocks
    first, last = own_share(units)
    for unit in range(first, last):
        row = unit // blocks
        c = (unit % blocks) * VL
        oh = row % out_h
        od = (row // out_h) % out_d
        image = row // (out_h * out_d)
        front = od * stride_d - pad_d
        top = oh * stride_h - pad_h
        # Taps [low, high) of each axis are inside the image, [0, counted) inside the padded image.
        low_d = S.ceildiv(S.max(-front, 0), dilation_d)
        high_d = S.min(kernel_d, S.ceildiv(S.max(in_d - front, 0), dilation_d))
        low_h = S.ceildiv(S.max(-top, 0), dilation_h)
        high_h = S.min(kernel_h, S.ceildiv(S.max(in_h - top, 0), dilation_h))
        counted_dh = S.min(kernel_d, S.ceildiv(S.max(in_d + pad_end_d - front, 0), dilation_d)) * S.min(
            kernel_h, S.ceildiv(S.max(in_h + pad_end_h - top, 0), dilation_h)
        )
        x_row = x + ((image * in_d + front) * in_h + top) * in_w * channels
        if c + VL <= channels:
            pool_row(
                None,
                x_row,
                out,
                indices,
                extras,
                row,
                image,
                c,
                front,
                top,
                low_d,
                high_d,
                low_h,
                high_h,
                counted_dh,
                in_d,
                in_h,
                in_w,
                channels,
                out_w,
                kernel_w,
                stride_w,
                pad_w,
                pad_end_w,
                dilation_d,
                dilation_h,
                dilation_w,
                count_padding,
                column_major,
            )
        else:
            pool_row(
                S.tail_mask(S.min(channels - c, VL), VL),
                x_row,
                out,
                indices,
                extras,
                row,
                image,
                c,
                front,
                top,
                low_d,
                high_d,
                low_h,
                high_h,
                counted_dh,
                in_d,
                in_h,
                in_w,
                channels,
                out_w,
                kernel_w,
                stride_w,
                pad_w,
                pad_end_w,
                dilation_d,
                dilation_h,
                dilation_w,
                count_padding,
                column_major,
            )
