"""Operators of the domain com.microsoft, against NumPy."""

import math

import numpy as np
import pytest
from onnx_family import Family, floats, sigmoid, softmax

F32 = np.float32


@pytest.fixture
def random():
    return np.random.default_rng(11)


@pytest.fixture
def family():
    return Family(opset=17, domain="com.microsoft")


def erf(x):
    return np.vectorize(math.erf)(x)


def gelu(x):
    return (x * 0.5 * (1 + erf(x / math.sqrt(2)))).astype(F32)


def dynamically_rounded(x):
    """To uint8 over the range of all elements and 0, and back."""
    span = max(x.max(), 0) - min(x.min(), 0)
    scale = F32(span / 255) or F32(1)
    zero = np.uint8(np.clip(np.rint(-min(x.min(), 0) / scale), 0, 255))
    return dequantize(quantize(x, scale, zero), scale, zero)


def layer_norm(x, gamma, beta, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    return (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * gamma + beta).astype(F32)


def rms_norm(x, gamma, epsilon):
    return (x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma).astype(F32)


def split_heads(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def merge_heads(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def attend(q, k, v, bias=0.0, scale=None):
    """Of [batch, heads, length, size]; fewer heads of keys are repeated."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * (scale or 1 / math.sqrt(q.shape[-1])) + bias
    return merge_heads(softmax(scores) @ v).astype(F32)


def rotate(x, cosine, sine, positions, interleaved):
    """x: [batch, heads, length, size]; positions: [batch, length]."""
    half = cosine.shape[1]
    c, s = cosine[positions][:, None], sine[positions][:, None]
    y = x.copy()
    first, second = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(half), slice(half, 2 * half))
    )
    y[..., first] = x[..., first] * c - x[..., second] * s
    y[..., second] = x[..., first] * s + x[..., second] * c
    return y


def quantize(x, scale, zero):
    info = np.iinfo(np.asarray(zero).dtype)
    return np.clip(np.rint(x / F32(scale)) + int(zero), info.min, info.max).astype(np.asarray(zero).dtype)


def dequantize(x, scale, zero):
    return ((x.astype(np.int32) - np.asarray(zero, np.int32)) * scale).astype(F32)


def test_activations(tmp_path, random, family):
    x, bias = floats(random, 3, 8), floats(random, 8)
    family.add("Gelu", [x], gelu(x))
    family.add("BiasGelu", [x, bias], gelu(x + bias))
    y = x + bias
    tanh = y * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    family.add("FastGelu", [x, bias], tanh.astype(F32))
    family.add("QuickGelu", [x], x * sigmoid(F32(1.25) * x), alpha=1.25)
    family.check(tmp_path)


def test_products(tmp_path, random, family):
    a, b = floats(random, 2, 3, 5, 4), floats(random, 2, 3, 6, 4)
    family.add("FusedMatMul", [a, b], 0.5 * a @ b.swapaxes(2, 3), alpha=0.5, transB=1)
    family.add("FusedMatMul", [a.swapaxes(2, 3).copy(), b], a @ b.swapaxes(2, 3), transA=1, transB=1)
    moved = a.transpose(2, 0, 1, 3).copy()
    family.add("FusedMatMul", [moved, b], moved.transpose(1, 2, 0, 3) @ b.swapaxes(2, 3), transBatchA=1, transB=1)
    m, n, c = floats(random, 3, 4), floats(random, 4, 5), floats(random, 5)
    y = 2 * m @ n + c
    leaky = {"activation": "LeakyRelu", "activation_alpha": 0.25}
    family.add("FusedGemm", [m, n, c], np.where(y < 0, 0.25 * y, y).astype(F32), alpha=2.0, **leaky)
    column = floats(random, 3, 1)
    family.add("FusedGemm", [m, n, column], np.maximum(m @ n + 2 * column, 0), beta=2.0, activation="Relu")
    x, w, z = floats(random, 1, 2, 4, 4), floats(random, 3, 2, 1, 1), floats(random, 1, 3, 4, 4)
    y = np.einsum("bchw,oc->bohw", x, w[:, :, 0, 0])
    family.add("FusedConv", [x, w, None, z], np.maximum(y + z, 0), constants=[1], activation="Relu")
    clip = {"activation": "Clip", "activation_params": [-0.5, 0.75]}
    family.add("FusedConv", [x, w], np.clip(y, -0.5, 0.75), constants=[1], **clip)
    pixels = random.integers(0, 255, (1, 4, 4, 3)).astype(np.uint8)
    pooled = pixels.reshape(1, 2, 2, 2, 2, 3).max((2, 4))
    family.add("NhwcMaxPool", [pixels], pooled, kernel_shape=[2, 2], strides=[2, 2])
    family.check(tmp_path)


def test_normalization(tmp_path, random, family):
    x, skip = floats(random, 2, 3, 8), floats(random, 2, 3, 8)
    gamma, beta, bias = (floats(random, 8) for _ in range(3))
    both = x + skip + bias
    expected = [layer_norm(both, gamma, beta, 1e-5), None, None, both]
    family.add("SkipLayerNormalization", [x, skip, gamma, beta, bias], expected, epsilon=1e-5)
    wide = x + skip[0]
    family.add("SkipLayerNormalization", [x, skip[0], gamma, beta], layer_norm(wide, gamma, beta, 1e-5), epsilon=1e-5)
    expected = [rms_norm(x + skip, gamma, 1e-5), None, None, x + skip]
    family.add("SkipSimplifiedLayerNormalization", [x, skip, gamma], expected, epsilon=1e-5)
    family.domain = ""
    family.add("SimplifiedLayerNormalization", [x, gamma], rms_norm(x, gamma, 1e-5), axis=-1, epsilon=1e-5)
    family.check(tmp_path)


def test_embeddings(tmp_path, random, family):
    words, places, segments = floats(random, 20, 8), floats(random, 10, 8), floats(random, 2, 8)
    gamma, beta = floats(random, 8), floats(random, 8)
    ids = random.integers(0, 20, (2, 5)).astype(np.int32)
    kinds = random.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    total = words[ids] + places[:5] + segments[kinds]
    operands = [ids, kinds, words, places, segments, gamma, beta, mask]
    expected = [layer_norm(total, gamma, beta, 1e-5), np.array([3, 5], np.int32), total]
    family.add("EmbedLayerNormalization", operands, expected, epsilon=1e-5)
    at = random.integers(0, 10, (2, 5)).astype(np.int32)
    operands = [ids, None, words, places, None, gamma, beta, None, at]
    expected = [layer_norm(words[ids] + places[at], gamma, beta, 1e-5), np.zeros(2, np.int32)]
    family.add("EmbedLayerNormalization", operands, expected, epsilon=1e-5)
    family.check(tmp_path)


def test_attention(tmp_path, random, family):
    heads, size, length = 2, 4, 5
    x, w, b = floats(random, 2, length, 6), floats(random, 6, 24), floats(random, 24)
    q, k, v = (split_heads(part, heads) for part in np.split(x @ w + b, 3, -1))
    family.add("Attention", [x, w, b], attend(q, k, v), num_heads=heads)
    positions = np.arange(length)
    ends = np.array([3, 5], np.int32)
    bias = np.where(positions < ends[:, None], 0, -10000.0)[:, None, None]
    family.add("Attention", [x, w, b, ends], attend(q, k, v, bias), num_heads=heads)
    raw = np.array([[1, 0, 1, 1, 0], [0, 1, 1, 1, 1]], np.int32)
    masked = np.where(raw, 0, -50.0)[:, None, None]
    hidden = {"num_heads": heads, "mask_filter_value": -50.0}
    family.add("Attention", [x, w, b, raw], attend(q, k, v, masked), **hidden)
    past = floats(random, 2, 2, heads, 3, size)
    keys, values = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    causal = np.where(np.arange(8) <= positions[:, None] + 3, 0, -np.inf)
    outputs = [attend(q, keys, values, causal), np.stack([keys, values])]
    family.add("Attention", [x, w, b, None, past], outputs, num_heads=heads, unidirectional=1)
    more = floats(random, 1, heads, length, length)
    family.add("Attention", [x, w, b, None, None, more], attend(q, k, v, more, 0.3), num_heads=heads, scale=0.3)
    family.check(tmp_path)


def test_quantized_attention(tmp_path, random, family):
    x = random.integers(0, 255, (2, 5, 6)).astype(np.uint8)
    w = random.integers(-127, 127, (6, 24)).astype(np.int8)
    b = floats(random, 24)
    x_scale, w_scale = F32(0.02), F32(0.01)
    x_zero, w_zero = np.array(120, np.uint8), np.array(3, np.int8)
    projected = dequantize(x, x_scale, x_zero) @ dequantize(w, w_scale, w_zero) + b
    q, k, v = (split_heads(part, 2) for part in np.split(projected, 3, -1))
    operands = [x, w, b, x_scale, w_scale, None, x_zero, w_zero]
    family.add("QAttention", operands, attend(q, k, v), constants=[1, 3, 4, 6, 7], tolerance=1e-4, num_heads=2)
    family.check(tmp_path)


def test_multi_head_attention(tmp_path, random, family):
    heads, size = 2, 4
    q, k, v = floats(random, 2, 3, 8), floats(random, 2, 5, 8), floats(random, 2, 5, 8)
    bias = floats(random, 24)
    parts = [split_heads(x + b, heads) for x, b in zip((q, k, v), np.split(bias, 3))]
    family.add("MultiHeadAttention", [q, k, v, bias], attend(*parts), num_heads=heads)
    pad = np.array([[1, 1, 0, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    hidden = np.where(pad, 0, -10000.0)[:, None, None]
    added = floats(random, 2, heads, 3, 5)
    operands = [q, k, v, bias, pad, added]
    family.add("MultiHeadAttention", operands, attend(*parts, hidden + added), num_heads=heads)
    past = [floats(random, 2, heads, 4, size) for _ in range(2)]
    new = [split_heads(x, heads) for x in (q, q[:, ::-1], q * 2)]
    keys, values = np.concatenate([past[0], new[1]], 2), np.concatenate([past[1], new[2]], 2)
    outputs = [attend(new[0], keys, values, scale=0.3), keys, values]
    operands = [q, q[:, ::-1].copy(), q * 2, None, None, None, *past]
    family.add("MultiHeadAttention", operands, outputs, num_heads=heads, scale=0.3)
    cached = [split_heads(x, heads).copy() for x in (k, v)]
    family.add("MultiHeadAttention", [q, *cached], attend(split_heads(q, heads), *cached), num_heads=heads)
    family.check(tmp_path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("window", [-1, 3])
def test_group_query_attention(tmp_path, random, family, packed, window):
    heads, key_heads, size, new, past = 4, 2, 16, 2, 5
    q = floats(random, 1, new, heads * size)
    k, v = floats(random, 1, new, key_heads * size), floats(random, 1, new, key_heads * size)
    cache = [floats(random, 1, key_heads, past, size) for _ in range(2)]
    angles = np.outer(np.arange(16), 0.5 ** np.arange(size // 2))
    cosine, sine = np.cos(angles).astype(F32), np.sin(angles).astype(F32)
    totals = np.array([past + new])
    positions = past + np.arange(new)[None] + np.zeros((1, 1), int)
    turned_q = rotate(split_heads(q, heads), cosine, sine, positions, False)
    turned_k = rotate(split_heads(k, key_heads), cosine, sine, positions, False)
    keys = np.concatenate([cache[0], turned_k], 2)
    values = np.concatenate([cache[1], split_heads(v, key_heads)], 2)
    distance = np.arange(past + new) - positions[0][:, None]
    seen = (distance <= 0) & ((distance > -window) | (window < 0))
    expected = [attend(turned_q, keys, values, np.where(seen, 0, -np.inf)), keys, values]
    qkv = [np.concatenate([q, k, v], -1), None, None] if packed else [q, k, v]
    lengths = (totals - 1).astype(np.int32), np.array(past + new, np.int32)
    attributes = {"num_heads": heads, "kv_num_heads": key_heads, "do_rotary": 1, "local_window_size": window}
    operands = [*qkv, *cache, *lengths, cosine, sine]
    family.add("GroupQueryAttention", operands, expected, constants=[6, 7, 8], **attributes)
    family.check(tmp_path)


def test_group_query_attention_of_unequal_sentences(tmp_path, random, family):
    heads, key_heads, size, past = 4, 2, 16, 5
    q = floats(random, 2, 1, heads * size)
    k, v = floats(random, 2, 1, key_heads * size), floats(random, 2, 1, key_heads * size)
    cache = [floats(random, 2, key_heads, past, size) for _ in range(2)]
    totals = np.array([6, 4])
    keys, values = (np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 0))) for x in cache)
    for sentence, total in enumerate(totals):
        keys[sentence, :, total - 1] = split_heads(k, key_heads)[sentence, :, 0]
        values[sentence, :, total - 1] = split_heads(v, key_heads)[sentence, :, 0]
    seen = np.where(np.arange(6) < totals[:, None], 0, -np.inf)[:, None, None]
    more = floats(random, 2, 1, 1, 6)
    operands = [q, k, v, *cache, (totals - 1).astype(np.int32), np.array(6, np.int32), None, None, None, more]
    expected = attend(split_heads(q, heads), keys, values, seen + more)
    numbers = {"num_heads": heads, "kv_num_heads": key_heads}
    family.add("GroupQueryAttention", operands, [expected, keys, values], constants=[6], **numbers)
    family.check(tmp_path)


def test_group_query_attention_of_a_prompt(tmp_path, random, family):
    heads, key_heads, size, length = 4, 2, 16, 6
    q = floats(random, 2, length, heads * size)
    k, v = floats(random, 2, length, key_heads * size), floats(random, 2, length, key_heads * size)
    empty = np.zeros((2, key_heads, 0, size), F32)
    keys, values = split_heads(k, key_heads), split_heads(v, key_heads)
    causal = np.where(np.arange(length) <= np.arange(length)[:, None], 0, -np.inf)
    expected = [attend(split_heads(q, heads), keys, values, causal), keys, values]
    lengths = np.array([5, 5], np.int32), np.array(length, np.int32)
    family.add("GroupQueryAttention", [q, k, v, empty, empty, *lengths], expected, constants=[6], num_heads=heads,
               kv_num_heads=key_heads)  # fmt: skip
    sink = np.array([0.5, -1, 2, 0], F32)
    scores = split_heads(q, heads) @ np.repeat(keys, 2, 1).swapaxes(2, 3) / math.sqrt(size) + causal
    scores = np.concatenate([scores, np.broadcast_to(sink[:, None, None], (2, heads, length, 1))], -1)
    y = merge_heads(softmax(scores)[..., :-1] @ np.repeat(values, 2, 1)).astype(F32)
    operands = [q, k, v, None, None, *lengths, None, None, None, None, sink]
    family.add("GroupQueryAttention", operands, [y, keys, values], constants=[6], num_heads=heads,
               kv_num_heads=key_heads)  # fmt: skip
    family.check(tmp_path)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(tmp_path, random, family, interleaved):
    angles = np.outer(np.arange(12), 0.7 ** np.arange(3))
    cosine, sine = np.cos(angles).astype(F32), np.sin(angles).astype(F32)
    x = floats(random, 2, 4, 5, 6)
    at = random.integers(0, 12, (2, 5))
    family.add(
        "RotaryEmbedding", [x, at, cosine, sine], rotate(x, cosine, sine, at, interleaved), interleaved=interleaved
    )
    first = np.array([4], np.int64)
    moved = rotate(x, cosine, sine, np.tile(4 + np.arange(5), (2, 1)), interleaved)
    operands = [merge_heads(x).copy(), first, cosine, sine]
    family.add("RotaryEmbedding", operands, merge_heads(moved), interleaved=interleaved)
    partial = floats(random, 2, 4, 5, 8)
    turned = rotate(partial, cosine, sine, at, interleaved)
    operands = [merge_heads(partial).copy(), at, cosine, sine]
    part = {"num_heads": 4, "rotary_embedding_dim": 6, "interleaved": interleaved}
    family.add("RotaryEmbedding", operands, merge_heads(turned), **part)
    family.check(tmp_path)


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_a_few_bits(tmp_path, random, family, bits):
    rows, depth, block = 6, 40, 16
    blocks = -(-depth // block)
    codes = random.integers(0, 1 << bits, (rows, blocks, block)).astype(np.uint8)
    zeros = random.integers(0, 1 << bits, (rows, blocks)).astype(np.uint8)
    scales = floats(random, rows, blocks)
    bias = floats(random, rows)

    def packed(x):
        if bits == 8:
            return x
        x = np.concatenate([x, np.zeros((*x.shape[:-1], x.shape[-1] % 2), np.uint8)], -1)
        return x[..., ::2] | x[..., 1::2] << 4

    def weights(zero):
        return ((codes.astype(F32) - zero) * scales[..., None]).reshape(rows, -1)[:, :depth].T

    x = floats(random, 2, 3, depth)
    sizes = {"K": depth, "N": rows, "bits": bits, "block_size": block}
    plain = [x, packed(codes), scales]
    family.add("MatMulNBits", plain, x @ weights(1 << (bits - 1)), constants=[1, 2], tolerance=1e-4, **sizes)
    operands = [x, packed(codes), scales, packed(zeros), None, bias]
    expected = x @ weights(zeros[..., None].astype(F32)) + bias
    family.add("MatMulNBits", operands, expected, constants=[1, 2, 3, 5], tolerance=1e-4, **sizes)
    table = random.integers(0, 1 << bits, (7, 32)).astype(np.uint8)
    per_block, offsets = floats(random, 7, 2), random.integers(0, 1 << bits, (7, 2)).astype(np.uint8)
    ids = random.integers(0, 7, (2, 3)).astype(np.int64)
    values = (table.astype(F32) - np.repeat(offsets, 16, 1)) * np.repeat(per_block, 16, 1)
    operands = [packed(table), ids, per_block, packed(offsets)]
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": bits}
    family.add("GatherBlockQuantized", operands, values[ids], constants=[0, 2, 3], **attributes)
    family.check(tmp_path)


def test_integer_products(tmp_path, random, family):
    a = random.integers(0, 255, (2, 3, 6)).astype(np.uint8)
    b = random.integers(-127, 127, (6, 5)).astype(np.int8)
    a_zero, b_zero = np.array(17, np.uint8), random.integers(-9, 9, 5).astype(np.int8)
    a_scale, b_scale, bias = F32(0.05), abs(floats(random, 5)), floats(random, 5)
    product = dequantize(a, a_scale, a_zero) @ dequantize(b, b_scale, b_zero)
    operands = [a, b, a_scale, b_scale, a_zero, b_zero, bias]
    fixed = [1, 2, 3, 4, 5, 6]
    family.add("MatMulIntegerToFloat", operands, product + bias, constants=fixed, tolerance=1e-4)
    x = floats(random, 2, 6)
    rounded = dynamically_rounded(x)
    operands = [x, b, b_scale, b_zero, bias]
    expected = rounded @ dequantize(b, b_scale, b_zero) + bias
    family.add("DynamicQuantizeMatMul", operands, expected, constants=[1, 2, 3, 4], tolerance=1e-4)
    c = random.integers(-999, 999, (4,)).astype(np.int32)
    left, right = random.integers(0, 255, (5, 3)).astype(np.uint8), random.integers(0, 255, (4, 5)).astype(np.uint8)
    y_scale, y_zero = F32(2), np.array(100, np.uint8)
    sums = (left.T.astype(np.int32) - 9) @ (right.T.astype(np.int32) - 120) + c
    y = sums * (F32(0.5) * F32(0.1) * F32(0.2))
    operands = [left, F32(0.1), np.array(9, np.uint8), right, F32(0.2), np.array(120, np.uint8), c]
    fixed = [1, 2, 3, 4, 5, 6, 7, 8]
    both = {"transA": 1, "transB": 1, "alpha": 0.5}
    family.add("QGemm", [*operands, y_scale, y_zero], quantize(y, y_scale, y_zero), constants=fixed, **both)
    family.add("QGemm", operands, y.astype(F32), constants=fixed, tolerance=1e-4, **both)
    family.check(tmp_path)


def test_dynamically_quantized_lstm(tmp_path, random, family):
    steps, batch, inputs, hidden = 4, 2, 3, 5
    x = floats(random, steps, batch, inputs)
    w = random.integers(-127, 127, (1, inputs, 4 * hidden)).astype(np.int8)
    r = random.integers(-127, 127, (1, hidden, 4 * hidden)).astype(np.int8)
    b = floats(random, 1, 8 * hidden)
    w_scale, r_scale = abs(floats(random, 1, 4 * hidden)) / 100, np.array([0.004], F32)
    w_zero, r_zero = np.zeros((1, 4 * hidden), np.int8), np.array([2], np.int8)
    for lengths in (None, np.array([1, 3], np.int32)):
        # Neither steps that no sequence has nor sequences that ended count in the ranges.
        last = steps if lengths is None else lengths.max()
        rounded = dynamically_rounded(x[:last])
        h, c = np.zeros((batch, hidden)), np.zeros((batch, hidden))
        y = np.zeros((steps, 1, batch, hidden), F32)
        for k, step in enumerate(rounded):
            has = np.ones(batch, bool) if lengths is None else k < lengths
            before = h if lengths is None else np.where((k - 1 < lengths)[:, None], h, 0)
            products = dynamically_rounded(before) @ dequantize(r[0], r_scale, r_zero)
            gates = step @ dequantize(w[0], w_scale[0], w_zero[0]) + products
            i, o, f, g = np.split(gates + b[0, : 4 * hidden] + b[0, 4 * hidden :], 4, -1)
            c = np.where(has[:, None], sigmoid(f) * c + sigmoid(i) * np.tanh(g), c)
            h = np.where(has[:, None], sigmoid(o) * np.tanh(c), h)
            y[k, 0] = h * has[:, None]
        operands = [x, w, r, b, lengths, None, None, None, w_scale, w_zero, r_scale, r_zero]
        results = [y, h[None].astype(F32), c[None].astype(F32)]
        fixed = [1, 2, 3, 8, 9, 10, 11]
        family.add("DynamicQuantizeLSTM", operands, results, constants=fixed, tolerance=2e-5, hidden_size=5)
    family.check(tmp_path)


def test_lstm_sums_integers(tmp_path, random, family):
    # Products that cancel out but for one: a sum of rounded floats would keep what they were rounded by.
    inputs, hidden = 400, 16
    half = random.integers(1, 255, inputs // 2)
    half[0] = 255
    weights = random.integers(-126, 126, (inputs // 2, 4 * hidden))
    order = random.permutation(inputs)
    codes = np.concatenate([half, half])[order]
    w = np.concatenate([weights, -weights])[order]
    w[7] += 1
    scale, w_scale = F32(0.037), np.array([0.9], F32)
    gates = (codes @ w).astype(np.float64) * scale * w_scale
    i, o, _, g = np.split(gates, 4)
    h = sigmoid(o) * np.tanh(sigmoid(i) * np.tanh(g))
    x = (codes * scale).astype(F32).reshape(1, 1, inputs)
    r = random.integers(-127, 127, (1, hidden, 4 * hidden)).astype(np.int8)
    zero = np.array([0], np.int8)
    operands = [x, w[None].astype(np.int8), r, *[None] * 5, w_scale, zero, np.array([0.004], F32), zero]
    fixed = [1, 2, 8, 9, 10, 11]
    family.add("DynamicQuantizeLSTM", operands, h.astype(F32).reshape(1, 1, 1, -1), constants=fixed, hidden_size=hidden)
    family.check(tmp_path)


def test_between_quantized_tensors(tmp_path, random, family):
    a, b = (random.integers(0, 255, (2, 3, 4, 4)).astype(np.uint8) for _ in range(2))
    sa, sb, sy = F32(0.02), F32(0.03), F32(0.05)
    za, zb, zy = np.array(100, np.uint8), np.array(140, np.uint8), np.array(120, np.uint8)
    fa, fb = dequantize(a, sa, za), dequantize(b, sb, zb)

    def add(op, operands, y, **attributes):
        # A value in the middle between two may go either way.
        family.add(op, operands, quantize(y, sy, zy), tolerance=1, **attributes)

    two = [a, sa, za, b, sb, zb, sy, zy]
    one = [a, sa, za, sy, zy]
    add("QLinearAdd", two, fa + fb)
    add("QLinearMul", two, fa * fb)
    add("QLinearSigmoid", one, sigmoid(fa))
    add("QLinearLeakyRelu", one, np.where(fa < 0, 0.1 * fa, fa), alpha=0.1)
    add("QLinearReduceMean", one, fa.mean((2, 3), keepdims=True), axes=[2, 3])
    add("QLinearGlobalAveragePool", one, fa.mean((2, 3), keepdims=True))
    pooled = fa.reshape(2, 3, 2, 2, 2, 2).mean((3, 5))
    add("QLinearAveragePool", one, pooled, kernel_shape=[2, 2], strides=[2, 2])
    flag = random.integers(0, 2, (4, 4)).astype(bool)
    add("QLinearWhere", [flag, *two], np.where(flag, fa, fb))
    add("QLinearConcat", [sy, zy, a, sa, za, b, sb, zb], np.concatenate([fa, fb], 1), axis=1)
    sy, zy = F32(1 / 256), np.array(0, np.uint8)
    add("QLinearSoftmax", [a, sa, za, sy, zy], softmax(fa), axis=-1, opset=13)
    flat = softmax(fa.reshape(2, -1)).reshape(fa.shape)
    add("QLinearSoftmax", [a, sa, za, sy, zy], flat, axis=1, opset=11)
    x = floats(random, 3, 4)
    family.add("QuantizeLinear", [x, F32(0.1), np.array(3, np.int8)], quantize(x, 0.1, np.int8(3)), tolerance=1)
    scales, zeros = abs(floats(random, 4)), np.array([1, 2, 3, 4], np.uint8)
    codes = random.integers(0, 255, (3, 4)).astype(np.uint8)
    family.add("DequantizeLinear", [codes, scales, zeros], dequantize(codes, scales, zeros), axis=1)
    family.check(tmp_path)


def test_inverse(tmp_path, random, family):
    x = floats(random, 2, 3, 4, 4)
    x[0, 0, 0, 0] = 0  # a pivot that has to be looked for
    family.add("Inverse", [x], np.linalg.inv(x), tolerance=1e-3)
    one = np.array([[4]], F32)
    family.add("Inverse", [one], 1 / one)
    family.check(tmp_path)


def test_moved_and_picked(tmp_path, random, family):
    x = floats(random, 2, 3, 4)
    family.add("ExpandDims", [x, np.array(-2, np.int32)], x[:, :, None], constants=[1])
    family.add("Trilu", [x, np.array(1, np.int64)], np.triu(x, 1), constants=[1], upper=1)
    pads = np.array([0, 1, 0, 0, 0, 2], np.int64)
    value = np.array(1.5, F32)
    padded = np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=1.5)
    family.add("Pad", [x, pads, value], padded, constants=[1, 2], mode="constant")
    ids = np.array([[0, 1], [1, 2]], np.int64)
    family.add("GatherND", [x, ids], x[[0, 1], [1, 2]])
    values = np.array([3, 1, 3, 2, 1, 1], F32)
    order = [np.array([3, 1, 2], F32), np.array([0, 1, 0, 2, 1, 1], np.int64), np.array([2, 3, 1], np.int64)]
    family.add("Unique", [values], order)
    image = floats(random, 2, 3, 5, 6)
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [0.5, 0.5, 1.4, 1.2]], F32)
    which = np.array([0, 1, 0], np.int32)
    crops = np.full((3, 3, 4, 4), -7, F32)
    for box, (y1, x1, y2, x2) in enumerate(boxes):
        for i in range(4):
            for j in range(4):
                y, column = (y1 + i * (y2 - y1) / 3) * 4, (x1 + j * (x2 - x1) / 3) * 5
                if 0 <= y <= 4 and 0 <= column <= 5:
                    top, left = int(y), int(column)
                    bottom, right = min(top + 1, 4), min(left + 1, 5)
                    u, v = y - top, column - left
                    p = image[which[box]]
                    crops[box, :, i, j] = (p[:, top, left] * (1 - v) + p[:, top, right] * v) * (1 - u)
                    crops[box, :, i, j] += (p[:, bottom, left] * (1 - v) + p[:, bottom, right] * v) * u
    size = np.array([4, 4], np.int32)
    family.add("CropAndResize", [image, boxes, which, size], crops, constants=[3], extrapolation_value=-7.0)
    family.check(tmp_path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_of_rows(tmp_path, family, random, dtype):
    """By a product, as ONNX Runtime has it: the error is that of the squares, counted from the middle of the rows."""
    a, b = random.standard_normal((4, 3)).astype(dtype) + 1000, random.standard_normal((5, 3)).astype(dtype) + 1000
    b[2] = a[1]
    squares = ((a[:, None] - b[None]) ** 2).sum(-1)
    family.add("CDist", [a, b], squares, metric="sqeuclidean", symbols=[0])
    family.add("CDist", [a, b], np.sqrt(squares), metric="euclidean", constants=[1], tolerance=2e-3)
    family.add("CDist", [a, b], squares)
    hole = np.vstack([b, np.full((1, 3), np.nan, dtype)])  # spoils its own column only
    spoilt = np.hstack([squares, np.full((4, 1), np.nan, dtype)])
    family.add("CDist", [a - 1000, hole - 1000], spoilt)
    family.check(tmp_path)


NORMAL_FLOAT = [-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0,
                0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1]  # fmt: skip


@pytest.mark.parametrize("depth, rows, block", [(16, 3, 16), (5, 3, 4)])
def test_weights_of_bitsandbytes(tmp_path, family, random, depth, rows, block):
    """Two to a byte, the first in the higher bits; blocks go on from row to row."""
    sixths = np.array([0, 1 / 32, 4, 6, 2, 3, 1, 1.5]) / 6
    x, count = floats(random, 2, depth), rows * depth
    codes = random.integers(0, 16, count + count % 2)
    packed = (codes[::2] << 4 | codes[1::2]).astype(np.uint8)
    factors = np.abs(floats(random, -(-count // block)))
    for kind, table in enumerate([np.concatenate([sixths, -sixths]), np.array(NORMAL_FLOAT)]):
        weights = (table[codes[:count]] * np.repeat(factors, block)[:count]).reshape(rows, depth)
        for constants in ([1, 2], []):
            family.add("MatMulBnb4", [x, packed, factors], (x @ weights.T).astype(F32), constants=constants,
                       tolerance=1e-4, N=rows, K=depth, block_size=block, quant_type=kind)  # fmt: skip
    family.check(tmp_path)
