"""Convolutions that are computed together, by bands of lines, give the same bits as one after the other."""

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model

F32 = np.float32


def pointwise(channels):
    return {"out": channels, "kernel": [1, 1]}


def depthwise(kernel, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)):
    return {"out": None, "kernel": kernel, "strides": list(strides), "pads": list(pads), "dilations": list(dilations)}


def build(folder, name, shape, layers, behind, residual, exposed, **options):
    """A convolution per layer, each with the ops of `behind`; returns the converted model, and what plan.txt says."""
    random = np.random.default_rng(5)
    nodes, constants, outputs = [], {}, []
    value, channels = "x", shape[1]
    extents = list(shape[2:])
    for k, layer in enumerate(layers):
        group = 1 if layer["out"] else channels
        out = layer["out"] or channels
        weights = random.standard_normal((out, channels // group, *layer["kernel"])).astype(F32)
        constants |= {f"w{k}": weights / 3, f"b{k}": random.standard_normal(out).astype(F32)}
        sizes = {key: layer[key] for key in ("strides", "pads", "dilations") if key in layer}
        pads, strides = layer.get("pads", [0] * 4), layer.get("strides", [1, 1])
        steps = layer.get("dilations", [1, 1])
        for axis in range(2):
            reach = (layer["kernel"][axis] - 1) * steps[axis] + 1
            extents[axis] = (extents[axis] + pads[axis] + pads[2 + axis] - reach) // strides[axis] + 1
        nodes.append(node("Conv", [value, f"w{k}", f"b{k}"], [f"c{k}"], group=group, **sizes))
        value, channels = f"c{k}", out
        if k + 1 < len(layers):
            nodes.append(node(behind, [value], [f"a{k}"]))
            value = f"a{k}"
            if exposed:
                outputs.append((value, "float32", ["N", channels, *extents]))
    if residual:
        nodes.append(node("Add", [value, "x"], ["sum"]))
        value = "sum"
    nodes.append(node("Neg", [value], ["y"]))
    outputs.append(("y", "float32", ["N", channels, *extents]))
    path, output = folder / f"{name}.onnx", folder / f"{name}.aipu.bin"
    write_model(path, nodes, [("x", "float32", ["N", *shape[1:]])], outputs, constants)
    aipu.build(path, output, dump_ir=folder / name, **options)
    return output, (folder / name / "plan.txt").read_text()


def check(folder, shape, layers, behind="Relu", residual=False):
    together, plan = build(folder, "together", shape, layers, behind, residual, False)
    apart, other_plan = build(folder, "apart", shape, layers, behind, residual, True)
    assert "_bands" in plan and "_bands" not in other_plan
    x = np.random.default_rng(6).standard_normal(shape).astype(F32)
    expected = aipu.load(apart).run({"x": x})["y"]
    for backend, threads in ((None, 1), (None, 2), (None, 3), ("interp", 2)):
        found = aipu.load(together, backend=backend).session(threads=threads).run({"x": x})["y"]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 1)])
def test_expand_depthwise_project(tmp_path, strides):
    check(tmp_path, (2, 8, 21, 170), [pointwise(96), depthwise([3, 3], strides), pointwise(12)])


@pytest.mark.parametrize(
    "window",
    [
        depthwise([5, 5], (1, 1), (2, 2, 2, 2)),
        depthwise([5, 3], (2, 2), (4, 0, 0, 1)),
        depthwise([3, 3], (1, 2), (1, 1, 3, 1), (2, 1)),
        depthwise([1, 3], (2, 1), (0, 1, 0, 1)),
        depthwise([7, 7], (1, 1), (0, 0, 0, 0)),
        depthwise([2, 2], (3, 3), (0, 0, 0, 0)),  # lines that no window meets
    ],
)
def test_windows(tmp_path, window):
    check(tmp_path, (1, 4, 19, 173), [pointwise(83), window])


def test_residual(tmp_path):
    check(tmp_path, (2, 24, 20, 100), [pointwise(144), depthwise([3, 3]), pointwise(24)], "HardSwish", True)


@pytest.mark.parametrize("target", ["host", "host-avx512-bf16"])
def test_bfloat16(tmp_path, target):
    """What lies between is bfloat16, or float32 where the depthwise convolution reads it."""
    shape, layers = (2, 16, 21, 170), [pointwise(96), depthwise([3, 3], (2, 2)), pointwise(12)]
    options = {"precision": "bf16", "target": target}
    together, plan = build(tmp_path, "together", shape, layers, "Relu", False, False, **options)
    apart, other_plan = build(tmp_path, "apart", shape, layers, "Relu", False, True, **options)
    assert "_bands" in plan and "_bands" not in other_plan
    x = np.random.default_rng(6).standard_normal(shape).astype(F32)
    expected = aipu.load(apart, backend="interp").run({"x": x})["y"]
    for backend, threads in ((None, 1), (None, 2), ("interp", 3)):
        if backend is None and target != "host":
            continue  # not every CPU has it
        found = aipu.load(together, backend=backend).session(threads=threads).run({"x": x})["y"]
        np.testing.assert_array_equal(found, expected)


def test_long_epilogues(tmp_path):
    check(tmp_path, (1, 8, 20, 200), [pointwise(80), depthwise([3, 3]), pointwise(17)], "Sigmoid")


def test_depthwise_first(tmp_path):
    layers = [depthwise([3, 3], (1, 1)), pointwise(20), depthwise([3, 3], (1, 1)), pointwise(7)]
    check(tmp_path, (2, 64, 16, 270), layers)


def test_strided_first(tmp_path):
    stem = {"out": 32, "kernel": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    check(tmp_path, (2, 3, 70, 520), [stem, depthwise([3, 3]), pointwise(16)])
    check(tmp_path, (2, 3, 70, 520), [stem, stem, pointwise(16)])
    check(tmp_path, (1, 3, 70, 520), [stem, pointwise(24)])


def test_not_where_weights_would_be_read_for_each_band(tmp_path):
    for channels, banded in ((400, True), (800, False)):
        shape = (1, channels, 20, 14400 // channels)
        _, plan = build(
            tmp_path, f"of{channels}", shape, [depthwise([3, 3]), pointwise(channels)], "Relu", False, False
        )
        assert ("_bands" in plan) == banded
