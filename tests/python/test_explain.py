"""aipugb --explain: what it says about models that convert, and about those that do not."""

import os
import subprocess

import numpy as np
from onnx_text import node, write_model

AIPUGB = os.path.join(os.environ.get("AIPU_BUILD_DIR", "build/release"), "bin", "aipugb")


def explained(path, *options):
    done = subprocess.run([AIPUGB, path, "--explain", *options], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, [line.split() for line in done.stdout.splitlines()], done.stdout


def test_what_converts(tmp_path):
    weights = {"w": np.ones((4, 3, 3, 3), np.float32), "b": np.ones(4, np.float32), "s": np.ones((2, 2), np.float32)}
    nodes = [
        node("Conv", ["x", "w", "b"], ["a0"]),
        node("BatchNormalization", ["a0", "b", "b", "b", "b"], ["c"]),  # becomes a part of the convolution
        node("Relu", ["c"], ["r"]),
        node("Conv", ["x", "w"], ["d"]),
        node("Add", ["r", "d"], ["y"]),
        node("MatMul", ["y", "s"], ["z"]),
    ]
    write_model(
        tmp_path / "m.onnx", nodes, [("x", "float32", ("N", 3, 6, 4))], [("z", "float32", ("N", 4, 4, 2))], weights
    )
    code, rows, text = explained(tmp_path / "m.onnx")
    assert code == 0, text
    ops = {row[0]: row for row in rows if len(row) > 4 and row[1] == "ai.onnx"}
    assert ops["Conv"][2:4] == ["17", "2"] and ops["Conv"][4] == str(4 * 27 + 4)
    # two convolutions of 4 x 2 positions, 4 channels and 27 taps
    assert ops["Conv"][5] == f"{2 * 8 * 4 * 27}*N", text
    assert ops["MatMul"][5] == f"{4 * 4 * 2 * 2}*N", text
    assert ops["Relu"][3] == "1" and ["parameters", str(4 * 27 + 4 + 4)] in rows
    assert ["input", "x", "float32[N,3,6,4]"] in rows and ["output", "z", "float32[N,4,4,2]"] in rows
    assert "All of it is supported" in text
    assert sorted(os.listdir(tmp_path)) == ["m.onnx"]


def test_what_does_not(tmp_path):
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Frobnicate", ["r"], ["s"], "example"),
        node("RegexFullMatch", ["s"], ["y"]),
    ]
    write_model(tmp_path / "m.onnx", nodes, [("x", "float32", (8,))], [("y", "float32", (8,))], opset=20)
    code, rows, text = explained(tmp_path / "m.onnx")
    assert code == 1
    assert ["Frobnicate", "example", "1", "1", "not", "supported"] in rows, text
    assert "Frobnicate (1 node: 's_node'): unknown operator; a plugin can define it" in text
    done = subprocess.run([AIPUGB, tmp_path / "none.onnx", "--explain"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "none.onnx" in done.stderr
