"""Attention by blocks of keys:
out[b, h, q, :] = sum over keys k of weight[b, h, q, k] * value[b, h, k, :], where
weight[b, h, q, :] = softmax over keys k of (scale * query[b, h, q, :] . key[b, h, k, :] + mask[b, h, q, k]).

Parameters bound by kernels/plugins/attention.cpp:
  VL, LANES        vector lanes (both the same number)
  NV               vectors of queries that are worked on at once: NR = NV * VL queries
  LAST             vectors that are computed where a head's last queries are no more than that; NV: always all
  KEY_HEIGHTS      tile heights for keys, descending, down to 1
  CHANNEL_HEIGHTS  tile heights for the channels of `value`; they end in 1 unless all heights that occur are there
  USE_FMA, ACC     as in gemm.py; True, float32
  PAIRS, PANEL     as in gemm.py; with PAIRS products are of bfloat16 numbers, and POOL is 0
  KEY_UNIT         whether a key's channels follow each other; otherwise the keys do
  MASK             none; add: mask is added; keep, drop: scores are replaced by `fill` where mask is 0, is not 0
  MASK_TYPE        element type of mask: float32, or uint8 for keep and drop
  MASK_BY_QUERY    whether mask depends on the query
  SCALE            the factor of the scores
  OUT, extra_types and the rest of the epilogue's parameters as in epilogue.py; all elements have the same operands
  POOL             elements of local memory: scratch is there, and keys and values come to it block by block; 0: scratch
                   is in global memory, and keys and values are read where they are

Everything is computed with queries in the lanes, so that maxima, exponentials and sums need no operation across lanes
and nothing but the queries, the results and masks by query is turned over; keys and values are read an element at a
time for NR queries. For a block of at most `block` keys: scores [keys][NR] by register tiles, running
maximum, exponentials and their sum, and their product with the values, added to the results [channels][NR] of the
blocks before, scaled to the new maximum. The scores of a block stay in the first-level cache. A unit of work is NR
queries of one head. With `packed` a TEC copies the values of a head before the first of its units: rows that are
kilobytes apart meet in a few sets of the first-level cache, and tiles of channels read a part of each.

With PAIRS queries, keys, exponentials and values are rounded to bfloat16 and multiplied by words of two neighbours
(attention_copies.py); a TEC copies keys and values of each head. Scores, exponentials' sums and results are float32.

In local memory keys and values have a buffer each: the values of a block come while its scores are computed, and the
keys of the next one while these are multiplied by the values.
"""

from aipu import script as S
from attention_copies import (
    OWN,
    copy_pairs,
    copy_rows,
    copy_words,
    packed_stride,
    paired_bits,
    steps_in,
    turn_queries,
    turn_query_words,
)
from epilogue import finish_shared, shared_values
from gemm import add_product, row_bases, row_value, step_lanes
from sharing import own_share
from transpose import turned_over

NR = NV * VL
# Vectors of queries that there are tiles for, ascending.
WIDTHS = [LAST, NV] if LAST < NV else [NV]
# What is in the lanes of a product, and what is multiplied with all of them.
LANE = "bf16" if PAIRS else "fp32"
ELEMENT = "i32" if PAIRS else "fp32"


def vector(value):
    return S.cast(value, f"float32x{VL}")


def lane_buffer(width):
    return S.alloc_buffer((width,), f"{PANEL}x{step_lanes()}")


def load_lanes(pointer, step, v):
    """Vector v of a step of queries or weights."""
    return S.vload(pointer + (step * (NV * step_lanes()) + v * step_lanes()), lanes=step_lanes())


def factor(element):
    """As add_product() wants it."""
    return S.reinterpret(S.vbcast(element, lanes=VL), f"bfloat16x{2 * VL}") if PAIRS else element


@S.prim_func(is_inline=False)
def score_tile(
    height: S.meta_var,
    width: S.meta_var,
    key: S.ptr(ELEMENT, OWN),
    stride: S.i64,
    query: S.ptr(LANE, OWN),
    depth: S.i32,
    out: S.ptr("fp32", OWN),
):
    """out[i, :] = sum over d of key[i, d] * query[d, :] for `height` keys and `width` vectors of queries.

    `stride` is the one between keys (KEY_UNIT) or between channels; it and `depth` count elements or words.
    """
    acc = S.alloc_buffer((height * width,), f"float32x{VL}")
    lanes = lane_buffer(width)
    for i in S.unroll(height * width):
        acc[i] = vector(0)
    bases = row_bases(key, stride, height)
    for d in range(depth):
        for v in S.unroll(width):
            lanes[v] = load_lanes(query, d, v)
        for i in S.unroll(height):
            element = factor(row_value(bases, i, stride, S.i64(d)) if KEY_UNIT else key[S.i64(d) * stride + i])
            for v in S.unroll(width):
                acc[i * width + v] = add_product(acc[i * width + v], element, lanes[v])
    for i in S.unroll(height):
        for v in S.unroll(width):
            S.vstore(acc[i * width + v], out + (i * NR + v * VL))


@S.prim_func(is_inline=False)
def value_tile(
    height: S.meta_var,
    width: S.meta_var,
    value: S.ptr(ELEMENT, OWN),
    stride: S.i64,
    weight: S.ptr(LANE, OWN),
    keys: S.i32,
    correction: S.ptr("fp32", OWN),
    out: S.ptr("fp32", OWN),
):
    """out[i, :] = out[i, :] * correction + sum over k of value[k, i] * weight[k, :] for `height` channels and `width`
    vectors of queries. `keys` counts elements or words.
    """
    acc = S.alloc_buffer((height * width,), f"float32x{VL}")
    corrections = S.alloc_buffer((width,), f"float32x{VL}")
    lanes = lane_buffer(width)
    for v in S.unroll(width):
        corrections[v] = S.vload(correction + v * VL, lanes=VL)
    for i in S.unroll(height):
        for v in S.unroll(width):
            acc[i * width + v] = S.vload(out + (i * NR + v * VL), lanes=VL) * corrections[v]
    for k in range(keys):
        for v in S.unroll(width):
            lanes[v] = load_lanes(weight, k, v)
        for i in S.unroll(height):
            element = factor(value[S.i64(k) * stride + i])
            for v in S.unroll(width):
                acc[i * width + v] = add_product(acc[i * width + v], element, lanes[v])
    for i in S.unroll(height):
        for v in S.unroll(width):
            S.vstore(acc[i * width + v], out + (i * NR + v * VL))


def mask_value(raw):
    """Of a mask's element type, as float32: the addend, or 1 and 0."""
    if MASK == "add":
        return raw
    return S.vsel(vector(1), vector(0), raw != 0)


@S.macro
def turn_mask_vector(mask, stride, step, queries, v, k, lane_mask, out):
    if step == 1:
        rows = [
            S.vload(mask + (S.i64(S.min(v * VL + r, queries - 1)) * stride + k), mask=lane_mask, lanes=VL)
            for r in range(VL)
        ]
        columns = turned_over([mask_value(row) for row in rows], VL)
        for c in S.unroll(VL):
            S.vstore(columns[c], out + ((k + c) * NR + v * VL))
    else:
        # One element for all keys.
        for r in range(VL):
            element = S.cast(mask[S.i64(S.min(v * VL + r, queries - 1)) * stride], "float32")
            for c in range(VL):
                out[(k + c) * NR + v * VL + r] = element


@S.prim_func(is_inline=False)
def turn_mask(
    width: S.i32,
    mask: S.ptr(MASK_TYPE, "global"),
    stride: S.i64,
    step: S.i32,
    queries: S.i32,
    keys: S.i32,
    out: S.ptr("fp32", OWN),
):
    """out[k, q] = mask[q, k], up to VL - 1 rows more; `step` is 1, or 0 where all keys have the same."""
    for v in range(width):
        for k in range(0, keys, VL):
            lane_mask = S.tail_mask(S.min(keys - k, VL), VL)
            turn_mask_vector(mask, stride, step, queries, v, k, lane_mask, out)


def masked(score, element, fill):
    if MASK == "add":
        return score + element
    if MASK == "keep":
        return S.vsel(score, fill, element != 0)
    return S.vsel(fill, score, element != 0)


PEAKS = 4


def final_score(place, k, v, mask, step, turned, fills):
    """The scores of key k under the mask, which are left in their place."""
    x = S.vload(place + k * NR, lanes=VL)
    if MASK != "none":
        if MASK_BY_QUERY:
            x = masked(x, S.vload(turned + (k * NR + v * VL), lanes=VL), fills)
        else:
            x = masked(x, S.vbcast(S.cast(mask[k * step], "float32"), lanes=VL), fills)
        S.vstore(x, place + k * NR)
    return x


def store_exponentials(even, odd, place, k):
    """Of keys k and k + 1; without the latter `odd` is 0. A pair takes the place of one score, which has been read."""
    if PAIRS:
        S.vstore(paired_bits(even, odd), (place + k // 2 * NR).as_ptr("u32"))
    else:
        S.vstore(even, place + k * NR)
        S.vstore(odd, place + (k + 1) * NR)


@S.prim_func(is_inline=False)
def exponentials(
    width: S.meta_var,
    score: S.ptr("fp32", OWN),
    keys: S.i32,
    mask: S.ptr(MASK_TYPE, "global"),
    step: S.i32,
    turned: S.ptr("fp32", OWN),
    fill: S.fp32,
    state: S.ptr("fp32", OWN),
):
    """score = exp(masked score - new maximum) in place, with PAIRS [keys / 2][NR][2] of bfloat16.

    `state` is [maximum, sum, correction][NR], where correction = exp(old maximum - new one).
    """
    for v in S.unroll(width):
        place = score + v * VL
        old = S.vload(state + v * VL, lanes=VL)
        # Maxima that wait for each other would take most of the time.
        peaks = S.alloc_buffer((PEAKS,), f"float32x{VL}")
        for u in S.unroll(PEAKS):
            peaks[u] = old
        fills = S.vbcast(fill, lanes=VL)
        for k in range(0, keys // PEAKS * PEAKS, PEAKS):
            for u in S.unroll(PEAKS):
                peaks[u] = S.max(peaks[u], final_score(place, k + u, v, mask, step, turned, fills))
        for k in range(keys // PEAKS * PEAKS, keys):
            peaks[0] = S.max(peaks[0], final_score(place, k, v, mask, step, turned, fills))
        highest = S.max(S.max(peaks[0], peaks[1]), S.max(peaks[2], peaks[3]))
        S.vstore(highest, state + v * VL)
        # With nothing but -inf so far all exponentials are 0, not exp(-inf + inf).
        peak = S.vsel(vector(0), highest, highest == vector("-inf"))
        correction = S.exp(old - peak)
        S.vstore(correction, state + (2 * NR + v * VL))
        sums = S.alloc_buffer((2,), f"float32x{VL}")
        sums[0] = S.vload(state + (NR + v * VL), lanes=VL) * correction
        sums[1] = vector(0)
        for k in range(0, keys // 2 * 2, 2):
            even = S.exp(S.vload(place + k * NR, lanes=VL) - peak)
            odd = S.exp(S.vload(place + (k + 1) * NR, lanes=VL) - peak)
            sums[0] = sums[0] + even
            sums[1] = sums[1] + odd
            store_exponentials(even, odd, place, k)
        if keys % 2 != 0:
            last = S.exp(S.vload(place + (keys - 1) * NR, lanes=VL) - peak)
            sums[0] = sums[0] + last
            if PAIRS:
                store_exponentials(last, vector(0), place, keys - 1)
            else:
                S.vstore(last, place + (keys - 1) * NR)
        S.vstore(sums[0] + sums[1], state + (NR + v * VL))


@S.prim_func(is_inline=False)
def store_results(
    width: S.i32,
    result: S.ptr("fp32", OWN),
    sums: S.ptr("fp32", OWN),
    queries: S.i32,
    channels: S.i32,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    stride: S.i64,
):
    """out[q, d] = epilogue(result[d, q] / sums[q]) for the queries that exist."""
    shared = shared_values(extras, 0, None)
    for v in range(width):
        factor = vector(1) / S.vload(sums + v * VL, lanes=VL)
        for d in range(0, channels, VL):
            lane_mask = S.tail_mask(S.min(channels - d, VL), VL)
            columns = [S.vload(result + ((d + c) * NR + v * VL), lanes=VL) * factor for c in range(VL)]
            rows = turned_over(columns, VL)
            for r in S.unroll(VL):
                if v * VL + r < queries:
                    finish_shared(rows[r], shared, extras, out, 0, 0, lane_mask, S.i64(v * VL + r) * stride + d)


@S.record
class Strides:
    """Of a tensor, in elements."""

    batch: S.i32
    head: S.i32
    row: S.i32


@S.record
class SteppedStrides:
    """Of one whose rows are not contiguous."""

    batch: S.i32
    head: S.i32
    row: S.i32
    step: S.i32


@S.record
class Results:
    batches: S.i32
    heads: S.i32
    queries: S.i32
    channels: S.i32
    strides: Strides


@S.record
class Operands:
    keys: S.i32
    depth: S.i32
    query: Strides
    key: SteppedStrides
    value: Strides
    mask: SteppedStrides


def of_head(data, strides, batch, head):
    return data + (S.i64(batch) * strides.batch + S.i64(head) * strides.head)


def as_lanes(pointer):
    return pointer.as_ptr("bf16") if PAIRS else pointer


def fetch_keys(event, target, keys_of_head, k, count, operands: Operands):
    """Starts bringing `count` keys from key k on in: as rows, or of each channel those keys."""
    strides = operands.key
    source = keys_of_head + S.i64(k) * strides.row
    if KEY_UNIT:
        S.async_dma_copy(target, source, operands.depth, strides.row, count, operands.depth, event=event)
    else:
        S.async_dma_copy(target, source, count, strides.step, operands.depth, count, event=event)


def score_tiles(width, keys_of_block, row, stride, count, turned, depth, score):
    tiles = S.max(S.ceildiv(count, KEY_HEIGHTS[0]), 1)
    m = S.i32(0)
    for t in range(tiles):
        end = m + count // tiles
        if t < count % tiles:
            end = end + 1
        for h in S.unroll(len(KEY_HEIGHTS)):
            while m + KEY_HEIGHTS[h] <= end:
                first = keys_of_block + (S.i64(m) * row if KEY_UNIT else m)
                score_tile(KEY_HEIGHTS[h], width, first, stride, turned, depth, score + m * NR)
                m = m + KEY_HEIGHTS[h]


def value_tiles(width, values_of_block, row, channels, weights, count, correction, result):
    tiles = S.max(S.ceildiv(channels, CHANNEL_HEIGHTS[0]), 1)
    m = S.i32(0)
    for t in range(tiles):
        end = m + channels // tiles
        if t < channels % tiles:
            end = end + 1
        for h in S.unroll(len(CHANNEL_HEIGHTS)):
            while m + CHANNEL_HEIGHTS[h] <= end:
                first = values_of_block + m
                value_tile(CHANNEL_HEIGHTS[h], width, first, row, weights, count, correction, result + m * NR)
                m = m + CHANNEL_HEIGHTS[h]


def is_width(w, vectors):
    """Whether WIDTHS[w] is the least of them that so many vectors of queries fit."""
    if len(WIDTHS) == 1:
        return True
    return vectors <= LAST if w == 0 else vectors > LAST


@S.prim_func
def attention(
    query: S.ptr("fp32", "global"),
    key: S.ptr("fp32", "global"),
    value: S.ptr("fp32", "global"),
    mask: S.ptr(MASK_TYPE, "global"),
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    scratch: S.ptr("fp32", "global"),
    results: Results,
    operands: Operands,
    block: S.i32,
    packed: S.i32,
    scratch_size: S.i32,
    fill: S.fp32,
):
    """Each TEC has `scratch_size` elements of `scratch`; `packed` is 1 or 0."""
    if POOL > 0:
        own = S.alloc((POOL,), "float32", scope="lsram")
        block_of_keys = own + scratch_size
        block_of_values = block_of_keys + block * operands.depth
        events = S.alloc_events(2)
    else:
        own = scratch + S.i64(S.get_local_id()) * scratch_size
    state = own
    turned = own + 3 * NR
    result = turned + S.ceildiv(operands.depth, VL) * (VL * NR)
    score = result + S.ceildiv(results.channels, VL) * (VL * NR)
    turned_mask = score + block * NR
    if POOL == 0:
        copies = turned_mask
        if MASK != "none" and MASK_BY_QUERY:
            copies = turned_mask + S.ceildiv(block, VL) * (VL * NR)
        if PAIRS:
            packed_keys = copies.as_ptr("i32")
            depth_words = steps_in(operands.depth)
            key_rows = operands.keys if KEY_UNIT else depth_words
            packed_key_row = packed_stride(depth_words if KEY_UNIT else operands.keys)
            packed_values = packed_keys + key_rows * packed_key_row
        else:
            packed_values = copies
        packed_head = S.i32(-1)
    groups = S.ceildiv(results.queries, NR)
    first, last = own_share(results.batches * results.heads * groups)
    # Blocks of (almost) equal size; of no keys one, or none where they would be moved.
    blocks = S.ceildiv(operands.keys, block)
    if POOL == 0:
        blocks = S.max(blocks, 1)
    steps = steps_in(operands.keys)
    fewer, rest = steps // S.max(blocks, 1), steps % S.max(blocks, 1)
    for unit in range(first, last):
        q = unit % groups * NR
        head = unit // groups % results.heads
        batch = unit // groups // results.heads
        here = S.min(results.queries - q, NR)
        keys_of_head = of_head(key, operands.key, batch, head)
        values_of_head = of_head(value, operands.value, batch, head)
        if POOL > 0:
            if blocks > 0:
                coming = S.ceildiv(operands.keys, blocks)
                fetch_keys(events[0], block_of_keys, keys_of_head, S.i32(0), coming, operands)
        elif PAIRS:
            if unit // groups != packed_head:
                packed_head = unit // groups
                if KEY_UNIT:
                    copy_words(keys_of_head, operands.key.row, operands.keys, operands.depth, packed_keys)
                else:
                    copy_pairs(keys_of_head, operands.key.step, operands.depth, operands.keys, packed_keys)
                copy_pairs(values_of_head, operands.value.row, operands.keys, results.channels, packed_values)
        elif packed != 0:
            if unit // groups != packed_head:
                packed_head = unit // groups
                copy_rows(values_of_head, operands.value.row, operands.keys, results.channels, packed_values)
        vectors = S.ceildiv(here, VL)
        rows = of_head(query, operands.query, batch, head) + S.i64(q) * operands.query.row
        if PAIRS:
            turn_query_words(vectors, rows, operands.query.row, here, operands.depth, turned.as_ptr("i32"))
        else:
            turn_queries(vectors, rows, operands.query.row, here, operands.depth, turned)
        for v in S.unroll(NV):
            S.vstore(vector("-inf"), state + v * VL)
            S.vstore(vector(0), state + (NR + v * VL))
        for d in range(S.ceildiv(results.channels, VL) * VL):
            for v in S.unroll(NV):
                S.vstore(vector(0), result + (d * NR + v * VL))
        mask_of_rows = of_head(mask, operands.mask, batch, head) + S.i64(q) * operands.mask.row
        k = S.i32(0)
        for b in range(blocks):
            count = S.i32(fewer)
            if b < rest:
                count = count + 1
            if PAIRS:
                # An even number, but of the last block.
                count = S.min(2 * count, operands.keys - k)
            if MASK != "none" and MASK_BY_QUERY:
                turn_mask(
                    vectors,
                    mask_of_rows + k * operands.mask.step,
                    operands.mask.row,
                    operands.mask.step,
                    here,
                    count,
                    turned_mask,
                )
            values_of_block = values_of_head + S.i64(k) * operands.value.row
            if POOL > 0:
                S.wait_events(events[0])
                channels = results.channels
                S.async_dma_copy(
                    block_of_values, values_of_block, channels, operands.value.row, count, channels, event=events[1]
                )
                keys_there, key_row, key_step = block_of_keys, operands.depth, count
                values_there, value_row = block_of_values, channels
            elif PAIRS:
                keys_there = packed_keys + (k * packed_key_row if KEY_UNIT else k)
                key_row, key_step = packed_key_row, packed_key_row
                value_row = packed_stride(results.channels)
                values_there = packed_values + k // 2 * value_row
            else:
                values_there = values_of_block
                keys_there = keys_of_head + S.i64(k) * operands.key.row
                key_row, key_step, value_row = operands.key.row, operands.key.step, operands.value.row
                if packed != 0:
                    value_row = packed_stride(results.channels)
                    values_there = packed_values + k * value_row
            key_stride = key_row if KEY_UNIT else key_step
            mask_of_block = mask_of_rows + k * operands.mask.step
            for w in S.unroll(len(WIDTHS)):
                if is_width(w, vectors):
                    score_tiles(
                        WIDTHS[w],
                        keys_there,
                        key_row,
                        key_stride,
                        count,
                        as_lanes(turned),
                        steps_in(operands.depth),
                        score,
                    )
                    exponentials(WIDTHS[w], score, count, mask_of_block, operands.mask.step, turned_mask, fill, state)
            if POOL > 0:
                S.wait_events(events[1])
                if b + 1 < blocks:
                    coming = S.i32(fewer)
                    if b + 1 < rest:
                        coming = coming + 1
                    fetch_keys(events[0], block_of_keys, keys_of_head, k + count, coming, operands)
            for w in S.unroll(len(WIDTHS)):
                if is_width(w, vectors):
                    value_tiles(
                        WIDTHS[w],
                        values_there,
                        value_row,
                        results.channels,
                        as_lanes(score),
                        steps_in(count),
                        state + 2 * NR,
                        result,
                    )
            k = k + count
        if operands.keys == 0:
            # The results are sums of nothing, 0.
            for v in S.unroll(NV):
                S.vstore(vector(1), state + (NR + v * VL))
        target = of_head(out, results.strides, batch, head) + S.i64(q) * results.strides.row
        store_results(vectors, result, state + NR, here, results.channels, extras, target, results.strides.row)
    if POOL > 0:
        S.free_events(events[0], events[1])
