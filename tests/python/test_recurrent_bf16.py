"""LSTM, GRU and RNN with ``precision="bf16"``: weights are rounded and held as bfloat16, all else is float32."""

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model

F32 = np.float32
STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 24, 40


def rounded(x):
    """The nearest bfloat16 numbers, ties to even."""
    bits = np.ascontiguousarray(x, F32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(F32)


def build(folder, op, gates, weights, name, **options):
    path = folder / f"{name}.onnx"
    nodes = [node(op, ["x", "w", "r", "b"], ["y"], hidden_size=HIDDEN, direction="bidirectional")]
    outputs = [("y", "float32", [STEPS, 2, "N", HIDDEN])]
    write_model(path, nodes, [("x", "float32", [STEPS, "N", INPUTS])], outputs, weights)
    return aipu.build(path, folder / f"{name}.aipu.bin", **options)


@pytest.mark.parametrize("op, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_weights_are_rounded(tmp_path, op, gates):
    random = np.random.default_rng(1)
    extents = {"w": (2, gates * HIDDEN, INPUTS), "r": (2, gates * HIDDEN, HIDDEN), "b": (2, 2 * gates * HIDDEN)}
    weights = {name: (random.standard_normal(shape) * 0.3).astype(F32) for name, shape in extents.items()}
    narrow = {name: rounded(array) if name != "b" else array for name, array in weights.items()}
    reports = {
        "wide": build(tmp_path, op, gates, weights, "wide"),
        "bf16": build(tmp_path, op, gates, weights, "bf16", precision="bf16"),
        # Of weights that are such numbers nobody has to say it.
        "given": build(tmp_path, op, gates, narrow, "given"),
        "fp16": build(tmp_path, op, gates, weights, "fp16", precision="fp16"),
    }
    x = random.standard_normal((STEPS, BATCH, INPUTS)).astype(F32)
    found = {name: aipu.load(report["output"]).run({"x": x})["y"] for name, report in reports.items()}
    np.testing.assert_array_equal(found["bf16"], found["given"])
    np.testing.assert_array_equal(found["fp16"], found["wide"])
    np.testing.assert_allclose(found["bf16"], found["wide"], atol=0.02)
    assert (found["bf16"] != found["wide"]).any()
    np.testing.assert_array_equal(
        found["bf16"], aipu.load(reports["bf16"]["output"], backend="interp").run({"x": x})["y"]
    )
    halves = weights["w"].nbytes // 2 + weights["r"].nbytes // 2
    saved = reports["wide"]["constant_bytes"] - reports["bf16"]["constant_bytes"]
    assert saved >= halves, (saved, halves)  # and of what blocks are filled up with


def test_weights_of_run_time_stay_as_they_are(tmp_path):
    path = tmp_path / "lstm.onnx"
    nodes = [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=HIDDEN)]
    extents = {"x": [STEPS, BATCH, INPUTS], "w": [1, 4 * HIDDEN, INPUTS], "r": [1, 4 * HIDDEN, HIDDEN]}
    inputs = [(name, "float32", shape) for name, shape in extents.items()]
    write_model(path, nodes, inputs, [("y", "float32", [STEPS, 1, BATCH, HIDDEN])], {})
    feed = {
        name: np.random.default_rng(2).standard_normal(shape).astype(F32) * F32(0.3) for name, shape in extents.items()
    }
    wide, narrow = (
        aipu.load(aipu.build(path, tmp_path / f"{precision}.aipu.bin", precision=precision)["output"]).run(feed)["y"]
        for precision in ("fp32", "bf16")
    )
    np.testing.assert_array_equal(wide, narrow)
