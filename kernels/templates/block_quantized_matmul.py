"""Products with weights of 4 or 8 bits that have a scale, and perhaps a zero point, for each block of the depth:
out[m, n] = epilogue(sum over k of x[m, k] * (number[n, k] - zero[n, k // BLOCK]) * scale[n, k // BLOCK])
where the number of a code is the code itself, or what FORM says.

Parameters bound by kernels/plugins/block_quantized.cpp:
  BITS, BLOCK  of a code; consecutive k with one scale: a multiple of VL and of the codes in a word
  FORM         "integers": codes; "bytes": one of a table of 16 unsigned bytes; "floats": one of a table of 16 float32;
               "halves": a float16 whose upper byte is the code, HALF_SHIFT bits down but for the sign
  CENTRE, POWER  what is taken off a number where there are no zero points; then it is multiplied by 2^POWER
  NUMBER_BITS  numbers are less than 2^NUMBER_BITS
  WORD         type of the words that codes are packed in: "int32", for halves "int16"
  SCALE, zero_types  element type of the scales; the pointer type of the zero points, or none: they are CENTRE
  A, VL, NV, HEIGHTS and the rest of gemm.py's, for many rows
  PANEL_VECTORS  vectors of a panel of the codes, a multiple of NV
  FEW_ROWS     up to that many rows are multiplied by codes, more by weights that were made of them; 0: never
  MANY_ROWS    whether there may be more
  FEW_HEIGHTS, FEW_VECTORS  rows, descending to 1, and vectors of tiles of few rows: sums of blocks, sums of all and a
               vector of codes fit the registers
  DIGITS       few rows are multiplied by dot products of bytes (S.vqdpa of unsigned and signed ones), of so many for
               each number of x; 0: they are multiplied as floats

The codes are packed in panels [N / (PANEL_VECTORS * VL)][K / codes in a word][PANEL_VECTORS * VL] of words, the
lowest bits of which are the code that comes first; scales and zero points in panels [..][K / BLOCK][PANEL_VECTORS *
VL]. All are filled up with zeros to whole panels and blocks.

Few rows are a matter of reading the codes. A code becomes a number where it stands in its word: masked and converted it
is the code times a power of two, which x was divided by (rows are copied first: with what is missing of the last block,
as zeros, and with the sums that the zero point of each block is multiplied by). So a vector of codes costs a mask, a
conversion and a multiply-add per row; scales and zero points once per block. A register of bytes of a table takes one
instruction more than the masks, of float32 one per vector; halves take a shift, a mask and a conversion.
Rows of numbers so large that products by codes may overflow, or infinite, are computed again with weights
(careful_tile).

With DIGITS the numbers of a block of x become integers of 24 bits, x = unit * (high * 2^16 + middle * 2^8 + low) with
signed bytes: unit is a power of two, and the greatest number has at least 23 bits, so that what is cut off is at most
2^-23 of it. Sums of a block are exact then, within 23 bits each, and a byte of a word has a code (of 4 bits: with every
other one, those between by a shift). A word of eight codes costs six dot products per row and three operations to take
it apart, a block four operations per row: sums start with the bits of a number (starts_of).
That is with three digits. A model may ask for less (MatMulNBits' accuracy_level): with two what is cut off is at most
2^-15 of the greatest number, and with one, whose greatest number is 127, half of 1/127 of it.

Tiles of three rows and more are narrower than a panel. All of them have their turn at a few blocks (Chunk) before those
that follow: the codes of these come from memory meanwhile, where a tile that had the whole depth would wait for all of
its panel's and the one beside it for none.
"""

from aipu import script as S
from epilogue import finish_tile
from gemm import Ahead, gemm_tile
from sharing import balanced, own_share

WORD_BITS = 16 if WORD == "int16" else 32
CODES = WORD_BITS // BITS  # in a word
WORDS = BLOCK // CODES  # of a block
# Codes that are multiplied where they stand in half a word: those of a table of bytes are two registers of bytes.
BYTES_OF_TABLE = FORM == "bytes"
REGISTERS = 2 if BYTES_OF_TABLE else 1
PLACE_BITS = 8 if BYTES_OF_TABLE else BITS
PLACES = 16 // PLACE_BITS
# A line of the cache has the codes of so many vectors.
PREFETCHED = 32 // WORD_BITS
HALF_MASK = 0xBF80 - 0x10000
TABLE = "u8" if BYTES_OF_TABLE else "fp32"
PANEL_WIDTH = PANEL_VECTORS * VL
# Up to so many rows tiles are whole panels.
WHOLE_PANEL_ROWS = max([0] + [h for h, v in zip(FEW_HEIGHTS, FEW_VECTORS) if v == PANEL_VECTORS])
CHUNK_BLOCKS = max(32 // WORDS, 1)
# Where the magnitudes of a row sum up to less, no sum of its products by codes overflows.
LARGE = 2.0**100 if DIGITS > 0 else 2.0 ** (127 - NUMBER_BITS)
BYTE_MASK = 0x0F0F0F0F
BYTE_WORDS = 8 // BITS  # words of bytes that a word of codes becomes
WORD_DIGITS = BYTE_WORDS * DIGITS  # words of x that it is multiplied by
ONE_LESS = 49152  # see starts_of()


def vector(number):
    return S.cast(number, f"float32x{VL}")


@S.record
class Codes:
    words: S.ptr(WORD, "global")
    table: S.ptr(TABLE, "global")


def shorts(number):
    return S.cast(number, f"int16x{VL}")


def bytes_of(words, table):
    """What the low half of each byte of them means."""
    low = words & BYTE_MASK
    if not BYTES_OF_TABLE:
        return low
    return S.reinterpret(S.vload_gather(table, S.reinterpret(low, f"uint8x{4 * VL}"), entries=16), f"int32x{VL}")


def number_of_code(words, j, table):
    """The float32 of the code j of each word, before CENTRE and POWER."""
    if FORM == "halves":
        half = words if j == 1 else words << shorts(8)
        if HALF_SHIFT == 1:
            half = (half >> shorts(1)) & shorts(HALF_MASK)  # the sign stays where it is
        elif j == 1:
            half = half & shorts(-256)
        return S.cast(S.reinterpret(half, f"float16x{VL}"), "float32")
    if FORM == "floats":
        return S.vload_gather(table, (words >> (j * BITS)) & 15, entries=16)
    if BYTES_OF_TABLE:
        return S.cast((bytes_of(words >> (j % 2 * BITS), table) >> (j // 2 * 8)) & 255, "float32")
    return S.cast((words >> (j * BITS)) & ((1 << BITS) - 1), "float32")


def centred(number, zero):
    """Of a number and of the zero point, if there are such."""
    if len(zero_types) > 0 or CENTRE != 0:
        number = number - zero
    return number * vector(2.0**POWER) if POWER != 0 else number


def zero_of(zeros, at):
    """The zero points of a block, one per column."""
    if len(zeros) == 0:
        return vector(CENTRE)
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
        sums[block] = S.vrpadd(total)[0] * S.fp32(2.0**POWER) if POWER != 0 else S.vrpadd(total)[0]
    magnitude[0] = S.vrpadd(magnitudes)[0]


@S.prim_func(is_inline=False)
def digits_of_row(
    x: S.ptr(A, "global"),
    depth: S.i32,
    blocks: S.i32,
    planes: S.ptr("i8", "global"),
    digits: S.ptr("i32", "global"),
    units: S.ptr("fp32", "global"),
    sums: S.ptr("fp32", "global"),
    starts: S.ptr("i32", "global"),
    magnitude: S.ptr("fp32", "global"),
):
    """x as words of four bytes, in the order in which a word of codes is multiplied by them: with 4 bits
    [nibble][digit] (low nibbles are multiplied by every other number, high ones by those between), else [digit]. Of
    each block what its highest digits are multiplied by, the sum of its numbers where zero points are given, and what
    sums of low, middle and high digits start with: see number_of(). `planes` is memory for bytes on their way.
    """
    padded = blocks * BLOCK
    magnitudes = vector(0)
    total = S.alloc_buffer((DIGITS,), f"int32x{VL}")
    for block in range(blocks):
        highest = vector(0)
        for i in range(block * BLOCK, (block + 1) * BLOCK, VL):
            value = S.abs(
                S.cast(S.vload(x + i, mask=S.tail_mask(S.max(S.min(depth - i, VL), 0), VL), lanes=VL), "float32")
            )
            highest = S.max(highest, value)
            magnitudes = magnitudes + value
        peak = S.vrpmax(highest)[0]
        exponent = S.i32(0)  # of the unit of low digits, biased
        if DIGITS == 1:
            peak = S.max(peak, 2.0**-100)
            factor = S.vbcast(S.fp32(127) / peak, lanes=VL)
            units[block] = peak / S.fp32(127) * S.fp32(2.0**POWER)
        else:
            # The biased exponent; of numbers next to a power of two that one's, as the highest digit ends at 127.
            exponent = S.max((S.reinterpret(peak, "int32") + 0x10200) >> 23, 40) + (2 - 8 * DIGITS)
            factor = S.vbcast(S.reinterpret((254 - exponent) << 23, "float32"), lanes=VL)
            exponent = exponent + POWER
            units[block] = S.reinterpret((exponent + 8 * (DIGITS - 1)) << 23, "float32")
        for d in S.unroll(DIGITS):
            total[d] = S.cast(0, f"int32x{VL}")
        for i in range(block * BLOCK, (block + 1) * BLOCK, VL):
            value = S.cast(S.vload(x + i, mask=S.tail_mask(S.max(S.min(depth - i, VL), 0), VL), lanes=VL), "float32")
            parts = digits_of(S.cast(S.floor(S.fma(vector(0.5), value, factor)), "int32"))
            for d in S.unroll(DIGITS):
                total[d] = total[d] + parts[d]
                S.vstore(S.cast(parts[d], "int8"), planes + (d * padded + i))
        sum_of_digits = [S.vrpadd(total[d])[0] for d in range(DIGITS)]
        begins = starts_of(exponent)
        for d in S.unroll(DIGITS):
            # Sums are of codes minus the zero point.
            centre = sum_of_digits[d] * -CENTRE if len(zero_types) == 0 else S.i32(0)
            starts[block * DIGITS + d] = begins[d] + centre
        if len(zero_types) > 0:
            with_starts = [begins[d] + sum_of_digits[d] for d in range(DIGITS)]
            sums[block] = number_of(with_starts, units[block], "float32")
    magnitude[0] = S.vrpadd(magnitudes)[0]
    ordered = planes
    if BITS < 8:
        half = padded // 2
        ordered = planes + DIGITS * padded
        for d in S.unroll(DIGITS):
            pairs = (planes + d * padded).as_ptr("i16")
            for i in range(0, half, VL):
                lane_mask = S.tail_mask(S.min(half - i, VL), VL)
                pair = S.vload(pairs + i, mask=lane_mask, lanes=VL)
                S.vstore(S.cast(pair, "int8"), ordered + (d * half + i), mask=lane_mask)
                S.vstore(S.cast(pair >> 8, "int8"), ordered + ((DIGITS + d) * half + i), mask=lane_mask)
    words = blocks * WORDS
    four = ordered.as_ptr("i32")
    for w in range(words):
        for q in S.unroll(WORD_DIGITS):
            digits[w * WORD_DIGITS + q] = four[q * words + w]


def digits_of(number):
    """From low to high: each from -128 to 127."""
    if DIGITS == 1:
        return [number]
    low = (number << 24) >> 24
    rest = (number - low) >> 8
    if DIGITS == 2:
        return [low, rest]
    middle = (rest << 24) >> 24
    return [low, middle, (rest - middle) >> 8]


def starts_of(exponent):
    """What sums of digits start with: low and middle ones with the bits of 1.5 * 2^23 times their unit, whose biased
    exponent is that of the low digits or 8 more, so that the bits of a sum are a number without being converted. What
    that is too much the digit above has less: 1.5 * 2^23 = 256 * 49152.
    """
    starts = [((exponent + (23 + 8 * d)) << 23) + 0x400000 for d in range(DIGITS - 1)]
    starts.append(S.i32(0))
    return [starts[d] - (ONE_LESS if d > 0 else 0) for d in range(DIGITS)]


def number_of(digits, unit, floats):
    """The float32 of sums of digits that started as starts_of() says; `unit` is that of the highest."""
    number = S.cast(digits[DIGITS - 1], "float32")
    if DIGITS == 1:
        return number * unit
    number = S.fma(S.reinterpret(digits[DIGITS - 2], floats), number, unit)
    return number + S.reinterpret(digits[0], floats) if DIGITS == 3 else number


@S.record
class DigitRows:
    """Rows of x as digits_of_row() makes them."""

    digits: S.ptr("i32", "global")
    units: S.ptr("fp32", "global")
    sums: S.ptr("fp32", "global")
    starts: S.ptr("i32", "global")


@S.record
class Chunk:
    """Blocks [first, last) of so many, and the sums of those before, to which these are added."""

    blocks: S.i32
    first: S.i32
    last: S.i32
    totals: S.ptr("fp32", "global")


def add_product(a, b, total):
    """In memory: the registers are full of sums of a block."""
    S.vstore(S.fma(S.vload(total, lanes=VL), a, b), total)


def tile_of(chunk: Chunk, height, part):
    return [
        S.vload(chunk.totals + (i * PANEL_WIDTH + (part * NV + v) * VL), lanes=VL)
        for i in range(height)
        for v in range(NV)
    ]


@S.prim_func(is_inline=False)
def digits_tile(
    height: S.meta_var,
    vectors: S.meta_var,
    x: DigitRows,
    codes: Codes,
    scale: S.ptr(SCALE, "global"),
    zeros: zero_types,
    chunk: Chunk,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    ldc: S.i32,
    n: S.i32,
    columns: S.i32,
):
    acc = S.alloc_buffer((height * vectors * DIGITS,), f"int32x{VL}")
    word = S.alloc_buffer((vectors,), f"int32x{VL}")
    words = chunk.blocks * WORDS
    for block in range(chunk.first, chunk.last):
        for i in S.unroll(height):
            for d in S.unroll(DIGITS):
                start = S.vbcast(x.starts[(i * chunk.blocks + block) * DIGITS + d], lanes=VL)
                for v in S.unroll(vectors):
                    acc[(i * vectors + v) * DIGITS + d] = start
        if PREFETCH > 0 and WORDS < vectors:
            for v in S.unroll(vectors):
                S.prefetch(scale + ((block + PREFETCH // WORDS) * PANEL_WIDTH + v * VL), level=2)
        for w in range(block * WORDS, (block + 1) * WORDS):
            if PREFETCH > 0 and WORDS >= vectors:
                S.prefetch(scale + ((block + PREFETCH // WORDS) * PANEL_WIDTH + w % vectors * VL), level=2)
            if PREFETCH > 0:
                for v in S.unroll(vectors):
                    S.prefetch(codes.words + ((w + PREFETCH) * PANEL_WIDTH + v * VL), level=2)
            for part in S.unroll(BYTE_WORDS):
                for v in S.unroll(vectors):
                    if part == 0:
                        word[v] = S.vload(codes.words + (w * PANEL_WIDTH + v * VL), lanes=VL)
                    else:
                        word[v] = word[v] >> BITS
                bytes = [bytes_of(word[v], codes.table) if BITS < 8 else word[v] for v in range(vectors)]
                left = [S.reinterpret(b, f"uint8x{4 * VL}") for b in bytes]
                for i in S.unroll(height):
                    for d in S.unroll(DIGITS):
                        four = S.vbcast(x.digits[(i * words + w) * WORD_DIGITS + part * DIGITS + d], lanes=VL)
                        right = S.reinterpret(four, f"int8x{4 * VL}")
                        for v in S.unroll(vectors):
                            at = (i * vectors + v) * DIGITS + d
                            acc[at] = S.vqdpa(acc[at], left[v], right)
        for v in S.unroll(vectors):
            at = block * PANEL_WIDTH + v * VL
            factor = scale_of(scale, at)
            for i in S.unroll(height):
                unit = S.vbcast(x.units[i * chunk.blocks + block], lanes=VL)
                number = number_of([acc[(i * vectors + v) * DIGITS + d] for d in range(DIGITS)], unit, f"float32x{VL}")
                if len(zeros) > 0:
                    number = number - zero_of(zeros, at) * S.vbcast(x.sums[i * chunk.blocks + block], lanes=VL)
                add_product(factor, number, chunk.totals + (i * PANEL_WIDTH + v * VL))
    if chunk.last < chunk.blocks:
        return
    for part in S.unroll(vectors // NV):
        tile = tile_of(chunk, height, part)
        left = columns - part * (NV * VL)
        if left > 0:
            finish_tile(height, tile, extras, out, row_offset, ldc, n + part * (NV * VL), left)


def multiply_in_place(acc, height, vectors, x, chunk, table, word, w):
    """By the codes of a word where they stand: x is divided by what that is too much."""
    for register in S.unroll(REGISTERS):
        part = S.alloc_buffer((vectors,), f"int32x{VL}")
        for half in S.unroll(2):
            for v in S.unroll(vectors):
                if half == 1:
                    part[v] = part[v] >> 16
                elif BYTES_OF_TABLE:
                    part[v] = bytes_of(word[v] if register == 0 else word[v] >> BITS, table)
                else:
                    part[v] = word[v]
            for j in S.unroll(PLACES):
                k = w * CODES + (half * PLACES + j) * REGISTERS + register
                values = [S.vbcast(x[S.i64(i) * (chunk.blocks * BLOCK) + k], lanes=VL) for i in range(height)]
                for v in S.unroll(vectors):
                    code = S.cast(part[v] & (((1 << PLACE_BITS) - 1) << (j * PLACE_BITS)), "float32")
                    for i in S.unroll(height):
                        acc[i * vectors + v] = S.fma(acc[i * vectors + v], values[i], code)


# x, sums, codes, scale and zeros are those of the chunk's first block.
@S.prim_func(is_inline=False)
def few_rows_tile(
    height: S.meta_var,
    vectors: S.meta_var,
    x: S.ptr("fp32", "global"),
    sums: S.ptr("fp32", "global"),
    codes: Codes,
    scale: S.ptr(SCALE, "global"),
    zeros: zero_types,
    chunk: Chunk,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    ldc: S.i32,
    n: S.i32,
    columns: S.i32,
):
    total = S.alloc_buffer((height * vectors,), f"float32x{VL}")
    acc = S.alloc_buffer((height * vectors,), f"float32x{VL}")
    word = S.alloc_buffer((vectors,), f"int{WORD_BITS}x{VL}")
    for i in S.unroll(height):
        for v in S.unroll(vectors):
            total[i * vectors + v] = S.vload(chunk.totals + (i * PANEL_WIDTH + v * VL), lanes=VL)
    for block in range(chunk.last - chunk.first):
        for i in S.unroll(height * vectors):
            acc[i] = vector(0)
        if PREFETCH > 0:
            for v in S.unroll(vectors):
                S.prefetch(scale + ((block + PREFETCH // WORDS) * PANEL_WIDTH + v * VL))
        for w in range(block * WORDS, (block + 1) * WORDS):
            if PREFETCH > 0:
                for v in S.unroll(0, vectors, PREFETCHED):
                    S.prefetch(codes.words + ((w + PREFETCH * PREFETCHED) * PANEL_WIDTH + v * VL))
            for v in S.unroll(vectors):
                word[v] = S.vload(codes.words + (w * PANEL_WIDTH + v * VL), lanes=VL)
            if FORM == "floats" or FORM == "halves":
                for j in S.unroll(CODES):
                    k = w * CODES + j
                    values = [S.vbcast(x[S.i64(i) * (chunk.blocks * BLOCK) + k], lanes=VL) for i in range(height)]
                    for v in S.unroll(vectors):
                        number = number_of_code(word[v], j, codes.table)
                        for i in S.unroll(height):
                            acc[i * vectors + v] = S.fma(acc[i * vectors + v], values[i], number)
            else:
                multiply_in_place(acc, height, vectors, x, chunk, codes.table, word, w)
        for v in S.unroll(vectors):
            at = block * PANEL_WIDTH + v * VL
            factor = scale_of(scale, at)
            zero = zero_of(zeros, at)
            for i in S.unroll(height):
                number = acc[i * vectors + v]
                if len(zeros) > 0 or CENTRE != 0:
                    number = number - zero * S.vbcast(sums[S.i64(i) * chunk.blocks + block], lanes=VL)
                total[i * vectors + v] = S.fma(total[i * vectors + v], factor, number)
    if chunk.last < chunk.blocks:
        for i in S.unroll(height):
            for v in S.unroll(vectors):
                S.vstore(total[i * vectors + v], chunk.totals + (i * PANEL_WIDTH + v * VL))
        return
    for part in S.unroll(vectors // NV):
        tile = [total[i * vectors + part * NV + v] for i in range(height) for v in range(NV)]
        left = columns - part * (NV * VL)
        if left > 0:
            finish_tile(height, tile, extras, out, row_offset, ldc, n + part * (NV * VL), left)


@S.prim_func(is_inline=False)
def careful_tile(
    x: S.ptr(A, "global"),
    depth: S.i32,
    codes: Codes,
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
    for w in range(S.ceildiv(depth, CODES)):
        at = w // WORDS * PANEL_WIDTH
        for j in S.unroll(CODES):
            if w * CODES + j < depth:
                value = S.vbcast(S.cast(x[w * CODES + j], "float32"), lanes=VL)
                for v in S.unroll(NV):
                    word = S.vload(codes.words + (w * PANEL_WIDTH + v * VL), lanes=VL)
                    number = centred(number_of_code(word, j, codes.table), zero_of(zeros, at + v * VL))
                    total[v] = S.fma(total[v], value, number * scale_of(scale, at + v * VL))
    finish_tile(1, total, extras, out, row_offset, ldc, n, columns)


@S.prim_func(is_inline=False)
def make_weights(
    codes: Codes, scale: S.ptr(SCALE, "global"), zeros: zero_types, blocks: S.i32, out: S.ptr("fp32", "global")
):
    """NV vectors of columns as a panel of gemm.py."""
    for block in range(blocks):
        factors = [scale_of(scale, block * PANEL_WIDTH + v * VL) for v in range(NV)]
        centres = [zero_of(zeros, block * PANEL_WIDTH + v * VL) for v in range(NV)]
        for w in range(block * WORDS, (block + 1) * WORDS):
            for v in S.unroll(NV):
                word = S.vload(codes.words + (w * PANEL_WIDTH + v * VL), lanes=VL)
                for j in S.unroll(CODES):
                    number = centred(number_of_code(word, j, codes.table), centres[v])
                    S.vstore(number * factors[v], out + ((w * CODES + j) * (NV * VL) + v * VL))


@S.macro
def few_rows(rows, depth, blocks, columns, x, factors, scratch, codes, scale, zeros, extras, out):
    """All rows by the panels of this TEC."""
    panels = S.ceildiv(columns, PANEL_WIDTH)
    first, last = own_share(panels)
    padded = blocks * BLOCK
    words = padded // CODES
    # Of a row: what x becomes, sums of its blocks, and with DIGITS their units and starts.
    row_size = words * WORD_DIGITS if DIGITS > 0 else padded
    totals = scratch
    copies = scratch + FEW_ROWS * PANEL_WIDTH
    sums = copies + FEW_ROWS * row_size
    magnitudes = sums + FEW_ROWS * blocks
    units = magnitudes + FEW_ROWS
    starts = (units + FEW_ROWS * blocks).as_ptr("i32")
    for row in range(rows):
        if DIGITS > 0:
            digits_of_row(
                x + row * depth,
                depth,
                blocks,
                (starts + FEW_ROWS * blocks * DIGITS).as_ptr("i8"),
                (copies + row * row_size).as_ptr("i32"),
                units + row * blocks,
                sums + row * blocks,
                starts + row * (blocks * DIGITS),
                magnitudes + row,
            )
        else:
            copy_row(
                x + row * depth, depth, blocks, factors, copies + row * row_size, sums + row * blocks, magnitudes + row
            )
    chunk_blocks = blocks
    if rows > WHOLE_PANEL_ROWS:
        chunk_blocks = CHUNK_BLOCKS
    for panel in range(first, last):
        base = panel * (blocks * PANEL_WIDTH)
        for i in range(0, rows * PANEL_WIDTH, VL):
            S.vstore(vector(0), totals + i)
        for begin in range(0, blocks, chunk_blocks):
            end = S.min(begin + chunk_blocks, blocks)
            m = S.i32(0)
            for t in S.unroll(len(FEW_HEIGHTS)):
                while m + FEW_HEIGHTS[t] <= rows:
                    for part in S.unroll(PANEL_VECTORS // FEW_VECTORS[t]):
                        n = panel * PANEL_WIDTH + part * (FEW_VECTORS[t] * VL)
                        at = base + part * (FEW_VECTORS[t] * VL)
                        if n < columns:
                            own_codes = codes.words + (panel * (words * PANEL_WIDTH) + part * (FEW_VECTORS[t] * VL))
                            own_zeros = [z + at for z in zeros]
                            own_totals = totals + (m * PANEL_WIDTH + part * (FEW_VECTORS[t] * VL))
                            chunk = Chunk(blocks, begin, end, own_totals)
                            if DIGITS > 0:
                                digits_tile(
                                    FEW_HEIGHTS[t],
                                    FEW_VECTORS[t],
                                    DigitRows(
                                        (copies + m * row_size).as_ptr("i32"),
                                        units + m * blocks,
                                        sums + m * blocks,
                                        starts + m * (blocks * DIGITS),
                                    ),
                                    Codes(own_codes, codes.table),
                                    scale + at,
                                    own_zeros,
                                    chunk,
                                    extras,
                                    out,
                                    m * columns,
                                    columns,
                                    n,
                                    columns - n,
                                )
                            else:
                                few_rows_tile(
                                    FEW_HEIGHTS[t],
                                    FEW_VECTORS[t],
                                    copies + (m * row_size + begin * BLOCK),
                                    sums + (m * blocks + begin),
                                    Codes(own_codes + begin * (WORDS * PANEL_WIDTH), codes.table),
                                    scale + (at + begin * PANEL_WIDTH),
                                    [z + begin * PANEL_WIDTH for z in own_zeros],
                                    chunk,
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
                            Codes(codes.words + (panel * (words * PANEL_WIDTH) + part * (NV * VL)), codes.table),
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
            own_codes = Codes(codes.words + (wide * (words * PANEL_WIDTH) + inner), codes.table)
            make_weights(own_codes, scale + at, [z + at for z in zeros], blocks, weights)
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
                        Ahead(weights, S.i64(0)),
                    )
                    m = m + HEIGHTS[h]


@S.prim_func
def block_quantized_matmul(
    x: S.ptr(A, "global"),
    codes: S.ptr(WORD, "global"),
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
    """Each TEC has `scratch_size` elements of `scratch`. `factors` are VL elements, what x is multiplied by, and the
    table of 16 behind them.
    """
    weights = Codes(codes, (factors + VL).as_ptr(TABLE))
    own = scratch + S.i64(S.get_local_id()) * scratch_size
    if rows <= FEW_ROWS:
        if FEW_ROWS > 0:
            few_rows(rows, depth, blocks, columns, x, factors, own, weights, scale, zeros, extras, out)
    else:
        if MANY_ROWS:
            many_rows(rows, depth, blocks, columns, row_blocks, x, own, weights, scale, zeros, extras, out)
