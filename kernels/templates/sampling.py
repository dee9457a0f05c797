"""Images sampled at positions that data gives: GridSample, RoiAlign, MaxRoiPool, the columns of DeformConv; and Col2Im.

Images are channels last ([batch, extents..., channels]); a unit of work is one output position with all its channels,
so that positions and weights are computed once per unit, and lanes are channels. Positions are computed in POS
(float32, or float64 for such operands), as ONNX Runtime does; values are summed in ACC. No position, whatever its
value, makes a kernel read outside of its image: indices are clamped before they are used.
"""

from aipu import script as S
from sharing import own_share
from spatial import Axis


def real(value):
    return S.cast(value, POS)


def limited(p, low, high):
    """p within [low, high]; NaN becomes low."""
    p = p if p > low else low
    return p if p < high else high


def clamped(index, extent):
    return S.max(S.min(index, extent - 1), 0)


def image_at(index, images):
    """The image of a region; -1, reported (fault OUTSIDE), if there is none of that number."""
    image = index
    if index < 0 or index >= S.i64(images):
        S.report_fault(OUTSIDE, index, images)
        image = S.i64(-1)
    return S.i32(image)


# Of GridSample as many positions are computed at once as a register holds.
def positions(value):
    return S.cast(value, f"{POS}x{PL}")


def all_limited(p, low, high):
    """limited() of a vector."""
    p = S.vsel(p, low, p > low)
    return S.vsel(p, high, p < high)


def all_clamped(index, extent):
    return S.max(S.min(index, S.vbcast(extent - 1, lanes=PL)), 0)


def reflected(p, low, high):
    """p mirrored at low and at high until it lies between them."""
    span = high - low
    span = S.vsel(span, positions(1), span > positions(0))
    beyond = S.abs(p - low)
    turns = S.floor(beyond / span)
    rest = beyond - turns * span
    return S.vsel(low + rest, high - rest, (S.cast(turns, f"int32x{PL}") & 1) == 0)


def cubic_weight(distance):
    """The Keys kernel with a = -0.75."""
    d = S.abs(distance)
    near = (positions(1.25) * d - positions(2.25)) * d * d + positions(1)
    far = ((positions(-0.75) * d + positions(3.75)) * d - positions(6)) * d + positions(3)
    return S.vsel(near, S.vsel(far, positions(0), d < positions(2)), d <= positions(1))


@S.macro
def grid_axis(p, extent, lines, parts, d):
    """Lines and weights of the taps along axis d, at the coordinates p."""
    size = S.vbcast(S.cast(extent, POS), lanes=PL)
    low = positions(0) if ALIGN else positions(-0.5)
    high = size - positions(1) if ALIGN else size - positions(0.5)
    p = p + positions(1)
    p = p / positions(2) * (size - positions(1)) if ALIGN else (p * size - positions(1)) / positions(2)
    if MODE == "nearest":
        p = S.rint(p)
    p = all_limited(p, positions(-1e7), positions(1e7))
    # Of a cubic curve the pixels behind the border count, each as that at the border.
    if PADDING == "border" and TAPS != 4:
        outside = (p < low) | (p > high)
        p = S.vsel(all_limited(p, positions(0), size - positions(1)), p, outside)
    if PADDING == "reflection":
        outside = (p < low) | (p > high)
        p = S.vsel(reflected(p, low, high), p, outside)
    p = all_limited(p, positions(-4), size + positions(4))
    base = S.floor(p)
    for t in S.unroll(TAPS):
        index = S.cast(base, f"int32x{PL}") + (t - (1 if TAPS == 4 else 0))
        weight = positions(1)
        if TAPS == 2:
            weight = p - base if t == 1 else positions(1) - (p - base)
        if TAPS == 4:
            weight = cubic_weight(p - S.cast(index, POS))
        if PADDING == "zeros":
            weight = S.vsel(weight, positions(0), (index >= 0) & (index < S.vbcast(extent, lanes=PL)))
        if PADDING == "reflection":
            index = S.cast(S.rint(reflected(S.cast(index, POS), low, high)), f"int32x{PL}")
        lines[d * TAPS + t] = all_clamped(index, extent)
        parts[d * TAPS + t] = weight


@S.prim_func
def grid_sample(
    x: S.ptr(X, "global"),
    grid: S.ptr(GRID, "global"),
    out: S.ptr(X, "global"),
    batch: S.i32,
    points: S.i32,
    channels: S.i32,
    image: S.i32,
    extents: dim_types,
):
    """D spatial axes, TAPS positions along each. grid is [batch, points, D]: coordinates from the last axis to the
    first, -1 to 1 across the image. VL channels at a time.
    """
    units = batch * points
    unit, last = own_share(units)
    offsets = S.alloc((TAPS**D * PL,), "int32", scope="lsram")
    weights = S.alloc((TAPS**D * PL,), POS, scope="lsram")
    lines = S.alloc_buffer((D * TAPS,), f"int32x{PL}")
    parts = S.alloc_buffer((D * TAPS,), f"{POS}x{PL}")
    while unit < last:
        number = unit // points
        count = S.min(S.min(last, (number + 1) * points) - unit, PL)
        for d in S.unroll(D):
            given = S.vload(grid + (unit * D + (D - 1 - d)), mask=S.tail_mask(count, PL), lanes=PL, stride=D)
            grid_axis(S.cast(given, POS), extents[d], lines, parts, d)
        for k in S.unroll(TAPS**D):
            offset = lines[k // TAPS ** (D - 1) % TAPS]
            weight = parts[k // TAPS ** (D - 1) % TAPS]
            for d in S.unroll(1, D):
                offset = offset * S.vbcast(extents[d], lanes=PL) + lines[d * TAPS + k // TAPS ** (D - 1 - d) % TAPS]
                weight = weight * parts[d * TAPS + k // TAPS ** (D - 1 - d) % TAPS]
            S.vstore(offset * S.vbcast(channels, lanes=PL), offsets + k * PL)
            S.vstore(weight, weights + k * PL)
        source = x + number * image * channels
        for i in range(count):
            for c in range(0, channels, VL):
                lane_mask = S.tail_mask(S.min(channels - c, VL), VL)
                value = S.cast(0, f"{ACC}x{VL}")
                for k in S.unroll(TAPS**D):
                    weight = weights[k * PL + i]
                    # What lies outside of the image does not count, not even as zero times infinity.
                    if weight != real(0):
                        pixel = S.vload(source + (offsets[k * PL + i] + c), lanes=VL, mask=lane_mask)
                        if MODE == "nearest":
                            value = S.cast(pixel, ACC)
                        else:
                            value = value + S.cast(pixel, ACC) * S.vbcast(S.cast(weight, ACC), lanes=VL)
                S.vstore(S.cast(value, X), out + ((unit + i) * channels + c), mask=lane_mask)
        unit = unit + count


def bilinear_taps(y, x, height, width, channels, offsets, weights):
    """The four pixels around (y, x) and their weights; 0 for those outside of the image."""
    y = limited(y, real(-2), S.cast(height, POS) + real(2))
    x = limited(x, real(-2), S.cast(width, POS) + real(2))
    top = S.floor(y)
    left = S.floor(x)
    for t in S.unroll(4):
        row = S.i32(top) + t // 2
        column = S.i32(left) + t % 2
        down = y - top if t // 2 == 1 else real(1) - (y - top)
        across = x - left if t % 2 == 1 else real(1) - (x - left)
        inside = row >= 0 and row < height and column >= 0 and column < width
        offsets[t] = (clamped(row, height) * width + clamped(column, width)) * channels
        weights[t] = down * across if inside else real(0)


@S.prim_func
def roi_align(
    x: S.ptr(X, "global"),
    rois: S.ptr(X, "global"),
    batch_indices: S.ptr(INDEX, "global"),
    out: S.ptr(X, "global"),
    images: S.i32,
    height: S.i32,
    width: S.i32,
    channels: S.i32,
    regions: S.i32,
    rows: S.i32,
    columns: S.i32,
    ratio: S.i32,
    scale: S.fp64,
):
    """MODE avg or max over the samples of each bin; HALF_PIXEL: pixels have their centres at one half."""
    units = regions * rows * columns
    first, last = own_share(units)
    offsets = S.alloc_buffer((4,), "i32")
    weights = S.alloc_buffer((4,), POS)
    corners = S.alloc_buffer((4,), POS)
    for unit in range(first, last):
        region = unit // (rows * columns)
        image = image_at(S.i64(batch_indices[region]), images)
        source = x + image * height * width * channels
        for k in S.unroll(4):
            corners[k] = S.cast(rois[region * 4 + k], POS) * S.cast(scale, POS) - (real(0.5) if HALF_PIXEL else real(0))
        roi_width = corners[2] - corners[0]
        roi_height = corners[3] - corners[1]
        if not HALF_PIXEL:
            roi_width = S.max(roi_width, real(1))
            roi_height = S.max(roi_height, real(1))
        bin_height = roi_height / S.cast(rows, POS)
        bin_width = roi_width / S.cast(columns, POS)
        samples_y = ratio
        samples_x = ratio
        if ratio <= 0:
            samples_y = S.i32(limited(S.ceil(bin_height), real(0), real(32767)))
            samples_x = S.i32(limited(S.ceil(bin_width), real(0), real(32767)))
        count = S.max(samples_y * samples_x, 1)
        top = corners[1] + S.cast(unit // columns % rows, POS) * bin_height
        left = corners[0] + S.cast(unit % columns, POS) * bin_width
        for c in range(0, channels if image >= 0 else 0, VL):
            lane_mask = S.tail_mask(S.min(channels - c, VL), VL)
            acc = S.cast("-inf" if MODE == "max" else 0, f"{ACC}x{VL}")
            if MODE == "max":
                if samples_y * samples_x == 0:
                    acc = S.cast(0, f"{ACC}x{VL}")
            for iy in range(samples_y):
                y = top + (S.cast(iy, POS) + real(0.5)) * bin_height / S.cast(samples_y, POS)
                for ix in range(samples_x):
                    at = left + (S.cast(ix, POS) + real(0.5)) * bin_width / S.cast(samples_x, POS)
                    inside = y >= real(-1) and y <= S.cast(height, POS) and at >= real(-1) and at <= S.cast(width, POS)
                    if inside:
                        row = limited(y, real(0), S.cast(height - 1, POS))
                        column = limited(at, real(0), S.cast(width - 1, POS))
                        bilinear_taps(row, column, height, width, channels, offsets, weights)
                        for t in S.unroll(4):
                            pixel = S.cast(S.vload(source + (offsets[t] + c), lanes=VL, mask=lane_mask), ACC)
                            pixel = pixel * S.vbcast(S.cast(weights[t], ACC), lanes=VL)
                            if MODE == "max":
                                # ONNX takes the largest weighted pixel, not the largest interpolated value.
                                acc = S.maximum(pixel, acc)
                            else:
                                acc = acc + pixel
                    elif MODE == "max":
                        acc = S.maximum(S.cast(0, f"{ACC}x{VL}"), acc)
            if MODE == "avg":
                acc = acc / S.vbcast(S.cast(count, ACC), lanes=VL)
            S.vstore(S.cast(acc, X), out + (unit * channels + c), mask=lane_mask)


@S.prim_func
def max_roi_pool(
    x: S.ptr(X, "global"),
    rois: S.ptr(X, "global"),
    out: S.ptr(X, "global"),
    images: S.i32,
    height: S.i32,
    width: S.i32,
    channels: S.i32,
    regions: S.i32,
    rows: S.i32,
    columns: S.i32,
    scale: S.fp64,
):
    """rois are [regions, 5]: image, left, top, right, bottom, rounded to whole pixels; an empty bin is 0."""
    units = regions * rows * columns
    first, last = own_share(units)
    corners = S.alloc_buffer((4,), "i32")
    for unit in range(first, last):
        region = unit // (rows * columns)
        given = S.cast(rois[region * 5], POS)
        image = -1
        if given == given:
            image = image_at(S.i64(limited(given, real(-1e18), real(1e18))), images)
        else:
            S.report_fault(NOT_A_NUMBER, 0, 0)
        source = x + image * height * width * channels
        for k in S.unroll(4):
            # Halves round away from zero, as C's round() does.
            p = limited(S.cast(rois[region * 5 + 1 + k], POS) * S.cast(scale, POS), real(-1e6), real(1e6))
            corners[k] = S.i32(S.floor(p + real(0.5)) if p >= real(0) else S.ceil(p - real(0.5)))
        bin_height = S.cast(S.max(corners[3] - corners[1] + 1, 1), POS) / S.cast(rows, POS)
        bin_width = S.cast(S.max(corners[2] - corners[0] + 1, 1), POS) / S.cast(columns, POS)
        row = S.cast(unit // columns % rows, POS)
        column = S.cast(unit % columns, POS)
        top = S.min(S.max(S.i32(S.floor(row * bin_height)) + corners[1], 0), height)
        bottom = S.min(S.max(S.i32(S.ceil((row + real(1)) * bin_height)) + corners[1], 0), height)
        left = S.min(S.max(S.i32(S.floor(column * bin_width)) + corners[0], 0), width)
        right = S.min(S.max(S.i32(S.ceil((column + real(1)) * bin_width)) + corners[0], 0), width)
        for c in range(0, channels if image >= 0 else 0, VL):
            lane_mask = S.tail_mask(S.min(channels - c, VL), VL)
            acc = S.cast("-inf", f"{ACC}x{VL}")
            if bottom <= top or right <= left:
                acc = S.cast(0, f"{ACC}x{VL}")
            for y in range(top, bottom):
                for at in range(left, right):
                    pixel = S.vload(source + ((y * width + at) * channels + c), lanes=VL, mask=lane_mask)
                    acc = S.maximum(S.cast(pixel, ACC), acc)
            S.vstore(S.cast(acc, X), out + (unit * channels + c), mask=lane_mask)


@S.prim_func
def deform_columns(
    x: S.ptr(X, "global"),
    offset: S.ptr(X, "global"),
    masks: mask_types,
    out: S.ptr(X, "global"),
    batch: S.i32,
    channels: S.i32,
    groups: S.i32,
    height: Axis,
    width: Axis,
):
    """out[n, oh, ow, channel, tap]. offset is [n, groups, tap, 2 (y, x), oh, ow], the mask the same without the 2."""
    plane = height.result * width.result
    taps = height.kernel * width.kernel
    group_channels = channels // groups
    units = batch * plane
    first, last = own_share(units)
    offsets = S.alloc_buffer((4,), "i32")
    weights = S.alloc_buffer((4,), POS)
    for unit in range(first, last):
        n = unit // plane
        oh = unit % plane // width.result
        ow = unit % width.result
        source = x + n * height.image * width.image * channels
        for g in range(groups):
            for tap in range(taps):
                at = (n * groups + g) * taps + tap
                y = S.cast(oh * height.stride - height.pad + tap // width.kernel * height.dilation, POS)
                y = y + S.cast(offset[at * 2 * plane + unit % plane], POS)
                column = S.cast(ow * width.stride - width.pad + tap % width.kernel * width.dilation, POS)
                column = column + S.cast(offset[(at * 2 + 1) * plane + unit % plane], POS)
                bilinear_taps(y, column, height.image, width.image, channels, offsets, weights)
                if HAS_MASK:
                    for t in S.unroll(4):
                        weights[t] = weights[t] * S.cast(masks[0][at * plane + unit % plane], POS)
                for c in range(0, group_channels, VL):
                    lane_mask = S.tail_mask(S.min(group_channels - c, VL), VL)
                    value = S.cast(0, f"{ACC}x{VL}")
                    channel = g * group_channels + c
                    for t in S.unroll(4):
                        if weights[t] != real(0):
                            pixel = S.cast(S.vload(source + (offsets[t] + channel), lanes=VL, mask=lane_mask), ACC)
                            value = value + pixel * S.vbcast(S.cast(weights[t], ACC), lanes=VL)
                    target = out + ((unit * channels + channel) * taps + tap)
                    S.vstore(S.cast(value, X), target, mask=lane_mask, stride=taps)


@S.prim_func
def col2im(x: S.ptr(X, "global"), out: S.ptr(X, "global"), images: S.i32, depth: Axis, height: Axis, width: Axis):
    """x is [images, taps, blocks], out [images, d, h, w]: each pixel is the sum over the blocks that cover it. Of an
    axis the blocks are the result: where windows begin in the image, which is what is made.
    """
    units = images * depth.image * height.image * width.image
    first, last = own_share(units)
    blocks = depth.result * height.result * width.result
    for unit in range(first, last):
        image = unit // (depth.image * height.image * width.image)
        total = S.cast(0, ACC)
        for kd in range(depth.kernel):
            at_d = unit // (height.image * width.image) % depth.image + depth.pad - kd * depth.dilation
            if at_d >= 0 and at_d % depth.stride == 0 and at_d // depth.stride < depth.result:
                for kh in range(height.kernel):
                    at_h = unit // width.image % height.image + height.pad - kh * height.dilation
                    if at_h >= 0 and at_h % height.stride == 0 and at_h // height.stride < height.result:
                        for kw in range(width.kernel):
                            at_w = unit % width.image + width.pad - kw * width.dilation
                            if at_w >= 0 and at_w % width.stride == 0 and at_w // width.stride < width.result:
                                tap = ((image * depth.kernel + kd) * height.kernel + kh) * width.kernel + kw
                                line = at_d // depth.stride * height.result + at_h // height.stride
                                total = total + S.cast(
                                    x[tap * blocks + line * width.result + at_w // width.stride], ACC
                                )
        out[unit] = S.cast(total, X)
