"""Ways to run a kernel: as Python, compiled, interpreted."""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, List
from unittest import mock

import aipu
import numpy as np
import pytest
from aipu.script._record import leaves


def pysim(kernel: Any, folder: Any = None) -> Callable[..., None]:
    """PySim alone: nothing is compiled."""
    kernel.param_infos = kernel.param_infos or []
    return kernel


def compiled(kernel: Any, folder: Any) -> Callable[..., None]:
    """Compiled for the X2 model."""
    return aipu.tir.BuildManager(target="X2_1204", output_dir=str(folder / f"{kernel.__name__}_x2")).build(kernel)


def interpreted(kernel: Any, folder: Any) -> Callable[..., None]:
    """The interpreter of the typed IR, on the aipu.bin of a compiled call. Outputs must be written completely."""
    executor = compiled(kernel, folder)

    def run(*args: Any) -> None:
        executor(*(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args))
        model = aipu.load(folder / f"{kernel.__name__}_x2" / "gbuilder" / "aipu.bin", backend="interp")
        flat = [leaf for arg in args for leaf in leaves(arg)]
        tensors = [(info, arg) for info, arg in zip(kernel.param_infos, flat) if info.is_tensor]
        inputs = {f"input{info.tensor_idx}": arg for info, arg in tensors if info.is_input_tensor}
        if not inputs:
            inputs["input0"] = tensors[0][1]  # what stands in for the inputs of a kernel that has none
        results = model.run(inputs)
        for info, arg in tensors:
            if info.is_output_tensor:
                arg[...] = results[f"output{info.tensor_idx}"].reshape(arg.shape)

    return run


def compiled_by(compiler: str) -> "Executor":
    """Compiled for the X2 model by a compiler of its own."""

    def build(kernel: Any, folder: Any) -> Callable[..., None]:
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
        with mock.patch.dict(os.environ, AIPU_CC=compiler):
            executor = compiled(kernel, folder)

        def run(*args: Any) -> None:
            with mock.patch.dict(os.environ, AIPU_CC=compiler):
                executor(*args)

        return run

    return build


Executor = Callable[[Any, Any], Callable[..., None]]
EXECUTORS: List[Any] = [pytest.param(pysim, id="pysim"), pytest.param(compiled, id="X2_1204")]
ALL_EXECUTORS: List[Any] = [*EXECUTORS, pytest.param(interpreted, id="interpreter")]
EVERYWHERE: List[Any] = [
    pytest.param(pysim, id="pysim"),
    *(pytest.param(compiled_by(compiler), id=compiler) for compiler in ("gcc", "clang")),
    pytest.param(interpreted, id="interpreter"),
]


def simulate(kernel: Any, *args: Any) -> None:
    """Runs a kernel as Python without building it."""
    pysim(kernel)(*args)


def ints(*values: int) -> np.ndarray:
    """An int32 array."""
    return np.array(values, np.int32)
