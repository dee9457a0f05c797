"""Rows of a few elements (the classes of a classifier): VL of them are computed at once, lanes are rows; what is left
over goes one by one.

Parameters: X, VL, EXTENT (elements of a row). divide_by_norm: NORM (l1, l2, max). arg_extremum: LARGEST, LAST,
FLOATING as in select.py, whose arg_extremum() this is; LABELED: places are looked up among `labels`.
"""

from select import takes_over_lanes

from aipu import script as S
from sharing import own_share


def lanes_of(p):
    """Element by element, those of VL rows."""
    return [S.vload(p + k, lanes=VL, stride=EXTENT) for k in range(EXTENT)]


def norm_term(value):
    if NORM == "l1":
        return S.abs(value)
    return value * value if NORM == "l2" else value


def norm_of(values):
    """Of the rows (or row) whose elements are given."""
    size = norm_term(values[0])
    for k in S.unroll(1, EXTENT):
        term = norm_term(values[k])
        size = S.maximum(term, size) if NORM == "max" else size + term
    return S.sqrt(size) if NORM == "l2" else size


@S.prim_func
def divide_by_norm(x: S.ptr(X, "global"), out: S.ptr(X, "global"), rows: S.i32):
    """Rows whose norm is 0 stay as they are."""
    first, last = own_share(S.ceildiv(rows, VL))
    for block in range(first, last):
        p = x + block * (VL * EXTENT)
        q = out + block * (VL * EXTENT)
        if rows - block * VL >= VL:
            values = lanes_of(p)
            size = norm_of(values)
            size = S.vsel(S.cast(1, f"{X}x{VL}"), size, size == S.cast(0, f"{X}x{VL}"))
            for k in S.unroll(EXTENT):
                S.vstore(values[k] / size, q + k, stride=EXTENT)
        else:
            for r in range(rows - block * VL):
                size = norm_of([p[r * EXTENT + k] for k in range(EXTENT)])
                size = S.cast(1, X) if size == S.cast(0, X) else size
                for k in S.unroll(EXTENT):
                    q[r * EXTENT + k] = p[r * EXTENT + k] / size


def place_of_row(p):
    best = p[0]
    at = S.i32(0)
    for k in S.unroll(1, EXTENT):
        if takes_over_lanes(p[k], best):
            best = p[k]
            at = S.i32(k)
    return at


@S.prim_func
def arg_extremum(x: S.ptr(X, "global"), labels: S.ptr("i64", "global"), out: S.ptr("i64", "global"), rows: S.i32):
    first, last = own_share(S.ceildiv(rows, VL))
    for block in range(first, last):
        p = x + block * (VL * EXTENT)
        q = out + block * VL
        if rows - block * VL >= VL:
            values = lanes_of(p)
            best = values[0]
            at = S.cast(0, f"i32x{VL}")
            for k in S.unroll(1, EXTENT):
                found = takes_over_lanes(values[k], best)
                best = S.vsel(values[k], best, found)
                at = S.vsel(S.cast(k, f"i32x{VL}"), at, found)
            S.vstore(S.cast(at, "i64"), q)
            if LABELED:
                for r in range(VL):
                    q[r] = labels[S.i32(q[r])]
        else:
            for r in range(rows - block * VL):
                place = place_of_row(p + r * EXTENT)
                q[r] = labels[place] if LABELED else S.i64(place)
