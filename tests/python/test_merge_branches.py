"""Blocks of convolutions side by side (RepVGG, MobileOne) that become one convolution: the numbers stay."""

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model


def block(groups, identity, strides):
    """3x3, 1x1 and perhaps the tensor itself, each with a BatchNormalization as it is trained, one behind their sum."""
    random = np.random.default_rng(5)
    constants = {
        "w": random.uniform(-1, 1, (8, 8 // groups, 3, 3)).astype(np.float32),
        "v": random.uniform(-1, 1, (8, 8 // groups, 1, 1)).astype(np.float32),
    }
    size = {"group": groups, "strides": [strides] * 2}

    def normalized(name):
        for part in ("scale", "shift", "mean"):
            constants[f"{name}.{part}"] = random.uniform(-1, 1, 8).astype(np.float32)
        constants[f"{name}.var"] = random.uniform(0.5, 2, 8).astype(np.float32)
        inputs = [name, *(f"{name}.{part}" for part in ("scale", "shift", "mean", "var"))]
        return node("BatchNormalization", inputs, ["y" if name.startswith("sum") else f"{name}.n"])

    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1] * 4, **size), normalized("c")]
    nodes += [node("Conv", ["x", "v"], ["e"], **size), normalized("e")]
    nodes += [node("Add", ["c.n", "e.n"], ["sum"])]
    if identity:
        nodes += [normalized("x"), node("Add", ["x.n", "sum"], ["sum2"])]
    return [*nodes, normalized("sum2" if identity else "sum")], constants


@pytest.mark.parametrize("groups, identity, strides", [(1, True, 1), (8, True, 1), (2, True, 1), (1, False, 2)])
def test_branches(tmp_path, groups, identity, strides):
    nodes, constants = block(groups, identity, strides)
    path, output = tmp_path / "block.onnx", tmp_path / "block.bin"
    extents = [(9 + strides - 1) // strides, (7 + strides - 1) // strides]
    write_model(path, nodes, [("x", "float32", ["N", 8, 9, 7])], [("y", "float32", ["N", 8, *extents])], constants)
    x = np.random.default_rng(6).standard_normal((2, 8, 9, 7)).astype(np.float32)
    found, convolutions = [], []
    for k, disabled in enumerate(([], ["merge_branches", "fold_batch_normalization"])):
        aipu.build(path, output, dump_ir=tmp_path / f"ir{k}", disabled_passes=disabled)
        found.append(aipu.load(output).run({"x": x})["y"])
        convolutions.append((tmp_path / f"ir{k}" / "groups.txt").read_text().count("Conv*"))
    assert convolutions == [1, 2]
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)
