"""A copy of rows of a few elements, such as the boxes of a detector: contiguous in both tensors, and many.

Parameters bound by kernels/parts/narrow_rows.cpp:
  X                        element type (moved as it is)
  dim_types, stride_types  RANK and 2 * RANK int32 scalars: extents without that of a row, then the strides of the
                           source, then those of the target; the last dimension is walked row by row
  WIDTH                    elements of a row
  VL                       lanes of the vectors that a row is made of, the last one over the one before it where they
                           do not divide it; 0: element by element
  BLOCK                    rows in a unit of work

Work units are blocks of up to BLOCK rows; TECs take contiguous ranges of units. What a row costs is finding it: only
the first one of a unit is found by dividing.
"""

from aipu import script as S
from sharing import own_share


@S.macro
def copy_row(p, q):
    if VL > 0:
        for i in S.unroll(WIDTH // VL):
            S.vstore(S.vload(p + i * VL, lanes=VL), q + i * VL)
        if WIDTH % VL > 0:
            S.vstore(S.vload(p + (WIDTH - VL), lanes=VL), q + (WIDTH - VL))
    else:
        for i in S.unroll(WIDTH):
            q[i] = p[i]


@S.prim_func
def narrow_rows(source: S.ptr(X, "global"), target: S.ptr(X, "global"), dims: dim_types, strides: stride_types):
    rows = dims[RANK - 1]
    blocks = S.ceildiv(rows, BLOCK)
    units = blocks
    for d in S.unroll(RANK - 1):
        units = units * dims[d]
    first, last = own_share(units)
    for unit in range(first, last):
        begin = unit % blocks * BLOCK
        rest = unit // blocks
        from_source = begin * strides[RANK - 1]
        to_target = begin * strides[2 * RANK - 1]
        for e in S.unroll(RANK - 1):
            index = rest % dims[RANK - 2 - e]
            rest = rest // dims[RANK - 2 - e]
            from_source = from_source + index * strides[RANK - 2 - e]
            to_target = to_target + index * strides[2 * RANK - 2 - e]
        p = source + from_source
        q = target + to_target
        for row in range(S.min(BLOCK, rows - begin)):
            copy_row(p + row * strides[RANK - 1], q + row * strides[2 * RANK - 1])
