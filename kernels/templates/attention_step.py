"""Attention of few queries against many keys, such as a decoder's step with cached keys; what attention.py computes.

Parameters bound by kernels/plugins/attention.cpp: VL, LANES, ACC, USE_FMA, KEY_UNIT, MASK, MASK_TYPE, SCALE and those
of the epilogue as there, and
  QUERY_HEIGHTS    queries that share a tile of values, descending; they end in 1 unless all heights that occur are
                   there
  WIDTHS           vectors of such a tile (of scores, where keys follow each other, too), descending, down to 1
  PREFETCH         keys ahead, 0: none
  DEPTH_TAIL, CHANNEL_TAIL   whether depth, the channels of `value`, may end within a vector

Lanes are channels where a key's channels follow each other: VL keys have an accumulator each, whose lanes are summed up
for all of them at once. Where the keys follow each other, they are the lanes. Masks, maxima and exponentials have keys
in the lanes, sums of values channels. All queries of a head run over its keys together, in blocks of at most `block`
whose keys and values stay in the cache.

A unit of work is a range of the keys of one head. Where heads alone would not occupy the TECs (`ranges` greater than 1;
it depends on extents only, so results do not depend on the number of TECs), a unit leaves its results, maxima and sums
in `partial`, and combine() puts them together.
"""

from aipu import script as S
from attention import Operands, Results, mask_value, masked, of_head, vector
from epilogue import finish_shared, shared_values
from gemm import ROWS_PER_BASE, multiply_add, row_bases
from lane_sums import sums_of_lanes
from sharing import balanced, own_share

# Per query: maximum, sum, correction.
STATE = 4


@S.prim_func(is_inline=False)
def scale_queries(
    query: S.ptr("fp32", "global"), stride: S.i64, queries: S.i32, depth: S.i32, out: S.ptr("fp32", "global")
):
    """out[q] = query[q] * SCALE, filled up with zeros to whole vectors."""
    padded = S.ceildiv(depth, VL) * VL
    for q in range(queries):
        for d in range(0, depth, VL):
            lane_mask = S.tail_mask(S.min(depth - d, VL), VL)
            S.vstore(
                S.vload(query + (S.i64(q) * stride + d), mask=lane_mask, lanes=VL) * vector(SCALE),
                out + (q * padded + d),
            )


@S.prim_func(is_inline=False)
def score_keys(
    key: S.ptr("fp32", "global"),
    stride: S.i64,
    query: S.ptr("fp32", "global"),
    queries: S.i32,
    depth: S.i32,
    out: S.ptr("fp32", "global"),
    block: S.i32,
):
    """out[q * block + i] = key i . query q for VL keys."""
    acc = S.alloc_buffer((VL,), f"float32x{VL}")
    bases = row_bases(key, stride, VL)
    padded = S.ceildiv(depth, VL) * VL
    whole = depth // VL * VL if DEPTH_TAIL else depth
    for q in range(queries):
        ahead = key + S.i64(q % 4 * (VL // 4) + PREFETCH) * stride
        for i in S.unroll(VL):
            acc[i] = vector(0)
        for d in range(0, whole, VL):
            if PREFETCH > 0:
                # A quarter of the keys with each of the first four queries.
                for i in S.unroll(VL // 4):
                    S.prefetch(ahead + (S.i64(i) * stride + S.i64(d)), level=2)
            channels = S.vload(query + (q * padded + d), lanes=VL)
            for i in S.unroll(VL):
                acc[i] = S.fma(
                    acc[i],
                    S.vload(bases[i // ROWS_PER_BASE] + (S.i64(i % ROWS_PER_BASE) * stride + S.i64(d)), lanes=VL),
                    channels,
                )
        if DEPTH_TAIL:
            if whole < depth:
                lane_mask = S.tail_mask(depth - whole, VL)
                channels = S.vload(query + (q * padded + whole), lanes=VL)
                for i in S.unroll(VL):
                    rest = S.vload(
                        bases[i // ROWS_PER_BASE] + (S.i64(i % ROWS_PER_BASE) * stride + S.i64(whole)),
                        mask=lane_mask,
                        lanes=VL,
                    )
                    acc[i] = S.fma(acc[i], rest, channels)
        S.vstore(sums_of_lanes([acc[i] for i in range(VL)], VL), out + q * block)


@S.prim_func(is_inline=False)
def score_key(
    key: S.ptr("fp32", "global"),
    query: S.ptr("fp32", "global"),
    queries: S.i32,
    depth: S.i32,
    out: S.ptr("fp32", "global"),
    block: S.i32,
):
    """score_keys() for one key."""
    padded = S.ceildiv(depth, VL) * VL
    for q in range(queries):
        total = vector(0)
        for d in range(0, depth, VL):
            lane_mask = S.tail_mask(S.min(depth - d, VL), VL)
            total = S.fma(
                total, S.vload(key + d, mask=lane_mask, lanes=VL), S.vload(query + (q * padded + d), lanes=VL)
            )
        out[q * block] = S.vrpadd(total)[0]


@S.prim_func(is_inline=False)
def score_columns(
    width: S.meta_var,
    key: S.ptr("fp32", "global"),
    step: S.i64,
    keys: S.i32,
    query: S.ptr("fp32", "global"),
    queries: S.i32,
    depth: S.i32,
    out: S.ptr("fp32", "global"),
    block: S.i32,
):
    """out[q * block + i] = key i . query q for width * VL keys that follow each other; of a single vector
    `keys` exist.
    """
    acc = S.alloc_buffer((width,), f"float32x{VL}")
    padded = S.ceildiv(depth, VL) * VL
    lane_mask = S.tail_mask(keys, VL)
    for q in range(queries):
        for v in S.unroll(width):
            acc[v] = vector(0)
        for d in range(depth):
            place = key + S.i64(d) * step
            channel = query[q * padded + d]
            for v in S.unroll(width):
                if width > 1:
                    acc[v] = multiply_add(acc[v], channel, S.vload(place + v * VL, lanes=VL))
                else:
                    acc[v] = multiply_add(acc[v], channel, S.vload(place, mask=lane_mask, lanes=VL))
        for v in S.unroll(width):
            S.vstore(acc[v], out + (q * block + v * VL))


@S.macro
def score_block(key, row, step, keys, query, queries, depth, out, block):
    """All scores of a block of keys."""
    if KEY_UNIT:
        for k in range(0, keys // VL * VL, VL):
            score_keys(key + S.i64(k) * row, row, query, queries, depth, out + k, block)
        if keys % VL != 0:
            if keys >= VL:
                # Some of them once more.
                score_keys(key + S.i64(keys - VL) * row, row, query, queries, depth, out + (keys - VL), block)
            else:
                for k in range(keys):
                    score_key(key + S.i64(k) * row, query, queries, depth, out + k, block)
    else:
        k = 0
        for w in S.unroll(len(WIDTHS) - 1):
            while k + WIDTHS[w] * VL <= keys:
                score_columns(WIDTHS[w], key + k, step, WIDTHS[w] * VL, query, queries, depth, out + k, block)
                k = k + WIDTHS[w] * VL
        while k < keys:
            score_columns(1, key + k, step, S.min(keys - k, VL), query, queries, depth, out + k, block)
            k = k + VL


@S.prim_func(is_inline=False)
def weigh(
    score: S.ptr("fp32", "global"),
    keys: S.i32,
    mask: S.ptr(MASK_TYPE, "global"),
    step: S.i32,
    fill: S.fp32,
    state: S.ptr("fp32", "global"),
):
    """One query's scores become exp(masked score - new maximum), in place; up to a whole vector, with zeros behind the
    last key.
    """
    highest = vector("-inf")
    fills = S.vbcast(fill, lanes=VL)
    for k in range(0, keys, VL):
        lane_mask = S.tail_mask(S.min(keys - k, VL), VL)
        x = S.vload(score + k, lanes=VL)
        if MASK != "none":
            if step == 1:
                x = masked(x, mask_value(S.vload(mask + k, mask=lane_mask, lanes=VL)), fills)
            else:
                x = masked(x, S.vbcast(S.cast(mask[0], "float32"), lanes=VL), fills)
        x = S.vsel(x, vector("-inf"), lane_mask)
        S.vstore(x, score + k)
        highest = S.max(highest, x)
    old = S.vbcast(state[0], lanes=VL)
    highest = S.max(old, S.vbcast(S.vrpmax(highest)[0], lanes=VL))
    # With nothing but -inf so far all exponentials are 0, not exp(-inf + inf).
    peak = S.vsel(vector(0), highest, highest == vector("-inf"))
    correction = S.exp(old - peak)
    total = vector(0)
    for k in range(0, keys, VL):
        x = S.exp(S.vload(score + k, lanes=VL) - peak)
        total = total + x
        S.vstore(x, score + k)
    state[1] = state[1] * correction[0] + S.vrpadd(total)[0]
    state[0] = highest[0]
    state[2] = correction[0]


@S.prim_func(is_inline=False)
def value_tile(
    height: S.meta_var,
    width: S.meta_var,
    value: S.ptr("fp32", "global"),
    stride: S.i64,
    channels: S.i32,
    weight: S.ptr("fp32", "global"),
    block: S.i32,
    keys: S.i32,
    state: S.ptr("fp32", "global"),
    out: S.ptr("fp32", "global"),
    out_stride: S.i32,
):
    """out[q] = out[q] * correction[q] + sum over k of weight[q, k] * value[k] for `height` queries and `width` vectors
    of channels.
    """
    acc = S.alloc_buffer((height * width,), f"float32x{VL}")
    lanes = S.alloc_buffer((width,), f"float32x{VL}")
    for i in S.unroll(height):
        correction = S.vbcast(state[i * STATE + 2], lanes=VL)
        for v in S.unroll(width):
            acc[i * width + v] = S.vload(out + (i * out_stride + v * VL), lanes=VL) * correction
    for k in range(keys):
        if PREFETCH > 0:
            for v in S.unroll(width):
                S.prefetch(value + (S.i64(k + PREFETCH) * stride + v * VL), level=2)
        for v in S.unroll(width):
            if CHANNEL_TAIL and width == 1:
                lanes[v] = S.vload(value + S.i64(k) * stride, mask=S.tail_mask(channels, VL), lanes=VL)
            else:
                lanes[v] = S.vload(value + (S.i64(k) * stride + v * VL), lanes=VL)
        for i in S.unroll(height):
            element = weight[i * block + k]
            for v in S.unroll(width):
                acc[i * width + v] = multiply_add(acc[i * width + v], element, lanes[v])
    for i in S.unroll(height):
        for v in S.unroll(width):
            S.vstore(acc[i * width + v], out + (i * out_stride + v * VL))


@S.macro
def add_values(height, value, stride, channels, weight, block, keys, state, out, out_stride):
    c = 0
    for w in S.unroll(len(WIDTHS) - 1):
        while c + WIDTHS[w] * VL <= channels:
            value_tile(
                height, WIDTHS[w], value + c, stride, WIDTHS[w] * VL, weight, block, keys, state, out + c, out_stride
            )
            c = c + WIDTHS[w] * VL
    while c < channels:
        value_tile(
            height, 1, value + c, stride, S.min(channels - c, VL), weight, block, keys, state, out + c, out_stride
        )
        c = c + VL


@S.prim_func(is_inline=False)
def store_result(
    result: S.ptr("fp32", "global"), total: S.fp32, channels: S.i32, extras: extra_types, out: S.ptr(OUT, "global")
):
    factor = vector(1) / S.vbcast(total, lanes=VL)
    shared = shared_values(extras, 0, None)
    for c in range(0, channels, VL):
        lane_mask = S.tail_mask(S.min(channels - c, VL), VL)
        finish_shared(S.vload(result + c, lanes=VL) * factor, shared, extras, out, 0, c, lane_mask)


@S.prim_func
def attention_step(
    query: S.ptr("fp32", "global"),
    key: S.ptr("fp32", "global"),
    value: S.ptr("fp32", "global"),
    mask: S.ptr(MASK_TYPE, "global"),
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    scratch: S.ptr("fp32", "global"),
    partial: S.ptr("fp32", "global"),
    results: Results,
    operands: Operands,
    block: S.i32,
    scratch_size: S.i32,
    ranges: S.i32,
    fill: S.fp32,
):
    """Each TEC has `scratch_size` elements of `scratch`, each unit its results and its state in `partial`.

    `block` is a multiple of VL.
    """
    padded_depth = S.ceildiv(operands.depth, VL) * VL
    padded_channels = S.ceildiv(results.channels, VL) * VL
    own = scratch + S.i64(S.get_local_id()) * scratch_size
    score = own + results.queries * padded_depth
    first, last = own_share(results.batches * results.heads * ranges)
    for unit in range(first, last):
        part = unit % ranges
        head = unit // ranges % results.heads
        batch = unit // ranges // results.heads
        state = score + results.queries * block
        if ranges > 1:
            state = partial + S.i64(unit) * (results.queries * (STATE + padded_channels))
        result = state + results.queries * STATE
        scale_queries(
            of_head(query, operands.query, batch, head), operands.query.row, results.queries, operands.depth, own
        )
        for q in range(results.queries):
            state[q * STATE] = S.cast("-inf", "float32")
            # Without keys the results are sums of nothing, 0.
            state[q * STATE + 1] = S.fp32(0)
            if operands.keys == 0:
                state[q * STATE + 1] = S.fp32(1)
        for c in range(0, results.queries * padded_channels, VL):
            S.vstore(vector(0), result + c)
        keys_of_head = of_head(key, operands.key, batch, head)
        values_of_head = of_head(value, operands.value, batch, head)
        mask_of_head = of_head(mask, operands.mask, batch, head)
        k, end = balanced(operands.keys, ranges, part)
        # Blocks of (almost) equal size.
        blocks = S.max(S.ceildiv(end - k, block), 1)
        size = S.max(S.ceildiv(end - k, blocks), 1)
        while k < end:
            count = S.min(size, end - k)
            score_block(
                keys_of_head + S.i64(k) * operands.key.row,
                operands.key.row,
                operands.key.step,
                count,
                own,
                results.queries,
                operands.depth,
                score,
                block,
            )
            for q in range(results.queries):
                weigh(
                    score + q * block,
                    count,
                    mask_of_head + (S.i64(q) * operands.mask.row + k * operands.mask.step),
                    operands.mask.step,
                    fill,
                    state + q * STATE,
                )
            tiles = S.max(S.ceildiv(results.queries, QUERY_HEIGHTS[0]), 1)
            row = S.i32(0)
            for t in range(tiles):
                last_row = row + results.queries // tiles
                if t < results.queries % tiles:
                    last_row = last_row + 1
                for h in S.unroll(len(QUERY_HEIGHTS)):
                    while row + QUERY_HEIGHTS[h] <= last_row:
                        add_values(
                            QUERY_HEIGHTS[h],
                            values_of_head + S.i64(k) * operands.value.row,
                            operands.value.row,
                            results.channels,
                            score + row * block,
                            block,
                            count,
                            state + row * STATE,
                            result + row * padded_channels,
                            padded_channels,
                        )
                        row = row + QUERY_HEIGHTS[h]
            k = k + count
        if ranges == 1:
            for q in range(results.queries):
                store_result(
                    result + q * padded_channels,
                    state[q * STATE + 1],
                    results.channels,
                    extras,
                    of_head(out, results.strides, batch, head) + S.i64(q) * results.strides.row,
                )


@S.prim_func
def combine(
    partial: S.ptr("fp32", "global"), extras: extra_types, out: S.ptr(OUT, "global"), results: Results, ranges: S.i32
):
    """The sums of all ranges of a head's keys together; nothing is to be done for a single one."""
    padded_channels = S.ceildiv(results.channels, VL) * VL
    size = results.queries * (STATE + padded_channels)
    units = results.batches * results.heads * results.queries
    if ranges == 1:
        units = S.i32(0)
    first, last = own_share(units)
    for unit in range(first, last):
        q = unit % results.queries
        head = unit // results.queries % results.heads
        batch = unit // results.queries // results.heads
        states = partial + (S.i64(unit // results.queries) * (ranges * size) + q * STATE)
        sums = partial + (
            S.i64(unit // results.queries) * (ranges * size) + results.queries * STATE + q * padded_channels
        )
        highest = vector("-inf")
        for r in range(ranges):
            highest = S.max(highest, S.vbcast(states[r * size], lanes=VL))
        peak = S.vsel(vector(0), highest, highest == vector("-inf"))
        total = vector(0)
        for r in range(ranges):
            total = total + S.exp(S.vbcast(states[r * size], lanes=VL) - peak) * S.vbcast(
                states[r * size + 1], lanes=VL
            )
        target = of_head(out, results.strides, batch, head) + S.i64(q) * results.strides.row
        shared = shared_values(extras, 0, None)
        for c in range(0, results.channels, VL):
            value = vector(0)
            for r in range(ranges):
                value = value + S.exp(S.vbcast(states[r * size], lanes=VL) - peak) * S.vload(
                    sums + (r * size + c), lanes=VL
                )
            lane_mask = S.tail_mask(S.min(results.channels - c, VL), VL)
            finish_shared(value / total, shared, extras, target, 0, c, lane_mask)
