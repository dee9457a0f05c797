"""Several models in one file: built, loaded, run, and what they share."""

import os
import re
import subprocess
import sys

import aipu
import aipu.batch
import numpy as np
import pytest
from onnx_text import node, write_model

WEIGHTS = np.random.default_rng(1).standard_normal((1024, 4096)).astype(np.float32)


def program(name, *arguments):
    command = [os.path.join(os.environ["AIPU_BUILD_DIR"], "bin", name), *arguments]
    environment = {**os.environ, "AIPU_PYTHON": sys.executable}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def write_product(path, extra=False):
    """y = x w, and with ``extra`` its Relu."""
    last = [node("MatMul", ["x", "w"], ["m" if extra else "y"])] + ([node("Relu", ["m"], ["y"])] if extra else [])
    write_model(path, last, [("x", "float32", ("N", 1024))], [("y", "float32", ("N", 4096))], constants={"w": WEIGHTS})
    return path


def build_both():
    files = [write_product("plain.onnx"), write_product("positive.onnx", True)]
    return aipu.build(files, "both.aipu.bin")


def test_two_models_are_one_file():
    report = build_both()
    assert report["entries"] == ["plain", "positive"]
    assert report["constant_bytes"] < 1.01 * WEIGHTS.nbytes
    model = aipu.load("both.aipu.bin")
    assert model.entries == ("plain", "positive")
    x = np.random.default_rng(2).standard_normal((3, 1024)).astype(np.float32)
    plain = model.run({"x": x})["y"]
    positive = model.open("positive").run({"x": x})["y"]
    np.testing.assert_array_equal(positive, np.maximum(plain, 0))
    np.testing.assert_allclose(plain, x @ WEIGHTS, rtol=1e-3, atol=1e-2)
    np.testing.assert_array_equal(aipu.load("both.aipu.bin", entry="positive").run({"x": x})["y"], positive)
    session = aipu.InferenceSession("both.aipu.bin", providers=[("AipuExecutionProvider", {"entry": "positive"})])
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], positive)
    sandboxed = aipu.load("both.aipu.bin", sandbox=True, entry="positive")
    assert sandboxed.entries == ("plain", "positive")
    np.testing.assert_allclose(sandboxed.open("plain").run({"x": x[:1]})["y"], plain[:1], rtol=1e-5, atol=1e-4)


def test_models_of_a_device_and_the_host_beside_it():
    write_model(
        "unique.onnx",
        [node("MatMul", ["x", "w"], ["m"]), node("Unique", ["m"], ["u"], sorted=1), node("Exp", ["u"], ["y"])],
        [("x", "float32", ("N", 4))],
        [("y", "float32", ("K",))],
        constants={"w": WEIGHTS[:4, :4]},
    )
    files = [write_product("plain.onnx"), "unique.onnx"]
    report = aipu.build(files, "beside.aipu.bin", target="X2_1204+host")
    assert report["target"].startswith("X2_1204+host")
    x = np.random.default_rng(3).standard_normal((3, 1024)).astype(np.float32)
    expected = np.exp(np.unique(x[:, :4] @ WEIGHTS[:4, :4]))
    model = aipu.load("beside.aipu.bin")
    for opened in (model.open("unique"), aipu.load("beside.aipu.bin", entry="unique")):
        np.testing.assert_allclose(opened.run({"x": x[:, :4].copy()})["y"], expected, rtol=1e-4)
    np.testing.assert_allclose(model.run({"x": x})["y"], x @ WEIGHTS, rtol=1e-3, atol=1e-2)


def test_wrong_names_are_errors():
    build_both()
    for load in (lambda: aipu.load("both.aipu.bin", entry="other"), lambda: aipu.load("both.aipu.bin").open("other")):
        with pytest.raises(OSError, match="no entry 'other'; it has: plain, positive"):
            load()
    with pytest.raises(ValueError, match="two models are called 'plain'"):
        aipu.build(["plain.onnx", "plain.onnx"], "twice.aipu.bin")
    with pytest.raises(TypeError, match="several models"):
        aipu.build(["plain.onnx", "positive.onnx"])
    assert not os.path.exists("twice.aipu.bin")


def test_variants_of_one_model():
    write_product("plain.onnx")
    aipu.build(
        [
            aipu.Entry("plain.onnx", "one", shapes={"x": (1, 1024)}),
            aipu.Entry("plain.onnx", "many", shapes={"x": (16, 1024)}, expose=["y"]),
        ],
        "variants.aipu.bin",
        strip=True,
    )
    assert os.path.getsize("variants.aipu.bin") < 1.1 * WEIGHTS.nbytes
    model = aipu.load("variants.aipu.bin")
    x = np.ones((16, 1024), np.float32)
    many = model.open("many").run({"x": x})["y"]
    np.testing.assert_allclose(model.run({"x": x[:1]})["y"], many[:1], rtol=1e-5, atol=1e-3)
    with pytest.raises(ValueError, match="x"):
        model.run({"x": x})


def resident_kib(path):
    """What a file takes of this process's memory."""
    total, counts = 0, False
    with open("/proc/self/smaps") as maps:
        for line in maps:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                counts = line.rstrip().endswith(path)
            elif counts and line.startswith("Rss:"):
                total += int(line.split()[1])
    return total


def anonymous_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="no /proc/self/smaps")
def test_weights_are_in_memory_once():
    """Sessions of both models read the weights of one mapping, and have none of their own."""
    build_both()
    model = aipu.load("both.aipu.bin")
    models = [model, model.open("positive")]
    x = np.ones((1, 1024), np.float32)
    before = anonymous_kib()
    sessions = [one.session(threads=1) for one in models for _ in range(4)]
    for session in sessions:
        session.run({"x": x})
    assert WEIGHTS.nbytes // 1024 <= resident_kib("both.aipu.bin") < 1.1 * os.path.getsize("both.aipu.bin") / 1024
    assert anonymous_kib() - before < WEIGHTS.nbytes // 1024 // 2


def test_programs():
    """The command line, from models to a data set."""
    write_product("plain.onnx")
    write_product("positive.onnx", True)
    build = ["aipugb", "plain.onnx", "--entry", "fixed=positive.onnx", "-o", "both.aipu.bin"]
    assert program(*build, "--shape", "fixed:x=2x1024").returncode == 0
    assert aipu.load("both.aipu.bin", entry="fixed").inputs[0].shape == (2, 1024)
    np.save("x.npy", np.ones((2, 1024), np.float32))
    run = ["aipurun", "both.aipu.bin", "--input", "x=x.npy", "--output-dir", "out"]
    assert program(*run, "--entry", "fixed").returncode == 0
    expected = aipu.load("both.aipu.bin", entry="fixed").run({"x": np.load("x.npy")})["y"]
    np.testing.assert_array_equal(np.load("out/y.npy"), expected)
    done = program(*run, "--entry", "none")
    assert done.returncode == 1 and "no entry 'none'; it has: plain, fixed" in done.stderr
    dump = program("aipudump", "both.aipu.bin").stdout
    assert "entry    plain" in dump and "entry    fixed" in dump and "x float32[2,1024]" in dump
    only = program("aipudump", "both.aipu.bin", "--entry", "fixed", "--tensors").stdout
    assert "2x1024" in only or "[2,1024]" in only
    assert program("aipubench", "both.aipu.bin", "--entry", "fixed", "--duration", "0.05").returncode == 0
    np.save("rows.npy", np.ones((4, 1024), np.float32))
    assert (
        program(
            "aipurun", "both.aipu.bin", "--entry", "fixed", "--dataset", "rows.npy", "--output-dir", "rows"
        ).returncode
        == 0
    )
    assert len(list(aipu.batch.results("rows"))) == 4
    with pytest.raises(ValueError):
        aipu.batch.run("both.aipu.bin", "rows.npy", "rows", entry="plain")
