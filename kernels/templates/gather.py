"""Gather and scatter. Elements move as unsigned integers T of their size; INDEX is int32 or int64. A negative index
counts from the end (with FROM_START it does not); an index outside the axis is reported (fault OUTSIDE), and what it
stands for is neither read nor written.

Tensors are seen as [outer, extent, inner] around the axis.
"""

from aipu import script as S
from sharing import own_share


def position(index, extent):
    """Where on the axis an index points; -1 where it points outside. Compared in 64 bits, whatever its type."""
    i = S.i64(index)
    at = i
    if not FROM_START:
        at = i + S.i64(extent) if i < 0 else i
    if at < 0 or at >= S.i64(extent):
        S.report_fault(OUTSIDE, i, extent)
        at = S.i64(-1)
    return S.i32(at)


def combined(old, new):
    if REDUCTION == "add":
        return old + new
    if REDUCTION == "mul":
        return old * new
    if REDUCTION == "max":
        return S.maximum(new, old)
    if REDUCTION == "min":
        return S.minimum(new, old)
    return new


@S.prim_func
def gather(
    data: S.ptr(T, "global"),
    indices: S.ptr(INDEX, "global"),
    out: S.ptr(T, "global"),
    outer: S.i32,
    extent: S.i32,
    inner: S.i32,
    count: S.i32,
):
    """out[o, n, i] = data[o, indices[n], i]"""
    units = outer * count
    first, last = own_share(units)
    full = inner // VL * VL
    for unit in range(first, last):
        at = position(indices[unit % count], extent)
        if at >= 0:
            source = data + ((unit // count) * extent + at) * inner
            target = out + unit * inner
            for j in range(0, full, VL):
                S.vstore(S.vload(source + j, lanes=VL), target + j)
            for j in range(full, inner):
                target[j] = source[j]


@S.prim_func
def gather_elements(
    data: S.ptr(T, "global"),
    indices: S.ptr(INDEX, "global"),
    out: S.ptr(T, "global"),
    dims: dim_types,
    strides: dim_types,
    extent: S.i32,
    axis_stride: S.i32,
):
    """out[i...] = data[i... with the axis replaced by indices[i...]]; dims are those of indices, strides those of data
    with 0 on the axis.
    """
    total = 1
    for d in S.unroll(RANK):
        total = total * dims[d]
    first, last = own_share(total)
    for n in range(first, last):
        rest = n
        offset = 0
        for e in S.unroll(RANK):
            offset = offset + (rest % dims[RANK - 1 - e]) * strides[RANK - 1 - e]
            rest = rest // dims[RANK - 1 - e]
        at = position(indices[n], extent)
        if at >= 0:
            out[n] = data[offset + at * axis_stride]


@S.prim_func
def scatter_elements(
    indices: S.ptr(INDEX, "global"),
    updates: S.ptr(T, "global"),
    out: S.ptr(T, "global"),
    dims: dim_types,
    strides: dim_types,
    extent: S.i32,
    axis_stride: S.i32,
):
    """out[i... with the axis replaced by indices[i...]] = combined(., updates[i...]), in order, by one TEC; `out` holds
    the data already.
    """
    if S.get_local_id() == 0:
        total = 1
        for d in S.unroll(RANK):
            total = total * dims[d]
        for n in range(total):
            rest = n
            offset = 0
            for e in S.unroll(RANK):
                offset = offset + (rest % dims[RANK - 1 - e]) * strides[RANK - 1 - e]
                rest = rest // dims[RANK - 1 - e]
            at = position(indices[n], extent)
            if at >= 0:
                p = out + (offset + at * axis_stride)
                p[0] = combined(p[0], updates[n])


@S.prim_func
def gather_nd(
    data: S.ptr(T, "global"),
    indices: S.ptr(INDEX, "global"),
    out: S.ptr(T, "global"),
    batches: S.i32,
    tuples: S.i32,
    batch_stride: S.i32,
    inner: S.i32,
    extents: tuple_types,
    strides: tuple_types,
):
    """out[b, t, i] = data[b, indices[b, t, 0], ..., indices[b, t, LENGTH - 1], i]"""
    units = batches * tuples
    first, last = own_share(units)
    for unit in range(first, last):
        offset = (unit // tuples) * batch_stride
        least = 0
        for k in S.unroll(LENGTH):
            at = position(indices[unit * LENGTH + k], extents[k])
            least = S.min(least, at)
            offset = offset + at * strides[k]
        if least == 0:
            for i in range(inner):
                out[unit * inner + i] = data[offset + i]


@S.prim_func
def scatter_nd(
    indices: S.ptr(INDEX, "global"),
    updates: S.ptr(T, "global"),
    out: S.ptr(T, "global"),
    tuples: S.i32,
    inner: S.i32,
    extents: tuple_types,
    strides: tuple_types,
):
    """out[indices[t, 0], ..., indices[t, LENGTH - 1], i] = combined(., updates[t, i]), in order, by one TEC; `out`
    holds the data already.
    """
    if S.get_local_id() == 0:
        for t in range(tuples):
            offset = 0
            least = 0
            for k in S.unroll(LENGTH):
                at = position(indices[t * LENGTH + k], extents[k])
                least = S.min(least, at)
                offset = offset + at * strides[k]
            if least == 0:
                for i in range(inner):
                    out[offset + i] = combined(out[offset + i], updates[t * inner + i])


@S.prim_func
def compress(
    data: S.ptr(T, "global"),
    condition: S.ptr("u8", "global"),
    out: S.ptr(T, "global"),
    outer: S.i32,
    extent: S.i32,
    inner: S.i32,
    conditions: S.i32,
    taken: S.i32,
):
    """out[o, k, i] = data[o, n_k, i] where n_k is the k-th n with condition[n]."""
    if S.get_local_id() == 0:
        for n in range(extent, conditions):
            if condition[n] != 0:
                S.report_fault(BEYOND, n, extent)
        k = 0
        for n in range(S.min(conditions, extent)):
            if condition[n] != 0 and k < taken:
                for o in range(outer):
                    for i in range(inner):
                        out[(o * taken + k) * inner + i] = data[(o * extent + n) * inner + i]
                k = k + 1
