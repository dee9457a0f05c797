"""A fused elementwise expression over an N-dimensional index space: out[i] = compute(ins[0][i], ins[1][i], ...).

Parameters bound by kernels/parts/strided_map.cpp:
  in_types, out_type       pointer types of the operands (bool tensors are uint8)
  dim_types, stride_types  RANK and (N_IN + 1) * RANK int32 scalars
  modes[k], out_mode       how operand k walks the innermost dimension: contiguous, broadcast (stride 0), strided, and
                           for inputs reversed (stride -1), backward (negative), selected (0 or not at run time),
                           by_table (the elements' places are a table's, of elementwise_by_tables()), table (it is
                           a pointer, and the expression looks up what it wants)
  table_types, table_of[k]  of elementwise_by_tables() alone: int32 pointers; which of them is the table of operand k
  start_types, start_of[k]  int32 scalars; which of them is the place of operand k's first element from its pointer, for
                           operands that are walked backwards (an argument begins with what its pointer points at); -1:
                           the pointer is that place
  conversions[k], out_conversion  none, mask (uint8 <-> bool vector) or float32 (16-bit floats are computed in float32)
  ahead[k]                 how many elements in front of its own place contiguous operand k is fetched; 0: none
  number_types             N_NUMBERS scalars, which are the operands behind the N_IN tensors
  compute(x)               the expression; x[k] is operand k as a vector of VL lanes
  FAULTS                   the codes of what it may report; if there are any, it is compute(x, active), with the mask of
                           the lanes that count or None

Work units are blocks of BLOCK elements of the innermost dimension; TECs take contiguous ranges of units.
"""

from aipu import script as S
from sharing import own_share


def turned(lane_mask):
    return None if lane_mask is None else S.vrevs(lane_mask)


def load(k, p, j, lane_mask, stride, tables):
    if modes[k] == "table":
        return p
    if modes[k] == "by_table":
        places = S.vload(tables[table_of[k]] + j, mask=lane_mask, lanes=VL)
        raw = S.vload_gather(p, places, mask=lane_mask)
    elif modes[k] == "broadcast":
        raw = S.vbcast(p[0], lanes=VL)
    elif modes[k] == "contiguous":
        if ahead[k] > 0 and lane_mask is None:
            S.prefetch(p + (j + ahead[k]))
        raw = S.vload(p + j, mask=lane_mask, lanes=VL)
    elif modes[k] == "reversed":
        raw = S.vrevs(S.vload(p - (j + (VL - 1)), mask=turned(lane_mask), lanes=VL))
    elif modes[k] == "backward":
        # The language's strides are positive.
        raw = S.vrevs(S.vload(p + (j + (VL - 1)) * stride, mask=turned(lane_mask), lanes=VL, stride=0 - stride))
    elif modes[k] == "selected":
        raw = S.vbcast(p[0], lanes=VL)
        if stride != 0:
            raw = S.vload(p + j * stride, mask=lane_mask, lanes=VL, stride=stride)
    else:
        raw = S.vload(p + j * stride, mask=lane_mask, lanes=VL, stride=stride)
    if conversions[k] == "mask":
        return raw != 0
    if conversions[k] == "float32":
        return S.cast(raw, "float32")
    return raw


def converted(value):
    if out_conversion == "mask":
        return S.vsel(S.cast(1, f"uint8x{VL}"), S.cast(0, f"uint8x{VL}"), value)
    if out_conversion == "float32":
        return S.cast(value, out_dtype)
    return value


def check_divisor(fault, divisor, active):
    zero = divisor == 0
    if active is not None:
        zero = zero & active
    if S.vany(zero):
        S.report_fault(fault, 0, 0)


def operand(k, sources, numbers, j, lane_mask, strides, tables):
    if k >= N_IN:
        return S.vbcast(numbers[k - N_IN], lanes=VL)
    return load(k, sources[k], j, lane_mask, strides[k * RANK + RANK - 1], tables)


def store_result(operands, p, j, lane_mask, strides):
    value = converted(compute(operands, lane_mask) if len(FAULTS) > 0 else compute(operands))
    if out_mode == "contiguous":
        S.vstore(value, p + j, mask=lane_mask)
    else:
        S.vstore(value, p + j * strides[N_IN * RANK + RANK - 1], mask=lane_mask, stride=strides[N_IN * RANK + RANK - 1])


def step(sources, numbers, p, j, lane_mask, strides, tables):
    operands = [operand(k, sources, numbers, j, lane_mask, strides, tables) for k in range(N_IN + N_NUMBERS)]
    store_result(operands, p, j, lane_mask, strides)


def walk(ins, out, dims, strides, starts, numbers, tables):
    inner = dims[RANK - 1]
    blocks = S.ceildiv(inner, BLOCK)
    rows = 1
    for d in S.unroll(RANK - 1):
        rows = rows * dims[d]
    units = rows * blocks
    first, last = own_share(units)
    position = S.alloc_buffer((N_IN + 1,), "i32")
    for unit in range(first, last):
        for k in S.unroll(N_IN + 1):
            position[k] = starts[start_of[k]] if start_of[k] >= 0 else 0
        rest = unit // blocks
        for e in S.unroll(RANK - 1):
            index = rest % dims[RANK - 2 - e]
            rest = rest // dims[RANK - 2 - e]
            for k in S.unroll(N_IN + 1):
                position[k] += index * strides[k * RANK + RANK - 2 - e]
        begin = (unit % blocks) * BLOCK
        end = S.min(begin + BLOCK, inner)
        full = begin + (end - begin) // VL * VL
        sources = [ins[k] + position[k] for k in range(N_IN)]
        target = out + position[N_IN]
        for j in range(begin, full, VL):
            step(sources, numbers, target, j, None, strides, tables)
        if full < end:
            step(sources, numbers, target, full, S.tail_mask(end - full, VL), strides, tables)


@S.prim_func
def elementwise(
    ins: in_types, out: out_type, dims: dim_types, strides: stride_types, starts: start_types, numbers: number_types
):
    walk(ins, out, dims, strides, starts, numbers, None)


@S.prim_func
def elementwise_by_tables(
    ins: in_types,
    out: out_type,
    dims: dim_types,
    strides: stride_types,
    starts: start_types,
    numbers: number_types,
    tables: table_types,
):
    """The same with operands that are read by tables, whose places are lanes of 32 bits."""
    walk(ins, out, dims, strides, starts, numbers, tables)
