"""Random ONNX graphs (random_onnx/) agree with ONNX Runtime, where a Python with it is at hand.

AIPU_GRAPHS_FIRST and AIPU_GRAPHS_SEEDS choose other graphs, and how many.
"""

import json
import os
import pathlib

import pytest
from other_python import python_with, run_python

SOURCE = pathlib.Path(os.environ.get("AIPU_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
CHECK = SOURCE / "tests/python/random_onnx/check.py"


def agree(seeds, *options):
    first = os.environ.get("AIPU_GRAPHS_FIRST", "0")
    count = os.environ.get("AIPU_GRAPHS_SEEDS", str(seeds))
    python = python_with("numpy, onnx.helper, onnxruntime")
    told = json.loads(run_python(python, CHECK, first, count, *options, timeout=20000))
    assert told["graphs"] > 0.9 * int(count)
    assert {kind: told[kind] for kind in ("crashed", "refused", "differs")} == {
        "crashed": [],
        "refused": [],
        "differs": [],
    }


@pytest.fixture
def no_compiler(tmp_path, monkeypatch):
    """What is interpreted needs no native code."""
    monkeypatch.setenv("AIPU_CC", str(SOURCE / "tests/fuzz/stub_cc.sh"))
    monkeypatch.setenv("AIPU_CACHE_DIR", str(tmp_path))


def test_interpreted(no_compiler):
    agree(100)


def test_interpreted_without_passes_that_may_be_left_out(no_compiler):
    passes = ("recognise_operators", "fold_batch_normalization", "common_subexpressions", "sink_transposes")
    agree(30, *(option for name in passes for option in ("--disable", name)))


def test_compiled():
    agree(10, "--together", "10", "--backend", "host", "--target", "host")
