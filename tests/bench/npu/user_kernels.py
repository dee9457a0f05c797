"""Kernels as users write them, each in three forms: loops over memory, tiles moved by hand, and S.stage, which is asked
to move them. For cycles.py, and to read.

What is computed is written once, as a function of pointers, which all three forms call.
"""

from aipu import script as S

VL = 8


def add_elements(count, a, b, y):
    for i in range(0, count, VL):
        mask = S.tail_mask(S.min(count - i, VL), VL)
        S.vstore(S.vload(a + i, mask=mask) + S.vload(b + i, mask=mask), y + i, mask=mask)


@S.prim_func
def add_in_place(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    share = S.ceildiv(n, S.get_local_size())
    first = S.get_local_id() * share
    add_elements(S.min(share, n - first), a + first, b + first, y + first)


@S.prim_func
def add_by_hand(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    tile = S.min(1024, n // S.get_local_size())
    ta, tb, ty = [S.alloc((2 * 1024,), "fp32", scope="lsram") for _ in range(3)]
    come_even, come_odd, leave_even, leave_odd = S.alloc_events(4)
    tiles = n // S.get_local_size() // tile
    first = S.get_local_id() * tiles * tile
    for step in range(tiles + 1):
        if step < tiles:
            comes = come_odd if step % 2 == 1 else come_even
            S.async_dma_copy(ta + step % 2 * tile, a + (first + step * tile), tile, event=comes)
            S.async_dma_copy(tb + step % 2 * tile, b + (first + step * tile), tile, event=comes)
        if step > 0:
            t = step - 1
            leaves = leave_odd if t % 2 == 1 else leave_even
            S.wait_events(come_odd if t % 2 == 1 else come_even)
            if t >= 2:
                S.wait_events(leaves)
            add_elements(tile, ta + t % 2 * tile, tb + t % 2 * tile, ty + t % 2 * tile)
            S.async_dma_copy(y + (first + t * tile), ty + t % 2 * tile, tile, event=leaves)
    S.free_events(come_even, come_odd, leave_even, leave_odd)


@S.prim_func
def add_staged(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    S.stage(add_elements, n, reads=[a, b], writes=[y])


def softmax_rows(count, x, y, width):
    """Of rows of whole vectors."""
    for row in range(count):
        p, q = x + row * width, y + row * width
        highest = S.vload(p)
        for j in range(VL, width, VL):
            highest = S.max(highest, S.vload(p + j))
        peak = S.vbcast(S.vrpmax(highest)[0])
        total = S.fp32x8(0)
        for j in range(0, width, VL):
            value = S.exp(S.vload(p + j) - peak)
            S.vstore(value, q + j)
            total = total + value
        scale = S.vbcast(S.fp32(1) / S.vrpadd(total)[0])
        for j in range(0, width, VL):
            S.vstore(S.vload(q + j) * scale, q + j)


@S.prim_func
def softmax_in_place(x: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), rows: S.i32, width: S.i32):
    share = S.ceildiv(rows, S.get_local_size())
    first = S.get_local_id() * share
    softmax_rows(S.min(share, rows - first), x + first * width, y + first * width, width)


@S.prim_func
def softmax_by_hand(x: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), rows: S.i32, width: S.i32):
    tx, ty = [S.alloc((2 * 2048,), "fp32", scope="lsram") for _ in range(2)]
    come_even, come_odd, leave_even, leave_odd = S.alloc_events(4)
    tile = 2048 // width
    size = tile * width
    tiles = rows // S.get_local_size() // tile
    first = S.get_local_id() * tiles * size
    for step in range(tiles + 1):
        if step < tiles:
            S.async_dma_copy(
                tx + step % 2 * 2048, x + (first + step * size), size, event=come_odd if step % 2 == 1 else come_even
            )
        if step > 0:
            t = step - 1
            leaves = leave_odd if t % 2 == 1 else leave_even
            S.wait_events(come_odd if t % 2 == 1 else come_even)
            if t >= 2:
                S.wait_events(leaves)
            softmax_rows(tile, tx + t % 2 * 2048, ty + t % 2 * 2048, width)
            S.async_dma_copy(y + (first + t * size), ty + t % 2 * 2048, size, event=leaves)
    S.free_events(come_even, come_odd, leave_even, leave_odd)


@S.prim_func
def softmax_staged(x: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), rows: S.i32, width: S.i32):
    S.stage(softmax_rows, rows, reads=[(x, width)], writes=[(y, width)], values=[width])


def product_rows(count, a, b, c, depth, columns):
    for row in range(count):
        for j in range(0, columns, 2 * VL):
            left, right = S.fp32x8(0), S.fp32x8(0)
            for k in range(depth):
                factor = S.vbcast((a + row * depth)[k])
                left = S.fma(left, factor, S.vload(b + (k * columns + j)))
                right = S.fma(right, factor, S.vload(b + (k * columns + j + VL)))
            S.vstore(left, c + (row * columns + j))
            S.vstore(right, c + (row * columns + j + VL))


@S.prim_func
def product_in_place(
    a: S.ptr("fp32", "global"),
    b: S.ptr("fp32", "global"),
    c: S.ptr("fp32", "global"),
    rows: S.i32,
    depth: S.i32,
    columns: S.i32,
):
    share = S.ceildiv(rows, S.get_local_size())
    first = S.get_local_id() * share
    product_rows(S.min(share, rows - first), a + first * depth, b, c + first * columns, depth, columns)


@S.prim_func
def product_by_hand(
    a: S.ptr("fp32", "global"),
    b: S.ptr("fp32", "global"),
    c: S.ptr("fp32", "global"),
    rows: S.i32,
    depth: S.i32,
    columns: S.i32,
):
    ta, tc = [S.alloc((2 * 512,), "fp32", scope="lsram") for _ in range(2)]
    tb = S.alloc((4096,), "fp32", scope="lsram")
    come_even, come_odd, leave_even, leave_odd = S.alloc_events(4)
    S.dma_copy(tb, b, depth * columns)
    tile = 512 // S.max(depth, columns)
    tiles = rows // S.get_local_size() // tile
    first = S.get_local_id() * tiles * tile
    for step in range(tiles + 1):
        if step < tiles:
            S.async_dma_copy(
                ta + step % 2 * 512,
                a + (first + step * tile) * depth,
                tile * depth,
                event=come_odd if step % 2 == 1 else come_even,
            )
        if step > 0:
            t = step - 1
            leaves = leave_odd if t % 2 == 1 else leave_even
            S.wait_events(come_odd if t % 2 == 1 else come_even)
            if t >= 2:
                S.wait_events(leaves)
            product_rows(tile, ta + t % 2 * 512, tb, tc + t % 2 * 512, depth, columns)
            S.async_dma_copy(c + (first + t * tile) * columns, tc + t % 2 * 512, tile * columns, event=leaves)
    S.free_events(come_even, come_odd, leave_even, leave_odd)


@S.prim_func
def product_staged(
    a: S.ptr("fp32", "global"),
    b: S.ptr("fp32", "global"),
    c: S.ptr("fp32", "global"),
    rows: S.i32,
    depth: S.i32,
    columns: S.i32,
):
    S.stage(
        product_rows,
        rows,
        reads=[(a, depth)],
        shared=[(b, depth * columns)],
        writes=[(c, columns)],
        values=[depth, columns],
    )
