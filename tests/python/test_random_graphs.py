"""Random ONNX graphs (random_onnx/) agree with ONNX Runtime, with all passes and with as few as they convert with,
where a Python with it is at hand.

AIPU_LARGE_TESTS runs 10,000 by the interpreter, and 1,000 compiled for each target; AIPU_GRAPHS_FIRST and
AIPU_GRAPHS_SEEDS choose others.
"""

import json
import os
import pathlib

import pytest
from other_python import python_with, run_python

SOURCE = pathlib.Path(os.environ.get("AIPU_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
CHECK = SOURCE / "tests/python/random_onnx/check.py"


def agree(seeds, large, *options):
    first = os.environ.get("AIPU_GRAPHS_FIRST", "0")
    count = os.environ.get("AIPU_GRAPHS_SEEDS", str(large if os.environ.get("AIPU_LARGE_TESTS") else seeds))
    python = python_with("numpy, onnx.helper, onnxruntime")
    told = json.loads(run_python(python, CHECK, first, count, *options, timeout=40000))
    assert told["graphs"] > 0.9 * int(count)
    wrong = {kind: told[kind] for kind in ("crashed", "refused", "differs")}
    assert wrong == {"crashed": [], "refused": [], "differs": []}


def test_interpreted(tmp_path, monkeypatch):
    # What is interpreted needs no native code.
    monkeypatch.setenv("AIPU_CC", str(SOURCE / "tests/fuzz/stub_cc.sh"))
    monkeypatch.setenv("AIPU_CACHE_DIR", str(tmp_path))
    agree(100, 10000)


@pytest.mark.parametrize("target, backend", [("host", "native"), ("X2_1204", "x2")])
def test_compiled(target, backend):
    agree(10, 1000, "--together", "20", "--target", target, "--backend", backend)


def test_that_failed_once(monkeypatch):
    """A product by few bits of which no tile takes few rows."""
    monkeypatch.setenv("AIPU_GRAPHS_FIRST", "433")
    monkeypatch.setenv("AIPU_GRAPHS_SEEDS", "1")
    agree(1, 1, "--target", "X2_1204", "--backend", "x2")
