"""What attention.py copies before it multiplies: queries, which are turned over, values that lie apart and, with PAIRS,
keys and values of each head. Parameters as there.

Products of bfloat16 take words of two neighbours of what is summed over, channels of queries and keys, keys of weights
and values. The word of the last one, if they are odd, has 0 beside it.
"""

from aipu import script as S
from transpose import turned_over

NR = NV * VL
# Of scratch, and of the keys and values that are multiplied.
OWN = "lsram" if POOL > 0 else "global"


def packed_stride(count):
    """Whole vectors and one more: powers of two would meet in few sets of the cache again."""
    return (S.ceildiv(count, VL) + 1) * VL


def steps_in(count):
    """Elements or, with PAIRS, words of so many numbers."""
    return S.ceildiv(count, 2) if PAIRS else count


@S.prim_func(is_inline=False)
def copy_rows(source: S.ptr("fp32", "global"), stride: S.i64, rows: S.i32, count: S.i32, out: S.ptr("fp32", "global")):
    """out[r * padded + i] = source[r * stride + i] for i < count; see packed_stride()."""
    whole = count // VL * VL
    for r in range(rows):
        line = source + S.i64(r) * stride
        target = out + r * packed_stride(count)
        for i in range(0, whole, VL):
            S.vstore(S.vload(line + i, lanes=VL), target + i)
        if whole < count:
            lane_mask = S.tail_mask(count - whole, VL)
            S.vstore(S.vload(line + whole, mask=lane_mask, lanes=VL), target + whole)


def rounded(x):
    return S.cast(x, f"bfloat16x{VL}")


def paired(even, odd):
    """[VL][2] of bfloat16."""
    return S.vzip(rounded(even), rounded(odd), "all")


def paired_bits(even, odd):
    """The same of exponentials, halves rounded up: they are not negative, and NaN is in their sum too. Fewer operations
    than casts, which are exact for denormal numbers; a product takes these for 0.
    """
    half, upper = S.cast(0x8000, f"uint32x{VL}"), S.cast(0xFFFF0000, f"uint32x{VL}")
    low, high = [S.reinterpret(x, f"uint32x{VL}") + half for x in (even, odd)]
    return (low >> 16) | (high & upper)


@S.prim_func(is_inline=False)
def copy_words(source: S.ptr("fp32", "global"), stride: S.i64, rows: S.i32, count: S.i32, out: S.ptr("i32", "global")):
    """out[r * padded + i] = (source[r * stride + 2 * i], source[r * stride + 2 * i + 1]) for steps_in(count) words."""
    for r in range(rows):
        line = source + S.i64(r) * stride
        target = (out + r * packed_stride(steps_in(count))).as_ptr("bf16")
        for i in range(0, count, VL):
            lane_mask = S.tail_mask(S.min(count - i, VL), VL)
            S.vstore(rounded(S.vload(line + i, mask=lane_mask, lanes=VL)), target + i)


@S.prim_func(is_inline=False)
def copy_pairs(source: S.ptr("fp32", "global"), stride: S.i64, rows: S.i32, count: S.i32, out: S.ptr("i32", "global")):
    """out[r * padded + i] = (source[2 * r * stride + i], source[(2 * r + 1) * stride + i]) for steps_in(rows) rows."""
    for r in range(0, rows, 2):
        line = source + S.i64(r) * stride
        target = (out + r // 2 * packed_stride(count)).as_ptr("bf16")
        for i in range(0, count, VL):
            left = S.min(count - i, VL)
            even = S.vload(line + i, mask=S.tail_mask(left, VL), lanes=VL)
            odd = S.vload(line + (stride + i), mask=S.tail_mask(left if r + 1 < rows else 0, VL), lanes=VL)
            S.vstore(paired(even, odd), target + 2 * i)


@S.prim_func(is_inline=False)
def turn_queries(
    width: S.i32,
    query: S.ptr("fp32", "global"),
    stride: S.i64,
    queries: S.i32,
    channels: S.i32,
    out: S.ptr("fp32", OWN),
):
    """out[d, q] = query[q, d] * SCALE for `width` vectors of queries, of which `queries` exist.

    The last one stands for those that do not.
    """
    for v in range(width):
        for d in range(0, channels, VL):
            lane_mask = S.tail_mask(S.min(channels - d, VL), VL)
            rows = [
                S.vload(query + (S.i64(S.min(v * VL + r, queries - 1)) * stride + d), mask=lane_mask, lanes=VL)
                for r in range(VL)
            ]
            columns = turned_over(rows, VL)
            for c in S.unroll(VL):
                S.vstore(columns[c] * S.cast(SCALE, f"float32x{VL}"), out + ((d + c) * NR + v * VL))


@S.prim_func(is_inline=False)
def turn_query_words(
    width: S.i32,
    query: S.ptr("fp32", "global"),
    stride: S.i64,
    queries: S.i32,
    channels: S.i32,
    out: S.ptr("i32", "global"),
):
    """out[d, q] = (query[q, 2 * d] * SCALE, query[q, 2 * d + 1] * SCALE) for `width` vectors of queries, of which
    `queries` exist.

    The last one stands for those that do not.
    """
    for v in range(width):
        for d in range(0, channels, 2 * VL):
            masks = [S.tail_mask(S.max(S.min(channels - d - part * VL, VL), 0), VL) for part in range(2)]
            rows = []
            for r in S.unroll(VL):
                line = query + (S.i64(S.min(v * VL + r, queries - 1)) * stride + d)
                halves = [
                    rounded(S.vload(line + part * VL, mask=masks[part], lanes=VL) * S.cast(SCALE, f"float32x{VL}"))
                    for part in range(2)
                ]
                rows.append(S.reinterpret(S.vconcat((halves[0], halves[1])), f"int32x{VL}"))
            columns = turned_over(rows, VL)
            for c in S.unroll(VL):
                S.vstore(columns[c], out + ((d // 2 + c) * NR + v * VL))
