"""Window pooling over channels-last activations, 1 to 3 spatial dimensions.

Parameters: X (element type), ACC, VL, KIND (max, average, lp), FLOATING (whether ACC is), POWER (for lp), INDICES (also
write the flat input index of each maximum, counted in the NCHW order that ONNX demands), and the epilogue's
(epilogue.py, NV = 1), WINDOW: (kernel_h, kernel_w) of a small 2-D window without dilation, or (0, 0). A unit is one row
of output pixels of one block of channels; blocks vary fastest, so that the lines a row reads stay in the nearest
caches. Which taps lie inside the image is found out per row and pixel, not per tap. `count_padding` 1: average divides
by the window's size including padding (clipped to the padded image, end padding given by pad_end).
"""

from aipu import script as S
from epilogue import finish
from sharing import own_share
from spatial import Axis, Geometry, Taps, row_at, taps_of_axis


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


@S.record
class Ends:
    """The padding behind the image."""

    depth: S.i32
    height: S.i32
    width: S.i32


@S.record
class Met:
    """What a row of results meets of the image: the taps that are inside, and how many lines of the padded image."""

    planes: Taps
    lines: Taps
    counted: S.i32


def pool_row(lane_mask, line, met, out, indices, extras, number, image, c, geometry, ends, count_padding, column_major):
    """Row `number` of the results, of the channels from c on; tap 0 is on `line`."""
    depth, height, width = geometry.depth, geometry.height, geometry.width
    channels = geometry.channels
    last_plane = met.planes.first + met.planes.count
    last_line = met.lines.first + met.lines.count
    for ow in range(width.result):
        left = ow * width.stride - width.pad
        low = S.max(-left, 0)
        high = S.max(width.image - left, 0)
        if WINDOW[0] == 0:
            low = S.ceildiv(low, width.dilation)
            high = S.ceildiv(high, width.dilation)
        high = S.min(width.kernel, high)
        acc = S.cast(INITIAL, f"{ACC}x{VL}")
        if INDICES:
            best = S.cast(0, f"int64x{VL}")
            taken = S.i32(0)
        if WINDOW[0] > 0 and met.lines.first == 0 and last_line == WINDOW[0] and low == 0 and high == WINDOW[1]:
            for kh in S.unroll(WINDOW[0]):
                line_start = line + ((kh * width.image + left) * channels + c)
                for kw in S.unroll(WINDOW[1]):
                    acc = combine(acc, S.cast(S.vload(line_start + kw * channels, mask=lane_mask, lanes=VL), ACC))
        else:
            for kd in range(met.planes.first, last_plane):
                for kh in range(met.lines.first, last_line):
                    number_of_line = kd * depth.dilation * height.image + kh * height.dilation
                    at = line + ((number_of_line * width.image + left) * channels + c)
                    for kw in range(low, high):
                        value = S.cast(S.vload(at + kw * width.dilation * channels, mask=lane_mask, lanes=VL), ACC)
                        if KIND == "max":
                            if INDICES:
                                z = met.planes.start + kd * depth.dilation
                                y = met.lines.start + kh * height.dilation
                                position = left + kw * width.dilation
                                better = exceeds(value, acc)
                                if taken == 0:
                                    better = ~exceeds(acc, value)
                                flat = S.i64((z * height.image + y) * width.image + position)
                                if column_major != 0:
                                    flat = S.i64((position * height.image + y) * depth.image + z)
                                best = S.vsel(S.vbcast(flat, lanes=VL), best, better)
                                taken = S.i32(1)
                        acc = combine(acc, value)
        if KIND == "average":
            divisor = met.planes.count * met.lines.count * S.max(high - low, 0)
            if count_padding != 0:
                padded = S.max(width.image + ends.width - left, 0)
                divisor = met.counted * S.min(width.kernel, S.ceildiv(padded, width.dilation))
            acc = acc / S.vbcast(S.cast(divisor, ACC), lanes=VL)
        if KIND == "lp":
            if POWER == 2:
                acc = S.sqrt(acc)
            elif POWER != 1:
                acc = S.pow(acc, S.cast(1.0 / POWER, f"{ACC}x{VL}"))
        pixel = (number * width.result + ow) * channels
        if INDICES:
            # best is the position within one channel of one image; ONNX wants the index in the whole NCHW tensor.
            plane = S.i64(depth.image) * S.i64(height.image) * S.i64(width.image)
            channel = S.cast(S.vload(indices[1] + c, lanes=VL, mask=lane_mask), "int64") + S.vbcast(
                S.i64(image) * S.i64(channels), lanes=VL
            )
            S.vstore(channel * S.vbcast(plane, lanes=VL) + best, indices[0] + (pixel + c), mask=lane_mask)
        finish(acc, extras, out, pixel, c, lane_mask)


def counted(start, axis: Axis, pad_end):
    """The taps from a start on that are inside the padded image."""
    return S.min(axis.kernel, S.ceildiv(S.max(axis.image + pad_end - start, 0), axis.dilation))


def met_by(planes, lines, geometry, ends):
    depth, height = geometry.depth, geometry.height
    return Met(planes, lines, counted(planes.start, depth, ends.depth) * counted(lines.start, height, ends.height))


@S.prim_func
def pool(
    x: S.ptr(X, "global"),
    out: S.ptr(OUT, "global"),
    indices: index_types,
    extras: extra_types,
    geometry: Geometry,
    pad_end: Ends,
    count_padding: S.i32,
    column_major: S.i32,
):
    depth, height, width = geometry.depth, geometry.height, geometry.width
    channels = geometry.channels
    blocks = S.ceildiv(channels, VL)
    first, last = own_share(geometry.batch * depth.result * height.result * blocks)
    for unit in range(first, last):
        number = unit // blocks
        c = (unit % blocks) * VL
        row = row_at(number, geometry)
        planes = taps_of_axis(row.depth, depth)
        lines = taps_of_axis(row.height, height)
        line = x + ((row.image * depth.image + planes.start) * height.image + lines.start) * width.image * channels
        met = met_by(planes, lines, geometry, pad_end)
        rest = (out, indices, extras, number, row.image, c, geometry, pad_end, count_padding, column_major)
        if c + VL <= channels:
            pool_row(None, line, met, *rest)
        else:
            pool_row(S.tail_mask(S.min(channels - c, VL), VL), line, met, *rest)
