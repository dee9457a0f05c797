"""Random programs give the same bytes as Python and compiled: ``AIPU_FUZZ_SEEDS`` (8) from ``AIPU_FUZZ_FIRST`` on."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import numpy_truth as truth
import pytest
from executors import compiled, pysim
from random_kernels import Generator

_FIRST = int(os.environ.get("AIPU_FUZZ_FIRST", "0"))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + int(os.environ.get("AIPU_FUZZ_SEEDS", "8"))))
def test_pysim_and_compiled_agree(seed: int, tmp_path) -> None:
    made = Generator(seed).make()
    path = tmp_path / f"random_{seed}.py"
    path.write_text(made.source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data = np.random.default_rng(seed).integers(0, 256, made.input_bytes).astype(np.uint8)
    results = []
    for executor in (pysim, compiled):
        out = np.zeros(made.output_bytes, np.uint8)
        executor(module.kernel, tmp_path)(data, out)
        results.append(out)
    for offset, dtype, lanes in made.outputs:
        size = lanes * max(truth.bits_of(dtype) // 8, 1)
        eager, device = (truth.from_memory(out[offset : offset + size], dtype).values for out in results)
        same = (eager == device) | ((eager != eager) & (device != device))
        assert same.all(), f"{dtype}x{lanes} at {offset}: {eager} as Python, {device} compiled\n{made.source}"
