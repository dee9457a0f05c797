"""A copy between layouts: target[..., a, b] = source[..., a, b] where the source is contiguous along a and the target
along b.

Parameters bound by kernels/parts/transposed_copy.cpp:
  X                        element type (moved as it is)
  dim_types, stride_types  RANK and 2 * RANK int32 scalars: extents, then the strides of the source, then those of the
                           target
  LANES                    edge of a tile: LANES rows of LANES elements turn over in registers
  WIDTH, STRIP             elements of a and of b in a unit of work
  ROWS                     the extent of b where it is known and small and the target contiguous along both; else 0

A tile turns over by perfect shuffles: zipping the lower with the upper half of the rows moves one bit of the row number
into the lane number. Work units are strips of WIDTH elements of a and up to STRIP elements of b; TECs take contiguous
ranges of units.
"""

from aipu import script as S
from sharing import own_share


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


@S.prim_func
def transpose(source: S.ptr(X, "global"), target: S.ptr(X, "global"), dims: dim_types, strides: stride_types):
    a_extent = dims[RANK - 2]
    b_extent = dims[RANK - 1]
    source_stride = strides[RANK - 1]
    target_stride = strides[2 * RANK - 2]
    a_blocks = S.ceildiv(a_extent, WIDTH)
    strips = S.ceildiv(b_extent, STRIP)
    units = a_blocks * strips
    for d in S.unroll(RANK - 2):
        units = units * dims[d]
    first, last = own_share(units)
    for unit in range(first, last):
        a = unit % a_blocks * WIDTH
        rest = unit // a_blocks
        b = rest % strips * STRIP
        rest = rest // strips
        p = source + (a + b * source_stride)
        q = target + (a * target_stride + b)
        for e in S.unroll(RANK - 2):
            index = rest % dims[RANK - 3 - e]
            rest = rest // dims[RANK - 3 - e]
            p = p + index * strides[RANK - 3 - e]
            q = q + index * strides[2 * RANK - 3 - e]
        width = S.min(WIDTH, a_extent - a)
        height = S.min(STRIP, b_extent - b)
        full = 0
        if ROWS == 0 and width == LANES:
            full = height // LANES * LANES
            for j in range(0, full, LANES):
                full_tile(p + j * source_stride, q + j, source_stride, target_stride)
        if full < height:
            by_elements(p + full * source_stride, q + full, source_stride, target_stride, width, height - full)
