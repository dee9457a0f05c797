"""Layer, RMS and instance normalisation of x seen as [outer, extent, inner]: statistics over `extent` for each (outer,
inner).

Parameters: X, ACC, P (type of scale and bias), VL, UNROLL (even), INNER_IS_ONE, CENTRE (subtract the mean; off for
RMS), HAS_BIAS, HAS_SCALE, STATISTICS (also write mean and 1/deviation), ROWS, and the epilogue's (epilogue.py) with
QUANTISED, a QuantizeLinear behind rows, whose operands are numbers and scalars. With inner 1 (layer normalisation)
scale and bias run along `extent`; otherwise (instance normalisation of channels-last data) along `inner`. The variance
is computed in a second pass from the centred values: x comes from memory once, the passes after the first find a row in
the cache. Sums are formed in ACC, in UNROLL accumulators, so that no addition waits for the one before; ROWS rows have
their turn together, so that the operations across lanes and the divisions of one do not wait for those of another. With
inner 1 rows go through local memory where the target has it (stage.py), scale and bias once.
"""

from aipu import script as S
from epilogue import finish_shared, shared_values
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
    return value


def centred(value, mean):
    return value - mean if CENTRE else value


def summand(value, mean):
    """What is summed up: x itself without a mean, with one the square of its distance to it."""
    if mean is None:
        return value
    distance = centred(value, mean)
    return distance * distance


def together(sums, row):
    first = row * UNROLL
    for u in S.unroll(UNROLL // 2):
        sums[first + u] = sums[first + u] + sums[first + u + UNROLL // 2]
    total = sums[first]
    for u in S.unroll(1, UNROLL // 2):
        total = total + sums[first + u]
    return total


def row_sums(rows, full, tails, rest, extent, means):
    """The sums over contiguous rows as scalars; `tails` holds their last, incomplete vectors, where there are some."""
    count = len(rows)
    sums = S.alloc_buffer((count * UNROLL,), f"{ACC}x{VL}")
    for i in S.unroll(count * UNROLL):
        sums[i] = vector(0)
    blocked = extent // (UNROLL * VL) * (UNROLL * VL)
    for j in range(0, blocked, UNROLL * VL):
        for r in S.unroll(count):
            for u in S.unroll(UNROLL):
                value = summand(loaded(rows[r] + (j + u * VL), None), means[r])
                sums[r * UNROLL + u] = sums[r * UNROLL + u] + value
    for j in range(blocked, full, VL):
        for r in S.unroll(count):
            sums[r * UNROLL] = sums[r * UNROLL] + summand(loaded(rows[r] + j, None), means[r])
    if full < extent:
        for r in S.unroll(count):
            value = S.vsel(summand(tails[r], means[r]), vector(0), rest)
            sums[r * UNROLL + 1] = sums[r * UNROLL + 1] + value
    return [S.vrpadd(together(sums, r))[0] for r in range(count)]


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
    return together(sums, 0)


def normalize_rows(rows, x, *others):
    """`others`: scale and bias as far as there are some, the results, the statistics, extent, epsilon, and the extras
    of the epilogue.
    """
    constants = len(parameter_types)
    parameters = [others[k] for k in range(constants)]
    out = others[constants]
    values = constants + 1 + len(statistic_types)
    extent = others[values]
    epsilon = others[values + 1]
    extras = [others[k] for k in range(values + 2, len(others))]
    shared = shared_values(extras, 0, None) if QUANTISED else []
    operands = (x, out, parameters, [others[k] for k in range(constants + 1, values)], shared, extent, epsilon)
    if ROWS > 1:
        whole = rows // ROWS * ROWS
        for row in range(0, whole, ROWS):
            normalize_together(row, ROWS, *operands)
        for row in range(whole, rows):
            normalize_together(row, 1, *operands)
    else:
        for row in range(rows):
            normalize_together(row, 1, *operands)


def normalize_together(row, count, x, out, parameters, statistics, shared, extent, epsilon):
    """Rows row ... row + count - 1."""
    full = extent // VL * VL
    rest = S.tail_mask(extent - full, VL)
    elements = S.cast(extent, ACC)
    rows = [x + (row + r) * extent for r in range(count)]
    results = [out + (row + r) * extent for r in range(count)]
    tails = S.alloc_buffer((count,), f"{ACC}x{VL}")
    for r in S.unroll(count):
        tails[r] = vector(0)
        if full < extent:
            tails[r] = loaded(rows[r] + full, rest)
    mean = [S.cast(0, ACC) for r in range(count)]
    if CENTRE:
        mean = [total / elements for total in row_sums(rows, full, tails, rest, extent, [None] * count)]
    means = [S.vbcast(value, lanes=VL) for value in mean]
    squares = row_sums(rows, full, tails, rest, extent, means)
    inverse = [S.cast(1, ACC) / S.sqrt(total / elements + epsilon) for total in squares]
    inverses = [S.vbcast(value, lanes=VL) for value in inverse]
    for r in S.unroll(count):
        if STATISTICS > 0:
            statistics[0][row + r] = S.cast(mean[r], S_TYPE)
        if STATISTICS > 1:
            statistics[1][row + r] = S.cast(inverse[r], S_TYPE)
    for j in range(0, full, VL):
        for r in S.unroll(count):
            normalised = centred(loaded(rows[r] + j, None), means[r]) * inverses[r]
            store(normalised, parameters, shared, results[r], j, None)
    if full < extent:
        for r in S.unroll(count):
            store(centred(tails[r], means[r]) * inverses[r], parameters, shared, results[r], full, rest)


def store(normalised, parameters, shared, q, j, lane_mask):
    value = scaled(normalised, parameters, j, lane_mask)
    if QUANTISED:
        finish_shared(value, shared, [], q, 0, j, lane_mask)
    else:
        S.vstore(S.cast(value, X), q + j, mask=lane_mask)


@S.prim_func
def normalize(
    x: S.ptr(X, "global"),
    out: S.ptr(OUT, "global"),
    parameters: parameter_types,
    statistics: statistic_types,
    extras: extra_types,
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
            [extent, epsilon] + list(extras),
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
                normalised = centred(loaded(p + k * inner, lane_mask), mean) * inverse
                S.vstore(S.cast(scaled(normalised, parameters, c, lane_mask), X), q + k * inner, mask=lane_mask)
