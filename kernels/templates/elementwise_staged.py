"""elementwise.py for targets with local memory: operands whose innermost dimension is contiguous go through it.

Parameters beside those of elementwise.py (BLOCK is not used):
  STAGING   staging.py
  CAPACITY  elements of a tile's buffer, of each operand

A tile is `width` elements of the innermost dimension times some rows of the one around it, at most `tile` elements in
all. Operands that walk the innermost dimension in another way are read where they are, single elements once per row.
"""

from aipu import script as S
from elementwise import check_divisor, load, store_result  # noqa: F401  (expressions call check_divisor)
from sharing import balanced
from staging import (
    begin_tile,
    close_stage,
    comes,
    drain,
    fetch,
    is_there,
    open_stage,
    pitch_of,
    staged,
    steps,
    tile_at,
    tile_of,
)

# Of rows in memory, in elements of up to 8 bytes: what a descriptor of asynchronous DMA holds.
MOST_STRIDE = 0xFFFFFF // 8


def is_staged(k):
    return (out_mode if k == N_IN else modes[k]) == "contiguous"


def stride_of(strides, k, dimension):
    return strides[k * RANK + dimension] if dimension >= 0 else 0


def positions(unit, dims, strides, starts, row_tiles, blocks, rows, width):
    """Where tile `unit` begins: its offset in each operand; how many rows and columns it has."""
    block = unit % blocks
    rest = unit // blocks
    row = rest % row_tiles * rows
    rest = rest // row_tiles
    place = [starts[start_of[k]] if k < N_IN and start_of[k] >= 0 else S.i32(0) for k in range(N_IN + 1)]
    place = [place[k] + block * width * stride_of(strides, k, RANK - 1) for k in range(N_IN + 1)]
    columns = S.min(width, dims[RANK - 1] - block * width)
    if RANK == 1:
        return place, S.i32(1), columns
    place = [place[k] + row * stride_of(strides, k, RANK - 2) for k in range(N_IN + 1)]
    for e in S.unroll(RANK - 2):
        index = rest % dims[RANK - 3 - e]
        rest = rest // dims[RANK - 3 - e]
        place = [place[k] + index * stride_of(strides, k, RANK - 3 - e) for k in range(N_IN + 1)]
    return place, S.min(rows, dims[RANK - 2] - row), columns


def operand(k, sources, singles, numbers, j, lane_mask, strides):
    if k >= N_IN:
        return S.vbcast(numbers[k - N_IN], lanes=VL)
    if modes[k] == "broadcast":
        return singles[k]
    return load(k, sources[k], j, lane_mask, strides[k * RANK + RANK - 1], None)


def vector_step(sources, singles, numbers, p, j, lane_mask, strides):
    operands = [operand(k, sources, singles, numbers, j, lane_mask, strides) for k in range(N_IN + N_NUMBERS)]
    store_result(operands, p, j, lane_mask, strides)


@S.prim_func
def elementwise_staged(
    ins: in_types,
    out: out_type,
    dims: dim_types,
    strides: stride_types,
    starts: start_types,
    numbers: number_types,
    tile: S.i32,
):
    inner = dims[RANK - 1]
    width = S.max(S.min(inner, tile), 1)
    blocks = S.ceildiv(inner, width)
    rows = S.i32(1)
    row_tiles = S.i32(1)
    units = S.i32(blocks)
    if RANK > 1:
        if blocks <= 1:
            rows = S.max(S.min(tile // width, dims[RANK - 2]), 1)
        for k in S.unroll(N_IN + 1):
            if is_staged(k):
                if strides[k * RANK + RANK - 2] > MOST_STRIDE:
                    rows = S.i32(1)
        row_tiles = S.max(S.ceildiv(dims[RANK - 2], rows), 1)
        units = units * S.ceildiv(dims[RANK - 2], rows)
        for d in S.unroll(RANK - 2):
            units = units * dims[d]
    first, last = balanced(units, S.get_local_size(), S.get_local_id())
    stage = open_stage()
    operands = [staged(p, CAPACITY) if is_staged(k) else [p] for k, p in enumerate(list(ins) + [out])]
    for step in steps(first, last):
        if comes(step, last):
            place, height, columns = positions(step, dims, strides, starts, row_tiles, blocks, rows, width)
            for k in S.unroll(N_IN):
                if is_staged(k):
                    fetch(stage, step - first, operands[k], place[k], columns, height, stride_of(strides, k, RANK - 2))
        if is_there(step, first):
            number = tile_at(step) - first
            place, height, columns = positions(tile_at(step), dims, strides, starts, row_tiles, blocks, rows, width)
            begin_tile(stage, number)
            full = columns // VL * VL
            tiles = [
                tile_of(operands[k], number, place[k]) if is_staged(k) else operands[k][0] + place[k]
                for k in range(N_IN + 1)
            ]
            for row in range(height):
                lines = [
                    tiles[k]
                    + row
                    * (
                        pitch_of(columns, stride_of(strides, k, RANK - 2))
                        if is_staged(k)
                        else stride_of(strides, k, RANK - 2)
                    )
                    for k in range(N_IN + 1)
                ]
                singles = [load(k, lines[k], 0, None, 0, None) if modes[k] == "broadcast" else 0 for k in range(N_IN)]
                for j in range(0, full, VL):
                    vector_step(lines, singles, numbers, lines[N_IN], j, None, strides)
                if full < columns:
                    vector_step(lines, singles, numbers, lines[N_IN], full, S.tail_mask(columns - full, VL), strides)
            if is_staged(N_IN):
                drain(stage, number, operands[N_IN], place[N_IN], columns, height, stride_of(strides, N_IN, RANK - 2))
    close_stage(stage, S.max(last - first, 0))
