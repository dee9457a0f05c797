"""A loop over whole vectors and a masked one for the rest: masks, a vector operator and a fused comparison."""

from aipu import script as S


@S.prim_func
def relu_tail(x: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), count: S.i32):
    whole = count // 8 * 8
    for k in range(0, whole, 8):
        S.vstore(S.max(S.vload(x + k), 0), y + k)
    if whole < count:
        mask = S.tail_mask(count - whole, 8)
        S.vstore(S.max(S.vload(x + whole, mask=mask), 0), y + whole, mask=mask)
