"""Products of 16-bit integers, two per lane and instruction, of Winograd's transformed tiles and weights: those of
winograd_bytes.py and winograd_fixed.py. Parameters VL, NV and PREFETCH as in gemm.py.
"""

from aipu import script as S
from gemm import ROWS_PER_BASE

# Lanes of a vector of 16 bits.
WIDE = 2 * VL
# Elements of a line of the cache.
LINE = 32


def clear_sums(height, acc):
    for i in S.unroll(height * NV):
        acc[i] = S.cast(0, f"int32x{VL}")


def add_pairs(height, acc, bases, lda, b, ahead, first, last):
    """acc[i * NV + v] += row i by vector v of the columns of b, for pairs of channels [first, last), modulo 2^32. A
    line of the cache is fetched for each pair, from `ahead` on."""
    for k in range(first, last):
        bv = [S.vload(b + (k * NV + v) * WIDE, lanes=WIDE) for v in range(NV)]
        if PREFETCH > 0:
            for v in S.unroll(NV):
                S.prefetch(b + ((k + PREFETCH) * NV + v) * WIDE)
            S.prefetch(ahead + S.i64(k) * LINE, level=2)
        for i in S.unroll(height):
            pair = (bases[i // ROWS_PER_BASE] + (S.i64(i % ROWS_PER_BASE) * lda + 2 * k)).as_ptr("i32")
            left = S.reinterpret(S.vbcast(pair[0], lanes=VL), f"int16x{WIDE}")
            for v in S.unroll(NV):
                acc[i * NV + v] = S.vdpa(acc[i * NV + v], left, bv[v], wrap=True)
