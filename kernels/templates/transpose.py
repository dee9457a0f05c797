"""A copy between layouts: target[..., a, b] = source[..., a, b] where the source is contiguous along a and the target
along b.

Parameters bound by kernels/parts/transposed_copy.cpp:
  X                        element type (moved as it is)
  dim_types, stride_types  RANK and 2 * RANK int32 scalars: extents, then the strides of the source, then those of the
                           target
  LANES                    edge of a block: LANES rows of LANES elements turn over in registers
  STAGING                  staging.py; with local memory a unit of work is a tile there
  WIDTH, STRIP             elements of a and of b in a unit of work
  ROWS                     the extent of b where it is known and small and the target contiguous along both; else 0

A block turns over by perfect shuffles: zipping the lower with the upper half of the rows moves one bit of the row
number into the lane number. Work units are strips of WIDTH elements of a and up to STRIP elements of b; TECs take
contiguous ranges of units.
"""

from aipu import script as S
from sharing import own_share
from staging import begin_tile, close_stage, comes, drain, fetch, is_there, open_stage, staged, steps, tile_at, tile_of


def turned_over(rows, steps):
    if steps == 1:
        return rows
    half = LANES // 2
    zipped = []
    for i in S.unroll(half):
        zipped.append(S.vzip(rows[i], rows[i + half], "low"))
        zipped.append(S.vzip(rows[i], rows[i + half], "high"))
    return turned_over(zipped, steps // 2)


@S.macro
def full_tile(p, q, source_stride, target_stride):
    columns = turned_over([S.vload(p + r * source_stride, lanes=LANES) for r in range(LANES)], LANES)
    for c in S.unroll(LANES):
        S.vstore(columns[c], q + c * target_stride)


@S.macro
def by_elements(p, q, source_stride, target_stride, width, height):
    # Stores that are masked cost more than they save.
    for i in range(width):
        if ROWS > 0:
            for r in S.unroll(ROWS):
                q[i * ROWS + r] = p[r * source_stride + i]
        else:
            for j in range(height):
                q[i * target_stride + j] = p[j * source_stride + i]


def by_rows(p, q, source_pitch, target_pitch, width, height):
    """What blocks leave, in local memory: storing lanes apart costs little more there than storing them."""
    for j in range(height):
        for i in range(0, width, LANES):
            mask = S.tail_mask(S.min(width - i, LANES), LANES)
            row = S.vload(p + (j * source_pitch + i), mask=mask, lanes=LANES)
            S.vstore(row, q + (i * target_pitch + j), stride=target_pitch, mask=mask)


def by_blocks(p, q, source_pitch, target_pitch, width, height):
    """A tile in local memory."""
    whole_width = 0 if ROWS > 0 else width // LANES * LANES
    if ROWS == 0:
        whole_height = height // LANES * LANES
        for i in range(0, whole_width, LANES):
            for j in range(0, whole_height, LANES):
                full_tile(p + (j * source_pitch + i), q + (i * target_pitch + j), source_pitch, target_pitch)
        below = height - whole_height
        by_rows(p + whole_height * source_pitch, q + whole_height, source_pitch, target_pitch, whole_width, below)
    rest = width - whole_width
    by_rows(p + whole_width, q + whole_width * target_pitch, source_pitch, target_pitch, rest, height)


@S.record
class Tile:
    """Where it begins, in both tensors, and its elements of a and of b."""

    source: S.i32
    target: S.i32
    width: S.i32
    height: S.i32


def tile_number(unit, dims, strides, a_blocks, strips):
    a = unit % a_blocks * WIDTH
    rest = unit // a_blocks
    b = rest % strips * STRIP
    rest = rest // strips
    source = a + b * strides[RANK - 1]
    target = a * strides[2 * RANK - 2] + b
    for e in S.unroll(RANK - 2):
        index = rest % dims[RANK - 3 - e]
        rest = rest // dims[RANK - 3 - e]
        source = source + index * strides[RANK - 3 - e]
        target = target + index * strides[2 * RANK - 3 - e]
    return Tile(source, target, S.min(WIDTH, dims[RANK - 2] - a), S.min(STRIP, dims[RANK - 1] - b))


def turn_over(p, q, source_pitch, target_pitch, width, height):
    full = S.i32(0)
    if ROWS == 0 and width == LANES:
        full = height // LANES * LANES
        for j in range(0, full, LANES):
            full_tile(p + j * source_pitch, q + j, source_pitch, target_pitch)
    if full < height:
        by_elements(p + full * source_pitch, q + full, source_pitch, target_pitch, width, height - full)


@S.prim_func
def transpose(source: S.ptr(X, "global"), target: S.ptr(X, "global"), dims: dim_types, strides: stride_types):
    source_stride = strides[RANK - 1]
    target_stride = strides[2 * RANK - 2]
    a_blocks = S.ceildiv(dims[RANK - 2], WIDTH)
    strips = S.ceildiv(dims[RANK - 1], STRIP)
    units = a_blocks * strips
    for d in S.unroll(RANK - 2):
        units = units * dims[d]
    first, last = own_share(units)
    stage = open_stage()
    from_source, to_target = staged(source, WIDTH * STRIP), staged(target, WIDTH * STRIP)
    for step in steps(first, last):
        if comes(step, last):
            tile = tile_number(step, dims, strides, a_blocks, strips)
            fetch(stage, step - first, from_source, tile.source, tile.width, tile.height, source_stride)
        if is_there(step, first):
            number = tile_at(step) - first
            tile = tile_number(tile_at(step), dims, strides, a_blocks, strips)
            begin_tile(stage, number)
            p, q = tile_of(from_source, number, tile.source), tile_of(to_target, number, tile.target)
            if STAGING == 0:
                turn_over(p, q, source_stride, target_stride, tile.width, tile.height)
            else:
                by_blocks(p, q, tile.width, tile.height, tile.width, tile.height)
            if STAGING > 0:
                row, rows = S.i32(tile.height), S.i32(tile.width)
                if row == target_stride:
                    # Rows that follow each other are one: DMA takes cycles for each.
                    row = row * rows
                    rows = S.i32(1)
                drain(stage, number, to_target, tile.target, row, rows, target_stride)
    close_stage(stage, S.max(last - first, 0))
