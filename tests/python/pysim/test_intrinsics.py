"""Every intrinsic, element type, width and form of mask: PySim, compiled code and the interpreter against NumPy."""

from __future__ import annotations

import functools
from typing import List

import aipu
import numpy as np
import pytest
from agreement import Plan
from cases import groups
from executors import compiled

_GROUPS = dict(groups())


@functools.lru_cache(maxsize=None)
def _plan(name: str) -> Plan:
    return Plan(name, _GROUPS[name])


def _report(failures: List[str]) -> str:
    return "\n".join([f"{len(failures)} cases:", *failures[:40]])


@pytest.mark.parametrize("name", sorted(_GROUPS))
def test_pysim(name: str, tmp_path) -> None:
    plan = _plan(name)
    kernel = plan.load(tmp_path)
    kernel.param_infos = []  # PySim alone: nothing is compiled
    output = np.full(plan.out_bytes, 0xA5, np.uint8)
    kernel(plan.input, output)
    failures = plan.mismatches(output)
    assert not failures, _report(failures)


@pytest.mark.parametrize("name", sorted(_GROUPS))
def test_compiled_and_interpreted(name: str, tmp_path) -> None:
    plan = _plan(name)
    executor = compiled(plan.load(tmp_path), tmp_path)
    output = np.full(plan.out_bytes, 0xA5, np.uint8)
    executor(plan.input, output)
    failures = plan.mismatches(output)
    assert not failures, "compiled: " + _report(failures)
    model = aipu.load(tmp_path / "kernel_x2" / "gbuilder" / "aipu.bin", backend="interp")
    (interpreted,) = model.run({"input0": plan.input}).values()
    failures = plan.mismatches(interpreted)
    assert not failures, "interpreted: " + _report(failures)
