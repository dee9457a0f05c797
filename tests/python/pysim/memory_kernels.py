"""Kernels that move data of one element type in every way; ``make`` gives them for a type."""

from __future__ import annotations

from types import SimpleNamespace

import aipu
from aipu import script as S


def make(dtype: str) -> SimpleNamespace:
    """The kernels for an element type."""
    native = aipu.hw_native_vdtype(dtype).lanes
    wide = native * 2 + 3
    vdtype = f"{dtype}x{native}"
    odd = f"{dtype}x5"
    letters = "".join("TTF"[k % 3] for k in range(native))
    bits = [k % 4 != 1 for k in range(native - 1)]

    @S.prim_func
    def loads(x: S.ptr(dtype, "global"), out: S.ptr(dtype, "global"), n: S.i32, stride: S.i32):
        if S.get_local_id() == 0:
            S.vstore(S.vload(x + n), out)
            S.vstore(S.vload(x + n, mask=letters), out + 100)
            S.vstore(S.vload(x + n, mask=bits), out + 200)
            S.vstore(S.vload(x + n, mask=S.tail_mask(n, native)), out + 300)
            S.vstore(S.vload(x + 1, lanes=wide), out + 400)
            S.vstore(S.vload(x + 1, lanes=wide, stride=2), out + 500)
            S.vstore(S.vload(x, stride=stride), out + 600)
            S.vstore(S.vload(x, mask=letters, stride=stride), out + 700)
            S.vstore(x[n : n + 5], out + 800)
            S.vstore(x[n : n + 20 : 3], out + 900)

    @S.prim_func
    def stores(x: S.ptr(dtype, "global"), out: S.ptr(dtype, "global"), n: S.i32, stride: S.i32):
        if S.get_local_id() == 0:
            v = S.vload(x)
            w = S.vload(x, lanes=wide)
            S.vstore(v, out + n)
            S.vstore(v, out + 100, mask=letters)
            S.vstore(v, out + 200, mask=bits)
            S.vstore(v, out + 300, mask=S.tail_mask(n, native))
            S.vstore(w, out + 400)
            S.vstore(w, out + 500, stride=2)
            S.vstore(v, out + 700, stride=stride)
            S.vstore(v, out + 850, mask=letters, stride=stride)
            out[1000 + n : 1000 + n + 5] = S.vload(x, lanes=5)
            out[1020:1040:3] = S.vload(x, lanes=7)
            out[1040] = x[n]

    @S.prim_func
    def indexed(
        x: S.ptr(dtype, "global"),
        indices: S.ptr("i16", "global"),
        places: S.ptr("u16", "global"),
        out: S.ptr(dtype, "global"),
    ):
        if S.get_local_id() == 0:
            where = S.vload(indices, lanes=native)
            to = S.vload(places, lanes=native)
            S.vstore(S.vload_gather(x, where), out)
            S.vstore(S.vload_gather(x, where, mask=letters), out + 100)
            S.vstore_scatter(S.vload(x), out + 200, to)
            S.vstore_scatter(S.vload(x), out + 300, to, mask=bits)

    @S.prim_func
    def vectors(x: S.ptr(vdtype, "global"), out: S.ptr(vdtype, "global"), n: S.i32):
        if S.get_local_id() == 0:
            out[0] = x[n]
            out[n + 1] = (x + 1)[0]
            fives = x.as_ptr(odd)
            five_out = (out + 6).as_ptr(odd)
            five_out[1] = fives[n]
            wide_value = x[1:3]
            out[8:10] = wide_value

    @S.prim_func
    def buffers(x: S.ptr(dtype, "global"), out: S.ptr(dtype, "global"), rows: S.i32):
        stage = S.alloc_buffer((4, 24), dtype, scope="lsram")
        own = S.alloc_buffer((8,), dtype, scope="private")
        shared = S.alloc(24, dtype, scope="shared")
        view = S.match_buffer(x, (rows, 24))
        tid = S.get_local_id()
        S.dma_copy(stage.addr_of((1, 0)), x + tid * 24, 24)
        for k in range(8):
            own[k] = stage[1, k * 3]
        for k2 in range(8):
            out[tid * 24 + k2] = own[7 - k2]
        if tid == 1:
            S.dma_copy(shared, x + 24, 24)
        S.barrier()
        out[tid * 24 + 8] = shared[tid]
        out[tid * 24 + 9] = view[tid, 23]
        S.vstore(view[tid, 1:6], out + (tid * 24 + 10))
        S.dma_copy(out + (tid * 24 + 16), stage.addr_of((1, 16)), 8)
        if tid == 0:
            S.dma_copy(stage.addr_of(0), x, 4, src_stride=8, times=3, dst_stride=6)
            S.dma_copy(out + 96, stage.addr_of(0), 4, src_stride=6, times=3, dst_stride=5)
            S.dma_memset(out + 120, 3, 7)

    return SimpleNamespace(
        loads=loads, stores=stores, indexed=indexed, vectors=vectors, buffers=buffers, letters=letters, bits=bits
    )
