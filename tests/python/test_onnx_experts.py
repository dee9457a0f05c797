"""QMoE and the router in front of it, against NumPy."""

import math

import numpy as np
import pytest
from onnx_family import Family, floats, softmax

F32 = np.float32
HIDDEN, INNER = 32, 64


@pytest.fixture
def random():
    return np.random.default_rng(14)


@pytest.fixture
def family():
    return Family(opset=17, domain="com.microsoft")


def packed(codes, bits):
    lanes = 8 // bits
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % lanes)])
    codes = codes.reshape(*codes.shape[:-1], -1, lanes)
    return np.bitwise_or.reduce(codes << (bits * np.arange(lanes)), -1).astype(np.uint8)


def layer(random, experts, rows, depth, bits, block, with_zeros):
    """Codes, scales and zero points as they are given, and what they stand for."""
    codes = random.integers(0, 1 << bits, (experts, rows, depth))
    shape = (experts, rows, depth // block) if block else (experts, rows)
    scales = (random.uniform(0.5, 1, shape) / (1 << bits)).astype(F32)
    zeros = random.integers(0, 1 << bits, shape) if with_zeros else np.full(shape, 1 << (bits - 1))

    def spread(x):
        return np.repeat(x, block, 2) if block else x[..., None]

    weights = ((codes - spread(zeros)) * spread(scales)).astype(F32)
    return packed(codes, bits), scales, packed(zeros, bits) if with_zeros else None, weights


def mixed(x, chosen, shares, first, second, activation):
    y = np.zeros_like(x)
    for token in range(len(x)):
        for expert, share in zip(chosen[token], shares[token]):
            (w, b), (w2, b2) = ((weights[expert], bias[expert]) for weights, bias in (first, second))
            y[token] += share * (w2 @ activation(w @ x[token] + b) + b2)
    return y


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gated(x):
    gate, value = np.minimum(x[::2], 2), np.clip(x[1::2], -2, 2)
    return gate / (1 + np.exp(-1.5 * gate)) * (value + 0.5)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [0, 32])
def test_quantized_experts(tmp_path, random, family, interpreted, bits, block):
    gates = {"swiglu_fusion": 1, "swiglu_limit": 2.0, "activation_alpha": 1.5, "activation_beta": 0.5}
    kinds = [("silu", silu, {}), ("gelu", gelu, {}), ("swiglu", gated, gates)]
    # Few tokens of many experts pick weights, many tokens are computed by all.
    for (name, activation, options), tokens, experts in zip(kinds, [1, 5, 5], [8, 4, 4]):
        with_zeros = name != "gelu"
        rows = INNER * (2 if name == "swiglu" else 1)
        codes1, scales1, zeros1, weights1 = layer(random, experts, rows, HIDDEN, bits, block, with_zeros)
        codes2, scales2, zeros2, weights2 = layer(random, experts, HIDDEN, INNER, bits, block, with_zeros)
        bias1, bias2 = floats(random, experts, rows), floats(random, experts, HIDDEN)
        x, scores = floats(random, tokens, HIDDEN), floats(random, tokens, experts)
        own = name == "swiglu"  # the router's weights are an operand
        chosen = np.argsort(-scores)[:, :2]
        shares = softmax(np.take_along_axis(scores, chosen, 1))
        router = np.abs(floats(random, tokens, experts)) if own else None
        if own:
            shares = np.take_along_axis(router, chosen, 1)
            shares = shares / shares.sum(-1, keepdims=True)
        y = mixed(x, chosen, shares, (weights1, bias1), (weights2, bias2), activation)
        operands = [x, scores, codes1, scales1, bias1, codes2, scales2, bias2, None, None, None, zeros1, zeros2, None,
                    router]  # fmt: skip
        while operands[-1] is None:
            operands.pop()
        options = {**options, **({"block_size": block} if block else {})}
        constant = [2, 3, 4, 5, 6, 7, 11, 12] if name != "gelu" else [2, 3, 4, 5, 6, 7]
        family.add("QMoE", operands, y, constants=constant, tolerance=1e-4, k=2, activation_type=name,
                   expert_weight_bits=bits, normalize_routing_weights=int(own), **options)  # fmt: skip
    family.check(tmp_path, backend=interpreted)


@pytest.mark.parametrize("groups, best_groups, in_group, best", [(1, 1, 2, 2), (4, 2, 2, 3), (2, 1, 1, 2)])
def test_router_of_groups(tmp_path, random, family, interpreted, groups, best_groups, in_group, best):
    logits, bias = floats(random, 5, 8), floats(random, 8)
    weights = 1 / (1 + np.exp(-logits))
    scores = (weights + bias).reshape(5, groups, -1)
    of_group = np.sort(scores)[..., -in_group:].sum(-1)
    open_groups = np.argsort(-of_group)[:, :best_groups]
    hidden = np.ones((5, groups), bool)
    np.put_along_axis(hidden, open_groups, False, 1)
    chosen = np.argsort(-np.where(hidden[..., None], -np.inf, scores).reshape(5, 8))[:, :best]
    y = np.full((5, 8), -10000, F32)
    np.put_along_axis(y, chosen, np.take_along_axis(np.log(weights), chosen, 1), 1)
    family.add("MoEGroupRouter", [logits, bias], y, n_group=groups, topk_group=best_groups, group_topk=in_group,
               top_k=best)  # fmt: skip
    family.check(tmp_path, backend=interpreted)
