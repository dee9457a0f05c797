"""Matrix multiplication with fused epilogue: out[b, m, n] = epilogue(sum over k of (a[b, m, k] - a_zero) * panels[b, n
// NR, k, n % NR]).

The tiles of that; the kernels are in matmul.py, what a single row does in gemm_row.py. Parameters bound by
kernels/parts/gemm.cpp for MatMul and 1x1 convolutions:
  A, ACC, OUT      element types of a, of the accumulators, of out
  PANEL, PAIRS     element type of the packed right operand: ACC, or, with PAIRS, bfloat16 like A: two products of
                   neighbours in the depth, which is even, are then summed by one instruction
  PAIRS_TO_ODD     whether that is S.vbfdot rather than S.vdpbf16
  VL, NV           vector lanes and vectors per tile row; a panel is NR = NV * VL columns
  HEIGHTS          tile heights, descending; accumulators + NV + 1 must fit the register file. They end in 1 unless all
                   heights that occur are there
  A_ZERO           whether a zero point is subtracted from a
  extra_types      pointer types of the epilogue's operands; the rest of the epilogue's parameters as in epilogue.py
  USE_FMA, PREFETCH  fused multiply-add (floats); how many k ahead the panel is prefetched, 0 = not
  STREAMS          whether the right operand is so large that it comes from memory
  LAST             vectors of the last panel that have columns, where it pays not to multiply the others; otherwise NV
  ROW_ALONE        whether there may be a single row, for which several panels are read together
  BY_ELEMENT       a product by an element of a register costs no broadcast: VL k at a time, each row's values in one
                   register (where they follow each other and need no conversion)

The right operand is packed in panels [N / NR][K][NR] (with PAIRS [N / NR][K / 2][NR][2]), zero padded; the left one
is read in place with row stride lda and depth stride a_step (in elements; UNIT_DEPTH says that a_step is 1).
"""

from aipu import script as S
from epilogue import finish_tile, prefetch_tile


def multiply_add(acc, value, vector):
    return multiply_add_vectors(acc, S.vbcast(value, lanes=VL), vector)


def multiply_add_vectors(acc, x, y):
    if USE_FMA:
        return S.fma(acc, x, y)
    return acc + x * y


# Row i of a tile starts at base pointer i // ROWS_PER_BASE: then the few multiples of the stride fit the general
# registers (one base would need them all).
ROWS_PER_BASE = 4


def row_bases(a, stride, height):
    return [a + S.i64(j * ROWS_PER_BASE) * stride for j in range((height + ROWS_PER_BASE - 1) // ROWS_PER_BASE)]


def row_value(bases, i, stride, at):
    return bases[i // ROWS_PER_BASE][S.i64(i % ROWS_PER_BASE) * stride + at]


def multiply_blocks(acc, low, high, a, stride, b, depth):
    """acc[i] += a[i - low, k] * b[k] for low <= i < high and whole blocks of VL k, of which each row's values are in
    one register. Returns how many k that are.
    """
    whole = depth // VL * VL
    multiply_whole(acc, low, high, a, stride, b, S.i64(whole), VL, ACC)
    return whole


def multiply_pair_blocks(acc, low, high, a, stride, b, depth):
    """The same of pairs of bfloat16, VL pairs in a register. Returns how many pairs that are."""
    whole = depth // (2 * VL) * (2 * VL)
    multiply_whole(acc, low, high, a, stride, b, S.i64(whole), 2 * VL, PANEL)
    return whole // 2


def multiply_whole(acc, low, high, a, stride, b, whole, lanes, element):
    """`whole` values of each row, a multiple of `lanes`, which is a block's."""
    height = high - low
    blocks = blocks_at_once(acc.shape[0], height)
    right = b
    # Of 64 bits, so that addresses are pointers that move on and not numbers that may wrap.
    if blocks == 0:
        for k in range(S.i64(0), whole, lanes):
            right = multiply_tall(acc, low, height, a + k, stride, right, lanes, element)
    else:
        many = whole // (blocks * lanes) * (blocks * lanes)
        if height <= LOWEST_TILE:
            first = a
            second = a + S.i64(height - 1) * stride
            end = a + many
            while first < end:
                rows = S.alloc_buffer((height * blocks,), f"{element}x{lanes}")
                first = load_blocks(rows, 0, blocks, first, lanes, height == 1)
                if height > 1:
                    second = load_blocks(rows, blocks, blocks, second, lanes, False)
                right = multiply_rows(acc, low, height, rows, blocks, right, lanes, element)
        else:
            for k in range(S.i64(0), many, blocks * lanes):
                right = multiply_low(acc, low, height, a + k, stride, blocks, right, lanes, element)
        k = many
        for shift in S.unroll(1, 4):
            fewer = blocks >> shift
            if fewer > 0:
                if k + fewer * lanes <= whole:
                    right = multiply_low(acc, low, height, a + k, stride, fewer, right, lanes, element)
                    k = k + fewer * lanes


# Those of sums, of the rows' values and of four vectors of the right operand, which one instruction loads. It takes
# four that are neighbours, which the compiler does not find where fewer are left over. Of a block that has no multiple
# of four it loads two (one vector of two elements per row, as of float64).
REGISTERS_OF_A_LOOP = 30
PARTS = 4 if VL * NV % 4 == 0 else 2
# Rows with an address of their own, by which the loop ends: so few that counting would be too much of it.
LOWEST_TILE = 2


def blocks_at_once(sums, rows):
    """How many blocks of VL steps a step of the loop takes, the more the less often addresses move on; 0: not even one
    of each row fits the registers. kernels/README.md has the numbers.
    """
    counts = [8, 4, 2, 1] if rows == 1 else [4, 2, 1]
    if NV == 3:
        counts = counts[1:]
    fitting = [blocks for blocks in counts if sums + blocks * rows + PARTS <= REGISTERS_OF_A_LOOP]
    return fitting[0] if len(fitting) > 0 else 0


def load_blocks(rows, at, blocks, pointer, lanes, by_parts):
    """rows[at], ... = the blocks of a row. Returns where the row goes on."""
    if by_parts:
        for first in S.unroll(0, blocks, PARTS):
            for part in S.unroll(PARTS):
                rows[at + first + part] = S.vload_part(pointer, index=part, count=PARTS, lanes=lanes)
            pointer = pointer + PARTS * lanes
        return pointer
    for block in S.unroll(blocks):
        rows[at + block] = S.vload(pointer + block * lanes, lanes=lanes)
    return pointer + blocks * lanes


def multiply_low(acc, low, height, a, stride, blocks, right, lanes, element):
    """As many blocks of each row, all in registers. Returns where the right operand goes on."""
    rows = S.alloc_buffer((height * blocks,), f"{element}x{lanes}")
    for i in S.unroll(height):
        load_blocks(rows, i * blocks, blocks, a + S.i64(i) * stride, lanes, False)
    return multiply_rows(acc, low, height, rows, blocks, right, lanes, element)


def multiply_rows(acc, low, height, rows, blocks, right, lanes, element):
    """The same of rows that are in registers."""
    parts = S.alloc_buffer((PARTS,), f"{element}x{lanes}")
    for first in S.unroll(0, blocks * VL * NV, PARTS):
        for part in S.unroll(PARTS):
            parts[part] = S.vload_part(right, index=part, count=PARTS, lanes=lanes)
        right = right + PARTS * lanes
        for i in S.unroll(height):
            for part in S.unroll(PARTS):
                step = (first + part) // NV
                at = (low + i) * NV + (first + part) % NV
                row = rows[i * blocks + step // VL]
                acc[at] = multiply_element(acc[at], row, step % VL, parts[part], lanes)
    return right


def multiply_tall(acc, low, height, a, stride, right, lanes, element):
    """A block of each row, of which only a few are in registers beside the right operand's of the block."""
    # With three vectors all rows are, beside those of a step.
    steps = VL if NV == 2 else 1
    at_once = min(height, REGISTERS_OF_A_LOOP - acc.shape[0] - steps * NV) if NV == 2 else height
    rows = S.alloc_buffer((at_once,), f"{element}x{lanes}")
    vectors = S.alloc_buffer((steps * NV,), f"{element}x{lanes}")
    for first in S.unroll(VL // steps):
        if NV == 2:
            for v in S.unroll(steps * NV):
                vectors[v] = S.vload_part(right, index=v % PARTS, count=PARTS, lanes=lanes)
                if v % PARTS == PARTS - 1:
                    right = right + PARTS * lanes
        else:
            for v in S.unroll(NV):
                vectors[v] = S.vload(right + (first * NV + v) * lanes, lanes=lanes)
        for group in S.unroll((height + at_once - 1) // at_once):
            count = min(at_once, height - group * at_once)
            if first == 0:
                for i in S.unroll(count):
                    rows[i] = S.vload(a + S.i64(group * at_once + i) * stride, lanes=lanes)
            for j in S.unroll(steps):
                for i in S.unroll(count):
                    for v in S.unroll(NV):
                        at = (low + group * at_once + i) * NV + v
                        acc[at] = multiply_element(acc[at], rows[i], first * steps + j, vectors[j * NV + v], lanes)
    return right if NV == 2 else right + VL * NV * lanes


def multiply_element(acc, row, at, right, lanes):
    if lanes == 4 * VL:
        return S.vsdot(acc, right, row, lane=at)
    if lanes == 2 * VL:
        return S.vbfdot(acc, right, row, lane=at)
    return multiply_add_vectors(acc, S.vreplic(row, at), right)


def takes_blocks(same_types):
    """Whether products take elements of registers."""
    return BY_ELEMENT and (same_types or (PAIRS and PAIRS_TO_ODD))


def multiply_whole_blocks(acc, low, high, a, stride, b, depth):
    """What of a product takes blocks. Returns how many steps that are."""
    if PAIRS:
        return multiply_pair_blocks(acc, low, high, a, stride, b, depth)
    return multiply_blocks(acc, low, high, a, stride, b, depth)


# What is left behind whole blocks: fewer steps than a block's, and no loop.
LEFT_OVER = VL - 1


# Of a panel; see where they do.
FEWEST_TILES_THAT_FETCH = 4

# A step of a product: one row of a panel, or with PAIRS two of them.


def steps_of(depth):
    return depth // 2 if PAIRS else depth


def step_lanes():
    """Elements of the panel in one of the NV vectors of a step."""
    return 2 * VL if PAIRS else VL


def right_buffer():
    return S.alloc_buffer((NV,), f"{PANEL}x{step_lanes()}")


def pair_value(bases, i, stride, step):
    """Both elements of a step of row i, in all lanes."""
    row = bases[i // ROWS_PER_BASE] + (S.i64(i % ROWS_PER_BASE) * stride + step * 2)
    return S.reinterpret(S.vbcast(row.as_ptr("i32")[0], lanes=VL), f"bfloat16x{2 * VL}")


def add_product(acc, left, right):
    if PAIRS and PAIRS_TO_ODD:
        return S.vbfdot(acc, left, right)
    if PAIRS:
        return S.vdpbf16(acc, left, right)
    return multiply_add(acc, left, right)


@S.record
class Ahead:
    """What a tile fetches of the next panel, `step` elements for each of its steps: a panel that the first of its tiles
    had to fetch alone would be waited for.
    """

    data: S.ptr(PANEL, "global")
    step: S.i64


# How many steps ahead a panel comes into the nearest cache where it comes into the second-level one before.
NEAR = 16


def left_value(bases, i, lda, a_step, a_zero, k):
    if PAIRS:
        return pair_value(bases, i, lda, S.i64(k))
    left = S.cast(row_value(bases, i, lda, S.i64(k) if UNIT_DEPTH else S.i64(k) * a_step), ACC)
    return left - S.cast(a_zero, ACC) if A_ZERO else left


def multiply_step(height, acc, bases, lda, a_step, a_zero, b, bv, k, ahead, streams=False, last=False):
    """With `streams` the panel comes from memory, and only for few rows; with `last` it has LAST vectors."""
    width = LAST if last else NV
    for v in S.unroll(width):
        bv[v] = S.vload(b + (k * (NV * step_lanes()) + v * step_lanes()), lanes=step_lanes())
    if PREFETCH > 0:
        near = NEAR if streams else PREFETCH
        for v in S.unroll(width):
            S.prefetch(b + ((k + near) * (NV * step_lanes()) + v * step_lanes()))
        if streams:
            for v in S.unroll(width):
                S.prefetch(b + ((k + PREFETCH) * (NV * step_lanes()) + v * step_lanes()), level=2)
        # Tiles of three vectors of pairs have no register left for the address. A row alone reads memory in order, and
        # waits for that alone.
        elif height > 1 and not (PAIRS and NV > 2):
            S.prefetch(ahead.data + S.i64(k) * ahead.step, level=2)
    for i in S.unroll(height):
        left = left_value(bases, i, lda, a_step, a_zero, k)
        for v in S.unroll(width):
            acc[i * NV + v] = add_product(acc[i * NV + v], left, bv[v])


def multiply_tile(height, acc, bv, a, lda, a_step, a_zero, b, depth, ahead):
    """acc[i] += a[i, k] * b[k] for all k; `bv` is a right_buffer()."""
    bases = row_bases(a, lda, height)
    if UNIT_DEPTH and not A_ZERO and takes_blocks(A == ACC and PANEL == ACC):
        whole = multiply_whole_blocks(acc, 0, height, a, lda, b, depth)
        for k in S.unroll(LEFT_OVER):
            if whole + k < steps_of(depth):
                multiply_step(height, acc, bases, lda, a_step, a_zero, b, bv, whole + k, ahead)
    elif STREAMS:
        if ahead.step == 0:
            for k in range(steps_of(depth)):
                multiply_step(height, acc, bases, lda, a_step, a_zero, b, bv, k, ahead, True)
        else:
            for k in range(steps_of(depth)):
                multiply_step(height, acc, bases, lda, a_step, a_zero, b, bv, k, ahead)
    else:
        for k in range(steps_of(depth)):
            multiply_step(height, acc, bases, lda, a_step, a_zero, b, bv, k, ahead)


@S.prim_func(is_inline=False)
def gemm_tile(
    height: S.meta_var,
    a: S.ptr(A, "global"),
    lda: S.i64,
    a_step: S.i64,
    a_zero: S.i32,
    b: S.ptr(PANEL, "global"),
    depth: S.i32,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    ldc: S.i32,
    n: S.i32,
    columns: S.i32,
    ahead: Ahead,
):
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    bv = right_buffer()
    for i in S.unroll(height * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    prefetch_tile(height, extras, row_offset, ldc, n)
    multiply_tile(height, acc, bv, a, lda, a_step, a_zero, b, depth, ahead)
    finish_tile(height, acc, extras, out, row_offset, ldc, n, columns if LAST == NV else NV * VL)


@S.prim_func(is_inline=False)
def gemm_tile_last(
    height: S.meta_var,
    a: S.ptr(A, "global"),
    lda: S.i64,
    a_step: S.i64,
    a_zero: S.i32,
    b: S.ptr(PANEL, "global"),
    depth: S.i32,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    ldc: S.i32,
    n: S.i32,
    columns: S.i32,
    ahead: Ahead,
):
    """gemm_tile() of the last panel, with no more than LAST vectors of columns."""
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    bv = right_buffer()
    for i in S.unroll(height * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    prefetch_tile(height, extras, row_offset, ldc, n)
    bases = row_bases(a, lda, height)
    for k in range(steps_of(depth)):
        multiply_step(height, acc, bases, lda, a_step, a_zero, b, bv, k, ahead, False, True)
    finish_tile(height, acc, extras, out, row_offset, ldc, n, columns, LAST)


@S.record
class Product:
    """Extents of products of matrices [rows, depth] and [depth, columns]; batches are counted in two levels."""

    batches: S.i32
    inner_batches: S.i32
    rows: S.i32
    columns: S.i32
    depth: S.i32


@S.record
class BatchStrides:
    outer: S.i32
    inner: S.i32
