"""Gelu and SiLU of float32, which CPUs with AVX-512 compute as polynomials of pieces, beside float64."""

import math

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model


def numbers():
    """Around 0, everywhere that the functions bend, far out, and what is no number."""
    bent = np.linspace(-30, 30, 6000)
    small = np.concatenate([10.0 ** -np.arange(1, 38), -(10.0 ** -np.arange(1, 38))])
    far = np.array([1e3, -1e3, 3e38, -3e38, np.inf, 0.0])
    return np.concatenate([bent, small, far]).astype(np.float32)


def gelu(x):
    return np.array([v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.astype(np.float64)])


def silu(x):
    return np.array([v / (1 + math.exp(-v)) if v > -700 else 0.0 for v in x.astype(np.float64)])


@pytest.mark.parametrize("op, exact", [("Gelu", gelu), ("Swish", silu)])
@pytest.mark.parametrize("behind_product", [False, True])
def test_functions(tmp_path, op, exact, behind_product):
    x = numbers().reshape(-1, 1)
    names = ["p"] if behind_product else ["x"]
    nodes = [node("MatMul", ["x", "w"], ["p"])] if behind_product else []
    columns = 37 if behind_product else 1
    constants = {"w": np.ones((1, columns), np.float32)} if behind_product else {}
    nodes.append(node(op, names, ["y"]))
    path, output = tmp_path / "m.onnx", tmp_path / "m.aipu.bin"
    write_model(
        path, nodes, [("x", "float32", [len(x), 1])], [("y", "float32", [len(x), columns])], constants, opset=24
    )
    aipu.build(path, output)
    found = aipu.load(output).run({"x": x})["y"]
    np.testing.assert_array_equal(aipu.load(output, backend="interp").run({"x": x})["y"], found)
    expected = exact(x[:, 0])
    finite = np.isfinite(expected)
    for column in found.T:
        error = np.abs(column[finite] - expected[finite])
        assert np.all(error <= 2.5e-7 * np.abs(expected[finite]) + 1e-7)
        assert np.array_equal(column[~finite], expected[~finite])
    for broken in (np.nan, -np.inf):  # minus infinity times a probability of 0
        assert np.isnan(aipu.load(output).run({"x": np.full_like(x, broken)})["y"]).all()
