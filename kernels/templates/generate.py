"""Tensors made from scalars and positions: ranges, shapes as data, triangular parts, identity matrices, running sums,
reversed sequences.
"""

from aipu import script as S
from sharing import own_share


@S.prim_func
def store_scalars(out: S.ptr(OUT, "global"), values: value_types):
    if S.get_local_id() == 0:
        for k in S.unroll(COUNT):
            out[k] = S.cast(values[k], OUT)


@S.prim_func
def integer_range(out: S.ptr(OUT, "global"), count: S.i32, start: S.i64, delta: S.i64):
    first, last = own_share(count)
    for i in range(first, last):
        out[i] = S.cast(start + S.i64(i) * delta, OUT)


@S.prim_func
def float_range(start: S.ptr(OUT, "global"), delta: S.ptr(OUT, "global"), out: S.ptr(OUT, "global"), count: S.i32):
    first, last = own_share(count)
    if S.cast(delta[0], ACC) == 0:
        S.report_fault(NO_STEPS, 0, 0)
    for i in range(first, last):
        out[i] = S.cast(S.cast(start[0], ACC) + S.cast(i, ACC) * S.cast(delta[0], ACC), OUT)


@S.prim_func
def triangle(
    x: S.ptr(T, "global"), k: diagonal_types, out: S.ptr(T, "global"), matrices: S.i32, rows: S.i32, columns: S.i32
):
    """Trilu: keeps column - row >= k (UPPER) or <= k (lower), zero elsewhere."""
    units = matrices * rows
    first, last = own_share(units)
    diagonal = S.i64(0)
    if HAS_K:
        diagonal = S.i64(k[0][0])
    for unit in range(first, last):
        for c in range(columns):
            keep = S.i64(c - unit % rows) >= diagonal if UPPER else S.i64(c - unit % rows) <= diagonal
            out[unit * columns + c] = x[unit * columns + c] if keep else S.cast(0, T)


@S.prim_func
def identity_matrix(out: S.ptr(OUT, "global"), rows: S.i32, columns: S.i32, k: S.i32):
    if S.get_local_id() == 0:
        for r in range(rows):
            for c in range(columns):
                out[r * columns + c] = S.cast(1, OUT) if c - r == k else S.cast(0, OUT)


@S.prim_func
def running_sum(x: S.ptr(X, "global"), out: S.ptr(X, "global"), outer: S.i32, extent: S.i32, inner: S.i32):
    units = outer * inner
    first, last = own_share(units)
    for unit in range(first, last):
        base = (unit // inner) * extent * inner + unit % inner
        total = S.cast(1 if PRODUCT else 0, ACC)
        for e in range(extent):
            at = base + (extent - 1 - e if REVERSE else e) * inner
            value = S.cast(x[at], ACC)
            if EXCLUSIVE:
                out[at] = S.cast(total, X)
            total = total * value if PRODUCT else total + value
            if not EXCLUSIVE:
                out[at] = S.cast(total, X)


@S.prim_func
def reverse_sequence(
    x: S.ptr(T, "global"),
    lengths: S.ptr(INDEX, "global"),
    out: S.ptr(T, "global"),
    times: S.i32,
    batches: S.i32,
    inner: S.i32,
    time_stride: S.i32,
    batch_stride: S.i32,
):
    """Reverses the first lengths[b] time steps of batch b."""
    units = times * batches
    first, last = own_share(units)
    for unit in range(first, last):
        b = unit % batches
        t = unit // batches
        length = S.i64(lengths[b])
        if length < 0 or length > S.i64(times):
            S.report_fault(TOO_LONG, length, times)
            length = S.i64(0)
        source = t
        if t < S.i32(length):
            source = S.i32(length) - 1 - t
        for i in range(inner):
            out[t * time_stride + b * batch_stride + i] = x[source * time_stride + b * batch_stride + i]


def hertz(mel):
    return S.fp64(700) * (S.exp(mel * S.fp64(0.0008873155387573594)) - S.fp64(1))  # ln(10) / 2595


def mel(frequency):
    return S.fp64(1126.9943491765578) * S.log(S.fp64(1) + frequency / S.fp64(700))  # 2595 / ln(10)


@S.prim_func
def mel_weights(
    mel_bins: S.ptr(MEL_BINS, "global"),
    dft_length: S.ptr(DFT_LENGTH, "global"),
    rate: S.ptr(RATE, "global"),
    lower: S.ptr(LOWER, "global"),
    upper: S.ptr(UPPER, "global"),
    out: S.ptr(OUT, "global"),
    rows: S.i32,
    columns: S.i32,
):
    """MelWeightMatrix: column i is the triangle over the spectrogram's bins from edge i by edge i + 1 to edge i + 2."""
    low = mel(S.cast(lower[0], "fp64"))
    step = (mel(S.cast(upper[0], "fp64")) - low) / S.fp64(columns + 2)
    scale = S.fp64(S.i64(dft_length[0]) + S.i64(1)) / S.fp64(S.i64(rate[0]))
    edges = S.alloc_buffer((3,), "i32")
    first, last = own_share(columns)
    for i in range(first, last):
        for k in S.unroll(3):
            edges[k] = S.i32(S.floor(S.max(S.min(scale * hertz(low + S.fp64(i + k) * step), S.fp64(rows)), S.fp64(0))))
        for j in range(rows):
            value = S.fp32(0)
            if j >= edges[0] and j <= edges[1] and edges[1] > edges[0]:
                value = S.fp32(j - edges[0]) / S.fp32(edges[1] - edges[0])
            if j == edges[1]:
                value = S.fp32(1)
            if j > edges[1] and j < edges[2]:
                value = S.fp32(edges[2] - j) / S.fp32(edges[2] - edges[1])
            out[j * columns + i] = S.cast(value, OUT)
