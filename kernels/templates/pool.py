"""Window pooling over channels-last activations, 1 to 3 spatial dimensions.

Parameters: X (element type), ACC, VL, KIND (max, average, lp), POWER (for lp), INDICES (also write the flat input index of each maximum, counted in the NCHW order that
ONNX demands), and the epilogue's (epilogue.py, NV = 1). A unit is one row of output pixels of one block of channels.
`count_padding` 1: average divides by the window's size including padding (clipped to the padded image, end padding given by pad_end_*).
"""
from aipu import script as S
from epilogue import finish


@S.prim_func
def pool(x: S.ptr(X, "global"), out: S.ptr(OUT, "global"), indices: index_types, extras: extra_types,
         batch: S.i32, in_d: S.i32, in_h: S.i32, in_w: S.i32, channels: S.i32,
         out_d: S.i32, out_h: S.i32, out_w: S.i32,
         kernel_d: S.i32, kernel_h: S.i32, kernel_w: S.i32,
         stride_d: S.i32, stride_h: S.i32, stride_w: S.i32,
         pad_d: S.i32, pad_h: S.i32, pad_w: S.i32,
         dilation_d: S.i32, dilation_h: S.i32, dilation_w: S.i32,
         pad_end_d: S.i32, pad_end_h: S.i32, pad_end_w: S.i32, count_padding: S.i32, column_major: S.i32):
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
            acc = S.cast(INITIAL, f"{ACC}x{VL}")
            if INDICES:
                best = S.cast(0, f"int64x{VL}")
            taken = 0
            counted = 0
            for kd in range(kernel_d):
                depth = od * stride_d - pad_d + kd * dilation_d
                for kh in range(kernel_h):
                    line = oh * stride_h - pad_h + kh * dilation_h
                    for kw in range(kernel_w):
                        position = ow * stride_w - pad_w + kw * dilation_w
                        if depth < in_d + pad_end_d and line < in_h + pad_end_h and position < in_w + pad_end_w:
                            counted = counted + 1
                        if depth >= 0 and depth < in_d and line >= 0 and line < in_h and position >= 0 and position < in_w:
                            value = S.cast(S.vload(x + ((((image * in_d + depth) * in_h + line) * in_w + position) * channels + c), mask=lane_mask, lanes=VL), ACC)
                            if KIND == "max":
                                if INDICES:
                                    better = value > acc
                                    if taken == 0:
                                        better = value >= acc
                                    flat = S.i64((depth * in_h + line) * in_w + position)
                                    if column_major != 0:
                                        flat = S.i64((position * in_h + line) * in_d + depth)
                                    best = S.vsel(S.vbcast(flat, lanes=VL), best, better)
                                acc = S.max(acc, value)
                            elif KIND == "average":
                                acc = acc + value
                            elif POWER == 1:
                                acc = acc + S.abs(value)
                            elif POWER == 2:
                                acc = acc + value * value
                            else:
                                acc = acc + S.pow(S.abs(value), S.cast(POWER, f"{ACC}x{VL}"))
                            taken = taken + 1
            if KIND == "average":
                divisor = taken
                if count_padding != 0:
                    divisor = counted
                acc = acc / S.vbcast(S.cast(divisor, ACC), lanes=VL)
            if KIND == "lp":
                if POWER == 2:
                    acc = S.sqrt(acc)
                elif POWER != 1:
                    acc = S.pow(acc, S.cast(1.0 / POWER, f"{ACC}x{VL}"))
            at = (row * out_w + ow) * channels
            if INDICES:
                # best is the position within one channel of one image; ONNX wants the index in the whole NCHW tensor.
                plane = S.i64(in_d) * S.i64(in_h) * S.i64(in_w)
                channel = S.cast(S.vload(indices[1] + c, lanes=VL, mask=lane_mask), "int64") + S.vbcast(S.i64(image) * S.i64(channels), lanes=VL)
                S.vstore(channel * S.vbcast(plane, lanes=VL) + best, indices[0] + (at + c), mask=lane_mask)
            finish(acc, extras, out, at, c, lane_mask)
