"""Operands in every form that the specification allows: broadcast, known only at run time, coupled."""

import aipu
import numpy as np
import pytest
from onnx_family import Family
from onnx_text import node, write_model


@pytest.fixture
def random():
    return np.random.default_rng(3)


def floats(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


def test_gemm_adds_a_column(tmp_path, random):
    family = Family(opset=17)
    a, b = floats(random, 5, 3), floats(random, 3, 4)
    for c in (floats(random, 5, 1), floats(random, 1, 1), floats(random, 4), floats(random, 5, 4), floats(random, 1)):
        family.add("Gemm", [a, b, c], 2 * a @ b + 0.5 * c, alpha=2.0, beta=0.5)
    whole = [random.integers(-9, 9, shape).astype(np.int32) for shape in ((5, 3), (3, 4), (5, 1))]
    family.add("Gemm", whole, whole[0] @ whole[1] + 3 * whole[2], beta=3.0)
    family.check(tmp_path)


def test_gemm_refuses_a_column_that_widens(tmp_path, random):
    family = Family(opset=17)
    a, b, c = floats(random, 1, 3), floats(random, 3, 4), floats(random, 5, 1)
    family.add("Gemm", [a, b, c], a @ b + c)
    with pytest.raises(RuntimeError, match="does not broadcast"):
        family.check(tmp_path)


@pytest.mark.parametrize("axis", [0, 2, -2])
def test_cumulative_along_an_axis_of_the_run(tmp_path, random, axis):
    family = Family(opset=26)
    x = floats(random, 2, 3, 4) * 0.5 + 1
    family.add("CumSum", [x, np.array(axis, np.int32)], np.cumsum(x, axis))
    family.add("CumSum", [x, np.array([axis], np.int64)], np.flip(np.cumsum(np.flip(x, axis), axis), axis), reverse=1)
    family.add("CumProd", [x, np.array(axis, np.int64)], np.cumprod(x, axis))
    family.check(tmp_path)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("peepholes", [False, True])
def test_lstm_couples_its_gates(tmp_path, random, peepholes):
    family = Family(opset=17)
    steps, batch, inputs, hidden = 4, 2, 3, 5
    x = floats(random, steps, batch, inputs)
    w, r, b = (
        floats(random, 1, 4 * hidden, inputs),
        floats(random, 1, 4 * hidden, hidden),
        floats(random, 1, 8 * hidden),
    )
    p = floats(random, 1, 3 * hidden) if peepholes else np.zeros((1, 3 * hidden), np.float32)
    pi, po, _ = np.split(p[0], 3)
    h, c, outputs = np.zeros((batch, hidden)), np.zeros((batch, hidden)), []
    for step in x:
        i, o, _, g = np.split(step @ w[0].T + h @ r[0].T + b[0, : 4 * hidden] + b[0, 4 * hidden :], 4, -1)
        gate = sigmoid(i + pi * c)
        c = (1 - gate) * c + gate * np.tanh(g)
        h = sigmoid(o + po * c) * np.tanh(c)
        outputs.append(h)
    y = np.array(outputs, np.float32)[:, None]
    operands = [x, w, r, b, None, None, None, p if peepholes else None]
    expected = [y, y[-1], c[None].astype(np.float32)]
    family.add("LSTM", operands, expected, constants=[1, 2, 3, 7], hidden_size=hidden, input_forget=1)
    family.check(tmp_path)


@pytest.mark.parametrize("axis", [1, -1])
def test_scales_of_blocks(tmp_path, random, axis):
    family = Family(opset=21)
    blocks, size = (2, 3) if axis == 1 else (3, 2)
    shape = (4, 2, 5) if axis == -1 else (4, 5, 2)
    codes = random.integers(-128, 127, shape).astype(np.int8)
    of_blocks = [blocks if k == axis % 3 else extent for k, extent in enumerate(shape)]
    scales = abs(floats(random, *of_blocks)) + 0.1
    zeros = random.integers(-9, 9, of_blocks).astype(np.int8)
    spread = [np.repeat(x, size, axis).take(range(5), axis) for x in (scales, zeros.astype(np.float32))]
    attributes = {"axis": axis, "block_size": size}
    family.add("DequantizeLinear", [codes, scales, zeros], (codes - spread[1]) * spread[0], **attributes)
    family.add("DequantizeLinear", [codes, scales], codes * spread[0], **attributes)
    x = floats(random, *shape) * 50
    rounded = np.rint(x / spread[0])
    family.add(
        "QuantizeLinear", [x, scales, zeros], np.clip(rounded + spread[1], -128, 127).astype(np.int8), **attributes
    )
    family.add("QuantizeLinear", [x, scales], np.clip(rounded, 0, 255).astype(np.uint8), **attributes)
    family.check(tmp_path)


def test_resize_by_scales_that_are_computed(tmp_path, random):
    """scales = [1, 1] and [8, 6] / the extents of x, as floats: the output is [8, 6] whatever comes in."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "two", "four"], ["extents"]),
        node("Cast", ["extents"], ["real"], to=1),
        node("Cast", ["target"], ["wanted"], to=1),
        node("Div", ["wanted", "real"], ["ratio"]),
        node("Concat", ["ones", "ratio"], ["scales"], axis=0),
        node("Resize", ["x", "", "scales"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric",
             nearest_mode="floor"),
    ]  # fmt: skip
    constants = {
        "two": np.array([2], np.int64),
        "four": np.array([4], np.int64),
        "target": np.array([8, 6], np.int64),
        "ones": np.ones(2, np.float32),
    }
    for shape in ((1, 2, "H", "W"), (1, 2, 4, 3)):
        path = tmp_path / "resize.onnx"
        write_model(path, nodes, [("x", "float32", shape)], [("y", "float32", (1, 2, 8, 6))], constants)
        model = aipu.load(aipu.build(path, tmp_path / "resize.aipu.bin")["output"])
        for height, width in ((4, 3), (2, 6)) if "H" in shape else ((4, 3),):
            x = floats(random, 1, 2, height, width)
            y = x.repeat(8 // height, 2).repeat(6 // width, 3)
            np.testing.assert_array_equal(model.run({"x": x})["y"], y)
