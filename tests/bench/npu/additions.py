"""y = a + b on the NPU, written in three ways: what staging is worth. For cycles.py, and to read."""

from aipu import script as S

COUNT = 1 << 16
TILE = 1024


@S.prim_func
def in_place(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    """every vector read and written where it is"""
    share = n // S.get_local_size()
    first = S.get_local_id() * share
    for i in range(first, first + share, 8):
        S.vstore(S.vload(a + i) + S.vload(b + i), y + i)


@S.prim_func
def staged(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    """tiles in local memory, each copy waited for"""
    ta, tb, ty = [S.alloc((TILE,), "fp32", scope="lsram") for _ in range(3)]
    share = n // S.get_local_size()
    first = S.get_local_id() * share
    for k in range(first, first + share, TILE):
        S.dma_copy(ta, a + k, TILE)
        S.dma_copy(tb, b + k, TILE)
        for i in range(0, TILE, 8):
            S.vstore(S.vload(ta + i) + S.vload(tb + i), ty + i)
        S.dma_copy(y + k, ty, TILE)


@S.prim_func
def double_buffered(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    """tiles in local memory, two buffers each, waited for before they are used again"""
    ta, tb, ty = [S.alloc((2 * TILE,), "fp32", scope="lsram") for _ in range(3)]
    come_even, come_odd, leave_even, leave_odd = S.alloc_events(4)
    tiles = n // S.get_local_size() // TILE
    first = S.get_local_id() * tiles * TILE
    for step in range(tiles + 1):
        if step < tiles:
            comes = come_odd if step % 2 == 1 else come_even
            half = step % 2 * TILE
            S.async_dma_copy(ta + half, a + (first + step * TILE), TILE, event=comes)
            S.async_dma_copy(tb + half, b + (first + step * TILE), TILE, event=comes)
        if step > 0:
            t = step - 1
            half = t % 2 * TILE
            leaves = leave_odd if t % 2 == 1 else leave_even
            S.wait_events(come_odd if t % 2 == 1 else come_even)
            if t >= 2:
                S.wait_events(leaves)
            pa, pb, py = ta + half, tb + half, ty + half
            for i in range(0, TILE, 8):
                S.vstore(S.vload(pa + i) + S.vload(pb + i), py + i)
            S.async_dma_copy(y + (first + t * TILE), py, TILE, event=leaves)
    S.free_events(come_even, come_odd, leave_even, leave_odd)
