"""Softmax and log-softmax over one axis of x seen as [outer, extent, inner].

Parameters: X, ACC (float32 or float64), VL, LOG, INNER_IS_ONE. With inner 1 a row is contiguous and walked with vectors; otherwise VL neighbouring columns are computed at once.
Three passes: maximum, sum of exp(x - maximum) (the exponentials are kept in `out` unless LOG), scaling. Sums are formed in ACC.
"""
from aipu import script as S


def vector(value):
    return S.cast(value, f"{ACC}x{VL}")


def across_lanes(take_max, acc):
    lane = S.alloc_buffer((VL,), ACC)
    S.vstore(acc, lane.addr_of(0))
    total = lane[0]
    for i in range(1, VL):
        total = S.max(total, lane[i]) if take_max else total + lane[i]
    return total


def row_step(p, q, j, lane_mask, peak, scale):
    value = S.cast(S.vload(p + j, lanes=VL, mask=lane_mask), ACC)
    if LOG:
        result = value - (peak + scale)
    else:
        result = S.exp(value - peak) * scale
    S.vstore(S.cast(result, X), q + j, mask=lane_mask)


@S.prim_func
def softmax(x: S.ptr(X, "global"), out: S.ptr(X, "global"), outer: S.i32, extent: S.i32, inner: S.i32):
    if INNER_IS_ONE:
        share = S.ceildiv(outer, S.get_local_size())
        first = S.get_local_id() * share
        last = S.min(first + share, outer)
        full = extent // VL * VL
        rest = S.tail_mask(extent - full, VL)
        for row in range(first, last):
            p = x + row * extent
            q = out + row * extent
            highest = vector("-inf")
            for j in range(0, full, VL):
                highest = S.max(highest, S.cast(S.vload(p + j, lanes=VL), ACC))
            if full < extent:
                highest = S.max(highest, S.vsel(S.cast(S.vload(p + full, lanes=VL, mask=rest), ACC), vector("-inf"), rest))
            peak = across_lanes(True, highest)
            sums = vector(0)
            for j in range(0, full, VL):
                sums = sums + S.exp(S.cast(S.vload(p + j, lanes=VL), ACC) - S.vbcast(peak, lanes=VL))
            if full < extent:
                sums = sums + S.vsel(S.exp(S.cast(S.vload(p + full, lanes=VL, mask=rest), ACC) - S.vbcast(peak, lanes=VL)), vector(0), rest)
            total = across_lanes(False, sums)
            if LOG:
                scale = S.log(total)
            else:
                scale = S.cast(1, ACC) / total
            for j in range(0, full, VL):
                row_step(p, q, j, None, S.vbcast(peak, lanes=VL), S.vbcast(scale, lanes=VL))
            if full < extent:
                row_step(p, q, full, rest, S.vbcast(peak, lanes=VL), S.vbcast(scale, lanes=VL))
    else:
        blocks = S.ceildiv(inner, VL)
        units = outer * blocks
        share = S.ceildiv(units, S.get_local_size())
        first = S.get_local_id() * share
        last = S.min(first + share, units)
        for unit in range(first, last):
            c = (unit % blocks) * VL
            lane_mask = S.tail_mask(S.min(inner - c, VL), VL)
            p = x + ((unit // blocks) * extent * inner + c)
            q = out + ((unit // blocks) * extent * inner + c)
            peak = vector("-inf")
            for k in range(extent):
                peak = S.max(peak, S.cast(S.vload(p + k * inner, lanes=VL, mask=lane_mask), ACC))
            total = vector(0)
            for k in range(extent):
                total = total + S.exp(S.cast(S.vload(p + k * inner, lanes=VL, mask=lane_mask), ACC) - peak)
            if LOG:
                scale = S.log(total)
            else:
                scale = vector(1) / total
            for k in range(extent):
                row_step(p, q, k * inner, lane_mask, peak, scale)
