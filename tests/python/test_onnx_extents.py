"""Extents that are long expressions have symbols of their own, against NumPy."""

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model


def quarters(count):
    """Reshapes in a row, each to a shape that a run knows and with an extent that is inferred, and a sum with it."""
    nodes, shapes = [], []
    value = "x"
    for k in range(count):
        shape = f"shape{k}"
        shapes.append((shape, "int64", [3]))
        nodes += [
            node("Reshape", [value, shape], [f"a{k}"]),
            node("Transpose", [f"a{k}"], [f"b{k}"], perm=[1, 0, 2]),
            node("Reduce" + ("Max" if k % 2 else "Sum"), [f"b{k}"], [f"c{k}"], axes=[0], keepdims=1),
            node("Sub", [f"b{k}", f"c{k}"], [f"y{k}"]),
        ]
        value = f"y{k}"
    return nodes, shapes, value


def expected(x, shapes):
    for k, shape in enumerate(shapes):
        b = x.reshape([x.shape[i] if extent == 0 else extent for i, extent in enumerate(shape)]).transpose(1, 0, 2)
        x = b - (b.max(0, keepdims=True) if k % 2 else b.sum(0, keepdims=True))
    return x


@pytest.mark.parametrize("target", ["host", "X2_1204"])
def test_reshapes_in_a_row(tmp_path, target):
    nodes, inputs, last = quarters(6)
    path = tmp_path / "m.onnx"
    write_model(
        path, nodes, [("x", "float32", ["A", "B", "C"]), *inputs], [(last, "float32", ["?", "?", "?"])], opset=11
    )
    model = aipu.load(aipu.build(path, tmp_path / "m.aipu.bin", target=target)["output"])
    random = np.random.default_rng(5)
    for extents, shapes in (
        ((2, 3, 4), [(4, -1, 2), (6, 2, 2), (-1, 1, 8), (0, -1, 4), (2, 2, 6), (-1, 4, 3)]),
        ((1, 6, 10), [(5, 4, -1), (0, 0, -1), (3, -1, 2), (10, -1, 2), (15, 2, 2), (4, 3, 5)]),
    ):
        x = random.integers(-3, 4, extents).astype(np.float32)
        feed = {"x": x} | {f"shape{k}": np.array(shape, np.int64) for k, shape in enumerate(shapes)}
        np.testing.assert_array_equal(model.run(feed)[last], expected(x, shapes))
    feed["shape3"] = np.array([7, 1, 1], np.int64)
    with pytest.raises(ValueError, match="number of elements"):
        model.run(feed)
