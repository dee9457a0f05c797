"""aipurun --dataset: what aipu.batch does, begun and gone on with from either side."""

import json
import os
import subprocess
import sys

import aipu
import aipu.batch
import numpy as np
import pytest
from aipu.batch import _run
from onnx_text import node, write_model

AIPURUN = os.path.join(os.environ["AIPU_BUILD_DIR"], "bin", "aipurun")


@pytest.fixture
def model():
    write_model("m.onnx", [node("Relu", ["x"], ["y"])], [("x", "float32", ("N", 3))], [("y", "float32", ("N", 3))])
    np.savez("in.npz", x=np.arange(60, dtype=np.float32).reshape(20, 3) - 30)
    return aipu.build("m.onnx", "m.aipu.bin")["output"]


def program(*arguments, **options):
    environment = {**os.environ, "AIPU_PYTHON": sys.executable, **options.pop("env", {})}
    command = [AIPURUN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment, **options)


def content(folder):
    return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}


def test_the_same_bytes(model):
    done = program(model, "--dataset", "in.npz", "--output-dir", "out", "--threads", "1", "--", "--batch", "4")
    assert done.returncode == 0 and "20 items: 20 results, 0 broken" in done.stdout, done.stderr
    aipu.batch.run(model, "in.npz", "own", batch=4, threads=1)
    assert content("out") == content("own")
    rows = [row.outputs["y"] for row in aipu.batch.results("out")]
    np.testing.assert_array_equal(rows, np.maximum(np.load("in.npz")["x"], 0))
    quiet = program(model, "--dataset", "in.npz", "--output-dir", "out", "-q", "--", "--batch", "4", "--json", "-")
    assert quiet.returncode == 0 and '"resumed_at": 20' in quiet.stdout and quiet.stderr == ""


def test_a_list_on_the_standard_input(model):
    for index in range(3):
        np.save(f"{index}.npy", np.full(3, index - 1, np.float32))
    names = "".join(f"{index}.npy\n" for index in range(3))
    done = program(model, "--dataset", "-", "--output-dir", "out", input=names)
    assert done.returncode == 0, done.stderr
    assert [row.outputs["y"][0] for row in aipu.batch.results("out")] == [0, 0, 1]


def test_what_one_began_the_other_goes_on_with(model, monkeypatch):
    commit = _run._Folder.commit

    def twice(folder, done, progress):
        if folder.chunks == 2:
            raise KeyboardInterrupt
        commit(folder, done, progress)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_run._Folder, "commit", twice)
        aipu.batch.run(model, "in.npz", "out", batch=4, chunk=4)
    assert json.loads(content("out")["manifest.json"])["items"] == 8
    done = program(model, "--dataset", "in.npz", "--output-dir", "out", "--", "--batch", "4", "--chunk", "4")
    assert done.returncode == 0 and "20 items, of which 8 by earlier runs" in done.stdout, done.stderr
    aipu.batch.run(model, "in.npz", "own", batch=4, chunk=4)
    assert content("out") == content("own")


def test_what_is_wrong_is_a_line(model):
    bad = program(model, "--dataset", "none", "--output-dir", "out")
    assert bad.returncode == 1 and bad.stderr.startswith("aipu.batch: ") and bad.stderr.count("\n") == 1
    assert program(model, "--dataset", "in.npz").returncode == 2
    single = program(model, "--dataset", "in.npz", "--output-dir", "out", "--random")
    assert single.returncode == 2 and "--random is of a single run" in single.stderr
    extra = program(model, "--random", "more")
    assert extra.returncode == 2 and "was not expected: more" in extra.stderr
    none = program(model, "--dataset", "in.npz", "--output-dir", "out", env={"AIPU_PYTHON": "no-such-python"})
    assert none.returncode == 1 and "AIPU_PYTHON chooses the interpreter" in none.stderr
    with open("python", "w") as file:
        file.write(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} -I -S "$@"\n')
    os.chmod("python", 0o755)
    other = program(model, "--dataset", "in.npz", "--output-dir", "out", env={"AIPU_PYTHON": "./python"})
    assert other.returncode == 1 and "cannot import" in other.stderr and other.stderr.count("\n") == 1


def test_signals_are_not_blocked(model):
    """Those that the tools wait for reach Python."""
    with open("python", "w") as file:
        file.write("#!/bin/sh\ngrep SigBlk /proc/self/status\n")
    os.chmod("python", 0o755)
    done = program(model, "--dataset", "in.npz", "--output-dir", "out", env={"AIPU_PYTHON": "./python"})
    assert done.stdout.split() == ["SigBlk:", "0000000000000000"]
