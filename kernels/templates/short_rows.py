"""Rows of a few elements (the classes of a classifier): VL of them are computed at once, lanes are rows.

Parameters: X, VL, EXTENT (elements of a row). divide_by_norm: NORM (l1, l2, max). arg_extremum: LARGEST, LAST,
FLOATING as in select.py, whose arg_extremum() this is; LABELED: places are looked up among `labels`.
"""

from aipu import script as S
from sharing import own_share


def lanes_of(p, lane_mask):
    """Element by element, those of VL rows."""
    return [S.vload(p + k, lanes=VL, stride=EXTENT, mask=lane_mask) for k in range(EXTENT)]


def norm_term(value):
    if NORM == "l1":
        return S.abs(value)
    return value * value if NORM == "l2" else value


def divide_lanes(p, q, lane_mask):
    values = lanes_of(p, lane_mask)
    size = norm_term(values[0])
    for k in S.unroll(1, EXTENT):
        term = norm_term(values[k])
        size = S.maximum(term, size) if NORM == "max" else size + term
    if NORM == "l2":
        size = S.sqrt(size)
    size = S.vsel(S.cast(1, f"{X}x{VL}"), size, size == S.cast(0, f"{X}x{VL}"))
    for k in S.unroll(EXTENT):
        S.vstore(values[k] / size, q + k, stride=EXTENT, mask=lane_mask)


@S.prim_func
def divide_by_norm(x: S.ptr(X, "global"), out: S.ptr(X, "global"), rows: S.i32):
    """Rows whose norm is 0 stay as they are."""
    first, last = own_share(S.ceildiv(rows, VL))
    for block in range(first, last):
        here = rows - block * VL
        p = x + block * (VL * EXTENT)
        q = out + block * (VL * EXTENT)
        if here >= VL:
            divide_lanes(p, q, None)
        else:
            divide_lanes(p, q, S.tail_mask(here, VL))


def takes_over(candidate, best):
    found = candidate > best if LARGEST else candidate < best
    if LAST:
        found = found | (candidate == best)
        return found | (candidate != candidate) if FLOATING else found
    return found | ((candidate != candidate) & (best == best)) if FLOATING else found


def places_of_lanes(p, q, lane_mask):
    values = lanes_of(p, lane_mask)
    best = values[0]
    at = S.cast(0, f"i32x{VL}")
    for k in S.unroll(1, EXTENT):
        found = takes_over(values[k], best)
        best = S.vsel(values[k], best, found)
        at = S.vsel(S.cast(k, f"i32x{VL}"), at, found)
    S.vstore(S.cast(at, "i64"), q, mask=lane_mask)


@S.prim_func
def arg_extremum(x: S.ptr(X, "global"), labels: S.ptr("i64", "global"), out: S.ptr("i64", "global"), rows: S.i32):
    first, last = own_share(S.ceildiv(rows, VL))
    for block in range(first, last):
        here = S.min(rows - block * VL, VL)
        p = x + block * (VL * EXTENT)
        q = out + block * VL
        if here == VL:
            places_of_lanes(p, q, None)
        else:
            places_of_lanes(p, q, S.tail_mask(here, VL))
        if LABELED:
            for r in range(here):
                q[r] = labels[S.i32(q[r])]
