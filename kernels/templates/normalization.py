"""Layer, RMS and instance normalisation of x seen as [outer, extent, inner]: statistics over `extent` for each (outer, inner).

Parameters: X, ACC, P (type of scale and bias), VL, INNER_IS_ONE, CENTRE (subtract the mean; off for RMS), HAS_BIAS, HAS_SCALE, STATISTICS (also write mean and 1/deviation).
With inner 1 (layer normalisation) scale and bias run along `extent`; otherwise (instance normalisation of channels-last data) along `inner`.
The variance is computed in a second pass from the centred values.
"""
from aipu import script as S


def vector(value):
    return S.cast(value, f"{ACC}x{VL}")


def total_of(acc):
    lane = S.alloc_buffer((VL,), ACC)
    S.vstore(acc, lane.addr_of(0))
    total = lane[0]
    for i in range(1, VL):
        total = total + lane[i]
    return total


def loaded(p, lane_mask):
    return S.cast(S.vload(p, lanes=VL, mask=lane_mask), ACC)


def scaled(value, parameters, at, lane_mask):
    if HAS_SCALE:
        value = value * loaded(parameters[0] + at, lane_mask)
    if HAS_BIAS:
        value = value + loaded(parameters[1] + at, lane_mask)
    return S.cast(value, X)


@S.prim_func
def normalize(x: S.ptr(X, "global"), out: S.ptr(X, "global"), parameters: parameter_types, statistics: statistic_types,
              outer: S.i32, extent: S.i32, inner: S.i32, epsilon: epsilon_type):
    if INNER_IS_ONE:
        share = S.ceildiv(outer, S.get_local_size())
        first = S.get_local_id() * share
        last = S.min(first + share, outer)
        full = extent // VL * VL
        rest = S.tail_mask(extent - full, VL)
        count = S.cast(extent, ACC)
        for row in range(first, last):
            p = x + row * extent
            q = out + row * extent
            mean = S.cast(0, ACC)
            if CENTRE:
                sums = vector(0)
                for j in range(0, full, VL):
                    sums = sums + loaded(p + j, None)
                if full < extent:
                    sums = sums + loaded(p + full, rest)
                mean = total_of(sums) / count
            squares = vector(0)
            for j in range(0, full, VL):
                centred = loaded(p + j, None) - S.vbcast(mean, lanes=VL)
                squares = squares + centred * centred
            if full < extent:
                centred = S.vsel(loaded(p + full, rest) - S.vbcast(mean, lanes=VL), vector(0), rest)
                squares = squares + centred * centred
            inverse = S.cast(1, ACC) / S.sqrt(total_of(squares) / count + epsilon)
            if STATISTICS > 0:
                statistics[0][row] = S.cast(mean, S_TYPE)
            if STATISTICS > 1:
                statistics[1][row] = S.cast(inverse, S_TYPE)
            for j in range(0, full, VL):
                S.vstore(scaled((loaded(p + j, None) - S.vbcast(mean, lanes=VL)) * S.vbcast(inverse, lanes=VL), parameters, j, None), q + j)
            if full < extent:
                S.vstore(scaled((loaded(p + full, rest) - S.vbcast(mean, lanes=VL)) * S.vbcast(inverse, lanes=VL), parameters, full, rest), q + full, mask=rest)
    else:
        blocks = S.ceildiv(inner, VL)
        units = outer * blocks
        share = S.ceildiv(units, S.get_local_size())
        first = S.get_local_id() * share
        last = S.min(first + share, units)
        count = S.vbcast(S.cast(extent, ACC), lanes=VL)
        for unit in range(first, last):
            c = (unit % blocks) * VL
            lane_mask = S.tail_mask(S.min(inner - c, VL), VL)
            p = x + ((unit // blocks) * extent * inner + c)
            q = out + ((unit // blocks) * extent * inner + c)
            mean = vector(0)
            if CENTRE:
                for k in range(extent):
                    mean = mean + loaded(p + k * inner, lane_mask)
                mean = mean / count
            squares = vector(0)
            for k in range(extent):
                centred = loaded(p + k * inner, lane_mask) - mean
                squares = squares + centred * centred
            inverse = vector(1) / S.sqrt(squares / count + S.vbcast(epsilon, lanes=VL))
            for k in range(extent):
                S.vstore(scaled((loaded(p + k * inner, lane_mask) - mean) * inverse, parameters, c, lane_mask), q + k * inner, mask=lane_mask)
