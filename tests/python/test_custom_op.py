"""The operators of models/custom_op as Python: their kernels in PySim and on the device model, and whole models with
them.
"""

import importlib.util
import os
import subprocess

import aipu
import numpy as np
import pytest
from aipu import op

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "models", "custom_op")
PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(aipu.__file__)))), "bin")


def load(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(FOLDER, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hard_shrink_runs_as_a_dsl_function():
    kernel = load("hard_shrink").hard_shrink
    executor = aipu.tir.BuildManager(target="X2_1204").build(kernel)
    x = np.linspace(-2, 2, 1003, dtype="float32")
    expected = np.where(np.abs(x) > np.float32(0.75), x, np.float32(0))
    simulated, computed = np.empty_like(x), np.empty_like(x)
    kernel(x, simulated, x.size, 0.75)
    executor(x, computed, x.size, 0.75)
    np.testing.assert_array_equal(simulated, expected)
    np.testing.assert_array_equal(computed, expected)


def test_unit_rows_runs_as_a_dsl_function():
    kernel = load("unit_rows").unit_rows
    executor = aipu.tir.BuildManager(target="X2_1204").build(kernel)
    rows, cols = 9, 45
    x = np.random.default_rng(1).standard_normal((rows, cols)).astype("float32")
    length = np.linalg.norm(x.astype("float64"), axis=1)
    for run in (kernel, executor):
        y, norm = np.empty_like(x), np.empty(rows, "float32")
        run(x, y, norm, rows, cols, 1e-12)
        np.testing.assert_allclose(norm, length, rtol=1e-5)
        np.testing.assert_allclose(y, x / length[:, None], rtol=1e-5, atol=1e-7)


def test_declarations_are_known_to_python():
    load("unit_rows")
    declared = {operator.name: operator for operator in op.operators()}["example::UnitRows"]
    assert list(declared.inputs) == ["x"] and list(declared.outputs) == ["y", "norm"]
    assert declared.outputs["norm"] == op.Tensor("float32", ("...rows", 1))
    assert declared.attributes == {"epsilon": 1e-12}
    assert declared.kernels[0].__name__ == "unit_rows"


def test_wrong_declarations_are_refused():
    with pytest.raises(ValueError, match="domain::Name"):
        op.register("Copy", inputs={}, outputs={"y": op.tensor("float32", 1)})
    with pytest.raises(ValueError, match="at least one output"):
        op.register("test::Copy", inputs={}, outputs={})
    with pytest.raises(ValueError, match="an extent is a name"):
        op.tensor("float32", "two words")
    with pytest.raises(ValueError, match="only one"):
        op.tensor("float32", "...a", "...b")
    with pytest.raises(ValueError, match="at least one element type"):
        op.dtype()


@pytest.mark.parametrize("target", ["host", "X2_1204"])
def test_models_with_them_run(target):
    # Twice in one process: the operator is registered once.
    for batch in (3, 5):
        subprocess.run([os.path.join(PROGRAMS, "aipu-make-model"), "unit_rows", "-o", "model.onnx"], check=True)
        aipu.build("model.onnx", "model.aipu.bin", target=target, plugins=[os.path.join(FOLDER, "unit_rows.py")])
        x = np.random.default_rng(batch).standard_normal((batch, 2, 64)).astype("float32")
        results = aipu.load("model.aipu.bin").run({"input": x})
        rows = results["output"] * results["norm"]
        np.testing.assert_allclose(np.linalg.norm(results["output"], axis=-1), 1, rtol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=-1, keepdims=True), results["norm"], rtol=1e-5)


NOTEBOOK_OPERATOR = """from aipu import op
from aipu import script as S


@op.register("example::UnitRows", inputs={{"x": op.tensor("float32", "...rows", "cols")}},
             outputs={{"y": op.tensor("float32", "...rows", "cols"), "norm": op.tensor("float32", "...rows", 1)}})
@S.prim_func
def kernel(x: S.ptr("float32", "global"), y: S.ptr("float32", "global"), norm: S.ptr("float32", "global"), rows: S.i32,
           cols: S.i32):
    for i in range(S.get_local_id(), rows, S.get_local_size()):
        norm[i] = 1.0
        for j in range(cols):
            y[i * cols + j] = {value}
"""


def test_a_plugin_is_edited_between_builds(tmp_path):
    """As in a notebook: define, build, edit the file, build again, build without."""
    model, output, plugin = tmp_path / "model.onnx", tmp_path / "model.aipu.bin", tmp_path / "rows.py"
    subprocess.run([os.path.join(PROGRAMS, "aipu-make-model"), "unit_rows", "-o", str(model)], check=True)
    x = np.random.default_rng(7).standard_normal((2, 2, 64)).astype("float32")
    for value in (1.5, -2.0):
        plugin.write_text(NOTEBOOK_OPERATOR.format(value=value))
        report = aipu.build(model, output, plugins=[plugin])
        assert report["warnings"] == []
        np.testing.assert_array_equal(aipu.load(output).run({"input": x})["output"], np.full((2, 2, 45), value, "f4"))
    with pytest.raises(RuntimeError, match="example::UnitRows.*unknown operator"):
        aipu.build(model, output)


def test_a_plugin_that_is_not_used_is_a_warning(tmp_path):
    model = tmp_path / "model.onnx"
    subprocess.run([os.path.join(PROGRAMS, "aipu-make-model"), "unit_rows", "-o", str(model)], check=True)
    plugins = [os.path.join(FOLDER, name) for name in ("unit_rows.py", "hard_shrink.py")]
    report = aipu.build(model, tmp_path / "model.aipu.bin", plugins=plugins)
    assert report["warnings"] == [f"plugin '{plugins[1]}' is not used: the model has no node that it claims"]
