"""Transposed convolutions of one channel per group, and of few channels, against NumPy."""

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model

F32 = np.float32


def reference(x, weights, strides, pads, dilations, extra):
    """By the definition: each pixel adds its products where its taps are."""
    axes = len(strides)
    extents = [
        strides[k] * (x.shape[2 + k] - 1) + extra[k] + (weights.shape[2 + k] - 1) * dilations[k] + 1
        for k in range(axes)
    ]
    full = np.zeros((*x.shape[:2], *extents))
    for tap in np.ndindex(*weights.shape[2:]):
        ranges = [
            slice(tap[k] * dilations[k], tap[k] * dilations[k] + (x.shape[2 + k] - 1) * strides[k] + 1, strides[k])
            for k in range(axes)
        ]
        full[(..., *ranges)] += x * weights[(slice(None), 0, *tap)].reshape(1, -1, *[1] * axes)
    kept = [slice(pads[k], extents[k] - pads[axes + k]) for k in range(axes)]
    return full[(..., *kept)]


def check(folder, shape, kernel, strides, pads=None, dilations=None, extra=None, dtype="float32", behind=(), **options):
    """`shape` is [batch, channels, ...]; returns what groups.txt says."""
    axes, random = len(kernel), np.random.default_rng(3)
    pads, dilations, extra = pads or [0] * (2 * axes), dilations or [1] * axes, extra or [0] * axes
    x = random.standard_normal(shape).astype(dtype)
    weights = random.standard_normal((shape[1], 1, *kernel)).astype(dtype)
    bias = random.standard_normal(shape[1]).astype(dtype)
    expected = reference(x.astype(np.float64), weights.astype(np.float64), strides, pads, dilations, extra)
    expected += bias.astype(np.float64).reshape(-1, *[1] * axes)
    sizes = {"strides": strides, "pads": pads, "dilations": dilations, "output_padding": extra, "group": shape[1]}
    nodes = [node("ConvTranspose", ["x", "w", "b"], ["y0" if behind else "y"], **sizes)]
    for k, op in enumerate(behind):
        nodes.append(node(op, [f"y{k}"], ["y" if k + 1 == len(behind) else f"y{k + 1}"]))
        expected = {"Relu": lambda v: np.maximum(v, 0), "Sigmoid": lambda v: 1 / (1 + np.exp(-v))}[op](expected)
    path, output = folder / "transposed.onnx", folder / "transposed.aipu.bin"
    open_shape = ["N", shape[1], *shape[2:]]
    constants = {"w": weights, "b": bias}
    write_model(path, nodes, [("x", dtype, open_shape)], [("y", dtype, ["N", *expected.shape[1:]])], constants)
    aipu.build(path, output, dump_ir=folder / "ir", **options)
    assert "depthwise_transposed" in (folder / "ir" / "plan.txt").read_text()
    tolerance = 1e-5 if dtype == "float32" else 1e-2
    results = []
    for backend in ("interp",) if options.get("target") == "host-avx2" else (None, "interp"):
        for threads in (1, 3):
            found = aipu.load(output, backend=backend).session(threads=threads).run({"x": x})["y"]
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
            results.append(found)
    for found in results[1:]:
        np.testing.assert_array_equal(found, results[0])


@pytest.mark.parametrize("channels", [5, 16, 37])
def test_channels(tmp_path, channels):
    check(tmp_path, (2, channels, 7, 21), [4, 4], [2, 2], pads=[1, 1, 1, 1])


@pytest.mark.parametrize(
    "kernel, strides, pads, dilations, extra",
    [
        ([3, 3], [2, 2], [1, 1, 1, 1], None, [1, 1]),
        ([2, 2], [2, 2], None, None, None),
        ([1, 3], [3, 2], None, None, None),  # results without taps
        ([3, 4], [2, 3], [0, 2, 1, 0], [2, 1], [0, 1]),
        ([3, 3], [3, 2], [2, 3, 4, 1], [2, 3], None),
        ([5, 2], [1, 2], [2, 0, 2, 0], None, None),
    ],
)
def test_windows(tmp_path, kernel, strides, pads, dilations, extra):
    check(tmp_path, (1, 18, 5, 20), kernel, strides, pads, dilations, extra)


def test_other_dimensions(tmp_path):
    check(tmp_path, (2, 6, 33), [5], [2], pads=[2, 1])
    check(tmp_path, (1, 8, 3, 4, 9), [2, 3, 3], [2, 1, 2], pads=[0, 1, 1, 1, 1, 1])


def test_what_follows_is_stored_with_it(tmp_path):
    check(tmp_path, (1, 20, 4, 12), [4, 4], [2, 2], pads=[1, 1, 1, 1], behind=["Relu"])
    check(tmp_path, (1, 20, 4, 12), [4, 4], [2, 2], pads=[1, 1, 1, 1], behind=["Sigmoid"])


@pytest.mark.parametrize("target", ["host-avx2", "host-baseline", "X2_1204"])
def test_targets(tmp_path, target):
    check(tmp_path, (1, 12, 3, 10), [3, 3], [2, 2], pads=[1, 1, 1, 1], extra=[1, 0], target=target)


def test_half_precision(tmp_path):
    check(tmp_path, (1, 20, 4, 12), [4, 4], [2, 2], pads=[1, 1, 1, 1], dtype="float16")


@pytest.mark.parametrize("channels, bias", [(1, True), (3, False), (8, True)])
@pytest.mark.parametrize("target", [None, "X2_1204"])
def test_windows_side_by_side(tmp_path, channels, bias, target):
    """The phases of few channels are channels of one product."""
    random = np.random.default_rng(4)
    x, weights = random.standard_normal((2, 20, 5, 9)).astype(F32), random.standard_normal((20, channels, 2, 2))
    constants = {"w": weights.astype(F32)} | ({"b": random.standard_normal(channels).astype(F32)} if bias else {})
    expected = np.einsum("nihw,ioyx->nohywx", x.astype(np.float64), constants["w"]).reshape(2, channels, 10, 18)
    expected += constants["b"].reshape(1, -1, 1, 1) if bias else 0
    nodes = [node("ConvTranspose", ["x", *constants], ["y0"], strides=[2, 2]), node("Relu", ["y0"], ["y"])]
    path, output = tmp_path / "transposed.onnx", tmp_path / "transposed.aipu.bin"
    inputs, outputs = [("x", "float32", ["N", 20, 5, "W"])], [("y", "float32", ["N", channels, 10, "V"])]
    write_model(path, nodes, inputs, outputs, constants)
    aipu.build(path, output, dump_ir=tmp_path / "ir", **({"target": target} if target else {}))
    # On NPUs copies of a few elements take longer than they save.
    assert ("ConvTranspose*" in (tmp_path / "ir" / "groups.txt").read_text()) == (target is not None and channels < 4)
    for backend in (None, "interp"):
        found = aipu.load(output, backend=backend).run({"x": x})["y"]
        np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-5, atol=1e-5)
