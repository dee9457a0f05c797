"""S.stage: a loop over units of work whose operands go through a TEC's local memory because the kernel asks for it.

    def add(count, a, b, y):              # of `count` units: plain loops over pointers
        ...
    stage(add, n, [(a, 1, 1), (b, 1, 1)], [], [(y, 1)], [])

Unit u reads `width` elements from p + u * pitch on, of each (p, width, pitch) of `reads`, and writes all of the `width`
elements from p + u * width on, of each (p, width) of `writes`; what is `shared` is read by all units. The units are
shared out to the TECs, and the body gets some of them at a time, with pointers to what the first of them has: in local
memory, or, where that is not worth it or a unit does not fit, where the operands are.

Parameters, bound by kernels/dsl/stage_parameters.cpp:
  STAGING      staging.py; 0: the target has no local memory that is filled beside its code
  LOCAL_BYTES  of local memory, which the tiles of all operands share
  WORTH        bytes of an operand that a TEC has to have for tiles to be faster than reading where it is
"""

from aipu import script as S
from sharing import balanced
from staging import (
    begin_tile,
    close_stage,
    comes,
    drain,
    fetch,
    is_there,
    open_stage,
    staged_in,
    steps,
    tile_at,
    tile_of,
)

# Buffers begin at multiples of it.
BUFFER_BYTES = 64
# Of what a TEC has, where they do not get too small: nothing runs beside the first one's way in and the last one's way
# out.
PIECES = 4
# Tiles of many units have a multiple of it, so that most of them end with a whole vector.
WHOLE = 32


def capacity_of(p, elements):
    """Elements of a buffer for so many."""
    whole = BUFFER_BYTES // p.dtype.total_bytes
    return S.ceildiv(elements, whole) * whole


def span(units, width, pitch):
    """Elements from the first one of the first unit to the last one of the last."""
    return (units - 1) * pitch + width


def fitting_units(own, reads, shared, writes):
    """Units of a tile, of the `own` ones that a TEC has; below 1 where they are better read where they are."""
    spans = list(reads) + [(p, width, width) for p, width in writes]
    unit_bytes = sum([pitch * p.dtype.total_bytes for p, _, pitch in spans])
    # Beside the pitch of a tile's last unit, and up to where the next buffer begins.
    more = sum([S.max(width - pitch, 0) * p.dtype.total_bytes + BUFFER_BYTES for p, width, pitch in spans])
    room = LOCAL_BYTES - sum([capacity_of(p, width) * p.dtype.total_bytes for p, width in shared])
    most = (room - STAGING * more) // S.max(STAGING * unit_bytes, 1)
    least = S.ceildiv(WORTH * len(spans), S.max(unit_bytes, 1))
    tile = S.i32(0)
    if own >= least:
        tile = S.min(most, S.ceildiv(own, PIECES))
        if tile > WHOLE:
            tile = tile // WHOLE * WHOLE
    return tile


def stage(body, units, reads, shared, writes, values):
    first, last = balanced(units, S.get_local_size(), S.get_local_id())
    if STAGING == 0:
        in_place(body, first, last, reads, shared, writes, values)
    else:
        tile = fitting_units(last - first, reads, shared, writes)
        if tile < 1:
            in_place(body, first, last, reads, shared, writes, values)
        else:
            in_tiles(body, first, last, tile, reads, shared, writes, values)


def in_place(body, first, last, reads, shared, writes, values):
    sources = [p + first * pitch for p, _, pitch in reads]
    results = [p + first * width for p, width in writes]
    if first < last:
        body(last - first, *sources, *[p for p, _ in shared], *results, *values)


def fetch_units(events, tile, operand, unit, count, _, width, pitch):
    fetch(events, tile, operand, unit * pitch, span(count, width, pitch), 1, 0)


def drain_units(events, tile, operand, unit, count, _, width):
    drain(events, tile, operand, unit * width, count * width, 1, 0)


def buffers_of(pool, begin, tile, p, width, pitch):
    """The operand with its buffers, which begin at that byte of the pool; where they end."""
    capacity = capacity_of(p, span(tile, width, pitch))
    return staged_in(p, (pool + begin).as_ptr(p.dtype), capacity), begin + STAGING * capacity * p.dtype.total_bytes


def in_tiles(body, first, last, tile, reads, shared, writes, values):
    pool = S.alloc((LOCAL_BYTES,), "uint8", scope="lsram")
    end = 0
    constants, sources, results = [], [], []
    for k in S.unroll(len(shared)):
        constants.append((pool + end).as_ptr(shared[k][0].dtype))
        S.dma_copy(constants[k], shared[k][0], shared[k][1])
        end = end + capacity_of(*shared[k]) * shared[k][0].dtype.total_bytes
    for k in S.unroll(len(reads)):
        operand, end = buffers_of(pool, end, tile, *reads[k])
        sources.append(operand)
    for k in S.unroll(len(writes)):
        operand, end = buffers_of(pool, end, tile, *writes[k], writes[k][1])
        results.append(operand)

    tiles = S.ceildiv(last - first, tile)
    events = open_stage()
    for step in steps(0, tiles):
        if comes(step, tiles):
            unit = first + step * tile
            count = S.min(tile, last - unit)
            for k in S.unroll(len(reads)):
                fetch_units(events, step, sources[k], unit, count, *reads[k])
        if is_there(step, 0):
            number = tile_at(step)
            unit = first + number * tile
            count = S.min(tile, last - unit)
            begin_tile(events, number)
            body(
                count,
                *[tile_of(source, number, 0) for source in sources],
                *constants,
                *[tile_of(result, number, 0) for result in results],
                *values,
            )
            for k in S.unroll(len(writes)):
                drain_units(events, number, results[k], unit, count, *writes[k])
    close_stage(events, tiles)
