"""Sixteen lanes of 32 bits on registers of 256: vectors are split in two; a shift of signed numbers keeps the sign."""

from aipu import script as S


@S.prim_func
def halve(x: S.ptr("i32", "global"), y: S.ptr("i32", "global"), count: S.i32):
    share = S.ceildiv(count, 16 * S.get_local_size()) * 16
    first = S.get_local_id() * share
    for k in range(first, S.min(first + share, count), 16):
        S.vstore(S.vload(x + k, lanes=16) >> 1, y + k)
