"""Kernels of real size: what the language is for, on every executor."""

from __future__ import annotations

from aipu import script as S

# --- vector add with a tail, on four TECs ---


@S.prim_func
def vector_add(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), out: S.ptr("fp32", "global"), n: S.i32):
    share = S.ceildiv(n, S.get_local_size())
    begin = S.min(S.get_local_id() * share, n)
    end = S.min(begin + share, n)
    for k in range(S.ceildiv(end - begin, 8)):
        first = begin + k * 8
        mask = S.tail_mask(S.min(end - first, 8), 8)
        S.vstore(S.vload(a + first, mask=mask) + S.vload(b + first, mask=mask), out + first, mask=mask)


# --- a window of an image through local memory, rows apart ---

WINDOW = 24


@S.prim_func
def copy_window(
    image: S.ptr("i16", "global"), out: S.ptr("i16", "global"), pitch: S.i32, rows: S.i32, top: S.i32, left: S.i32
):
    stage = S.alloc_buffer((8, WINDOW), "i16", scope="lsram")
    tid = S.get_local_id()
    for band in range(S.ceildiv(rows, 32)):
        first = (band * 4 + tid) * 8
        count = S.max(S.min(8, rows - first), 0)
        if count > 0:
            S.dma_copy(stage.addr_of(0), image + ((top + first) * pitch + left), WINDOW, src_stride=pitch, times=count)
            for row in range(count):
                for column in range(WINDOW):
                    stage[row, column] = stage[row, column] * 2
            S.dma_copy(out + first * WINDOW, stage.addr_of(0), WINDOW * count)


# --- two stages in flight: the next block arrives while this one is worked on ---

BLOCK = 64


@S.prim_func
def double_buffered(x: S.ptr("i32", "global"), y: S.ptr("i32", "global"), blocks: S.i32):
    ping = S.alloc(BLOCK, "i32", scope="lsram")
    pong = S.alloc(BLOCK, "i32", scope="lsram")
    event_ping, event_pong = S.alloc_events(2)
    tid, tecs = S.get_local_id(), S.get_local_size()
    if tid < blocks:
        S.async_dma_copy(ping, x + tid * BLOCK, BLOCK, event=event_ping)
    for step in range(S.ceildiv(blocks, tecs * 2)):
        first = (step * 2) * tecs + tid
        second = first + tecs
        third = second + tecs
        if second < blocks:
            S.async_dma_copy(pong, x + second * BLOCK, BLOCK, event=event_pong)
        if first < blocks:
            S.wait_events(event_ping)
            for k in range(BLOCK // 8):
                v = S.vload(ping + k * 8)
                S.vstore(v * v + 1, y + (first * BLOCK + k * 8))
        if third < blocks:
            S.async_dma_copy(ping, x + third * BLOCK, BLOCK, event=event_ping)
        if second < blocks:
            S.wait_events(event_pong)
            for k in range(BLOCK // 8):
                w = S.vload(pong + k * 8)
                S.vstore(w * w + 1, y + (second * BLOCK + k * 8))
    S.free_events(event_ping, event_pong)


# --- softmax over rows: fp16 in and out, fp32 in between ---


@S.prim_func
def row_max(row: S.ptr("fp16", "global"), n: S.i32) -> S.fp32:
    best = S.fp16x16("-inf")
    for k in range(S.ceildiv(n, 16)):
        mask = S.tail_mask(S.min(n - k * 16, 16), 16)
        best = S.max(best, S.vload(row + k * 16, mask=mask), mask=mask, r=best)
    return S.fp32(S.vrpmax(best)[0])


@S.prim_func
def softmax(x: S.ptr("fp16", "global"), y: S.ptr("fp16", "global"), rows: S.i32, n: S.i32):
    tid, tecs = S.get_local_id(), S.get_local_size()
    for step in range(S.ceildiv(rows, tecs)):
        r = step * tecs + tid
        if r < rows:
            top = row_max(x + r * n, n)
            total = S.fp32(0)
            for k in range(S.ceildiv(n, 8)):
                mask = S.tail_mask(S.min(n - k * 8, 8), 8)
                e = S.exp(S.cast(S.vload(x + (r * n + k * 8), mask=mask, lanes=8), "fp32") - top)
                total = total + S.vrpadd(e, mask=mask)[0]
            for k2 in range(S.ceildiv(n, 8)):
                mask2 = S.tail_mask(S.min(n - k2 * 8, 8), 8)
                e2 = S.exp(S.cast(S.vload(x + (r * n + k2 * 8), mask=mask2, lanes=8), "fp32") - top)
                S.vstore(S.cast(e2 / total, "fp16"), y + (r * n + k2 * 8), mask=mask2)


# --- quantised matrix multiply: int8 rows by int8 columns, int32 sums, scaled back to int8 ---


@S.prim_func
def quantised_matmul(
    a: S.ptr("i8", "global"),
    b: S.ptr("i8", "global"),
    out: S.ptr("i8", "global"),
    m: S.i32,
    n: S.i32,
    k: S.i32,
    multiplier: S.i32,
    shift: S.i32,
):
    tid, tecs = S.get_local_id(), S.get_local_size()
    for step in range(S.ceildiv(m, tecs)):
        row = step * tecs + tid
        if row < m:
            for column in range(n):
                acc = S.i32x8(0)
                for block in range(S.ceildiv(k, 32)):
                    mask = S.tail_mask(S.min(k - block * 32, 32), 32)
                    va = S.vload(a + (row * k + block * 32), mask=mask)
                    vb = S.vload(b + (column * k + block * 32), mask=mask)
                    acc = acc + S.vqdot(va, vb)
                total = S.vrpadd(acc)[0]
                scaled = (total * multiplier) >> shift
                out[row * n + column] = S.max(S.min(scaled, 127), -128)


# --- bitonic sort of one vector's lanes per TEC ---

LANES = 16


@S.prim_func
def bitonic_sort(x: S.ptr("i16", "global"), y: S.ptr("i16", "global"), lane_ids: S.ptr("i16", "global")):
    tid = S.get_local_id()
    v = S.vload(x + tid * LANES)
    ids = S.vload(lane_ids)
    size = 2
    while size <= LANES:
        stride = size // 2
        while stride > 0:
            partner = S.vtbl((v, v), ids ^ S.i16(stride))
            is_low = (ids & S.i16(stride)) == 0
            ascending = (ids & S.i16(size)) == 0
            keep_min = S.vinv(S.vxor(is_low, ascending))
            v = S.vsel(S.min(v, partner), S.max(v, partner), mask=keep_min)
            stride = stride // 2
        size = size * 2
    S.vstore(v, y + tid * LANES)


# --- table lookup: 64 bytes in registers ---


@S.prim_func
def table_lookup(x: S.ptr("u8", "global"), table: S.ptr("u8", "global"), y: S.ptr("u8", "global"), n: S.i32):
    low, high = S.vload(table), S.vload(table + 32)
    for k in range(S.ceildiv(n, 128)):
        first = k * 128 + S.get_local_id() * 32
        count = S.max(S.min(32, n - first), 0)
        mask = S.tail_mask(count, 32)
        indices = S.vload(x + first, mask=mask)
        S.vstore(S.vtbl((low, high), indices), y + first, mask=mask)


# --- the maximum of an array: partial results in shared memory, a barrier, one TEC finishes ---


@S.prim_func
def shared_max(x: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    partial = S.alloc_buffer((4,), "fp32", scope="shared")
    tid = S.get_local_id()
    share = S.ceildiv(n, 4)
    begin = S.min(tid * share, n)
    end = S.min(begin + share, n)
    best = S.fp32x8("-inf")
    for k in range(S.ceildiv(end - begin, 8)):
        mask = S.tail_mask(S.min(end - begin - k * 8, 8), 8)
        best = S.max(best, S.vload(x + (begin + k * 8), mask=mask), mask=mask, r=best)
    partial[tid] = S.vrpmax(best)[0]
    S.barrier()
    if tid == 0:
        y[0] = S.max(S.max(partial[0], partial[1]), S.max(partial[2], partial[3]))


# --- celu with vectors of 50 lanes ---

WIDTH = 50


@S.prim_func
def celu(x: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32, alpha: S.fp32):
    blocks = n // WIDTH
    for step in range(S.ceildiv(blocks, 4)):
        block = step * 4 + S.get_local_id()
        if block < blocks:
            v = x[block * WIDTH : block * WIDTH + WIDTH]
            negative = alpha * (S.exp(S.min(v, 0) / alpha) - 1)
            y[block * WIDTH : block * WIDTH + WIDTH] = S.max(v, 0) + negative


# --- transposition and enlargement by DMA ---


@S.prim_func
def transpose(x: S.ptr("u16", "global"), y: S.ptr("u16", "global"), rows: S.i32, columns: S.i32):
    if S.get_local_id() == 0:
        S.dma_transpose2d(y, x, rows, columns)


@S.prim_func
def upsample_row(x: S.ptr("u8", "global"), y: S.ptr("u8", "global"), w: S.i32, c: S.i32):
    line = S.alloc(256, "u8", scope="lsram")
    if S.get_local_id() == 0:
        S.dma_copy(line, x, w * c)
        S.dma_upsample(y, line, 2, 3, c, w)
