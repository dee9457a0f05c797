"""Softmax and log-softmax over one axis of x seen as [outer, extent, inner].

Parameters: X, ACC (float32 or float64), VL, UNROLL (at least 2), LOG, INNER_IS_ONE, SHORT. With inner 1 a row is
contiguous and walked with vectors; otherwise VL neighbouring columns are computed at once. Passes: maximum;
exponentials, kept in `out` (unless LOG), and their sum; scaling. Sums are formed in ACC. Rows are walked in blocks of
UNROLL vectors with an accumulator each, so that no addition waits for the one before. Contiguous rows go through local
memory where the target has it (stage.py). SHORT is the extent of contiguous rows that are a small part of a vector, of
which VL are computed at once; 0 for others. Of up to FEW that are left over each is computed by itself.
"""

from aipu import script as S
from sharing import own_share
from stage import stage


def vector(value):
    return S.cast(value, f"{ACC}x{VL}")


def loaded(p, j, lane_mask):
    return S.cast(S.vload(p + j, lanes=VL, mask=lane_mask), ACC)


def row_maximum(p, extent, full, rest):
    """Maximum of a row as a scalar, through UNROLL running maxima."""
    highest = S.alloc_buffer((UNROLL,), f"{ACC}x{VL}")
    for u in S.unroll(UNROLL):
        highest[u] = vector("-inf")
    blocked = extent // (UNROLL * VL) * (UNROLL * VL)
    for j in range(0, blocked, UNROLL * VL):
        for u in S.unroll(UNROLL):
            highest[u] = S.max(highest[u], loaded(p, j + u * VL, None))
    for j in range(blocked, full, VL):
        highest[0] = S.max(highest[0], loaded(p, j, None))
    if full < extent:
        highest[1] = S.max(highest[1], S.vsel(loaded(p, full, rest), vector("-inf"), rest))
    total = highest[0]
    for u in S.unroll(1, UNROLL):
        total = S.max(total, highest[u])
    return S.vrpmax(total)[0]


def exponential(p, q, j, lane_mask, peak):
    """exp(x - peak), which also goes to `out` where the next pass wants it."""
    value = S.exp(loaded(p, j, lane_mask) - peak)
    if not LOG:
        S.vstore(S.cast(value, X), q + j, mask=lane_mask)
    return value


def row_sum(p, q, extent, full, rest, peak):
    sums = S.alloc_buffer((UNROLL,), f"{ACC}x{VL}")
    for u in S.unroll(UNROLL):
        sums[u] = vector(0)
    blocked = extent // (UNROLL * VL) * (UNROLL * VL)
    for j in range(0, blocked, UNROLL * VL):
        for u in S.unroll(UNROLL):
            sums[u] = sums[u] + exponential(p, q, j + u * VL, None, peak)
    for j in range(blocked, full, VL):
        sums[0] = sums[0] + exponential(p, q, j, None, peak)
    if full < extent:
        sums[1] = sums[1] + S.vsel(exponential(p, q, full, rest, peak), vector(0), rest)
    total = sums[0]
    for u in S.unroll(1, UNROLL):
        total = total + sums[u]
    return S.vrpadd(total)[0]


def finish(p, q, j, lane_mask, peak, scale):
    if LOG:
        S.vstore(S.cast(loaded(p, j, lane_mask) - (peak + scale), X), q + j, mask=lane_mask)
    else:
        S.vstore(S.cast(loaded(q, j, lane_mask) * scale, X), q + j, mask=lane_mask)


def softmax_rows(rows, x, out, extent):
    full = extent // VL * VL
    rest = S.tail_mask(extent - full, VL)
    for row in range(rows):
        p = x + row * extent
        q = out + row * extent
        peak = S.vbcast(row_maximum(p, extent, full, rest), lanes=VL)
        total = row_sum(p, q, extent, full, rest, peak)
        if LOG:
            scale = S.vbcast(S.log(total), lanes=VL)
        else:
            scale = S.vbcast(S.cast(1, ACC) / total, lanes=VL)
        for j in range(0, full, VL):
            finish(p, q, j, None, peak, scale)
        if full < extent:
            finish(p, q, full, rest, peak, scale)


def softmax_of_lanes(p, q, lane_mask):
    values = [S.cast(S.vload(p + k, lanes=VL, stride=SHORT, mask=lane_mask), ACC) for k in range(SHORT)]
    peak = values[0]
    for k in S.unroll(1, SHORT):
        peak = S.max(peak, values[k])
    exponentials = [S.exp(value - peak) for value in values]
    total = exponentials[0]
    for k in S.unroll(1, SHORT):
        total = total + exponentials[k]
    scale = peak + S.log(total) if LOG else vector(1) / total
    for k in S.unroll(SHORT):
        result = values[k] - scale if LOG else exponentials[k] * scale
        S.vstore(S.cast(result, X), q + k, stride=SHORT, mask=lane_mask)


def softmax_of_row(p, q, lane):
    """The same of a single row, whose elements are the lanes; in the same order, so that all bits are the same."""
    inside = S.tail_mask(SHORT, VL)
    values = loaded(p, 0, inside)
    S.vstore(values, lane.addr_of(0))
    peak = lane[0]
    for k in S.unroll(1, SHORT):
        peak = S.max(peak, lane[k])
    exponentials = S.exp(values - S.vbcast(peak, lanes=VL))
    S.vstore(exponentials, lane.addr_of(0))
    total = lane[0]
    for k in S.unroll(1, SHORT):
        total = total + lane[k]
    if LOG:
        result = values - S.vbcast(peak + S.log(total), lanes=VL)
    else:
        result = exponentials * S.vbcast(S.cast(1, ACC) / total, lanes=VL)
    S.vstore(S.cast(result, X), q, mask=inside)


def softmax_short_rows(x, out, outer):
    lane = S.alloc_buffer((VL,), ACC)
    first, last = own_share(S.ceildiv(outer, VL))
    for block in range(first, last):
        rows = outer - block * VL
        p = x + block * (VL * SHORT)
        q = out + block * (VL * SHORT)
        if rows >= VL:
            softmax_of_lanes(p, q, None)
        elif rows > FEW:
            softmax_of_lanes(p, q, S.tail_mask(rows, VL))
        else:
            for r in range(rows):
                softmax_of_row(p + r * SHORT, q + r * SHORT, lane)


@S.prim_func
def softmax(x: S.ptr(X, "global"), out: S.ptr(X, "global"), outer: S.i32, extent: S.i32, inner: S.i32):
    if SHORT > 0:
        softmax_short_rows(x, out, outer)
    elif INNER_IS_ONE:
        stage(softmax_rows, outer, [(x, extent, extent)], [], [(out, extent)], [extent])
    else:
        blocks = S.ceildiv(inner, VL)
        units = outer * blocks
        first, last = own_share(units)
        for unit in range(first, last):
            c = (unit % blocks) * VL
            lane_mask = S.tail_mask(S.min(inner - c, VL), VL)
            p = x + ((unit // blocks) * extent * inner + c)
            q = out + ((unit // blocks) * extent * inner + c)
            peak = vector("-inf")
            for k in range(extent):
                peak = S.max(peak, loaded(p, k * inner, lane_mask))
            total = vector(0)
            for k in range(extent):
                total = total + exponential(p, q, k * inner, lane_mask, peak)
            if LOG:
                scale = S.log(total)
            else:
                scale = vector(1) / total
            for k in range(extent):
                finish(p, q, k * inner, lane_mask, peak, scale)
