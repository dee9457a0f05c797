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
