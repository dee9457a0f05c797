"""ONNX files that the package edits itself: what is not touched stays as it is."""

import os
import pathlib

import aipu
import numpy as np
import pytest
from aipu._onnx_graph import Node, OnnxModel, tensor_array, tensor_bytes
from onnx_text import Raw, node, write_model


def test_tensors_keep_their_elements():
    for dtype in ("float32", "float64", "float16", "int64", "int32", "uint8", "int8", "bool"):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        name, back = tensor_array(tensor_bytes("t", array))
        assert name == "t" and back.dtype == array.dtype and back.shape == (2, 3)
        np.testing.assert_array_equal(back, array)


def test_elements_outside_of_raw_data(tmp_path):
    constants = {"i": Raw("int8", [3], [1, -2, 3]), "h": Raw("float16", [1], [15360])}
    write_model(
        tmp_path / "m.onnx", [node("Neg", ["x"], ["y"])], [("x", "float32", (1,))], [("y", "float32", (1,))], constants
    )
    model = OnnxModel(tmp_path / "m.onnx")
    np.testing.assert_array_equal(model.constant("i"), np.array([1, -2, 3], "int8"))
    np.testing.assert_array_equal(model.constant("h"), np.array([1], "float16"))


def test_attributes_are_read_and_written():
    one = Node("Op", ["x"], ["y"], ints=[1, -2], number=3, real=0.5, text="abc", reals=[1.5, 2.5])
    back = Node.parse(memoryview(one.to_bytes()), "")
    assert (back.op, back.inputs, back.outputs, back.name) == ("Op", ["x"], ["y"], "y")
    assert [back.get(k) for k in ("ints", "number", "real", "text", "reals")] == [[1, -2], 3, 0.5, "abc", [1.5, 2.5]]
    assert back.get("none", 7) == 7


def test_nodes_are_sorted_and_unused_constants_dropped(tmp_path):
    write_model(
        tmp_path / "m.onnx",
        [node("Add", ["x", "c"], ["y"])],
        [("x", "float32", (2,))],
        [("y", "float32", (2,))],
        {"c": np.ones(2, "float32"), "unused": np.ones(2, "float32")},
    )
    model = OnnxModel(tmp_path / "m.onnx")
    model.nodes[0].outputs = ["inner"]
    model.nodes.insert(0, Node("Neg", ["inner"], ["y"]))
    model.sort_nodes()
    model.remove_unused_constants()
    assert [n.op for n in model.nodes] == ["Add", "Neg"]
    data = model.to_bytes()
    assert OnnxModel(data).constant("unused") is None
    aipu.build(data, tmp_path / "m.aipu.bin")
    found = aipu.load(tmp_path / "m.aipu.bin").run({"x": np.array([1, 2], "float32")})
    np.testing.assert_array_equal(found["y"], np.array([-2, -3], "float32"))
    model.nodes[0].inputs[0] = "y"
    with pytest.raises(ValueError, match="depends on itself"):
        model.sort_nodes()


def _development_models():
    folder = os.environ.get("AIPU_MODELS", os.path.join(os.environ["AIPU_SOURCE_DIR"], "..", "shared", "models"))
    found = sorted(pathlib.Path(folder).glob("*/model.onnx"))
    return found or pytest.skip("no ../shared/models beside the checkout (AIPU_MODELS names another place)")


def test_models_that_are_written_again_are_the_same():
    for path in _development_models():
        one = OnnxModel(path)
        two = OnnxModel(one.to_bytes())
        assert (one.opsets, one.ir_version) == (two.opsets, two.ir_version)
        assert [vars(port) for port in one.inputs + one.outputs] == [vars(port) for port in two.inputs + two.outputs]
        for a, b in zip(one.nodes, two.nodes):
            assert (a.op, a.domain, a.name, a.inputs, a.outputs) == (b.op, b.domain, b.name, b.inputs, b.outputs)
            assert a.attributes == b.attributes
        assert len(one.nodes) == len(two.nodes) > 0
        names = {name for node in one.nodes for name in node.inputs if one.constant(name) is not None}
        for name in names:
            np.testing.assert_array_equal(one.constant(name), two.constant(name))


def test_a_model_that_is_written_again_computes_the_same(tmp_path):
    path = next(path for path in _development_models() if path.parent.name == "lgbm_as_tensors")
    feed = {"input": np.random.default_rng(1).normal(size=(5, 13)).astype("f4")}
    outputs = []
    for model in (str(path), OnnxModel(path).to_bytes()):
        aipu.build(model, tmp_path / "m.aipu.bin")
        outputs.append(aipu.load(tmp_path / "m.aipu.bin", copy=True).run(feed))
    assert list(outputs[0]) == list(outputs[1])
    for name, array in outputs[0].items():
        np.testing.assert_array_equal(array, outputs[1][name])


def test_sub_graphs_capture_names():
    path = next(path for path in _development_models() if path.parent.name == "silero_vad_v5")
    model = OnnxModel(path)
    assert any(one.captured() >= {"input", "state"} for one in model.nodes if one.op == "If")
    assert any(index == -1 for _, index in model.consumers()["input"])
