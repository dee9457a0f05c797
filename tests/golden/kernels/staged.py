"""Memory beside the arrays: tiles come to local memory by DMA, a sub-function works on them, TECs meet at a barrier."""

from aipu import script as S


@S.prim_func
def scaled(tile: S.ptr("fp32", "lsram"), factor: S.fp32, count: S.i32):
    for k in range(0, count, 8):
        S.vstore(S.vload(tile + k) * factor, tile + k)


@S.prim_func
def staged(x: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), factor: S.fp32, count: S.i32):
    tile = S.alloc_buffer((256,), "fp32", scope="lsram")
    tid = S.get_local_id()
    for first in range(tid * 256, count, S.get_local_size() * 256):
        size = S.min(256, count - first)
        S.dma_copy(tile.addr_of(0), x + first, size)
        scaled(tile.addr_of(0), factor, size)
        S.dma_copy(y + first, tile.addr_of(0), size)
    S.barrier()
