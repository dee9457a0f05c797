"""Operators of the domain com.microsoft around language models: weights of few bits, tokens; against NumPy."""

import aipu
import numpy as np
import pytest
from onnx_family import Family, floats, softmax
from onnx_text import Raw, node, write_model

F32 = np.float32


@pytest.fixture
def random():
    return np.random.default_rng(12)


@pytest.fixture
def family():
    return Family(opset=17, domain="com.microsoft")


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zero", ["none", "packed", "float"])
def test_weights_of_blocks_in_any_order(tmp_path, random, family, bits, zero):
    rows, depth, block = 5, 32, 16
    codes = random.integers(0, 1 << bits, (rows, depth)).astype(np.uint8)
    order = random.permutation(np.arange(depth) // block).astype(np.int32)
    scales, x = floats(random, rows, 2), floats(random, 3, depth)
    zeros = random.integers(0, 1 << bits, (rows, 2)).astype(np.uint8)

    def packed(values):
        lanes = 8 // bits
        values = np.pad(values, [(0, 0), (0, -values.shape[1] % lanes)]).reshape(len(values), -1, lanes)
        return np.bitwise_or.reduce(values << (bits * np.arange(lanes)), -1).astype(np.uint8)

    offsets = {"none": np.full((rows, 2), 1 << (bits - 1)), "packed": zeros, "float": zeros}[zero].astype(F32)
    weights = (codes - offsets[:, order]) * scales[:, order]
    given = {"none": None, "packed": packed(zeros), "float": zeros.astype(F32)}[zero]
    operands = [x, packed(codes).reshape(rows, 2, -1), scales, given, order]
    sizes = {"K": depth, "N": rows, "bits": bits, "block_size": block}
    family.add("MatMulNBits", operands, x @ weights.T, constants=[1, 2, 3, 4], tolerance=1e-4, **sizes)
    family.check(tmp_path)


@pytest.mark.parametrize("kind", ["int4", "uint4"])
@pytest.mark.parametrize("gather_axis, quantize_axis", [(0, 2), (1, 0), (2, 1), (-1, 0), (1, 1)])
def test_blocks_of_other_axes(tmp_path, random, kind, gather_axis, quantize_axis):
    block = 16
    shape = [3, 4, 5]
    shape[quantize_axis] = 40
    data = random.integers(-8 if kind == "int4" else 0, 8 if kind == "int4" else 16, shape)
    shape[quantize_axis] = 3
    scales = floats(random, *shape)
    zeros = random.integers(0, 8, shape)
    ids = random.integers(-data.shape[gather_axis], data.shape[gather_axis], (2, 2)).astype(np.int64)

    def spread(x):
        return np.take(x, np.arange(40) // block, quantize_axis)

    expected = [np.take(values, ids, gather_axis).astype(F32)
                for values in [data * spread(scales), (data - spread(zeros)) * spread(scales)]]  # fmt: skip

    def stored(values):
        codes = np.append(values.ravel() & 15, np.zeros(values.size % 2, int))
        return Raw(kind, values.shape, (codes[::2] | codes[1::2] << 4).astype(np.uint8).tobytes())

    constants = {"data": stored(data), "zeros": stored(zeros), "scales": scales}
    options = {"gather_axis": gather_axis, "quantize_axis": quantize_axis, "block_size": block, "bits": 4}
    nodes = [node("GatherBlockQuantized", names, [f"y{k}"], "com.microsoft", **options)
             for k, names in enumerate([["data", "ids", "scales"], ["data", "ids", "scales", "zeros"]])]  # fmt: skip
    outputs = [(f"y{k}", "float32", expected[k].shape) for k in range(2)]
    write_model(tmp_path / "m.onnx", nodes, [("ids", "int64", ids.shape)], outputs, constants, opset=21)
    found = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"]).run({"ids": ids})
    for k in range(2):
        np.testing.assert_allclose(found[f"y{k}"], expected[k], rtol=1e-5, atol=1e-5)


class BlockWeights:
    """Weights [rows, depth] of 4 bits in blocks of 32, as two operands."""

    def __init__(self, random, rows, depth):
        codes = random.integers(0, 16, (rows, depth)).astype(np.uint8)
        self.scales = floats(random, rows, depth // 32) / 8
        self.values = (codes - F32(8)) * np.repeat(self.scales, 32, 1)
        self.codes = (codes[:, ::2] | codes[:, 1::2] << 4).reshape(rows, depth // 32, 16)


@pytest.mark.parametrize("constant", [False, True])
def test_products_of_layers_with_weights_of_few_bits(tmp_path, random, family, constant):
    depth, rows, keys = 64, 12, 4
    x, skip, scale = floats(random, 2, 3, depth), floats(random, 2, 3, depth), floats(random, depth)
    gate, up = BlockWeights(random, rows, depth), BlockWeights(random, rows, depth)
    biases = floats(random, 2, rows)

    def normed(x, epsilon):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + F32(epsilon)) * scale

    def gated(x, bias):
        a, b = (x @ w.values.T + one for w, one in zip((gate, up), bias))
        return a / (1 + np.exp(-a)) * b

    def add(op, operands, expected, **attributes):
        places = [i for i in range(3, len(operands)) if operands[i] is not None] if constant else []
        more = {"K": depth, "block_size": 32, "bits": 4, **attributes}
        family.add(op, operands, expected, constants=places, symbols=[0], tolerance=2e-4, **more)

    options = {"N": rows, "activation": "silu"}
    none = np.zeros((2, 1), F32)
    weights = [gate.codes, gate.scales, None, up.codes, up.scales]
    add("MatMulNBitsMlp", [x, None, None, *weights], gated(x, none), **options)
    add("MatMulNBitsMlp", [x, None, scale, *weights], gated(normed(x, 1e-5), none), **options)
    weights = [gate.codes, gate.scales, biases[0], up.codes, up.scales, biases[1]]
    expected = [gated(normed(x + skip, 0.25), biases), x + skip]
    add("MatMulNBitsMlp", [x, skip, scale, *weights], expected, epsilon=0.25, **options)
    q, k, v = (BlockWeights(random, n, depth) for n in (rows, keys, keys))
    bias = floats(random, keys)
    weights = [q.codes, q.scales, None, k.codes, k.scales, bias, v.codes, v.scales]
    parts = [normed(x, 1e-6) @ w.values.T + more for w, more in zip((q, k, v), (0, bias, 0))]
    add("MatMulNBitsQkv", [x, None, scale, *weights], parts, Nq=rows, Nkv=keys)
    parts = [normed(x + skip, 1e-6) @ w.values.T + more for w, more in zip((q, k, v), (0, bias, 0))]
    add("MatMulNBitsQkv", [x, skip, scale, *weights], [*parts, x + skip], Nq=rows, Nkv=keys)
    family.check(tmp_path)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], F32)


def e4m3(codes):
    """float8e4m3fn, without its NaNs."""
    sign, exponent, fraction = np.where(codes & 128, -1, 1), codes >> 3 & 15, codes & 7
    value = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent.astype(int) - 10))
    return (sign * value).astype(F32)


@pytest.mark.parametrize("block, depth", [(16, 32), (16, 40), (4, 6)])
def test_weights_of_blocks_of_small_floats(tmp_path, random, family, block, depth):
    rows, blocks = 5, -(-depth // block)
    x, bias = floats(random, 2, 3, depth).astype(np.float16), floats(random, rows).astype(np.float16)
    codes = random.integers(0, 16, (rows, depth)).astype(np.uint8)
    scales = random.integers(0, 127, (rows, blocks)).astype(np.uint8) & ~np.uint8(64)
    spread = np.repeat(e4m3(scales), block, 1)[:, :depth]
    weights = (E2M1[codes] * F32(0.75) * spread).astype(np.float16).astype(F32)
    operands = [x, codes[:, ::2] | codes[:, 1::2] << 4, scales, F32(0.75)]
    y = x.astype(F32) @ weights.T
    for constants in ([], [1, 2, 3]):
        more = {"constants": constants, "block_size": block, "tolerance": 2e-2}
        family.add("MatMulBlockQuantizedFp4Weight", operands, y.astype(np.float16), **more)
        family.add("MatMulBlockQuantizedFp4Weight", [*operands, F32(3), bias], (y + bias).astype(np.float16), **more)
    family.check(tmp_path)


@pytest.mark.parametrize("rounds", [False, True])
def test_weights_of_blocks_of_8_bit_floats(tmp_path, random, rounds):
    rows, depth, block = 5, 40, 16
    x, bias, scales = floats(random, 3, depth), floats(random, rows), floats(random, rows, 3)
    codes = (random.integers(0, 256, (rows, depth)) & 0xBF).astype(np.uint8)
    x = x.astype(np.float16)
    constants = {"w": Raw("float8e4m3fn", codes.shape, codes.tobytes()), "scales": scales, "a_scale": F32(0.125)}
    operands = ["x", "w", "scales", "a_scale" if rounds else "", "bias"]
    nodes = [node("MatMulBlockQuantizedFp8Weight", operands, ["y"], "com.microsoft", block_size=block)]
    inputs = [("x", "float16", x.shape), ("bias", "float16", bias.shape)]
    write_model(tmp_path / "m.onnx", nodes, inputs, [("y", "float16", [3, rows])], constants, opset=19)
    session = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"])
    found = session.run({"x": x, "bias": bias.astype(np.float16)})["y"]
    a = x.astype(F32)
    if rounds:  # to three bits behind the first one
        exponent = np.floor(np.log2(np.maximum(abs(a / 0.125), 2.0**-6)))
        a = np.rint(a / 0.125 / 2 ** (exponent - 3)) * 2 ** (exponent - 3) * 0.125
    y = a @ (e4m3(codes) * np.repeat(scales, block, 1)[:, :depth]).T + bias.astype(np.float16)
    np.testing.assert_allclose(found.astype(F32), y, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("symbols", [[], [0]])
def test_repeated_ngrams(tmp_path, random, family, symbols):
    for length in (1, 2, 9):
        ids = random.integers(0, 3, (2, length)).astype(np.int64)
        scores = floats(random, 2, 5)
        for n in (1, 2, 3):
            expected = scores.copy()
            for row, sentence in enumerate(ids.tolist()):
                last = sentence[len(sentence) - n + 1 :]
                for k in range(length - n + 1):
                    if sentence[k : k + n - 1] == last:
                        expected[row, sentence[k + n - 1]] = -np.inf
            family.add("NGramRepeatBlock", [ids, scores], expected, symbols=symbols, ngram_size=n)
    family.check(tmp_path)


def test_attention_without_padding(tmp_path, random, family):
    lengths, longest, heads, size = [2, 4, 1], 4, 2, 3
    x = [floats(random, n, 8) for n in lengths]
    weights, bias = floats(random, 8, 3 * heads * size), floats(random, 3 * heads * size)
    more = floats(random, 1, heads, longest, longest)
    places = [row * longest + k for row, n in enumerate(lengths) for k in range(n)]
    rest = [k for k in range(len(lengths) * longest) if k not in places]
    offsets = np.array(places + rest, np.int32).reshape(len(lengths), longest)
    ends = np.cumsum([0, *lengths]).astype(np.int32)

    def attended(tokens, extra):
        q, k, v = np.split((tokens @ weights + bias).reshape(len(tokens), -1, size).transpose(1, 0, 2), 3)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(size) + extra[0, :, : len(tokens), : len(tokens)]
        return (softmax(scores) @ v).transpose(1, 0, 2).reshape(len(tokens), -1)

    operands = [np.concatenate(x), weights, bias, offsets, ends]
    for extra in (None, more):
        y = np.concatenate([attended(tokens, np.zeros_like(more) if extra is None else extra) for tokens in x])
        family.add("PackedAttention", [*operands, extra], y.astype(F32), symbols=[0], num_heads=heads, tolerance=1e-4)
    family.check(tmp_path)
