"""Operators of the domain com.microsoft on tokens: hashes of n-grams, requests of different lengths in a row, paths,
letters of words; against NumPy, as ONNX Runtime's CPU provider computes them."""

import aipu
import numpy as np
import pytest
from onnx_family import Family, floats
from onnx_text import node, write_model

F32 = np.float32
LOWEST = np.finfo(F32).min


@pytest.fixture
def random():
    return np.random.default_rng(37)


@pytest.fixture
def family():
    return Family(opset=18, domain="com.microsoft")


class NGrams:
    """Hashes of the n-grams that end with a token of a list, which has those in front of it too."""

    def __init__(self, random, dtype, most, heads, pad=8, end=None, resets=0, offsets=False):
        self.dtype, self.most, self.heads, self.pad, self.end, self.resets = dtype, most, heads, pad, end, resets
        count = (most - 1) * heads
        self.factors = random.integers(-(2**30), 2**30, most).astype(dtype)
        self.sizes = random.integers(1, 97, count).astype(dtype)
        self.offsets = random.integers(0, 2**31 - 2, count).astype(dtype) if offsets else None
        self.fill = pad if end is None else end
        self.attributes = {"max_ngram_size": most, "n_head_per_ngram": heads, "pad_id": pad, "reset_on_eos": resets}

    def wrapped(self, number):
        bits = np.iinfo(self.dtype).bits
        number &= (1 << bits) - 1
        return number - (1 << bits) if number >> (bits - 1) else number

    def hashes(self, tokens, segments, at):
        shifted, cut = [tokens[at]], False
        for k in range(at - 1, at - self.most, -1):
            cut = cut or segments[k] != segments[k + 1] or bool(self.resets and tokens[k] == self.end)
            shifted.append(self.fill if cut else tokens[k])
        found = []
        for n in range(2, self.most + 1):
            mix = 0
            for token, factor in zip(shifted[:n], self.factors):
                mix ^= self.wrapped(int(token) * int(factor))
            for k in range((n - 2) * self.heads, (n - 1) * self.heads):
                more = 0 if self.offsets is None else int(self.offsets[k])
                found.append(self.wrapped(mix % int(self.sizes[k]) + more))
        return found

    def request(self, ids, past, segments, past_segments):
        """The hashes; all tokens and segments with those in front."""
        before = self.most - 1
        tokens = [*([self.fill] * before if past is None else past), *ids]
        segments = [0] * len(ids) if segments is None else list(segments)
        segments = [*(segments[:1] * before if past_segments is None else past_segments), *segments]
        found = [self.hashes(tokens, segments, at) for at in range(before, len(tokens))]
        return np.array(found, self.dtype), tokens, segments


CASES = [
    {"dtype": np.int64, "most": 2, "heads": 1},
    {"dtype": np.int64, "most": 3, "heads": 2, "end": 1, "resets": 1, "offsets": True},
    {"dtype": np.int32, "most": 4, "heads": 2, "end": 2, "offsets": True},
    {"dtype": np.int32, "most": 3, "heads": 1, "resets": 1},
]


@pytest.mark.parametrize("symbols", [{}, {0: [0, 1], 3: [0], 6: [0, 1]}])
def test_hashes_of_ngrams(tmp_path, random, family, symbols):
    for case in CASES:
        for has_past, has_segments in [(False, False), (True, False), (True, True), (False, True)]:
            g = NGrams(random, **case)
            ids = random.integers(0, 4, (2, 7)).astype(g.dtype)
            past = random.integers(0, 4, (2, g.most - 1)).astype(g.dtype) if has_past else [None, None]
            segments = random.integers(0, 2, (2, 7)).astype(np.int32) if has_segments else [None, None]
            rows = [g.request(ids[b], past[b], segments[b], None) for b in range(2)]
            expected = [np.stack([row[0] for row in rows])]
            expected.append(np.array([row[1][1 - g.most :] for row in rows], g.dtype))
            end = None if g.end is None else np.array(g.end, g.dtype)
            operands = [ids, g.factors, g.sizes, past if has_past else None, g.offsets, end]
            operands.append(segments if has_segments else None)
            family.add("NGramHashMapping", operands, expected, symbols=symbols, **g.attributes)
    family.check(tmp_path)


@pytest.mark.parametrize("symbols", [{}, {0: [0], 3: [0], 4: [0], 7: [0], 8: [0], 9: [0]}])
def test_hashes_of_ngrams_of_requests(tmp_path, random, family, symbols):
    lengths = [1, 5, 3]
    ends = np.cumsum([0, *lengths]).astype(np.int32)
    for case in CASES:
        for has_past, has_segments, has_both in [(0, 0, 0), (1, 0, 0), (1, 1, 1), (0, 1, 0), (1, 1, 0)]:
            g = NGrams(random, **case)
            before, capacity = g.most - 1, 2
            ids = random.integers(0, 4, 9).astype(g.dtype)
            past = random.integers(0, 4, (3, before)).astype(g.dtype) if has_past else [None] * 3
            segments = random.integers(0, 2, 9).astype(np.int32) if has_segments else None
            earlier = random.integers(0, 2, (3, before)).astype(np.int32) if has_both else [None] * 3
            count = np.array([3, 1, -1], np.int32)
            kept = np.full((3, capacity, before), g.pad, g.dtype)
            rows = []
            for b, (begin, end) in enumerate(zip(ends, ends[1:])):
                own = None if segments is None else segments[begin:end]
                rows.append(g.request(ids[begin:end], past[b], own, earlier[b]))
                for k in range(max(0, min(count[b], capacity, end - begin))):
                    kept[b, k] = rows[-1][1][k + 1 : k + 1 + before]
            expected = [np.concatenate([row[0] for row in rows])]
            expected.append(np.array([row[1][-before:] for row in rows], g.dtype))
            expected.append(np.array([row[2][-before:] for row in rows], np.int32) if has_segments else None)
            last = None if g.end is None else np.array(g.end, g.dtype)
            operands = [ids, g.factors, g.sizes, ends, past if has_past else None, g.offsets, last, segments]
            operands.append(earlier if has_both else None)
            more = {"symbols": symbols, **g.attributes}
            family.add("VarlenNGramHashMapping", operands, expected, **more)
            operands.append(count)
            more["state_update_capacity"] = capacity
            family.add("VarlenNGramHashMapping", operands, [*expected, kept], **more)
    family.check(tmp_path)


@pytest.mark.parametrize("symbols", [{}, {0: [0], 2: [0], 4: [0], 5: [0]}])
def test_convolutions_of_requests(tmp_path, random, family, symbols):
    lengths, channels, capacity = [1, 5, 3], 3, 2
    ends = np.cumsum([0, *lengths]).astype(np.int32)
    count = np.array([3, 2, 0], np.int32)
    for taps, dilation, activation in [(1, 1, "none"), (3, 1, "silu"), (2, 3, "swish")]:
        before = (taps - 1) * dilation
        x, weights, bias = floats(random, 9, channels), floats(random, channels, 1, taps), floats(random, channels)
        state = floats(random, 3, channels, before)
        y, final = np.zeros_like(x), np.zeros_like(state)
        kept = np.zeros((3, capacity, channels), F32)
        for b, (begin, end) in enumerate(zip(ends, ends[1:])):
            rows = np.concatenate([state[b].T, x[begin:end]])
            for k in range(end - begin):
                y[begin + k] = sum(rows[k + j * dilation] * weights[:, 0, j] for j in range(taps))
            final[b] = rows[len(rows) - before :].T
            kept[b, : min(count[b], end - begin)] = x[begin : min(begin + count[b], end)][:capacity]
        with_bias = y + bias
        if activation != "none":
            y, with_bias = (v / (1 + np.exp(-v)) for v in (y, with_bias))
        more = {"symbols": symbols, "dilation": dilation, "activation": activation}
        family.add("VarlenCausalConvWithState", [x, weights, ends, None, state], [y, final], **more)
        operands = [x, weights, ends, bias, state, count]
        more["state_update_capacity"] = capacity
        family.add("VarlenCausalConvWithState", operands, [with_bias, final, kept], **more)
    family.check(tmp_path)


def warped(x):
    """The cheapest path from corner to corner."""
    cost = np.full(np.add(x.shape, 1), np.inf, F32)
    cost[0, 0] = 0
    way = np.zeros(cost.shape, int)
    for c in range(1, cost.shape[1]):
        for r in range(1, cost.shape[0]):
            both, above, left = cost[r - 1, c - 1], cost[r - 1, c], cost[r, c - 1]
            way[r, c] = 0 if both < min(above, left) else 1 if above < min(both, left) else 2
            cost[r, c] = (both, above, left)[way[r, c]] + x[r - 1, c - 1]
    r, c, path = *x.shape, []
    while r > 0 and c > 0:
        path.append((r - 1, c - 1))
        r, c = r - (way[r, c] != 2), c - (way[r, c] != 1)
    return np.array(path[::-1], np.int32).T


@pytest.mark.parametrize("symbols", [[], [0]])
def test_paths_through_costs(tmp_path, random, family, symbols):
    for shape in [(1, 1), (1, 4), (5, 1), (4, 7), (6, 3)]:
        x = random.integers(-1, 3, shape).astype(F32)  # many of the same cost
        family.add("DynamicTimeWarping", [x], warped(x), symbols=symbols)
    x = floats(random, 1, 9, 12)
    family.add("DynamicTimeWarping", [x], warped(x[0]), symbols={0: [1, 2]} if symbols else [])
    family.check(tmp_path)


def continued(source, tokens, least, most):
    """Where the source goes on behind the only n-gram of it that ends the tokens."""
    for n in range(least, most + 1):
        if n > len(tokens):
            return -1
        places = [k for k in range(len(source) - n + 1) if source[k : k + n] == tokens[-n:]]
        if not places:
            return -1
        if len(places) == 1 or places[0] + n >= len(source):
            return places[0] + n
    return -1


@pytest.mark.parametrize("symbols", [[], [0, 1, 3]])
def test_tokens_that_go_on_as_a_source(tmp_path, random, family, symbols):
    for case in range(12):
        source = random.integers(0, 3, random.integers(1, 9)).tolist()
        tokens = random.integers(0, 3, random.integers(1, 5)).tolist()
        at, least = int(random.integers(0, len(source) + 1)), int(random.integers(1, 3))
        predicted = [*source[at:], 2] if case % 2 else random.integers(0, 3, len(source) + 1 - at).tolist()
        same = 0
        while same < len(source) - at and predicted[same] == source[at + same]:
            same += 1
        more = {"min_ngram_size": least, "max_ngram_size": least + case % 4, "symbols": symbols}
        ends = [least, least + case % 4]
        joined = tokens + predicted[: same + 1]
        operands = [np.array(source), np.array(tokens), np.array([at]), np.array(predicted)]
        expected = [np.array(joined), np.array([continued(source, joined, *ends)])]
        family.add("BifurcationDetector", operands, expected, **more)
        operands[2:] = [np.array(at)]
        more["symbols"] = [k for k in symbols if k < 3]
        expected = [np.array(tokens), np.array(continued(source, tokens, *ends))]
        family.add("BifurcationDetector", operands, expected, **more)
    family.check(tmp_path)


def test_words_of_letters(tmp_path, random, family):
    for letters, window in [(5, 2), (5, 1), (4, 4), (6, 3)]:
        words = random.integers(1, 7, (8, letters)).astype(np.int32)
        for k in range(1, 8):
            words[k, min(k, letters) :] = 0
        words[0] = 0
        words[7, 1] = 0  # counts all the same
        weights, bias, table = floats(random, 3, 1, window, 4), floats(random, 3), floats(random, 7, 4)
        y = np.zeros((8, 3), F32)
        for k in range(1, 8):
            rows = table[words[k, : max(np.count_nonzero(words[k]), window)]]
            places = range(len(rows) - window + 1)
            y[k] = np.tanh(max_of([np.einsum("fwe,we->f", weights[:, 0], rows[p : p + window]) + bias for p in places]))
        family.add("WordConvEmbedding", [words, weights, bias, table], y, symbols={0: [0]}, embedding_size=3)
    family.check(tmp_path)


def max_of(arrays):
    return np.max(np.stack(arrays), 0)


def masked_max(x, mask, kernel, strides, begins, ends):
    """Of windows whose rows end where the mask is 0."""
    axes = len(kernel)
    extents = [(n + b + e - k) // s + 1 for n, b, e, k, s in zip(x.shape[2:], begins, ends, kernel, strides)]
    y = np.full((*x.shape[:2], *extents), LOWEST)
    for out in np.ndindex(*extents):
        for row in np.ndindex(*kernel[:-1]):
            for last in range(kernel[-1]):
                at = tuple(o * s - b + k for o, s, b, k in zip(out, strides, begins, (*row, last)))
                if not all(0 <= p < n for p, n in zip(at, x.shape[2:])):
                    continue
                if mask[(0, 0, *at)] == 0 and (axes == 1 or any(at)):
                    break
                y[(..., *out)] = np.maximum(y[(..., *out)], x[(..., *at)])
    return y


def test_pooling_up_to_a_mask(tmp_path, random, family):
    cases = [
        ((9,), [3], [2], [1], [1]),
        ((6, 7), [3, 2], [2, 1], [1, 1], [0, 1]),
        ((3, 4, 5), [2, 3, 2], [1] * 3, [0] * 3, [0] * 3),
    ]
    for extents, kernel, strides, begins, ends in cases:
        x, mask = floats(random, 2, 3, *extents), (random.random((1, 1, *extents)) < 0.6).astype(np.int32)
        mask.ravel()[0] = 0
        axes = range(2, 2 + len(extents))
        y = masked_max(x, mask, kernel, strides, begins, ends)
        options = {"kernel_shape": kernel, "strides": strides, "pads": [*begins, *ends]}
        for symbols in ({}, {0: [0, *axes], 1: axes}):
            family.add("MaxpoolWithMask", [x, mask], y, symbols=symbols, **options)
    x, mask = floats(random, 1, 2, 7), np.ones((1, 1, 7), np.int32)
    mask[0, 0, 3] = 0
    for automatic, begin in [("SAME_UPPER", 0), ("SAME_LOWER", 1)]:
        y = masked_max(x, mask, [2], [1], [begin], [1 - begin])
        family.add("MaxpoolWithMask", [x, mask], y, symbols={0: [2], 1: [2]}, kernel_shape=[2], auto_pad=automatic)
        y = masked_max(x, mask, [4], [2], [1 + begin], [2 - begin])
        family.add(
            "MaxpoolWithMask", [x, mask], y, symbols={0: [2], 1: [2]}, kernel_shape=[4], strides=[2], auto_pad=automatic
        )
    family.check(tmp_path)


def test_a_mask_of_several_channels_is_refused(tmp_path):
    nodes = [node("MaxpoolWithMask", ["x", "m"], ["y"], "com.microsoft", kernel_shape=[2])]
    inputs = [("x", "float32", [1, 2, 5]), ("m", "int32", [1, 2, 5])]
    write_model(tmp_path / "m.onnx", nodes, inputs, [("y", "float32", [1, 2, 4])], opset=17)
    with pytest.raises(RuntimeError, match=r"'y_node'\): a mask of the type int32\[1,2,5\] is not supported"):
        aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")


def test_products_with_a_blob(tmp_path, random, family):
    for depth, columns, has_zeros in [(32, 1, 0), (100, 5, 1), (70, 3, 0), (64, 2, 1)]:
        blocks = -(-depth // 32)
        scales = floats(random, columns, blocks)
        codes = random.integers(0, 16, (columns, blocks, 32)).astype(np.uint8)
        zeros = random.integers(0, 16, (columns, blocks, 1)).astype(np.uint8) if has_zeros else np.uint8(8)
        parts = [scales[..., None].view(np.uint8), *[zeros] * has_zeros, codes[..., :16] | codes[..., 16:] << 4]
        weights = ((codes.astype(F32) - zeros) * scales[..., None]).reshape(columns, -1)[:, :depth].T
        x = floats(random, 3, depth)
        operands = [x, np.concatenate(parts, -1).ravel(), np.array([depth, columns])]
        more = {"constants": [1, 2], "symbols": [0], "tolerance": 1e-4, "blk_quant_type": has_zeros}
        family.add("MatMulFpQ4", operands, x @ weights, **more)
    family.add("SampleOp", [x], x)
    family.check(tmp_path)
