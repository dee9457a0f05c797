"""aipugb --quantize and aipu.build(quantize=...): from float32 to integers in one step, as aipu.quantize does it."""

import json
import os
import subprocess
import sys

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model

AIPUGB = os.path.join(os.environ["AIPU_BUILD_DIR"], "bin", "aipugb")
# Of the instruction set for which bfloat16 is faster, and one for which it is not.
WITH_BF16, WITHOUT_BF16 = "host-avx512-bf16", "host-avx2"


@pytest.fixture
def images():
    """Three convolutions and a product; images with an outlier, for which 8 bits are coarse."""
    rng = np.random.default_rng(5)
    channels = (4, 16, 16, 8)
    weights = {
        f"w{k}": (rng.normal(size=(channels[k + 1], channels[k], 3, 3)) / np.sqrt(9 * channels[k])).astype("f4")
        for k in range(3)
    }
    nodes = []
    for k in range(3):
        nodes.append(node("Conv", [f"r{k}" if k else "x", f"w{k}"], [f"c{k}"], pads=[1] * 4))
        nodes.append(node("Relu", [f"c{k}"], [f"r{k + 1}"]))
    nodes += [
        node("GlobalAveragePool", ["r3"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("MatMul", ["f", "m"], ["y"]),
    ]
    weights["m"] = rng.normal(size=(8, 5)).astype("f4")
    write_model("m.onnx", nodes, [("x", "float32", ("N", 4, 8, 8))], [("y", "float32", ("N", 5))], weights)
    found = rng.normal(size=(6, 4, 8, 8)).astype("float32")
    found[0, :, 0, 0] *= 50
    np.savez("in.npz", x=found)
    return found


def program(*arguments, **options):
    environment = {**os.environ, "AIPU_PYTHON": sys.executable, **options.pop("env", {})}
    command = [AIPUGB, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment, **options)


def output(path, images):
    return aipu.load(path, copy=True).run({"x": images})["y"]


def relative(found, exact):
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


def test_the_program_does_what_the_package_does(images):
    done = program("m.onnx", "-o", "m.aipu.bin", "--quantize", "in.npz", "--quantize-option", "calibration=mse")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 layers in 8 bits, 100.0 % of multiplications" in done.stdout
    report = aipu.quantize("m.onnx", "in.npz", calibration="mse")
    with open("m.int8.onnx", "rb") as file:
        assert file.read() == report.data
    aipu.build(report.data, "own.aipu.bin", precision="int8")
    np.testing.assert_array_equal(output("m.aipu.bin", images), output("own.aipu.bin", images))
    quiet = ("-q", "--quantized-model", "q.onnx", "--precision", "int8", "--max-error", "relative=0.5")
    done = program("m.onnx", "-o", "q.aipu.bin", "--quantize", "in.npz", "--json", "-", *quiet)
    assert done.returncode == 0 and done.stderr == "" and json.loads(done.stdout)["model"] == "q.onnx"


def test_what_is_said_of_inputs_is_passed_on(images):
    nodes = [node("Mul", ["x", "s"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    inputs = [("x", "float32", ("N", 4)), ("s", "float32", ())]
    write_model("s.onnx", nodes, inputs, [("y", "float32", ("N", 3))], {"w": np.eye(4, 3, dtype="f4")})
    np.savez("rows.npz", x=np.linspace(-1, 1, 40, dtype="f4").reshape(10, 4))
    shared = ("--constant", "s=0.5", "--shape", "x=1x4")
    done = program("s.onnx", "-o", "s.aipu.bin", "--quantize", "rows.npz", *shared)
    assert done.returncode == 0, done.stderr
    model = aipu.load("s.aipu.bin")
    assert [(spec.name, spec.shape) for spec in model.inputs] == [("x", (1, 4))]
    x = np.array([[1, -1, 0.5, 0]], "f4")
    np.testing.assert_allclose(model.run({"x": x})["y"], 0.5 * x[:, :3], atol=0.01)


def test_build_quantises(images):
    report = aipu.build("m.onnx", "m.aipu.bin", precision="int8", quantize=images)
    assert report["quantization"].quantized_share == 1
    aipu.build("m.onnx", "exact.aipu.bin")
    assert 1e-4 < relative(output("m.aipu.bin", images), output("exact.aipu.bin", images)) < 0.05


def test_mixed_takes_bfloat16_where_integers_are_too_coarse(images):
    aipu.build("m.onnx", "exact.aipu.bin")
    exact = output("exact.aipu.bin", images)
    coarse = relative(output(aipu.build("m.onnx", "q.aipu.bin", quantize=images)["output"], images), exact)
    halves = relative(output(aipu.build("m.onnx", "h.aipu.bin", precision="bf16")["output"], images), exact)
    assert halves < coarse
    # Less than integers everywhere, more than bfloat16 everywhere.
    bound = (coarse + halves) / 2
    mixed = {"precision": "mixed", "quantize": images, "max_error": ("relative", bound)}
    found = aipu.quantize("m.onnx", images, "q.onnx", precision="mixed", target=WITH_BF16, max_error=mixed["max_error"])
    by_precision = {layer.precision for layer in found.layers}
    assert "bf16" in by_precision and found.error["relative"] <= bound
    with open("q.precision.txt") as file:
        assert file.read() == found.precision_rules and found.precision_rules.endswith("* bf16\n")
    graph = program("q.onnx", "--precision-file", "q.precision.txt", "--stop-after", "lower_precision")
    assert graph.returncode == 0 and "bfloat16" in graph.stdout, graph.stderr
    # Where the target gains nothing by it, those layers are float32.
    plain = aipu.quantize("m.onnx", images, target=WITHOUT_BF16, precision="mixed", max_error=mixed["max_error"])
    assert {layer.precision for layer in plain.layers} == {"int8", "fp32"} and "bf16" not in plain.precision_rules
    own = aipu.build("m.onnx", "own.aipu.bin", **mixed)
    assert relative(output("own.aipu.bin", images), exact) <= bound * 1.001
    done = program(
        "m.onnx", "-o", "m.aipu.bin", "--quantize", "in.npz", "--precision", "mixed", "--max-error", f"relative={bound}"
    )
    assert done.returncode == 0, done.stderr
    with open("m.int8.precision.txt") as file:
        assert file.read() == own["quantization"].precision_rules
    np.testing.assert_array_equal(output("m.aipu.bin", images), output("own.aipu.bin", images))


def test_mixed_takes_float16_on_an_npu(images):
    """What X2 multiplies twice as fast as float32."""
    aipu.build("m.onnx", "exact.aipu.bin")
    exact = output("exact.aipu.bin", images)
    coarse = relative(output(aipu.build("m.onnx", "q.aipu.bin", quantize=images)["output"], images), exact)
    bound = coarse / 2
    mixed = {"precision": "mixed", "quantize": images, "max_error": ("relative", bound), "target": "X2_1204"}
    report = aipu.build("m.onnx", "x2.aipu.bin", **mixed)["quantization"]
    by_precision = {layer.precision for layer in report.layers}
    assert "fp16" in by_precision and "bf16" not in by_precision and report.error["relative"] <= bound
    assert report.precision_rules.endswith("* fp16\n")
    assert relative(output("x2.aipu.bin", images), exact) <= bound * 1.05
    wholly = aipu.build("m.onnx", "fp16.aipu.bin", precision="fp16", target="X2_1204")["output"]
    assert 0 < relative(output(wholly, images), exact) < 2e-3


def test_mixed_without_any_integers(images):
    aipu.build("m.onnx", "exact.aipu.bin")
    aipu.build("m.onnx", "h.aipu.bin", precision="bf16")
    halves = relative(output("h.aipu.bin", images), output("exact.aipu.bin", images))
    bound = ("relative", 1.01 * halves)
    report = aipu.quantize("m.onnx", images, precision="mixed", target=WITH_BF16, max_error=bound)
    assert report.error["relative"] <= bound[1]
    assert "bf16" in {layer.precision for layer in report.layers}
    with pytest.raises(ValueError, match=r"no layer can have fewer bits with an error \(relative\) of 1e-09"):
        aipu.quantize("m.onnx", images, precision="mixed", target=WITH_BF16, max_error=("relative", 1e-9))


def test_what_is_wrong_is_a_line(images):
    for words, code, text in (
        (
            ("--precision", "mixed"),
            2,
            "aipugb: --precision mixed chooses by data: give --quantize DATA and --max-error",
        ),
        (("--max-error", "top1=0"), 2, "aipugb: --max-error is of --quantize, which is not given"),
        (
            ("--quantize", "in.npz", "--precision", "bf16"),
            2,
            "aipugb: --quantize makes int8 or mixed, --precision is 'b",
        ),
        (
            ("--quantize", "in.npz", "--precision", "mixed"),
            2,
            "aipugb: --precision mixed needs a bound: give --max-err",
        ),
        (("--quantize", "none.npz"), 1, "aipu.quantization: "),
        (("--quantize", "in.npz", "--max-error", "snr=3"), 2, ""),
        (("--quantize", "in.npz", "--quantize-option", "calibration=none"), 2, ""),
    ):
        done = program("m.onnx", "-o", "o.bin", *words)
        assert done.returncode == code and text in done.stderr and not os.path.exists("o.bin"), done.stderr
    done = program("m.onnx", "-o", "o.bin", "--quantize", "in.npz", env={"AIPU_PYTHON": "/no/python"})
    assert done.returncode == 1 and done.stderr.startswith(
        "aipugb: --quantize runs aipu.quantization of the Python package aipu by '/no/python', which cannot be started"
    )
    for options, text in (
        (
            {"precision": "int8"},
            "no product of this model multiplies 8-bit integers; quantising it takes typical inputs",
        ),
        ({"precision": "mixed"}, "take data to measure: give quantize"),
        ({"max_error": ("top1", 0)}, "take data to measure: give quantize"),
        ({"precision": "bf16", "quantize": images}, "quantize makes int8 or mixed, precision is 'bf16'"),
        ({"precision": "mixed", "quantize": images}, "precision mixed needs a bound"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=text):
            aipu.build("m.onnx", "o.bin", **options)
