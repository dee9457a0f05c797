"""Layer, RMS and instance normalisation of x seen as [outer, extent, inner]: statistics over `extent` for each (outer,
inner).

Parameters: X, ACC, P (type of scale and bias), VL, UNROLL (even), INNER_IS_ONE, CENTRE (subtract the mean; off for
RMS), HAS_BIAS, HAS_SCALE, STATISTICS (also write mean and 1/deviation). With inner 1 (layer normalisation) scale and
bias run along `extent`; otherwise (instance normalisation of channels-last data) along `inner`. The variance is
computed in a second pass from the centred values: x comes from memory once, the passes after the first find a row in
the cache. Sums are formed in ACC, in UNROLL accumulators, so that no addition waits for the one before. With inner 1
rows go through local memory where the target has it (stage.py), scale and bias once.
"""

from aipu import script as S
from sharing import own_share
from stage import stage


def vector(value):
    return S.cast(value, f"{ACC}x{VL}")


def loaded(p, lane_mask):
    return S.cast(S.vload(p, lanes=VL, mask=lane_mask), ACC)


def scaled(value, parameters, at, lane_mask):
    if HAS_SCALE:
        value = value * loaded(parameters[0] + at, lane_mask)
    if HAS_BIAS:
        value = value + loaded(parameters[len(parameters) - 1] + at, lane_mask)
    return S.cast(value, X)


def centred(value, mean):
    return value - mean if CENTRE else value


def summand(value, mean):
    """What is summed up: x itself without a mean, with one the square of its distance to it."""
    if mean is None:
        return value
    distance = centred(value, mean)
    return distance * distance


def together(sums):
    for u in S.unroll(UNROLL // 2):
        sums[u] = sums[u] + sums[u + UNROLL // 2]
    total = sums[0]
    for u in S.unroll(1, UNROLL // 2):
        total = total + sums[u]
    return total


def row_sum(p, full, tail, rest, extent, mean):
    """The sum over a contiguous row as a scalar; `tail` holds its last, incomplete vector, where there is one."""
    sums = S.alloc_buffer((UNROLL,), f"{ACC}x{VL}")
    for u in S.unroll(UNROLL):
        sums[u] = vector(0)
    blocked = extent // (UNROLL * VL) * (UNROLL * VL)
    for j in range(0, blocked, UNROLL * VL):
        for u in S.unroll(UNROLL):
            sums[u] = sums[u] + summand(loaded(p + (j + u * VL), None), mean)
    for j in range(blocked, full, VL):
        sums[0] = sums[0] + summand(loaded(p + j, None), mean)
    if full < extent:
        sums[1] = sums[1] + S.vsel(summand(tail, mean), vector(0), rest)
    return S.vrpadd(together(sums))[0]


def column_sums(p, extent, inner, lane_mask, mean):
    """The sums over columns, which are `inner` elements from row to row, as a vector."""
    sums = S.alloc_buffer((UNROLL,), f"{ACC}x{VL}")
    for u in S.unroll(UNROLL):
        sums[u] = vector(0)
    blocked = extent // UNROLL * UNROLL
    for k in range(0, blocked, UNROLL):
        for u in S.unroll(UNROLL):
            sums[u] = sums[u] + summand(loaded(p + (k + u) * inner, lane_mask), mean)
    for k in range(blocked, extent):
        sums[0] = sums[0] + summand(loaded(p + k * inner, lane_mask), mean)
    return together(sums)


def normalize_rows(rows, x, *others):
    """`others`: scale and bias as far as there are some, the results, the statistics, extent and epsilon."""
    constants = len(parameter_types)
    parameters = [others[k] for k in range(constants)]
    out = others[constants]
    extent = others[len(others) - 2]
    epsilon = others[len(others) - 1]
    full = extent // VL * VL
    rest = S.tail_mask(extent - full, VL)
    count = S.cast(extent, ACC)
    for row in range(rows):
        p = x + row * extent
        q = out + row * extent
        tail = vector(0)
        if full < extent:
            tail = loaded(p + full, rest)
        mean = S.cast(0, ACC)
        if CENTRE:
            mean = row_sum(p, full, tail, rest, extent, None) / count
        means = S.vbcast(mean, lanes=VL)
        inverse = S.cast(1, ACC) / S.sqrt(row_sum(p, full, tail, rest, extent, means) / count + epsilon)
        inverses = S.vbcast(inverse, lanes=VL)
        if STATISTICS > 0:
            others[constants + 1][row] = S.cast(mean, S_TYPE)
        if STATISTICS > 1:
            others[constants + 2][row] = S.cast(inverse, S_TYPE)
        for j in range(0, full, VL):
            S.vstore(scaled(centred(loaded(p + j, None), means) * inverses, parameters, j, None), q + j)
        if full < extent:
            S.vstore(scaled(centred(tail, means) * inverses, parameters, full, rest), q + full, mask=rest)


@S.prim_func
def normalize(
    x: S.ptr(X, "global"),
    out: S.ptr(X, "global"),
    parameters: parameter_types,
    statistics: statistic_types,
    outer: S.i32,
    extent: S.i32,
    inner: S.i32,
    epsilon: epsilon_type,
):
    if INNER_IS_ONE:
        stage(
            normalize_rows,
            outer,
            [(x, extent, extent)],
            [(p, extent) for p in parameters],
            [(out, extent)] + [(p, 1) for p in statistics],
            [extent, epsilon],
        )
    else:
        blocks = S.ceildiv(inner, VL)
        units = outer * blocks
        first, last = own_share(units)
        count = S.vbcast(S.cast(extent, ACC), lanes=VL)
        for unit in range(first, last):
            c = (unit % blocks) * VL
            lane_mask = S.tail_mask(S.min(inner - c, VL), VL)
            p = x + ((unit // blocks) * extent * inner + c)
            q = out + ((unit // blocks) * extent * inner + c)
            mean = vector(0)
            if CENTRE:
                mean = column_sums(p, extent, inner, lane_mask, None) / count
            inverse = vector(1) / S.sqrt(
                column_sums(p, extent, inner, lane_mask, mean) / count + S.vbcast(epsilon, lanes=VL)
            )
            for k in range(extent):
                S.vstore(
                    scaled(centred(loaded(p + k * inner, lane_mask), mean) * inverse, parameters, c, lane_mask),
                    q + k * inner,
                    mask=lane_mask,
                )
