"""Operators of com.microsoft for gates, integers, complex numbers and multimodal positions, against NumPy."""

import aipu
import numpy as np
import pytest
from onnx_family import Family, floats, sigmoid
from onnx_text import node, write_model

F32 = np.float32


@pytest.fixture
def random():
    return np.random.default_rng(29)


@pytest.fixture
def family():
    return Family(opset=18, domain="com.microsoft")


def rms_norm(x, epsilon=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def test_gates(tmp_path, random, family):
    x, y, gate = floats(random, 2, 5, 12), floats(random, 2, 5, 12), floats(random, 2, 5, 1)
    family.add("GatedAdd", [x, y, gate], x + y * gate)
    family.add("ScaledSiLU", [x], 1.5 * x * sigmoid(1.5 * x), alpha=1.5)
    family.add("ScaledSiLU", [x, F32(2)], 2 * x * sigmoid(2 * x), alpha=1.5)
    a, b, bias, scale = floats(random, 2, 5, 3), floats(random, 2, 5, 3), floats(random, 3), -abs(floats(random, 3))
    decay = scale * np.log1p(np.exp(a + bias))
    family.add("LinearAttentionGate", [a, bias, scale, b], [decay, sigmoid(b)])
    family.add("LinearAttentionGate", [a.astype(np.float16), bias, scale], decay.astype(np.float16), tolerance=1e-3)
    scale = floats(random, 4)
    grouped = rms_norm(x.reshape(2, 5, 3, 4)) * scale
    family.add("GatedRMSNorm", [x, scale, y], grouped.reshape(x.shape) * y * sigmoid(y))
    grouped = rms_norm(x.reshape(2, 5, 3, 4), 0.1) * scale
    found = grouped.reshape(x.shape) * sigmoid(y)
    family.add("GatedRMSNorm", [x, scale, y], found, activation="sigmoid", epsilon=0.1)
    scales = floats(random, 12)
    found = (rms_norm(x.reshape(2, 5, 3, 4)) * scales.reshape(3, 4)).reshape(x.shape)
    family.add("BranchwiseRMSNorm", [x, scales], found, num_branches=3)
    family.add("BranchwiseRMSNorm", [x.reshape(2, 5, 3, 4), scales.reshape(3, 4)], found.reshape(2, 5, 3, 4))
    family.add("BranchwiseRMSNorm", [x, scales], rms_norm(x) * scales)
    family.add("BranchwiseRMSNorm", [x], rms_norm(x))
    family.check(tmp_path)


def swi_glu(gate, up, alpha=1.0, beta=0.0, limit=0.0):
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return gate * sigmoid(alpha * gate) * (up + beta)


def test_gated_projections(tmp_path, random, family):
    x, up = 3 * floats(random, 2, 5, 6), 3 * floats(random, 2, 5, 6)
    family.add("SwiGLU", [x, up], swi_glu(x, up), symbols=[0, 1])
    family.add("SwiGLU", [np.concatenate([x, up], -1)], swi_glu(x, up))
    more = {"activation_alpha": 1.5, "activation_beta": 1.0, "limit": 2.0}
    family.add("SwiGLU", [x, up], swi_glu(x, up, 1.5, 1, 2), **more)
    half = x.astype(np.float16)
    y = swi_glu(half.astype(F32), up, 1.5, 1, 2).astype(np.float16)
    family.add("SwiGLU", [half, up.astype(np.float16)], y, round_activation=1, tolerance=2e-2, **more)
    weights = floats(random, 6, 3 + 8).astype(np.float16)
    product = half.astype(F32) @ weights
    y = [product[..., :3], swi_glu(product[..., 3:7], product[..., 7:], 1.5, 1, 2)]
    y = [part.astype(np.float16) for part in y]
    family.add("RouterGateUpProj", [half, weights], y, router_size=3, tolerance=2e-2, **more)
    family.add("RouterGateUpProj", [half, weights], [None, y[1]], router_size=3, tolerance=2e-2, **more)
    family.check(tmp_path)


def test_dropout_between_sums(tmp_path, random, family):
    x, bias, residual = floats(random, 40, 50), floats(random, 50), floats(random, 40, 50)
    family.add("BiasDropout", [x, bias, residual], x + bias + residual)
    family.add("BiasDropout", [x, x, None, F32(0.9)], [x + x, np.full((40, 50), True)])
    family.add("BiasDropout", [x, bias, residual, None, np.array(False)], x + bias + residual)
    family.add("BitmaskBiasDropout", [x, bias, residual, F32(0.9)], x + bias + residual)
    family.add("BitmaskDropout", [x, F32(0.9)], x)
    family.check(tmp_path)


@pytest.mark.parametrize("known", [False, True])
def test_dropout_between_sums_in_training(tmp_path, random, known):
    x, bias, residual = floats(random, 40, 50), floats(random, 50), floats(random, 40, 50)
    nodes = [
        node("BiasDropout", ["x", "bias", "residual", "ratio", "training"], ["y", "mask"], "com.microsoft", seed=3)
    ]
    inputs = {"x": x, "bias": bias, "residual": residual, "ratio": F32(0.25), "training": np.array(True)}
    declared = [(name, str(a.dtype), a.shape) for name, a in inputs.items()]
    constants = {name: inputs.pop(name) for name in ("ratio", "training")} if known else {}
    outputs = [("y", "float32", x.shape), ("mask", "bool", x.shape)]
    declared = [row for row in declared if row[0] in inputs]
    write_model(tmp_path / "m.onnx", nodes, declared, outputs, constants, opset=17)
    found = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"]).run(inputs)
    assert 0.7 < found["mask"].mean() < 0.8
    y = np.where(found["mask"], (x + bias) / 0.75, 0) + residual
    np.testing.assert_allclose(found["y"], y, rtol=1e-5, atol=1e-5)


def test_integers(tmp_path, random, family):
    a = random.integers(-300, 300, (2, 3, 4)).astype(np.int16)
    b = random.integers(0, 300, (4, 5)).astype(np.uint16)
    family.add("MatMulInteger16", [a, b], a.astype(np.int32) @ b.astype(np.int32))
    family.add("MatMulInteger16", [b.T, b], b.T.astype(np.uint32) @ b.astype(np.uint32))
    x, y = random.integers(0, 255, (2, 3)).astype(np.uint8), random.integers(0, 255, (3,)).astype(np.uint8)
    zeros = np.array(200, np.uint8), np.array(3, np.uint8)
    family.add("MulInteger", [x, zeros[0], y, zeros[1]], (x.astype(np.int32) - 200) * (y.astype(np.int32) - 3))
    family.add("MulInteger", [x, None, y], x.astype(np.int32) * y)
    family.add("ReduceSumInteger", [x], x.sum(1, keepdims=True).astype(np.uint32), axes=[1], keepdims=1)
    signed = x.astype(np.int8)
    family.add("ReduceSumInteger", [signed], signed.sum(0).astype(np.int32), axes=[0], keepdims=0)
    good = floats(random, 3, 4)
    endless, none = good.copy(), good.copy()
    endless[1, 2], none[0, 3] = -np.inf, np.nan
    for operands, wanted in [([good, good[0]], (1, 1, 1)), ([good, endless], (0, 1, 0)), ([none, good], (0, 0, 1))]:
        family.add("IsAllFinite", operands, np.array(bool(wanted[0])))
        family.add("IsAllFinite", operands, np.array(bool(wanted[1])), isnan_only=1)
        family.add("IsAllFinite", operands, np.array(bool(wanted[2])), isinf_only=1)
    family.check(tmp_path)


def pairs(z):
    return np.stack([z.real, z.imag], -1).astype(F32)


def test_complex_numbers(tmp_path, random, family):
    a, b = floats(random, 2, 1, 5, 2), floats(random, 3, 5, 2)
    left, right = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    family.add("ComplexMul", [a, b], pairs(left * right))
    family.add("ComplexMulConj", [a, b], pairs(left * right.conj()))
    x = floats(random, 3, 6, 8)
    for axes in (1, 2):
        spectrum = pairs(np.fft.rfftn(x, axes=range(-axes, 0)))
        family.add("Rfft", [x], spectrum, signal_ndim=axes)
        family.add("Irfft", [spectrum], x, signal_ndim=axes)
    family.check(tmp_path)


def test_products_and_windows(tmp_path, random, family):
    x, w, bias = floats(random, 4, 6), floats(random, 6, 5), floats(random, 5)
    z = x @ w + bias
    y = z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    family.add("GemmFastGelu", [x, w, bias], y, constants=[1])
    product = np.maximum(2 * x @ w, 0)
    family.add("FusedMatMulActivation", [x, w.T], product, transB=1, alpha=2.0, activation="Relu")
    e = np.exp(x @ w - (x @ w).max(0))
    family.add("FusedMatMulActivation", [x, w], e / e.sum(0), activation="Softmax", activation_axis=0)
    table = np.where(random.random((6, 4)) < 0.3, w[:, :4], 0)  # as a sparse initializer is read
    family.add(
        "SparseToDenseMatMul", [table, x], F32(0.5) * table.T @ x.T, constants=[0], transA=1, transB=1, alpha=0.5
    )
    image, kernel = floats(random, 2, 5, 5, 3), floats(random, 4, 3, 1, 1)
    y = image @ kernel[:, :, 0, 0].T
    family.add("NhwcConv", [image, kernel, np.ones(4, F32)], y + 1, constants=[1, 2])
    found = np.maximum(y + 1 + y, 0)
    operands = [image, kernel, np.ones(4, F32), y]
    family.add("NhwcFusedConv", operands, found, constants=[1, 2], activation="Relu", kernel_shape=[1, 1])
    scores, mask = floats(random, 2, 3, 4, 5), floats(random, 2, 1, 1, 5)
    e = np.exp(scores + mask)
    family.add("BiasSoftmax", [scores, mask], e / e.sum(-1, keepdims=True), axis=3, is_inner_broadcast=1)
    both = e.sum((-2, -1), keepdims=True)
    family.add("BiasSoftmax", [scores, mask], e / both, axis=2, is_inner_broadcast=1)
    x = floats(random, 2, 7, 3)
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)[:, ::2]
    family.add("UnfoldTensor", [x], windows, dim=1, size=3, step=2)
    family.add("UnfoldTensor", [x], windows, symbols=[0], dim=-2, size=3, step=2)
    family.check(tmp_path)


def test_convolutions_with_pads_that_only_a_run_knows(tmp_path, random, family):
    """Against the same node with constant pads."""
    x, w, bias = floats(random, 2, 3, 4, 5), floats(random, 3, 2, 3, 3), floats(random, 2)
    whole = np.zeros((2, 2, 9, 11), F32)
    for i in range(4):
        for j in range(5):
            whole[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += np.einsum("nc,cokl->nokl", x[:, :, i, j], w)
    for pads in ([0, 1, 1, 2], [1, 0, 0, 0]):
        y = whole[:, :, pads[0] : 9 - pads[2], pads[1] : 11 - pads[3]] + bias[:, None, None]
        for places in ([1, 2, 3], [1, 3]):
            operands = [x, w, np.array(pads), bias]
            family.add("ConvTransposeWithDynamicPads", operands, y, constants=places, strides=[2, 2])
    family.add("ConvTransposeWithDynamicPads", [x, w, np.array([0] * 4)], whole, constants=[1], strides=[2, 2])
    around = np.pad(whole, ((0, 0), (0, 0), (0, 1), (2, 0))) + bias[:, None, None]
    operands = [x, w, np.array([0, -2, -1, 0]), bias]
    family.add("ConvTransposeWithDynamicPads", operands, around, constants=[1], strides=[2, 2])
    for target in ("host", "X2_1204"):
        family.check(tmp_path, target=target)


@pytest.mark.parametrize("layout", [0, 1])
def test_positions_in_time_and_image(tmp_path, random, family, layout):
    batch, heads, length, size, sections = 2, 3, 4, 20, [5, 3, 2]
    half = size // 2
    cosine, sine = floats(random, 30, half), floats(random, 30, half)
    positions = random.integers(0, 30, (3, batch, length))
    if layout == 0:
        stream = np.repeat(np.arange(3), sections)
    else:
        stream = np.zeros(half, int)
        for k in (1, 2):
            stream[k : sections[k] * 3 : 3] = k
    x = floats(random, batch, heads, length, size)
    c, s = (np.stack([t[positions[k], i] for i, k in enumerate(stream)], -1)[:, None] for t in (cosine, sine))
    real, imaginary = x[..., :half], x[..., half:]
    y = np.concatenate([real * c - imaginary * s, imaginary * c + real * s], -1)
    options = {"mrope_section": sections, "mrope_layout": layout}
    family.add("MRotaryEmbedding", [x, positions, cosine, sine], y, **options)
    flat = [value.transpose(0, 2, 1, 3).reshape(batch, length, -1) for value in (x, y)]
    family.add("MRotaryEmbedding", [flat[0], positions, cosine, sine], flat[1], num_heads=heads, **options)
    real, imaginary = x[..., ::2], x[..., 1::2]
    y = np.stack([real * c - imaginary * s, imaginary * c + real * s], -1).reshape(x.shape)
    family.add("MRotaryEmbedding", [x, positions, cosine, sine], y, interleaved=1, **options)
    family.check(tmp_path)


def activation_of(name, limit, gate, value):
    if name == "swiglu":
        gate, value = np.minimum(gate, limit), np.clip(value, -limit, limit)
        return gate * sigmoid(1.702 * gate) * (value + 1)
    y = {
        "relu": lambda x: np.maximum(x, 0),
        "silu": lambda x: x * sigmoid(x),
        "gelu": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        "identity": lambda x: x,
    }[name](gate)
    return y if value is None else y * value


@pytest.mark.parametrize("tokens", [1, 6])  # of few tokens the experts are picked
def test_mixtures_of_experts(tmp_path, random, family, tokens):
    experts, k, size, inner = 8, 2, 6, 5
    x, scores = floats(random, tokens, size), floats(random, tokens, experts)
    for name, fusion, third, normalizes in [
        ("relu", 0, False, 0),
        ("gelu", 0, False, 1),
        ("identity", 0, False, 1),
        ("silu", 0, True, 0),
        ("swiglu", 1, False, 1),
        ("swiglu", 2, False, 0),
        ("swiglu", 0, True, 1),
    ]:
        first = floats(random, experts, inner * (2 if fusion else 1), size)
        bias = floats(random, experts, first.shape[1])
        second, gates = floats(random, experts, size, inner), floats(random, experts, inner, size)
        chosen = np.argsort(-scores, -1, "stable")[:, :k]
        e = np.exp(scores)
        weights = np.take_along_axis(e / e.sum(-1, keepdims=True), chosen, -1)
        if normalizes:
            weights = weights / weights.sum(-1, keepdims=True)
        y = np.zeros_like(x)
        for t in range(tokens):
            for at, expert in enumerate(chosen[t]):
                h = first[expert] @ x[t] + bias[expert]
                value = gates[expert] @ x[t] if third else None
                if fusion:
                    h, value = (h[::2], h[1::2]) if fusion == 1 else (h[:inner], h[inner:])
                y[t] += weights[t, at] * (second[expert] @ activation_of(name, 0.5, h, value))
        operands = [x, scores, first, bias, second, None, gates if third else None]
        options = {"activation_type": name, "k": k, "normalize_routing_weights": normalizes}
        if name == "swiglu":
            options |= {"swiglu_fusion": fusion, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.5}
        family.add("MoE", operands[: 7 if third else 5], y, constants=[2, 3, 4, 6], tolerance=1e-4, **options)
        family.add("MoE", operands[: 7 if third else 5], y, symbols={0: [0], 1: [0]}, tolerance=1e-4, **options)
    family.check(tmp_path)


REFUSED = [
    ("MRotaryEmbedding", [(1, 2, 3, 8), (3, 1, 3), (9, 4), (9, 4)], {"mrope_section": [1, 1, 1]}, "whose sum is 4"),
    ("Rfft", [(3, 4)], {"signal_ndim": 3}, "signal_ndim is 3"),
    ("Rfft", [(3, 4)], {"onesided": 0}, "onesided = 0 is not supported"),
    ("UnfoldTensor", [(3, 4)], {"size": 0}, "size is 0"),
    ("GatedAdd", [(2, 4), (2, 4), (2, 3), (3, 1)], {}, "gate_weight is not supported"),
]


@pytest.mark.parametrize(("op", "shapes", "attributes", "message"), REFUSED)
def test_what_is_refused(tmp_path, op, shapes, attributes, message):
    inputs = [(f"x{i}", "int64" if i == 1 and len(shape) == 3 else "float32", shape) for i, shape in enumerate(shapes)]
    bad = node(op, [name for name, *_ in inputs], ["y"], "com.microsoft", **attributes)
    write_model(tmp_path / "m.onnx", [bad], inputs, [("y", "float32", (1,))])
    with pytest.raises((ValueError, RuntimeError), match=message):
        aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")


def test_streams_with_gates_of_low_rank(tmp_path, random, family):
    branches, width, rank = 3, 4, 5
    streams, scale = floats(random, 2, 7, branches * width), floats(random, branches * width)
    down, up, inject = (floats(random, *shape) for shape in [(12, rank), (rank, 12), (12, branches)])
    block, gate = floats(random, 2, 7, width), floats(random, 2, 7, branches)

    def mixed(s, epsilon=1e-5, alpha=1.0, reduction=1.0, div=1.0, mul=1.0):
        grouped = s.reshape(2, 7, branches, width)
        normed = (rms_norm(grouped, epsilon) * scale.reshape(branches, width)).reshape(s.shape)
        d = alpha * (normed @ down)
        g = sigmoid(d * sigmoid(d) @ up)
        pre = reduction * (normed * g).reshape(grouped.shape).sum(2)
        return [pre, sigmoid(normed @ inject / div) * mul]

    operands = [streams, scale, down, up, inject]
    family.add("HyperConnectionLowRankMix", operands, [*mixed(streams), streams], num_branches=branches)
    added = streams + (gate[..., None] * block[:, :, None]).reshape(streams.shape)
    options = {"epsilon": 0.1, "silu_alpha": 1.5, "reduction_scale": 0.5, "gate_div": 2.0, "gate_mul": 3.0}
    expected = [*mixed(added, 0.1, 1.5, 0.5, 2, 3), added]
    more = {"num_branches": branches, "symbols": {0: [0, 1], 5: [0, 1], 6: [0, 1]}, **options}
    family.add("HyperConnectionLowRankMix", [*operands, block, gate], expected, **more)
    half = [x.astype(np.float16) for x in operands]
    expected = [x.astype(np.float16) for x in mixed(streams)]
    family.add("HyperConnectionLowRankMix", half, expected, num_branches=branches, tolerance=2e-2)
    family.check(tmp_path)


def test_lookup_of_rows(tmp_path, random, family):
    table, rows = floats(random, 6, 4), random.integers(0, 6, (2, 3)).astype(np.int64)
    family.add("TorchEmbedding", [table, rows], table[rows])
    family.add("TorchEmbedding", [table, rows, np.array(2), np.array(True)], table[rows])
    family.check(tmp_path)
