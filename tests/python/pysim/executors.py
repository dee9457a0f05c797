"""Ways to run a kernel: as Python, compiled, interpreted."""

from __future__ import annotations

from typing import Any, Callable, List

import aipu
import numpy as np
import pytest


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
        tensors = [(info, arg) for info, arg in zip(kernel.param_infos, args) if info.is_tensor]
        inputs = {f"input{info.tensor_idx}": arg for info, arg in tensors if info.is_input_tensor}
        results = model.run(inputs)
        for info, arg in tensors:
            if info.is_output_tensor:
                arg[...] = results[f"output{info.tensor_idx}"].reshape(arg.shape)

    return run


Executor = Callable[[Any, Any], Callable[..., None]]
EXECUTORS: List[Any] = [pytest.param(pysim, id="pysim"), pytest.param(compiled, id="X2_1204")]
ALL_EXECUTORS: List[Any] = [*EXECUTORS, pytest.param(interpreted, id="interpreter")]
