"""Tiles of operands in a TEC's local memory: DMA brings them in and writes them back beside the computation.

Parameter, bound by kernels/parts/staging.cpp:
  STAGING  buffers per operand in local memory. 2: one is computed with while the other one is filled or written back;
           1: every copy is waited for where it starts; 0: none, operands are used where they are (hosts)

With STAGING = 0 a tile is the operand's own memory, and the loop below is one over the tiles: nothing is allocated,
copied or waited for, no instruction is added. The way of a TEC through its tiles first <= t < last:

    stage = open_stage()
    a, y = staged(x, capacity), staged(out, capacity)
    for step in steps(first, last):
        if comes(step, last):
            fetch(stage, step - first, a, offset of tile `step`, ...)
        if is_there(step, first):
            t = tile_at(step)
            begin_tile(stage, t - first)
            ... from tile_of(a, t - first, its offset) to tile_of(y, t - first, its offset)
            drain(stage, t - first, y, its offset, ...)
    close_stage(stage, last - first)

Tiles alternate between the two buffers. A buffer is waited for before it is used again, never before the next transfer
starts: while tile t is computed t + 1 comes and t - 1 leaves. Tile t + 1 must not read what tile t writes.
"""

from aipu import script as S

# How many tiles a fetch is ahead of what is computed.
AHEAD = 1 if STAGING == 2 else 0


def steps(first, last):
    """With two buffers one more than there are tiles, as the first step only fetches."""
    return range(first, last + AHEAD)


def comes(step, last):
    return STAGING == 1 if AHEAD == 0 else step < last


def is_there(step, first):
    return True if AHEAD == 0 else step > first


def tile_at(step):
    return step - AHEAD


def open_stage():
    """Events: of tiles that come, even and odd ones, and of tiles that leave."""
    return S.alloc_events(4) if STAGING == 2 else None


def staged(p, capacity):
    """The operand at p with buffers of `capacity` elements (a number known when compiling)."""
    if STAGING == 0:
        return [p]
    return [p, S.alloc((STAGING * capacity,), p.dtype, scope="lsram"), capacity]


def staged_in(p, buffers, capacity):
    """The operand at p with its buffers, of `capacity` elements each, in memory that the kernel has allocated; so
    kernels can be shared by tiles of different sizes.
    """
    return [p, buffers, capacity]


def tile_of(operand, tile, offset):
    """Where the elements of a tile are, that are `offset` behind the operand's pointer in memory."""
    if STAGING == 0:
        return operand[0] + offset
    if STAGING == 1:
        return operand[1]
    return operand[1] + (tile & 1) * operand[2]


def event_of(stage, tile, leaves):
    odd, even = (stage[3], stage[2]) if leaves else (stage[1], stage[0])
    return odd if (tile & 1) == 1 else even


def fetch(stage, tile, operand, offset, width, rows, stride):
    """Starts bringing a tile of `rows` rows in, which lie `stride` elements apart in memory and follow each other in
    the buffer. A stride of 0 is one row for all; the tile's pitch is then 0, too: see pitch_of().
    """
    if STAGING == 0:
        return
    target = tile_of(operand, tile, 0)
    source = operand[0] + offset
    if rows == 1 or stride >= width:
        copy(stage, tile, False, target, source, width, stride, rows, width)
    elif stride == 0:
        copy(stage, tile, False, target, source, width, width, 1, width)
    else:
        # Rows that overlap or go backwards.
        for row in range(rows):
            copy(stage, tile, False, target + row * width, source + row * stride, width, width, 1, width)


def pitch_of(width, stride):
    """How far the rows of a tile are apart in its buffer."""
    return stride if STAGING == 0 else (width if stride != 0 else 0)


def drain(stage, tile, operand, offset, width, rows, stride):
    """Starts writing a tile back, whose rows do not overlap in memory."""
    if STAGING > 0:
        copy(stage, tile, True, operand[0] + offset, tile_of(operand, tile, 0), width, width, rows, stride)


def copy(stage, tile, leaves, target, source, width, source_stride, rows, target_stride):
    if STAGING == 1:
        S.dma_copy(target, source, width, source_stride, rows, target_stride)
    else:
        S.async_dma_copy(target, source, width, source_stride, rows, target_stride, event=event_of(stage, tile, leaves))


def begin_tile(stage, tile, drains=True):
    """Waits until a tile is there, and until the buffers of its results have been written back two tiles ago; without
    `drains` there are none, and close_stage() is for 0 tiles.
    """
    if STAGING == 2:
        S.wait_events(event_of(stage, tile, False))
        if drains and tile >= 2:
            S.wait_events(event_of(stage, tile, True))


def close_stage(stage, tiles):
    """Waits for the results of the last two of `tiles` tiles."""
    if STAGING == 2:
        if tiles >= 2:
            S.wait_events(event_of(stage, tiles, True))
        if tiles >= 1:
            S.wait_events(event_of(stage, tiles + 1, True))
        S.free_events(stage[0], stage[1], stage[2], stage[3])
