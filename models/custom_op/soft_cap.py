"""Soft capping, y = cap * tanh(x / cap): the sample user operator.

Parameters: X (float32 or float16; computed in float32), VL.
TECs take contiguous ranges of whole vectors; the last one has the tail.
"""

from aipu import script as S


def capped(value, cap):
    wide = S.vbcast(cap, lanes=VL)
    return S.cast(S.tanh(S.cast(value, "float32") / wide) * wide, X)


@S.prim_func
def soft_cap(x: S.ptr(X, "global"), y: S.ptr(X, "global"), n: S.i32, cap: S.fp32):
    share = S.ceildiv(S.ceildiv(n, VL), S.get_local_size()) * VL
    begin = S.min(S.get_local_id() * share, n)
    end = S.min(begin + share, n)
    full = begin + (end - begin) // VL * VL
    for j in range(begin, full, VL):
        S.vstore(capped(S.vload(x + j, lanes=VL), cap), y + j)
    if full < end:
        rest = S.tail_mask(end - full, VL)
        S.vstore(capped(S.vload(x + full, lanes=VL, mask=rest), cap), y + full, mask=rest)
