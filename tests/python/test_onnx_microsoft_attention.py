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


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_decoder_attention(tmp_path, random, family, cross, cached):
    batch, length, keys, heads, width = 2, 3, 5, 2, 6
    query, key = floats(random, length, batch, width), floats(random, keys, batch, width)
    to_query, to_both, bias = floats(random, width, width), floats(random, width, 2 * width), floats(random, 3 * width)
    caches = [floats(random, batch, heads, 4, width // heads) for _ in range(2)] if cached else [None, None]
    q = split_heads(query @ to_query + bias[:width], heads)
    k, v = (split_heads(x, heads) for x in np.split((key if cross else query) @ to_both + bias[width:], 2, 2))
    if cached:
        k, v = caches if cross else [np.concatenate(pair, 2) for pair in zip(caches, (k, v))]
    mask = random.random((batch, k.shape[2])) < 0.4
    operands = [query, key, to_query, to_both, bias]
    for masked in (False, True):
        scores = q @ k.swapaxes(2, 3) / math.sqrt(width / heads) - F32(10000) * (mask[:, None, None] & masked)
        y = (softmax(scores) @ v).transpose(2, 0, 1, 3).reshape(length, batch, width).astype(F32)
        flags = [np.array([flag]) for flag in (cross, cached, True, masked)]
        for given in (mask, None) if not masked else (mask,):
            operands[5:] = [given, *caches, *flags]
            more = {"constants": [8, 9, 10], "symbols": {0: [0, 1], 1: [0, 1]}, "num_heads": heads}
            if given is None:
                more["constants"].append(11)
            family.add("DecoderAttention", operands, [y, k, v], tolerance=1e-4, **more)
    family.check(tmp_path)


def split_heads(x, heads):
    """[length, batch, size] with heads in front."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2, 0, 3)


def longformer(x, weights, biases, mask, is_global, heads, window):
    """``weights`` and ``biases``: of queries, keys and values, local and global."""
    batch, length, size = x.shape
    parts = [(x @ w + b).reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for w, b in zip(weights, biases)]
    y = np.zeros_like(x)
    for b in range(batch):
        for row in range(length):
            if mask[b, row] < 0:
                continue
            seen = np.abs(np.arange(length) - row) <= window
            seen = seen | (is_global[b] != 0) if not is_global[b, row] else np.full(length, True)
            q, k, v = parts[3:] if is_global[b, row] else parts[:3]
            scores = np.einsum("hd,hkd->hk", q[b, :, row], k[b][:, seen]) / math.sqrt(size / heads) + mask[b, seen]
            y[b, row] = np.einsum("hk,hkd->hd", softmax(scores), v[b][:, seen]).ravel()
    return y


@pytest.mark.parametrize("symbols", [[], {0: [0, 1], 3: [0, 1], 6: [0, 1]}])
def test_longformer_attention(tmp_path, random, family, symbols):
    batch, length, size, heads, window = 2, 12, 6, 2, 3
    x = floats(random, batch, length, size)
    weights, biases = floats(random, 6, size, size), floats(random, 6, size)
    mask = np.zeros((batch, length), F32)
    mask[0, 9:], mask[1, 11] = -10000, -10000
    is_global = np.zeros((batch, length), np.int32)
    is_global[0, 0], is_global[1, [0, 7]] = 1, 1
    y = longformer(x, weights, biases, mask, is_global, heads, window)
    more = {"symbols": symbols, "tolerance": 1e-4, "num_heads": heads, "window": window}
    columns = [np.concatenate(three, 1) for three in (weights[:3], weights[3:])]
    operands = [x, columns[0], biases[:3].ravel(), mask, columns[1], biases[3:].ravel(), is_global]
    family.add("LongformerAttention", operands, y, **more)
    together = biases[[0, 1, 2, 4, 5]].ravel()
    operands = [x, weights[:3], together, mask, weights[3:], biases[3], is_global]
    family.add("LongformerAttention", operands, y, **more)
    family.check(tmp_path)


def rotated(x, cosine, sine):
    """Halves of the first elements of the last axis."""
    half = cosine.shape[-1]
    a, b = x[..., :half], x[..., half : 2 * half]
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine, x[..., 2 * half :]], -1)


def test_rotations_of_gemma(tmp_path, random, family):
    angles = floats(random, 2, 5, 6)
    states = [floats(random, 2, 3, 5, 6).astype(np.float16) for _ in range(4)]
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    y = [(states[i] * c + states[i + 1] * s).astype(np.float16) for i in (0, 2)]
    family.add("GemmaRotaryEmbedding", [angles, *states], y, symbols={0: [0, 1]}, tolerance=5e-3)
    family.check(tmp_path)


def test_rotations_of_normalized_heads(tmp_path, random, family):
    x, scale = floats(random, 2, 5, 3, 12).astype(np.float16), floats(random, 8)
    cosine, sine = floats(random, 20, 2), floats(random, 20, 2)
    places = random.integers(0, 20, (2, 5)).astype(np.int64)
    part = x[..., 3:11].astype(F32)
    normed = part / np.sqrt((part * part).mean(-1, keepdims=True) + F32(0.01)) * scale
    more = {"epsilon": 0.01, "input_start": 3, "input_width": 8, "rotary_embedding_dim": 4, "output_fp16": 1}
    for at in (places, np.array([7])):
        rows = at if at.ndim == 2 else np.broadcast_to(at + np.arange(5), (2, 5))
        y = rotated(normed, cosine[rows][:, :, None], sine[rows][:, :, None]).reshape(2, 5, 24)
        operands = [x, scale, at, cosine, sine]
        family.add("RMSNormRotary", operands, [y.astype(np.float16), normed], tolerance=2e-3, **more)
    y = rotated(normed, cosine[places][:, :, None], sine[places][:, :, None]).reshape(1, 10, 24)
    operands = [x, scale, places, cosine, sine]
    options = {**more, "flatten_batch": 1}
    family.add("RMSNormRotary", operands, y.astype(np.float16), symbols={0: [0, 1]}, tolerance=2e-3, **options)
    family.check(tmp_path)


@pytest.mark.parametrize("prefills", [None, 0, 1])
@pytest.mark.parametrize("wide", [0, 1])
def test_rotations_of_normalized_heads_in_bfloat16(tmp_path, random, prefills, wide):
    x, scale, tables = floats(random, 1, 4, 2, 8), floats(random, 8), floats(random, 2, 10, 4)
    operands = ["xb", "scale", "at", "cosine", "sine"] + ["prefills"] * (prefills is not None)
    nodes = [node("Cast", [name], [new], to=16) for name, new in [("x", "xb"), ("c", "cosine"), ("s", "sine")]]
    nodes += [
        node("RMSNormRotary", operands, ["y16", "normed"], "com.microsoft", rotary_embedding_dim=8,
             use_fp32_arithmetic=wide),
        node("Cast", ["y16"], ["y"], to=1),
    ]  # fmt: skip
    inputs = {"x": x, "scale": scale, "at": np.array([3]), "c": tables[0], "s": tables[1]}
    if prefills is not None:
        inputs["prefills"] = np.int32(prefills)
    declared = [(name, str(a.dtype), a.shape) for name, a in inputs.items()]
    outputs = [("y", "float32", [1, 4, 16]), ("normed", "float32", x.shape)]
    write_model(tmp_path / "m.onnx", nodes, declared, outputs, opset=17)
    found = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"]).run(inputs)
    normed = x / np.sqrt((x * x).mean(-1, keepdims=True) + F32(1e-6)) * scale
    y = rotated(normed, *(t[3:7, None] for t in tables)).reshape(1, 4, 16)
    np.testing.assert_allclose(found["normed"], normed, rtol=0.01, atol=0.01)
    assert not np.any(found["normed"].view(np.uint32) & 0xFFFF)  # numbers of bfloat16
    np.testing.assert_allclose(found["y"], y, rtol=0.02, atol=0.04)
