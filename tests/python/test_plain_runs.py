"""Runs on plain arrays are one call into the extension, which is what a small model's time is made of."""

import pickle

import aipu
import numpy as np
import pytest
from onnx_text import MapType, node, write_model

ML = "ai.onnx.ml"


class Counted:
    """A native session, and the names of what was called of it."""

    def __init__(self, native):
        self._native = native
        self.calls = []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self._native, name)


def convert(folder, nodes, inputs, outputs):
    write_model(folder / "m.onnx", nodes, inputs, outputs, opset=21)
    return aipu.load(aipu.build(folder / "m.onnx", folder / "m.aipu.bin")["output"])


def run_counted(model, inputs):
    """The outputs, which have to be those of a run that names them, and what was called for them."""
    session = model.session()
    named = session.run(inputs, [name for name in session.run(inputs)])
    session._native = Counted(session._native)
    found = session.run(inputs)
    for name, value in named.items():
        assert type(found[name]) is type(value)
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype
        np.testing.assert_equal(found[name], value)
    return found, session._native.calls


def echo(folder, dtype, operator="Identity", **attributes):
    return convert(
        folder, [node(operator, ["x"], ["y"], **attributes)], [("x", dtype, ("N", 2))], [("y", dtype, ("N", 2))]
    )


def test_strings(tmp_path):
    x = np.array([["a", "Straße"], [b"bytes", "\udcff"], ["", "x" * 300]], object)
    found, calls = run_counted(echo(tmp_path, "object"), {"x": x})
    assert calls == ["run_plain"]
    assert found["y"].tolist() == [["a", "Straße"], ["bytes", "\udcff"], ["", "x" * 300]]
    found, calls = run_counted(echo(tmp_path, "object"), {"x": x[:0]})
    assert calls == ["run_plain"] and found["y"].shape == (0, 2)


@pytest.mark.parametrize("other", [x for x in (3, 1.5, None, ["a"])])
def test_strings_that_are_none(tmp_path, other):
    model = echo(tmp_path, "object")
    with pytest.raises(ValueError, match=f"input 'x': expected strings, found an element {type(other).__name__}"):
        x = np.array([["a", "b"]], object)
        x[0, 1] = other
        model.run({"x": x})
    with pytest.raises(UnicodeEncodeError):
        model.run({"x": np.array([["a", "\ud800"]], object)})


def test_strings_are_let_go(tmp_path):
    import sys

    session = echo(tmp_path, "object").session()
    text = "text of this test alone"
    x = np.array([[text, text]], object)
    before = sys.getrefcount(text)
    for _ in range(3):
        session.run({"x": x})
    assert sys.getrefcount(text) == before


def test_strings_in_other_orders(tmp_path):
    x = np.array([["a", "b", "c"], ["d", "e", "f"]], object)
    assert echo(tmp_path, "object").run({"x": x.T})["y"].tolist() == [["a", "d"], ["b", "e"], ["c", "f"]]


def test_bools(tmp_path):
    model = echo(tmp_path, "bool", "Not")
    found, calls = run_counted(model, {"x": np.array([[True, False]])})
    assert calls == ["run_plain"] and found["y"].tolist() == [[False, True]]
    odd = np.array([[2, 0], [1, 255]], np.uint8).view(bool)
    assert model.run({"x": odd})["y"].tolist() == [[False, True], [False, False]]


def test_a_dtype_that_is_equal_and_another_object(tmp_path):
    x = pickle.loads(pickle.dumps(np.ones((1, 2), np.float32)))
    _, calls = run_counted(echo(tmp_path, "float32"), {"x": x})
    assert calls == ["run_plain"]
    with pytest.raises(ValueError, match="float32"):
        echo(tmp_path, "float32").run({"x": np.ones((1, 2), np.float64)})


def test_shapes_that_depend_on_data(tmp_path):
    model = convert(tmp_path, [node("NonZero", ["x"], ["y"])], [("x", "int64", ("N",))], [("y", "int64", (1, "n"))])
    for x in ([0, 3, 0, 4], [0, 0], [7]):
        found, calls = run_counted(model, {"x": np.array(x, np.int64)})
        assert calls == ["run_plain"] and found["y"].tolist() == [np.flatnonzero(x).tolist()]


def test_maps(tmp_path):
    nodes = [node("ZipMap", ["x"], ["y"], ML, classlabels_strings=["c", "a", "b"])]
    model = convert(tmp_path, nodes, [("x", "float32", ("N", 3))], [("y", MapType("object", "float32", many=True), ())])
    found, calls = run_counted(model, {"x": np.array([[1, 2, 3], [4, 5, 6]], np.float32)})
    assert calls == ["run_plain"]
    assert found["y"] == [{"c": 1.0, "a": 2.0, "b": 3.0}, {"c": 4.0, "a": 5.0, "b": 6.0}]


def test_the_interface_of_onnx_runtime(tmp_path, monkeypatch):
    from aipu import onnxruntime

    echo(tmp_path, "object")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    x = np.array([["a", "b"]], object)
    expected = session.run(["y"], {"x": x})[0].tolist()
    monkeypatch.setattr("aipu._session.Session._run_alone", lambda *_: pytest.fail("took the long way"))
    assert session.run(None, {"x": x})[0].tolist() == expected == [["a", "b"]]
