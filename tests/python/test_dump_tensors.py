"""aipurun --dump-tensors: what a run writes between the layers of a file as it is."""

import os
import pathlib
import subprocess

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model

PROGRAM = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", "build/release")) / "bin" / "aipurun"


def run(*words):
    return subprocess.run([str(PROGRAM), *map(str, words)], capture_output=True, text=True, check=False)


@pytest.fixture(params=["host", "X2_1204"])
def chain(request, tmp_path):
    """x -> MatMul -> Softmax -> Transpose for a symbolic batch, whose samples are run one by one otherwise."""
    rng = np.random.default_rng(5)
    weights = rng.normal(size=(8, 8)).astype("float32")
    nodes = [
        node("MatMul", ["x", "w"], ["net/products"]),
        node("Softmax", ["net/products"], ["net/shares"], axis=2),
        node("Transpose", ["net/shares"], ["y"], perm=[0, 2, 1]),
    ]
    inputs, outputs = [("x", "float32", ("N", 5, 8))], [("y", "float32", ("N", 8, 5))]
    write_model(tmp_path / "m.onnx", nodes, inputs, outputs, {"w": weights}, opset=17)
    aipu.build(str(tmp_path / "m.onnx"), tmp_path / "m.aipu.bin", target=request.param)
    x = rng.normal(size=(6, 5, 8)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    return tmp_path, x, x @ weights


def test_tensors_are_written_and_told(chain):
    folder, x, products = chain
    shares = np.exp(products - products.max(2, keepdims=True))
    shares /= shares.sum(2, keepdims=True)
    done = run(
        folder / "m.aipu.bin",
        f"--input=x={folder}/x.npy",
        "--dump-tensors=net/*",
        "--threads=2",
        "--output-dir",
        folder / "out",
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(folder / "out" / "net_products.npy"), products, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.load(folder / "out" / "net_shares.npy"), shares, rtol=1e-5, atol=1e-6)
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("net/products ")]
    words = told.split()
    assert words[1] == "float32[6,5,8]" and "MatMul" in told
    for name, value in (("min", products.min()), ("max", products.max()), ("std", products.std())):
        assert float(words[words.index(name) + 1]) == pytest.approx(value, rel=1e-3)
    assert words[words.index("zero") + 1] == "0"
    with_y = run(folder / "m.aipu.bin", f"--input=x={folder}/x.npy", "--dump-tensors=y", "-q")
    assert (with_y.returncode, with_y.stdout) == (0, "")


def test_what_is_not_seen_is_an_error(chain):
    folder = chain[0]
    done = run(folder / "m.aipu.bin", "--random", "--dump-tensors=net/*", "--dump-tensors=other*")
    assert done.returncode == 1 and "--dump-tensors 'other*' fits no tensor that the run has written" in done.stderr
    done = run(folder / "m.aipu.bin", "--random", "--dump-tensors=*", "--sandbox")
    assert done.returncode == 2 and "nothing is seen of tensors within a --sandbox" in done.stderr
