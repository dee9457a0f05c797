"""Kernels of matrix multiplication with fused epilogue: which tiles of gemm.py a TEC computes, and in which order.

Parameters as in gemm.py, and of gemm_in_parts() PANELS_OF_A_PART.

Rows are cut into tiles of (almost) equal height rather than full ones and a rest. Loop order: blocks of tiles outer,
panels inside (or the other way round), tiles innermost, the whole of K in registers. Who computes an element does not
change its sum, so results do not depend on the number of TECs.
"""

from aipu import script as S
from epilogue import finish_tile, prefetch_tile
from gemm import (
    FEWEST_TILES_THAT_FETCH,
    Ahead,
    BatchStrides,
    Product,
    gemm_tile,
    gemm_tile_last,
    multiply_tile,
    right_buffer,
    step_lanes,
    steps_of,
)
from gemm_row import row_alone
from sharing import balanced, own_share

# Tiles that TECs share out may leave one of so many idle.
MOST_IDLE = 16


@S.record
class Tiles:
    """What rows are cut into: `count` tiles of `share` rows, the first `rest` of them of one more."""

    count: S.i32
    share: S.i32
    rest: S.i32


def tiles_of(rows):
    count = S.ceildiv(rows, HEIGHTS[0])
    return Tiles(count, rows // S.max(count, 1), rows % S.max(count, 1))


def first_row(tiles, tile):
    return tile * tiles.share + S.min(tile, tiles.rest)


def each_fetches(count):
    """How much each of `count` tiles fetches of the panel that comes next, per step of its depth. Fewer tiles do
    nothing but wait for memory, and had better read it in order.
    """
    step = S.i32(0)
    if count >= FEWEST_TILES_THAT_FETCH:
        step = S.ceildiv(NV * step_lanes(), count)
    return step


def for_each_tile(tiles, first, last, depth, ahead, step, multiply):
    """multiply(height, row, what it fetches of the panel at `ahead`) for tiles [first, last)."""
    m = S.i32(first_row(tiles, first))
    for t in range(first, last):
        end = m + tiles.share
        if t < tiles.rest:
            end = end + 1
        for h in S.unroll(len(HEIGHTS)):
            while m + HEIGHTS[h] <= end:
                fetched = Ahead(ahead + S.i64(t - first) * steps_of(depth) * step, S.i64(step))
                multiply(HEIGHTS[h], m, fetched)
                m = m + HEIGHTS[h]


def by_panel_at(n, left, lda, a_step, a_zero, right, product, extras, out, batch, ldc):
    """What multiplies rows by the panel of columns from n on."""

    def multiply(height, m, fetched):
        of_row, depth, columns = left + m * lda, product.depth, product.columns - n
        row = (batch * product.rows + m) * ldc
        if LAST < NV and columns <= LAST * VL:
            gemm_tile_last(
                height, of_row, lda, a_step, a_zero, right, depth, extras, out, row, ldc, n, columns, fetched
            )
        else:
            gemm_tile(height, of_row, lda, a_step, a_zero, right, depth, extras, out, row, ldc, n, columns, fetched)

    return multiply


@S.prim_func
def gemm(
    a: S.ptr(A, "global"),
    b: S.ptr(PANEL, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    product: Product,
    lda: S.i32,
    a_step: S.i32,
    ldc: S.i32,
    a_batch: BatchStrides,
    b_batch: BatchStrides,
    block_tiles: S.i32,
    a_zero: S.i32,
):
    panels = S.ceildiv(product.columns, NV * VL)
    tiles = tiles_of(product.rows)
    # Blocks of at most block_tiles tiles, more of them where that is what gives every TEC the same amount of work.
    per_block = S.max(S.ceildiv(8 * S.get_local_size(), S.max(product.batches * panels, 1)), 1)
    blocks = S.max(S.ceildiv(tiles.count, block_tiles), S.min(per_block, tiles.count))
    # A wide right operand passes by once, and each TEC reads a part of it; otherwise the rows are walked in order. So
    # are rows that are read again for each panel more often than the right operand would be for their blocks.
    by_panel = (
        product.columns > product.rows and product.batches == 1 and product.rows <= S.max(blocks, 2) * (2 * NV * VL)
    )
    # Of a right operand that is no larger than what is multiplied by it and what comes out, each TEC reads the whole,
    # for rows of its own: what another one has written takes longer to come than what all read.
    tecs = S.get_local_size()
    tiles_each = S.ceildiv(tiles.count, tecs)
    if by_panel and tecs > 1 and tiles_each * tecs * MOST_IDLE <= tiles.count * (MOST_IDLE + 1):
        around = S.i64(product.rows) * (product.depth + product.columns)
        if S.i64(product.depth) * product.columns <= around + around // 4:
            by_panel = False
            blocks = tecs
    first, last = own_share(product.batches * blocks * panels)
    if ROW_ALONE:
        if product.rows == 1:
            row_alone(first, last, panels, a, b, out, extras, product, a_step, ldc, a_batch, b_batch, a_zero)
            first = last
    panel = first % S.max(panels, 1)
    block = (first // S.max(panels, 1)) % S.max(blocks, 1)
    if by_panel:
        panel = first // S.max(blocks, 1)
        block = first % S.max(blocks, 1)
    batch = first // S.max(panels * blocks, 1)
    tile_share = tiles.count // S.max(blocks, 1)
    tile_rest = tiles.count % S.max(blocks, 1)
    for unit in range(first, last):
        tile_first = block * tile_share + S.min(block, tile_rest)
        tile_last = tile_first + tile_share
        if block < tile_rest:
            tile_last = tile_last + 1
        n = panel * (NV * VL)
        left = a
        right = b + panel * (product.depth * (NV * VL))
        if product.batches > 1:
            outer, inner = batch // product.inner_batches, batch % product.inner_batches
            left = left + (outer * a_batch.outer + inner * a_batch.inner)
            right = right + (outer * b_batch.outer + inner * b_batch.inner)
        # The panel of the next unit, of which each tile of this one fetches a part.
        next_panel = panel
        step = each_fetches(tile_last - tile_first)
        if step > 0:
            if not by_panel or block + 1 == blocks:
                next_panel = (panel + 1) % panels
        ahead = right + (next_panel - panel) * (product.depth * (NV * VL))
        multiply = by_panel_at(n, left, lda, a_step, a_zero, right, product, extras, out, batch, ldc)
        for_each_tile(tiles, tile_first, tile_last, product.depth, ahead, step, multiply)
        if by_panel:
            block = block + 1
            if block == blocks:
                block = S.i32(0)
                panel = panel + 1
        else:
            panel = panel + 1
            if panel == panels:
                panel = S.i32(0)
                block = block + 1
                if block == blocks:
                    block = S.i32(0)
                    batch = batch + 1


# Of a deep product the rows that stay in the second-level cache are few, and the panels would pass by for each few of
# them. Parts of the depth make that more rows. Between two parts the sums of PANELS_OF_A_PART panels, a parameter of
# gemm_in_parts(), wait in memory, which does not change them.


@S.record
class Sums:
    """Where the sums of a tile wait, NV * VL per row, and whether they do before and behind a part of the depth."""

    waiting: S.ptr(ACC, "global")
    resume: S.i32
    wait: S.i32


@S.prim_func(is_inline=False)
def gemm_tile_part(
    height: S.meta_var,
    a: S.ptr(A, "global"),
    lda: S.i64,
    b: S.ptr(PANEL, "global"),
    depth: S.i32,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    ldc: S.i32,
    n: S.i32,
    columns: S.i32,
    ahead: Ahead,
    sums: Sums,
):
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    bv = right_buffer()
    for i in S.unroll(height * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    if sums.resume != 0:
        for i in S.unroll(height * NV):
            acc[i] = S.vload(sums.waiting + i * VL, lanes=VL)
    if sums.wait == 0:
        prefetch_tile(height, extras, row_offset, ldc, n)
    multiply_tile(height, acc, bv, a, lda, S.i64(1), 0, b, depth, ahead)
    if sums.wait != 0:
        for i in S.unroll(height * NV):
            S.vstore(acc[i], sums.waiting + i * VL)
    else:
        finish_tile(height, acc, extras, out, row_offset, ldc, n, columns)


def by_part_at(n, left, lda, right, depth, product, extras, out, ldc, sums, first):
    """What multiplies rows by a part of the panel of columns from n on; `sums` are those of row `first`."""

    def multiply(height, m, fetched):
        own = Sums(sums.waiting + (m - first) * (NV * VL), sums.resume, sums.wait)
        columns = product.columns - n
        gemm_tile_part(height, left + m * lda, lda, right, depth, extras, out, m * ldc, ldc, n, columns, fetched, own)

    return multiply


@S.prim_func
def gemm_in_parts(
    a: S.ptr(A, "global"),
    b: S.ptr(PANEL, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    scratch: S.ptr(ACC, "global"),
    product: Product,
    lda: S.i32,
    ldc: S.i32,
    block_tiles: S.i32,
    part_depth: S.i32,
):
    """gemm() of one batch whose left operand's rows lie in the depth, by parts of `part_depth`, a multiple of VL. Each
    TEC has room for the sums of a block of block_tiles tiles times PANELS_OF_A_PART panels in `scratch`.
    """
    panels = S.ceildiv(product.columns, NV * VL)
    tiles = tiles_of(product.rows)
    per_block = S.max(S.ceildiv(8 * S.get_local_size(), S.max(panels, 1)), 1)
    blocks = S.max(S.ceildiv(tiles.count, block_tiles), S.min(per_block, tiles.count))
    first, last = own_share(blocks * panels)
    if ROW_ALONE:
        if product.rows == 1:
            none = BatchStrides(outer=0, inner=0)
            row_alone(first, last, panels, a, b, out, extras, product, S.i64(1), ldc, none, none, 0)
            first = last
    block_rows = block_tiles * HEIGHTS[0]
    own = scratch + S.i64(S.get_local_id()) * (block_rows * (PANELS_OF_A_PART * NV * VL))
    panel_size = product.depth * (NV * VL)
    unit = first
    while unit < last:
        block, panel = unit // panels, unit % panels
        count = S.min(S.min(last - unit, panels - panel), PANELS_OF_A_PART)
        tile_first, tile_last = balanced(tiles.count, blocks, block)
        block_first = first_row(tiles, tile_first)
        step = each_fetches(tile_last - tile_first)
        for k in range(0, product.depth, part_depth):
            depth = S.min(part_depth, product.depth - k)
            for p in range(count):
                right = b + ((panel + p) * panel_size + k * (NV * VL))
                # The next panel's part, or the next part of the first one.
                ahead = right + panel_size
                if p + 1 == count:
                    ahead = b + (panel * panel_size + (k + depth) * (NV * VL))
                    if k + depth >= product.depth:
                        ahead = b + (panel + count) % panels * panel_size
                if step == 0:
                    ahead = right
                sums = Sums(
                    own + p * block_rows * (NV * VL), S.cast(k > 0, "int32"), S.cast(k + depth < product.depth, "int32")
                )
                n = (panel + p) * (NV * VL)
                multiply = by_part_at(n, a + k, lda, right, depth, product, extras, out, ldc, sums, block_first)
                for_each_tile(tiles, tile_first, tile_last, depth, ahead, step, multiply)
        unit = unit + count


@S.prim_func
def pack_panels(
    b: S.ptr(B, "global"),
    packed: S.ptr(ACC, "global"),
    batches: S.i32,
    depth: S.i32,
    columns: S.i32,
    batch_stride: S.i32,
    row_stride: S.i32,
    column_stride: S.i32,
    b_zero: S.i32,
):
    """packed[batch][n // NR][k][n % NR] = b[batch, k, n] - b_zero, zero padded; for right operands known only at run
    time.
    """
    panels = S.ceildiv(columns, NV * VL)
    units = batches * panels
    first, last = own_share(units)
    for unit in range(first, last):
        batch = unit // panels
        n = (unit % panels) * (NV * VL)
        source = b + (batch * batch_stride + n * column_stride)
        target = packed + unit * (depth * (NV * VL))
        for k in range(depth):
            for v in S.unroll(NV):
                lane_mask = S.tail_mask(S.max(S.min(columns - n - v * VL, VL), 0), VL)
                if UNIT_COLUMNS:
                    raw = S.vload(source + (k * row_stride + v * VL), mask=lane_mask, lanes=VL)
                else:
                    raw = S.vload(
                        source + (k * row_stride + v * VL * column_stride),
                        mask=lane_mask,
                        lanes=VL,
                        stride=column_stride,
                    )
                if B_ZERO:
                    # Padding lanes may hold anything: their columns are never stored.
                    S.vstore(S.cast(raw, ACC) - S.cast(b_zero, ACC), target + (k * (NV * VL) + v * VL))
                else:
                    S.vstore(S.cast(raw, ACC), target + (k * (NV * VL) + v * VL))
