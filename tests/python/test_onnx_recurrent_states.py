"""Layers of com.microsoft whose memory is a state of one size, and hyper-connections, against NumPy."""

import numpy as np
import pytest
from onnx_family import Family, floats, sigmoid

F32 = np.float32
BATCH, LENGTH, SIZE = 2, 3, 4


@pytest.fixture
def random():
    return np.random.default_rng(15)


@pytest.fixture
def family():
    return Family(opset=17, domain="com.microsoft")


def recurrence(q, k, v, state, decay, rate, scale):
    """Of [batch, length, heads, size], as many heads of each; decay and rate are None where the rule has none."""
    y = np.zeros_like(v)
    for t in range(q.shape[1]):
        if decay is not None:
            state = state * np.exp(decay[:, t])[..., None]
        update = v[:, t]
        if rate is not None:
            update = rate[:, t, :, None] * (update - np.einsum("bhk,bhkv->bhv", k[:, t], state))
        state = state + k[:, t][..., None] * update[:, :, None]
        y[:, t] = scale * np.einsum("bhk,bhkv->bhv", q[:, t], state)
    return y, state


def test_linear_attention_of_fewer_queries(tmp_path, random, family, interpreted):
    heads, key_heads = 2, 4
    q, k, v = floats(random, BATCH, LENGTH, heads, SIZE), *floats(random, 2, BATCH, LENGTH, key_heads, SIZE)
    decay, rate = -np.abs(floats(random, BATCH, LENGTH, key_heads)), np.abs(floats(random, BATCH, LENGTH, key_heads))
    state = floats(random, BATCH, key_heads, SIZE, SIZE)
    y, new = recurrence(np.repeat(q, 2, 2), k, v, state, decay[..., None], rate, 0.5)
    flat = [x.reshape(BATCH, LENGTH, -1) for x in (q, k, v)]
    family.add("LinearAttention", [*flat, state, decay, rate], [y.reshape(BATCH, LENGTH, -1), new], q_num_heads=heads,
               kv_num_heads=key_heads, update_rule="gated_delta")  # fmt: skip
    family.check(tmp_path, backend=interpreted)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_gated_delta_net(tmp_path, random, family, interpreted, rule):
    heads, value_heads, value_size = 2, 4, 5
    q, k = (floats(random, BATCH, LENGTH, heads, SIZE) for _ in range(2))
    v = floats(random, BATCH, LENGTH, value_heads, value_size)
    state = floats(random, BATCH, value_heads, value_size, SIZE)
    rate_log, bias = floats(random, value_heads), floats(random, value_heads, SIZE)
    decay = floats(random, BATCH, LENGTH, value_heads, SIZE)
    rate = floats(random, BATCH, LENGTH, value_heads)

    def unit(x):
        return np.repeat(x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6), value_heads // heads, 2)

    with_decay, with_rate = "gated" in rule, "delta" in rule
    for gate in ["none", "softplus", "sigmoid"] if with_decay else ["none"]:
        grown = np.exp(rate_log)[:, None]
        effective = {
            "none": decay,
            "softplus": -grown * np.log1p(np.exp(decay + bias)),
            "sigmoid": -5 * sigmoid(grown * (decay + bias)),
        }[gate]
        y, new = recurrence(unit(q), unit(k), v, state.swapaxes(2, 3), effective if with_decay else None,
                            sigmoid(rate) if with_rate else None, 0.5)  # fmt: skip
        operands = [q, k, v, None, decay if with_decay else None, rate if with_rate else None, state]
        if gate != "none":
            operands += [rate_log, bias]
        options = {"update_rule": rule, "gate_activation": gate, "qk_l2_norm": 1}
        if with_rate:
            options["beta_activation"] = "sigmoid"
        expected = [y, new.swapaxes(2, 3)]
        family.add("GatedDeltaNet", operands, expected, tolerance=1e-4, **options)
        in_a_row = [x.reshape(-1, *x.shape[2:]) if x is not None and i < 6 else x for i, x in enumerate(operands)]
        expected = [y.reshape(-1, *y.shape[2:]), expected[1]]
        family.add("GatedDeltaNet", in_a_row, expected, tolerance=1e-4, **options)
    family.check(tmp_path, backend=interpreted)


@pytest.mark.parametrize("dilation", [1, 2])
def test_causal_convolution(tmp_path, random, family, interpreted, dilation):
    channels, taps = 6, 3
    before = (taps - 1) * dilation
    x, past = floats(random, BATCH, channels, 5), floats(random, BATCH, channels, before)
    weight, bias = floats(random, channels, 1, taps), floats(random, channels)
    whole = np.concatenate([past, x], 2)
    y = bias[:, None] + sum(weight[:, 0, j, None] * whole[:, :, j * dilation :][..., :5] for j in range(taps))
    y, new = (y * sigmoid(y)).astype(F32), whole[..., 5:]
    options = {"activation": "silu", "dilation": dilation}
    family.add("CausalConvWithState", [x, weight, bias, past], [y, new], **options)

    def behind(value):
        return value.transpose(0, 2, 1).copy()

    options["channels_last"] = 1
    expected = [behind(y), behind(new)]
    family.add("CausalConvWithState", [behind(x), weight, bias, behind(past)], expected, **options)

    def apart(value):
        return behind(value).reshape(BATCH, -1, 2, channels // 2)

    expected = [apart(y), apart(new)]
    family.add("CausalConvWithState", [apart(x), weight, bias, apart(past)], expected, **options)
    family.check(tmp_path, backend=interpreted)


def test_hyper_connections(tmp_path, random, family, interpreted):
    streams, size = 3, 8
    x, block = floats(random, BATCH, LENGTH, streams, size), floats(random, BATCH, LENGTH, size)
    between = floats(random, BATCH, LENGTH, streams, streams)
    flat = x.reshape(BATCH, LENGTH, -1)
    for shape in [(streams,), (streams, 1), (streams, size)]:
        mix = floats(random, BATCH, LENGTH, *shape)
        spread = mix if len(shape) == 2 else mix[..., None]
        reduced = 0.5 * (x * spread).sum(-2)
        family.add("HyperConnectionPreMix", [x, mix], reduced, reduction_scale=0.5)
        family.add("HyperConnectionPreMix", [flat, mix], reduced, reduction_scale=0.5, num_branches=streams)
        added = spread * block[..., None, :]
        mixed = np.einsum("...ck,...ch->...kh", between, x)
        family.add("HyperConnectionPostMix", [x, block, mix, between], mixed + added)
        family.add("HyperConnectionPostMix", [flat, block, mix], (x + added).reshape(flat.shape), num_branches=streams)
    family.check(tmp_path, backend=interpreted)


def test_engram_gate(tmp_path, random, family, interpreted):
    streams, size = 3, 8
    key, query = (floats(random, BATCH, LENGTH, streams, size) for _ in range(2))
    value = floats(random, BATCH, LENGTH, size)
    scales = [floats(random, streams, size) for _ in range(3)]

    def normalized(x, scale):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale

    dot = (normalized(key, scales[0]) * normalized(query, scales[1])).sum(-1, keepdims=True) / np.sqrt(F32(size))
    y = sigmoid(np.sign(dot) * np.sqrt(np.maximum(np.abs(dot), 1e-6))) * value[:, :, None]
    expected = [y.astype(F32), normalized(y, scales[2]).astype(F32)]
    family.add("EngramGate", [key, query, value, *scales], expected)
    family.check(tmp_path, backend=interpreted)
