"""aipu.diff: a layer that is damaged on purpose is found, and errors that are handed on are told from those made."""

import io
import json
import math
import subprocess
import sys

import aipu.diff
import numpy as np
import pytest
from aipu._progress import ProgressLine
from aipu.diff import _metrics, _page
from onnx_text import node, write_model
from other_python import python_with, run_python

LAYERS = 5


def _write(path, weights):
    nodes, value = [], "x"
    for k in range(LAYERS):
        nodes += [node("Conv", [value, f"w{k}", f"b{k}"], [f"conv{k}"], pads=[1, 1, 1, 1])]
        nodes += [node("Relu", [f"conv{k}"], [f"relu{k}"])]
        value = f"relu{k}"
    nodes += [node("GlobalAveragePool", [value], ["pooled"]), node("Flatten", ["pooled"], ["y"])]
    write_model(path, nodes, [("x", "float32", ("N", 3, 8, 8))], [("y", "float32", ("N", 6))], weights)


@pytest.fixture
def models(tmp_path):
    """A network, the same with the weights of conv2 damaged, and data of which item 3 is the loudest."""
    rng = np.random.default_rng(5)
    weights = {}
    for k in range(LAYERS):
        weights[f"w{k}"] = (rng.normal(size=(6, 3 if k == 0 else 6, 3, 3)) * 0.3).astype("float32")
        weights[f"b{k}"] = rng.normal(size=6).astype("float32")
    _write(tmp_path / "a.onnx", weights)
    damaged = dict(weights)
    damaged["w2"] = damaged["w2"].copy()
    damaged["w2"][1] *= 1.3
    _write(tmp_path / "b.onnx", damaged)
    np.savez(tmp_path / "data.npz", x=rng.normal(size=(6, 3, 8, 8)).astype("float32"))
    return tmp_path


def test_metrics_are_what_their_definitions_say():
    rng = np.random.default_rng(1)
    a, noise = rng.normal(size=(4, 100)), rng.normal(size=(4, 100)) * 0.01
    error = _metrics.Error()
    for k in range(4):
        error.add(a[k], a[k] + noise[k], f"run {k}")
    assert error.snr == pytest.approx(10 * np.log10((a**2).sum() / (noise**2).sum()))
    flat, other = a.ravel(), (a + noise).ravel()
    assert error.cosine == pytest.approx(flat @ other / np.linalg.norm(flat) / np.linalg.norm(other))
    assert error.largest == pytest.approx(np.abs(noise).max())
    assert error.mean == pytest.approx(np.abs(noise).mean())
    ratios = {f"run {k}": np.sqrt((noise[k] ** 2).sum() / (a[k] ** 2).sum()) for k in range(4)}
    assert [name for _, name in error.worst] == sorted(ratios, key=lambda name: -ratios[name])[:3]


def test_metrics_of_what_is_not_finite():
    same = _metrics.Error()
    same.add(np.array([1, np.inf, np.nan]), np.array([1, np.inf, np.nan]), "")
    assert same.relative == 0 and same.snr == math.inf and same.cosine == 1
    for wrong in (np.nan, -np.inf, 3.0):
        error = _metrics.Error()
        error.add(np.array([1, np.inf]), np.array([1, wrong]), "")
        assert error.relative == math.inf and error.largest == math.inf
    silent = _metrics.Error()
    silent.add(np.zeros(3), np.ones(3), "")
    assert silent.snr == -math.inf and silent.cosine == 0


def test_a_damaged_layer_is_found(models):
    found = aipu.diff.compare(str(models / "a.onnx"), str(models / "b.onnx"), str(models / "data.npz"))
    layers = {layer.name: layer for layer in found.layers}
    assert list(layers)[:4] == ["conv0", "relu0", "conv1", "relu1"] and layers["y"].is_output and found.runs == 6
    assert [layer.name for layer in found.culprits(1)] == ["conv2"]
    assert 10 < layers["conv2"].own.snr < 30
    # Before the damage nothing differs; behind it everything does, but nothing makes an error of its own.
    assert layers["relu1"].inherited.relative == 0
    assert layers["relu4"].inherited.snr < 40
    others = [layer for name, layer in layers.items() if name != "conv2"]
    assert all(layer.own.snr > 100 for layer in others)
    assert "most error is made by: conv2 (" in "\n".join(_page.table(found))


def test_the_same_model_has_no_error(models):
    found = aipu.diff.compare(str(models / "a.onnx"), str(models / "a.onnx"), str(models / "data.npz"), limit=2)
    assert found.runs == 2 and all(layer.inherited.relative == 0 for layer in found.layers)


def test_another_target_is_near(models):
    other = aipu.diff.Side.parse(f"{models / 'a.onnx'}@X2_1204")
    found = aipu.diff.compare(str(models / "a.onnx"), other, str(models / "data.npz"), limit=1, own=False)
    assert all(layer.inherited.snr > 90 and layer.own is None for layer in found.layers)


def test_another_precision_is_what_it_says(models):
    other = aipu.diff.Side.parse(f"{models / 'a.onnx'}@bf16")
    found = aipu.diff.compare(str(models / "a.onnx"), other, str(models / "data.npz"), limit=1, own=False)
    assert 25 < min(layer.inherited.snr for layer in found.layers) < 70
    with pytest.raises(ValueError, match="fp9"):
        aipu.diff.Side.parse(f"{models / 'a.onnx'}@fp9")


def test_an_aipu_bin_has_the_outputs_that_it_has(models):
    aipu.build(str(models / "b.onnx"), str(models / "b.aipu.bin"), expose=["conv1", "conv2"])
    found = aipu.diff.compare(str(models / "a.onnx"), str(models / "b.aipu.bin"), str(models / "data.npz"))
    layers = {layer.name: layer for layer in found.layers}
    assert list(layers) == ["conv1", "conv2", "y"]
    assert layers["conv1"].inherited.relative == 0 and layers["conv2"].inherited.snr < 40
    assert all(layer.own is None for layer in found.layers)


def test_models_that_have_nothing_in_common(models):
    write_model(models / "c.onnx", [node("Neg", ["x"], ["z"])], [("x", "float32", (2,))], [("z", "float32", (2,))])
    with pytest.raises(ValueError, match="no value of the same name"):
        aipu.diff.compare(str(models / "a.onnx"), str(models / "c.onnx"), str(models / "data.npz"))
    write_model(models / "d.onnx", [node("Neg", ["u"], ["y"])], [("u", "float32", (2,))], [("y", "float32", (2,))])
    with pytest.raises(ValueError, match=r"d.onnx takes the input 'u' \(float32\), which a.onnx does not"):
        aipu.diff.compare(str(models / "a.onnx"), str(models / "d.onnx"), str(models / "data.npz"))


def _program(folder, *arguments):
    command = [sys.executable, "-m", "aipu.diff", "a.onnx", "b.onnx", "--data", "data.npz", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_program(models):
    done = _program(models, "--json", "d.json", "--html", "d.html", "-q")
    assert done.returncode == 0, done.stderr
    assert "conv2" in done.stdout and "relu1" not in done.stdout  # which does not differ
    told = json.loads((models / "d.json").read_text())
    assert told["most_error_made_by"][0] == "conv2" and told["runs"] == 6
    by_name = {layer["name"]: layer for layer in told["layers"]}
    assert by_name["conv1"]["inherited"]["exact"] and by_name["conv1"]["inherited"]["snr_db"] is None
    assert len(by_name["y"]["inherited"]["worst_inputs"]) == 3
    page = (models / "d.html").read_text()
    assert page.count("<svg") == 2 and "prefers-color-scheme: dark" in page
    assert "http" not in page and "<script" not in page  # nothing is fetched
    assert _program(models, "-q", "--min-snr", "5").returncode == 0
    failed = _program(models, "-q", "--min-snr", "90")
    assert failed.returncode == 1 and "output 'y' has" in failed.stderr
    assert _program(models, "-q", "--limit", "0").returncode == 1


def test_progress_is_a_line_of_each_kind_and_one_in_ten_seconds():
    now, stream = [0.0], io.StringIO()
    tell = ProgressLine("p", stream, lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        tell(f"run {second}")
    tell("writing")
    tell.end()
    assert stream.getvalue() == "p: run 0\np: run 10\np: run 20\np: writing\n"
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    tell = ProgressLine("p", terminal)
    tell("run 1")
    tell("run 2\n\x1b[31m")  # names of a model do not speak to the terminal
    tell.end()
    assert terminal.getvalue().startswith("\rp: run 1\x1b[K\rp: run 2") and terminal.getvalue().endswith("\r\x1b[K")
    assert "\n" not in terminal.getvalue() and "\x1b[31m" not in terminal.getvalue()


def test_names_are_escaped_in_the_page():
    layer = aipu.diff.Layer("<b>&", "Conv", (1,), _metrics.Error(), _metrics.Error(), True)
    layer.own.add(np.ones(2), np.zeros(2), "<i>")
    page = _page.page(aipu.diff.Difference("<a>", "b", 1, [layer], []))
    assert "<b>" not in page and "<i>" not in page and "<a>" not in page and "&lt;b&gt;&amp;" in page


_AGAINST_ORT = """
import sys
import aipu.diff
side = aipu.diff.Side.parse(sys.argv[1] + "/a.onnx@onnxruntime")
same = aipu.diff.compare(side, sys.argv[1] + "/a.onnx", sys.argv[1] + "/data.npz", limit=2)
assert len(same.layers) == 12 and all(x.inherited.snr > 90 and x.own.snr > 90 for x in same.layers)
damaged = aipu.diff.compare(side, sys.argv[1] + "/b.onnx", sys.argv[1] + "/data.npz", limit=2)
print(damaged.culprits(1)[0].name)
"""


def test_onnxruntime_as_the_reference(models):
    python = python_with("onnxruntime")
    (models / "script.py").write_text(_AGAINST_ORT)
    assert run_python(python, models / "script.py", models).strip() == "conv2"
