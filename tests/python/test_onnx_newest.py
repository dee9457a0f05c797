"""Operators of the opsets 24 to 28, against NumPy."""

import math

import numpy as np
import pytest
from onnx_family import Family, floats, softmax


@pytest.fixture
def random():
    return np.random.default_rng(7)


def cumulative_product(x, axis, exclusive, reverse):
    x = np.flip(x, axis) if reverse else x
    y = np.cumprod(x, axis, dtype=x.dtype)
    if exclusive:
        y = np.concatenate([np.ones_like(np.take(y, [0], axis)), np.delete(y, -1, axis)], axis)
    return np.flip(y, axis) if reverse else y


def test_elementwise(tmp_path, random):
    family = Family()
    x = random.integers(-90, 90, (3, 5)).astype(np.int16)
    counts = random.integers(-3, 20, (3, 5)).astype(np.int16)
    outside = (counts < 0) | (counts >= 16)
    shifted = np.where(outside, 0, x << np.clip(counts, 0, 15)).astype(np.int16)
    family.add("BitShift", [x, counts], shifted, direction="LEFT")
    family.add("BitShift", [x, counts], x >> np.where(outside, 15, counts), direction="RIGHT")
    byte = random.integers(0, 255, (7,)).astype(np.uint8)
    many = np.arange(7, dtype=np.uint8) * 2
    wide = np.where(many < 8, byte.astype(np.int64) << many, 0).astype(np.uint8)
    family.add("BitShift", [byte, many], wide, direction="LEFT")
    a, b = floats(random, 4, 6) * 5, floats(random, 6) * 2
    family.add("Mod", [a, b], np.mod(a, b), fmod=0)
    family.add("Mod", [a, b], np.fmod(a, b), fmod=1)
    limits = np.array([-1, 1, 3, -3, 0], np.float32), np.array([np.inf, -np.inf, np.inf, -np.inf, -2], np.float32)
    family.add("Mod", limits, np.array([np.inf, -np.inf, 3, -3, -0.0], np.float32), fmod=0)
    # quotients of more bits than a float has; the remainder of floats is exact
    sign = random.choice([-1, 1], (2, 500))
    wide = (sign * np.exp2(random.uniform(-120, 120, (2, 500)))).astype(np.float32)
    family.add("Mod", list(wide), np.fmod(*wide), fmod=1, tolerance=0)
    family.add("Mod", list(wide), np.mod(*wide), fmod=0, tolerance=0)
    thirds = np.float32([1e10, -1e10, 3e38, 7, -6, 6, 0, -0.0, 16777217, np.nan, np.inf, 5])
    threes = np.float32([3, 3, 1e-38, -3, 3, -3, 2, 2, 3, 3, 3, 0])
    with np.errstate(invalid="ignore"):
        family.add("Mod", [thirds, threes], np.fmod(thirds, threes), fmod=1, tolerance=0)
    family.add("SwiGLU", [a, a[::-1]], a / (1 + np.exp(-1.5 * a)) * a[::-1], alpha=1.5)
    family.check(tmp_path)


def test_bits_as_another_type(tmp_path, random):
    family = Family()
    x = floats(random, 2, 3)
    family.add("BitCast", [x], x.view(np.int32), to=6)
    family.add("BitCast", [x], x.view(np.uint32), constants=[0], to=12)
    half = x.astype(np.float16)
    family.add("BitCast", [half], half.view(np.int16), to=5)
    flags = x > 0
    family.add("BitCast", [flags], flags.view(np.uint8), to=2)
    bytes_ = np.array([0, 1, 1, 0], np.uint8)
    family.add("BitCast", [bytes_], bytes_.view(bool), to=9)
    family.check(tmp_path)


def test_cumulative_products(tmp_path, random):
    family = Family()
    x = floats(random, 2, 5, 3) * 0.5 + 1
    for exclusive in (0, 1):
        for reverse in (0, 1):
            y = cumulative_product(x, 1, exclusive, reverse)
            axis = np.array(-2, np.int64)
            family.add("CumProd", [x, axis], y, constants=[1], exclusive=exclusive, reverse=reverse)
    whole = random.integers(1, 4, (6,)).astype(np.int32)
    family.add("CumProd", [whole, np.array(0, np.int32)], np.cumprod(whole, dtype=np.int32), constants=[1])
    family.check(tmp_path)


def test_blocks_to_channels(tmp_path, random):
    family = Family()
    x = floats(random, 2, 3, 4, 6)
    blocks = x.reshape(2, 3, 2, 2, 3, 2)
    family.add("SpaceToDepth", [x], blocks.transpose(0, 1, 3, 5, 2, 4).reshape(2, 12, 2, 3), blocksize=2, mode="CRD")
    family.add("SpaceToDepth", [x], blocks.transpose(0, 3, 5, 1, 2, 4).reshape(2, 12, 2, 3), blocksize=2, mode="DCR")
    family.check(tmp_path)


@pytest.mark.parametrize("past", [0, 3])
def test_attention_sees_a_window(tmp_path, random, past):
    family = Family()
    q, k, v = (floats(random, 1, 2, 5, 4) for _ in range(3))
    cache = [floats(random, 1, 2, past, 4) for _ in range(2)] if past else [None, None]
    keys = np.concatenate([cache[0], k], 2) if past else k
    values = np.concatenate([cache[1], v], 2) if past else v
    for causal, left, right in [(1, 2, -1), (0, 1, 1), (0, -1, 0), (0, 0, -1)]:
        distance = np.arange(5 + past)[None, :] - (np.arange(5)[:, None] + past)
        seen = np.ones_like(distance, dtype=bool)
        seen &= distance <= 0 if causal else True
        seen &= distance >= -left if left >= 0 else True
        seen &= distance <= right if right >= 0 else True
        y = softmax(np.where(seen, q @ keys.swapaxes(2, 3) / 2, -np.inf)) @ values
        outputs = [y, keys, values] if past else y
        window = {"is_causal": causal, "left_window_size": left, "right_window_size": right}
        family.add("Attention", [q, k, v, None, *cache], outputs, **window)
    family.check(tmp_path)


def linear_attention(q, k, v, state, decay, beta, heads, key_heads):
    batch, steps = q.shape[:2]
    q = q.reshape(batch, steps, heads, -1)
    k, v = k.reshape(batch, steps, key_heads, -1), v.reshape(batch, steps, key_heads, -1)
    state = state.astype(np.float64)
    out = np.zeros((batch, steps, heads, v.shape[-1]))
    for t in range(steps):
        if decay is not None:
            state = state * np.exp(decay.reshape(batch, steps, key_heads, -1)[:, t])[..., None]
        row = v[:, t]
        if beta is not None:
            row = beta[:, t][..., None] * (row - np.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t][..., None] * row[:, :, None, :]
        shared = np.repeat(state, heads // key_heads, 1)
        out[:, t] = np.einsum("bhkv,bhk->bhv", shared, q[:, t]) / math.sqrt(q.shape[-1])
    return out.reshape(batch, steps, -1).astype(np.float32), state.astype(np.float32)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(tmp_path, random, rule):
    family = Family()
    heads, key_heads, size, value_size = 4, 2, 3, 5
    q = floats(random, 2, 6, heads * size)
    k = floats(random, 2, 6, key_heads * size)
    k = (k.reshape(2, 6, key_heads, size) / 4).reshape(2, 6, -1)
    v = floats(random, 2, 6, key_heads * value_size)
    decays = [-abs(floats(random, 2, 6, key_heads)), -abs(floats(random, 2, 6, key_heads * size))]
    betas = [1 / (1 + np.exp(-floats(random, 2, 6, n))) for n in (key_heads, 1)]
    past = floats(random, 2, key_heads, size, value_size)
    for decay, beta, state in zip(decays, betas, [past, None]):
        decay = decay if rule.startswith("gated") else None
        beta = beta if rule.endswith("delta") else None
        begin = np.zeros_like(past) if state is None else state
        expected = linear_attention(q, k, v, begin, decay, beta, heads, key_heads)
        operands = [q, k, v, state, decay, beta]
        heads_of = {"q_num_heads": heads, "kv_num_heads": key_heads}
        family.add("LinearAttention", operands, expected, tolerance=1e-4, update_rule=rule, **heads_of)
    family.check(tmp_path)


def test_causal_convolution(tmp_path, random):
    family = Family()
    x, past = floats(random, 2, 3, 6), floats(random, 2, 3, 3)
    weight, bias = floats(random, 3, 1, 4), floats(random, 3)
    for given, activation in [(past, "silu"), (None, "none")]:
        padded = np.concatenate([np.zeros_like(past) if given is None else given, x], 2)
        y = sum(padded[:, :, i : i + 6] * weight[:, 0, i, None] for i in range(4)) + bias[:, None]
        y = y / (1 + np.exp(-y)) if activation == "silu" else y
        outputs = [y.astype(np.float32), padded[:, :, -3:]]
        operands = [x, weight, bias, given]
        family.add("CausalConvWithState", operands, outputs, constants=[1, 2], activation=activation)
    family.check(tmp_path)
