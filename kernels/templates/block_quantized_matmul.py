"""Products with weights of 4 or 8 bits that have a scale, and perhaps a zero point, for each block of the depth:
out[m, n] = epilogue(sum over k of x[m, k] * (codes[n, k] - zero[n, k // BLOCK]) * scale[n, k // BLOCK]).

Parameters bound by kernels/plugins/block_quantized.cpp:
  BITS, BLOCK  of a code; consecutive k with one scale: a multiple of VL and of the codes in a word
  SCALE, zero_types  element type of the scales; the pointer type of the zero points, or none: they are 2^(BITS - 1)
  A, VL, NV, HEIGHTS and the rest of gemm.py's, for many rows
  PANEL_VECTORS  vectors of a panel of the codes, a multiple of NV
  FEW_ROWS     up to that many rows are multiplied by codes, more by weights that were made of them; 0: never
  MANY_ROWS    whether there may be more
  FEW_HEIGHTS, FEW_VECTORS  rows, descending to 1, and vectors of tiles of few rows: sums of blocks, sums of all and a
               vector of codes fit the registers

The codes are packed in panels [N / (PANEL_VECTORS * VL)][K / codes in a word][PANEL_VECTORS * VL] of 32-bit words,
whose lowest bits are the code that comes first; scales and zero points in panels [..][K / BLOCK][PANEL_VECTORS * VL].
All are filled up with zeros to whole panels and blocks.

Few rows are a matter of reading the codes. A code becomes a number where it stands in its word: masked and converted it
is the code times a power of two, which x was divided by (rows are copied first: with what is missing of the last block,
as zeros, and with the sums that the zero point of each block is multiplied by). So a vector of codes costs a mask, a
conversion and a multiply-add per row; scales and zero points once per block. Rows of numbers so large that products by
codes may overflow, or infinite, are computed again with weights (careful_tile).
"""

from aipu import script as S
from epilogue import finish_tile
from gemm import gemm_tile
from sharing import balanced, own_share

CODES = 32 // BITS  # in a word
HALF = CODES // 2  # in each half of a word
WORDS = BLOCK // CODES  # of a block
PANEL_WIDTH = PANEL_VECTORS * VL
LARGE = 2.0 ** (127 - BITS)  # where the magnitudes of a row sum up to less, no sum of its products by codes overflows


def vector(number):
    return S.cast(number, f"float32x{VL}")


def zero_of(zeros, at):
    """The zero points of a block, one per column."""
    if len(zeros) == 0:
        return vector(1 << (BITS - 1))
    return S.cast(S.vload(zeros[0] + at, lanes=VL), "float32")


def scale_of(scale, at):
    return S.cast(S.vload(scale + at, lanes=VL), "float32")


@S.prim_func(is_inline=False)
def copy_row(
    x: S.ptr(A, "global"),
    depth: S.i32,
    blocks: S.i32,
    factors: S.ptr("fp32", "global"),
    out: S.ptr("fp32", "global"),
    sums: S.ptr("fp32", "global"),
    magnitude: S.ptr("fp32", "global"),
):
    """out = x divided by what its codes are multiplied by, up to whole blocks; sums of the blocks; of magnitudes, that
    of the row.
    """
    factor = S.vload(factors, lanes=VL)
    magnitudes = vector(0)
    for block in range(blocks):
        total = vector(0)
        for i in range(block * BLOCK, (block + 1) * BLOCK, VL):
            value = S.cast(S.vload(x + i, mask=S.tail_mask(S.max(S.min(depth - i, VL), 0), VL), lanes=VL), "float32")
            total = total + value
            magnitudes = magnitudes + S.abs(value)
            S.vstore(value * factor, out + i)
        sums[block] = S.vrpadd(total)[0]
    magnitude[0] = S.vrpadd(magnitudes)[0]


@S.prim_func(is_inline=False)
def few_rows_tile(
    height: S.meta_var,
    vectors: S.meta_var,
    x: S.ptr("fp32", "global"),
    sums: S.ptr("fp32", "global"),
    codes: S.ptr("i32", "global"),
    scale: S.ptr(SCALE, "global"),
    zeros: zero_types,
    blocks: S.i32,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    ldc: S.i32,
    n: S.i32,
    columns: S.i32,
):
    total = S.alloc_buffer((height * vectors,), f"float32x{VL}")
    acc = S.alloc_buffer((height * vectors,), f"float32x{VL}")
    word = S.alloc_buffer((vectors,), f"int32x{VL}")
    for i in S.unroll(height * vectors):
        total[i] = vector(0)
    for block in range(blocks):
        for i in S.unroll(height * vectors):
            acc[i] = vector(0)
        if PREFETCH > 0:
            for v in S.unroll(vectors):
                S.prefetch(scale + ((block + PREFETCH // WORDS) * PANEL_WIDTH + v * VL))
        for w in range(block * WORDS, (block + 1) * WORDS):
            if PREFETCH > 0:
                for v in S.unroll(vectors):
                    S.prefetch(codes + ((w + PREFETCH) * PANEL_WIDTH + v * VL))
            for half in S.unroll(2):
                for v in S.unroll(vectors):
                    if half == 0:
                        word[v] = S.vload(codes + (w * PANEL_WIDTH + v * VL), lanes=VL)
                    else:
                        word[v] = word[v] >> 16
                for j in S.unroll(HALF):
                    k = w * CODES + half * HALF + j
                    values = [S.vbcast(x[S.i64(i) * (blocks * BLOCK) + k], lanes=VL) for i in range(height)]
                    for v in S.unroll(vectors):
                        code = S.cast(word[v] & (((1 << BITS) - 1) << (j * BITS)), "float32")
                        for i in S.unroll(height):
                            acc[i * vectors + v] = S.fma(acc[i * vectors + v], values[i], code)
        for v in S.unroll(vectors):
            at = block * PANEL_WIDTH + v * VL
            factor = scale_of(scale, at)
            zero = zero_of(zeros, at)
            for i in S.unroll(height):
                centred = acc[i * vectors + v] - zero * S.vbcast(sums[S.i64(i) * blocks + block], lanes=VL)
                total[i * vectors + v] = S.fma(total[i * vectors + v], factor, centred)
    for part in S.unroll(vectors // NV):
        tile = [total[i * vectors + part * NV + v] for i in range(height) for v in range(NV)]
        left = columns - part * (NV * VL)
        if left > 0:
            finish_tile(height, tile, extras, out, row_offset, ldc, n + part * (NV * VL), left)


@S.prim_func(is_inline=False)
def careful_tile(
    x: S.ptr(A, "global"),
    depth: S.i32,
    codes: S.ptr("i32", "global"),
    scale: S.ptr(SCALE, "global"),
    zeros: zero_types,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    ldc: S.i32,
    n: S.i32,
    columns: S.i32,
):
    """A row by NV vectors of columns, weight by weight."""
    total = S.alloc_buffer((NV,), f"float32x{VL}")
    for v in S.unroll(NV):
        total[v] = vector(0)
    for k in range(depth):
        value = S.vbcast(S.cast(x[k], "float32"), lanes=VL)
        for v in S.unroll(NV):
            at = k // BLOCK * PANEL_WIDTH + v * VL
            word = S.vload(codes + (k // CODES * PANEL_WIDTH + v * VL), lanes=VL)
            code = S.cast((word >> (k % CODES * BITS)) & ((1 << BITS) - 1), "float32")
            weight = (code - zero_of(zeros, at)) * scale_of(scale, at)
            total[v] = S.fma(total[v], value, weight)
    finish_tile(1, total, extras, out, row_offset, ldc, n, columns)


@S.prim_func(is_inline=False)
def make_weights(
    codes: S.ptr("i32", "global"),
    scale: S.ptr(SCALE, "global"),
    zeros: zero_types,
    blocks: S.i32,
    out: S.ptr("fp32", "global"),
):
    """NV vectors of columns as a panel of gemm.py."""
    for block in range(blocks):
        factors = [scale_of(scale, block * PANEL_WIDTH + v * VL) for v in range(NV)]
        centres = [zero_of(zeros, block * PANEL_WIDTH + v * VL) for v in range(NV)]
        for w in range(block * WORDS, (block + 1) * WORDS):
            for v in S.unroll(NV):
                word = S.vload(codes + (w * PANEL_WIDTH + v * VL), lanes=VL)
                for j in S.unroll(CODES):
                    code = S.cast((word >> (j * BITS)) & ((1 << BITS) - 1), "float32")
                    S.vstore((code - centres[v]) * factors[v], out + ((w * CODES + j) * (NV * VL) + v * VL))


@S.macro
def few_rows(rows, depth, blocks, columns, x, copies, codes, scale, zeros, extras, out):
    """All rows by the panels of this TEC."""
    panels = S.ceildiv(columns, PANEL_WIDTH)
    first, last = own_share(panels)
    padded = blocks * BLOCK
    sums = copies + FEW_ROWS * padded
    magnitudes = sums + FEW_ROWS * blocks
    words = padded // CODES
    for panel in range(first, last):
        base = panel * (blocks * PANEL_WIDTH)
        m = S.i32(0)
        for t in S.unroll(len(FEW_HEIGHTS)):
            while m + FEW_HEIGHTS[t] <= rows:
                for part in S.unroll(PANEL_VECTORS // FEW_VECTORS[t]):
                    n = panel * PANEL_WIDTH + part * (FEW_VECTORS[t] * VL)
                    at = base + part * (FEW_VECTORS[t] * VL)
                    if n < columns:
                        few_rows_tile(
                            FEW_HEIGHTS[t],
                            FEW_VECTORS[t],
                            copies + m * padded,
                            sums + m * blocks,
                            codes + (panel * (words * PANEL_WIDTH) + part * (FEW_VECTORS[t] * VL)),
                            scale + at,
                            [z + at for z in zeros],
                            blocks,
                            extras,
                            out,
                            m * columns,
                            columns,
                            n,
                            columns - n,
                        )
                m = m + FEW_HEIGHTS[t]
        for row in range(rows):
            if not (magnitudes[row] < LARGE):
                for part in range(PANEL_VECTORS // NV):
                    n = panel * PANEL_WIDTH + part * (NV * VL)
                    at = base + part * (NV * VL)
                    if n < columns:
                        careful_tile(
                            x + row * depth,
                            depth,
                            codes + (panel * (words * PANEL_WIDTH) + part * (NV * VL)),
                            scale + at,
                            [z + at for z in zeros],
                            extras,
                            out,
                            row * columns,
                            columns,
                            n,
                            columns - n,
                        )


@S.macro
def many_rows(rows, depth, blocks, columns, row_blocks, x, weights, codes, scale, zeros, extras, out):
    """A block of rows by NV vectors of columns at a time."""
    panels = S.ceildiv(columns, NV * VL)
    first, last = own_share(panels * row_blocks)
    words = blocks * WORDS
    made = S.i32(-1)
    for unit in range(first, last):
        panel = unit // row_blocks
        n = panel * (NV * VL)
        wide, inner = n // PANEL_WIDTH, n % PANEL_WIDTH
        if panel != made:
            at = wide * (blocks * PANEL_WIDTH) + inner
            make_weights(
                codes + (wide * (words * PANEL_WIDTH) + inner), scale + at, [z + at for z in zeros], blocks, weights
            )
            made = panel
        m, end = balanced(rows, row_blocks, unit % row_blocks)
        tiles = S.max(S.ceildiv(end - m, HEIGHTS[0]), 1)
        share, rest = (end - m) // tiles, (end - m) % tiles
        for t in range(tiles):
            tile_end = m + share
            if t < rest:
                tile_end = tile_end + 1
            for h in S.unroll(len(HEIGHTS)):
                while m + HEIGHTS[h] <= tile_end:
                    gemm_tile(
                        HEIGHTS[h],
                        x + m * depth,
                        depth,
                        1,
                        0,
                        weights,
                        depth,
                        extras,
                        out,
                        m * columns,
                        columns,
                        n,
                        columns - n,
                    )
                    m = m + HEIGHTS[h]


@S.prim_func
def block_quantized_matmul(
    x: S.ptr(A, "global"),
    codes: S.ptr("i32", "global"),
    scale: S.ptr(SCALE, "global"),
    zeros: zero_types,
    factors: S.ptr("fp32", "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    scratch: S.ptr("fp32", "global"),
    rows: S.i32,
    columns: S.i32,
    depth: S.i32,
    blocks: S.i32,
    row_blocks: S.i32,
    scratch_size: S.i32,
):
    """Each TEC has `scratch_size` elements of `scratch`. `factors` are VL elements, what x is multiplied by."""
    own = scratch + S.i64(S.get_local_id()) * scratch_size
    if rows <= FEW_ROWS:
        if FEW_ROWS > 0:
            for row in range(rows):
                copy_row(
                    x + row * depth,
                    depth,
                    blocks,
                    factors,
                    own + row * (blocks * BLOCK),
                    own + (FEW_ROWS * (blocks * BLOCK) + row * blocks),
                    own + (FEW_ROWS * (blocks * BLOCK + blocks) + row),
                )
            few_rows(rows, depth, blocks, columns, x, own, codes, scale, zeros, extras, out)
    else:
        if MANY_ROWS:
            many_rows(rows, depth, blocks, columns, row_blocks, x, own, codes, scale, zeros, extras, out)
