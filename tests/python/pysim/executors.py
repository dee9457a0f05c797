"""Ways to run a kernel: as Python, and compiled."""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

import pytest

import aipu

_BUILD_MANAGER = getattr(getattr(aipu, "tir", None), "BuildManager", None)


def pysim(kernel: Any) -> Callable[..., None]:
    """PySim alone: nothing is compiled."""
    kernel.param_infos = kernel.param_infos or []
    return kernel


def compiled(kernel: Any, folder: Any) -> Callable[..., None]:
    """Compiled for the X2 model."""
    assert _BUILD_MANAGER is not None, "aipu.tir.BuildManager is missing"
    return _BUILD_MANAGER(target="X2_1204", output_dir=str(folder / f"{kernel.__name__}_x2")).build(kernel)


def host(kernel: Any, folder: Any) -> Callable[..., None]:
    """Compiled for this machine's processor."""
    assert _BUILD_MANAGER is not None, "aipu.tir.BuildManager is missing"
    return _BUILD_MANAGER(target="host", output_dir=str(folder / f"{kernel.__name__}_host")).build(kernel)


EXECUTORS: List[Any] = [
    pytest.param(lambda kernel, folder: pysim(kernel), id="pysim"),
    pytest.param(compiled, id="X2_1204"),
]

Executor = Callable[[Any, Any], Callable[..., None]]
Shape = Tuple[int, ...]
