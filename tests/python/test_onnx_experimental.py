"""Experimental operators of ONNX 1.0, as ONNX Runtime computes them."""

import aipu
import numpy as np
import pytest
from onnx_family import Family
from onnx_text import node, write_model


def test_experiments(tmp_path):
    family = Family(opset=7)
    x = np.random.default_rng(7).standard_normal((2, 3, 5, 6)).astype("f")
    family.add("Affine", [x], 2 * x - 0.5, alpha=2.0, beta=-0.5)
    family.add("Affine", [x], x)
    family.add("Scale", [x], x * 3, scale=3.0)
    bias = np.array([1, -2, 0.5], "f")
    family.add("ImageScaler", [x], x / 4 + bias[:, None, None], scale=0.25, bias=[1.0, -2.0, 0.5])
    family.add("ImageScaler", [x.astype(np.float16)], x.astype(np.float16) / 2, scale=0.5, tolerance=1e-3)
    family.add("ParametricSoftplus", [x], 2 * np.log1p(np.exp(0.5 * x)), alpha=2.0, beta=0.5)
    family.add("ScaledTanh", [x], 2 * np.tanh(0.5 * x), alpha=2.0, beta=0.5)
    family.add("Crop", [x], x[:, :, 2:4, 1:6], border=[1, 2, 0, 1])
    family.add("Crop", [x], x[:, :, 2:4, 1:4], border=[1, 2, 0, 0], scale=[2, 3])
    family.check(tmp_path)


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("Crop", {"border": [1, 2]}, "needs a border of four numbers"),
        ("ImageScaler", {"bias": [1.0]}, "has a bias of 1 channels"),
        ("ScaledTanh", {"alpha": 1.0}, "needs the attribute 'beta'"),
    ],
)
def test_what_is_refused(tmp_path, op, attributes, message):
    image = [("x", "float32", (1, 2, 4, 4))]
    bad = node(op, ["x"], ["y"], **attributes)
    write_model(tmp_path / "m.onnx", [bad], image, [("y", "float32", (1, 2, 4, 4))], opset=7)
    with pytest.raises((ValueError, RuntimeError), match=message):
        aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")
