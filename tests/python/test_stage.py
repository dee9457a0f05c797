"""S.stage: the same kernel on a host, on the NPU and as Python; the cycles that shapes tell."""

import json
import os
import pathlib
import subprocess

import aipu
import numpy as np
import pytest
from aipu import script as S

BIN = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", "build/release")).resolve() / "bin"


def add_elements(count, a, b, y):
    for i in range(0, count, 8):
        mask = S.tail_mask(S.min(count - i, 8), 8)
        S.vstore(S.vload(a + i, mask=mask) + S.vload(b + i, mask=mask), y + i, mask=mask)


@S.prim_func
def add(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), n: S.i32):
    S.stage(add_elements, n, reads=[a, b], writes=[y])


def moving_sums(rows, x, weights, y, width, factor):
    for row in range(rows):
        for j in range(width):
            y[row * width + j] = (x[row * width + j] + x[(row + 1) * width + j]) * weights[j] * factor


@S.prim_func
def moving(x: S.ptr("fp32", "global"), w: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), rows: S.i32, n: S.i32):
    S.stage(moving_sums, rows, reads=[(x, 2 * n, n)], shared=[(w, n)], writes=[(y, n)], values=[n, 0.5])


def run(kernel, target, arguments):
    executor = aipu.tir.BuildManager(target="X2_1204" if target == "PySim" else target).build(kernel)
    (kernel if target == "PySim" else executor)(*arguments)


@pytest.mark.parametrize("target", ["PySim", "host", "X2_1204"])
@pytest.mark.parametrize("size", [3, 700, 9001])
def test_units_of_one_element(target, size):
    a, b, y = np.arange(size, dtype="float32"), np.full(size, 0.5, "float32"), np.zeros(size, "float32")
    run(add, target, (a, b, y, size))
    np.testing.assert_array_equal(y, a + b)


@pytest.mark.parametrize("target", ["PySim", "host", "X2_1204"])
@pytest.mark.parametrize("rows", [2, 200])
def test_units_that_overlap_and_share(target, rows):
    if target == "PySim" and rows > 100:
        pytest.skip("slow, and nothing new")
    x = np.random.default_rng(1).integers(0, 9, (rows + 1, 24)).astype("float32")
    w, y = np.arange(24, dtype="float32"), np.zeros((rows, 24), "float32")
    run(moving, target, (x, w, y, rows, 24))
    np.testing.assert_array_equal(y, (x[:-1] + x[1:]) * w * np.float32(0.5))


def cycles_by(backend, model, folder):
    result = folder / f"{backend}.json"
    options = ["--backend", backend, "--layers", "--duration", "0.001", "--json", result]
    subprocess.run([BIN / "aipubench", model, *map(str, options)], check=True, capture_output=True)
    return [(layer["kernel"], layer["cycles"]) for layer in json.loads(result.read_text())["layers"]]


@pytest.mark.parametrize(
    "name, shapes", [("sample_cnn", ["image=1x3x32x32"]), ("transformer_block", ["tokens=1x64x64"])]
)
def test_shapes_tell_the_cycles(name, shapes, tmp_path):
    """Within 10 % of the count, kernel by kernel."""
    onnx, model = tmp_path / "model.onnx", tmp_path / "model.bin"
    subprocess.run([BIN / "aipu-make-model", name, "-o", onnx], check=True)
    options = [part for shape in shapes for part in ("--shape", shape)]
    subprocess.run(
        [BIN / "aipugb", onnx, "-o", model, "--target", "X2_1204", *options], check=True, capture_output=True
    )
    counted, told = cycles_by("interp", model, tmp_path), cycles_by("estimate", model, tmp_path)
    assert [kernel for kernel, _ in counted] == [kernel for kernel, _ in told]
    for (kernel, exact), (_, estimate) in zip(counted, told):
        assert abs(estimate - exact) <= 0.1 * exact, (kernel, exact, estimate)
