"""Local response normalisation across channels, channels last: y[c] = x[c] / (bias + alpha / size * sum over the window
of x^2) ** beta.

Parameters: X, ACC, VL, BETA (0.75 has a fast form). The window of channel c is [c - before, c + after], cut at the
ends. A unit is one pixel block of BLOCK pixels; all its channels are read from the nearest cache.
"""

from aipu import script as S
from sharing import own_share


def powered(value):
    if BETA == 0.75:
        root = S.sqrt(value)
        return root * S.sqrt(root)
    if BETA == 0.5:
        return S.sqrt(value)
    if BETA == 1.0:
        return value
    return S.pow(value, S.cast(BETA, f"{ACC}x{VL}"))


@S.prim_func
def lrn(
    x: S.ptr(X, "global"),
    out: S.ptr(X, "global"),
    pixels: S.i32,
    channels: S.i32,
    before: S.i32,
    after: S.i32,
    scale: scale_type,
    bias: scale_type,
):
    first, last = own_share(pixels)
    for pixel in range(first, last):
        p = x + pixel * channels
        q = out + pixel * channels
        for c in range(0, channels, VL):
            sums = S.cast(0, f"{ACC}x{VL}")
            if c >= before and c + VL + after <= channels:
                for j in range(0, before + after + 1):
                    value = S.cast(S.vload(p + (c - before + j), lanes=VL), ACC)
                    sums = sums + value * value
            else:
                for j in range(0, before + after + 1):
                    start = c - before + j
                    # Lanes whose channel start + lane lies inside [0, channels).
                    below = S.tail_mask(S.max(S.min(0 - start, VL), 0), VL)
                    inside = S.tail_mask(S.max(S.min(channels - start, VL), 0), VL) & ~below
                    value = S.cast(S.vload(p + start, lanes=VL, mask=inside), ACC)
                    sums = sums + value * value
            lane_mask = S.tail_mask(S.min(channels - c, VL), VL)
            value = S.cast(S.vload(p + c, lanes=VL, mask=lane_mask), ACC)
            S.vstore(
                S.cast(value / powered(S.vbcast(bias, lanes=VL) + sums * S.vbcast(scale, lanes=VL)), X),
                q + c,
                mask=lane_mask,
            )
