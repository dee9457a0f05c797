"""Resize along one axis of x seen as [outer, in_extent, inner]: nearest, linear and cubic interpolation are separable,
so a resize is one launch per axis that changes.

Parameters: X, ACC, OUT, VL, MODE, NEAREST_MODE, COORDINATES (ONNX's coordinate_transformation_mode), EXCLUDE_OUTSIDE,
ANTIALIAS (linear and cubic), HAS_SCALE (else the ratio of the extents), RUN_SCALE and RUN_ROI (`run_scales[0]` has one
for each axis, `run_roi[0]` the start and the end for each; instead of the arguments). The box of tf_crop_and_resize is
from `given_start` to `given_end`, `extrapolation` is outside of the image; `cubic_a` is for cubic. Positions are
computed in float64, as ONNX's reference does. For machines that lack it, resize_table() does so once, when converting,
and resize_by_table() takes what it has found.
"""

from aipu import script as S
from sharing import own_share


def position(o, in_extent, out_extent, scale, roi_start, roi_end):
    at = S.fp64(o)
    size = S.fp64(in_extent)
    half = S.fp64(0.5)
    if COORDINATES == "half_pixel":
        return (at + half) / scale - half
    if COORDINATES == "half_pixel_symmetric":
        # ONNX's formula with its terms collected: exact where the scale is a power of two, so that no rounding moves a
        # position across a pixel.
        return (size - S.fp64(1)) * half + (at + half - S.fp64(out_extent) * half) / scale
    if COORDINATES == "pytorch_half_pixel":
        return (at + half) / scale - half if out_extent > 1 else S.fp64(0)
    if COORDINATES == "align_corners":
        # As in ONNX's reference, the resized length is not rounded down where a scale is stated; what is only its
        # float32 rounding does not count.
        length = S.fp64(out_extent)
        if HAS_SCALE:
            length = scale * size if scale * size - length > S.fp64(0.001) else length
        return at * (size - S.fp64(1)) / (length - S.fp64(1)) if out_extent > 1 else S.fp64(0)
    if COORDINATES == "tf_half_pixel_for_nn":
        return (at + half) / scale
    if COORDINATES == "tf_crop_and_resize":
        last = size - S.fp64(1)
        return (
            roi_start * last + at * (roi_end - roi_start) * last / S.fp64(S.max(out_extent - 1, 1))
            if out_extent > 1
            else half * (roi_start + roi_end) * last
        )
    return at / scale


def nearest_index(p):
    if NEAREST_MODE == "round_prefer_floor":
        return S.i32(S.ceil(p - S.fp64(0.5)))
    if NEAREST_MODE == "round_prefer_ceil":
        return S.i32(S.floor(p + S.fp64(0.5)))
    if NEAREST_MODE == "ceil":
        return S.i32(S.ceil(p))
    return S.i32(S.floor(p))


def cubic_weight(distance, a):
    """The Keys kernel with parameter a."""
    d = S.abs(distance)
    near = ((a + S.fp64(2)) * d - (a + S.fp64(3))) * d * d + S.fp64(1)
    far = ((a * d - S.fp64(5) * a) * d + S.fp64(8) * a) * d - S.fp64(4) * a
    return near if d <= S.fp64(1) else (far if d < S.fp64(2) else S.fp64(0))


def clamped(index, extent):
    return S.max(S.min(index, extent - 1), 0)


def filter_weight(distance, index, in_extent, cubic_a):
    """Of the pixel at `index` in a filter stretched over everything that falls into one output pixel; `distance` in its
    units.
    """
    weight = cubic_weight(distance, cubic_a) if MODE == "cubic" else S.max(S.fp64(1) - S.abs(distance), S.fp64(0))
    if EXCLUDE_OUTSIDE:
        weight = weight if index >= 0 and index < in_extent else S.fp64(0)
    return weight


def scale_of(given_scale, in_extent, out_extent):
    return given_scale if HAS_SCALE else S.fp64(out_extent) / S.fp64(in_extent)


def fill_taps(taps, weights, p, in_extent, cubic_a):
    """The pixels that the one at position p is made of, and how much of each. Not of a filter that is stretched."""
    if MODE == "nearest":
        taps[0] = clamped(nearest_index(p), in_extent)
        weights[0] = S.fp64(1)
    elif MODE == "linear":
        base = S.floor(p)
        taps[0] = clamped(S.i32(base), in_extent)
        taps[1] = clamped(S.i32(base) + 1, in_extent)
        weights[1] = p - base
        weights[0] = S.fp64(1) - (p - base)
    else:
        base = S.floor(p)
        total = S.fp64(0)
        for t in S.unroll(TAPS):
            index = S.i32(base) + (t - 1)
            weight = cubic_weight(p - S.fp64(index), cubic_a)
            if EXCLUDE_OUTSIDE:
                if index < 0 or index >= in_extent:
                    weight = S.fp64(0)
            taps[t] = clamped(index, in_extent)
            weights[t] = weight
            total = total + weight
        for t in S.unroll(TAPS):
            weights[t] = weights[t] / total


def resampled(source, taps, weights, inner, j, lane_mask):
    """A vector of the pixel that is made of these."""
    if MODE == "nearest":
        return S.cast(S.vload(source + (taps[0] * inner + j), lanes=VL, mask=lane_mask), ACC)
    value = S.cast(0, f"{ACC}x{VL}")
    for t in S.unroll(TAPS):
        value = value + S.cast(S.vload(source + (taps[t] * inner + j), lanes=VL, mask=lane_mask), ACC) * S.vbcast(
            S.cast(weights[t], ACC), lanes=VL
        )
    return value


@S.prim_func
def resize_table(
    taps: S.ptr("i32", "global"),
    weights: S.ptr("fp32", "global"),
    in_extent: S.i32,
    out_extent: S.i32,
    given_scale: S.fp64,
    given_start: S.fp64,
    given_end: S.fp64,
    cubic_a: S.fp64,
):
    """Of each of out_extent pixels the TAPS that it is made of."""
    scale = scale_of(given_scale, in_extent, out_extent)
    own_weights = S.alloc_buffer((TAPS,), "fp64")
    own_taps = S.alloc_buffer((TAPS,), "i32")
    for o in range(out_extent):
        p = position(o, in_extent, out_extent, scale, given_start, given_end)
        fill_taps(own_taps, own_weights, p, in_extent, cubic_a)
        for t in S.unroll(TAPS):
            taps[o * TAPS + t] = own_taps[t]
            weights[o * TAPS + t] = S.cast(own_weights[t], "fp32")


@S.prim_func
def resize_by_table(
    x: S.ptr(X, "global"),
    taps: S.ptr("i32", "global"),
    weights: S.ptr("fp32", "global"),
    out: S.ptr(OUT, "global"),
    outer: S.i32,
    in_extent: S.i32,
    out_extent: S.i32,
    inner: S.i32,
):
    first, last = own_share(outer * out_extent)
    own_weights = S.alloc_buffer((TAPS,), "fp32")
    own_taps = S.alloc_buffer((TAPS,), "i32")
    for unit in range(first, last):
        o = unit % out_extent
        for t in S.unroll(TAPS):
            own_taps[t] = taps[o * TAPS + t]
            own_weights[t] = weights[o * TAPS + t]
        source = x + (unit // out_extent) * in_extent * inner
        for j in range(0, inner, VL):
            lane_mask = S.tail_mask(S.min(inner - j, VL), VL)
            value = resampled(source, own_taps, own_weights, inner, j, lane_mask)
            S.vstore(S.cast(value, OUT), out + (unit * inner + j), mask=lane_mask)


@S.prim_func
def resize_axis(
    x: S.ptr(X, "global"),
    run_scales: scale_types,
    run_roi: roi_types,
    out: S.ptr(OUT, "global"),
    axis: S.i32,
    outer: S.i32,
    in_extent: S.i32,
    out_extent: S.i32,
    inner: S.i32,
    given_scale: S.fp64,
    given_start: S.fp64,
    given_end: S.fp64,
    extrapolation: S.fp64,
    cubic_a: S.fp64,
):
    units = outer * out_extent
    first, last = own_share(units)
    scale = given_scale
    if RUN_SCALE:
        scale = S.cast(run_scales[0][axis], "fp64")
    roi_start = given_start
    roi_end = given_end
    if RUN_ROI:
        roi_start = S.cast(run_roi[0][2 * axis], "fp64")
        roi_end = S.cast(run_roi[0][2 * axis + 1], "fp64")
    scale = scale_of(scale, in_extent, out_extent)
    weights = S.alloc_buffer((TAPS,), "fp64")
    taps = S.alloc_buffer((TAPS,), "i32")
    for unit in range(first, last):
        p = position(unit % out_extent, in_extent, out_extent, scale, roi_start, roi_end)
        source = x + (unit // out_extent) * in_extent * inner
        target = out + unit * inner
        outside = False
        if COORDINATES == "tf_crop_and_resize":
            outside = p < S.fp64(0) or p > S.fp64(in_extent - 1)
        if ANTIALIAS:
            # The filter of an axis that shrinks is as much wider.
            shrink = scale if scale < S.fp64(1) else S.fp64(1)
            low = S.i32(S.ceil(p - S.fp64(TAPS // 2) / shrink))
            high = S.i32(S.floor(p + S.fp64(TAPS // 2) / shrink))
            sum_of_weights = S.fp64(0)
            for index in range(low, high + 1):
                sum_of_weights = sum_of_weights + filter_weight((S.fp64(index) - p) * shrink, index, in_extent, cubic_a)
        else:
            fill_taps(taps, weights, p, in_extent, cubic_a)
        whole = S.i32(0)
        if MODE == "nearest" and COORDINATES != "tf_crop_and_resize":
            # Pixels are moved as they are: most of them are whole vectors.
            whole = inner // VL * VL
            for j in range(0, whole, VL):
                S.vstore(S.vload(source + (taps[0] * inner + j), lanes=VL), target + j)
        for j in range(whole, inner, VL):
            lane_mask = S.tail_mask(S.min(inner - j, VL), VL)
            if ANTIALIAS:
                value = S.cast(0, f"{ACC}x{VL}")
                for index in range(low, high + 1):
                    weight = filter_weight((S.fp64(index) - p) * shrink, index, in_extent, cubic_a) / sum_of_weights
                    pixel = S.vload(source + (clamped(index, in_extent) * inner + j), lanes=VL, mask=lane_mask)
                    value = value + S.cast(pixel, ACC) * S.vbcast(S.cast(weight, ACC), lanes=VL)
            else:
                value = resampled(source, taps, weights, inner, j, lane_mask)
            if COORDINATES == "tf_crop_and_resize":
                if outside:
                    value = S.vbcast(S.cast(extrapolation, ACC), lanes=VL)
            S.vstore(S.cast(value, OUT), target + j, mask=lane_mask)
