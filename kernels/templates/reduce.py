"""Reductions over any axes: out[kept] = finish(combine over reduced of map(x[kept, reduced])).

The input is seen as kept dimensions and reduced dimensions with a stride each (kernels/plugins/reduce.cpp merges
neighbours). Parameters: X, ACC, OUT, VL, KIND (sum mean max min prod l1 l2 log_sum log_sum_exp sum_square), COMBINE
(sum max min prod), IDENTITY and LOWEST (of COMBINE and of max), SIGNED, ROOT (floating type of roots and logarithms),
INNER ("reduced": the innermost input dimension is reduced and is walked with vectors, then summed across lanes; "kept":
it is kept, a vector is VL neighbouring results), COLUMNS (how many such vectors are computed side by side), KEPT and
REDUCED (numbers of dimensions, >= 1), kept_types, reduced_types, SEGMENTS, RUN_ELEMENTS (reduced elements for each TEC
where they are shared out), runs_types (a pointer to ACC if SEGMENTS > 1). `reduced_total` is the number of reduced
elements.

TECs take contiguous ranges of results. With SEGMENTS > 1 ("kept", one reduced dimension) the reduced elements are
combined in so many runs, and then the runs, whatever the number of TECs. Where there are fewer rows of results than
TECs, each TEC combines runs of the image that it has mostly written itself, and only what comes out of them is read by
others.
"""

from aipu import script as S
from sharing import balanced, own_share


def vector(value):
    return S.cast(value, f"{ACC}x{VL}")


def identity_of(kind):
    return IDENTITY if kind == COMBINE else LOWEST


def mapped(value, peak):
    if KIND == "l1":
        return S.abs(value) if SIGNED else value
    if KIND == "l2" or KIND == "sum_square":
        return value * value
    if KIND == "log_sum_exp":
        return S.exp(value - peak)
    return value


def combine(kind, a, b):
    if kind == "max":
        return S.maximum(b, a)
    if kind == "min":
        return S.minimum(b, a)
    if kind == "prod":
        return a * b
    return a + b


def finished(value, total, peak):
    if KIND == "mean":
        return value / S.cast(total, ACC)
    if KIND == "l2":
        return S.cast(S.sqrt(S.cast(value, ROOT)), ACC)
    if KIND == "log_sum":
        return S.cast(S.log(S.cast(value, ROOT)), ACC)
    if KIND == "log_sum_exp":
        return S.log(value) + peak
    return value


def across_lanes(kind, acc):
    lane = S.alloc_buffer((VL,), ACC)
    S.vstore(acc, lane.addr_of(0))
    total = lane[0]
    for i in range(1, VL):
        total = combine(kind, total, lane[i])
    return total


def kept_offset(unit, dims, strides, count):
    rest = unit
    offset = 0
    for e in S.unroll(count):
        offset = offset + (rest % dims[count - 1 - e]) * strides[count - 1 - e]
        rest = rest // dims[count - 1 - e]
    return offset


def along_reduced(kind, x, base, dims, strides, peak, plain):
    """Combines all reduced elements of one result; the innermost reduced dimension is contiguous."""
    acc = vector(identity_of(kind))
    outer = 1
    for d in S.unroll(REDUCED - 1):
        outer = outer * dims[d]
    inner = dims[REDUCED - 1]
    for r in range(outer):
        p = x + (base + kept_offset(r, dims, strides, REDUCED - 1))
        full = inner // VL * VL
        for j in range(0, full, VL):
            value = S.cast(S.vload(p + j, lanes=VL), ACC)
            acc = combine(kind, acc, value if plain else mapped(value, peak))
        if full < inner:
            lane_mask = S.tail_mask(inner - full, VL)
            value = S.cast(S.vload(p + full, lanes=VL, mask=lane_mask), ACC)
            acc = combine(
                kind, acc, S.vsel(value if plain else mapped(value, peak), vector(identity_of(kind)), lane_mask)
            )
    return across_lanes(kind, acc)


def across_kept(kind, count, x, base, lane_mask, dims, strides, peak, plain):
    """Combines the reduced elements of `count` vectors of neighbouring results."""
    acc = S.alloc_buffer((count,), f"{ACC}x{VL}")
    for u in S.unroll(count):
        acc[u] = vector(identity_of(kind))
    outer = 1
    for d in S.unroll(REDUCED - 1):
        outer = outer * dims[d]
    for o in range(outer):
        p = x + (base + kept_offset(o, dims, strides, REDUCED - 1))
        for r in range(dims[REDUCED - 1]):
            for u in S.unroll(count):
                value = S.cast(S.vload(p + (r * strides[REDUCED - 1] + u * VL), lanes=VL, mask=lane_mask), ACC)
                acc[u] = combine(kind, acc[u], value if plain else mapped(value, peak))
    return [acc[u] for u in range(count)]


def run_of(count, x, at, lane_mask, stride, first, last):
    """Combines the reduced elements [first, last) of `count` vectors of neighbouring results."""
    acc = S.alloc_buffer((count,), f"{ACC}x{VL}")
    for u in S.unroll(count):
        acc[u] = vector(IDENTITY)
    for r in range(first, last):
        for u in S.unroll(count):
            value = S.cast(S.vload(x + (at + r * stride + u * VL), lanes=VL, mask=lane_mask), ACC)
            acc[u] = combine(COMBINE, acc[u], mapped(value, None))
    return [acc[u] for u in range(count)]


def all_runs(count, x, at, lane_mask, stride, extent):
    total = S.alloc_buffer((count,), f"{ACC}x{VL}")
    for u in S.unroll(count):
        total[u] = vector(IDENTITY)
    for run in range(SEGMENTS):
        first, last = balanced(extent, SEGMENTS, run)
        part = run_of(count, x, at, lane_mask, stride, first, last)
        for u in S.unroll(count):
            total[u] = combine(COMBINE, total[u], part[u])
    return [total[u] for u in range(count)]


def runs_of_others(at, lane_mask, inner, runs):
    """The same of runs that TECs have combined."""
    total = vector(IDENTITY)
    for run in range(SEGMENTS):
        total = combine(COMBINE, total, S.vload(runs + (at + run * inner), lanes=VL, mask=lane_mask))
    return total


def reduce_by_runs(x, out, runs, kept_dims, kept_strides, rows, inner, extent, stride, reduced_total):
    blocks = S.ceildiv(inner, COLUMNS * VL)
    # From so many elements for each TEC on, depthwise convolutions too share out lines of the image (14 x 14 is the
    # smallest with two).
    shares_runs = rows < S.get_local_size() and extent >= RUN_ELEMENTS * S.get_local_size()
    if shares_runs:
        first, last = own_share(rows * SEGMENTS)
        for unit in range(first, last):
            base = kept_offset(unit // SEGMENTS, kept_dims, kept_strides, KEPT - 1)
            begin, end = balanced(extent, SEGMENTS, unit % SEGMENTS)
            for block in range(blocks):
                at = block * (COLUMNS * VL)
                if at + COLUMNS * VL <= inner:
                    part = run_of(COLUMNS, x, base + at, None, stride, begin, end)
                    for u in S.unroll(COLUMNS):
                        S.vstore(part[u], runs + (unit * inner + at + u * VL))
                else:
                    for j in range(at, inner, VL):
                        lane_mask = S.tail_mask(S.min(inner - j, VL), VL)
                        part = run_of(1, x, base + j, lane_mask, stride, begin, end)
                        S.vstore(part[0], runs + (unit * inner + j), mask=lane_mask)
        S.barrier()
    first, last = own_share(rows * blocks)
    for unit in range(first, last):
        row = unit // blocks
        base = kept_offset(row, kept_dims, kept_strides, KEPT - 1)
        at = (unit % blocks) * (COLUMNS * VL)
        if not shares_runs and at + COLUMNS * VL <= inner:
            totals = all_runs(COLUMNS, x, base + at, None, stride, extent)
            for u in S.unroll(COLUMNS):
                S.vstore(S.cast(finished(totals[u], reduced_total, None), OUT), out + (row * inner + at + u * VL))
        else:
            for j in range(at, S.min(at + COLUMNS * VL, inner), VL):
                lane_mask = S.tail_mask(S.min(inner - j, VL), VL)
                total = vector(IDENTITY)
                if shares_runs:
                    total = runs_of_others(row * SEGMENTS * inner + j, lane_mask, inner, runs)
                else:
                    total = all_runs(1, x, base + j, lane_mask, stride, extent)[0]
                S.vstore(S.cast(finished(total, reduced_total, None), OUT), out + (row * inner + j), mask=lane_mask)


@S.prim_func
def reduce(
    x: S.ptr(X, "global"),
    out: S.ptr(OUT, "global"),
    runs: runs_types,
    kept_dims: kept_types,
    kept_strides: kept_types,
    reduced_dims: reduced_types,
    reduced_strides: reduced_types,
    reduced_total: S.i32,
):
    if INNER == "reduced":
        units = 1
        for d in S.unroll(KEPT):
            units = units * kept_dims[d]
        first, last = own_share(units)
        for unit in range(first, last):
            base = kept_offset(unit, kept_dims, kept_strides, KEPT)
            peak = S.cast(0, ACC)
            if KIND == "log_sum_exp":
                peak = along_reduced("max", x, base, reduced_dims, reduced_strides, peak, True)
                if not S.isfinite(peak):
                    peak = S.cast(0, ACC)
            total = along_reduced(COMBINE, x, base, reduced_dims, reduced_strides, peak, False)
            out[unit] = S.cast(finished(total, reduced_total, peak), OUT)
    else:
        inner = kept_dims[KEPT - 1]
        blocks = S.ceildiv(inner, COLUMNS * VL)
        rows = 1
        for d in S.unroll(KEPT - 1):
            rows = rows * kept_dims[d]
        if SEGMENTS > 1:
            reduce_by_runs(
                x,
                out,
                runs[0],
                kept_dims,
                kept_strides,
                rows,
                inner,
                reduced_dims[0],
                reduced_strides[0],
                reduced_total,
            )
            return
        units = rows * blocks
        first, last = own_share(units)
        for unit in range(first, last):
            begin = (unit % blocks) * (COLUMNS * VL)
            row = unit // blocks
            base = kept_offset(row, kept_dims, kept_strides, KEPT - 1)
            end = S.min(begin + COLUMNS * VL, inner)
            if KIND != "log_sum_exp" and end - begin == COLUMNS * VL:
                totals = across_kept(
                    COMBINE, COLUMNS, x, base + begin, None, reduced_dims, reduced_strides, None, False
                )
                for u in S.unroll(COLUMNS):
                    S.vstore(
                        S.cast(finished(totals[u], reduced_total, None), OUT), out + (row * inner + begin + u * VL)
                    )
            else:
                for j in range(begin, end, VL):
                    lane_mask = S.tail_mask(S.min(inner - j, VL), VL)
                    peak = vector(0)
                    if KIND == "log_sum_exp":
                        peak = across_kept("max", 1, x, base + j, lane_mask, reduced_dims, reduced_strides, peak, True)[
                            0
                        ]
                        peak = S.vsel(peak, vector(0), S.isfinite(peak))
                    total = across_kept(COMBINE, 1, x, base + j, lane_mask, reduced_dims, reduced_strides, peak, False)[
                        0
                    ]
                    S.vstore(S.cast(finished(total, reduced_total, peak), OUT), out + (row * inner + j), mask=lane_mask)
