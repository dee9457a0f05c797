"""Values between nodes as outputs of the converted file: what the graph says, whatever is fused around them."""

import os
import pathlib
import subprocess

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model

PROGRAMS = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", "build/release")) / "bin"


@pytest.fixture
def chain(tmp_path):
    """x -> Conv -> Relu -> Add of x: all of it one kernel unless something looks into it."""
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(4, 4, 1, 1)).astype("float32")
    nodes = [
        node("Conv", ["x", "w"], ["net/conv"]),
        node("Relu", ["net/conv"], ["net/relu"]),
        node("Add", ["net/relu", "x"], ["y"]),
    ]
    path = tmp_path / "m.onnx"
    write_model(
        path, nodes, [("x", "float32", ("N", 4, 5, 5))], [("y", "float32", ("N", 4, 5, 5))], {"w": weight}, opset=17
    )
    x = rng.normal(size=(2, 4, 5, 5)).astype("float32")
    conv = np.einsum("oc,nchw->nohw", weight[:, :, 0, 0].astype("float64"), x)
    return path, x, conv


def test_exposed_values_are_what_the_graph_says(chain, tmp_path):
    path, x, conv = chain
    aipu.build(str(path), tmp_path / "all.aipu.bin", expose=["net/*"])
    model = aipu.load(tmp_path / "all.aipu.bin")
    assert [spec.name for spec in model.outputs] == ["y", "net/conv", "net/relu"]
    assert model.outputs[1].shape == ("N", 4, 5, 5)
    found = model.run({"x": x})
    np.testing.assert_allclose(found["net/conv"], conv, rtol=1e-5, atol=1e-6)
    assert (found["net/conv"] < 0).any()
    np.testing.assert_array_equal(found["net/relu"], np.maximum(found["net/conv"], 0))
    np.testing.assert_array_equal(found["y"], found["net/relu"] + x)


def test_the_model_stays_as_it_is_without(chain, tmp_path):
    path, x, conv = chain
    aipu.build(str(path), tmp_path / "plain.aipu.bin", expose=["y"])
    model = aipu.load(tmp_path / "plain.aipu.bin")
    assert [spec.name for spec in model.outputs] == ["y"]
    np.testing.assert_allclose(model.run({"x": x})["y"], np.maximum(conv, 0) + x, rtol=1e-5, atol=1e-6)


def test_unknown_names_are_errors_with_near_ones(chain, tmp_path):
    with pytest.raises(ValueError, match=r"no value .* is called 'net/rely'; did you mean 'net/relu'\?"):
        aipu.build(str(chain[0]), tmp_path / "none.aipu.bin", expose=["net/rely"])
    with pytest.raises(TypeError, match=r"write expose=\['net/relu'\]"):
        aipu.build(str(chain[0]), tmp_path / "none.aipu.bin", expose="net/relu")
    assert not (tmp_path / "none.aipu.bin").exists()


def test_the_program(chain, tmp_path):
    path, x, conv = chain
    command = [str(PROGRAMS / "aipugb"), str(path), "-o", str(tmp_path / "m.aipu.bin"), "-q"]
    subprocess.run([*command, "--expose", "net/relu"], check=True)
    assert [spec.name for spec in aipu.load(tmp_path / "m.aipu.bin").outputs] == ["y", "net/relu"]
    failed = subprocess.run([*command, "--expose", "nothing/here"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "'nothing/here' (among its 3 values: 'net/conv', 'net/relu', 'y')" in failed.stderr


def test_compass_ir_writes_its_outputs_itself(chain, tmp_path):
    aipu.build(str(chain[0]), tmp_path / "m.aipu.bin", emit_ir=tmp_path / "ir")
    with pytest.raises(ValueError, match="ir.txt: --expose is for ONNX models"):
        aipu.build(tmp_path / "ir.txt", tmp_path / "none.aipu.bin", expose=["net/relu"])
