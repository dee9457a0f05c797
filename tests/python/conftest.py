"""Each test has a folder of its own to build in."""

import os
import pathlib

import pytest

SOURCE = pathlib.Path(os.environ.get("AIPU_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("CPS_DSL", "CPS_TVM_GBUILDER_TARGET", "CPS_TVM_PYSIM_SINGLE_THREAD"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def interpreted(tmp_path, monkeypatch):
    """The back end for what needs no native code: conversion compiles none."""
    monkeypatch.setenv("AIPU_CC", str(SOURCE / "tests/fuzz/stub_cc.sh"))
    monkeypatch.setenv("AIPU_CACHE_DIR", str(tmp_path / "kernels"))
    return "interp"


@pytest.fixture
def cuda(monkeypatch):
    """Functions for cuda run: on the GPU where there is one and AIPU_CUDA is not set, else emulated."""
    from aipu.te import _cuda

    if _cuda.gpu() is None:
        monkeypatch.setenv("AIPU_CUDA", "emulate")
