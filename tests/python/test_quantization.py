"""aipu.quantize: numbers that are as computed by hand, models that stay near float32 and run on integers."""

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import aipu
import numpy as np
import pytest
from aipu._onnx_graph import Node, OnnxModel, tensor_array
from aipu.quantization import _layers, _opset, _ranges, _sensitivity
from onnx_text import node, write_model
from other_python import python_with, run_python

PROGRAMS = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", "build/release")) / "bin"


def _run(model, feed, folder, **options):
    aipu.build(model, folder / "run.aipu.bin", **options)
    return aipu.load(folder / "run.aipu.bin", copy=True).run(feed)


# ---- old opsets


def _old_model(path, opset):
    nodes = [
        node("Clip", ["x"], ["a"], min=-0.5, max=0.5),
        node("Pad", ["a"], ["b"], mode="constant", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.25),
        node("Slice", ["b"], ["c"], starts=[1], ends=[6], axes=[3]),
        node("Softmax", ["c"], ["d"]),
        node("Dropout", ["d"], ["e"], ratio=0.5),
        node("Unsqueeze", ["e"], ["f"], axes=[0]),
        node("Squeeze", ["f"], ["g"], axes=[0]),
        node("ReduceSum", ["g"], ["h"], axes=[2], keepdims=1),
        node("Split", ["h"], ["s", "t"], axis=1, split=[1, 2]),
        node("Upsample", ["c", "scales"], ["u"], mode="nearest"),
        node("BatchNormalization", ["u", "g0", "b0", "m0", "v0"], ["n"], epsilon=0.001),
        node("Conv", ["n", "w"], ["o"], kernel_shape=[1, 1]),
    ]
    rng = np.random.default_rng(2)
    constants = {name: rng.uniform(0.5, 2, 3).astype("float32") for name in ("g0", "b0", "m0", "v0")}
    constants["scales"] = np.array([1, 1, 2, 2], "float32")
    constants["w"] = rng.normal(size=(2, 3, 1, 1)).astype("float32")
    shapes = {"d": (2, 3, 6, 5), "s": (2, 1, 1, 5), "t": (2, 2, 1, 5), "o": (2, 2, 12, 10)}
    outputs = [(name, "float32", shape) for name, shape in shapes.items()]
    write_model(path, nodes, [("x", "float32", (2, 3, 4, 5))], outputs, constants, opset=opset)


def test_upgraded_models_compute_the_same(tmp_path):
    _old_model(tmp_path / "old.onnx", 9)
    feed = {"x": np.random.default_rng(1).normal(size=(2, 3, 4, 5)).astype("float32")}
    old = _run(str(tmp_path / "old.onnx"), feed, tmp_path)
    model = OnnxModel(tmp_path / "old.onnx")
    _opset.upgrade(model)
    assert model.opset == 13
    new = _run(model.to_bytes(), feed, tmp_path)
    assert list(old) == list(new)
    for name in old:
        np.testing.assert_allclose(new[name], old[name], rtol=1e-6, atol=1e-7, err_msg=name)


def test_operators_that_have_not_changed_stay(tmp_path):
    nodes = [
        node("Abs", ["x"], ["a"], consumed_inputs=[0]),
        node("Sinh", ["a"], ["b"]),
        node("Hardmax", ["b"], ["c"], axis=1),
        node("Scatter", ["c", "i", "u"], ["d"], axis=0),
    ]
    constants = {"i": np.array([[0, 1, 0]], "int64"), "u": np.array([[5, 6, 7]], "float32")}
    ports = [("x", "float32", (2, 3))], [("d", "float32", (2, 3))]
    write_model(tmp_path / "old.onnx", nodes, *ports, constants, opset=10)
    feed = {"x": np.array([[1, -3, 2], [0.5, 0.25, -1]], "float32")}
    old = _run(str(tmp_path / "old.onnx"), feed, tmp_path)
    model = OnnxModel(tmp_path / "old.onnx")
    _opset.upgrade(model)
    assert [n.op for n in model.nodes if n.op not in ("Shape", "Flatten", "Reshape")] == [
        "Abs",
        "Sinh",
        "Hardmax",
        "ScatterElements",
    ]
    assert all(n.get("consumed_inputs") is None for n in model.nodes)
    np.testing.assert_array_equal(_run(model.to_bytes(), feed, tmp_path)["d"], old["d"])


def test_operators_without_a_rule_are_named(tmp_path):
    nodes = [node("Add", ["x", "c"], ["y"], broadcast=1)]
    write_model(
        tmp_path / "m.onnx", nodes, [("x", "float32", (2,))], [("y", "float32", (2,))], {"c": np.ones(2, "f4")}, opset=6
    )
    with pytest.raises(ValueError, match=r"node 'y_node' \(Add\) of opset 6: there is no rule"):
        aipu.quantize(str(tmp_path / "m.onnx"), [np.ones(2, "f4")])


# ---- ranges and numbers


def _statistics(values, axis=-1):
    statistics = _ranges.Statistics(axis)
    for value in values:
        statistics.add_extrema(value)
    for value in values:
        statistics.add_histogram(value)
    return statistics


def test_statistics_are_those_of_all_runs_together():
    rng = np.random.default_rng(4)
    values = [rng.normal(size=(2, 3, 5)).astype("float32") for _ in range(4)]
    statistics = _statistics(values, axis=1)
    together = np.concatenate(values)
    assert (statistics.low, statistics.high) == (together.min(), together.max())
    np.testing.assert_allclose(statistics.channel_mean, together.mean(axis=(0, 2)), rtol=1e-5)
    np.testing.assert_array_equal(statistics.channel_absolute, np.abs(together).max(axis=(0, 2)))
    assert statistics.histogram.sum() == together.size
    with pytest.raises(ValueError, match="NaN or infinities"):
        statistics.add_extrema(np.array([[[np.nan]]], "float32"))


def test_each_calibrator_deals_with_outliers():
    rng = np.random.default_rng(6)
    value = np.concatenate([rng.normal(size=200_000), [40.0, -25.0]]).astype("float32")[None]
    statistics = _statistics([value], axis=0)
    found = {method: _ranges.choose(statistics, method, 99.9) for method in _ranges.METHODS}
    assert found["minmax"] == (-25.0, 40.0)
    low, high = np.percentile(value, [0.05, 99.95])
    np.testing.assert_allclose(found["percentile"], (low, high), atol=0.05)

    def error(limits):
        return float(((_ranges.Linear.of(limits, "uint8").rounded(value) - value) ** 2)[0, :-2].mean())

    for method in ("percentile", "entropy", "mse"):
        assert found[method][0] > -20 and found[method][1] < 35, method
        assert error(found[method]) < error(found["minmax"]), method

    # Zeros are exact in any range: that half of all values are 0, as behind a Relu, changes nothing.
    positive = np.abs(value[:, :-2])
    half = _statistics([np.concatenate([positive, np.zeros_like(positive)], axis=1)], axis=0)
    assert _ranges.choose(half, "entropy", 99.9)[1] > 0.5 * positive.max()

    # The best of all symmetric cuts is not better than what mse finds, outliers included.
    def whole(limits):
        return float(((_ranges.Linear.of(limits, "uint8").rounded(value) - value) ** 2).mean())

    best = min(whole((-25 * share, 40 * share)) for share in np.linspace(0.02, 1, 300))
    assert whole(found["mse"]) < 1.1 * best


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("limits", [(0.0, 6.0), (-1.0, 3.0), (-4.0, 0.0), (0.0, 0.0), (0.0, 1e-44)])
def test_zero_is_exact_and_ends_are_within_a_step(limits, dtype):
    linear = _ranges.Linear.of(limits, dtype)
    lowest = 0 if dtype == "uint8" else -128
    assert lowest <= linear.zero_point <= lowest + 255 and linear.scale > 0
    assert linear.rounded(np.zeros(1, "f4"))[0] == 0
    values = np.linspace(*limits, 1001).astype("float32")
    assert np.abs(linear.rounded(values) - values).max() <= float(linear.scale) * 1.001


def test_weights_are_symmetric_per_channel():
    weight = np.array([[1.0, -2.0], [100.0, 50.0], [0.0, 0.0]], "float32")
    integers, scales = _ranges.weight_integers(weight, 0, np.zeros(3))
    np.testing.assert_allclose(scales, [2 / 127, 100 / 127, 1])
    np.testing.assert_array_equal(integers, [[64, -127], [127, 64], [0, 0]])
    integers, scales = _ranges.weight_integers(weight, None, np.zeros(1))
    np.testing.assert_array_equal(integers, [[1, -3], [127, 64], [0, 0]])
    # A bias that would not fit into 32 bits makes the scale larger.
    assert _ranges.weight_integers(weight, 0, np.array([1.0, 0, 0]))[1][0] == 1.0


# ---- sets of layers


class _Additive:
    """Errors of layers add up."""

    def __init__(self, errors):
        self.errors, self.layers = np.array(errors), len(errors)

    def error(self, flags):
        total = float(self.errors[flags].sum())
        return type("Error", (), {"value": lambda self, metric: total})()


def test_the_cheapest_set_keeps_the_bound_and_none_of_it_can_go():
    rng = np.random.default_rng(8)
    for _ in range(50):
        errors, costs = rng.exponential(size=9), rng.integers(1, 100, 9)
        bound = float(rng.uniform(0, errors.sum()))
        measurement = _Additive(errors)
        kept, _ = _sensitivity.cheapest(measurement, list(errors), list(costs), "relative", bound)
        rest = [k for k in range(9) if k not in kept]
        assert errors[rest].sum() <= bound
        assert all(errors[rest].sum() + errors[k] > bound for k in kept)
        sets = itertools.chain.from_iterable(itertools.combinations(range(9), n) for n in range(10))
        cheapest = min(costs[list(s)].sum() for s in sets if errors.sum() - errors[list(s)].sum() <= bound + 1e-12)
        assert costs[kept].sum() <= 2 * cheapest + 100  # greedy, not optimal


# ---- whole models


def _cnn(path, rng, names=("x", "y")):
    """Five convolutions, a depthwise and a strided one among them, a residual sum, pooling and a product."""
    weights, nodes = {}, []

    def conv(x, y, cin, cout, kernel=3, group=1, strides=(1, 1)):
        weights[f"{y}_w"] = (
            rng.normal(size=(cout, cin // group, kernel, kernel)) / np.sqrt(cin / group * kernel**2)
        ).astype("f4")
        weights[f"{y}_b"] = rng.normal(size=cout).astype("f4") * 0.3
        pad = kernel // 2
        nodes.append(node("Conv", [x, f"{y}_w", f"{y}_b"], [y], pads=[pad] * 4, group=group, strides=list(strides)))

    conv("x", "c1", 3, 16)
    nodes.append(node("Relu", ["c1"], ["r1"]))
    conv("r1", "c2", 16, 16, group=16)
    nodes.append(node("Relu", ["c2"], ["r2"]))
    conv("r2", "c3", 16, 16, kernel=1)
    nodes.append(node("Add", ["c3", "r1"], ["sum"]))
    nodes.append(node("Relu", ["sum"], ["r3"]))
    nodes.append(node("MaxPool", ["r3"], ["m"], kernel_shape=[2, 2], strides=[2, 2]))
    conv("m", "c4", 16, 24, strides=(2, 2))
    nodes.append(node("Relu", ["c4"], ["r4"]))
    nodes.append(node("GlobalAveragePool", ["r4"], ["p"]))
    nodes.append(node("Flatten", ["p"], ["f"]))
    weights["fc_w"] = rng.normal(size=(10, 24)).astype("f4")
    weights["fc_b"] = rng.normal(size=10).astype("f4")
    nodes.append(node("Gemm", ["f", "fc_w", "fc_b"], ["y"], transB=1))
    write_model(path, nodes, [("x", "float32", ("N", 3, 16, 16))], [("y", "float32", ("N", 10))], weights, opset=13)


@pytest.fixture
def cnn(tmp_path):
    rng = np.random.default_rng(11)
    _cnn(tmp_path / "m.onnx", rng)
    return tmp_path, rng.normal(size=(12, 3, 16, 16)).astype("float32")


def _graph_ops(model, folder):
    """The ops of the graph that is compiled, by the program."""
    (folder / "ops.onnx").write_bytes(model)
    done = subprocess.run(
        [str(PROGRAMS / "aipugb"), str(folder / "ops.onnx"), "--stop-after", "passes"],
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall(r'= "?((?:aipu::|com\.microsoft::)?[A-Z]\w+)"?\(', done.stdout)


@pytest.mark.parametrize("calibration", _ranges.METHODS)
def test_a_network_stays_near_float32(cnn, calibration):
    folder, images = cnn
    report = aipu.quantize(str(folder / "m.onnx"), images, folder / "q.onnx", calibration=calibration, batch=4)
    assert report.quantized_share == 1.0 and report.runs == 3
    assert [layer.name for layer in report.layers] == ["c1", "c2", "c3", "c4", "y"]
    exact = _run(str(folder / "m.onnx"), {"x": images}, folder)["y"]
    found = _run(str(folder / "q.onnx"), {"x": images}, folder)["y"]
    relative = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert 1e-5 < relative < 0.05
    assert report.error["relative"] == pytest.approx(relative, rel=1e-3)


def test_it_computes_with_integers(cnn):
    folder, images = cnn
    ops = _graph_ops(aipu.quantize(str(folder / "m.onnx"), images).data, folder)
    assert ops.count("aipu::QuantizedConv") == 4 and ops.count("aipu::QuantizedMatMul") == 1
    assert "Conv" not in ops and "MatMul" not in ops and "Gemm" not in ops
    # What is read in integers is written so, once for all its readers: the image, and the inputs of four layers. The
    # residual is dequantised where it is added, in the store of the convolution.
    assert ops.count("QuantizeLinear") == 5 and ops.count("DequantizeLinear") == 1


def test_scales_per_channel_are_finer(tmp_path):
    rng = np.random.default_rng(15)
    weight = rng.normal(size=(6, 4, 3, 3)).astype("f4") * np.logspace(-3, 0, 6, dtype="f4").reshape(-1, 1, 1, 1)
    ports = [("x", "float32", ("N", 4, 6, 6))], [("y", "float32", ("N", 6, 4, 4))]
    write_model(tmp_path / "m.onnx", [node("Conv", ["x", "w"], ["y"])], *ports, {"w": weight})
    images = rng.normal(size=(4, 4, 6, 6)).astype("f4")
    exact = _run(str(tmp_path / "m.onnx"), {"x": images}, tmp_path)["y"]
    worst = {}
    for flag in (True, False):
        found = _run(aipu.quantize(str(tmp_path / "m.onnx"), images, per_channel=flag).data, {"x": images}, tmp_path)[
            "y"
        ]
        axes = (0, 2, 3)
        worst[flag] = np.sqrt(((found - exact) ** 2).sum(axis=axes) / (exact**2).sum(axis=axes)).max()
    assert worst[True] < 0.03 and worst[False] > 0.5


def test_bias_correction_takes_off_the_mean(tmp_path):
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(8, 4, 1, 1)).astype("f4")
    weight[:, 0] *= 30  # coarse steps for the other channels
    nodes = [node("Conv", ["x", "w"], ["y"])]
    write_model(
        tmp_path / "m.onnx",
        nodes,
        [("x", "float32", ("N", 4, 6, 6))],
        [("y", "float32", ("N", 8, 6, 6))],
        {"w": weight},
    )
    images = (rng.normal(size=(16, 4, 6, 6)) * 0.1 + np.array([0, 3, 5, 4]).reshape(1, 4, 1, 1)).astype("f4")
    exact = _run(str(tmp_path / "m.onnx"), {"x": images}, tmp_path)["y"]
    means = []
    for flag in (True, False):
        report = aipu.quantize(str(tmp_path / "m.onnx"), images, bias_correction=flag)
        found = _run(report.data, {"x": images}, tmp_path)["y"]
        means.append(np.abs((found - exact).mean(axis=(0, 2, 3))).max())
    assert means[0] < 0.25 * means[1]


def test_smoothing_moves_outliers_into_weights(tmp_path):
    rng = np.random.default_rng(9)
    weight = rng.normal(size=(16, 8)).astype("f4")
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    write_model(
        tmp_path / "m.onnx", nodes, [("x", "float32", ("N", 5, 16))], [("y", "float32", ("N", 5, 8))], {"w": weight}
    )
    rows = rng.normal(size=(20, 5, 16)).astype("f4")
    rows[..., 3] *= 60
    errors = {}
    for smooth in ("auto", 0.5, None):
        report = aipu.quantize(str(tmp_path / "m.onnx"), rows, smooth=smooth)
        errors[smooth] = report.error["relative"]
        assert _graph_ops(report.data, tmp_path).count("aipu::QuantizedMatMul") == 1
    assert errors["auto"] == errors[0.5] < 0.8 * errors[None]


def test_a_bound_is_kept_by_the_cheapest_layers(cnn):
    folder, images = cnn
    free = aipu.quantize(str(folder / "m.onnx"), images)
    bound = free.error["relative"] / 2
    report = aipu.quantize(str(folder / "m.onnx"), images, max_error=("relative", bound))
    assert report.error["relative"] <= bound
    kept = [layer for layer in report.layers if not layer.is_quantized]
    assert 0 < len(kept) < 5 and all("relative would be more than" in layer.why for layer in kept)
    assert all(layer.sensitivity > 0 for layer in report.layers)
    exact = _run(str(folder / "m.onnx"), {"x": images}, folder)["y"]
    found = _run(report.data, {"x": images}, folder)["y"]
    assert np.linalg.norm(found - exact) / np.linalg.norm(exact) <= bound * 1.001
    with pytest.raises(ValueError, match=r"no layer can have integers with an error \(max\) of 1e-09"):
        aipu.quantize(str(folder / "m.onnx"), images, max_error=("max", 1e-9))


def test_layers_that_are_excluded_stay(cnn):
    folder, images = cnn
    report = aipu.quantize(str(folder / "m.onnx"), images, exclude=["c1", "y"])
    assert [layer.name for layer in report.layers if layer.why == "excluded"] == ["c1", "y"]
    ops = _graph_ops(report.data, folder)
    assert ops.count("aipu::QuantizedConv") == 3 and ops.count("aipu::QuantizedMatMul") == 0
    with pytest.raises(ValueError, match="exclude: every layer that could be quantised is excluded"):
        aipu.quantize(str(folder / "m.onnx"), images, exclude=["*"])
    with pytest.raises(ValueError, match="no layer's output is called 'c9'"):
        aipu.quantize(str(folder / "m.onnx"), images, exclude=["c9"])


def test_batch_normalization_becomes_part_of_the_weights(tmp_path):
    rng = np.random.default_rng(12)
    constants = {n: rng.uniform(0.5, 2, 6).astype("f4") for n in ("g", "b", "m", "v")}
    constants["w"] = rng.normal(size=(6, 3, 3, 3)).astype("f4")
    nodes = [node("Conv", ["x", "w"], ["c"]), node("BatchNormalization", ["c", "g", "b", "m", "v"], ["y"])]
    write_model(
        tmp_path / "m.onnx", nodes, [("x", "float32", ("N", 3, 6, 6))], [("y", "float32", ("N", 6, 4, 4))], constants
    )
    images = rng.normal(size=(4, 3, 6, 6)).astype("f4")
    report = aipu.quantize(str(tmp_path / "m.onnx"), images)
    assert [layer.name for layer in report.layers] == ["y"] and report.error["relative"] < 0.03
    assert "BatchNormalization" not in [n.op for n in OnnxModel(report.data).nodes]


def test_weights_behind_reshapes_are_constants(tmp_path):
    rng = np.random.default_rng(16)
    constants = {"w": rng.normal(size=(5, 2, 4)).astype("f4"), "shape": np.array([5, 8], "int64")}
    nodes = [node("Reshape", ["w", "shape"], ["r"]), node("Transpose", ["r"], ["t"]), node("Identity", ["t"], ["i"])]
    nodes.append(node("MatMul", ["x", "i"], ["y"]))
    write_model(tmp_path / "m.onnx", nodes, [("x", "float32", (3, 8))], [("y", "float32", (3, 5))], constants)
    report = aipu.quantize(str(tmp_path / "m.onnx"), [rng.normal(size=(3, 8)).astype("f4")])
    assert [layer.name for layer in report.layers if layer.is_quantized] == ["y"] and report.error["relative"] < 0.03


def test_operators_say_what_they_take_rounded():
    takes = aipu._native.takes_rounded
    assert all(takes(op, 0) for op in ("Relu", "Add", "MaxPool", "Concat", "Reshape", "Resize", "Split"))
    assert takes("Add", 1) and takes("Concat", 7) and takes("PRelu", 1)
    assert not any(takes(op, 0) for op in ("ReduceMean", "Sub", "Softmax", "Scan", "Conv", "NoSuchOperator"))
    assert not any(takes(op, 1) for op in ("Reshape", "Resize", "Slice", "Relu"))  # what is no data, or not there


def test_statistics_of_normalisations_read_float32(tmp_path):
    rng = np.random.default_rng(13)
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        node("Sub", ["a", "mean"], ["y"]),
    ]
    weight = {"w": rng.normal(size=(8, 8)).astype("f4")}
    write_model(tmp_path / "m.onnx", nodes, [("x", "float32", (2, 8))], [("y", "float32", (2, 8))], weight)
    model = OnnxModel(aipu.quantize(str(tmp_path / "m.onnx"), [rng.normal(size=(2, 8)).astype("f4")]).data)
    reads = {n.op: n.inputs[0] for n in model.nodes}
    assert reads["ReduceMean"] == "x" and reads["MatMul"] == "x_DequantizeLinear_Output"


def test_what_cannot_be_done_is_said(cnn):
    folder, images = cnn
    path = str(folder / "m.onnx")
    with pytest.raises(ValueError, match="int8 needs the ranges of activations: give data"):
        aipu.quantize(path)
    with pytest.raises(ValueError, match="calibration: expected one of minmax, percentile, entropy, mse"):
        aipu.quantize(path, images, calibration="kl")
    with pytest.raises(ValueError, match="activations: expected uint8 or int8"):
        aipu.quantize(path, images, activations="int4")
    with pytest.raises(ValueError, match="max_error: expected one of"):
        aipu.quantize(path, images, max_error=("snr", 3))
    with pytest.raises(ValueError, match="there is no data"):
        aipu.quantize(path, [])
    with pytest.raises(ValueError, match="value 'x', data '0': it has NaN or infinities"):
        aipu.quantize(path, np.full((1, 3, 16, 16), np.nan, "f4"))
    write_model(folder / "n.onnx", [node("Neg", ["x"], ["y"])], [("x", "float32", (2,))], [("y", "float32", (2,))])
    with pytest.raises(ValueError, match="the model has no layer to quantise"):
        aipu.quantize(str(folder / "n.onnx"), [np.ones(2, "f4")])
    aipu.build(path, folder / "m.aipu.bin")
    with pytest.raises(ValueError, match="an aipu.bin is converted already"):
        aipu.quantize(str(folder / "m.aipu.bin"), images)


def test_int8_activations(cnn):
    folder, images = cnn
    report = aipu.quantize(str(folder / "m.onnx"), images, activations="int8")
    assert report.error["relative"] < 0.05
    assert OnnxModel(report.data).constant("x_zero_point").dtype == np.int8


def test_the_program(cnn):
    folder, images = cnn
    np.savez(folder / "images.npz", x=images)
    command = [sys.executable, "-m", "aipu.quantization", "m.onnx", "images.npz"]
    command += [
        "-o",
        "q.onnx",
        "--bin",
        "q.aipu.bin",
        "--json",
        "q.json",
        "--max-error",
        "relative=0.5",
        "--batch",
        "4",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "5 of 5 layers in 8 bits, 100.0 % of multiplications; against float32 on 3 runs: relative" in done.stdout
    assert "sensitivity of c1 (1/5)" in done.stderr
    told = json.loads((folder / "q.json").read_text())
    assert told["layers"][0]["name"] == "c1" and told["layers"][0]["is_quantized"]
    assert aipu.load(folder / "q.aipu.bin").run({"x": images})["y"].shape == (12, 10)
    done = subprocess.run([*command[:4], "-o", "q.onnx"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("aipu.quantization: int8 needs the ranges")


def test_correction_of_groups_is_that_of_the_definition():
    rng = np.random.default_rng(14)
    weight = rng.normal(size=(6, 2, 3, 3)).astype("f4")
    conv = Node("Conv", ["x", "w"], ["y"], group=3)
    product = aipu.quantization._products.Product("y", conv, "x", weight, 0, 1, None)
    statistics = _ranges.Statistics(1)
    statistics.add_extrema(rng.uniform(1, 2, size=(2, 6, 4, 4)).astype("f4"))
    x = _ranges.Linear.of((0, 2), "uint8")
    layer = _layers.quantized_layer(product, statistics, x, None, True, True)
    error = layer.rounded_weight() - weight
    for channel in range(6):
        group = channel // 2
        means = statistics.channel_mean[2 * group : 2 * group + 2]
        assert layer.correction[channel] == pytest.approx((error[channel].sum(axis=(1, 2)) * means).sum(), rel=1e-4)


def test_a_trained_classifier_keeps_its_answers(tmp_path):
    default = os.path.join(os.environ.get("AIPU_SOURCE_DIR", "."), "..", "shared", "models")
    folder = pathlib.Path(os.environ.get("AIPU_MODELS", default), "mnist_cntk")
    if not folder.is_dir():
        pytest.skip("no ../shared/models beside the checkout (AIPU_MODELS names another place)")
    report = aipu.quantize(str(folder / "model.onnx"), str(folder), tmp_path / "q.onnx")
    assert report.quantized_share == 1.0 and report.error["relative"] < 0.02 and report.error["top1"] == 0
    for number in range(report.runs):
        feed = (folder / f"test_data_set_{number}" / "input_0.pb").read_bytes()
        wanted = (folder / f"test_data_set_{number}" / "output_0.pb").read_bytes()
        (name,) = OnnxModel(folder / "model.onnx").input_names()
        found = _run(str(tmp_path / "q.onnx"), {name: tensor_array(feed)[1]}, tmp_path)
        assert next(iter(found.values())).argmax() == tensor_array(wanted)[1].argmax()


_AGAINST_ORT = """
import sys
import numpy as np
import onnxruntime
import aipu
from aipu._onnx_graph import OnnxModel
folder = sys.argv[1]
images = np.load(folder + "/images.npy")
for activations in ("uint8", "int8"):
    report = aipu.quantize(folder + "/m.onnx", images, activations=activations)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Without dot products of bytes its sums of two saturate otherwise.
    options.add_session_config_entry("session.x64quantprecision", "1")
    theirs = onnxruntime.InferenceSession(report.data, options, providers=["CPUExecutionProvider"])
    aipu.build(report.data, folder + "/q.aipu.bin")
    ours = aipu.load(folder + "/q.aipu.bin", copy=True).run({"x": images})["y"]
    y = theirs.run(None, {"x": images})[0]
    model = OnnxModel(report.data)
    layer = model.producers()["y"]
    x = model.producers()[layer.inputs[0]]
    weights = model.producers()[layer.inputs[1]]
    # A step of the last product's input, times its largest weights: what one integer may change at the output.
    step = float(model.constant(x.inputs[1])) * np.abs(model.constant("fc_w") if model.constant("fc_w") is not None else
        model.constant(weights.inputs[0]) * model.constant(weights.inputs[1])[:, None]).max()
    print(float(np.abs(ours - y).max()) / step)
"""


def test_onnxruntime_gives_the_same_to_a_step(cnn):
    python = python_with("onnxruntime")
    folder, images = cnn
    np.save(folder / "images.npy", images)
    (folder / "script.py").write_text(_AGAINST_ORT)
    steps = [float(line) for line in run_python(python, folder / "script.py", folder).split()]
    assert len(steps) == 2 and max(steps) <= 1.001


def test_layers_that_share_a_weight_have_names_of_their_own(tmp_path):
    rng = np.random.default_rng(6)
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"]), node("MatMul", ["r", "w"], ["y"])]
    ports = [("x", "float32", ("N", 8))], [("y", "float32", ("N", 8))]
    write_model(tmp_path / "m.onnx", nodes, *ports, {"w": rng.normal(size=(8, 8)).astype("f4")})
    report = aipu.quantize(str(tmp_path / "m.onnx"), rng.normal(size=(16, 8)).astype("f4"))
    assert report.quantized_share == 1
    names = [n.name for n in OnnxModel(report.data).nodes]
    assert len(set(names)) == len(names)


def test_a_large_error_is_told_with_its_layers(cnn):
    """Where no bound was given; nothing is said about a small one."""
    folder, images = cnn
    fine = aipu.quantize(str(folder / "m.onnx"), images)
    assert fine.error["relative"] < 0.05 and fine.error["top1"] == 0 and fine.warning == ""
    assert all(layer.sensitivity is None for layer in fine.layers)
    assert fine.classifies
    images_to_images = [node("Conv", ["x", "w"], ["y"])]
    ports = [("x", "float32", ("N", 3, 16, 16))], [("y", "float32", ("N", 4, 16, 16))]
    write_model(folder / "i.onnx", images_to_images, *ports, {"w": np.ones((4, 3, 1, 1), "f4")})
    mapped = aipu.quantize(str(folder / "i.onnx"), images)
    assert mapped.error["top1"] > 0.005 and not mapped.classifies and mapped.warning == ""
    cut = {"calibration": "percentile", "percentile": 60}
    coarse = aipu.quantize(str(folder / "m.onnx"), images, **cut)
    assert coarse.error["relative"] > 0.05
    worst = max(coarse.layers, key=lambda layer: layer.sensitivity)
    assert f"off by {coarse.error['relative']:.1%} of their size" in coarse.warning
    assert f"mostly by '{worst.name}' (alone {worst.sensitivity:.1%})" in coarse.warning
    np.savez(folder / "x.npz", x=images)
    words = [PROGRAMS / "aipugb", folder / "m.onnx", "-o", folder / "m.aipu.bin", "--quantize", folder / "x.npz"]
    words += ["--quantize-option", "calibration=percentile", "--quantize-option", "percentile=60"]
    environment = {**os.environ, "AIPU_PYTHON": sys.executable}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "warning: the outputs are off by" in done.stdout + done.stderr
    bounded = aipu.quantize(str(folder / "m.onnx"), images, max_error=("relative", 0.9), **cut)
    assert bounded.warning == ""
