"""Searching along an axis: arg-extremum, hardmax, top-k, one-hot; and counting ops whose result decides a shape.
Tensors are seen as [outer, extent, inner] around the axis. FLOATING: X is a floating type, and may be NaN. LANES: where
inner is 1 and X is ACC, vectors of so many lanes tell which elements need no look of their own; 0 elsewhere.
"""

from aipu import script as S
from sharing import own_share


def beyond(a, b):
    """a is NaN, b is a number."""
    return FLOATING and a != a and b == b


def better(candidate, best):
    """NaN is greater than every number."""
    if LARGEST:
        return candidate > best or beyond(candidate, best)
    return candidate < best or beyond(best, candidate)


def takes_over(candidate, best):
    """Whether the index of the extremum moves to the candidate: to the first NaN (the last one with LAST)."""
    found = candidate > best if LARGEST else candidate < best
    if LAST:
        return found or candidate == best or (FLOATING and candidate != candidate)
    return found or beyond(candidate, best)


# Vectors at once: most of a long row changes nothing.
VECTORS = 4


def better_lanes(values, best):
    """better() of vectors."""
    found = values > best if LARGEST else values < best
    if FLOATING and LARGEST:
        return found | ((values != values) & (best == best))
    if FLOATING:
        return found | ((best != best) & (values == values))
    return found


def takes_over_lanes(values, best):
    """takes_over() of vectors, or of numbers in the type of X."""
    found = values > best if LARGEST else values < best
    if LAST:
        found = found | (values == best)
        return found | (values != values) if FLOATING else found
    return found | ((values != values) & (best == best)) if FLOATING else found


def is_any(matters, p, best):
    """Whether one of VECTORS * LANES elements matters beside the best (or the last of the best)."""
    all_lanes = S.vbcast(best, lanes=LANES)
    found = matters(S.vload(p, lanes=LANES), all_lanes)
    for v in S.unroll(1, VECTORS):
        found = found | matters(S.vload(p + v * LANES, lanes=LANES), all_lanes)
    return S.vany(found)


def place_of_extremum(p, extent, inner):
    best = S.cast(p[0], ACC)
    at = S.i32(0)
    begin = S.i32(1)
    while begin < extent:
        end = S.i32(extent)
        if LANES > 0:
            end = S.min(begin + VECTORS * LANES, extent)
            if end - begin == VECTORS * LANES and not is_any(takes_over_lanes, p + begin, best):
                begin = end
        for k in range(begin, end):
            candidate = S.cast(p[k * inner], ACC)
            if takes_over(candidate, best):
                best = candidate
                at = k
        begin = end
    return at


@S.prim_func
def arg_extremum(
    x: S.ptr(X, "global"),
    labels: S.ptr("i64", "global"),
    out: S.ptr("i64", "global"),
    outer: S.i32,
    extent: S.i32,
    inner: S.i32,
):
    """The index of the largest (smallest) element, of a NaN if there is one; the first of equals, or the last
    with LAST. LABELED: what `labels` has there.
    """
    units = outer * inner
    first, last = own_share(units)
    for unit in range(first, last):
        p = x + ((unit // inner) * extent * inner + unit % inner)
        at = place_of_extremum(p, extent, inner)
        out[unit] = labels[at] if LABELED else S.i64(at)


@S.prim_func
def hardmax(x: S.ptr(X, "global"), out: S.ptr(X, "global"), outer: S.i32, extent: S.i32, inner: S.i32):
    """1 where arg_extremum() is along the axis, 0 elsewhere."""
    units = outer * inner
    if extent == 0:
        units = 0
    first, last = own_share(units)
    for unit in range(first, last):
        offset = (unit // inner) * extent * inner + unit % inner
        at = place_of_extremum(x + offset, extent, inner)
        for k in range(extent):
            out[offset + k * inner] = S.cast(0, X)
        out[offset + at * inner] = S.cast(1, X)


@S.prim_func
def top_k(
    x: S.ptr(X, "global"),
    values: S.ptr(X, "global"),
    indices: S.ptr("i64", "global"),
    outer: S.i32,
    extent: S.i32,
    inner: S.i32,
    k: S.i32,
):
    """The k best elements in order, equal ones by index: insertion into a sorted list kept in the outputs."""
    units = outer * inner
    first, last = own_share(units)
    for unit in range(first, last):
        p = x + ((unit // inner) * extent * inner + unit % inner)
        v = values + ((unit // inner) * k * inner + unit % inner)
        n = indices + ((unit // inner) * k * inner + unit % inner)
        filled = 0
        begin = S.i32(0)
        while begin < extent:
            end = S.i32(extent)
            if LANES > 0:
                end = S.min(begin + VECTORS * LANES, extent)
                if filled == k and k > 0 and end - begin == VECTORS * LANES:
                    if not is_any(better_lanes, p + begin, v[k - 1]):
                        begin = end
            for e in range(begin, end):
                candidate = S.cast(p[e * inner], ACC)
                at = filled
                if filled == k:
                    at = k - 1
                if filled < k or (k > 0 and better(candidate, S.cast(v[at * inner], ACC))):
                    moving = at > 0
                    while moving:
                        moving = better(candidate, S.cast(v[(at - 1) * inner], ACC))
                        if moving:
                            v[at * inner] = v[(at - 1) * inner]
                            n[at * inner] = n[(at - 1) * inner]
                            at = at - 1
                            moving = at > 0
                    v[at * inner] = p[e * inner]
                    n[at * inner] = S.i64(e)
                    if filled < k:
                        filled = filled + 1
            begin = end


@S.prim_func
def one_hot(
    indices: S.ptr(INDEX, "global"),
    values: S.ptr(T, "global"),
    out: S.ptr(T, "global"),
    outer: S.i32,
    depth: S.i32,
    inner: S.i32,
):
    """out[o, d, i] = values[indices[o, i] == d]; an index outside [-depth, depth) selects nothing."""
    if inner == 1:
        # Rows are filled by vectors; then one element of each is another.
        first, last = own_share(outer)
        full = depth // VL * VL
        rest = S.tail_mask(depth - full, VL)
        off = S.vbcast(values[0], lanes=VL)
        for row in range(first, last):
            p = out + row * depth
            for d in range(0, full, VL):
                S.vstore(off, p + d)
            if full < depth:
                S.vstore(off, p + full, mask=rest)
            index = S.i64(indices[row])
            if index < S.i64(0):
                index = index + S.i64(depth)
            if index >= S.i64(0) and index < S.i64(depth):
                p[S.i32(index)] = values[1]
    else:
        units = outer * depth
        first, last = own_share(units)
        for unit in range(first, last):
            d = S.i64(unit % depth)
            for i in range(inner):
                index = S.i64(indices[(unit // depth) * inner + i])
                if index < S.i64(0):
                    index = index + S.i64(depth)
                out[unit * inner + i] = values[1] if index == d else values[0]


@S.prim_func
def count_non_zero(x: S.ptr(X, "global"), out: S.ptr("i64", "global"), total: S.i32):
    if S.get_local_id() == 0:
        count = S.i64(0)
        for i in range(total):
            if S.cast(x[i], ACC) != S.cast(0, ACC):
                count = count + S.i64(1)
        out[0] = count


@S.prim_func
def non_zero(x: S.ptr(X, "global"), out: S.ptr("i64", "global"), total: S.i32, count: S.i32, dims: dim_types):
    """out[d, n] = coordinate d of the n-th nonzero element in C order."""
    if S.get_local_id() == 0:
        n = 0
        for i in range(total):
            if S.cast(x[i], ACC) != S.cast(0, ACC) and n < count:
                rest = i
                for e in S.unroll(RANK):
                    out[(RANK - 1 - e) * count + n] = S.i64(rest % dims[RANK - 1 - e])
                    rest = rest // dims[RANK - 1 - e]
                n = n + 1
