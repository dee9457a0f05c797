"""Operators of the domain com.microsoft around attention: sentences without padding, relative positions, local and
global tokens; against NumPy."""

import math

import aipu
import numpy as np
import pytest
from onnx_family import Family, floats, sigmoid, softmax
from onnx_text import node, write_model

F32 = np.float32


@pytest.fixture
def random():
    return np.random.default_rng(31)


@pytest.fixture
def family():
    return Family(opset=17, domain="com.microsoft")


class Sentences:
    """Three sentences of different lengths, with their words' places."""

    lengths, longest = [2, 4, 1], 4

    def __init__(self):
        counts = np.array(self.lengths, np.int32)
        is_word = (np.arange(self.longest) < counts[:, None]).ravel()
        self.counts = counts
        self.places = np.flatnonzero(is_word)
        offsets = np.concatenate([self.places, np.flatnonzero(~is_word)])
        self.offsets = offsets.astype(np.int32).reshape(len(counts), self.longest)
        self.ends = np.cumsum([0, *counts]).astype(np.int32)

    def parts(self, tokens):
        return np.split(tokens, self.ends[1:-1])

    def padded(self, tokens):
        y = np.zeros((len(self.lengths) * self.longest, tokens.shape[1]), tokens.dtype)
        y[self.places] = tokens
        return y.reshape(len(self.lengths), self.longest, -1)


@pytest.mark.parametrize("symbols", [{}, {0: [0, 1], 1: [0]}])
def test_padding_is_removed_and_restored(tmp_path, random, family, symbols):
    s = Sentences()
    x = floats(random, 3, 4, 6)
    tokens = x.reshape(12, 6)[s.places]
    expected = [tokens, s.offsets, s.ends, np.array([4], np.int32)]
    family.add("RemovePadding", [x, s.counts], expected, symbols=symbols)
    family.add("RemovePadding", [x, s.counts], [tokens, s.offsets], constants=[1])
    restored = s.padded(tokens)
    family.add("RestorePadding", [tokens, s.offsets], restored, symbols={0: [0], 1: [0, 1]} if symbols else {})
    family.check(tmp_path)


def test_padding_around_attention(tmp_path, random):
    """The tokens' number is one that only a run knows, from RemovePadding to RestorePadding."""
    import aipu
    from onnx_text import node, write_model

    s = Sentences()
    x = floats(random, 3, 4, 6)
    weights = floats(random, 6, 12)
    nodes = [
        node("RemovePadding", ["x", "counts"], ["tokens", "offsets", "ends", "most"], "com.microsoft"),
        node("PackedMultiHeadAttention", ["tokens", "tokens", "tokens", "", "offsets", "ends"], ["attended"],
             "com.microsoft", num_heads=2),
        node("MatMul", ["attended", "weights"], ["product"]),
        node("RestorePadding", ["product", "offsets"], ["y"], "com.microsoft"),
    ]  # fmt: skip
    inputs = [("x", "float32", ["B", "L", 6]), ("counts", "int32", ["B"])]
    write_model(tmp_path / "m.onnx", nodes, inputs, [("y", "float32", ["B", "L", 12])], {"weights": weights}, 17)
    session = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"])
    for counts in ([2, 4, 1], [4, 4, 4], [1, 1, 1]):
        y = session.run({"x": x, "counts": np.array(counts, np.int32)})["y"]
        expected = np.zeros((3, 4, 12), F32)
        for row, count in enumerate(counts):
            heads = x[row, :count].reshape(count, 2, 3).transpose(1, 0, 2)
            attended = softmax(heads @ heads.transpose(0, 2, 1) / math.sqrt(3)) @ heads
            expected[row, :count] = attended.transpose(1, 0, 2).reshape(count, 6) @ weights
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


def packed_attention(s, q, k, v, heads, scale, extra):
    """Of rows of tokens."""
    y = []
    for row, (a, b, c) in enumerate(zip(*(s.parts(x) for x in (q, k, v)))):
        a, b, c = (x.reshape(len(x), heads, -1).transpose(1, 0, 2) for x in (a, b, c))
        scores = a @ b.transpose(0, 2, 1) * (scale or 1 / math.sqrt(a.shape[-1]))
        if extra is not None:
            scores = scores + extra[row % len(extra), :, : a.shape[1], : a.shape[1]]
        y.append((softmax(scores) @ c).transpose(1, 0, 2).reshape(a.shape[1], -1))
    return np.concatenate(y).astype(F32)


def test_packed_multi_head_attention(tmp_path, random, family):
    s = Sentences()
    count, heads = len(s.places), 2
    q, k, v = floats(random, count, 6), floats(random, count, 6), floats(random, count, 8)
    bias = floats(random, 20)
    for extra in (None, floats(random, 1, 1, 4, 4), floats(random, 3, heads, 4, 4)):
        y = packed_attention(s, q, k, v, heads, None, extra)
        operands = [q, k, v, None, s.offsets, s.ends, extra]
        family.add("PackedMultiHeadAttention", operands, y, num_heads=heads, tolerance=1e-4)
    y = packed_attention(s, q + bias[:6], k + bias[6:12], v + bias[12:], heads, 0.3, None)
    operands = [q, k, v, bias, s.offsets, s.ends]
    more = {"num_heads": heads, "scale": 0.3, "mask_filter_value": -3.0}
    family.add("PackedMultiHeadAttention", operands, y, symbols={0: [0], 1: [0], 2: [0]}, tolerance=1e-4, **more)
    together, bias = floats(random, count, heads, 3, 5), floats(random, 30)
    parts = [together[:, :, i].reshape(count, -1) + bias[i * 10 : i * 10 + 10] for i in range(3)]
    y = packed_attention(s, *parts, heads, None, None)
    operands = [together, None, None, bias, s.offsets, s.ends]
    family.add("PackedMultiHeadAttention", operands, y, num_heads=heads, tolerance=1e-4)
    family.check(tmp_path)


def bucket(distance, both_ways, buckets, most):
    """Of T5, for a key behind its query by ``distance``."""
    start = 0
    if both_ways:
        buckets //= 2
        start = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    wide = exact + int(F32(math.log(distance / exact)) / F32(math.log(most / exact)) * F32(buckets - exact))
    return start + min(wide, buckets - 1)


@pytest.mark.parametrize("both_ways", [0, 1])
def test_relative_positions(tmp_path, random, family, both_ways):
    for buckets, most, queries, keys in [(32, 128, 150, 150), (8, 10, 3, 20), (6, 20, 30, 1)]:
        table = floats(random, 3, buckets)
        places = [[bucket(k - q, both_ways, buckets, most) for k in range(keys)] for q in range(queries)]
        more = {"is_bidirectional": both_ways, "max_distance": most}
        operands = [table.reshape(buckets, 3), np.int64(queries), np.int64(keys)]
        family.add("RelativePositionBias", operands, table[None, :, places], constants=[0, 1, 2], **more)
        operands[1] = np.array([queries])
        family.add("RelativePositionBias", operands, table[None, :, places], **more)
    family.check(tmp_path)


def test_gated_relative_positions(tmp_path, random, family):
    s = Sentences()
    heads, size, width = 2, 3, 8
    x, bias = floats(random, 3, 4, heads * size), floats(random, heads * size)
    places, weights = floats(random, 1, heads, 4, 4), floats(random, size, width)
    more, eco = floats(random, width), floats(random, 1, heads, 1, 1)

    def gated(x):
        q = (x + bias).reshape(3, 4, heads, size).transpose(0, 2, 1, 3)
        gates = sigmoid((q @ weights + more).reshape(3, heads, 4, 2, width // 2).sum(-1))
        return (gates[..., :1] * (gates[..., 1:] * eco - 1) + 2) * places

    operands = [x, bias, places, weights, more, eco]
    family.add("GatedRelativePositionBias", operands, gated(x), symbols={0: [0, 1]}, num_heads=heads)
    tokens = x.reshape(12, -1)[s.places]
    operands = [tokens, bias, places, weights, more, eco, s.offsets]
    family.add("GatedRelativePositionBias", operands, gated(s.padded(tokens)), symbols={0: [0]}, num_heads=heads)
    family.check(tmp_path)
